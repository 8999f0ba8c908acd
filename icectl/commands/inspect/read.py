"""Running a view of `inspect`: read what it needs, no more, and hand it to the plan."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from icectl.commands.inspect.entry_rows import (
    CONTENTS,
    ENTRY_COLUMNS,
    FILE_COLUMNS,
    entry_rows,
    file_rows,
    source_columns,
)
from icectl.commands.inspect.metadata_rows import (
    METADATA_VIEWS,
    all_manifest_rows,
    manifest_columns,
    manifest_rows,
    metadata_rows,
)
from icectl.commands.inspect.partitions import PARTITION_SOURCES, partition_rows
from icectl.commands.inspect.summary import SUMMARY_COLUMNS
from icectl.commands.inspect.summary import summary as summary_view
from icectl.commands.inspect.tree_plan import TREE_SOURCES, Node, TreeSource, shown_manifests
from icectl.commands.inspect.tree_plan import tree as tree_view
from icectl.commands.inspect.views import Row, RowSet, View
from icectl.entries.rows import Entries, concat, live, of, with_manifest_number
from icectl.entries.summary import Totals, summarise
from icectl.errors import CorruptTable, StorageError, UsageError
from icectl.format.layout import layout_of_manifest
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.names import lost_versions
from icectl.format.snapshot import Snapshot
from icectl.table.manifest_lists import distinct_manifests, reader_of, snapshot_reader
from icectl.table.reader import Reader
from icectl.table.snapshot_choice import SnapshotChoice, chosen_snapshot

_LOGS = frozenset({"snapshots", "history", "metadata-log"})
"""Views whose rows are a log, oldest first: a limit keeps the newest."""
_BATCH_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class RowRequest:
    """A request for rows of a view; `columns` None means all of them."""

    view: View
    choice: SnapshotChoice
    all_snapshots: bool = False
    content: str | None = None
    columns: tuple[str, ...] | None = None
    limit: int | None = None


_OF_METADATA: Mapping[str, frozenset[str]] = {
    "snapshots": frozenset({"snapshots", "refs"}),
    "history": frozenset({"snapshot-log", "snapshots", "current-snapshot-id"}),
    "refs": frozenset({"refs"}),
    "schemas": frozenset({"schemas", "schema", "current-schema-id"}),
    "specs": frozenset({"partition-specs", "partition-spec", "expressions", "schemas", "schema"}),
    "sort-orders": frozenset({"sort-orders", "schemas", "schema"}),
    "properties": frozenset({"properties"}),
    "metadata-log": frozenset({"metadata-log"}),
    "statistics": frozenset({"statistics", "partition-statistics"}),
}
"""Members of the metadata that a view shows."""
_OF_FILES = frozenset(
    {"current-snapshot-id", "schemas", "schema", "partition-specs", "partition-spec", "expressions"}
)
"""Members that rows of manifests are shown by."""


def is_incomplete(
    reader: Reader, view: View, choice: SnapshotChoice, *, all_snapshots: bool
) -> bool:
    """Return whether part of what a view shows could not be read.

    Raises: the first problem, where nothing of it could.
    """
    lost = {oddity.member for oddity in reader.metadata.oddities if oddity.lost}
    if view.rows:
        shown = _OF_METADATA.get(view.name, _OF_FILES)
        lost &= shown | {"snapshots"} if all_snapshots else shown
        if view.of_snapshot and not all_snapshots and not choice.count:
            _check_current(reader)
    if reader.gaps is None or not reader.gaps.problems:
        return bool(lost)
    has_shown = reader.gaps.has_listed if view.name == "manifests" else reader.gaps.has_read
    if view.rows and not has_shown:
        raise next(iter(reader.gaps.problems.values()))
    return True


def oddities_of(reader: Reader) -> Sequence[str]:
    """List what of the table breaks a rule and was read all the same, or left out: each once."""
    messages = [f"{oddity.message} ({oddity.rule})" for oddity in reader.metadata.oddities]
    messages += [*reader.gaps.odd, *reader.gaps.problems] if reader.gaps is not None else ()
    return (*dict.fromkeys(messages), *_lost_versions(reader))


def _lost_versions(reader: Reader) -> Iterator[str]:
    """Tell that newer metadata than what is shown was lost, if the version hint knows of some."""
    version = reader.loaded.version
    if version is None or not reader.loaded.capabilities.numbers_versions:
        return
    try:
        hint = reader.hinted_version()
    except (FileNotFoundError, StorageError):  # nothing depends on it
        return
    if isinstance(hint, int) and hint > version:
        message, advice = lost_versions(hint, version, reader.metadata.location)
        yield f"{message} (R-163); {advice}"


def _check_current(reader: Reader) -> None:
    """Check that it can be read which snapshot is current. Raises: CorruptTable R-015."""
    for oddity in reader.metadata.oddities:
        if oddity.member == "current-snapshot-id" and oddity.lost:
            raise CorruptTable(oddity.message, rule=oddity.rule)


def summary(reader: Reader, choice: SnapshotChoice) -> Row:
    """Describe the table and its chosen snapshot.

    Raises: UsageError for a snapshot that is not there; what reading manifests raises.
    """
    snapshot = chosen_snapshot(reader.metadata, choice)
    manifests = reader.manifests(snapshot)
    totals = Totals()
    for entries in _in_batches(reader.scan(manifests, SUMMARY_COLUMNS)):
        totals += summarise(live(entries))
    location = reader.loaded.metadata_location
    unknown = reader.gaps is not None and snapshot is not None and not reader.gaps.has_listed
    return summary_view(reader.metadata, location, snapshot, manifests, None if unknown else totals)


def _in_batches(parts: Iterable[Entries]) -> Iterator[Entries]:
    """The same entries in fewer tables: adding up one table costs the same for one row as many."""
    batch: list[Entries] = []
    row_count = 0
    for part in parts:
        batch.append(part)
        row_count += len(part)
        if row_count >= _BATCH_ROWS:
            yield concat(batch)
            batch, row_count = [], 0
    if batch:
        yield concat(batch)


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


def tree(reader: Reader, choice: SnapshotChoice, limit: int) -> Node:
    """Draw the metadata tree of the chosen snapshot.

    Raises: UsageError for a snapshot that is not there; what reading manifests raises.
    """
    snapshot = chosen_snapshot(reader.metadata, choice)
    manifests = reader.manifests(snapshot)
    root = None
    if snapshot is not None:
        root = snapshot_reader(reader.metadata, snapshot).root(reader.context.store, snapshot)
    source = TreeSource(
        metadata=reader.metadata,
        metadata_location=reader.loaded.metadata_location,
        snapshot=snapshot,
        manifests=manifests,
        entries=reader.load(manifests, TREE_SOURCES, to_match=True),
        root=root,
        killed=_killed(reader, manifests, limit),
    )
    return tree_view(source, limit)


def _killed(reader: Reader, manifests: Sequence[ManifestFile], limit: int) -> Entries:
    """Return the dead entries of the manifests that are shown."""
    struck = [index for index in shown_manifests(manifests, limit) if manifests[index].dead]
    killed = [
        reader_of(reader.metadata, layout_of_manifest(manifests[index])).deleted_only(
            manifests[index]
        )
        for index in struck
    ]
    parts = reader.scan(killed, TREE_SOURCES)
    numbered = ((part.table["manifest"][0].as_py(), part) for part in parts if len(part))
    return concat(with_manifest_number(part, struck[at]) for at, part in numbered)
