"""Rows sorted by a key: in memory, or where they do not fit by way of sorted runs on disk."""

import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from icectl.files.data_rows import batch_rows
from icectl.rows.order import RowOrder

_PART_BYTES, _PARTS = 512 << 10, 64
"""What is read of a run at a time, unless a row is wider; a run has so many parts at least."""
_KEYED_BYTES = 16 << 20
_MOST_RUNS = 64
"""So many runs become one: of each at least one part is in memory while they are merged."""

_KEY = "key"


@dataclass(frozen=True, slots=True)
class Sorting:
    """An order to sort rows by; `memory_bytes` of them are sorted at a time."""

    order: RowOrder
    memory_bytes: int


class SortKeys(Protocol):
    """A maker of keys of rows."""

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the key of each row, as large binary."""


class RowSorter:
    """A sorter, which gives rows back in the order of their keys; leave it to free the disk.

    Rows with equal keys keep their order. What is larger than `memory_bytes` waits on disk.
    Cost: twice `memory_bytes`, keys included.
    """

    def __init__(self, keys: SortKeys, memory_bytes: int) -> None:
        self._keys = keys
        self._memory_bytes = memory_bytes
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._runs: list[list[_Run]] = []
        """By how often their rows were merged; those that were more often came first."""
        self._directory: Path | None = None
        self._file_count = 0
        self._stack = ExitStack()

    def __enter__(self) -> "RowSorter":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows. Raises: what making their keys raises; OSError of the disk."""
        # Making keys takes several times what is made: few rows at a time, where they are wide.
        step = max(1, batch.num_rows * _KEYED_BYTES // max(batch.nbytes, 1))
        for start in range(0, batch.num_rows, step):
            rows = batch.slice(start, step)
            keyed = rows.append_column(_KEY, self._keys.of(rows))
            self._held.append(keyed)
            self._held_bytes += keyed.nbytes
            del rows, keyed
            if self._held_bytes >= self._memory_bytes:
                self._spill()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, once no more are added."""
        if not self._runs:
            if self._held:
                yield from map(_without_keys, _in_order(self._held))
            return
        if self._held:
            self._spill()
        runs = [run for some in reversed(self._runs) for run in some]
        yield from map(_without_keys, _merged(runs, self._memory_bytes))

    def _spill(self) -> None:
        row_count = sum(batch.num_rows for batch in self._held)
        part_bytes = min(_PART_BYTES, self._held_bytes // _PARTS)
        part_rows = max(1, row_count * part_bytes // max(self._held_bytes, 1))
        self._held_bytes = 0
        self._keep(0, _in_order(self._held, part_rows), part_rows)
        pa.default_memory_pool().release_unused()

    def _keep(self, level: int, rows: Iterator[pa.RecordBatch], part_rows: int) -> None:
        """Put sorted rows on disk; those of many runs of a level become one of the next."""
        if level == len(self._runs):
            self._runs.append([])
        self._runs[level].append(_written(rows, self._next_file(), part_rows))
        if len(self._runs[level]) == _MOST_RUNS:
            runs = self._runs[level]
            self._keep(level + 1, _merged(runs, self._memory_bytes), part_rows)
            self._runs[level] = []
            for run in runs:
                run.path.unlink()

    def _next_file(self) -> Path:
        if self._directory is None:
            made = tempfile.TemporaryDirectory(prefix="icectl-")
            self._directory = Path(self._stack.enter_context(made))
        self._file_count += 1
        return self._directory / f"{self._file_count}.arrow"


def sorted_batches(
    batches: Iterable[pa.RecordBatch], keys: SortKeys, memory_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the order of their keys, as RowSorter gives them."""
    with RowSorter(keys, memory_bytes) as sorter:
        for batch in batches:
            sorter.add(batch)
        yield from sorter.batches()


def _keys(rows: pa.RecordBatch) -> pa.Array:
    """Return the last column, by its place: a column of the table may have its name."""
    return rows.column(rows.num_columns - 1)


def _in_order(
    batches: list[pa.RecordBatch], most_rows: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield rows with keys in the order of these.

    The list is emptied, lest they are in memory thrice.
    """
    # Taking rows out of many chunks is far slower than out of one.
    rows = pa.concat_batches(batches)
    batches.clear()
    order = pc.sort_indices(_keys(rows))
    step = most_rows or batch_rows(rows.num_rows, rows.nbytes)
    for start in range(0, rows.num_rows, step):
        yield rows.take(order.slice(start, step))


def _without_keys(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.remove_column(rows.num_columns - 1)


@dataclass(slots=True)
class _Run:
    """A sorted run on disk, and what of it was read and not yet taken."""

    path: Path
    reader: pa.RecordBatchFileReader
    at: int = 0
    held: pa.RecordBatch | None = None

    @property
    def is_read(self) -> bool:
        """Whether no row is left on the disk."""
        return self.at == int(self.reader.num_record_batches)

    def fill(self, size_bytes: int) -> None:
        """Read on where no row is held: one part, or more up to a size."""
        if self.held is not None and self.held.num_rows:
            return
        parts: list[pa.RecordBatch] = []
        while not self.is_read and sum(part.nbytes for part in parts) < max(size_bytes, 1):
            parts.append(self.reader.get_batch(self.at))
            self.at += 1
        self.held = pa.concat_batches(parts) if parts else None

    def last_key(self) -> bytes:
        """Return the highest of the keys that are held."""
        assert self.held is not None
        return bytes(_keys(self.held)[-1].as_py())

    def taken(self, limit: bytes | None, *, with_limit: bool) -> list[pa.RecordBatch]:
        """Return the rows that are held up to a limit; all without one."""
        if self.held is None:
            return []
        count = self.held.num_rows
        if limit is not None:
            find, keys = (bisect_right if with_limit else bisect_left), _keys(self.held)
            count = find(range(count), limit, key=lambda at: keys[at].as_py())
        found = self.held.slice(0, count)
        self.held = self.held.slice(count)
        return [found] if count else []


def _written(rows: Iterator[pa.RecordBatch], path: Path, part_rows: int) -> _Run:
    """Write sorted rows as a run."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.OSFile(str(path), "wb") as file, ExitStack() as stack:
        to = None
        for some in rows:
            if to is None:
                to = stack.enter_context(pa.ipc.new_file(file, some.schema, options=options))
            for start in range(0, some.num_rows, part_rows):
                to.write_batch(some.slice(start, part_rows))
    return _Run(path, pa.ipc.open_file(pa.OSFile(str(path), "rb")))


def _merged(runs: Sequence[_Run], memory_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all runs in order, some of each in memory at a time."""
    while runs:
        for run in runs:
            run.fill(memory_bytes // (2 * len(runs)))
        # Beyond the last row of a run that is held, rows of it may come that are not.
        last = [(run.last_key(), place) for place, run in enumerate(runs) if not run.is_read]
        limit, first = min(last, default=(None, 0))
        parts = [
            batch
            for place, run in enumerate(runs)
            for batch in run.taken(limit, with_limit=place <= first)
        ]
        if parts:
            yield from _in_order(parts)
        runs = [run for run in runs if not run.is_read or (run.held and run.held.num_rows)]
