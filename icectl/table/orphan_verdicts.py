"""Files of a listing that a table does not reach: orphans, and why others stay."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import chain
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.files import (
    ListedFile,
    ListedFiles,
    including,
    listed_files,
    total_bytes,
    where,
)
from icectl.storage.listing import LISTING_SCHEMA
from icectl.storage.location import is_local
from icectl.storage.many_files import ManyFiles, by_location
from icectl.storage.new_files import TEMPORARY
from icectl.table.known_locations import KnownLocations
from icectl.table.reviewed import DELETE_FILE, Reviewed, ReviewedAct, listed_file
from icectl.units import print_instant


class OrphanVerdict(IntEnum):
    """The verdict on a file that the table does not reach."""

    ORPHAN = 0
    RECENT = 1
    WITHOUT_TIME = 2
    HIDDEN = 3
    JOURNAL = 4
    RUNNING = 5


@dataclass(frozen=True, slots=True)
class OrphanRule:
    """The rule that makes an orphan of a file that the table does not reach.

    It was modified before `older_than_ms`. No part of its location behind one of `bases` begins
    with `_` or `.`, except one of `partition_names` with a value. Its location has no uuid of a run
    in `running`, which may still commit.
    """

    older_than_ms: int
    bases: tuple[str, ...]
    partition_names: tuple[str, ...] = ()
    running: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OrphanPlan:
    """The plan of a run: the files to delete, and why others stay.

    `outside` are files outside of the table, in a folder that the caller named, deleted only if
    `deletes_outside`. `left_alone` counts unreached files that stay, by reason. `referenced_count`
    counts files that the table refers to, missing ones too. `former_metadata` are metadata files
    with the table's own uuid.
    """

    rule: OrphanRule
    listed_count: int
    listed_bytes: int
    referenced_count: int
    orphans: ManyFiles
    outside: ManyFiles
    left_alone: Mapping[OrphanVerdict, int]
    deletes_outside: bool
    max_fraction: float
    former_metadata: Collection[str] = ()

    @property
    def deletable_bytes(self) -> int:
        return self.orphans.total_bytes + (self.outside.total_bytes if self.deletes_outside else 0)

    @property
    def deletable_count(self) -> int:
        return len(self.orphans) + (len(self.outside) if self.deletes_outside else 0)

    @property
    def unproven_bytes(self) -> int:
        """Bytes to delete without those of metadata files, whose uuid proves the place right."""
        former = (including(part, self.former_metadata) for part in self.orphans)
        return self.deletable_bytes - sum(map(total_bytes, former))

    @property
    def is_too_much(self) -> bool:
        """Whether the plan exceeds the caller's limit: so many orphans may be an error."""
        return self.unproven_bytes > self.max_fraction * self.listed_bytes


def restrict_to_reviewed(plan: OrphanPlan, only: Reviewed) -> OrphanPlan:
    """Restrict a plan to the files that a reviewed plan names, with the same facts."""

    def reviewed(part: ListedFiles) -> ListedFiles:
        return where(part, [is_reviewed(file, only) for file in listed_files(part)])

    orphans, outside = (ManyFiles(map(reviewed, every)) for every in (plan.orphans, plan.outside))
    return replace(plan, orphans=orphans, outside=outside)


def is_reviewed(file: ListedFile, only: Reviewed) -> bool:
    """Return whether a reviewed plan deletes a file with these facts."""
    modified = None if file.modified_ms is None else print_instant(file.modified_ms)
    facts = listed_file(file.size_bytes, modified)
    return ReviewedAct(DELETE_FILE, file.location, facts) in only.acts


UNREACHED_SCHEMA = LISTING_SCHEMA.append(pa.field("verdict", pa.int8(), nullable=False))

_CHECK_SUM = r"/\.([^/]+)\.crc$"
_OF_A_MOMENT = f"(^|/){TEMPORARY}"
_HIDDEN = r"(?:^|/)[._]"
_JOURNAL = r"/icectl-[a-z0-9-]+\.json$"
_METADATA_FILE = (
    r"(?:^|/)[^/.][^/]*\.metadata\.json(?:\.gz)?$"
    r"|/_delta_log/[0-9]+\.json$|/\.hoodie/[^/]*\.properties$|/schema/schema-[0-9]+$"
)


def unreached(listed: pa.RecordBatch, known: KnownLocations, rule: OrphanRule) -> pa.RecordBatch:
    """Return the listed files that are not known; a checksum `.x.crc` counts as its file `x`.

    Shape: UNREACHED_SCHEMA. Order: kept.
    """
    locations = listed["location"]
    owners = described_files(locations)
    reached = known.contains(locations)
    if owners is not locations:
        reached = pc.or_(reached, known.contains(owners))
    is_unreached = pc.invert(reached)
    table, owners = listed.filter(is_unreached), owners.filter(is_unreached)
    return pa.RecordBatch.from_arrays(
        [*table.columns, _verdicts(owners, table["modified_ms"], rule)], schema=UNREACHED_SCHEMA
    )


def described_files(locations: pa.Array) -> pa.Array:
    """Return the file of each checksum, and other locations as they are.

    Order: kept. Returns `locations` itself without a checksum.
    """
    if not pc.any(pc.ends_with(locations, ".crc")).as_py():
        return locations
    return pc.replace_substring_regex(locations, _CHECK_SUM, r"/\1")


