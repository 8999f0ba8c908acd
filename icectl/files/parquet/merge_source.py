"""Parquet files by their footers: what a merge has to know of them, and what it does not allow."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import IO

import numpy as np
import numpy.typing as npt

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
    header_of_list,
    octets,
    text,
)

MAGIC = b"PAR1"
_END_BYTES = 1 << 16
_DEEPEST = 64
_SPARK = b"org.apache.spark"
"""What keys begin with that tell readers how to understand values."""

(
    VERSION, SCHEMA, ELEMENT, CHILDREN, ROW_COUNT, GROUPS, GROUP, COLUMNS, CHUNK, FILE_PATH,
    CHUNK_OFFSET, META, OFFSETS_AT, OFFSETS_SIZE, BOUNDS_AT, BOUNDS_SIZE, CHUNK_MORE, VALUES,
    STORED, DATA_AT, INDEX_AT, DICTIONARY_AT, FILTER_AT, FILTER_SIZE, META_MORE, GROUP_BYTES,
    GROUP_ROWS, GROUP_OFFSET, GROUP_STORED, ORDINAL, GROUP_MORE, PAIRS, PAIR, KEY, WRITER, ORDERS,
    ORDER, MORE, NAME, FIELD, REPETITION, TYPE, LENGTH, PATH, UNSTORED, SORTING,
) = range(1, 47)  # fmt: skip
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
        (ELEMENT, 4, BINARY),
        (ELEMENT, 9, NUMBER),
        (ELEMENT, 3, NUMBER),
        (ELEMENT, 1, NUMBER),
        (ELEMENT, 2, NUMBER),
        (META, 3, LIST),  # PATH
        (META, 6, NUMBER),
        (GROUP, 4, LIST),  # SORTING
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
_FORM = (TYPE, LENGTH, REPETITION, CHILDREN)


class NotMergeable(Exception):
    """Files that can't be put together without decoding them; says why."""


