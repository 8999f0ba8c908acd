"""Checks of snapshots and refs in the table metadata."""

from collections import Counter
from collections.abc import Iterator

from icectl.checks.finding import Finding, finding
from icectl.format.layout import Layout, layout_of_table
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot, SnapshotRef

OPERATIONS = frozenset({"append", "replace", "overwrite", "delete"})


def check_snapshots(metadata: TableMetadata) -> Iterator[Finding]:
    """Find snapshots, their parents, sequence numbers and row ids, and the refs that name them.

    Spec: R-015, R-022, R-027, R-030, R-031, R-033, R-035, R-040, R-055, R-101, R-177, R-185.
    """
    for snapshot_id, times in Counter(item.snapshot_id for item in metadata.snapshots).items():
        if times > 1:
            message = f"{times} snapshots have this id"
            yield finding("R-033", f"snapshot {snapshot_id}", message)
    for snapshot in metadata.snapshots:
        yield from _members(metadata, snapshot)
        yield from _parent(metadata, snapshot)
        yield from _row_ids(metadata, snapshot)
    yield from _sequence_numbers(metadata)
    for name, ref in metadata.refs.items():
        yield from _ref(metadata, name, ref)
    yield from check_main(metadata)


def check_main(metadata: TableMetadata) -> Iterator[Finding]:
    """Branch main is at the current snapshot: else a commit to one would undo the other (R-015)."""
    main = metadata.refs.get("main")
    if main is not None and main.snapshot_id != metadata.current_snapshot_id:
        message = (
            f"it is at snapshot {main.snapshot_id}, "
            f"but the current one is {metadata.current_snapshot_id}"
        )
        yield finding("R-015", "branch main", message)


def _members(metadata: TableMetadata, snapshot: Snapshot) -> Iterator[Finding]:
    subject = f"snapshot {snapshot.snapshot_id}"
    if snapshot.snapshot_id < 0:
        yield finding("R-033", subject, "the id is negative", severity="warning")
    if layout_of_table(metadata) is Layout.MANIFEST_LISTS:
        yield from _contents(metadata, snapshot, subject)
    if metadata.format_version > 1 and not snapshot.summary:
        yield finding("R-030", subject, "has no summary", severity="warning")
    operation = snapshot.operation
    if operation is not None and operation not in OPERATIONS:
        yield finding("R-031", subject, f"the operation `{operation}` is none of the format")
    if snapshot.schema_id is not None and metadata.schema(snapshot.schema_id) is None:
        yield finding("R-185", subject, f"its schema {snapshot.schema_id} is not in `schemas`")
    if metadata.format_version < 3 and snapshot.first_row_id is not None:
        message = f"has a first row id in version {metadata.format_version}"
        yield finding("R-177", subject, message, severity="warning")
    if metadata.format_version == 1 and snapshot.sequence_number:
        message = f"has sequence number {snapshot.sequence_number} in version 1"
        yield finding("R-035", subject, message)


def _contents(metadata: TableMetadata, snapshot: Snapshot, subject: str) -> Iterator[Finding]:
    embeds, lists = snapshot.manifests is not None, snapshot.manifest_list is not None
    if embeds and lists:
        message = "names a manifest list, and embeds manifests too"
        yield finding("R-030", subject, message, severity="warning")
    if not embeds and not lists and snapshot.root_manifest is None:
        yield finding("R-030", subject, "names neither a manifest list nor manifests")
    if embeds and metadata.format_version > 1:
        message = "embeds its manifests, which only version 1 may"
        # Sequence numbers are inherited from lists; without any, every file has number 0.
        yield finding("R-055", subject, message, severity="warning")


def _parent(metadata: TableMetadata, snapshot: Snapshot) -> Iterator[Finding]:
    if snapshot.parent_snapshot_id is None:
        return
    subject = f"snapshot {snapshot.snapshot_id}"
    parent = metadata.snapshot(snapshot.parent_snapshot_id)
    if parent is None:
        message = f"its parent {snapshot.parent_snapshot_id} is not in `snapshots`"
        hint = "nothing to do: expiring a parent leaves its id behind"
        yield finding("R-030", subject, message, severity="info", hint=hint)
    elif _returns(metadata, snapshot):
        yield finding("R-030", subject, "is its own ancestor")
    elif _numbered(metadata, snapshot) and snapshot.sequence_number <= parent.sequence_number:
        message = (
            f"its sequence number {snapshot.sequence_number} is not above that of its parent, "
            f"{parent.sequence_number}"
        )
        yield finding("R-040", subject, message)


def _numbered(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Return whether a snapshot is of a version with sequence numbers."""
    return metadata.format_version > 1 and snapshot.sequence_number > 0


def _returns(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Return whether following the parents of a snapshot leads back to it."""
    seen: set[int] = set()
    current: Snapshot | None = snapshot
    while current is not None and current.parent_snapshot_id is not None:
        if current.parent_snapshot_id == snapshot.snapshot_id:
            return True
        if current.parent_snapshot_id in seen:
            return False
        seen.add(current.parent_snapshot_id)
        current = metadata.snapshot(current.parent_snapshot_id)
    return False


def _sequence_numbers(metadata: TableMetadata) -> Iterator[Finding]:
    numbers = Counter(
        item.sequence_number for item in metadata.snapshots if _numbered(metadata, item)
    )
    for number, times in numbers.items():
        if times > 1:
            message = f"{times} of them have the sequence number {number}"
            yield finding("R-040", "snapshots", message)


def _row_ids(metadata: TableMetadata, snapshot: Snapshot) -> Iterator[Finding]:
    """Row ids of a snapshot begin where those of its parent end, or later (R-101)."""
    subject = f"snapshot {snapshot.snapshot_id}"
    if snapshot.first_row_id is None:
        return
    if snapshot.added_rows is None:
        yield finding("R-104", subject, "has a first row id, but does not say how many it takes")
    elif snapshot.added_rows < 0 or snapshot.first_row_id < 0:
        yield finding("R-101", subject, "its row ids are negative")
    parent = metadata.snapshot(snapshot.parent_snapshot_id or -1)
    if parent is None or parent.first_row_id is None:
        return
    end = parent.first_row_id + (parent.added_rows or 0)
    if snapshot.first_row_id < end:
        message = f"its row ids begin at {snapshot.first_row_id}, those of its parent end at {end}"
        yield finding("R-101", subject, message)


def _ref(metadata: TableMetadata, name: str, ref: SnapshotRef) -> Iterator[Finding]:
    subject = f"{ref.type} {name}"
    if metadata.snapshot(ref.snapshot_id) is None:
        yield finding("R-022", subject, f"snapshot {ref.snapshot_id} is not in `snapshots`")
    if ref.type not in ("branch", "tag"):
        yield finding("R-027", subject, f"`{ref.type}` is neither a branch nor a tag")
    if ref.type == "tag" and (ref.min_snapshots_to_keep or ref.max_snapshot_age_ms):
        yield finding("R-027", subject, "a tag has the retention settings of a branch")
    settings = ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms
    if any(value is not None and value <= 0 for value in settings):
        yield finding("R-027", subject, "a retention setting is not positive")
    if name == "main" and ref.type == "tag":
        yield finding("R-027", subject, "main is a tag")
