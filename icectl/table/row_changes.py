"""Rows that came and went with files and delete vectors, counted by data file (sfc-1 9.3, 9.4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from icectl.entries.columns.values import NONE, Positions
from icectl.entries.rows import Entries, by_row, data_files, deletion_vectors
from icectl.files.puffin.positions import check_cardinality, read_dv
from icectl.storage.location import comparison_key
from icectl.storage.store import Store
from icectl.table.reading import decode_file


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

    Raises: StorageError for a vector that is not there any more; CorruptTable.
    """
    came, went = _records(added), _records(removed)
    now, before = _vectors(store, added), _vectors(store, removed)
    stayed = (now.keys() | before.keys()) - came.keys() - went.keys()
    deleted = {key: np.setdiff1d(now.get(key, NONE), before.get(key, NONE)) for key in stayed}
    restored = {key: np.setdiff1d(before.get(key, NONE), now.get(key, NONE)) for key in stayed}
    return RowChanges(
        added={key: count - len(now.get(key, NONE)) for key, count in came.items()},
        removed={key: count - len(before.get(key, NONE)) for key, count in went.items()},
        deleted={key: positions for key, positions in deleted.items() if len(positions)},
        restored={key: positions for key, positions in restored.items() if len(positions)},
    )


def first_vectors(added: Entries, removed: Entries) -> set[str]:
    """Return data files that were there before and have got their first delete vector."""
    referenced = {
        comparison_key(name) for (name,) in by_row(deletion_vectors(added), "referenced_data_file")
    }
    replaced = {
        comparison_key(name)
        for (name,) in by_row(deletion_vectors(removed), "referenced_data_file")
    }
    return referenced - replaced - _records(added).keys()


def _records(entries: Entries) -> dict[str, int]:
    files = by_row(data_files(entries), "location", "record_count")
    return {comparison_key(location): count for location, count in files}


def _vectors(store: Store, entries: Entries) -> dict[str, Positions]:
    found = {}
    columns = (
        "referenced_data_file", "location", "content_offset", "content_size_in_bytes",
        "record_count",
    )  # fmt: skip
    for file, location, offset, length, count in by_row(deletion_vectors(entries), *columns):
        blob = store.read_range(location, offset, length)
        positions = decode_file(location, partial(read_dv, blob))
        check_cardinality(positions, count)
        found[comparison_key(file)] = positions
    return found
