"""Parquet files put together without decoding them: their column chunks, and one new footer.

Bytes of pages are copied as they are. What a footer says beyond offsets stays as it is too, so that
only files are taken together whose footers agree on all that is said once a file. Every page is
looked at on the way: headers, and checksums where the writer has left any.
"""

import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from icectl.files.compiled import loops
from icectl.files.parquet.thrift import (
    ANY,
    BINARY,
    LIST,
    NUMBER,
    STRUCT,
    Integers,
    Members,
    Wanted,
    find_members,
    find_pages,
    header_of_list,
    number,
    octets,
    replace_numbers,
    struct,
)

_MAGIC = b"PAR1"
_END_BYTES = 1 << 16
_BLOCK_BYTES = 4 << 20
_LONGEST_HEADER = 16 << 20
_MOST_ROW_GROUPS = 1 << 15
_ARROW_SCHEMA, _PANDAS = b"ARROW:schema", b"pandas"
_INTEGER, _LONG, _TEXT, _ELEMENTS = 5, 6, 8, 9
"""Kinds of the members of a footer."""

_SPARK = b"org.apache.spark"
"""What keys begin with that tell readers how to understand values."""

(
    VERSION, SCHEMA, ELEMENT, CHILDREN, ROW_COUNT, GROUPS, GROUP, COLUMNS, CHUNK, FILE_PATH,
    CHUNK_OFFSET, META, OFFSETS_AT, OFFSETS_SIZE, BOUNDS_AT, BOUNDS_SIZE, CHUNK_MORE, VALUES,
    STORED, DATA_AT, INDEX_AT, DICTIONARY_AT, FILTER_AT, FILTER_SIZE, META_MORE, GROUP_BYTES,
    GROUP_ROWS, GROUP_OFFSET, GROUP_STORED, ORDINAL, GROUP_MORE, PAIRS, PAIR, KEY, WRITER, ORDERS,
    ORDER, MORE,
) = range(1, 39)  # fmt: skip
FOOTER = Wanted(
    (
        (0, 1, NUMBER),  # VERSION
        (0, 2, LIST),
        (SCHEMA, 0, STRUCT),
        (ELEMENT, 5, NUMBER),
        (0, 3, NUMBER),  # ROW_COUNT
        (0, 4, LIST),
        (GROUPS, 0, STRUCT),
        (GROUP, 1, LIST),
        (COLUMNS, 0, STRUCT),
        (CHUNK, 1, BINARY),  # FILE_PATH
        (CHUNK, 2, NUMBER),
        (CHUNK, 3, STRUCT),
        (CHUNK, 4, NUMBER),
        (CHUNK, 5, NUMBER),
        (CHUNK, 6, NUMBER),
        (CHUNK, 7, NUMBER),
        (CHUNK, -8, ANY),  # CHUNK_MORE: encryption, and what is not known
        (META, 5, NUMBER),
        (META, 7, NUMBER),
        (META, 9, NUMBER),
        (META, 10, NUMBER),
        (META, 11, NUMBER),
        (META, 14, NUMBER),
        (META, 15, NUMBER),
        (META, -18, ANY),  # META_MORE
        (GROUP, 2, NUMBER),
        (GROUP, 3, NUMBER),
        (GROUP, 5, NUMBER),
        (GROUP, 6, NUMBER),
        (GROUP, 7, NUMBER),
        (GROUP, -8, ANY),  # GROUP_MORE
        (0, 5, LIST),
        (PAIRS, 0, STRUCT),
        (PAIR, 1, BINARY),
        (0, 6, BINARY),  # WRITER
        (0, 7, LIST),
        (ORDERS, 0, STRUCT),
        (0, -8, ANY),  # MORE
    )
)
"""The members of FileMetaData that a merge reads."""

_REFUSED = (
    (FILE_PATH, "columns in other files"),
    (INDEX_AT, "index pages"),
    (CHUNK_MORE, "encrypted columns"),
    (META_MORE, "members that icectl does not know"),
    (GROUP_MORE, "members that icectl does not know"),
    (MORE, "encryption, or members that icectl does not know"),
)
_OFFSET_INDEX = Wanted(((0, 1, LIST), (1, 0, STRUCT), (2, 1, NUMBER), (2, 2, NUMBER)))
_FILTER_HEADER = Wanted(((0, 1, NUMBER),))
_NOTHING = Wanted(())
_FILTER_HEADER_BYTES = 64
_DICTIONARY_PAGE, _DATA_PAGES = 2, (0, 3)


