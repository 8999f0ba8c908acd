"""Searches over live entries for what would change the meaning of rows, were anything built on it.

One pass over columns that planning loads anyway: entries that agree cost little, and only where
something is wrong is it looked for in full.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.searches.live_entries import fingerprints
from icectl.entries.columns.values import Integers, Mask
from icectl.entries.rows import Entries, location_keys, repeats
from icectl.format.layout import Layout
from icectl.format.manifest import Content, FileFormat, Status
from icectl.format.rule import BrokenRule, Fault, Found


@dataclass(frozen=True, slots=True)
class Ledger:
    """The numbers of a snapshot and its table that those of live entries keep to.

    Rules of a snapshot with a root have ids of their own.
    """

    format_version: int
    sequence_number: int
    next_row_id: int | None
    layout: Layout


class LiveRows:
    """The live rows of entries; columns that were not loaded are not there."""

    def __init__(self, entries: Entries) -> None:
        self.table = entries.table
        self.is_live = self._codes("status") != Status.DELETED
        content = self._codes("content")
        self.is_data = self.is_live & (content == Content.DATA)
        self.is_vector = self.is_live & (content == Content.POSITION_DELETES)
        if self.is_vector.any():
            self.is_vector &= self._codes("file_format") == FileFormat.PUFFIN

    def _codes(self, name: str) -> npt.NDArray[np.int8]:
        return np.asarray(self.table[name].to_numpy(), np.int8)

    def has(self, *names: str) -> bool:
        """Return whether columns were loaded."""
        return set(names) <= set(self.table.column_names)

    def numbers(self, name: str) -> Integers:
        """Return a number column; null is -1."""
        column = self.table[name]
        return np.asarray(
            (pc.fill_null(column, -1) if column.null_count else column).to_numpy(), np.int64
        )

    def keys(self, name: str, mask: Mask) -> pa.ChunkedArray:
        """Return a column of locations in the form that they are compared in, of some rows."""
        column = self.table[name]
        return location_keys(column if mask.all() else column.filter(pa.array(mask)))

    def broken(self, rule: str, rows: Integers, told: str, column: str = "location") -> Found:
        """Yield the rule with the rows that break it, where there are any."""
        if len(rows):
            named = self.table[column][int(rows[0])].as_py()
            yield BrokenRule(rule, Fault(len(rows), str(named)), told)


def row_risks(entries: Entries, ledger: Ledger) -> Found:
    """Integers that are not of the snapshot, and deletes that its version does not have.

    Rules: R-044, R-104, R-120; V4-064, V4-067 of version 4.
    """
    live, has_root = LiveRows(entries), ledger.layout is Layout.SFC_1
    if ledger.format_version == 1:
        said = "is a delete file in a table of version 1, whose readers know none"
        yield from live.broken("R-120", np.flatnonzero(live.is_live & ~live.is_data), said)
    elif live.has("sequence_number"):
        late = live.is_live & (live.numbers("sequence_number") > ledger.sequence_number)
        rule = "V4-064" if has_root else "R-044"  # R-044, V4-064
        said = f"has a sequence number above that of its snapshot, {ledger.sequence_number}"
        yield from live.broken(rule, np.flatnonzero(late), said)
    if ledger.next_row_id is not None and live.has("first_row_id", "record_count"):
        first = live.numbers("first_row_id")
        ends = first + live.numbers("record_count")
        above = live.is_data & (first >= 0) & (ends > ledger.next_row_id)
        rule = "V4-067" if has_root else "R-104"  # R-104, V4-067
        said = f"has row ids above `next-row-id`, {ledger.next_row_id}"
        yield from live.broken(rule, np.flatnonzero(above), said)


def live_twice(files: Entries, rows: Sequence[int]) -> int:
    """Count those of some rows whose location another row of the files has too (R-066)."""
    keys = location_keys(files.table["location"])
    again = repeated_places(keys)
    if not len(again):
        return 0
    named = pc.unique(keys.take(pa.array(again)))
    chosen = pc.is_in(keys.take(pa.array(rows, pa.int64())), named)
    return int(pc.sum(chosen, min_count=0).as_py())


def repeated_places(keys: pa.ChunkedArray) -> Integers:
    """Return the places whose key an earlier one has; null has none in common."""
    prints = np.empty(len(keys), np.uint64)
    start = 0
    for chunk in keys.chunks:
        prints[start : start + len(chunk)] = fingerprints(chunk)
        start += len(chunk)
    prints.sort()
    if not (prints[1:] == prints[:-1]).any():
        return np.empty(0, np.int64)
    return np.flatnonzero(repeats(keys))
