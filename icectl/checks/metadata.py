"""Rules of the table metadata itself, of what a version has, and of the files of a table."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from icectl.checks.live_entries import LiveRows, naming_statistics
from icectl.checks.objects import (
    LiveSnapshot,
    ManifestEntries,
    MetadataFile,
    StoredManifest,
    in_entries,
    in_snapshots,
)
from icectl.checks.rule import Breach, Check, at_most_once, of_object, rule
from icectl.entries.columns import Mask, mask_of
from icectl.entries.locations import are_relative
from icectl.errors import Refused
from icectl.format.locations import is_relative
from icectl.format.metadata import TableMetadata
from icectl.format.properties import GC_ENABLED, known_property, read
from icectl.format.rule import NEXT_COMMIT, OLDER_METADATA, OURS, ROLL_BACK, WRITER, Fault
from icectl.format.snapshot import (
    MetadataLogEntry,
    PartitionStatisticsFile,
    Snapshot,
    SnapshotLogEntry,
    StatisticsFile,
)
from icectl.format.types import is_nested, min_version, type_text
from icectl.units import print_count

REQUIRED: Mapping[int, tuple[str, ...]] = {
    1: ("schema", "partition-spec"),
    2: (
        "table-uuid", "last-sequence-number", "schemas", "current-schema-id", "partition-specs",
        "default-spec-id", "last-partition-id", "sort-orders", "default-sort-order-id",
    ),
}  # fmt: skip
"""Members that a version must have and that reading can do without."""

CLOCK_SKEW_MS = 60_000
"""How far the clocks of writers may differ: the reference implementation allows a minute."""


# -- members --------------------------------------------------------------------------------------


def absent_members(file: MetadataFile) -> Iterator[Breach]:
    """Find members that the version requires, and reading can do without."""
    for name in REQUIRED[min(file.version, 2)]:
        if file.members.get(name) is None:
            yield Breach(f"`{name}` is required in version {file.version}, and absent")


MINUS_1 = of_object(
    MetadataFile,
    "`current-snapshot-id` is -1, not null",
    lambda file: file.version >= 3 and file.members.get("current-snapshot-id") == -1,
)
"""Version 3 writes null for no current snapshot."""


def _is_disordered(log: Sequence[MetadataLogEntry | SnapshotLogEntry]) -> bool:
    return any(
        after.timestamp_ms < before.timestamp_ms - CLOCK_SKEW_MS for before, after in pairwise(log)
    )


METADATA_LOG = (
    of_object(
        MetadataFile,
        "its entries are not in the order of time",
        lambda file: _is_disordered(file.metadata.metadata_log),
        subject="metadata log",
    ),
    at_most_once(
        MetadataFile,
        "it names `{value}` {times} times",
        lambda file: [("metadata log", (one.metadata_file for one in file.metadata.metadata_log))],
    ),
)
DISORDERED_SNAPSHOT_LOG = of_object(
    MetadataFile,
    "its entries are not in the order of time",
    lambda file: _is_disordered(file.metadata.snapshot_log),
    "warning",
    subject="snapshot log",
)


def gaps_in_snapshot_log(file: MetadataFile) -> Iterator[Breach]:
    """Find entries of snapshots that are gone, and another end than the current snapshot."""
    metadata, log = file.metadata, file.metadata.snapshot_log
    lost = [entry.snapshot_id for entry in log if metadata.snapshot(entry.snapshot_id) is None]
    if lost:
        message = f"{len(lost)} entries name snapshots that are gone; the last is {lost[-1]}"
        yield Breach(message, "snapshot log")
    if log and log[-1].snapshot_id != metadata.current_snapshot_id:
        message = (
            f"it ends with snapshot {log[-1].snapshot_id}, "
            f"but the current one is {metadata.current_snapshot_id}"
        )
        yield Breach(message, "snapshot log")


# -- statistics files -----------------------------------------------------------------------------


def _large_footers(file: MetadataFile) -> Iterator[Breach]:
    for one in file.metadata.statistics:
        if one.file_footer_size_in_bytes > one.file_size_in_bytes:
            yield Breach("its footer is larger than the file", one.statistics_path)


_NUMBERS = re.compile(r"(?<![0-9A-Za-z])[1-9][0-9]*(?![0-9A-Za-z])")


def snapshots_named(file: StatisticsFile | PartitionStatisticsFile) -> frozenset[int]:
    """Return what may be snapshots in the name of a statistics file, and those of its blobs.

    Writers compute at least one blob from the file's snapshot, and name partition statistics
    `partition-stats-<snapshot>-<uuid>`.
    """
    numbers = _NUMBERS.findall(file.statistics_path.rpartition("/")[2])
    if isinstance(file, StatisticsFile):
        numbers += [str(blob.get("snapshot-id")) for blob in file.blob_metadata]
    return frozenset(int(number) for number in numbers if number.isdecimal())


def other_snapshots(
    metadata: TableMetadata, file: StatisticsFile | PartitionStatisticsFile
) -> frozenset[int]:
    """Return the snapshots of the table that a statistics file names; none if its own is one.

    Nor are older ones: engines give a snapshot that only rewrites files the statistics of another.
    """
    named, known = snapshots_named(file), metadata.snapshots_by_id
    if file.snapshot_id in named:
        return frozenset()
    own = known.get(file.snapshot_id)
    others = named & known.keys()
    return frozenset(id_ for id_ in others if own is None or _order(known[id_]) > _order(own))


def _order(snapshot: Snapshot) -> tuple[int, int]:
    """Return what grows from commit to commit; version 1 has only times."""
    return snapshot.sequence_number, snapshot.timestamp_ms


def wrong_statistics(file: MetadataFile) -> Iterator[Breach]:
    """Find statistics of snapshots that are gone, or that name newer snapshots than their own."""
    metadata = file.metadata
    for one in metadata.every_statistics:
        message = f"it describes snapshot {one.snapshot_id}"
        if others := other_snapshots(metadata, one):
            yield Breach(f"{message}, but it names snapshot {min(others)}", one.statistics_path)
        elif metadata.snapshot(one.snapshot_id) is None:
            yield Breach(f"{message}, which is gone", one.statistics_path)


REPEATED_PARTITION_STATISTICS = at_most_once(
    MetadataFile,
    "it has {times} partition statistics files",
    lambda file: [
        ("snapshot {value}", (one.snapshot_id for one in file.metadata.partition_statistics))
    ],
)


# -- locations ------------------------------------------------------------------------------------


RELATIVE_LOCATION = of_object(
    MetadataFile,
    "the location `{one.metadata.location}` is neither a URI nor an absolute path",
    lambda file: is_relative(file.metadata.location),
)
"""Such a location depends on a working directory."""


def _relative_files(entries: ManifestEntries) -> Mask | None:
    if is_relative(entries.metadata.location):
        return None
    return mask_of(are_relative(entries.table["location"]))


def _outside(live: LiveSnapshot) -> Iterator[Breach]:
    outside = live.faults.outside
    yield from breaches_of_places(
        [outside[number] for number in set(live.numbers) if number in outside]
    )


def breaches_of_places(faults: Sequence[Fault]) -> Iterator[Breach]:
    """Yield that files lie outside of the table; `faults` are those of its manifests (R-161)."""
    if faults:
        count = sum(fault.count for fault in faults)
        lie = f"{print_count(count, 'file')} {'lies' if count == 1 else 'lie'}"
        yield Breach(f"{lie} outside of the table; the first is `{faults[0].location}`")


# -- properties -----------------------------------------------------------------------------------

RETENTION_PROPERTIES = "history.expire."


def malformed(wanted: Callable[[str], bool]) -> Check[MetadataFile]:
    """Find properties that icectl reads with texts that are no values of them, by their names."""

    def search(file: MetadataFile) -> Iterator[Breach]:
        for name in filter(wanted, file.metadata.properties):
            known = known_property(name)
            try:
                if known is not None:
                    read(file.metadata.properties, known)
            except Refused as error:
                yield Breach(error.message, "table properties", "warning", error.hint)

    return Check(MetadataFile, search)


# -- versions -------------------------------------------------------------------------------------


def _early_types(file: MetadataFile) -> Iterator[Breach]:
    for schema in file.metadata.schemas:
        for id_, column in schema.all_fields.items():
            needed = 1 if is_nested(column.type) else min_version(column.type)
            if needed > file.version:
                message = (
                    f"column `{schema.name_of(id_)}` has a type of version {needed}: "
                    f"{type_text(column.type)}"
                )
                yield Breach(message, f"schema {schema.schema_id}")


# fmt: off
METADATA_RULES = (
    rule("R-001", "the format version is one that icectl reads", "Table Metadata Fields", "error",
         "use a newer icectl, or the engine that wrote the table"),
    rule("R-002", "the table keeps its uuid", "Table Metadata Fields", "error",
         "find out whether another table has been put in its place"),
    rule("R-003", "files of older format versions stay valid", "Format Versioning", "info", OURS),
    rule("R-004", "fields that an older version did not have are optional", "Writer requirements",
         "error", WRITER),
    rule("R-005", "the metadata file is a JSON object", "Writer requirements", "error",
         OLDER_METADATA),
    rule("R-006", "a compressed metadata file is complete", "Appendix C", "error", OLDER_METADATA),
    rule("R-008", "columns of manifests are found by field id", "Appendix A", "error",
         "restore the file from a copy, or roll back to an older snapshot with the engine"),
    rule("R-010", "members that version 1 lacks have defaults", "Appendix E", "info",
         "`icectl migrate-v1-v2 TABLE` writes them out"),
    rule("R-011", "the metadata has every required member", "Table Metadata Fields", "error",
         OLDER_METADATA,
         Check(MetadataFile, lambda one: absent_members(one) if one.version > 1 else ())),
    rule("R-012", "version 1 writes `schema` and `partition-spec`", "Table Metadata Fields",
         "warning", "`icectl migrate-v1-v2 TABLE` makes them unnecessary",
         Check(MetadataFile, lambda one: absent_members(one) if one.version == 1 else ())),
    rule("R-013", "version 3 has `next-row-id`", "Table Metadata Fields", "error", OLDER_METADATA),
    rule("R-016", "version 3 does not write -1 for no current snapshot", "Appendix F", "warning",
         NEXT_COMMIT, MINUS_1),
    rule("R-017", "the time of the last update is not before its newest snapshot",
         "Table Metadata Fields", "warning", "check the clocks of the writers",
         of_object(MetadataFile, "`last-updated-ms` is before the newest snapshot",
                   lambda one: one.metadata.last_updated_ms + CLOCK_SKEW_MS < max(
                       (snapshot.timestamp_ms for snapshot in one.metadata.snapshots),
                       default=0))),
    rule("R-018", "properties steer reading and writing; unknown ones and unknown members survive",
         "Table Metadata Fields", "error", "correct the table property",
         malformed(lambda name: name != GC_ENABLED.name
                   and not name.startswith(RETENTION_PROPERTIES))),
    rule("R-024", "the metadata log is in order and bounded", "Table Metadata Fields", "warning",
         "lower `write.metadata.previous-versions-max`; the next commit trims the log",
         *METADATA_LOG),
    rule("R-025", "the snapshot log is in order of time", "Table Metadata Fields", "warning",
         "check the clocks of the writers; time travel by timestamp may return a wrong "
         "snapshot",
         DISORDERED_SNAPSHOT_LOG),
    rule("R-026", "the snapshot log has no gap and ends with the current snapshot",
         "Table Metadata Fields", "warning",
         "`icectl expire-snapshots TABLE` cuts the log behind the gap, with the next snapshot",
         Check(MetadataFile, gaps_in_snapshot_log)),
    rule("R-034", "every file that a snapshot reads exists", "Table Metadata Fields", "error",
         ROLL_BACK),
    rule("R-140", "entries of statistics files are complete", "Table Statistics", "warning",
         "let the engine compute the statistics again", Check(MetadataFile, _large_footers),
         Check(LiveRows, naming_statistics)),
    rule("R-141", "statistics belong to a snapshot that exists", "Table Statistics", "warning",
         "`icectl repair TABLE` removes the entry",
         Check(MetadataFile, wrong_statistics)),
    rule("R-142", "a snapshot has at most one partition statistics file", "Partition Statistics",
         "warning", "let the engine compute the statistics again", REPEATED_PARTITION_STATISTICS),
    rule("R-143", "partition statistics count deletes by the rules of version 3",
         "Partition Statistics File", "warning", "let the engine compute the statistics again",
         not_enforced="icectl writes them by this rule, and adds to others' if these count "
         "as many files as the manifests"),
    rule("R-160", "metadata files of catalog tables are named `<V>-<uuid>.metadata.json`",
         "Metastore Tables", "info", OURS),
    rule("R-161", "`write.metadata.path` and `write.data.path` say where new files go",
         "Appendix F", "info", "icectl reads them there, and deletes none without being asked",
         Check(LiveSnapshot, _outside)),
    rule("R-162", "a version of a file-system table is written once", "File System Tables", "error",
         "keep one writer, or move the table into a catalog"),
    rule("R-163", "the version hint may be stale", "File System Tables", "info", NEXT_COMMIT),
    rule("R-164", "locations are URIs or absolute paths", "File Locations", "warning",
         "read a moved copy with `--path-map FROM=TO`",
         RELATIVE_LOCATION,
         in_entries("a location that is neither a URI nor an absolute path", _relative_files)),
    rule("R-170", "version 2 metadata is complete after an upgrade", "Appendix E", "error",
         "`icectl migrate-v1-v2 TABLE` writes it"),
    rule("R-173", "partition fields have ids in version 2 and later",
         "Partition Evolution", "error",
         "`icectl migrate-v1-v2 TABLE` writes them out"),
    rule("R-176", "a table never goes back to an older format version", "Format Versioning",
         "error", OURS),
    rule("R-177", "the table uses only features of its format version", "Format Versioning",
         "error", "upgrade the table, or undo the change with the engine",
         Check(MetadataFile, _early_types),
         in_snapshots("has a first row id in version {metadata.format_version}",
                      lambda one, metadata: metadata.format_version < 3
                      and one.first_row_id is not None, "warning"),
         of_object(StoredManifest,
                   "it has version {one.header.format_version}, the table "
                   "{one.metadata.format_version}",
                   lambda one: one.header.format_version > one.metadata.format_version),
         in_entries("a first row id before version 3",
                    lambda one: one.present("first_row_id") if one.metadata.format_version < 3
                    else None, "warning"),
         in_entries("deletion vectors before version 3",
                    lambda one: one.vectors() if one.holds_deletes
                    and one.metadata.format_version < 3 else None)),
    rule("R-203", "version 2 metadata has `schemas`, not `schema`", "Table Metadata Fields", "info",
         OURS, not_enforced="a choice between sources; R-011 enforces it"),
    rule("R-206", "the snapshot id of a statistics file may be a string", "Table Statistics",
         "info", NEXT_COMMIT),
    rule("R-209", "a rename is not a safe commit", "File System Tables", "info", OURS,
         not_enforced="a choice between sources; R-162 enforces it"),
)
# fmt: on
