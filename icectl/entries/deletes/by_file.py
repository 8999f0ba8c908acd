"""Deletes of chosen data files one by one, and deletes that apply to none, position delete files
taken at their word: one without a referenced data file may apply to every older file of its
partition, and names few of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries import rows
from icectl.entries.columns.values import Integers
from icectl.entries.deletes.apply import (
    Matches,
    delete_counts,
    misplaced_deletes,
    per_delete_file,
    reach,
)
from icectl.entries.rows import Entries

NamedFiles = Mapping[str, Mapping[str, int]]
"""For position delete files that were read, by location: deleted rows by data file named."""


@dataclass(frozen=True, slots=True)
class Applied:
    """Rows of the delete files that apply to one data file."""

    vectors: tuple[int, ...]
    position_deletes: tuple[int, ...]
    equality_deletes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NamedPositionDeletes:
    """Position delete files without a referenced data file, as they were read.

    `read` tells which of the delete files those are; `delete_rows` and `data_rows` are pairs that
    apply (R-111), ordered by data row. `misspelt` counts, for each data file, deleted rows that
    name it in another spelling than that of its entry: not all readers find it. `misplaced` are
    delete rows and data rows of deletes that name a data file of another partition: not all readers
    leave it at that.
    """

    read: npt.NDArray[np.bool_]
    delete_rows: Integers
    data_rows: Integers
    misspelt: Integers
    misplaced: tuple[Integers, Integers]


def names_of(deletes: Entries, named: NamedFiles) -> frozenset[str]:
    """Return every data file that delete files name, in their manifest entries or inside."""
    referenced = pc.drop_null(pc.unique(deletes.table["referenced_data_file"])).to_pylist()
    return frozenset(referenced).union(*named.values())


def resolve_names(
    matches: Matches, named: NamedFiles, spelling: Mapping[str, str]
) -> NamedPositionDeletes:
    """Find the live data files that position delete files name.

    `spelling` gives the location of a live data file that is named in another way.
    """
    read, given = _given(matches, named, spelling)
    data_rows = np.empty(0, np.int64)
    if given:  # looking up in all data files takes its time
        meant = pa.array([spelling.get(name, name) for _, name, _ in given], pa.string())
        data_rows = rows.index_in(meant, matches.data.table["location"])
    delete_rows = np.array([row for row, _, _ in given], np.int64)
    known = np.flatnonzero(data_rows >= 0)
    is_older, is_same = reach(matches, data_rows[known], delete_rows[known])
    elsewhere, applies = known[is_older & ~is_same], known[is_older & is_same]
    applies = applies[matches.vectors.counts[data_rows[applies]] == 0]
    misspelt = np.zeros(len(matches.data), np.int64)
    for at in applies.tolist():
        _, name, count = given[at]
        if name in spelling:
            misspelt[data_rows[at]] += count
    order = applies[np.lexsort((delete_rows[applies], data_rows[applies]))]
    whole = misplaced_deletes(matches)
    both = (
        np.concatenate([whole[0], delete_rows[elsewhere]]),
        np.concatenate([whole[1], data_rows[elsewhere]]),
    )
    return NamedPositionDeletes(read, delete_rows[order], data_rows[order], misspelt, both)


def _given(
    matches: Matches, named: NamedFiles, spelling: Mapping[str, str]
) -> tuple[npt.NDArray[np.bool_], list[tuple[int, str, int]]]:
    """Find which delete files were read, and names with delete rows and counts of deleted rows.

    Those of entries are among them where they are misspelt: `matches` may not have found them.
    """
    read = np.zeros(len(matches.deletes), np.bool_)
    given: list[tuple[int, str, int]] = []
    of_partitions = matches.position_deletes[0].order
    locations = rows.take(matches.deletes, of_partitions).table["location"].to_pylist()
    for row, location in zip(of_partitions.tolist(), locations, strict=True):
        if location in named:
            read[row] = True
            given += [(row, name, count) for name, count in named[location].items()]
    if spelling:
        entries = rows.by_row(matches.deletes, "referenced_data_file", "record_count")
        given += [(row, name, n) for row, (name, n) in enumerate(entries) if name in spelling]
    return read, given


_NONE = Applied((), (), ())


class DeleteIndex:
    """The deletes of data files one by one; cheap where a file has none."""

    def __init__(self, matches: Matches, named: NamedPositionDeletes) -> None:
        self._matches = matches
        self._named = named
        self._has_some = delete_counts(matches) > 0

    def of(self, row: int) -> Applied:
        """Return the deletes of one data file. Order: delete rows ascend."""
        if not self._has_some[row]:
            return _NONE
        return Applied(
            self._in_ranges(row, (0,)),
            tuple(sorted((*self._unread(row), *self._named_ones(row)))),
            self._in_ranges(row, range(3, 5)),
        )

    def _in_ranges(self, row: int, kinds: Sequence[int]) -> tuple[int, ...]:
        found: list[int] = []
        for kind in kinds:
            part = self._matches.ranges[kind]
            found += part.order[part.first[row] : part.stop[row]].tolist()
        return tuple(sorted(found))

    def _unread(self, row: int) -> list[int]:
        """Position deletes of the file alone, and those whose names are not known."""
        return [at for at in self._in_ranges(row, (1, 2)) if not self._named.read[at]]

    def _named_ones(self, row: int) -> list[int]:
        start, stop = np.searchsorted(self._named.data_rows, [row, row + 1])
        found = self._named.delete_rows[start:stop]
        listed: list[int] = found[self._named.read[found]].tolist()
        return listed


def dangling(matches: Matches, named: NamedPositionDeletes) -> Integers:
    """Return rows of the delete files that apply to no live data file, whatever reader one asks.

    Order: ascending.
    """
    counts = per_delete_file(matches)
    by_name = np.bincount(named.delete_rows, minlength=len(counts))
    unused = by_name + np.where(named.read, 0, counts) == 0
    unused[named.misplaced[0]] = False
    return np.flatnonzero(unused)


def needed_elsewhere(
    matches: Matches, named: NamedPositionDeletes, locations: Collection[str]
) -> npt.NDArray[np.bool_]:
    """Position delete files of partitions that apply to data files at no such location, too.

    Shape: one flag per delete file; true as well where it is not known what a file names.
    """
    elsewhere = ~rows.are_at(matches.data, locations)[named.data_rows]
    needed = np.zeros(len(matches.deletes), np.bool_)
    needed[matches.position_deletes[0].order] = True
    needed[named.read] = False
    needed[named.delete_rows[elsewhere]] = True
    return needed
