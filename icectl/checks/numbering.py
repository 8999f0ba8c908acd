"""Rules of sequence numbers and row ids: where they come from, and what they may not exceed."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from icectl.checks.identity import put_back_id
from icectl.checks.live_entries import (
    LiveRows,
    late,
    renumbered,
    with_row_ids_above_next,
    with_row_ids_of_others,
)
from icectl.checks.objects import (
    CommitBase,
    LiveSnapshot,
    ManifestEntries,
    ManifestList,
    MetadataFile,
    StoredManifest,
    in_entries,
    in_lists,
    in_live,
    in_snapshots,
)
from icectl.checks.rule import Breach, Check, at_most_once, rule
from icectl.checks.snapshots import own_ancestors
from icectl.entries.columns import Integers, Mask
from icectl.format.manifest import ManifestContent, ManifestFile, Status
from icectl.format.rule import (
    COUNTER,
    OURS,
    REPAIR_LIST,
    RESTORE,
    REWRITE_MANIFESTS,
    ROLL_BACK,
    WRITER,
)
from icectl.format.snapshot import Snapshot

# -- counters of the metadata ---------------------------------------------------------------------


def _above_counter(name: str, counter: int, used: Iterable[int]) -> Iterator[Breach]:
    """Yield that an id above its counter is in use."""
    highest = max(used, default=counter)
    if highest > counter:
        yield Breach(f"`{name}` is {counter}, but {highest} is in use")


def sequence_numbers_above_counter(base: CommitBase) -> Iterator[Breach]:
    """New rows below a number in use fall under older deletes; in version 1 there are none."""
    if base.metadata.format_version == 1:
        return
    used = (snapshot.sequence_number for snapshot in base.metadata.snapshots)
    yield from _above_counter("last-sequence-number", base.metadata.last_sequence_number, used)


def column_ids_above_counter(file: MetadataFile) -> Iterator[Breach]:
    """Find ids of columns and expressions above their counter."""
    metadata = file.metadata
    used = {id_ for schema in metadata.schemas for id_ in schema.all_fields}
    used.update(expression.expr_id for expression in metadata.expressions)
    yield from _above_counter("last-column-id", metadata.last_column_id, used)


def partition_ids_above_counter(file: MetadataFile) -> Iterator[Breach]:
    """Find ids of partition fields above their counter."""
    metadata = file.metadata
    used = (field.field_id for spec in metadata.partition_specs for field in spec.fields)
    yield from _above_counter("last-partition-id", metadata.last_partition_id, used)


def row_ids_above_counter(base: CommitBase) -> Iterator[Breach]:
    """New rows below a row id in use get ids that others have."""
    metadata = base.metadata
    ends = (
        snapshot.first_row_id + (snapshot.added_rows or 0)
        for snapshot in metadata.snapshots
        if snapshot.first_row_id is not None
    )
    highest = max(ends, default=0)
    if metadata.next_row_id is not None and highest > metadata.next_row_id:
        yield Breach(f"`next-row-id` is {metadata.next_row_id}, but row ids reach {highest}")


# -- sequence numbers -----------------------------------------------------------------------------


def _numbered(file: MetadataFile) -> Sequence[Snapshot]:
    """Return the snapshots with sequence numbers, of which version 1 has none."""
    snapshots = file.metadata.snapshots if file.version > 1 else ()
    return [snapshot for snapshot in snapshots if snapshot.sequence_number > 0]


def _falling(file: MetadataFile) -> Iterator[Breach]:
    """Sequence numbers of snapshots are above that of the parent."""
    metadata = file.metadata
    circular = own_ancestors(metadata)
    for snapshot in _numbered(file):
        parent = metadata.snapshot(snapshot.parent_snapshot_id or -1)
        if (
            parent is not None
            and snapshot.sequence_number <= parent.sequence_number
            and snapshot.snapshot_id not in circular
        ):
            message = (
                f"its sequence number {snapshot.sequence_number} is not above that of its parent, "
                f"{parent.sequence_number}"
            )
            yield Breach(message, f"snapshot {snapshot.snapshot_id}")


SNAPSHOT_NUMBERS = (
    Check(MetadataFile, _falling),
    at_most_once(
        MetadataFile,
        "{times} of them have the sequence number {value}",
        lambda file: [("snapshots", (one.sequence_number for one in _numbered(file)))],
    ),
)


def _of_snapshot(listed: ManifestList) -> Iterator[Breach]:
    """A manifest's number is not above the snapshot's, which the snapshot's own manifests have."""
    snapshot = listed.snapshot
    is_put_back = put_back_id(listed.metadata, snapshot, listed.properties) is not None
    numbers = {id_: one.sequence_number for id_, one in listed.metadata.snapshots_by_id.items()}
    for one in listed.manifests if listed.metadata.format_version > 1 else ():
        number = one.sequence_number
        if number > snapshot.sequence_number:
            message = (
                f"its sequence number {number} is above that of snapshot {snapshot.snapshot_id}, "
                f"{snapshot.sequence_number}"
            )
            yield Breach(message, one.manifest_path)
        elif number < snapshot.sequence_number and one.added_snapshot_id == snapshot.snapshot_id:
            message = (
                f"snapshot {snapshot.snapshot_id} added it, but its sequence number is {number}, "
                f"not {snapshot.sequence_number}"
            )
            yield Breach(message, one.manifest_path, "info" if is_put_back else None)
        elif one.added_snapshot_id in numbers and number != numbers[one.added_snapshot_id]:
            message = (
                f"snapshot {one.added_snapshot_id} added it, but its sequence number is {number}, "
                f"not {numbers[one.added_snapshot_id]}"
            )
            yield Breach(message, one.manifest_path)


