"""Rows by parts: few wait in memory, more are in a temporary file until they are read part by part.

The file has no name, as that of a listing: it ends with the process, whatever ends that.
"""

import tempfile
from collections.abc import Iterator
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icectl.storage.listing import temporary_file

_WAITING_BYTES = 8 << 20
"""Rows that wait in memory to be written."""

MOST_PARTS = 256
"""Numbers of parts fit in a byte."""

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Spill:
    """Rows of one schema in `part_count` parts, at most MOST_PARTS.

    Cost: memory of 8 MiB.
    """

    def __init__(self, schema: pa.Schema, part_count: int) -> None:
        self._schema = schema
        self._part_count = part_count
        self._waiting: list[tuple[npt.NDArray[np.uint8], pa.RecordBatch]] = []
        self._waiting_bytes = 0
        self._by_part: dict[int, list[pa.RecordBatch]] = {}
        self._places: dict[int, list[tuple[int, int]]] = {}
        self._file: Any = None

    def add(self, parts: npt.NDArray[Any], batch: pa.RecordBatch) -> None:
        """Add rows, each to its part.

        Raises: StorageError, where there is no room for them on disk; they stay in memory then.
        """
        self._waiting.append((parts.astype(np.uint8, copy=False), batch))
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= _WAITING_BYTES:
            self._write()

    def _order(self) -> None:
        """Order the rows that wait by their parts."""
        if not self._waiting:
            return
        parts = np.concatenate([numbers for numbers, _ in self._waiting])
        together = pa.concat_batches([batch for _, batch in self._waiting])
        self._waiting = []
        order = np.argsort(parts, kind="stable")
        ends = np.cumsum(np.bincount(parts, minlength=self._part_count))
        ordered, start = together.take(pa.array(order)), 0
        for number, end in enumerate(ends.tolist()):
            if end > start:
                self._by_part.setdefault(number, []).append(ordered.slice(start, end - start))
            start = end

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part, which stay. Order: as added. Raises: StorageError."""
        self._order()
        for start, size in self._places.get(number, ()):
            with temporary_file():
                self._file.seek(start)
                stored = self._file.read(size)
            yield from pa.ipc.open_stream(stored)
        yield from self._by_part.get(number, ())

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows, those of a part together: few rows at once. Raises: StorageError."""
        if not self._by_part and self._file is None:
            yield pa.Table.from_batches([batch for _, batch in self._waiting], self._schema)
            return
        for number in range(self._part_count):
            yield pa.Table.from_batches(self.read(number), self._schema)

    def close(self) -> None:
        """Give memory and disk back; no row is left."""
        self._waiting, self._waiting_bytes, self._by_part, self._places = [], 0, {}, {}
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self) -> None:
        self._order()
        with temporary_file():
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - see close
                finalize(self, self._file.close)
            for number in list(self._by_part):
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, self._schema, options=_OPTIONS) as writer:
                    writer.write_batch(pa.concat_batches(self._by_part[number]))
                stored = memoryview(sink.getvalue())
                start, size = self._file.seek(0, 2), len(stored)
                while stored:  # a bare file may write less than it is given
                    stored = stored[self._file.write(stored) :]
                self._places.setdefault(number, []).append((start, size))
                del self._by_part[number]
        self._waiting_bytes = 0
