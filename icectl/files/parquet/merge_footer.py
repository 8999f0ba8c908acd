"""The footer of a Parquet file that is made of others: its columns, and row groups as they were."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from icectl.files.parquet.merge_source import (
    CHILDREN,
    CHUNK,
    COLUMNS,
    ELEMENT,
    GROUP,
    GROUP_BYTES,
    GROUP_OFFSET,
    GROUP_STORED,
    ORDERS,
    ORDINAL,
    PATH,
    SORTING,
    STORED,
    UNSTORED,
    VERSION,
    WRITER,
    FileColumn,
    MergeSource,
    NotMergeable,
)
from icectl.files.parquet.thrift import (
    STRUCT,
    Integers,
    header_of_list,
    number,
    number_sizes,
    replace_numbers,
    struct,
)

_ARROW_SCHEMA, _PANDAS = b"ARROW:schema", b"pandas"
_HALF = 0.5
_INTEGER, _LONG, _TEXT, _ELEMENTS = 5, 6, 8, 9
"""Kinds of the members of a footer."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a file that is made of others."""

    columns: Sequence[FileColumn]

    @property
    def paths(self) -> Sequence[bytes]:
        """Return the paths of what is stored, in order."""
        return [path for column in self.columns for path in column.paths]

    def places_in(self, source: MergeSource) -> Integers:
        """Return where a file has what is stored, in order; -1 for what it lacks."""
        own = {column.key: column for column in source.columns}
        places: list[int] = []
        for column in self.columns:
            found = own.get(column.key)
            places += [-1] * len(column.leaves) if found is None else list(found.leaves)
        return np.array(places, np.int64)

    def missing_in(self, sources: Sequence[MergeSource]) -> Sequence[FileColumn]:
        """Return the columns that not all of some files have."""
        keys = [{column.key for column in source.columns} for source in sources]
        return [one for one in self.columns if not all(one.key in has for has in keys)]

    def with_more(self, more: MergeSource) -> "Layout":
        """Return the layout with the columns of a further file that it lacks.

        Raises: NotMergeable, where that has others of its columns in another form.
        """
        known = {one.key: one for one in self.columns}
        for column in more.columns:
            if column.key in known and known[column.key].form != column.form:
                raise NotMergeable(
                    f"one of its files lacks `{column.shown}`, stored in an unusual way"
                )
        columns = [*self.columns, *(one for one in more.columns if one.key not in known)]
        return _checked(columns)


def layout_of(sources: Sequence[MergeSource]) -> Layout:
    """Return the columns that some files have together: of the first one, then of others.

    Where the first column is missing in one, or far behind others, another comes before it.
    Raises: NotMergeable, where a column is stored in different ways, or may not be missing.
    """
    columns: dict[object, FileColumn] = {}
    for source in sources:
        for column in source.columns:
            known = columns.setdefault(column.key, column)
            if known.shape != column.shape or known.orders != column.orders:
                raise NotMergeable(f"its files store the column `{column.shown}` in other ways")
    layout = _checked(list(columns.values()))
    for column in layout.missing_in(sources):
        if not column.is_optional:
            raise NotMergeable(f"one of its files lacks the column `{column.shown}`")
    return _with_leading(layout, sources)


def _with_leading(layout: Layout, sources: Sequence[MergeSource]) -> Layout:
    """Return a layout whose first column begins in the first half of each row group, if one does.

    Readers that take a part of a file have a row group begin where its first column does. They look
    for the middle from there, and pass over what has it behind the end of the file.
    Raises: NotMergeable, where no column is in all files.
    """
    worst = np.zeros(len(layout.columns))
    for source in sources:
        if not len(source.groups):
            continue
        begins = _shares_before(source)
        first = {one.key: begins[one.leaves.start] for one in source.columns}
        shares = [first.get(one.key, np.inf) for one in layout.columns]
        worst = np.maximum(worst, shares)
    leading = 0 if worst[0] < _HALF else int(np.argmin(worst))
    if np.isinf(worst[leading]):
        raise NotMergeable("its files have no column in common")
    rest = [one for at, one in enumerate(layout.columns) if at != leading]
    return Layout([layout.columns[leading], *rest])


def _shares_before(source: MergeSource) -> Mapping[int, float]:
    """Return what part of a row group is before each leaf that is copied, at the most."""
    chunks = source.chunks
    kept = chunks.is_copied
    of_groups = chunks.start[kept].reshape(len(source.groups), -1)
    sizes = (chunks.end - chunks.start)[kept].reshape(of_groups.shape)
    before = of_groups - of_groups.min(axis=1, keepdims=True)
    shares = (before / sizes.sum(axis=1, keepdims=True)).max(axis=0)
    leaves = chunks.leaf[kept][: len(shares)].tolist()
    return dict(zip(leaves, shares.tolist(), strict=True))