def listed_metadata(listed: pa.RecordBatch) -> list[str]:
    """Return the locations of metadata JSON files of any table. Order: kept.

    Logs of other table formats count too: their tables may share data files.
    """
    locations = listed["location"]
    is_candidate = pc.or_(
        pc.ends_with(locations, ".json"), pc.match_substring(locations, "/schema/schema-")
    )
    for ending in (".json.gz", ".properties"):
        is_candidate = pc.or_(is_candidate, pc.ends_with(locations, ending))
    candidates = locations.filter(is_candidate)
    names: list[str] = candidates.filter(
        pc.match_substring_regex(candidates, _METADATA_FILE)
    ).to_pylist()
    return names


def symbolic_links(listed: pa.RecordBatch) -> list[str]:
    """Return the locations of links to files, which have no time in a local listing.

    Order: kept.
    """
    if not listed.num_rows or not listed["modified_ms"].null_count:
        return []
    if not is_local(listed["location"][0].as_py()):
        return []
    links: list[str] = listed["location"].filter(pc.is_null(listed["modified_ms"])).to_pylist()
    return links


def orphans_among(
    batches: Iterable[pa.RecordBatch], are_reached: Callable[[pa.Array], pa.BooleanArray]
) -> tuple[ManyFiles, dict[OrphanVerdict, int]]:
    """Return the orphans among unreached files, and counts of the others by verdict.

    `are_reached` checks the orphans again, more closely.
    Shape: batches of UNREACHED_SCHEMA. Order: by location.
    """
    found, counts = ManyFiles(), dict.fromkeys(OrphanVerdict, 0)
    for batch in batches:
        for item in pc.value_counts(batch["verdict"]).to_pylist():
            counts[OrphanVerdict(item["values"])] += item["counts"]
        orphans = batch.filter(pc.equal(batch["verdict"], int(OrphanVerdict.ORPHAN)))
        orphans = orphans.filter(pc.invert(are_reached(described_files(orphans["location"]))))
        found.add(ListedFiles(pa.Table.from_batches([orphans.select(LISTING_SCHEMA.names)])))
    counts.pop(OrphanVerdict.ORPHAN)
    return by_location(found), counts


def lone_check_sums(listed: ManyFiles) -> Iterator[tuple[str, str]]:
    """Yield checksums whose file is not listed, each with that file. Order: kept."""
    if not any(map(_has_check_sums, listed)):
        return
    known = KnownLocations()
    for part in listed:
        known.add(part.table["location"])
    for part in filter(_has_check_sums, listed):
        locations = part.table["location"].combine_chunks()
        owners = described_files(locations)
        is_alone = pc.and_not(pc.not_equal(owners, locations), known.contains(owners))
        yield from zip(
            locations.filter(is_alone).to_pylist(), owners.filter(is_alone).to_pylist(), strict=True
        )


def _has_check_sums(listed: ListedFiles) -> bool:
    return bool(pc.any(pc.ends_with(listed.table["location"], ".crc"), min_count=0).as_py())


def check_sums_last(listed: Collection[ManyFiles]) -> Iterator[ListedFiles]:
    """Yield files that are no checksums, then checksums. Order: kept otherwise."""
    for is_sought in (pc.equal, pc.not_equal):
        for part in chain.from_iterable(listed):
            locations = part.table["location"].combine_chunks()
            yield where(part, is_sought(described_files(locations), locations))


def _verdicts(locations: pa.Array, modified_ms: pa.Array, rule: OrphanRule) -> pa.Array:
    """Return the first verdict that applies; ORPHAN without a reason to stay."""
    is_old = pc.less(modified_ms, rule.older_than_ms)
    of_running = pa.repeat(pa.scalar(value=False), len(locations))
    if rule.running:
        of_running = pc.match_substring_regex(locations, "|".join(rule.running))
    reasons = [
        (OrphanVerdict.JOURNAL, pc.match_substring_regex(locations, _JOURNAL)),
        (OrphanVerdict.RUNNING, of_running),
        (OrphanVerdict.HIDDEN, _are_hidden(locations, rule)),
        (OrphanVerdict.WITHOUT_TIME, pc.is_null(modified_ms)),
        (OrphanVerdict.RECENT, pc.invert(pc.fill_null(is_old, fill_value=False))),
    ]
    flags = pa.StructArray.from_arrays(
        [flag for _, flag in reasons], names=[verdict.name for verdict, _ in reasons]
    )
    codes = [pa.scalar(int(verdict), pa.int8()) for verdict, _ in reasons]
    return pc.case_when(flags, *codes, pa.scalar(int(OrphanVerdict.ORPHAN), pa.int8()))


def _are_hidden(locations: pa.Array, rule: OrphanRule) -> pa.Array:
    """Return whether a part of the location behind its base begins with `_` or `.`.

    icectl's temporary files don't count as hidden: a killed run has left them.
    """
    bases = "|".join(re.escape(base.rstrip("/")) for base in rule.bases)
    inside = pc.replace_substring_regex(locations, f"^(?:{bases})/", "")
    inside = pc.replace_substring_regex(inside, _OF_A_MOMENT, r"\1x")
    odd = [name for name in rule.partition_names if name.startswith(("_", "."))]
    if odd:
        spelled = {text for name in odd for text in (name, quote_plus(name))}
        names = "|".join(re.escape(text) for text in sorted(spelled))
        inside = pc.replace_substring_regex(inside, f"(^|/)(?:{names})=", r"\1x=")
    return pc.match_substring_regex(inside, _HIDDEN)
