"""The changes view: which files and rows lie between two snapshots."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from icectl.cli.document import id_text
from icectl.commands.inspect.views import Row
from icectl.entries import rows
from icectl.entries.partition_records import Partitions, partitions_of
from icectl.entries.rows import Entries
from icectl.entries.summary import summarise
from icectl.errors import UsageError
from icectl.format.layout import Layout, layout_of
from icectl.format.manifest import ManifestFile, kind_of
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot, ancestors
from icectl.table.reader import snapshot_by_id
from icectl.units import print_instant

CHANGES_SOURCES: frozenset[str] = frozenset({
    "content", "status", "location", "file_format", "spec_id", "partition_key",
    "record_count", "file_size_in_bytes", "content_offset", "content_size_in_bytes",
    "referenced_data_file",
})  # fmt: skip
CHANGED_FILE_COLUMNS: tuple[str, ...] = (
    "change", "kind", "file_path", "partition", "spec_id", "record_count", "file_size_in_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ComparedSnapshots:
    """The two snapshots that are compared; `before` None is the table before its first one.

    `expired_id` is set where `before` has expired; roots of version 4 do not need it (sfc-1 9.2).
    """

    before: Snapshot | None
    after: Snapshot | None
    expired_id: int | None = None


def ends(metadata: TableMetadata, from_id: int | None, to_id: int | None) -> ComparedSnapshots:
    """Find the snapshots, by default the current one and its parent. Raises: UsageError."""
    after = metadata.current_snapshot if to_id is None else snapshot_by_id(metadata, to_id)
    if from_id is not None:
        return ComparedSnapshots(snapshot_by_id(metadata, from_id), after)
    parent_id = after.parent_snapshot_id if after else None
    if parent_id is None:
        return ComparedSnapshots(None, after)
    parent = metadata.snapshot(parent_id)
    if parent is None and after is not None and layout_of(after) is Layout.SFC_1:
        return ComparedSnapshots(None, after, parent_id)
    if parent is None:
        message = f"the parent {parent_id} of the snapshot has expired"
        raise UsageError(message, hint="choose another snapshot to compare with `--from ID`")
    return ComparedSnapshots(parent, after)


def own_manifests(
    manifests: Sequence[ManifestFile], others: Sequence[ManifestFile]
) -> tuple[ManifestFile, ...]:
    """Return the manifests that only one of two snapshots lists: shared ones change nothing."""
    shared = {manifest.identity for manifest in others}
    return tuple(manifest for manifest in manifests if manifest.identity not in shared)


def by_roots(metadata: TableMetadata, between: ComparedSnapshots) -> list[Snapshot] | None:
    """Return the snapshots between two, oldest first, if roots of version 4 tell their changes."""
    if between.after is None:
        return None
    until = None if between.before is None else between.before.snapshot_id
    steps: list[Snapshot] = []
    for snapshot in ancestors(metadata.snapshots_by_id, between.after.snapshot_id):
        if snapshot.snapshot_id == until:
            return steps[::-1]
        if layout_of(snapshot) is not Layout.SFC_1:
            return None
        steps.append(snapshot)
    ends_at = steps[-1].parent_snapshot_id
    return steps[::-1] if until is None and ends_at == between.expired_id else None


def compose_changes(steps: Sequence[tuple[Entries, Entries]]) -> tuple[Entries, Entries]:
    """Put several changes together, each (removed, added); what came and went cancels (sfc-1 9.5).

    Order: of the steps, oldest first.
    """
    removed, added = steps[0]
    for step_removed, step_added in steps[1:]:
        added, removed = (
            joined(beyond(added, step_removed), beyond(step_added, removed)),
            joined(beyond(removed, step_added), beyond(step_removed, added)),
        )
    return removed, added


def joined(*parts: Entries) -> Entries:
    """Put entries together."""
    return rows.concat([part for part in parts if len(part)])


def changes(
    metadata: TableMetadata,
    between: ComparedSnapshots,
    before: Entries,
    after: Entries,
    limit: int | None,
) -> Row:
    """Compare the live files of two snapshots.

    `before` and `after` hold the entries of the manifests that are not shared. Rows are those of
    data files, before deletes; delete files are counted apart.
    """
    old, new = rows.live(before), rows.live(after)
    added, removed = beyond(new, old), beyond(old, new)
    gained, lost = summarise(added), summarise(removed)
    listed = [*_files("added", added, metadata), *_files("removed", removed, metadata)]
    shown = listed if limit is None else listed[:limit]
    start, end = between.before, between.after
    start_id = between.expired_id if start is None else start.snapshot_id
    line = () if end is None else ancestors(metadata.snapshots_by_id, end.snapshot_id)
    return {
        "from_snapshot_id": id_text(start_id),
        "from_committed_at": print_instant(start.timestamp_ms) if start else None,
        "to_snapshot_id": id_text(end.snapshot_id) if end else None,
        "to_committed_at": print_instant(end.timestamp_ms) if end else None,
        "from_is_ancestor": start is None or any(start_id == step.snapshot_id for step in line),
        "added_files": gained.data_file_count,
        "removed_files": lost.data_file_count,
        "added_rows": gained.record_count,
        "removed_rows": lost.record_count,
        "added_bytes": gained.data_file_bytes,
        "removed_bytes": lost.data_file_bytes,
        "added_delete_files": gained.delete_file_count,
        "removed_delete_files": lost.delete_file_count,
        "added_position_deletes": gained.position_delete_record_count
        + gained.deletion_vector_record_count,
        "added_equality_deletes": gained.equality_delete_record_count,
        "row_changes": None,
        "files": shown,
        "files_left_out": len(listed) - len(shown),
    }


def beyond(entries: Entries, known: Entries) -> Entries:
    """Return entries whose file, or vector within a file, is not among `known`.

    Order: files, then vectors, each in the order of `entries`.
    """
    vectors, known_vectors = rows.deletion_vectors(entries), rows.deletion_vectors(known)
    files = rows.minus(_without_vectors(entries), rows.locations(_without_vectors(known)))
    seen = set(_blobs(known_vectors))
    fresh = [row for row, blob in enumerate(_blobs(vectors)) if blob not in seen]
    return rows.concat([files, rows.take(vectors, fresh)])


def _blobs(vectors: Entries) -> Iterator[tuple[str, int]]:
    keys = rows.location_keys(vectors.table["location"]).to_pylist()
    yield from zip(keys, vectors.table["content_offset"].to_pylist(), strict=True)


def _without_vectors(entries: Entries) -> Entries:
    kinds = (rows.data_files, rows.position_delete_files, rows.equality_delete_files)
    return rows.concat([of_kind(entries) for of_kind in kinds])


def _files(change: str, entries: Entries, metadata: TableMetadata) -> Iterator[Row]:
    partitions: Partitions = partitions_of(metadata)
    columns = (
        "content", "file_format", "location", "spec_id", "partition_key", "record_count",
        "file_size_in_bytes",
    )  # fmt: skip
    for content, file_format, location, spec_id, key, count, size in rows.by_row(entries, *columns):
        yield {
            "change": change,
            "kind": kind_of(content, file_format),
            "file_path": location,
            "partition": partitions.record(spec_id, key),
            "partition_path": partitions.path(spec_id, key),
            "spec_id": spec_id,
            "record_count": count,
            "file_size_in_bytes": size,
        }
