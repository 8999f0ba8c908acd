"""Reading the rows of a view of `inspect`: what it needs, no more."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from icectl.commands.inspect.metadata_rows import (
    METADATA_VIEWS,
    all_manifest_rows,
    manifest_columns,
    manifest_rows,
    metadata_rows,
)
from icectl.commands.inspect.views import Row, RowSet, View
from icectl.entries.rows import Entries, of
from icectl.errors import UsageError
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.snapshot import Snapshot
from icectl.table.manifest_lists import distinct_manifests, snapshot_reader
from icectl.table.reader import Reader, SnapshotChoice, chosen_snapshot

_LOGS = frozenset({"snapshots", "history", "metadata-log"})
"""Views whose rows are a log, oldest first: a limit keeps the newest."""


@dataclass(frozen=True, slots=True)
class RowRequest:
    """A request for rows of a view; `columns` None means all of them."""

    view: View
    choice: SnapshotChoice
    all_snapshots: bool = False
    content: str | None = None
    columns: tuple[str, ...] | None = None
    limit: int | None = None


def rows(reader: Reader, request: RowRequest) -> RowSet:
    """Read the rows of a view; those of files and entries are read while they are consumed.

    Raises: UsageError for a snapshot or column that is not there; what reading manifests raises.
    """
    row_set = _rows(reader, request)
    if request.columns is not None:
        row_set = _chosen_columns(row_set, request.columns)
    if request.limit is None:
        return row_set
    return RowSet(row_set.columns, _limited(row_set.rows, request.view, request.limit))


def _rows(reader: Reader, request: RowRequest) -> RowSet:
    view = request.view.name
    if view in METADATA_VIEWS:
        return metadata_rows(view, reader.metadata, reader.loaded.metadata_location)
    if view == "partitions":
        from icectl.commands.inspect.partitions import PARTITION_SOURCES, partition_rows

        manifests = reader.manifests(chosen_snapshot(reader.metadata, request.choice))
        return partition_rows(reader.scan(manifests, PARTITION_SOURCES), reader.metadata)
    if view == "manifests":
        return _manifest_rows(reader, request)
    return _entry_rows(reader, request)


def _manifest_rows(reader: Reader, request: RowRequest) -> RowSet:
    columns = manifest_columns(reader.metadata, all_snapshots=request.all_snapshots)
    if request.all_snapshots:
        by_snapshot = reader.manifests_by_snapshot(reader.metadata.snapshots)
        lists = {
            snapshot.snapshot_id: _described(
                reader, request, snapshot, by_snapshot[snapshot.snapshot_id]
            )
            for snapshot in reader.metadata.snapshots
        }
        return RowSet(columns, all_manifest_rows(reader.metadata, lists))
    snapshot = chosen_snapshot(reader.metadata, request.choice)
    if snapshot is None:
        return RowSet(columns, ())
    chosen = _described(reader, request, snapshot, reader.manifests(snapshot))
    return RowSet(columns, manifest_rows(reader.metadata, chosen))


def _described(
    reader: Reader, request: RowRequest, snapshot: Snapshot, manifests: Sequence[ManifestFile]
) -> Sequence[ManifestFile]:
    read = snapshot_reader(reader.metadata, snapshot)
    listed = read.described(reader.context.store, snapshot, manifests)
    return _of_content(listed, request.content)


def _entry_rows(reader: Reader, request: RowRequest) -> RowSet:
    from icectl.commands.inspect.entry_rows import (
        CONTENTS,
        ENTRY_COLUMNS,
        FILE_COLUMNS,
        entry_rows,
        file_rows,
        source_columns,
    )

    all_columns, make = (
        (FILE_COLUMNS, file_rows) if request.view.name == "files" else (ENTRY_COLUMNS, entry_rows)
    )
    columns = all_columns if request.columns is None else request.columns
    wanted = source_columns(columns) | {"content", "status"}
    if request.all_snapshots:
        manifests = distinct_manifests(
            reader.manifests_by_snapshot(reader.metadata.snapshots).values()
        )
    else:
        manifests = reader.manifests(chosen_snapshot(reader.metadata, request.choice))
    batches: Iterable[Entries] = reader.scan(_of_content(manifests, request.content), wanted)
    if request.content is not None:
        contents = CONTENTS[request.content]
        batches = (of(entries, *contents) for entries in batches)
    return RowSet(columns, make(batches, reader.metadata, columns))


def _of_content(manifests: Sequence[ManifestFile], content: str | None) -> tuple[ManifestFile, ...]:
    """Return the manifests that may hold files of a content."""
    if content is None:
        return tuple(manifests)
    wanted = ManifestContent.DATA if content == "data" else ManifestContent.DELETES
    return tuple(manifest for manifest in manifests if manifest.content is wanted)


def _chosen_columns(row_set: RowSet, columns: tuple[str, ...]) -> RowSet:
    """Return rows with the named columns only, in the order they were named."""
    if columns == row_set.columns:
        return row_set
    unknown = next((name for name in columns if name not in row_set.columns), None)
    if unknown is not None and unknown != "partition_path":
        message = f"there is no column `{unknown}`"
        raise UsageError(message, hint=f"columns: {', '.join(row_set.columns)}")
    return RowSet(columns, ({name: row.get(name) for name in columns} for row in row_set.rows))


def _limited(source: Iterable[Row], view: View, limit: int) -> Iterable[Row]:
    if view.name in _LOGS:
        return deque(source, maxlen=limit)
    return islice(source, limit)
