"""Parquet files merged without decoding them: their column chunks, and one new footer.

Bytes of pages are copied as they are. What a footer says beyond offsets stays as it is too, so that
only files are taken together whose footers agree on all that is said once a file. Every page is
looked at on the way: headers, and checksums where the writer has left any.
"""

import io
import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import IO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from isal.isal_zlib import crc32

from icectl.files.parquet.footer import (
    LIST,
    NUMBER,
    STRUCT,
    Integers,
    find_members,
    find_pages,
    octets,
    replace_numbers,
)
from icectl.files.parquet.merge_columns import (
    MAGIC,
    ColumnForms,
    MergedColumns,
    NothingToMerge,
    NotMergeable,
)
from icectl.files.parquet.merge_footer import (
    BOUNDS_AT,
    BOUNDS_SIZE,
    CHUNK,
    CHUNK_OFFSET,
    DATA_AT,
    DICTIONARY_AT,
    FILTER_AT,
    FILTER_SIZE,
    OFFSETS_AT,
    OFFSETS_SIZE,
    Chunks,
    ChunksBeside,
    CopiedChunks,
    EncodedChunks,
    MergeSource,
    footer_of,
    layout_of,
    read_range,
    row_groups_of,
)

_BLOCK_BYTES = 1 << 20
_PART_BYTES = 1 << 25
"""The bytes of the new file that have one checksum, so that two threads can compare them."""

_LONGEST_HEADER = 16 << 20
_MOST_ROW_GROUPS = 1 << 15
_OFFSET_INDEX = np.array([(0, 1, LIST), (1, 0, STRUCT), (2, 1, NUMBER), (2, 2, NUMBER)])
_FILTER_HEADER = np.array([(0, 1, NUMBER)])
_NOTHING = np.empty((0, 3), np.int64)
_FILTER_HEADER_BYTES = 64
_DICTIONARY_PAGE, _DATA_PAGES = 2, (0, 3)


def check_alike(sources: Sequence[MergeSource], forms: ColumnForms | None = None) -> MergedColumns:
    """Return the new file's columns, where footers agree, or `forms` have what is common to all.

    Raises: NotMergeable; NothingToMerge, without row groups.
    """
    count = sum(len(source.groups) for source in sources)
    if not count:
        raise NothingToMerge("it has no rows, or all of them are deleted")
    if count >= _MOST_ROW_GROUPS:
        raise NotMergeable("there would be too many row groups in the file")
    return layout_of(sources, forms)


@dataclass(frozen=True, slots=True)
class _Copied:
    """A source whose chunks are in the new file.

    By chunk: how much further on it is than before, where its Bloom filter is, and its indexes.
    """

    source: MergeSource
    shift: Integers
    filters: Integers
    offset_indexes: Sequence[bytes]
    column_indexes: Sequence[bytes]

    def chunks(self, numbers: Mapping[int, Integers]) -> CopiedChunks:
        chunks = self.source.footer.of(CHUNK)
        nodes = (CHUNK_OFFSET, DATA_AT, DICTIONARY_AT)
        moved = {node: self.source.footer.column(node, chunks) + self.shift for node in nodes}
        starts = np.full(len(self.source.group_rows), np.iinfo(np.int64).max)
        is_copied = self.source.chunks.is_copied
        new = self.source.chunks.start + self.shift
        np.minimum.at(starts, self.source.chunks.group[is_copied], new[is_copied])
        starts[starts == np.iinfo(np.int64).max] = 0
        return CopiedChunks(self.source, new, starts, {**moved, FILTER_AT: self.filters, **numbers})


@dataclass(frozen=True, slots=True)
class CopyRange:
    """A means to append a range of a source; one that `is_whole` takes all bytes or none."""

    copy: Callable[[int, int], None]
    is_whole: bool = False


class Target(Protocol):
    """A file that is written from its beginning to its end."""

    def write(self, content: bytes | memoryview, /) -> int:
        """Append bytes."""


