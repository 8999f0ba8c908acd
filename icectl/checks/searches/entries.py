"""Searches for entries of a manifest that break a rule: whole columns at a time.

Each search gives how many entries it found and where the first of them lies, or None.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns.values import Mask, mask_of
from icectl.entries.rows import RawEntries
from icectl.format.manifest import Content, FileFormat, ManifestContent, Status
from icectl.format.rule import Fault

Numbers = npt.NDArray[Any]

_ABSOLUTE = r"^(/|[A-Za-z][A-Za-z0-9+.-]*:)"


_MAPS = ("value_counts", "lower_bounds")
"""The largest columns, which come in several pieces where they are too large for one."""


class Columns:
    """The columns of a manifest's entries as arrays, each made once for all searches."""

    def __init__(self, rows: RawEntries) -> None:
        self.table = rows.table
        self._numbers: dict[str, Numbers] = {}
        self._absent: dict[str, Mask] = {}

    def parts(self) -> Iterator["Columns"]:
        """Yield the same entries in parts whose columns are in one piece each. Order: kept."""
        maps = [name for name in _MAPS if name in self.table.column_names]
        if all(self.table[name].num_chunks <= 1 for name in maps):
            yield self
            return
        for batch in self.table.to_batches():
            yield Columns(RawEntries(pa.Table.from_batches([batch])))

    def numbers(self, name: str) -> Numbers:
        """Return a number column; null is 0."""
        if name not in self._numbers:
            column = self.table[name]
            filled = pc.fill_null(column, 0) if column.null_count else column
            self._numbers[name] = filled.to_numpy()
        return self._numbers[name]

    def absent(self, name: str) -> Mask:
        """Find where a column is null."""
        if name not in self._absent:
            column = self.table[name]
            if column.null_count in (0, len(column)):
                flags = np.full(len(column), column.null_count > 0)
            else:
                flags = mask_of(pc.is_null(column))
            self._absent[name] = flags
        return self._absent[name]

    def present(self, name: str) -> Mask:
        """Find where a column is not null."""
        return ~self.absent(name)

    def of(self, name: str, *values: int) -> Mask:
        """Find where a number column has one of the values."""
        found = self.numbers(name)
        flags = found == values[0]
        for value in values[1:]:
            flags = flags | (found == value)
        return np.asarray(flags, np.bool_)

    def vectors(self) -> Mask:
        """Find where an entry is a deletion vector (R-118)."""
        content = self.of("content", Content.POSITION_DELETES)
        return content & self.of("file_format", FileFormat.PUFFIN)

    def fault(self, mask: Mask) -> Fault | None:
        """Return the entries that a mask chooses."""
        return self.fault_at(np.flatnonzero(mask))

    def fault_at(self, places: Numbers) -> Fault | None:
        """Return the entries at these places, which ascend."""
        if not len(places):
            return None
        return Fault(len(places), self.table["location"][int(places[0])].as_py())


def merge_faults(faults: Iterable[Fault | None]) -> Fault | None:
    """Return the same fault found in several parts of a manifest."""
    found = [fault for fault in faults if fault is not None]
    return Fault(sum(fault.count for fault in found), found[0].location) if found else None


def of_other_content(columns: Columns, content: ManifestContent) -> Fault | None:
    """Return entries of data in a manifest of deletes, or the other way round (R-061)."""
    is_data = columns.of("content", Content.DATA)
    return columns.fault(~is_data if content is ManifestContent.DATA else is_data)


def with_value(columns: Columns, name: str) -> Fault | None:
    """Return entries with a value in a column."""
    return columns.fault(columns.present(name))


def without_value(columns: Columns, name: str, *statuses: Status) -> Fault | None:
    """Entries of some statuses, or of all where none is named, without a value in a column."""
    lacking = columns.absent(name)
    return columns.fault(lacking & columns.of("status", *statuses) if statuses else lacking)


def of_other_snapshot(columns: Columns, status: Status, snapshot_id: int) -> Fault | None:
    """Entries of a status that name another snapshot than the one that added their manifest."""
    other = columns.numbers("snapshot_id") != snapshot_id
    return columns.fault(
        other & columns.present("snapshot_id") & columns.of("status", status)
    )


def below(columns: Columns, name: str, least: int) -> Fault | None:
    """Return entries with a number that is smaller than it can be (R-063)."""
    return columns.fault(columns.numbers(name) < least)


def of_unknown_format(columns: Columns) -> Fault | None:
    """Return entries of a file format that there is not (R-063)."""
    return columns.fault(columns.of("file_format", FileFormat.UNKNOWN))


def rows_in_puffin_files(columns: Columns) -> Fault | None:
    """Return data and equality delete files in a format that holds no rows (R-063)."""
    is_puffin = columns.of("file_format", FileFormat.PUFFIN)
    return columns.fault(is_puffin & ~columns.of("content", Content.POSITION_DELETES))


def incomplete_vectors(columns: Columns) -> Fault | None:
    """Deletion vectors that do not say which file they are for, or where they lie (R-118)."""
    names = ("referenced_data_file", "content_offset", "content_size_in_bytes")
    lacking = np.logical_or.reduce([columns.absent(name) for name in names])
    return columns.fault(columns.vectors() & lacking)


