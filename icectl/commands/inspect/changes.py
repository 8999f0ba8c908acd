"""The changes view of `inspect`: by the roots of version 4, or by comparing two states."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from icectl.cli.console import Console
from icectl.cli.tables import print_pairs
from icectl.commands.inspect.changes_plan import (
    CHANGES_SOURCES,
    beyond,
    by_roots,
    compose_changes,
    ends,
    joined,
    own_manifests,
)
from icectl.commands.inspect.changes_plan import changes as changes_view
from icectl.commands.inspect.rows_report import print_rows
from icectl.commands.inspect.views import Row, RowSet
from icectl.entries import rows
from icectl.entries.columns import NONE, Positions
from icectl.entries.rows import Entries
from icectl.errors import StorageError
from icectl.files.deletion_vectors import check_cardinality, read_dv
from icectl.format.manifest import FileFormat, ManifestContent
from icectl.format.snapshot import Snapshot
from icectl.storage.location import comparison_key
from icectl.storage.store import Store
from icectl.table.manifest_lists import snapshot_reader
from icectl.table.reader import Reader
from icectl.table.reading import decode_file, of_one_file
from icectl.units import print_count, print_size


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Live rows by the comparison key of their data file.

    `added` and `removed` count those of files that came or went as a whole; `deleted` are
    positions in files that stayed, `restored` such whose vector went without another.
    """

    added: Mapping[str, int]
    removed: Mapping[str, int]
    deleted: Mapping[str, Positions]
    restored: Mapping[str, Positions]

    @property
    def added_count(self) -> int:
        """Rows that are live now and were not."""
        return sum(self.added.values()) + sum(map(len, self.restored.values()))

    @property
    def removed_count(self) -> int:
        """Rows that were live and are not."""
        return sum(self.removed.values()) + sum(map(len, self.deleted.values()))


def row_changes(store: Store, added: Entries, removed: Entries) -> RowChanges:
    """Count the rows of added and removed files; what equality deletes remove is left out.

    Raises: StorageError for a vector that is gone; CorruptTable.
    """
    added_records, removed_records = _records(added), _records(removed)
    now, before = _vectors(store, added), _vectors(store, removed)
    stayed = (now.keys() | before.keys()) - added_records.keys() - removed_records.keys()
    deleted = {key: np.setdiff1d(now.get(key, NONE), before.get(key, NONE)) for key in stayed}
    restored = {key: np.setdiff1d(before.get(key, NONE), now.get(key, NONE)) for key in stayed}
    return RowChanges(
        added={key: count - len(now.get(key, NONE)) for key, count in added_records.items()},
        removed={key: count - len(before.get(key, NONE)) for key, count in removed_records.items()},
        deleted={key: positions for key, positions in deleted.items() if len(positions)},
        restored={key: positions for key, positions in restored.items() if len(positions)},
    )


def first_vectors(added: Entries, removed: Entries) -> set[str]:
    """Return data files that were there before and have got their first delete vector."""
    vectors = (rows.deletion_vectors(added), rows.deletion_vectors(removed))
    referenced, replaced = (
        {comparison_key(name) for (name,) in rows.by_row(entries, "referenced_data_file")}
        for entries in vectors
    )
    return referenced - replaced - _records(added).keys()


def _records(entries: Entries) -> dict[str, int]:
    files = rows.by_row(rows.data_files(entries), "location", "record_count")
    return {comparison_key(location): count for location, count in files}


def _vectors(store: Store, entries: Entries) -> dict[str, Positions]:
    vectors = {}
    columns = (
        "referenced_data_file", "location", "content_offset", "content_size_in_bytes",
        "record_count",
    )  # fmt: skip
    for file, location, offset, length, count in rows.by_row(
        rows.deletion_vectors(entries), *columns
    ):
        blob = store.read_range(location, offset, length)
        positions = decode_file(location, partial(read_dv, blob))
        check_cardinality(positions, count)
        vectors[comparison_key(file)] = positions
    return vectors