@dataclass(slots=True)
class _Part:
    """Bytes of the new file that passed through here, with their CRC-32."""

    start: int
    end: int
    checksum: int = 0


class MergedFile:
    """A Parquet file made of others, one at a time; `layout` says which columns it gets."""

    def __init__(self, file: Target, layout: MergedColumns) -> None:
        self._file = file
        self._layout = layout
        self.size_bytes = 0
        self._parts = [_Part(0, 0)]
        self._copied: list[_Copied] = []
        self._decoded: dict[int, _Copied] = {}
        """Columns that were decoded of sources, by their place among these."""
        self._more: _Copied | None = None
        self._buffer = _block()

    def add(self, source: MergeSource, file: IO[bytes], copy: CopyRange | None = None) -> None:
        """Copy the column chunks of a source, and the Bloom filters and indexes that they have.

        With `copy`, chunks and filters do not pass through here, and no page is looked at. Copied
        as a whole, the source's own footer and indexes stay in between, and nothing leads there.
        Raises: NotMergeable, where its pages are not as its footer or their checksums say;
        CorruptTable R-099.
        """
        self._copied.append(self._copy(source, file, copy))

    def add_decoded(self, source: MergeSource, file: IO[bytes]) -> None:
        """Copy columns that the source to add next lacks, from a file with its row groups."""
        self._decoded[len(self._copied)] = self._copy(source, file)

    def chunk_places(self) -> Integers:
        """Return where chunks are: (source, first byte there, first byte here, bytes) a row."""
        places = [np.empty((0, 4), np.int64)]
        for at, copied in enumerate(self._copied):
            chunks = copied.source.chunks
            kept = np.flatnonzero(chunks.is_copied)
            start, end = chunks.start[kept], chunks.end[kept]
            sources = np.full(len(kept), at)
            places.append(
                np.stack([sources, start, start + copied.shift[kept], end - start], axis=1)
            )
        return np.concatenate(places)

    def add_columns(self, source: MergeSource, file: IO[bytes]) -> None:
        """Copy further columns, from a file with a row group for each one that was copied.

        Of columns that some of the sources have, only those of the other row groups are copied.
        """
        copied = [part.source for part in self._copied]
        rows = [source.group_rows[source.groups] for source in copied]
        if not np.array_equal(np.concatenate(rows), source.group_rows):
            raise ValueError("columns of other rows")
        self._layout = self._layout.with_more(source)
        lacks = []
        for at, of_rows in enumerate(copied):
            is_lacking = self._layout.places_in(of_rows) < 0
            if at in self._decoded:
                is_lacking &= self._layout.places_in(self._decoded[at].source) < 0
            lacks.append(np.tile(is_lacking, (len(of_rows.groups), 1)))
        is_copied = source.chunks.is_copied.copy()
        places = self._layout.places_in(source)
        wanted = np.concatenate(lacks)[:, places >= 0]
        is_copied &= wanted[source.chunks.group, places[places >= 0].argsort()[source.chunks.leaf]]
        narrowed = replace(source, chunks=replace(source.chunks, is_copied=is_copied))
        self._more = self._copy(narrowed, file)

    def finish(self) -> None:
        """Write page indexes and the footer."""
        more = [] if self._more is None else [self._more]
        copied = [*self._copied, *self._decoded.values(), *more]
        numbers: list[dict[int, Integers]] = [{} for _ in copied]
        for at_node, size_node, indexes in (
            (BOUNDS_AT, BOUNDS_SIZE, [part.column_indexes for part in copied]),
            (OFFSETS_AT, OFFSETS_SIZE, [part.offset_indexes for part in copied]),
        ):
            for values, of_chunks in zip(numbers, indexes, strict=True):
                sizes = np.array([len(content) for content in of_chunks], np.int64)
                values[size_node] = sizes
                values[at_node] = np.where(sizes, self.size_bytes + np.cumsum(sizes) - sizes, 0)
                self._write(b"".join(of_chunks))
        chunks = [part.chunks(of) for part, of in zip(copied, numbers, strict=True)]
        of_sources = chunks[: len(self._copied)]
        decoded = dict(zip(self._decoded, chunks[len(self._copied) :], strict=False))
        of_all = EncodedChunks(chunks[-1], self._layout) if more else None
        groups: list[bytes] = []
        footer_at = self.size_bytes
        for at, of_source in enumerate(of_sources):
            count, beside = len(of_source.source.groups), []
            if at in decoded:
                own = EncodedChunks(decoded[at], self._layout)
                beside.append(ChunksBeside(own, np.arange(count)))
                of_source.starts[of_source.source.groups] = decoded[at].starts
            if of_all is not None:
                beside.append(ChunksBeside(of_all, np.arange(len(groups), len(groups) + count)))
            groups += row_groups_of(of_source, beside, self._layout, len(groups), footer_at)
        sources = [part.source for part in self._copied]
        is_widened = bool(more or decoded)
        footer = footer_of(sources, groups, self._layout, is_widened=is_widened)
        self._write(footer + len(footer).to_bytes(4, "little") + MAGIC)

    def is_stored_as(
        self, file: IO[bytes], reopen: Callable[[], AbstractContextManager[IO[bytes]]]
    ) -> bool:
        """Whether a file has the bytes that passed here, two threads reading a large one."""
        if file.seek(0, 2) != self.size_bytes:
            return False

        def has_others() -> bool:
            """Compare every second part."""
            with reopen() as other:
                return _has(other, self._parts[1::2])

        with ThreadPoolExecutor(1, thread_name_prefix="compare") as pool:
            others = pool.submit(has_others) if len(self._parts) > 1 else None
            is_same = _has(file, self._parts[::2])
            return is_same and (others is None or others.result())

    def _write(self, content: bytes | memoryview) -> None:
        self._file.write(content)
        part = self._parts[-1]
        if part.end - part.start >= _PART_BYTES:
            part = _Part(part.end, part.end)
            self._parts.append(part)
        part.checksum = crc32(content, part.checksum)
        self.size_bytes += len(content)
        part.end = self.size_bytes

    def _copy(self, source: MergeSource, file: IO[bytes], copy: CopyRange | None = None) -> _Copied:
        chunks = source.chunks
        shift = np.zeros(len(chunks.start), np.int64)
        pages = _Pages(chunks)
        if copy is not None and copy.is_whole:
            shift += self.size_bytes
            copy.copy(0, source.size_bytes)
            self.size_bytes += source.size_bytes
            filters = self._copy_filters(source, file, copy)
            return _Copied(source, shift, filters, *_indexes(file, source, shift, None))
        for places in chunks.runs():
            start, end = int(chunks.start[places[0]]), int(chunks.end[places[-1]])
            if not self.size_bytes and copy is not None and start == len(MAGIC):
                start = 0  # the source has magic bytes before its first chunk: one copy brings both
            elif not self.size_bytes:
                self._write(MAGIC)
            shift[places] = self.size_bytes - start
            if copy is not None:
                copy.copy(start, end)
                self.size_bytes += end - start
                continue
            pages.begin(places)
            file.seek(start)
            for block in _blocks(file, end - start, self._buffer):
                pages.add(block)
                self._write(block)
            pages.end()
        filters = self._copy_filters(source, file, copy)
        found = None if copy else pages.found
        return _Copied(source, shift, filters, *_indexes(file, source, shift, found))

    def _copy_filters(
        self, source: MergeSource, file: IO[bytes], copy: CopyRange | None
    ) -> Integers:
        """Copy Bloom filters; where they are now, by chunk."""
        at, sizes = source.of_chunks(FILTER_AT), source.of_chunks(FILTER_SIZE)
        new = np.zeros(len(at), np.int64)
        for place in np.flatnonzero(at).tolist():
            start = int(at[place])
            content = read_range(file, start, _FILTER_HEADER_BYTES)
            header = find_members(octets(content), _FILTER_HEADER)
            size = header.end + (header.value(1) or 0)
            if sizes[place] not in (0, size):
                raise NotMergeable("a Bloom filter has another size than its footer says")
            if copy is not None and copy.is_whole:  # it is there already
                new[place] = self.size_bytes - source.size_bytes + start
                continue
            new[place] = self.size_bytes
            if copy is None:
                self._write(read_range(file, start, size))
            else:
                copy.copy(start, start + size)
                self.size_bytes += size
        return new