def _checked(columns: Sequence[FileColumn]) -> Layout:
    if len({one.name for one in columns}) != len(columns):
        raise NotMergeable("two of the columns of its files have one name")
    return Layout(columns)


class _Edited:
    """The bytes of a footer with other numbers in it, and where parts of it are then."""

    def __init__(self, source: MergeSource, spans: Integers, values: Integers) -> None:
        content = source.footer.content
        self.content = replace_numbers(content, 0, len(content), spans, values)
        self._starts = spans[:, 0]
        sizes = number_sizes(values) - (spans[:, 1] - spans[:, 0])
        self._moved = np.append(0, np.cumsum(sizes))

    def now(self, offsets: Integers) -> Integers:
        """Return where bytes are that were at some offsets."""
        return np.asarray(offsets + self._moved[np.searchsorted(self._starts, offsets)])


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


class _Chunks:
    """Column chunks of a source as the new footer has them, by row group and leaf."""

    def __init__(
        self, copied: CopiedChunks, layout: Layout, of_groups: Mapping[int, Integers]
    ) -> None:
        footer = copied.source.footer
        self.groups, chunks, paths = footer.of(GROUP), footer.of(CHUNK), footer.of(PATH)
        if len(paths) != len(chunks):
            raise NotMergeable("a column chunk has no name")
        self.lists = footer.of(COLUMNS)
        self.places = layout.places_in(copied.source)
        self.first = np.searchsorted(chunks[:, 1], self.groups[:, 1]).tolist()
        edited = _edited(copied, of_groups)
        self.content = edited.content
        bounds = [chunks[:, 1], paths[:, 1], paths[:, 2], chunks[:, 2]]
        self._bounds = np.stack([edited.now(one) for one in bounds], axis=1).tolist()
        ends = [self.groups[:, 1], self.lists[:, 1], self.lists[:, 2], self.groups[:, 2]]
        self.bounds = np.stack([edited.now(one) for one in ends], axis=1).tolist()

    def part(self, group: int, leaf: int, own: bytes, path: bytes) -> bytes:
        """Return a chunk with another path; `own` is the one that it is to have had.

        Raises: NotMergeable.
        """
        start, path_at, path_end, end = self._bounds[self.first[group] + leaf]
        if own == path:
            return self.content[start:end]
        if self.content[path_at:path_end] != own:
            raise NotMergeable("a row group has its columns in another order than its schema")
        return self.content[start:path_at] + path + self.content[path_end:end]


def _edited(copied: CopiedChunks, of_groups: Mapping[int, Integers]) -> _Edited:
    footer = copied.source.footer
    spans, values = [], []
    for owners, by_node in ((footer.of(CHUNK), copied.numbers), (footer.of(GROUP), of_groups)):
        for node, new in by_node.items():
            rows = footer.of(node)
            at = np.searchsorted(owners[:, 1], rows[:, 1], "right") - 1
            spans.append(rows[:, 1:3])
            # 0 stands for what is not there; an ordinal is what it is.
            values.append(np.where((rows[:, 3] != 0) | (node == ORDINAL), new[at], 0))
    joined = np.concatenate(spans)
    order = np.argsort(joined[:, 0], kind="stable")
    return _Edited(copied.source, joined[order], np.concatenate(values)[order])


