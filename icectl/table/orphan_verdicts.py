"""Files of a listing that a table does not reach: which are orphans, and why others stay."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.files import ListedFile, ListedFiles, listed_files, total_bytes, where
from icectl.storage.listing import LISTING_SCHEMA
from icectl.storage.location import is_local
from icectl.storage.new_files import TEMPORARY
from icectl.table.known_locations import KnownLocations
from icectl.table.reviewed import DELETE_FILE, Reviewed, ReviewedAct, listed_file
from icectl.units import print_instant


class OrphanVerdict(IntEnum):
    """The verdict on a file that the table does not reach: why it goes, or stays."""

    ORPHAN = 0
    RECENT = 1
    WITHOUT_TIME = 2
    HIDDEN = 3
    JOURNAL = 4
    RUNNING = 5


@dataclass(frozen=True, slots=True)
class OrphanRule:
    """The rule that makes an orphan of a file that the table does not reach.

    It was modified before `older_than_ms`, and no part of its location behind one of `bases` begins
    with `_` or `.`, unless that is one of `partition_names` and its value. Nor does its location
    hold the uuid of one of the `running` runs, which may still commit what they have written.
    """

    older_than_ms: int
    bases: tuple[str, ...]
    partition_names: tuple[str, ...] = ()
    running: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OrphanPlan:
    """The plan of a run: the files that it would delete, of how much, and why the others stay.

    `outside` lies elsewhere than the table, in a folder that the caller named, and is deleted only
    if `deletes_outside`. `left_alone` counts files that nothing reaches by the reason why they
    stay; `referenced_count` is that of the files that the table refers to, there or not.
    """

    rule: OrphanRule
    listed_count: int
    listed_bytes: int
    referenced_count: int
    orphans: ListedFiles
    outside: ListedFiles
    left_alone: Mapping[OrphanVerdict, int]
    deletes_outside: bool
    max_fraction: float

    @property
    def deletable_bytes(self) -> int:
        """The bytes that a run would delete."""
        outside = total_bytes(self.outside) if self.deletes_outside else 0
        return total_bytes(self.orphans) + outside

    @property
    def deletable_count(self) -> int:
        """The number of files that a run would delete."""
        return len(self.orphans) + (len(self.outside) if self.deletes_outside else 0)

    @property
    def is_too_much(self) -> bool:
        """Whether more would go than the caller allows; that so much is orphaned hints at error."""
        return self.deletable_bytes > self.max_fraction * self.listed_bytes


def restrict_to_reviewed(plan: OrphanPlan, only: Reviewed) -> OrphanPlan:
    """The plan of those files alone that a plan names which was reviewed, and as it names them."""

    def named(listed: ListedFiles) -> ListedFiles:
        return where(listed, [_act(file) in only.acts for file in listed_files(listed)])

    return replace(plan, orphans=named(plan.orphans), outside=named(plan.outside))


def _act(file: ListedFile) -> ReviewedAct:
    modified = None if file.modified_ms is None else print_instant(file.modified_ms)
    return ReviewedAct(DELETE_FILE, file.location, listed_file(file.size_bytes, modified))


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
    """Return the listed files that are not among the known ones.

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
    """Return for a check sum the file that it belongs to, for others the location itself.

    Order: kept. Returns `locations` where none is a check sum.
    """
    if not pc.any(pc.ends_with(locations, ".crc")).as_py():
        return locations
    return pc.replace_substring_regex(locations, _CHECK_SUM, r"/\1")


def metadata_files(listed: pa.RecordBatch) -> list[str]:
    """Return the locations of metadata JSON files, of whatever table. Order: kept.

    The logs of other table formats count too: their tables may share the data files.
    """
    locations = listed["location"]
    some = pc.or_(
        pc.ends_with(locations, ".json"), pc.match_substring(locations, "/schema/schema-")
    )
    for ending in (".json.gz", ".properties"):
        some = pc.or_(some, pc.ends_with(locations, ending))
    named = locations.filter(some)
    names: list[str] = named.filter(pc.match_substring_regex(named, _METADATA_FILE)).to_pylist()
    return names