def check_page(content: bytes) -> None:
    """Do nothing where the bytes begin with a page's header. Raises: NotMergeable."""
    pages = find_pages(octets(content), 0, 1)
    if not len(pages) or pages[0, 3] not in (_DICTIONARY_PAGE, *_DATA_PAGES):
        raise NotMergeable("a page header is damaged")


def written_columns(
    schema: pa.Schema, row_groups: Iterable[pa.Table], in_order: Sequence[str]
) -> io.BytesIO:
    """Return a file of further columns; those `in_order` have numbers that are so, or nearly."""
    content = io.BytesIO()
    with pq.ParquetWriter(
        content,
        schema,
        compression="zstd",
        use_dictionary=[name for name in schema.names if name not in in_order],
        column_encoding=dict.fromkeys(in_order, "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
        store_schema=False,
        store_decimal_as_integer=True,
    ) as writer:
        for rows in row_groups:
            writer.write_table(rows, row_group_size=rows.num_rows)
    return content


def _block() -> memoryview:
    """Return memory that begins with a page: systems copy there several times as fast."""
    return memoryview(mmap.mmap(-1, _BLOCK_BYTES))


def _blocks(file: IO[bytes], size: int, buffer: memoryview) -> Iterator[memoryview]:
    """Yield a file's next bytes in blocks, each until the next. Raises: NotMergeable."""
    while size:
        count = file.readinto(buffer[: min(size, len(buffer))])  # type: ignore[attr-defined]
        if not count:
            raise NotMergeable("it ends earlier than its footer says")
        size -= count
        yield buffer[:count]


def _has(file: IO[bytes], parts: Iterable[_Part]) -> bool:
    buffer = _block()
    for part in parts:
        file.seek(part.start)
        checksum = 0
        for block in _blocks(file, part.end - part.start, buffer):
            checksum = crc32(block, checksum)
        if checksum != part.checksum:
            return False
    return True


class _Pages:
    """The pages of column chunks, looked at as the bytes of the chunks go by."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._left: list[int] = []
        self._place = -1
        self._at = self._end = 0  # of the bytes to come, and of the chunk
        self._carried = b""  # the beginning of a page's header
        self._body_left = self._checksum = 0
        self._expected = -1
        self._values = 0
        self.found: dict[int, list[tuple[int, int]]] = {}
        """By chunk, where data pages begin, and their bytes."""

    def begin(self, places: Integers) -> None:
        """Begin with chunks that lie one behind the other."""
        self._left = places.tolist()[::-1]
        self._next()

    def end(self) -> None:
        """Check the last of them. Raises: NotMergeable."""
        if self._left or self._at != self._end or self._body_left or self._carried:
            raise NotMergeable("pages end elsewhere than their column chunk")
        if self._values != self._chunks.values[self._place]:
            raise NotMergeable("pages have other values than their column chunk")
        first = [start for start, _ in self.found[self._place][:1]]
        if self._chunks.data_at[self._place] not in (*first, self._chunks.start[self._place]):
            raise NotMergeable("data pages begin elsewhere than the footer says")

    def add(self, block: memoryview) -> None:
        """Look at the next bytes. Raises: NotMergeable."""
        at = 0
        while at < len(block):
            if self._at == self._end:
                left, self._left = self._left, []
                self.end()
                self._left = left
                self._next()
            at += self._body(block, at) if self._body_left else self._headers(block, at)

    def _next(self) -> None:
        self._place = self._left.pop()
        self._at = int(self._chunks.start[self._place])
        self._end = int(self._chunks.end[self._place])
        self._values = 0
        self.found[self._place] = []

    def _body(self, block: memoryview, at: int) -> int:
        """Look at more of a page; how many bytes."""
        part = block[at : at + self._body_left]
        if self._expected >= 0:
            self._checksum = crc32(part, self._checksum)
        self._body_left -= len(part)
        self._at += len(part)
        if not self._body_left:
            self._check_page()
        return len(part)

    def _headers(self, block: memoryview, at: int) -> int:
        """Look at the pages that begin in a block; how many bytes."""
        new = block[at : at + self._end - self._at]
        content = memoryview(self._carried + bytes(new)) if self._carried else new
        base = self._at - len(self._carried)
        pages = find_pages(octets(content), 0)
        if not len(pages):
            self._carried, self._at = bytes(content), self._at + len(new)
            if self._at == self._end or len(content) > _LONGEST_HEADER:
                raise NotMergeable("a page header is damaged")
            return len(new)
        stop = 0
        for start, body, size, kind, values, checksum in pages.tolist():
            stop = body + size
            if size < 0 or base + stop > self._end:
                raise NotMergeable("a page ends behind its column chunk")
            if kind in _DATA_PAGES and values >= 0:
                self._values += values
                self.found[self._place].append((base + start, stop - start))
            elif kind != _DICTIONARY_PAGE or base + start != self._chunks.start[self._place]:
                raise NotMergeable("there is a page of an unknown kind")
            self._expected = checksum
            self._checksum = crc32(content[body:stop]) if checksum >= 0 else 0
            if stop <= len(content):
                self._check_page()
        self._body_left = max(0, stop - len(content))
        done = min(stop, len(content)) - len(self._carried)
        self._carried = b""
        self._at += done
        return done

    def _check_page(self) -> None:
        if self._expected >= 0 and self._expected != self._checksum:
            raise NotMergeable("a page is not as its checksum says")


def _indexes(
    file: IO[bytes],
    source: MergeSource,
    shift: Integers,
    pages: Mapping[int, Sequence[tuple[int, int]]] | None,
) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Return offset indexes with new offsets, and column indexes, by chunk; empty without one.

    Raises: NotMergeable, where an index has other pages than its chunk; CorruptTable R-099.
    """
    nodes = (OFFSETS_AT, OFFSETS_SIZE, BOUNDS_AT, BOUNDS_SIZE)
    offsets_at, offsets_size, bounds_at, bounds_size = (
        source.of_chunks(node).tolist() for node in nodes
    )
    offset_indexes, column_indexes = [b""] * len(shift), [b""] * len(shift)
    for place in np.flatnonzero(source.chunks.is_copied).tolist():
        if offsets_at[place]:
            content = octets(read_range(file, offsets_at[place], offsets_size[place]))
            found = find_members(content, _OFFSET_INDEX)
            starts, sizes = found.of(3), found.of(4)
            indexed = [*zip(starts[:, 3].tolist(), sizes[:, 3].tolist(), strict=False)]
            is_whole = len(starts) == len(sizes) and (
                _are_all_of(indexed, source.chunks, place)
                if pages is None
                else pages[place] == indexed
            )
            if not is_whole:
                raise NotMergeable("an offset index has other pages than its column chunk")
            moved = starts[:, 3] + shift[place]
            offset_indexes[place] = replace_numbers(content, 0, found.end, starts[:, 1:3], moved)
        if bounds_at[place]:
            content = octets(read_range(file, bounds_at[place], bounds_size[place]))
            if find_members(content, _NOTHING).end != len(content):
                raise NotMergeable("a column index is damaged")
            column_indexes[place] = content.tobytes()
    return offset_indexes, column_indexes


def _are_all_of(pages: Sequence[tuple[int, int]], chunks: Chunks, place: int) -> bool:
    """Return whether data pages lie behind one another up to the end of their chunk."""
    at = pages[0][0] if pages else -1
    if at < chunks.data_at[place]:
        return False
    for start, size in pages:
        if start != at or size <= 0:
            return False
        at += size
    return at == int(chunks.end[place])