class NotMergeable(Exception):
    """Files that can't be put together without decoding them; says why."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """The column chunks of a file in the order of its footer; `is_copied` tells which to copy."""

    group: Integers
    is_copied: npt.NDArray[np.bool_]
    start: Integers
    end: Integers
    values: Integers
    data_at: Integers

    def runs(self) -> Iterator[Integers]:
        """Yield the places of chunks to copy that lie one behind the other."""
        places = np.flatnonzero(self.is_copied)
        order = places[np.argsort(self.start[places], kind="stable")]
        apart = np.flatnonzero(self.start[order][1:] != self.end[order][:-1]) + 1
        yield from np.split(order, apart) if len(order) else ()


@dataclass(frozen=True, slots=True)
class MergeSource:
    """A Parquet file by its footer; `groups` are the numbers of the row groups to copy."""

    footer: Members
    row_count: int
    group_rows: Integers
    groups: Integers
    chunks: Chunks
    pairs: Mapping[bytes, bytes]
    """Key-value metadata: encoded pairs by key."""

    @property
    def stated_once(self) -> Mapping[str, object]:
        """Return what has to be the same in files that are put together, by what it is."""
        return {
            "columns": self.footer.raw(SCHEMA),
            "format version": self.footer.raw(VERSION),
            "writer": self.footer.raw(WRITER),
            "order of values": self.footer.raw(ORDERS),
            "meaning of dates": {
                key: pair for key, pair in self.pairs.items() if key.startswith(_SPARK)
            },
        }

    def without(self, groups: Integers) -> "MergeSource":
        """Return the file without some of its row groups, which are not copied then."""
        kept = np.setdiff1d(self.groups, groups)
        chunks = replace(self.chunks, is_copied=np.isin(self.chunks.group, kept))
        row_count = int(self.group_rows[kept].sum())
        return replace(self, row_count=row_count, groups=kept, chunks=chunks)

    def of_chunks(self, node: int) -> Integers:
        """Return what the footer says of the chunks that are copied; 0 of others."""
        values = self.footer.column(node, self.footer.of(CHUNK))
        return np.where(self.chunks.is_copied, values, 0)


def read_source(file: IO[bytes]) -> MergeSource:
    """Read the footer of a Parquet file.

    Raises: NotMergeable; CorruptTable R-099.
    """
    if loops() is None:
        raise NotMergeable("this installation was made without a compiler")
    size = file.seek(0, 2)
    end = _read(file, max(0, size - _END_BYTES), min(size, _END_BYTES))
    if len(end) < 12 or end[-4:] != _MAGIC:
        raise NotMergeable("it is encrypted, or not a Parquet file")
    footer_size = int.from_bytes(end[-8:-4], "little")
    footer_at = size - 8 - footer_size
    if footer_at < len(_MAGIC):
        raise NotMergeable("its footer is longer than the file")
    is_known = footer_size + 8 <= len(end)
    footer = end[-8 - footer_size : -8] if is_known else _read(file, footer_at, footer_size)
    members = find_members(octets(footer), FOOTER)
    if members.end != footer_size:
        raise NotMergeable("its footer ends early")
    for node, what in _REFUSED:
        if len(members.of(node)):
            raise NotMergeable(f"it has {what}")
    group_rows = members.column(GROUP_ROWS, members.of(GROUP), -1)
    row_count = members.value(ROW_COUNT)
    if row_count is None or (group_rows < 0).any() or row_count != int(group_rows.sum()):
        raise NotMergeable("its row groups have other rows than its footer says")
    kept = np.flatnonzero(group_rows)
    chunks = _chunks(members, kept, footer_at)
    return MergeSource(members, row_count, group_rows, kept, chunks, _pairs(members))


def _chunks(footer: Members, kept: Integers, footer_at: int) -> Chunks:
    """Return the column chunks, once they lie in the file beside one another."""
    groups, chunks = footer.of(GROUP), footer.of(CHUNK)
    group = np.searchsorted(groups[:, 1], chunks[:, 1], "right") - 1
    is_copied = np.isin(group, kept)
    children = footer.column(CHILDREN, footer.of(ELEMENT))
    counts = np.bincount(group, minlength=len(groups))
    leaf_count = int((children == 0).sum())
    if not len(children) or children[0] <= 0 or (counts[kept] != leaf_count).any():
        raise NotMergeable("a row group has other columns than its schema")
    if len(footer.of(META)) != len(chunks):
        raise NotMergeable("a column chunk is not described")
    data_at, dictionary_at = (footer.column(node, chunks) for node in (DATA_AT, DICTIONARY_AT))
    with_dictionary = (dictionary_at > 0) & (dictionary_at < data_at)
    start = np.where(with_dictionary, dictionary_at, data_at)
    stored = footer.column(STORED, chunks)
    in_file = (start >= len(_MAGIC)) & (start <= footer_at) & (stored > 0) & (stored <= footer_at)
    end = np.where(in_file, start + stored, start)
    order = np.argsort(start[is_copied], kind="stable")
    apart = start[is_copied][order][1:] >= end[is_copied][order][:-1]
    if not in_file[is_copied].all() or (end[is_copied] > footer_at).any() or not apart.all():
        raise NotMergeable("a column chunk is not where its footer says")
    return Chunks(group, is_copied, start, end, footer.column(VALUES, chunks, -1), data_at)


def _pairs(footer: Members) -> Mapping[bytes, bytes]:
    content, keys, pairs = footer.content, footer.of(KEY), footer.of(PAIR)
    owners = np.searchsorted(pairs[:, 1], keys[:, 1], "right") - 1
    return {
        content[end - size : end].tobytes(): content[pairs[at, 1] : pairs[at, 2]].tobytes()
        for (_, _, end, size), at in zip(keys.tolist(), owners.tolist(), strict=True)
    }


def check_alike(sources: Sequence[MergeSource]) -> None:
    """Do nothing where footers agree on what is said once a file. Raises: NotMergeable."""
    if not 0 < sum(len(one.groups) for one in sources) < _MOST_ROW_GROUPS:
        raise NotMergeable("there would be no row group in the file, or too many")
    first = sources[0].stated_once
    for other in sources[1:]:
        for what, value in other.stated_once.items():
            if first[what] != value:
                raise NotMergeable(f"its files differ in their {what}")


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

    def places(self) -> dict[int, Integers]:
        """Return where chunks are now: values of members by node, one a chunk."""
        chunks = self.source.footer.of(CHUNK)
        nodes = (CHUNK_OFFSET, DATA_AT, DICTIONARY_AT)
        moved = {node: self.source.footer.column(node, chunks) + self.shift for node in nodes}
        return moved | {FILTER_AT: self.filters}


CopyRange = Callable[[int, int], None]
"""Appends the bytes of a source from one offset up to another to the new file."""


class Target(Protocol):
    """A file that is written from its beginning to its end."""

    def write(self, content: bytes, /) -> int:
        """Append bytes."""


class MergedFile:
    """A Parquet file that is written out of others, one source at a time.

    `checksum` is the CRC-32 of all that passed through here.
    """

    def __init__(self, file: Target) -> None:
        self._file = file
        self.size_bytes = self.checksum = 0
        self._copied: list[_Copied] = []
        self._more: _Copied | None = None

    def add(self, source: MergeSource, file: IO[bytes], copy: CopyRange | None = None) -> None:
        """Copy the column chunks of a source, and the Bloom filters and indexes that they have.

        With `copy`, chunks and filters do not pass through here, and no page is looked at.
        Raises: NotMergeable, where its pages are not as its footer or their checksums say;
        CorruptTable R-099.
        """
        self._copied.append(self._copy(source, file, copy))

    def chunk_places(self) -> Integers:
        """Return where chunks are: (source, first byte there, first byte here, bytes) a row."""
        places = [np.empty((0, 4), np.int64)]
        for at, one in enumerate(self._copied):
            chunks = one.source.chunks
            kept = np.flatnonzero(chunks.is_copied)
            start, end = chunks.start[kept], chunks.end[kept]
            sources = np.full(len(kept), at)
            places.append(np.stack([sources, start, start + one.shift[kept], end - start], axis=1))
        return np.concatenate(places)

    def add_columns(self, source: MergeSource, file: IO[bytes]) -> None:
        """Copy further columns, from a file with a row group for each one that was copied."""
        rows = [one.source.group_rows[one.source.groups] for one in self._copied]
        if not np.array_equal(np.concatenate(rows), source.group_rows):
            raise ValueError("columns of other rows")
        self._more = self._copy(source, file)

    def finish(self) -> None:
        """Write page indexes and the footer."""
        copied = [*self._copied, *([self._more] if self._more else [])]
        places = [one.places() for one in copied]
        for at_node, size_node, indexes in (
            (BOUNDS_AT, BOUNDS_SIZE, [one.column_indexes for one in copied]),
            (OFFSETS_AT, OFFSETS_SIZE, [one.offset_indexes for one in copied]),
        ):
            for values, of_chunks in zip(places, indexes, strict=True):
                sizes = np.array([len(content) for content in of_chunks], np.int64)
                values[size_node] = sizes
                values[at_node] = np.where(sizes, self.size_bytes + np.cumsum(sizes) - sizes, 0)
                self._write(b"".join(of_chunks))
        sources = [one.source for one in self._copied]
        more = None if self._more is None else _RowGroups(self._more, places.pop())
        groups: list[bytes] = []
        for one, values in zip(self._copied, places, strict=True):
            groups += _RowGroups(one, values).encoded(len(groups), more)
        footer = _footer(sources, groups, None if self._more is None else self._more.source)
        self._write(footer + len(footer).to_bytes(4, "little") + _MAGIC)

    def _write(self, content: bytes) -> None:
        self._file.write(content)
        self.checksum = zlib.crc32(content, self.checksum)
        self.size_bytes += len(content)

    def _copy(self, source: MergeSource, file: IO[bytes], copy: CopyRange | None = None) -> _Copied:
        chunks = source.chunks
        shift = np.zeros(len(chunks.start), np.int64)
        pages = _Pages(chunks)
        for places in chunks.runs():
            start, end = int(chunks.start[places[0]]), int(chunks.end[places[-1]])
            if not self.size_bytes:
                start = self._begin(start, copy)
            shift[places] = self.size_bytes - start
            if copy is not None:
                copy(start, end)
                self.size_bytes += end - start
                continue
            pages.begin(places)
            for at in range(start, end, _BLOCK_BYTES):
                block = _read(file, at, min(_BLOCK_BYTES, end - at))
                pages.add(block)
                self._write(block)
            pages.end()
        filters = self._copy_filters(source, file, copy)
        found = None if copy else pages.found
        return _Copied(source, shift, filters, *_indexes(file, source, shift, found))

    def _begin(self, start: int, copy: CopyRange | None) -> int:
        """Have the magic bytes come first; where the first range to copy begins.

        The source has them before its first chunk, so that one copy brings both.
        """
        if copy is not None and start == len(_MAGIC):
            return 0
        self._write(_MAGIC)
        return start

    def _copy_filters(
        self, source: MergeSource, file: IO[bytes], copy: CopyRange | None
    ) -> Integers:
        """Copy Bloom filters; where they are now, by chunk."""
        at, sizes = source.of_chunks(FILTER_AT), source.of_chunks(FILTER_SIZE)
        new = np.zeros(len(at), np.int64)
        for place in np.flatnonzero(at).tolist():
            start = int(at[place])
            header = find_members(octets(_read(file, start, _FILTER_HEADER_BYTES)), _FILTER_HEADER)
            size = header.end + (header.value(1) or 0)
            if sizes[place] not in (0, size):
                raise NotMergeable("a Bloom filter has another size than its footer says")
            new[place] = self.size_bytes
            if copy is None:
                self._write(_read(file, start, size))
            else:
                copy(start, start + size)
                self.size_bytes += size
        return new


def check_page(content: bytes) -> None:
    """Do nothing where the bytes begin with a page's header. Raises: NotMergeable."""
    pages = find_pages(octets(content), 0, 1)
    if not len(pages) or pages[0, 3] not in (_DICTIONARY_PAGE, *_DATA_PAGES):
        raise NotMergeable("a page header is damaged")