ColumnKey = int | bytes
"""The field id of a column, or its name where it has none."""


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of a file with all that is inside of it.

    `leaves` are the places of what is stored, `paths` their names as footers have them, and `shape`
    is what has to be the same in files that are put together: all that is said but names. `form` is
    what pages depend on: type, its length, repetition and number of parts.
    """

    key: ColumnKey
    name: bytes
    leaves: range
    paths: tuple[bytes, ...]
    shape: tuple[bytes, ...]
    form: tuple[tuple[int, ...], ...]
    elements: bytes
    orders: tuple[bytes, ...]

    @property
    def shown(self) -> str:
        """Return its name for people."""
        return self.name.decode("utf-8", "replace")

    @property
    def is_optional(self) -> bool:
        """Whether rows may lack a value."""
        return self.form[0][2] == 1

    @property
    def element_count(self) -> int:
        """The number of elements of the schema that it takes."""
        return len(self.form)


@dataclass(frozen=True, slots=True)
class Chunks:
    """The column chunks of a file in the order of its footer; `is_copied` tells which to copy."""

    group: Integers
    leaf: Integers
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

    size_bytes: int
    footer: Members
    row_count: int
    group_rows: Integers
    groups: Integers
    chunks: Chunks
    columns: Sequence[FileColumn]
    pairs: Mapping[bytes, bytes]
    """Key-value metadata: encoded pairs by key."""

    @property
    def stated_once(self) -> Mapping[str, object]:
        """Return what has to be the same in files that are put together, by what it is."""
        return {
            "format version": self.footer.raw(VERSION),
            "writer": self.footer.raw(WRITER),
            "meaning of dates": {
                key: pair for key, pair in self.pairs.items() if key.startswith(_SPARK)
            },
        }

    def without(self, groups: Integers) -> "MergeSource":
        """Return the file without some of its row groups, which are not copied then."""
        kept = np.setdiff1d(self.groups, groups)
        is_copied = self.chunks.is_copied & np.isin(self.chunks.group, kept)
        chunks = replace(self.chunks, is_copied=is_copied)
        row_count = int(self.group_rows[kept].sum())
        return replace(self, row_count=row_count, groups=kept, chunks=chunks)

    def without_columns(self, keys: Collection[ColumnKey]) -> "MergeSource":
        """Return the file without some of its columns, which are not copied then."""
        kept = [one for one in self.columns if one.key not in keys]
        places = [place for one in kept for place in one.leaves]
        is_copied = self.chunks.is_copied & np.isin(self.chunks.leaf, places)
        return replace(self, columns=kept, chunks=replace(self.chunks, is_copied=is_copied))

    @property
    def live_bytes(self) -> int:
        """Return how long the chunks to copy are, with their Bloom filters."""
        chunks = self.chunks
        sizes = (chunks.end - chunks.start)[chunks.is_copied]
        return int(sizes.sum() + self.of_chunks(FILTER_SIZE).sum())

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
    end = read_range(file, max(0, size - _END_BYTES), min(size, _END_BYTES))
    if len(end) < 12 or end[-4:] != MAGIC:
        raise NotMergeable("it is encrypted, or not a Parquet file")
    footer_size = int.from_bytes(end[-8:-4], "little")
    footer_at = size - 8 - footer_size
    if footer_at < len(MAGIC):
        raise NotMergeable("its footer is longer than the file")
    is_known = footer_size + 8 <= len(end)
    footer = end[-8 - footer_size : -8] if is_known else read_range(file, footer_at, footer_size)
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
    columns = _columns(members)
    return MergeSource(size, members, row_count, group_rows, kept, chunks, columns, _pairs(members))


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
    in_file = (start >= len(MAGIC)) & (start <= footer_at) & (stored > 0) & (stored <= footer_at)
    end = np.where(in_file, start + stored, start)
    order = np.argsort(start[is_copied], kind="stable")
    apart = start[is_copied][order][1:] >= end[is_copied][order][:-1]
    if not in_file[is_copied].all() or (end[is_copied] > footer_at).any() or not apart.all():
        raise NotMergeable("a column chunk is not where its footer says")
    leaf = np.arange(len(group)) - np.searchsorted(group, group)
    return Chunks(group, leaf, is_copied, start, end, footer.column(VALUES, chunks, -1), data_at)


def _pairs(footer: Members) -> Mapping[bytes, bytes]:
    content, keys, pairs = footer.content, footer.of(KEY), footer.of(PAIR)
    owners = np.searchsorted(pairs[:, 1], keys[:, 1], "right") - 1
    return {
        content[end - size : end].tobytes(): content[pairs[at, 1] : pairs[at, 2]].tobytes()
        for (_, _, end, size), at in zip(keys.tolist(), owners.tolist(), strict=True)
    }


def _columns(footer: Members) -> Sequence[FileColumn]:
    """Return the columns of a schema. Raises: NotMergeable."""
    content, elements, names = footer.content, footer.of(ELEMENT), footer.of(NAME)
    if len(names) != len(elements):
        raise NotMergeable("a column has no name")
    form = np.stack([footer.column(node, elements, -1) for node in _FORM], axis=1)
    counts = np.maximum(form[:, -1], 0).tolist()
    ids = footer.column(FIELD, elements, -1).tolist()
    orders = [content[at:end].tobytes() for _, at, end, _ in footer.of(ORDER).tolist()]
    texts = [content[end - size : end].tobytes() for _, _, end, size in names.tolist()]
    bounds = np.stack([elements[:, 1], names[:, 1], names[:, 2], elements[:, 2]], axis=1).tolist()
    # An element begins, its name begins and ends, and it ends.
    parts = [[content[at:end].tobytes() for at, end in pairwise(one)] for one in bounds]
    place = 1

    def paths_from(around: tuple[bytes, ...]) -> list[bytes]:
        """Go over an element and those inside; the paths of what is stored."""
        nonlocal place
        if place == len(elements) or len(around) > _DEEPEST:
            raise NotMergeable("its schema ends early")
        inner, count = (*around, texts[place]), counts[place]
        place += 1
        return [path for _ in range(count) for path in paths_from(inner)] or [_encoded_path(inner)]

    columns: list[FileColumn] = []
    leaf = 0
    for _ in range(counts[0]):
        first = place
        paths = paths_from(())
        leaves = range(leaf, leaf + len(paths))
        leaf = leaves.stop
        own = parts[first:place]
        columns.append(
            FileColumn(
                ids[first] if ids[first] >= 0 else texts[first],
                texts[first],
                leaves,
                tuple(paths),
                tuple(before + after for before, _, after in own),
                tuple(map(tuple, form[first:place].tolist())),
                b"".join(b"".join(one) for one in own),
                tuple(orders[leaves.start : leaves.stop]),
            )
        )
    if place != len(elements) or len({one.key for one in columns}) != len(columns):
        raise NotMergeable("its schema has a column twice, or more than it says")
    return columns


def _encoded_path(names: Sequence[bytes]) -> bytes:
    return header_of_list(BINARY, len(names)) + b"".join(map(text, names))


def read_range(file: IO[bytes], at: int, size: int) -> bytes:
    """Return bytes of a file. Raises: NotMergeable, where it does not have them."""
    if at < 0 or size < 0:
        raise NotMergeable("its footer points out of the file")
    file.seek(at)
    content = file.read(size)
    if len(content) != size:
        raise NotMergeable("it ends earlier than its footer says")
    return content