def changes(reader: Reader, from_id: int | None, to_id: int | None, limit: int | None) -> Row:
    """Compare two snapshots.

    Raises: UsageError for a snapshot that is not there; what reading manifests raises.
    Cost: from root to root of version 4 the manifests that roots mark are read; otherwise those
    that one snapshot lists and the other does not.
    """
    metadata = reader.metadata
    between = ends(metadata, from_id, to_id)
    steps = by_roots(metadata, between)
    if not steps:
        old, new = reader.manifests(between.before), reader.manifests(between.after)
        before = reader.load(own_manifests(old, new), CHANGES_SOURCES)
        after = reader.load(own_manifests(new, old), CHANGES_SOURCES)
        return changes_view(metadata, between, before, after, limit)
    before, after = compose_changes([detect_changes(reader, snapshot) for snapshot in steps])
    view = changes_view(metadata, between, before, after, limit)
    counted = rows_between(reader, steps, before, after)
    if counted is None:
        return view
    row_counts = {"added_rows": counted.added_count, "removed_rows": counted.removed_count}
    return {**view, "row_changes": row_counts}


def detect_changes(reader: Reader, snapshot: Snapshot) -> tuple[Entries, Entries]:
    """Find what a version 4 snapshot removed and added, from its own root (sfc-1 9.2)."""
    marked = snapshot_reader(reader.metadata, snapshot).marked(reader.context.store, snapshot)
    entries = reader.load([mark_of_leaf.manifest for mark_of_leaf in marked], CHANGES_SOURCES)
    added, removed = [], []
    for index, mark in enumerate(marked):
        here = rows.in_manifests(entries, [index])
        added.append(rows.as_existing(rows.of_status(here, *mark.added)))
        dead = rows.as_existing(rows.of_status(here, *mark.removed))
        if mark.unless_live:
            dead = beyond(dead, reader.load(reader.manifests(snapshot), CHANGES_SOURCES))
        removed.append(dead)
    all_added, all_removed = joined(*added), joined(*removed)
    return beyond(all_removed, all_added), beyond(all_added, all_removed)


def rows_between(
    reader: Reader, steps: Sequence[Snapshot], before: Entries, after: Entries
) -> RowChanges | None:
    """Return the rows that came and went; None where that cannot be told.

    It cannot where data was only rewritten (sfc-1 9.5), where equality deletes came or went, where
    a vector is gone with an expired snapshot, and where a first one may repeat what position delete
    files deleted (sfc-1 9.7).
    """
    if any(step.operation == "replace" for step in steps):
        return None
    if len(rows.equality_delete_files(before)) or len(rows.equality_delete_files(after)):
        return None
    if first_vectors(after, before) and _has_position_delete_files(reader, steps):
        return None
    try:
        return row_changes(reader.context.store, after, before)
    except FileNotFoundError as error:
        reason = f"the file of a vector is missing: {error.filename or error}"
    except StorageError as error:
        of_one_file(error)
        reason = error.message
    reader.context.progress.warn(f"rows are not counted: {reason}")
    return None


def _has_position_delete_files(reader: Reader, steps: Sequence[Snapshot]) -> bool:
    """Return whether there are position delete files: only leaves of older versions have them."""
    legacy = [
        manifest
        for step in steps
        for manifest in reader.manifests(step)
        if manifest.content is ManifestContent.DELETES and manifest.file_format is FileFormat.AVRO
    ]
    return bool(len(rows.position_delete_files(reader.load(legacy, CHANGES_SOURCES))))


def print_changes(console: Console, result: Mapping[str, Any], base: str) -> None:
    """Print what lies between two snapshots, and the files."""
    pairs = [
        ("from", _snapshot_text(result["from_snapshot_id"], result["from_committed_at"])),
        ("to", _snapshot_text(result["to_snapshot_id"], result["to_committed_at"])),
        ("added", _changed(result, "added")),
        ("removed", _changed(result, "removed")),
    ]
    counted = result["row_changes"]
    if counted is not None:  # roots of version 4 say how many rows a reader gains and loses
        more = f"{counted['added_rows']:,} more, {counted['removed_rows']:,} less"
        pairs.append(("live rows", more))
    print_pairs(console, pairs)
    if not result["from_is_ancestor"]:
        console.print("the first is not an ancestor of the second")
    if result["files"]:
        console.print()
        print_rows(console, "changes", RowSet((), result["files"]), base)
    if result["files_left_out"]:
        console.print(f"and {result['files_left_out']:,} files more")


def _changed(result: Mapping[str, Any], change: str) -> str:
    files = print_count(result[f"{change}_files"], "data file")
    size = print_size(result[f"{change}_bytes"])
    text = f"{files}, {result[f'{change}_rows']:,} rows, {size}"
    delete_files = result[f"{change}_delete_files"]
    return f"{text}; {print_count(delete_files, 'delete file')}" if delete_files else text


def _snapshot_text(snapshot_id: str | None, committed_at: str | None) -> str:
    return "before the first snapshot" if snapshot_id is None else f"{snapshot_id}  {committed_at}"
