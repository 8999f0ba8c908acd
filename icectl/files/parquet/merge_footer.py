"""Footers of Parquet files that are merged, and the footer of the file that is made of them.

The new one has the columns of all, and row groups as they were.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import IO

import numpy as np
import numpy.typing as npt

from icectl.files.compiled import loops
from icectl.files.parquet.footer import (
    ANY,
    BINARY,
    LIST,
    NUMBER,
    STRUCT,
    Integers,
    Members,
    encode_bytes,
    encode_number,
    encode_struct,
    find_members,
    header_of_list,
    number_sizes,
    octets,
    replace_numbers,
)
from icectl.files.parquet.merge_columns import (
    ELEMENTS,
    INTEGER,
    LONG,
    MAGIC,
    TEXT,
    ColumnForms,
    ColumnKey,
    FileColumn,
    FileShape,
    MergedColumns,
    NotMergeable,
    StoredColumns,
    combined,
    joined,
)

_END_BYTES = 1 << 16
_DEEPEST = 64
_SPARK = b"org.apache.spark"
"""What keys begin with that tell readers how to understand values."""

(
    VERSION, SCHEMA, ELEMENT, CHILDREN, ROW_COUNT, GROUPS, GROUP, COLUMNS, CHUNK, FILE_PATH,
    CHUNK_OFFSET, META, OFFSETS_AT, OFFSETS_SIZE, BOUNDS_AT, BOUNDS_SIZE, CHUNK_MORE, VALUES,
    STORED, DATA_AT, INDEX_AT, DICTIONARY_AT, FILTER_AT, FILTER_SIZE, META_MORE, GROUP_BYTES,
    GROUP_ROWS, GROUP_OFFSET, GROUP_STORED, ORDINAL, GROUP_MORE, PAIRS, PAIR, KEY, WRITER, ORDERS,
    ORDER, MORE, NAME, FIELD, REPETITION, TYPE, LENGTH, PATH, UNSTORED, SORTING, STATISTICS, NULLS,
) = range(1, 49)  # fmt: skip
FOOTER = np.array(
    [
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
        (META, 12, STRUCT),
        (STATISTICS, 3, NUMBER),  # NULLS
    ],
    np.int64,
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
    def shape(self) -> "FileShape":
        """What has to agree with other files."""
        stated_once = (
            ("format version", self.footer.raw(VERSION)),
            ("writer", self.footer.raw(WRITER)),
            ("meaning of dates", b"".join(
                self.pairs[key] for key in sorted(self.pairs) if key.startswith(_SPARK)
            )),
        )  # fmt: skip
        return FileShape(stated_once, tuple(self.columns))

    @property
    def is_sorted(self) -> bool:
        """Whether row groups say what they are sorted by."""
        return bool(len(self.footer.of(SORTING)))

    @property
    def stored(self) -> StoredColumns:
        """The columns, with what the chunks to copy take."""
        chunks = self.chunks
        copied = chunks.is_copied
        last = max((of.leaves.stop - 1 for of in self.columns), default=-1)
        count = max(int(chunks.leaf.max(initial=-1)), last) + 1
        sizes = np.bincount(chunks.leaf[copied], (chunks.end - chunks.start)[copied], count)
        nulls = self.footer.column(NULLS, self.footer.of(CHUNK), -1)
        with_nulls = np.bincount(chunks.leaf[copied], nulls[copied] != 0, count)
        return StoredColumns(
            self.shape,
            tuple(int(sizes[of.leaves].sum()) for of in self.columns),
            tuple(not with_nulls[of.leaves].any() for of in self.columns),
        )

    def without(self, groups: Integers) -> "MergeSource":
        """Return the file without some of its row groups, which are not copied then."""
        kept = np.setdiff1d(self.groups, groups)
        is_copied = self.chunks.is_copied & np.isin(self.chunks.group, kept)
        chunks = replace(self.chunks, is_copied=is_copied)
        row_count = int(self.group_rows[kept].sum())
        return replace(self, row_count=row_count, groups=kept, chunks=chunks)

    def without_columns(self, keys: Collection[ColumnKey]) -> "MergeSource":
        """Return the file without some of its columns, which are not copied then."""
        kept = [column for column in self.columns if column.key not in keys]
        places = [place for column in kept for place in column.leaves]
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
    """Read the footer of a Parquet file. Raises: NotMergeable; CorruptTable R-099."""
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


def read_range(file: IO[bytes], at: int, size: int) -> bytes:
    """Return bytes of a file. Raises: NotMergeable, where it does not have them."""
    if at < 0 or size < 0:
        raise NotMergeable("its footer points out of the file")
    file.seek(at)
    content = file.read(size)
    if len(content) != size:
        raise NotMergeable("it ends earlier than its footer says")
    return content


_ARROW_SCHEMA, _PANDAS = b"ARROW:schema", b"pandas"
_HALF = 0.5


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
    parts = [[content[at:end].tobytes() for at, end in pairwise(ends)] for ends in bounds]
    place = 1

    def paths_from(around: tuple[bytes, ...]) -> list[bytes]:
        """Go over an element and those inside; the paths of what is stored."""
        nonlocal place
        if place == len(elements) or len(around) > _DEEPEST:
            raise NotMergeable("its schema ends early")
        inner, count = (*around, texts[place]), counts[place]
        place += 1
        encoded = header_of_list(BINARY, len(inner)) + b"".join(map(encode_bytes, inner))
        return [path for _ in range(count) for path in paths_from(inner)] or [encoded]

    columns: list[FileColumn] = []
    leaf = 0
    for _ in range(counts[0]):
        first = place
        paths = paths_from(())
        leaves = range(leaf, leaf + len(paths))
        leaf = leaves.stop
        of_column = parts[first:place]
        columns.append(
            FileColumn(
                ids[first] if ids[first] >= 0 else texts[first],
                texts[first],
                leaves,
                tuple(paths),
                tuple(before + after for before, _, after in of_column),
                tuple(map(tuple, form[first:place].tolist())),
                b"".join(b"".join(element) for element in of_column),
                tuple(orders[leaves.start : leaves.stop]),
            )
        )
    if place != len(elements) or len({column.key for column in columns}) != len(columns):
        raise NotMergeable("its schema has a column twice, or more than it says")
    return columns


def layout_of(sources: Sequence[MergeSource], forms: ColumnForms | None = None) -> MergedColumns:
    """Return the columns of `joined`, in an order that readers of parts of the file can use.

    Where the first column is missing in one, or far behind others, another comes before it.
    Raises: NotMergeable.
    """
    return _with_leading(joined(combined(source.stored for source in sources), forms), sources)


def _with_leading(layout: MergedColumns, sources: Sequence[MergeSource]) -> MergedColumns:
    """Return a layout whose first column begins in the first half of each row group, if one does.

    Readers that take a part of a file have a row group begin where its first column does. They look
    for the middle from there, and pass over what has it behind the end of the file.
    Raises: NotMergeable, where no column is in all files.
    """
    worst = np.zeros(len(layout.columns))
    for source in sources:
        if not len(source.groups):
            continue
        begins = _shares_before(source, layout.decoded_in(source))
        first = {column.key: begins.get(column.leaves.start, 0.0) for column in source.columns}
        shares = [first.get(column.key, np.inf) for column in layout.columns]
        worst = np.maximum(worst, shares)
    leading = 0 if worst[0] < _HALF else int(np.argmin(worst))
    if np.isinf(worst[leading]):
        raise NotMergeable("its files have no column in common")
    rest = [column for at, column in enumerate(layout.columns) if at != leading]
    return MergedColumns([layout.columns[leading], *rest])


def _shares_before(source: MergeSource, decoded: Collection[ColumnKey]) -> Mapping[int, float]:
    """Return what part of a row group is before each leaf that is copied, at the most.

    Half of the decoded columns, which come before all row groups of the file, counts too.
    """
    copied = source.without_columns(decoded)
    chunks = copied.chunks
    kept = chunks.is_copied
    if not kept.any():
        return {}
    of_groups = chunks.start[kept].reshape(len(source.groups), -1)
    sizes = (chunks.end - chunks.start)[kept].reshape(of_groups.shape)
    before = of_groups - of_groups.min(axis=1, keepdims=True)
    decoded_bytes = (source.live_bytes - copied.live_bytes) / len(source.groups)
    shares = ((before + decoded_bytes / 2) / sizes.sum(axis=1, keepdims=True)).max(axis=0)
    leaves = chunks.leaf[kept][: len(shares)].tolist()
    return dict(zip(leaves, shares.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class CopiedChunks:
    """The column chunks of a source as they are in the new file.

    `begins` says where each chunk begins there, `starts` where each row group does, and `numbers`
    has new numbers of members: by node, one a chunk.
    """

    source: MergeSource
    begins: Integers
    starts: Integers
    numbers: Mapping[int, Integers]


class _Edited:
    """The bytes of a footer with other numbers in it, and where parts of it are then."""

    def __init__(self, copied: CopiedChunks, of_groups: Mapping[int, Integers]) -> None:
        footer = copied.source.footer
        spans, values = [], []
        for owners, by_node in ((footer.of(CHUNK), copied.numbers), (footer.of(GROUP), of_groups)):
            for node, new in by_node.items():
                rows = footer.of(node)
                at = np.searchsorted(owners[:, 1], rows[:, 1], "right") - 1
                spans.append(rows[:, 1:3])
                # 0 stands for what is not there; an ordinal is what it is.
                values.append(np.where((rows[:, 3] != 0) | (node == ORDINAL), new[at], 0))
        joined, numbers = np.concatenate(spans), np.concatenate(values)
        order = np.argsort(joined[:, 0], kind="stable")
        joined, numbers = joined[order], numbers[order]
        self.content = replace_numbers(footer.content, 0, len(footer.content), joined, numbers)
        self._starts = joined[:, 0]
        sizes = number_sizes(numbers) - (joined[:, 1] - joined[:, 0])
        self._moved = np.append(0, np.cumsum(sizes))

    def now(self, offsets: Integers) -> Integers:
        """Return where bytes are that were at some offsets."""
        return np.asarray(offsets + self._moved[np.searchsorted(self._starts, offsets)])


class EncodedChunks:
    """Column chunks of a file as the new footer has them, by row group and leaf."""

    def __init__(
        self,
        copied: CopiedChunks,
        layout: MergedColumns,
        of_groups: Mapping[int, Integers] = MappingProxyType({}),
    ) -> None:
        self.copied = copied
        footer = copied.source.footer
        self.groups, chunks, paths = footer.of(GROUP), footer.of(CHUNK), footer.of(PATH)
        if len(paths) != len(chunks):
            raise NotMergeable("a column chunk has no name")
        self.lists = footer.of(COLUMNS)
        self.places = layout.places_in(copied.source)
        self.first = np.searchsorted(chunks[:, 1], self.groups[:, 1]).tolist()
        edited = _Edited(copied, of_groups)
        self.content = edited.content
        bounds = [chunks[:, 1], paths[:, 1], paths[:, 2], chunks[:, 2]]
        self._bounds = np.stack([edited.now(offsets) for offsets in bounds], axis=1).tolist()
        ends = [self.groups[:, 1], self.lists[:, 1], self.lists[:, 2], self.groups[:, 2]]
        self.bounds = np.stack([edited.now(offsets) for offsets in ends], axis=1).tolist()

    def part(self, group: int, leaf: int, stored_path: bytes, path: bytes) -> bytes:
        """Return a chunk with another path than `stored_path`, its own. Raises: NotMergeable."""
        start, path_at, path_end, end = self._bounds[self.first[group] + leaf]
        if stored_path == path:
            return self.content[start:end]
        if self.content[path_at:path_end] != stored_path:
            raise NotMergeable("a row group has its columns in another order than its schema")
        return self.content[start:path_at] + path + self.content[path_end:end]

    def path(self, leaf: int) -> bytes:
        """Return the path of a leaf in its own file."""
        columns = self.copied.source.columns
        return next(
            column.paths[leaf - column.leaves.start] for column in columns if leaf in column.leaves
        )


@dataclass(frozen=True, slots=True)
class ChunksBeside:
    """Chunks of another file for the row groups of a source: `groups` has one for each of these."""

    chunks: EncodedChunks
    groups: Integers


def row_groups_of(
    copied: CopiedChunks,
    beside: Sequence[ChunksBeside],
    layout: MergedColumns,
    first_ordinal: int,
    footer_at: int,
) -> list[bytes]:
    """Return the row groups of a source, the first of them with an ordinal.

    What it lacks each has from the first of the files `beside` that has it.
    Raises: NotMergeable, where readers of parts of the file would look for one in none of them.
    """
    source = copied.source
    kept = source.groups
    ordinals = np.zeros(len(source.group_rows), np.int64)
    ordinals[kept] = np.arange(first_ordinal, first_ordinal + len(kept))
    places = layout.places_in(source)
    count = int((places >= 0).sum())
    is_moved = not np.array_equal(places[:count], np.arange(count))
    if is_moved and source.is_sorted:
        raise NotMergeable("its row groups say what they are sorted by, and columns are moved")
    of_groups = {GROUP_OFFSET: copied.starts, ORDINAL: ordinals}
    for node, of_chunks in ((GROUP_BYTES, UNSTORED), (GROUP_STORED, STORED)):
        stated = source.footer.column(node, source.footer.of(GROUP))
        dropped = _sums(source, of_chunks, ~source.chunks.is_copied)
        of_groups[node] = np.maximum(stated - dropped, 0)
        for other in beside:
            more = other.chunks.copied.source
            added = _sums(more, of_chunks, more.chunks.is_copied)
            of_groups[node][kept] += added[other.groups]
    stored = EncodedChunks(copied, layout, of_groups)
    parts = [ChunksBeside(stored, kept), *beside]
    leaves = []
    in_parts = zip(*(part.chunks.places.tolist() for part in parts), strict=True)
    for of_leaf, path in zip(in_parts, layout.paths, strict=True):
        at = next((at for at, leaf in enumerate(of_leaf) if leaf >= 0), None)
        if at is None:
            raise NotMergeable("its files differ in their columns")
        leaves.append((parts[at], of_leaf[at], parts[at].chunks.path(of_leaf[at]), path))
    _check_middles(copied, leaves[0][0], leaves[0][1], of_groups[GROUP_STORED], footer_at)
    header = header_of_list(STRUCT, len(leaves))
    groups = []
    for number, group in enumerate(kept.tolist()):
        start, list_at, list_end, end = stored.bounds[group]
        chunks = [
            part.chunks.part(int(part.groups[number]), leaf, had, has)
            for part, leaf, had, has in leaves
        ]
        encoded = (stored.content[start:list_at], header, *chunks, stored.content[list_end:end])
        groups.append(b"".join(encoded))
    return groups


def _check_middles(
    copied: CopiedChunks, of: ChunksBeside, leading: int, stored: Integers, footer_at: int
) -> None:
    """Check that half of each row group is before the footer. Raises: NotMergeable."""
    source, first = copied.source, of.chunks.copied
    chunks = first.source.chunks
    begins = np.zeros(len(first.source.group_rows), np.int64)
    is_first = chunks.is_copied & (chunks.leaf == leading)
    begins[chunks.group[is_first]] = first.begins[is_first]
    is_stated = source.footer.column(GROUP_STORED, source.footer.of(GROUP)) > 0
    sizes = np.where(is_stated, stored, stored + _sums(source, STORED, source.chunks.is_copied))
    if (begins[of.groups] + sizes[source.groups] // 2 >= footer_at).any():
        raise NotMergeable("the first column of a row group is behind the others")


def _sums(source: MergeSource, node: int, chosen: npt.NDArray[np.bool_]) -> Integers:
    """Return the sums of a member of the chosen chunks by row group."""
    values = source.footer.column(node, source.footer.of(CHUNK))
    sums = np.zeros(len(source.group_rows), np.int64)
    np.add.at(sums, source.chunks.group[chosen], values[chosen])
    return sums


def footer_of(
    sources: Sequence[MergeSource],
    groups: Sequence[bytes],
    layout: MergedColumns,
    *,
    is_widened: bool,
) -> bytes:
    """Return the footer of the new file; `is_widened` where it has columns of no source."""
    first = sources[0].footer
    columns, orders = layout.columns, b""
    if all(column.orders for column in columns):
        kept = [order for column in columns for order in column.orders]
        orders = header_of_list(STRUCT, len(kept)) + b"".join(kept)
    pairs = [
        pair
        for key, pair in sources[0].pairs.items()
        if all(source.pairs.get(key) == pair for source in sources)
        and key != _PANDAS
        and not (key == _ARROW_SCHEMA and is_widened)
    ]
    rows = sum(source.row_count for source in sources)
    # The schema: the root of a file with another number of children, and the columns.
    root, children = first.of(ELEMENT)[0], first.of(CHILDREN)[:1]
    at, end = root[1:3].tolist()
    counted = np.array([len(columns)], np.int64)
    schema = header_of_list(STRUCT, 1 + sum(len(column.form) for column in columns))
    schema += replace_numbers(first.content, at, end, children[:, 1:3], counted)
    schema += b"".join(column.elements for column in columns)
    members = (
        (1, INTEGER, first.raw(VERSION)),
        (2, ELEMENTS, schema),
        (3, LONG, encode_number(rows)),
        (4, ELEMENTS, header_of_list(STRUCT, len(groups)) + b"".join(groups)),
        (5, ELEMENTS, header_of_list(STRUCT, len(pairs)) + b"".join(pairs) if pairs else b""),
        (6, TEXT, first.raw(WRITER)),
        (7, ELEMENTS, orders),
    )
    return encode_struct([member for member in members if member[2]])