def row_groups_of(
    copied: CopiedChunks,
    more: CopiedChunks | None,
    layout: Layout,
    first_ordinal: int,
    footer_at: int,
) -> list[bytes]:
    """Return the row groups of a source, the first of them with an ordinal.

    What it lacks each has from the row group of `more` that has the same ordinal.
    Raises: NotMergeable, where readers of parts of the file would look for one in none of them.
    """
    source = copied.source
    kept = source.groups
    ordinals = np.zeros(len(source.group_rows), np.int64)
    ordinals[kept] = np.arange(first_ordinal, first_ordinal + len(kept))
    places = layout.places_in(source)
    count = int((places >= 0).sum())
    is_moved = not np.array_equal(places[:count], np.arange(count))
    if is_moved and len(source.footer.of(SORTING)):
        raise NotMergeable("its row groups say what they are sorted by, and columns are moved")
    of_groups = {GROUP_OFFSET: copied.starts, ORDINAL: ordinals}
    for node, of_chunks in ((GROUP_BYTES, UNSTORED), (GROUP_STORED, STORED)):
        stated = source.footer.column(node, source.footer.of(GROUP))
        dropped = _sums(source, of_chunks, ~source.chunks.is_copied)
        of_groups[node] = np.maximum(stated - dropped, 0)
        if more is not None:
            added = _sums(more.source, of_chunks, more.source.chunks.is_copied)
            of_groups[node][kept] += added[ordinals[kept]]
    own = _Chunks(copied, layout, of_groups)
    others = own if more is None else _Chunks(more, layout, {})
    paths, sources = layout.paths, (own, others)
    leaves = []
    for place, other, path in zip(own.places, others.places, paths, strict=True):
        at = 0 if place >= 0 else 1
        leaf = int(place if place >= 0 else other)
        if leaf < 0:
            raise NotMergeable("its files differ in their columns")
        leaves.append((at, leaf, _path(copied if at == 0 else more, leaf), path))
    _check_middles(copied, int(places[0]), of_groups[GROUP_STORED], footer_at)
    header = header_of_list(STRUCT, len(leaves))
    groups = []
    for group in kept.tolist():
        numbers = group, int(ordinals[group])
        start, list_at, list_end, end = own.bounds[group]
        chunks = [sources[at].part(numbers[at], leaf, had, has) for at, leaf, had, has in leaves]
        parts = own.content[start:list_at], header, *chunks, own.content[list_end:end]
        groups.append(b"".join(parts))
    return groups


def _check_middles(copied: CopiedChunks, leading: int, stored: Integers, footer_at: int) -> None:
    """Check that half of each row group, from where its first column begins, is before the footer.

    Raises: NotMergeable.
    """
    source = copied.source
    is_copied = source.chunks.is_copied
    first = is_copied & (source.chunks.leaf == leading)
    is_stated = source.footer.column(GROUP_STORED, source.footer.of(GROUP)) > 0
    sizes = np.where(is_stated, stored, stored + _sums(source, STORED, is_copied))
    if (copied.begins[first] + sizes[source.groups] // 2 >= footer_at).any():
        raise NotMergeable("the first column of a row group is behind the others")


def _path(copied: CopiedChunks | None, leaf: int) -> bytes:
    assert copied is not None
    columns = copied.source.columns
    return next(one.paths[leaf - one.leaves.start] for one in columns if leaf in one.leaves)


def _sums(source: MergeSource, node: int, chosen: npt.NDArray[np.bool_]) -> Integers:
    """Return the sums of a member of the chosen chunks by row group."""
    values = source.footer.column(node, source.footer.of(CHUNK))
    sums = np.zeros(len(source.group_rows), np.int64)
    np.add.at(sums, source.chunks.group[chosen], values[chosen])
    return sums


def footer_of(
    sources: Sequence[MergeSource], groups: Sequence[bytes], layout: Layout, *, is_widened: bool
) -> bytes:
    """Return the footer of the new file; `is_widened` where it has columns of no source."""
    first = sources[0].footer
    columns, orders = layout.columns, first.raw(ORDERS)
    if orders:
        found = [order for one in columns for order in one.orders]
        orders = header_of_list(STRUCT, len(found)) + b"".join(found)
    pairs = [
        pair
        for key, pair in sources[0].pairs.items()
        if all(one.pairs.get(key) == pair for one in sources)
        and key != _PANDAS
        and not (key == _ARROW_SCHEMA and is_widened)
    ]
    rows = sum(one.row_count for one in sources)
    members = (
        (1, _INTEGER, first.raw(VERSION)),
        (2, _ELEMENTS, _schema(sources[0], columns)),
        (3, _LONG, number(rows)),
        (4, _ELEMENTS, header_of_list(STRUCT, len(groups)) + b"".join(groups)),
        (5, _ELEMENTS, header_of_list(STRUCT, len(pairs)) + b"".join(pairs) if pairs else b""),
        (6, _TEXT, first.raw(WRITER)),
        (7, _ELEMENTS, orders),
    )
    return struct([member for member in members if member[2]])


def _schema(source: MergeSource, columns: Sequence[FileColumn]) -> bytes:
    """Return a schema of some columns, with the root of a file."""
    footer = source.footer
    root, children = footer.of(ELEMENT)[0], footer.of(CHILDREN)[:1]
    at, end = root[1:3].tolist()
    counted = np.array([len(columns)], np.int64)
    own = replace_numbers(footer.content, at, end, children[:, 1:3], counted)
    count = 1 + sum(one.element_count for one in columns)
    return header_of_list(STRUCT, count) + own + b"".join(one.elements for one in columns)