def _without(entries: ManifestEntries, number: str, *statuses: Status) -> Mask | None:
    if not entries.has_sequence_numbers:
        return None
    return entries.absent(number) & entries.of("status", *statuses)


def _live_numbers(stored: StoredManifest, row: ManifestFile) -> Integers:
    """Return the data sequence numbers of live entries, as a row of a list lets them inherit."""
    columns = stored.columns
    own = columns.numbers("sequence_number")
    numbers = np.where(columns.absent("sequence_number"), row.sequence_number, own)
    return numbers[~columns.of("status", Status.DELETED)]


def _least_of_entries(stored: StoredManifest) -> Iterator[Breach]:
    """A least number below them all only costs time."""
    for row in stored.described:
        numbers = _live_numbers(stored, row)
        if len(numbers) and row.min_sequence_number > numbers.min():
            yield Breach(
                f"its least sequence number is {row.min_sequence_number} in the list, "
                f"but an entry has {numbers.min()}"
            )


def _changed_number(stored: StoredManifest) -> Iterator[Breach]:
    for row in stored.described:
        numbers = _live_numbers(stored, row)
        if len(numbers) and numbers.max() > row.sequence_number > 0:  # none counts in version 1
            yield Breach(
                f"an entry has sequence number {numbers.max()}, above its own, "
                f"{row.sequence_number}"
            )
    listed = sorted({row.sequence_number for row in stored.described})
    if len(listed) > 1:
        message = f"manifest lists give it different sequence numbers, {listed[0]} and {listed[-1]}"
        yield Breach(message)


def _number_of_the_future(snapshot: LiveSnapshot) -> Iterator[Breach]:
    if snapshot.metadata.format_version > 1 and snapshot.chosen.any():
        greatest = int(snapshot.faults.greatest_number[snapshot.chosen].max())
        if greatest > snapshot.snapshot.sequence_number:
            yield Breach(
                f"a file has sequence number {greatest}, above its own, "
                f"{snapshot.snapshot.sequence_number}"
            )


# -- row ids --------------------------------------------------------------------------------------


def _snapshot_row_ids(file: MetadataFile) -> Iterator[Breach]:
    """Row ids of a snapshot begin where those of its parent end, or later."""
    for snapshot in file.metadata.snapshots:
        parent = file.metadata.snapshot(snapshot.parent_snapshot_id or -1)
        if snapshot.first_row_id is None or parent is None or parent.first_row_id is None:
            continue
        end = parent.first_row_id + (parent.added_rows or 0)
        if snapshot.first_row_id < end:
            message = (
                f"its row ids begin at {snapshot.first_row_id}, those of its parent end at {end}"
            )
            yield Breach(message, f"snapshot {snapshot.snapshot_id}")


ABSENT_ADDED_ROWS = in_snapshots(
    "has a first row id, but does not say how many it takes",
    lambda one, _: one.first_row_id is not None and one.added_rows is None,
)


def _assigns_row_ids(listed: ManifestList) -> bool:
    """From version 3 on data manifests of a new snapshot have a first row id."""
    return listed.metadata.format_version >= 3 and listed.snapshot.first_row_id is not None


def _without_row_ids(listed: ManifestList) -> Iterator[Breach]:
    if not _assigns_row_ids(listed):
        return
    lacking = [
        manifest.manifest_path
        for manifest in listed.manifests
        if manifest.content is ManifestContent.DATA and manifest.first_row_id is None
    ]
    if lacking:
        yield Breach(
            f"{len(lacking)} data manifests have no first row id; the first is `{lacking[0]}`"
        )


def _is_above_next(row: ManifestFile, listed: ManifestList) -> bool:
    next_row_id = listed.metadata.next_row_id
    is_numbered = row.content is ManifestContent.DATA and row.first_row_id is not None
    return is_numbered and next_row_id is not None and (row.first_row_id or 0) > next_row_id


def _row_ids_above_next(snapshot: LiveSnapshot) -> Iterator[Breach]:
    next_row_id = snapshot.metadata.next_row_id
    if next_row_id is not None and snapshot.chosen.any():
        reached = int(snapshot.faults.greatest_row_id[snapshot.chosen].max())
        if reached > next_row_id:
            yield Breach(f"row ids of its files reach {reached}, `next-row-id` is {next_row_id}")