def written_numbers(schema: pa.Schema, row_groups: Iterable[pa.Table]) -> io.BytesIO:
    """Return a file of columns of numbers; the first has others in each row, nearly in order."""
    content = io.BytesIO()
    first, *others = schema.names
    with pq.ParquetWriter(
        content,
        schema,
        compression="zstd",
        use_dictionary=others,
        column_encoding={first: "DELTA_BINARY_PACKED"},
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        for rows in row_groups:
            writer.write_table(rows, row_group_size=rows.num_rows)
    return content


def _read(file: IO[bytes], at: int, size: int) -> bytes:
    if at < 0 or size < 0:
        raise NotMergeable("its footer points out of the file")
    file.seek(at)
    content = file.read(size)
    if len(content) != size:
        raise NotMergeable("it ends earlier than its footer says")
    return content


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

    def add(self, block: bytes) -> None:
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

    def _body(self, block: bytes, at: int) -> int:
        """Look at more of a page; how many bytes."""
        part = memoryview(block)[at : at + self._body_left]
        if self._expected >= 0:
            self._checksum = zlib.crc32(part, self._checksum)
        self._body_left -= len(part)
        self._at += len(part)
        if not self._body_left:
            self._check_page()
        return len(part)

    def _headers(self, block: bytes, at: int) -> int:
        """Look at the pages that begin in a block; how many bytes."""
        new = block[at : at + self._end - self._at]
        content = self._carried + new
        base = self._at - len(self._carried)
        pages = find_pages(octets(content), 0)
        if not len(pages):
            self._carried, self._at = content, self._at + len(new)
            if self._at == self._end or len(content) > _LONGEST_HEADER:
                raise NotMergeable("a page header is damaged")
            return len(new)
        view, stop = memoryview(content), 0
        for start, body, size, kind, values, checksum in pages.tolist():
            stop = body + size
            if size < 0 or base + stop > self._end:
                raise NotMergeable("a page ends behind its column chunk")
            self._add_page(base + start, stop - start, kind, values)
            self._expected = checksum
            self._checksum = zlib.crc32(view[body:stop]) if checksum >= 0 else 0
            if stop <= len(content):
                self._check_page()
        self._body_left = max(0, stop - len(content))
        done = min(stop, len(content)) - len(self._carried)
        self._carried = b""
        self._at += done
        return done

    def _add_page(self, start: int, size: int, kind: int, values: int) -> None:
        if kind in _DATA_PAGES and values >= 0:
            self._values += values
            self.found[self._place].append((start, size))
        elif kind != _DICTIONARY_PAGE or start != self._chunks.start[self._place]:
            raise NotMergeable("there is a page of an unknown kind")

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
            content = octets(_read(file, offsets_at[place], offsets_size[place]))
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
            content = octets(_read(file, bounds_at[place], bounds_size[place]))
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


class _RowGroups:
    """The row groups of a source as the new footer has them."""

    def __init__(self, copied: _Copied, places: Mapping[int, Integers]) -> None:
        self._source = copied.source
        self.footer = copied.source.footer
        self._places = places
        self.groups, self._chunks = self.footer.of(GROUP), self.footer.of(CHUNK)
        self.lists = self.footer.of(COLUMNS)
        self._first = np.searchsorted(self._chunks[:, 1], self.groups[:, 1])
        self._spans: Integers = np.empty((0, 2), np.int64)
        self._values: Integers = np.empty(0, np.int64)
        starts = np.full(len(self.groups), np.iinfo(np.int64).max)
        is_copied = copied.source.chunks.is_copied
        moved = copied.source.chunks.start + copied.shift
        np.minimum.at(starts, copied.source.chunks.group[is_copied], moved[is_copied])
        self._starts = starts

    def encoded(self, first_ordinal: int, more: "_RowGroups | None") -> list[bytes]:
        """Return the row groups, the first of them with an ordinal.

        Each has the columns of the group of `more` that has the same ordinal.
        """
        kept = self._source.groups
        ordinals = np.zeros(len(self.groups), np.int64)
        ordinals[kept] = np.arange(first_ordinal, first_ordinal + len(kept))
        values = {GROUP_OFFSET: self._starts, ORDINAL: ordinals}
        for node in (GROUP_BYTES, GROUP_STORED):
            values[node] = self.footer.column(node, self.groups)
            if more is not None:
                of_more = more.footer.column(node, more.groups)
                values[node][kept] += of_more[ordinals[kept]]
        self.replace(values)
        if more is None:
            return [self._part(*self.groups[number, 1:3].tolist()) for number in kept.tolist()]
        more.replace({})
        return [
            self._widened(number, more, ordinal)
            for number, ordinal in zip(kept.tolist(), ordinals[kept].tolist(), strict=True)
        ]

    def replace(self, of_groups: Mapping[int, Integers]) -> None:
        """Note the new numbers, in the order of their places."""
        spans, values = [], []
        for owners, by_node in ((self._chunks, self._places), (self.groups, of_groups)):
            for node, new in by_node.items():
                rows = self.footer.of(node)
                at = np.searchsorted(owners[:, 1], rows[:, 1], "right") - 1
                spans.append(rows[:, 1:3])
                # 0 stands for what is not there; an ordinal is what it is.
                values.append(np.where((rows[:, 3] != 0) | (node == ORDINAL), new[at], 0))
        joined = np.concatenate(spans)
        order = np.argsort(joined[:, 0], kind="stable")
        self._spans, self._values = joined[order], np.concatenate(values)[order]

    def _part(self, at: int, end: int) -> bytes:
        """Return some bytes of the footer with the new numbers."""
        first, last = np.searchsorted(self._spans[:, 0], [at, end])
        spans, values = self._spans[first:last], self._values[first:last]
        return replace_numbers(self.footer.content, at, end, spans, values)

    def columns(self, number: int) -> bytes:
        """Return the column chunks of a row group."""
        return self._part(int(self._chunks[self._first[number], 1]), int(self.lists[number, 2]))

    def _widened(self, number: int, more: "_RowGroups", ordinal: int) -> bytes:
        """Return a row group with the columns of another one behind its own."""
        (_, at, end, _), (_, list_at, list_end, count) = (
            rows[number].tolist() for rows in (self.groups, self.lists)
        )
        header = header_of_list(STRUCT, count + int(more.lists[ordinal, 3]))
        columns = header + self.columns(number) + more.columns(ordinal)
        return self._part(at, list_at) + columns + self._part(list_end, end)


def _footer(
    sources: Sequence[MergeSource], groups: Sequence[bytes], more: MergeSource | None
) -> bytes:
    """Return the footer of the new file, whose row groups may have the columns of `more`."""
    first = sources[0].footer
    schema, orders = first.raw(SCHEMA), first.raw(ORDERS)
    if more is not None:
        schema = _widened_schema(first, more.footer)
        orders = _widened_list(first, more.footer, ORDER) if orders else orders
    pairs = [
        pair
        for key, pair in sources[0].pairs.items()
        if all(one.pairs.get(key) == pair for one in sources)
        and key != _PANDAS
        and not (key == _ARROW_SCHEMA and more is not None)
    ]
    rows = sum(one.row_count for one in sources)
    members = (
        (1, _INTEGER, first.raw(VERSION)),
        (2, _ELEMENTS, schema),
        (3, _LONG, number(rows)),
        (4, _ELEMENTS, header_of_list(STRUCT, len(groups)) + b"".join(groups)),
        (5, _ELEMENTS, header_of_list(STRUCT, len(pairs)) + b"".join(pairs) if pairs else b""),
        (6, _TEXT, first.raw(WRITER)),
        (7, _ELEMENTS, orders),
    )
    return struct([member for member in members if member[2]])


def _widened_list(first: Members, more: Members, of_element: int) -> bytes:
    """Return a list with the elements of another one behind its own."""
    found = [(one.content, one.of(of_element)) for one in (first, more)]
    elements = [content[rows[0, 1] : rows[-1, 2]].tobytes() for content, rows in found if len(rows)]
    count = sum(len(rows) for _, rows in found)
    return header_of_list(STRUCT, count) + b"".join(elements)


def _widened_schema(first: Members, more: Members) -> bytes:
    """Return the schema with the columns of another one behind its own."""
    elements, added = first.of(ELEMENT), more.of(ELEMENT)
    children = first.of(CHILDREN)[:1]
    new = children[:, 3] + more.of(CHILDREN)[:1, 3]
    at, end = int(elements[0, 1]), int(elements[-1, 2])
    own = replace_numbers(first.content, at, end, children[:, 1:3], new)
    columns = more.content[added[1, 1] : added[-1, 2]].tobytes()
    return header_of_list(STRUCT, len(elements) + len(added) - 1) + own + columns
