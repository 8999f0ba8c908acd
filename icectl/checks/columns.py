"""The columns of a manifest's entries as arrays, and masks over them as faults."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import Mask, mask_of
from icectl.entries.rows import RawEntries
from icectl.format.manifest import Content, FileFormat
from icectl.format.rule import Fault

Numbers = npt.NDArray[Any]
T = TypeVar("T")

_MAPS = ("value_counts", "lower_bounds")
"""The largest columns, which come in several pieces where they are too large for one."""


class Columns:
    """The columns of a manifest's entries as arrays, each made once for all checks."""

    def __init__(self, rows: RawEntries) -> None:
        self.table = rows.table
        self._numbers: dict[str, Numbers] = {}
        self._absent: dict[str, Mask] = {}
        self._computed: dict[Callable[..., Any], Any] = {}

    def once(self, compute: Callable[[Any], T]) -> T:
        """Return what several checks need, computed once."""
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        result: T = self._computed[compute]
        return result

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
        column = self.numbers(name)
        flags = column == values[0]
        for value in values[1:]:
            flags = flags | (column == value)
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
    """Return the same fault of several parts of a manifest as one."""
    present = [fault for fault in faults if fault is not None]
    return Fault(sum(fault.count for fault in present), present[0].location) if present else None