# fmt: off
NUMBER_RULES = (
    rule("R-014", "counters of ids are at or above every id in use", "Table Metadata Fields",
         "error", COUNTER,
         Check(CommitBase, sequence_numbers_above_counter),
         Check(MetadataFile, column_ids_above_counter),
         Check(MetadataFile, partition_ids_above_counter)),
    rule("R-040", "sequence numbers grow with every commit", "Sequence Numbers", "error", WRITER,
         *SNAPSHOT_NUMBERS),
    rule("R-041", "new manifests take the sequence number of their snapshot",
         "Sequence Number Inheritance", "error", WRITER, Check(ManifestList, _of_snapshot)),
    rule("R-042", "only added entries inherit sequence numbers", "Manifest Entry Fields", "error",
         WRITER,
         in_entries("no snapshot id, and none to inherit,",
                    lambda one: None if one.has_snapshot else one.absent("snapshot_id"))),
    rule("R-043", "existing and deleted entries carry their sequence numbers",
         "Sequence Number Inheritance", "error", ROLL_BACK,
         in_entries("status EXISTING without a data sequence number",
                    lambda one: _without(one, "sequence_number", Status.EXISTING)),
         in_entries("status DELETED without a data sequence number",
                    lambda one: _without(one, "sequence_number", Status.DELETED), "warning"),
         # Early writers of version 2 left it out; only the detection of changes reads it.
         in_entries("no file sequence number",
                    lambda one: _without(one, "file_sequence_number", Status.EXISTING,
                                         Status.DELETED), "warning")),
    rule("R-044", "the data sequence number of a file never changes", "Manifest Entry Fields",
         "error", ROLL_BACK,
         Check(StoredManifest, _changed_number), Check(LiveSnapshot, _number_of_the_future),
         Check(LiveRows, late), Check(LiveRows, renumbered)),
    rule("R-045", "a compacted file keeps the data sequence number it started from",
         "Sequence Number Inheritance", "error", OURS),
    rule("R-046", "manifests of version 1 have sequence number 0 and hold data", "Appendix E",
         "info", OURS),
    rule("R-047", "the minimum sequence number of a manifest is that of its live entries",
         "Manifest Lists", "error", REPAIR_LIST,
         in_lists("its least sequence number {one.min_sequence_number} is above its own, "
                  "{one.sequence_number}",
                  lambda one, _: one.min_sequence_number > one.sequence_number,
                  versions=range(2, 5)),
         Check(StoredManifest, _least_of_entries)),
    rule("R-048", "version 1 has no sequence numbers and no deletes in manifests", "Appendix E",
         "error", REWRITE_MANIFESTS,
         in_lists("it has the sequence number {one.sequence_number} in a table of version 1",
                  lambda one, _: bool(one.sequence_number or one.min_sequence_number), "warning",
                  versions=(1,)),
         in_entries("a sequence number of version 2",
                    lambda one: one.present("sequence_number") if one.format_version == 1
                    else None, "warning")),
    rule("R-100", "row ids are the stored ones, else counted from the file's first", "Row Lineage",
         "error", RESTORE),
    rule("R-101", "the row ids of a snapshot start at the table's next row id", "Snapshot Row IDs",
         "error", WRITER,
         in_snapshots("its row ids are negative",
                      lambda one, _: one.first_row_id is not None and one.added_rows is not None
                      and min(one.added_rows, one.first_row_id) < 0),
         Check(MetadataFile, _snapshot_row_ids)),
    rule("R-102", "data manifests get first row ids one after another", "First Row ID Assignment",
         "error", WRITER,
         Check(ManifestList, _without_row_ids),
         in_lists("it holds deletes, but has a first row id",
                  lambda one, listed: one.content is ManifestContent.DELETES
                  and one.first_row_id is not None and _assigns_row_ids(listed), "warning"),
         in_lists("its first row id {one.first_row_id} is above `next-row-id`, "
                  "{listed.metadata.next_row_id}",
                  lambda one, listed: _is_above_next(one, listed) and _assigns_row_ids(listed))),
    rule("R-103", "data files inherit first row ids from their manifest",
         "First Row ID Inheritance", "error", WRITER,
         in_live("has row ids that another file has too",
                 lambda one: one.faults.row_ids.overlapping(one.chosen)),
         Check(LiveRows, with_row_ids_of_others)),
    rule("R-104", "the next row id grows by the rows that a snapshot adds", "Snapshot Row IDs",
         "error", WRITER,
         Check(CommitBase, row_ids_above_counter), ABSENT_ADDED_ROWS,
         Check(LiveSnapshot, _row_ids_above_next), Check(LiveRows, with_row_ids_above_next)),
    rule("R-105", "rewritten rows keep their row ids", "Row Lineage", "error", RESTORE),
    rule("R-106", "snapshots from before version 3 have no row ids",
         "Row Lineage for Upgraded Tables", "info", OURS),
    rule("R-174", "row ids start at 0 when a table becomes version 3", "Appendix E", "error", OURS),
)
# fmt: on