def misplaced_vectors(columns: Columns) -> Fault | None:
    """Deletion vectors that lie before the start or behind the end of their file (R-118)."""
    start, size = columns.numbers("content_offset"), columns.numbers("content_size_in_bytes")
    room = columns.numbers("file_size_in_bytes") - start
    outside = (start < 0) | (size < 0) | (size > room)
    return columns.fault(columns.vectors() & columns.present("content_offset") & outside)


def vectors(columns: Columns) -> Fault | None:
    """Find deletion vectors."""
    return columns.fault(columns.vectors())


def ranges_of_whole_files(columns: Columns) -> Fault | None:
    """Return files other than deletion vectors that name a range of themselves (R-063)."""
    return columns.fault(~columns.vectors() & columns.present("content_offset"))


def new_position_deletes(columns: Columns) -> Fault | None:
    """Added position delete files (R-122)."""
    is_delete = columns.of("content", Content.POSITION_DELETES) & ~columns.vectors()
    return columns.fault(is_delete & columns.of("status", Status.ADDED))


def equality_deletes_without_ids(columns: Columns) -> Fault | None:
    """Equality delete files that name no column (R-123)."""
    return columns.fault(columns.of("content", Content.EQUALITY_DELETES) & ~_has_ids(columns))


def others_with_equality_ids(columns: Columns) -> Fault | None:
    """Return files other than equality deletes that name columns to compare (R-063)."""
    return columns.fault(_has_ids(columns) & ~columns.of("content", Content.EQUALITY_DELETES))


def equality_ids(columns: Columns) -> Collection[int]:
    """Return every column that an equality delete file compares. Order: ascending."""
    chosen = columns.table["equality_ids"].filter(
        pa.array(columns.of("content", Content.EQUALITY_DELETES))
    )
    found = pc.unique(pc.list_flatten(chosen)).to_pylist()
    return sorted(id_ for id_ in found if id_ is not None)


def with_equality_id(columns: Columns, field_id: int) -> Fault | None:
    """Equality delete files that compare a column."""
    lists = columns.table["equality_ids"].combine_chunks()
    named = np.asarray(pc.list_flatten(lists).to_numpy(zero_copy_only=False)) == field_id
    places = np.unique(pc.list_parent_indices(lists).to_numpy()[named])
    chosen = np.zeros(len(columns.table), np.bool_)
    chosen[places] = True
    return columns.fault(chosen & columns.of("content", Content.EQUALITY_DELETES))


def unordered_split_offsets(columns: Columns) -> Fault | None:
    """Return files whose split offsets do not ascend, or lie outside of the file (R-067)."""
    column = columns.table["split_offsets"].combine_chunks()
    if column.null_count == len(column):
        return None
    parents = pc.list_parent_indices(column).to_numpy()
    offsets = pc.list_flatten(column).to_numpy(zero_copy_only=False)
    wrong = np.zeros(len(columns.table), np.bool_)
    sizes = columns.numbers("file_size_in_bytes")
    wrong[parents[(offsets < 0) | (offsets >= sizes[parents])]] = True
    falls = (offsets[1:] <= offsets[:-1]) & (parents[1:] == parents[:-1])
    wrong[parents[1:][falls]] = True
    return columns.fault(wrong)


def sorted_position_deletes(columns: Columns) -> Fault | None:
    """Position delete files and vectors that name a sort order (R-067)."""
    is_delete = columns.of("content", Content.POSITION_DELETES)
    return columns.fault(is_delete & columns.present("sort_order_id"))


def of_other_sort_orders(columns: Columns, known: Collection[int]) -> Fault | None:
    """Return files of a sort order that is none of those known (R-067)."""
    others = columns.present("sort_order_id") & ~columns.of("sort_order_id", 0, *known)
    return columns.fault(others)


def relative_locations(columns: Columns) -> Fault | None:
    """Return files whose location is neither a URI nor an absolute path (R-164)."""
    return columns.fault(~mask_of(pc.match_substring_regex(columns.table["location"], _ABSOLUTE)))


def live_numbers(columns: Columns, inherited: int) -> tuple[int, int] | None:
    """Return the least and greatest data sequence number of live entries.

    None without any (R-047).
    """
    alive = ~columns.of("status", Status.DELETED)
    if not alive.any():
        return None
    stored = columns.numbers("sequence_number")
    numbers = np.where(columns.absent("sequence_number"), inherited, stored)[alive]
    return int(numbers.min()), int(numbers.max())


def counts(columns: Columns) -> Mapping[Status, tuple[int, int]]:
    """Return files and their rows by status (R-051)."""
    records = columns.numbers("record_count")
    found = {status: columns.of("status", status) for status in Status}
    return {status: (int(mask.sum()), int(records[mask].sum())) for status, mask in found.items()}


def _has_ids(columns: Columns) -> Mask:
    ids = columns.table["equality_ids"]
    if ids.null_count == len(ids):
        return np.zeros(len(ids), np.bool_)
    lengths = pc.list_value_length(ids)
    return mask_of(pc.greater(pc.fill_null(lengths, 0), 0))