def symbolic_links(listed: pa.RecordBatch) -> list[str]:
    """Return the locations of links to files, which only a local listing shows: they have no time.

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
) -> tuple[ListedFiles, dict[OrphanVerdict, int]]:
    """The orphans among files that are not reached, and how many others stay for which reason.

    `are_reached` takes a closer look at those that would go.
    Shape: batches of UNREACHED_SCHEMA. Order: by location.
    """
    parts, counts = [LISTING_SCHEMA.empty_table()], dict.fromkeys(OrphanVerdict, 0)
    for batch in batches:
        for item in pc.value_counts(batch["verdict"]).to_pylist():
            counts[OrphanVerdict(item["values"])] += item["counts"]
        going = batch.filter(pc.equal(batch["verdict"], int(OrphanVerdict.ORPHAN)))
        going = going.filter(pc.invert(are_reached(described_files(going["location"]))))
        parts.append(pa.Table.from_batches([going.select(LISTING_SCHEMA.names)]))
    counts.pop(OrphanVerdict.ORPHAN)
    return ListedFiles(pa.concat_tables(parts).sort_by("location")), counts


def lone_check_sums(listed: ListedFiles) -> Sequence[tuple[str, str]]:
    """Check sums whose file is not among the files too, each with that file. Order: kept."""
    locations = listed.table["location"].combine_chunks()
    owners = described_files(locations)
    alone = pc.and_(
        pc.not_equal(owners, locations), pc.invert(pc.is_in(owners, value_set=locations))
    )
    return list(
        zip(locations.filter(alone).to_pylist(), owners.filter(alone).to_pylist(), strict=True)
    )


def check_sums_last(listed: ListedFiles) -> tuple[ListedFiles, ListedFiles]:
    """Return files that are no check sums, and check sums. Order: kept."""
    locations = listed.table["location"].combine_chunks()
    is_check_sum = pc.not_equal(described_files(locations), locations)
    return ListedFiles(listed.table.filter(pc.invert(is_check_sum))), ListedFiles(
        listed.table.filter(is_check_sum)
    )


def _verdicts(locations: pa.Array, modified_ms: pa.Array, rule: OrphanRule) -> pa.Array:
    """Return the first reason to stay that holds; ORPHAN where none does."""
    is_old = pc.less(modified_ms, rule.older_than_ms)
    reasons = [
        (OrphanVerdict.JOURNAL, pc.match_substring_regex(locations, _JOURNAL)),
        (OrphanVerdict.RUNNING, _are_of_runs(locations, rule.running)),
        (OrphanVerdict.HIDDEN, _are_hidden(locations, rule)),
        (OrphanVerdict.WITHOUT_TIME, pc.is_null(modified_ms)),
        (OrphanVerdict.RECENT, pc.invert(pc.fill_null(is_old, fill_value=False))),
    ]
    flags = pa.StructArray.from_arrays(
        [flag for _, flag in reasons], names=[verdict.name for verdict, _ in reasons]
    )
    codes = [pa.scalar(int(verdict), pa.int8()) for verdict, _ in reasons]
    return pc.case_when(flags, *codes, pa.scalar(int(OrphanVerdict.ORPHAN), pa.int8()))


def _are_of_runs(locations: pa.Array, uuids: Sequence[str]) -> pa.BooleanArray:
    if not uuids:
        return pa.repeat(pa.scalar(value=False), len(locations))
    return pc.match_substring_regex(locations, "|".join(uuids))


def _are_hidden(locations: pa.Array, rule: OrphanRule) -> pa.Array:
    """Return whether a part of the location behind its base begins with `_` or `.`.

    The names of icectl's own files of a moment count as any other: a killed run has left them.
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
