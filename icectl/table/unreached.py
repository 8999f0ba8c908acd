"""Files of a listing that a table does not reach, each with the reason why it goes or stays."""

import re
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.compute as pc

from icectl.plan.remove_orphans import OrphanRule, Verdict
from icectl.storage.listing import LISTING_SCHEMA
from icectl.table.known_locations import KnownLocations

UNREACHED_SCHEMA = LISTING_SCHEMA.append(pa.field("verdict", pa.int8(), nullable=False))

_CHECK_SUM = r"/\.([^/]+)\.crc$"
_HIDDEN = r"(?:^|/)[._]"
_JOURNAL = r"/icectl-[a-z0-9-]+\.json$"
_METADATA_FILE = r"(?:^|/)[^/.][^/]*\.metadata\.json(?:\.gz)?$"


def unreached(listed: pa.RecordBatch, known: KnownLocations, rule: OrphanRule) -> pa.RecordBatch:
    """The listed files that are not among the known ones.

    A check sum `.x.crc` is judged as the file `x` is that it belongs to.
    Shape: UNREACHED_SCHEMA. Order: kept.
    """
    locations = listed["location"]
    owners = described_files(locations)
    reached = known.contains(locations)
    if owners is not locations:
        reached = pc.or_(reached, known.contains(owners))
    left = pc.invert(reached)
    table, owners = listed.filter(left), owners.filter(left)
    return pa.RecordBatch.from_arrays(
        [*table.columns, _verdicts(owners, table["modified_ms"], rule)], schema=UNREACHED_SCHEMA
    )


def described_files(locations: pa.Array) -> pa.Array:
    """For a check sum the file that it belongs to, for others the location itself.

    Order: kept. Returns `locations` where none is a check sum.
    """
    if not pc.any(pc.ends_with(locations, ".crc")).as_py():
        return locations
    return pc.replace_substring_regex(locations, _CHECK_SUM, r"/\1")


def metadata_files(listed: pa.RecordBatch) -> list[str]:
    """The locations of metadata JSON files, of whatever table. Order: kept."""
    locations = listed["location"]
    some = pc.or_(
        pc.ends_with(locations, ".metadata.json"), pc.ends_with(locations, ".metadata.json.gz")
    )
    named = locations.filter(some)
    found: list[str] = named.filter(pc.match_substring_regex(named, _METADATA_FILE)).to_pylist()
    return found


def _verdicts(locations: pa.Array, modified_ms: pa.Array, rule: OrphanRule) -> pa.Array:
    """The first reason to stay that holds; ORPHAN where none does."""
    is_old = pc.less(modified_ms, rule.older_than_ms)
    reasons = [
        (Verdict.JOURNAL, pc.match_substring_regex(locations, _JOURNAL)),
        (Verdict.HIDDEN, _are_hidden(locations, rule)),
        (Verdict.WITHOUT_TIME, pc.is_null(modified_ms)),
        (Verdict.RECENT, pc.invert(pc.fill_null(is_old, fill_value=False))),
    ]
    flags = pa.StructArray.from_arrays(
        [flag for _, flag in reasons], names=[verdict.name for verdict, _ in reasons]
    )
    codes = [pa.scalar(int(verdict), pa.int8()) for verdict, _ in reasons]
    return pc.case_when(flags, *codes, pa.scalar(int(Verdict.ORPHAN), pa.int8()))


def _are_hidden(locations: pa.Array, rule: OrphanRule) -> pa.Array:
    """Whether a part of the location behind its base begins with `_` or `.`."""
    bases = "|".join(re.escape(base.rstrip("/")) for base in rule.bases)
    inside = pc.replace_substring_regex(locations, f"^(?:{bases})/", "")
    odd = [name for name in rule.partition_names if name.startswith(("_", "."))]
    if odd:
        spelled = {text for name in odd for text in (name, quote_plus(name))}
        names = "|".join(re.escape(text) for text in sorted(spelled))
        inside = pc.replace_substring_regex(inside, f"(^|/)(?:{names})=", r"\1x=")
    return pc.match_substring_regex(inside, _HIDDEN)
