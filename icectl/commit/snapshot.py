"""A new snapshot of a branch, versions 1 to 3: its manifest list, and the updates that add it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from icectl import __version__
from icectl.commit.transaction import Proposal
from icectl.errors import CommitConflict, UsageError
from icectl.files.manifest.manifest_list import write_manifest_list
from icectl.format.layout import layout_of, layout_of_table
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.properties import KEEP_STATISTICS, read_or_default
from icectl.format.snapshot import Snapshot, SnapshotRef
from icectl.format.updates import (
    AddSnapshot,
    SetPartitionStatistics,
    SetSnapshotRef,
    SetStatistics,
    Update,
)
from icectl.storage.new_files import create_own
from icectl.table.context import TableContext
from icectl.table.manifest_lists import with_counts


@dataclass(frozen=True, slots=True)
class NewSnapshot:
    """A snapshot that a commit puts on a branch.

    `manifests` are all that the snapshot lists; those in `written` are new, and take their sequence
    number and snapshot id from it (R-041).
    """

    snapshot_id: int
    branch: str
    operation: str
    manifests: Sequence[ManifestFile]
    written: frozenset[str]
    summary: Mapping[str, str]


def head(metadata: TableMetadata, branch: str) -> Snapshot | None:
    """Return the newest snapshot of a branch; None where it has none.

    Raises: CommitConflict where the branch is gone.
    """
    ref = metadata.refs.get(branch)
    if ref is None:
        if branch == "main":
            return metadata.current_snapshot
        raise CommitConflict(f"branch `{branch}` is gone")
    return metadata.snapshot(ref.snapshot_id)


def branch_head(metadata: TableMetadata, branch: str) -> Snapshot | None:
    """Return the newest snapshot of a branch that the caller names; None where main has none yet.

    Raises: UsageError, where there is no such branch.
    """
    ref = metadata.refs.get(branch)
    if ref is None and branch != "main":
        message = f"the table has no branch `{branch}`"
        raise UsageError(message, hint="`icectl inspect TABLE refs` lists them")
    if ref is not None and ref.type != "branch":
        raise UsageError(f"`{branch}` is a {ref.type}; only branches get new snapshots")
    return head(metadata, branch)


def check_same_form(base: TableMetadata, metadata: TableMetadata) -> None:
    """Check that files made for a table still have its form. Raises: CommitConflict.

    The form is format version and layout: an upgrade changes the first, a conversion the second.
    """
    if metadata.format_version != base.format_version:
        raise CommitConflict("the table's format version has changed since then")
    if layout_of_table(metadata) is not layout_of_table(base):
        raise CommitConflict("the table's layout has changed since then")


def propose_snapshot(
    context: TableContext, metadata: TableMetadata, new: NewSnapshot, manifest_list: str
) -> Proposal:
    """Propose a snapshot on the head of its branch (R-040, R-052).

    Its list is written to `manifest_list`.
    Raises: CommitConflict where the branch is gone; StorageError; CorruptTable and Unsupported, for
    a manifest that has to be read to be listed.
    """
    env = context.env
    parent = head(metadata, new.branch)
    sequence_number = (
        metadata.last_sequence_number + 1 if metadata.format_version > 1 else 0
    )
    listed_by = new.snapshot_id if parent is None else parent.snapshot_id
    numbered = [
        replace(item, sequence_number=sequence_number, added_snapshot_id=new.snapshot_id)
        if item.manifest_path in new.written
        else with_counts(context.store, metadata, item, listed_by)
        for item in new.manifests
    ]
    manifests, added_rows = _with_row_ids(metadata, numbered)
    first_row_id = metadata.next_row_id if metadata.format_version >= 3 else None
    content = write_manifest_list(
        manifests,
        format_version=metadata.format_version,
        snapshot_id=new.snapshot_id,
        parent_snapshot_id=None if parent is None else parent.snapshot_id,
        sequence_number=sequence_number,
        first_row_id=first_row_id,
        sync_marker=bytes.fromhex(env.new_uuid().replace("-", "")),
    )
    snapshot = Snapshot(
        snapshot_id=new.snapshot_id,
        timestamp_ms=max(env.now_ms(), metadata.last_updated_ms),
        parent_snapshot_id=None if parent is None else parent.snapshot_id,
        sequence_number=sequence_number,
        manifest_list=manifest_list,
        summary={"operation": new.operation, **new.summary, **context.notes, **engine_summary()},
        schema_id=metadata.current_schema_id,
        first_row_id=first_row_id,
        added_rows=added_rows if metadata.format_version >= 3 else None,
    )
    create_own(context.store, env, manifest_list, content)
    files = frozenset({manifest_list, *new.written})
    return Proposal(put_on(metadata, new.branch, snapshot), files)


def put_on(metadata: TableMetadata, branch: str, snapshot: Snapshot) -> tuple[Update, ...]:
    """Return the updates that make a snapshot the head of a branch, which keeps its retention.

    A `replace` takes statistics over that hold for it too.
    """
    current = metadata.refs.get(branch)
    ref = SnapshotRef(snapshot.snapshot_id, "branch")
    if current is not None:
        ref = replace(current, snapshot_id=snapshot.snapshot_id)
    updates: list[Update] = [AddSnapshot(snapshot), SetSnapshotRef(branch, ref)]
    if snapshot.operation == "replace" and read_or_default(metadata.properties, KEEP_STATISTICS):
        updates += _taken_over(metadata, snapshot)
    return tuple(updates)


def _taken_over(metadata: TableMetadata, snapshot: Snapshot) -> Sequence[Update]:
    """Return the updates that name statistics of the parent for a snapshot with the same rows.

    Those of columns hold as long as rows stay the same, those of partitions, as files do.
    """
    of_columns: list[Update] = [
        SetStatistics(replace(file, snapshot_id=snapshot.snapshot_id))
        for file in metadata.statistics
        if file.snapshot_id == snapshot.parent_snapshot_id
    ]
    of_partitions: list[Update] = [
        SetPartitionStatistics(replace(file, snapshot_id=snapshot.snapshot_id))
        for file in metadata.partition_statistics
        if file.snapshot_id == snapshot.parent_snapshot_id
    ]
    parent = metadata.snapshot(snapshot.parent_snapshot_id or -1)
    counted = (name for name, value in (snapshot.summary or {}).items() if value != "0")
    changes_files = any(name.startswith(("added-", "deleted-", "removed-")) for name in counted)
    if changes_files or parent is None or layout_of(parent) is not layout_of(snapshot):
        of_partitions = []  # counts change; the columns of the file differ between layouts
    return [*of_columns[:1], *of_partitions[:1]]


def carried_totals(summary: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return the totals of a summary, which a commit without file changes keeps (R-031)."""
    return {key: value for key, value in (summary or {}).items() if key.startswith("total-")}


def engine_summary() -> Mapping[str, str]:
    """Return the members of a summary that name the engine."""
    return {"engine-name": "icectl", "engine-version": __version__}


def _with_row_ids(
    metadata: TableMetadata, manifests: Sequence[ManifestFile]
) -> tuple[Sequence[ManifestFile], int]:
    """Assign first row ids to data manifests without one (R-102); second: the number of ids."""
    if metadata.format_version < 3:
        return manifests, 0
    next_row_id = start = metadata.next_row_id or 0
    assigned = []
    for manifest in manifests:
        if manifest.content is not ManifestContent.DATA or manifest.first_row_id is not None:
            assigned.append(manifest)
            continue
        assigned.append(replace(manifest, first_row_id=next_row_id))
        next_row_id += manifest.live_rows or 0
    return assigned, next_row_id - start
