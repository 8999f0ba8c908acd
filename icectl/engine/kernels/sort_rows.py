"""Rows sorted by a key: in memory, or where they do not fit by way of sorted runs on disk."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.plan.compact_order import RowOrder

_BATCH_ROWS = 65_536
_RUN_PARTS, _FEWEST_ROWS = 256, 64
"""Batches of a run: of each run up to one more than fits may be in memory when runs are merged."""

_KEY = "key"


@dataclass(frozen=True, slots=True)
class Sorting:
    """How to sort; `memory_bytes` of rows are sorted at a time."""

    order: RowOrder
    memory_bytes: int


class Keys(Protocol):
    """Makes keys of rows."""

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """The key of each row, as large binary."""


class RowSorter:
    """Takes rows and gives them back in the order of their keys; leave it to free the disk.

    Rows with equal keys keep their order. What is larger than `memory_bytes` waits on disk.
    Cost: twice `memory_bytes`, keys included.
    """

    def __init__(self, keys: Keys, memory_bytes: int) -> None:
        self._keys = keys
        self._memory_bytes = memory_bytes
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._runs: list[_Run] = []
        self._directory: Path | None = None
        self._stack = ExitStack()

    def __enter__(self) -> "RowSorter":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows. Raises: what making their keys raises; OSError of the disk."""
        keyed = batch.append_column(_KEY, self._keys.of(batch))
        self._held.append(keyed)
        self._held_bytes += keyed.nbytes
        if self._held_bytes >= self._memory_bytes:
            self._spill()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, once no more are added."""
        if not self._runs:
            if self._held:
                yield from _in_batches(_in_order(self._held))
            return
        if self._held:
            self._spill()
        yield from _merged(self._runs, self._memory_bytes)

    def _spill(self) -> None:
        if self._directory is None:
            made = tempfile.TemporaryDirectory(prefix="icectl-")
            self._directory = Path(self._stack.enter_context(made))
        number = len(self._runs)
        path = self._directory / f"{number}.arrow"
        self._runs.append(_spilled(_in_order(self._held), path, number))
        self._held_bytes = 0


def sorted_batches(
    batches: Iterable[pa.RecordBatch], keys: Keys, memory_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The same rows in the order of their keys, as RowSorter gives them."""
    with RowSorter(keys, memory_bytes) as sorter:
        for batch in batches:
            sorter.add(batch)
        yield from sorter.batches()


def _keys(rows: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
    """The last column, by its place: a column of the table may have its name."""
    return rows.column(rows.num_columns - 1)


def _in_order(batches: list[pa.RecordBatch]) -> pa.Table:
    """Rows with keys in the order of these; the list is emptied, lest they are in memory thrice."""
    # Taking rows out of many chunks is far slower than out of one.
    table = pa.Table.from_batches(batches).combine_chunks()
    batches.clear()
    return table.take(pc.sort_indices(_keys(table)))


def _in_batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.remove_column(table.num_columns - 1).combine_chunks().to_batches(_BATCH_ROWS)


@dataclass(slots=True)
class _Run:
    """A sorted run on disk: the first key of each of its batches, and how far it has been read."""

    reader: pa.RecordBatchFileReader
    first_keys: list[bytes]
    sizes: list[int]
    at: int = 0
    skipped_rows: int = 0

    def below(self, limit: bytes | None) -> Iterator[pa.RecordBatch]:
        """The rows that were not read yet whose key is below a limit; all without one."""
        while self.at < len(self.first_keys):
            if limit is not None and self.first_keys[self.at] >= limit:
                return
            batch = self.reader.get_batch(self.at).slice(self.skipped_rows)
            count = batch.num_rows
            if limit is not None:
                count = pc.sum(pc.less(_keys(batch), pa.scalar(limit, pa.large_binary()))).as_py()
            yield batch.slice(0, count)
            if count < batch.num_rows:
                self.skipped_rows += count
                return
            self.at, self.skipped_rows = self.at + 1, 0


def _spilled(table: pa.Table, path: Path, number: int) -> _Run:
    """Write sorted rows as a run; what follows their keys makes each differ from all others."""
    suffixes = (np.arange(len(table), dtype=np.uint64) + np.uint64(number << 40)).astype(">u8")
    offsets = np.arange(len(table) + 1, dtype=np.int64) * 8
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(suffixes)]
    places = pa.Array.from_buffers(pa.large_binary(), len(table), buffers)
    nothing = pa.scalar(b"", pa.large_binary())
    distinct = pc.binary_join_element_wise(_keys(table), places, nothing)
    rows = table.set_column(table.num_columns - 1, _KEY, distinct)
    part_rows = max(_FEWEST_ROWS, len(rows) // _RUN_PARTS)
    batches = rows.combine_chunks().to_batches(part_rows)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, rows.schema, options=options) as to,
    ):
        for batch in batches:
            to.write_batch(batch)
    reader = pa.ipc.open_file(pa.OSFile(str(path), "rb"))
    first_keys = [_keys(batch)[0].as_py() for batch in batches]
    return _Run(reader, first_keys, [batch.nbytes for batch in batches])


def _merged(runs: Sequence[_Run], memory_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows of all runs in order, a range of keys at a time that fits into memory."""
    for limit in [*_limits(runs, memory_bytes), None]:
        parts = [batch for run in runs for batch in run.below(limit) if batch.num_rows]
        if parts:
            yield from _in_batches(_in_order(parts))


def _limits(runs: Sequence[_Run], memory_bytes: int) -> list[bytes]:
    """Keys between which batches of about half the memory begin.

    Of each run one batch may begin below a limit and go on behind it: that is what the other half
    of the memory is for.
    """
    begun = sorted(
        (key, size) for run in runs for key, size in zip(run.first_keys, run.sizes, strict=True)
    )
    limits, held = [], 0
    for key, size in begun:
        if held + size > memory_bytes // 2 and held:
            limits.append(key)
            held = 0
        held += size
    return limits
