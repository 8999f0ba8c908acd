"""Checks of the table metadata itself: members, counters, logs, statistics entries."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Any

from icectl.checks.finding import Finding, finding, is_absolute
from icectl.format.layout import Layout, layout_of_table
from icectl.format.metadata import TableMetadata

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

_METADATA = "metadata"


def check_metadata(metadata: TableMetadata, members: Mapping[str, Any]) -> Iterator[Finding]:
    """Check the metadata JSON, but for schemas, specs and snapshots.

    `members` is the JSON object, for what the value no longer tells.
    Spec: R-011 to R-014, R-016, R-017, R-024 to R-026, R-140 to R-142, R-164.
    """
    yield from _members(metadata, members)
    yield from _counters(metadata)
    yield from _snapshot_log(metadata)
    yield from _metadata_log(metadata)
    yield from _statistics(metadata)
    if not is_absolute(metadata.location):
        message = f"the location `{metadata.location}` is neither a URI nor an absolute path"
        yield finding("R-164", _METADATA, message)


def _members(metadata: TableMetadata, members: Mapping[str, Any]) -> Iterator[Finding]:
    version = metadata.format_version
    rule = {1: "R-012", 4: "V4-003"}.get(version, "R-011")
    for name in REQUIRED[min(version, 2)]:
        if members.get(name) is None:
            yield finding(rule, _METADATA, f"`{name}` is required in version {version}, and absent")
    if version >= 3 and members.get("current-snapshot-id") == -1:
        yield finding("R-016", _METADATA, "`current-snapshot-id` is -1, not null")


def _counters(metadata: TableMetadata) -> Iterator[Finding]:
    """The counters that new ids are taken from lie at or above every id in use (R-014)."""
    columns = (id_ for schema in metadata.schemas for id_ in schema.all_fields)
    partitions = (item.field_id for spec in metadata.partition_specs for item in spec.fields)
    expressions = (one.expr_id for one in metadata.expressions)
    for name, rule, counter, used in (
        ("last-column-id", "V4-009", metadata.last_column_id, chain(columns, expressions)),
        ("last-partition-id", "V4-013", metadata.last_partition_id, partitions),
    ):
        yield from _counter(metadata, name, rule, counter, used)
    yield from check_row_counters(metadata)
    newest = max((snapshot.timestamp_ms for snapshot in metadata.snapshots), default=0)
    if newest > metadata.last_updated_ms + CLOCK_SKEW_MS:
        yield finding("R-017", _METADATA, "`last-updated-ms` is before the newest snapshot")


def _counter(
    metadata: TableMetadata, name: str, rule: str, counter: int, used: Iterable[int]
) -> Iterator[Finding]:
    """Check a counter against what is in use; `rule` is what version 4 calls R-014 there."""
    highest = max(used, default=counter)
    if highest > counter:
        known = rule if layout_of_table(metadata) is Layout.SFC_1 else "R-014"
        yield finding(known, _METADATA, f"`{name}` is {counter}, but {highest} is in use")


def check_row_counters(metadata: TableMetadata) -> Iterator[Finding]:
    """Find the counters that the next commit numbers its rows by (R-014, R-104).

    Below a number in use, new rows get ids that others have, or fall under older deletes.
    """
    sequences = (snapshot.sequence_number for snapshot in metadata.snapshots)
    last = metadata.last_sequence_number
    yield from _counter(metadata, "last-sequence-number", "V4-017", last, sequences)
    ends = (
        snapshot.first_row_id + (snapshot.added_rows or 0)
        for snapshot in metadata.snapshots
        if snapshot.first_row_id is not None
    )
    if metadata.next_row_id is not None:
        highest = max(ends, default=0)
        if highest > metadata.next_row_id:
            message = f"`next-row-id` is {metadata.next_row_id}, but row ids reach {highest}"
            yield finding("R-104", _METADATA, message)


def _snapshot_log(metadata: TableMetadata) -> Iterator[Finding]:
    log = metadata.snapshot_log
    if any(
        after.timestamp_ms < before.timestamp_ms - CLOCK_SKEW_MS for before, after in pairwise(log)
    ):
        yield finding("R-025", "snapshot log", "its entries are not in the order of time")
    lost = [entry.snapshot_id for entry in log if metadata.snapshot(entry.snapshot_id) is None]
    if lost:
        message = f"{len(lost)} entries name snapshots that are gone; the last is {lost[-1]}"
        yield finding("R-026", "snapshot log", message)
    if log and log[-1].snapshot_id != metadata.current_snapshot_id:
        message = (
            f"it ends with snapshot {log[-1].snapshot_id}, "
            f"but the current one is {metadata.current_snapshot_id}"
        )
        yield finding("R-026", "snapshot log", message)


def _metadata_log(metadata: TableMetadata) -> Iterator[Finding]:
    log = metadata.metadata_log
    if any(
        after.timestamp_ms < before.timestamp_ms - CLOCK_SKEW_MS for before, after in pairwise(log)
    ):
        yield finding("R-024", "metadata log", "its entries are not in the order of time")
    for location, times in Counter(entry.metadata_file for entry in log).items():
        if times > 1:
            yield finding("R-024", "metadata log", f"it names `{location}` {times} times")


def _statistics(metadata: TableMetadata) -> Iterator[Finding]:
    for file in metadata.statistics:
        if metadata.snapshot(file.snapshot_id) is None:
            message = f"it describes snapshot {file.snapshot_id}, which is gone"
            yield finding("R-141", file.statistics_path, message)
        if file.file_footer_size_in_bytes > file.file_size_in_bytes:
            yield finding("R-140", file.statistics_path, "its footer is larger than the file")
    for partitions in metadata.partition_statistics:
        if metadata.snapshot(partitions.snapshot_id) is None:
            message = f"it describes snapshot {partitions.snapshot_id}, which is gone"
            yield finding("R-141", partitions.statistics_path, message)
    for snapshot_id, times in Counter(
        item.snapshot_id for item in metadata.partition_statistics
    ).items():
        if times > 1:
            message = f"it has {times} partition statistics files"
            yield finding("R-142", f"snapshot {snapshot_id}", message)
