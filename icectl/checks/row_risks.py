"""Live entries of a snapshot that a change is planned with, and what would change their meaning.

One pass over columns that planning loads anyway: entries that agree cost little, and only where
something is wrong is it looked for in full.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.live_entries import fingerprints
from icectl.checks.rule import Breach, located
from icectl.entries.columns import Integers, Mask
from icectl.entries.rows import Entries, location_keys, repeats
from icectl.format.manifest import Content, FileFormat, Status
from icectl.format.metadata import TableMetadata
from icectl.format.rule import Fault
from icectl.format.snapshot import Snapshot


class LiveRows:
    """The live rows of entries that a change of a snapshot is planned with.

    Columns that were not loaded are not there; what they would show is not looked for.
    """

    def __init__(
        self,
        entries: Entries,
        metadata: TableMetadata,
        snapshot: Snapshot,
        subject: str | None = None,
    ) -> None:
        self.table = entries.table
        self.metadata = metadata
        self.snapshot = snapshot
        self.subject = subject or f"snapshot {snapshot.snapshot_id}"
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

    def breaches(self, what: str, rows: Integers, column: str = "location") -> Iterator[Breach]:
        """Yield one breach for all rows that have the same thing wrong."""
        if len(rows):
            fault = Fault(len(rows), str(self.table[column][int(rows[0])].as_py()))
            yield from located(self.subject, fault, what)


def deletes_in_version_1(live: LiveRows) -> Iterator[Breach]:
    """Find deletes, which readers of version 1 do not know (R-120)."""
    if live.metadata.format_version == 1:
        what = "is a delete file in a table of version 1, whose readers know none"
        yield from live.breaches(what, np.flatnonzero(live.is_live & ~live.is_data))


def late(live: LiveRows) -> Iterator[Breach]:
    """Find sequence numbers above that of the snapshot (R-044, V4-064)."""
    if live.metadata.format_version > 1 and live.has("sequence_number"):
        last = live.snapshot.sequence_number
        wrong = live.is_live & (live.numbers("sequence_number") > last)
        what = f"has a sequence number above that of its snapshot, {last}"
        yield from live.breaches(what, np.flatnonzero(wrong))


def with_row_ids_above_next(live: LiveRows) -> Iterator[Breach]:
    """Find row ids that new rows would get too (R-104, V4-067)."""
    next_row_id = live.metadata.next_row_id
    if next_row_id is not None and live.has("first_row_id", "record_count"):
        first = live.numbers("first_row_id")
        ends = first + live.numbers("record_count")
        above = live.is_data & (first >= 0) & (ends > next_row_id)
        what = f"has row ids above `next-row-id`, {next_row_id}"
        yield from live.breaches(what, np.flatnonzero(above))


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
