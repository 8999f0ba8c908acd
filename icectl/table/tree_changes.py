"""What a version 4 snapshot changed, from its own root and the leaves that it marks (section 9)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from icectl.entries.tree_rows import STATS
from icectl.spec.manifest import Content, Status
from icectl.storage.location import comparison_key
from icectl.table.tree import FILES, NONE, Positions, ReadLeaf, leaf_rows, of_contents

File = Mapping[str, object]
"""A row of a file, without its statistics."""

Identity = tuple[int, str, int | None]
ReadVector = Callable[[File], Positions]
"""Reads the positions of a manifest delete vector or of a delete vector of data."""


@dataclass(frozen=True, slots=True)
class TreeChanges:
    """Files that a snapshot added and removed, by what identifies their entries (EN7)."""

    added: Mapping[Identity, File]
    removed: Mapping[Identity, File]

    def of(self, content: Content, *, added: bool) -> list[File]:
        """The files of one content that were added, or removed. Order: as found."""
        files = self.added if added else self.removed
        return [file for key, file in files.items() if key[0] == content]


def changes(root: pa.Table, read: ReadLeaf, read_vector: ReadVector) -> TreeChanges:
    """What the snapshot of a root changed at the level of files (9.2).

    Raises: what reading raises.
    """
    added: dict[Identity, File] = {}
    removed: dict[Identity, File] = {}
    for row in of_contents(root, *FILES).drop_columns([STATS]).to_pylist():
        if row["status"] != Status.EXISTING:
            (added if row["status"] == Status.ADDED else removed)[identity(row)] = row
    marks = _marks(root, read_vector)
    for leaf in leaf_rows(root):
        mark = marks.get(comparison_key(str(leaf["location"])), _Marks())
        for is_added, row in _in_leaf(leaf, mark, read):
            (added if is_added else removed)[identity(row)] = row
    both = added.keys() & removed.keys()  # moved by a foreign writer
    return TreeChanges(
        {key: row for key, row in added.items() if key not in both},
        {key: row for key, row in removed.items() if key not in both},
    )


@dataclass(slots=True)
class _Marks:
    """Dead positions of a leaf by the status of the vector that names them."""

    by_status: dict[int, Positions] = field(default_factory=dict)

    def of(self, *statuses: Status) -> set[int]:
        return {int(at) for status in statuses for at in self.by_status.get(status, NONE)}


def _marks(root: pa.Table, read_vector: ReadVector) -> dict[str, _Marks]:
    found: dict[str, _Marks] = {}
    for row in of_contents(root, Content.MANIFEST_DV).drop_columns([STATS]).to_pylist():
        mark = found.setdefault(comparison_key(row["referenced_file"]), _Marks())
        mark.by_status[row["status"]] = read_vector(row)
    return found


def _in_leaf(
    leaf: Mapping[str, object], mark: _Marks, read: ReadLeaf
) -> Iterator[tuple[bool, File]]:
    """(was it added, file) of a leaf's rows that changed."""
    fresh = mark.of(Status.ADDED) - mark.of(Status.DELETED)
    if leaf["status"] == Status.EXISTING and not fresh:
        return
    dead_now = mark.of(Status.ADDED, Status.EXISTING)
    for at, row in enumerate(read(leaf).drop_columns([STATS]).to_pylist()):
        status = row["status"]
        if leaf["status"] == Status.EXISTING:
            if at in fresh and status != Status.DELETED:
                yield False, row
        elif leaf["status"] == Status.ADDED:
            if status == Status.ADDED and at not in dead_now:
                yield True, row
            elif status == Status.DELETED or (status == Status.EXISTING and at in fresh):
                yield False, row
        elif status != Status.DELETED and at not in mark.of(Status.DELETED, Status.EXISTING):
            yield False, row


def identity(row: File) -> Identity:
    """What identifies the entry of a file (EN7)."""
    offset = row["content_offset"] if row["content"] == Content.POSITION_DELETES else None
    return (
        int(str(row["content"])),
        comparison_key(str(row["location"])),
        None if offset is None else int(str(offset)),
    )


def removed_rows(found: TreeChanges, read_vector: ReadVector) -> dict[str, Positions]:
    """Positions of rows that new delete vectors removed, by the data file (9.4, 1).

    Shape: nothing of data files that were added or removed themselves.
    """
    before = _vectors(found, read_vector, added=False)
    new_files = {key[1] for key in found.added if key[0] == Content.DATA}
    rows = {}
    for file, positions in _vectors(found, read_vector, added=True).items():
        if file not in new_files:
            gone = np.setdiff1d(positions, before.get(file, NONE))
            if len(gone):
                rows[file] = gone
    return rows


def _vectors(found: TreeChanges, read_vector: ReadVector, *, added: bool) -> dict[str, Positions]:
    return {
        comparison_key(str(row["referenced_file"])): read_vector(row)
        for row in found.of(Content.POSITION_DELETES, added=added)
    }


def row_counts(found: TreeChanges, read_vector: ReadVector, *, added: bool) -> dict[str, int]:
    """Rows of data files that were added or removed as a whole, less deleted ones (9.3, 9.4)."""
    vectors = _vectors(found, read_vector, added=added)
    counts = {}
    for row in found.of(Content.DATA, added=added):
        key = comparison_key(str(row["location"]))
        counts[key] = int(str(row["record_count"])) - len(vectors.get(key, NONE))
    return counts
