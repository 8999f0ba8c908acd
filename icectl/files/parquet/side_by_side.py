"""A Parquet file whose row groups are encoded by several threads at once.

Each row group becomes a file of its own in memory, and the merge engine puts their column chunks
behind one footer, in the order in which they were given.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from io import BytesIO
from types import MappingProxyType
from typing import IO, Any

import pyarrow as pa

from icectl.errors import SelfCheckFailed
from icectl.files.compiled import loops
from icectl.files.data_rows import release_memory
from icectl.files.parquet.merge import MergedFile
from icectl.files.parquet.merge_columns import NotMergeable
from icectl.files.parquet.merge_footer import layout_of, read_source
from icectl.files.parquet.write import ParquetOptions, ParquetWriter
from icectl.files.wkb import Shapes


def can_write_side_by_side() -> bool:
    """Return whether this installation has the compiled loops that put row groups together."""
    return loops() is not None


class SideBySideWriter:
    """A writer as ParquetWriter whose row groups wait for up to `most` others to be encoded.

    Memory: that of `most` row groups, decoded and encoded.
    """

    def __init__(
        self,
        file: IO[bytes],
        schema: pa.Schema,
        options: ParquetOptions,
        properties: Mapping[str, str],
        pool: Executor,
        most: int,
    ) -> None:
        self._file = file
        self._schema = schema
        self._options = options
        self._properties = properties
        self._pool = pool
        self._most = most
        self._waiting: deque[tuple[Future[tuple[BytesIO, Any]], int, int]] = deque()
        self._first: BytesIO | None = None
        """The first row group, as long as it is the only one."""
        self._merged: MergedFile | None = None
        self._metadata: Any = None
        self.waiting_rows = self.waiting_bytes = 0
        """Rows that are not in the file yet, and their bytes in memory."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the row groups that are encoded, without what ends the file."""
        if self._first is not None:
            return self._first.getbuffer().nbytes
        return 0 if self._merged is None else self._merged.size_bytes

    def write_row_group(
        self,
        batches: Sequence[pa.RecordBatch],
        with_nan: Collection[int] = (),
        shapes: Mapping[int, Shapes] = MappingProxyType({}),
    ) -> None:
        """Let batches become one row group, as ParquetWriter does."""
        row_count = sum(batch.num_rows for batch in batches)
        size_bytes = sum(batch.nbytes for batch in batches)
        future = self._pool.submit(self._encoded, list(batches), with_nan, shapes)
        self._waiting.append((future, row_count, size_bytes))
        self.waiting_rows += row_count
        self.waiting_bytes += size_bytes
        while len(self._waiting) > self._most:
            self._take()

    def drain(self) -> None:
        """Wait until all row groups are encoded."""
        while self._waiting:
            self._take()

    def close(self) -> Any:
        """Write the footer; what pyarrow would have had it say, as its FileMetaData."""
        self.drain()
        if self._metadata is None:
            self._add(*self._encoded([], (), {}))
        if self._first is not None:
            self._file.write(self._first.getbuffer())
        else:
            assert self._merged is not None
            with _as_it_should_be():
                self._merged.finish()
        return self._metadata

    def abandon(self) -> None:
        """Drop a file that is not wanted."""
        for future, _, _ in self._waiting:
            future.cancel()
        self._waiting.clear()

    def _encoded(
        self,
        batches: Sequence[pa.RecordBatch],
        with_nan: Collection[int],
        shapes: Mapping[int, Shapes],
    ) -> tuple[BytesIO, Any]:
        """Return a file with one row group, and its metadata."""
        file = BytesIO()
        writer = ParquetWriter(file, self._schema, self._options, self._properties)
        if batches:
            writer.write_row_group(batches, with_nan, shapes)
        metadata = writer.close()
        row_count = sum(batch.num_rows for batch in batches)
        release_memory(row_count, sum(batch.nbytes for batch in batches))
        return file, metadata

    def _take(self) -> None:
        future, row_count, size_bytes = self._waiting.popleft()
        encoded = future.result()
        self.waiting_rows -= row_count
        self.waiting_bytes -= size_bytes
        self._add(*encoded)

    def _add(self, content: BytesIO, metadata: Any) -> None:
        if self._metadata is None:
            self._first, self._metadata = content, metadata
            return
        with _as_it_should_be():
            if self._first is not None:
                source = read_source(self._first)
                self._merged = MergedFile(self._file, layout_of([source]))
                self._merged.add(source, self._first)
                self._first = None
            assert self._merged is not None
            self._merged.add(read_source(content), content)
        self._metadata.append_row_groups(metadata)


@contextmanager
def _as_it_should_be() -> Iterator[None]:
    """Raises: SelfCheckFailed, where the bytes of a row group are not what was encoded."""
    try:
        yield
    except NotMergeable as error:
        raise SelfCheckFailed(f"a row group was not encoded as it should be: {error}") from error
