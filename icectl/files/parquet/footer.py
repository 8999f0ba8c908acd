"""Footers of Parquet files: structs of Thrift's compact protocol, read, changed and encoded.

loops.c finds the members. All other members of a struct stay unchanged, byte for byte.
"""

import math
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from icectl.files.arrow_failures import damaged_data_file
from icectl.files.compiled import address, loops
from icectl.format.bounding_box import BoundingBox

NUMBER, BINARY, LIST, STRUCT, ANY = 1 << 4 | 1 << 5 | 1 << 6, 1 << 8, 1 << 9, 1 << 12, 0
BOOLEAN = 1 << 1 | 1 << 2
"""Kinds that a member may have, one bit a kind."""

_FULL = -2
_LONGEST_NUMBER = 10
_LIMITS = np.array([1 << shift for shift in range(7, 63, 7)], np.int64)
Integers = npt.NDArray[np.int64]
Octets = npt.NDArray[np.uint8]

_INTEGER, _DOUBLE, _BINARY, _LIST, _STRUCT = 5, 7, 8, 9, 12
_SIZES = {1: 0, 2: 0, 3: 1, 7: 8, 13: 16}
"""Bytes of values that all have the same size, by their kind in a struct; booleans have none."""

_ELEMENTS, _CONVERTED_TYPE, _LOGICAL_TYPE = 2, 6, 10
_ROW_GROUPS, _COLUMNS, _META_DATA, _STATISTICS, _ENCODING_STATS, _SHAPES = 4, 1, 3, 12, 13, 17
_SIZE_STATISTICS, _BYTES_OF_VALUES = 16, 1
_COLUMN_INDEX = (6, 7)
"""Members of a column chunk: where the bounds of its pages are, and how long they are."""

_BOUNDS = (1, 2, 5, 6, 7, 8)
"""Members of statistics: the least and the greatest value, twice, and whether these are exact."""

_CHUNK = 4
_CHUNKS_AND_STATISTICS = np.array(
    [
        (0, _ROW_GROUPS, LIST),
        (1, 0, STRUCT),
        (2, _COLUMNS, LIST),
        (3, 0, STRUCT),  # _CHUNK
        (_CHUNK, _META_DATA, STRUCT),
        (5, _STATISTICS, STRUCT),
        *((6, number, BINARY) for number in _BOUNDS[:4]),  # nodes 7 to 10
        *((6, number, BOOLEAN) for number in _BOUNDS[4:]),
        (5, _SIZE_STATISTICS, STRUCT),
        (13, _BYTES_OF_VALUES, NUMBER),
    ],
    np.int64,
)


_STATED = 7
_CHUNKS_AND_FACTS = np.array(
    [
        *_CHUNKS_AND_STATISTICS[:6].tolist(),
        (5, _SIZE_STATISTICS, STRUCT),  # _STATED
        (5, 5, NUMBER),
        (5, 7, NUMBER),
        (_STATED, _BYTES_OF_VALUES, NUMBER),
        (6, 3, NUMBER),
        (6, 6, BINARY),
        (6, 5, BINARY),
    ],
    np.int64,
)

_FILTER_AT, _ENCODING, _OF_DATA, _DICTIONARIES = 14, 2, (0, 3), (2, 8)
"""Members of chunks and encoding statistics, kinds of pages with values, and encodings by codes."""

_CHUNKS_AND_PAGES = np.array(
    [
        *_CHUNKS_AND_STATISTICS[:5].tolist(),
        (5, _FILTER_AT, NUMBER),
        (5, _ENCODING_STATS, LIST),
        (7, 0, STRUCT),
        (8, 1, NUMBER),
        (8, _ENCODING, NUMBER),
    ],
    np.int64,
)

Copied = tuple[bytes, int]
"""A value, and where the one that it was copied from ends."""

Change = Callable[[bytes, int], Copied]
"""Copies the value that starts at a place of a footer, changed."""


@dataclass(frozen=True)
class Members:
    """The members of a struct: (node, first byte, end, number, length or count) a row."""

    content: Octets
    rows: Integers
    end: int

    @cached_property
    def _by_node(self) -> tuple[Integers, Integers]:
        order = np.argsort(self.rows[:, 0], kind="stable")
        return self.rows[order], self.rows[order, 0]

    def of(self, node: int) -> Integers:
        rows, nodes = self._by_node
        start, end = np.searchsorted(nodes, [node, node + 1])
        return rows[start:end]

    def raw(self, node: int) -> bytes:
        """Return the bytes of a member that is there at most once; none without it."""
        rows = self.of(node)
        return self.content[rows[0, 1] : rows[0, 2]].tobytes() if len(rows) else b""

    def value(self, node: int) -> int | None:
        """Return the value of a member that is there at most once."""
        rows = self.of(node)
        return int(rows[0, 3]) if len(rows) else None

    def column(self, node: int, owners: Integers, missing: int = 0) -> Integers:
        """Return the values of a node, one for each of the structs that have it or not."""
        rows = self.of(node)
        values = np.full(len(owners), missing, np.int64)
        values[np.searchsorted(owners[:, 1], rows[:, 1], "right") - 1] = rows[:, 3]
        return values


def octets(content: bytes | memoryview) -> Octets:
    """Return bytes as an array of numpy."""
    return np.frombuffer(content, np.uint8)


def find_members(content: Octets, wanted: Integers, at: int = 0) -> Members:
    """Find members of the struct that begins at a byte.

    `wanted` are rows of (parent, field id, kinds); a row's number, from 1, is a node. Parent 0 is
    the struct itself. Field id 0 stands for the elements of a list, and -n for every id from n on
    that no row before has named.
    Raises: CorruptTable R-099, for bytes that are no such struct.
    """
    end = np.zeros(1, np.int64)
    room = 64 + len(content) // 8
    while True:
        rows = np.empty((room, 4), np.int64)
        count: int = loops().find_members(
            *(address(content, np.uint8), len(content), at),
            *(address(wanted, np.int64), len(wanted)),
            *(address(rows, np.int64), room),
            address(end, np.int64),
        )
        if count != _FULL:
            break
        room *= 2
    if count < 0:
        raise damaged_data_file("Parquet", "its footer or an index is not a Thrift struct")
    return Members(content, rows[:count], int(end[0]))


def find_pages(content: Octets, at: int, most: int = 4096) -> Integers:
    """Return the pages that begin from `at`: (start, body, its bytes, kind, values, checksum) each.

    A header that is not whole, or damaged, ends them. -1 stands for what a header does not say.
    """
    pages = np.empty((most, 6), np.int64)
    count: int = loops().find_pages(
        *(address(content, np.uint8), len(content), at), address(pages, np.int64), most
    )
    return pages[:count]


def number_sizes(values: Integers) -> Integers:
    """Return how many bytes numbers take that are not negative."""
    return np.searchsorted(_LIMITS, values << 1, "right") + 1


def replace_numbers(content: Octets, at: int, end: int, spans: Integers, values: Integers) -> bytes:
    """Return some bytes with other numbers in these spans, which are in order."""
    output = np.empty(end - at + _LONGEST_NUMBER * len(values), np.uint8)
    # An address keeps no array: what is copied here has to live as long as the loop runs.
    copied = [np.ascontiguousarray(numbers, np.int64) for numbers in (spans, values)]
    size: int = loops().replace_numbers(
        *(address(content, np.uint8), at, end),
        *(address(numbers, np.int64) for numbers in copied),
        *(len(values), address(output, np.uint8)),
    )
    return output[:size].tobytes()


@dataclass(frozen=True, slots=True)
class FooterChanges:
    """The parts of a footer that are left out or replaced.

    `bounds`, of chunks and of their pages, and `encodings` are left out, by (row group, column):
    positions, from 0. `encodings` are those of pages: with these, readers take a dictionary for all
    values. `logical_types` are those that elements of the schema get, encoded; elements are
    numbered from 0, the root, depth first. `shapes` are statistics of geometry and geography, by
    (row group, column), encoded; these columns have no `bounds` by their bytes then.
    """

    bounds: frozenset[tuple[int, int]] = frozenset()
    encodings: frozenset[tuple[int, int]] = frozenset()
    logical_types: Mapping[int, bytes] = field(default_factory=dict)
    shapes: Mapping[tuple[int, int], bytes | None] = field(default_factory=dict)


def changed(footer: bytes, changes: FooterChanges) -> bytes:
    """Return the footer changed; counts of nulls stay. Raises: CorruptTable R-099."""
    if changes == FooterChanges():
        return footer

    def element(number: int, content: bytes, at: int) -> Copied:
        logical_type = changes.logical_types.get(number)
        if logical_type is None:
            return _value(content, at, _STRUCT)
        without_type = dict.fromkeys((_CONVERTED_TYPE, _LOGICAL_TYPE))
        return _struct(content, at, without_type, (_LOGICAL_TYPE, logical_type))

    def row_group(number: int, content: bytes, at: int) -> Copied:
        columns = partial(_each, change=partial(column, number))
        return _struct(content, at, {_COLUMNS: columns})

    def column(number: int, place: int, content: bytes, at: int) -> Copied:
        of_chunk: dict[int, Change | None] = {}
        if (number, place) in changes.encodings:
            of_chunk[_ENCODING_STATS] = None
        of_column: dict[int, Change | None] = {}
        if (number, place) in changes.bounds or (number, place) in changes.shapes:
            of_chunk[_STATISTICS] = partial(_struct, changes=dict.fromkeys(_BOUNDS))
            of_column = dict.fromkeys(_COLUMN_INDEX)
        if not of_chunk:
            return _value(content, at, _STRUCT)
        shapes = changes.shapes.get((number, place))
        added = None if shapes is None else (_SHAPES, shapes)
        meta_data = partial(_struct, changes=of_chunk, added=added)
        return _struct(content, at, {_META_DATA: meta_data, **of_column})

    of_file: dict[int, Change | None] = {_ROW_GROUPS: partial(_each, change=row_group)}
    if changes.logical_types:
        of_file[_ELEMENTS] = partial(_each, change=element)
    return _struct(footer, 0, of_file)[0]


@dataclass(frozen=True, slots=True)
class ChunkProofs:
    """What a footer proves of its column chunks, numbered from 0 over all row groups.

    `exact` says whether both bounds are values of the chunk; `value_bytes` is how long its texts
    and bytes are together, -1 where it is not known.
    """

    exact: npt.NDArray[np.bool_]
    value_bytes: Integers


@dataclass(frozen=True, slots=True)
class ChunkStatistics:
    """The chunk of each bound in a footer, its bytes, and what is proven of chunks.

    Chunks are numbered from 0, over all row groups. Only compiled loops find proofs.
    """

    bound_chunks: Integers
    bound_sizes: Integers
    proofs: ChunkProofs | None = None


def chunk_statistics(footer: bytes) -> ChunkStatistics:
    """Return what a footer says of bounds and sizes. Raises: CorruptTable R-099."""
    if loops() is not None:
        members = find_members(octets(footer), _CHUNKS_AND_STATISTICS)
        chunks = members.of(_CHUNK)
        bounds = np.concatenate([members.of(number) for number in range(7, 11)])
        of_bounds = np.searchsorted(chunks[:, 1], bounds[:, 1], "right") - 1
        greatest, least = (members.column(node, chunks) for node in (11, 12))
        value_bytes = members.column(14, chunks, missing=-1)
        proofs = ChunkProofs((greatest & least).astype(bool), value_bytes)
        return ChunkStatistics(of_bounds, bounds[:, 3], proofs)
    found: list[tuple[int, int]] = []
    chunk_count = 0

    def bound(content: bytes, at: int) -> Copied:
        found.append((chunk_count - 1, read_varint(content, at)[0]))
        return _value(content, at, _BINARY)

    def column(_: int, content: bytes, at: int) -> Copied:
        nonlocal chunk_count
        chunk_count += 1
        return _struct(content, at, {_META_DATA: meta_data})

    def row_group(_: int, content: bytes, at: int) -> Copied:
        return _struct(content, at, {_COLUMNS: partial(_each, change=column)})

    statistics = partial(_struct, changes=dict.fromkeys(_BOUNDS[:4], bound))
    meta_data = partial(_struct, changes={_STATISTICS: statistics})
    _struct(footer, 0, {_ROW_GROUPS: partial(_each, change=row_group)})
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return ChunkStatistics(pairs[:, 0], pairs[:, 1])


class ChunkFacts(NamedTuple):
    """What a footer says of a column chunk: counts, bytes, and bounds as they are there.

    `size_bytes` are as stored, `value_bytes` those of texts and bytes. None is not stated.
    """

    value_count: int | None
    size_bytes: int | None
    value_bytes: int | None
    null_count: int | None
    lower: bytes | None
    upper: bytes | None


def chunk_facts(footer: bytes) -> list[ChunkFacts] | None:
    """Return what a footer says of its chunks, over all row groups.

    None where no compiled loops read the footer. Raises: CorruptTable R-099.
    """
    if loops() is None:
        return None
    rows = find_members(octets(footer), _CHUNKS_AND_FACTS).rows
    found: list[list[Any]] = []
    for node, _, end, number in sorted(rows.tolist(), key=itemgetter(1)):
        if node == _CHUNK:
            found.append([None] * len(ChunkFacts._fields))
        elif node > _STATED:
            is_bound = node > _STATED + 4
            found[-1][node - _STATED - 1] = footer[end - number : end] if is_bound else number
    return [ChunkFacts(*facts) for facts in found]


@dataclass(frozen=True, slots=True)
class ChunkFilters:
    """Which chunks, over all row groups, have a Bloom filter, or a dictionary of all values."""

    has_filter: npt.NDArray[np.bool_]
    has_dictionary: npt.NDArray[np.bool_]


def chunk_filters(footer: bytes) -> ChunkFilters | None:
    """Return what a footer says of filters and dictionaries.

    None where no compiled loops read the footer. Raises: CorruptTable R-099.
    """
    if loops() is None:
        return None
    members = find_members(octets(footer), _CHUNKS_AND_PAGES)
    chunks, pages = members.of(_CHUNK), members.of(8)
    if not len(chunks):
        return ChunkFilters(np.zeros(0, np.bool_), np.zeros(0, np.bool_))
    has_filter = members.column(6, chunks, missing=-1) >= 0
    kinds, encodings = (members.column(node, pages, missing=-1) for node in (9, 10))
    is_plain = np.isin(kinds, _OF_DATA) & ~np.isin(encodings, _DICTIONARIES)
    of_pages = np.searchsorted(chunks[:, 1], pages[:, 1], "right") - 1
    plain, known = (
        np.bincount(of_pages[chosen], minlength=len(chunks)) > 0
        for chosen in (is_plain, np.isin(kinds, _OF_DATA))
    )
    return ChunkFilters(has_filter, ~plain & known)


def logical_type(number: int, *members: tuple[int, int, bytes]) -> bytes:
    """Encode a logical type: its number, and members (number, kind, encoded value) in order."""
    return _far(number, _STRUCT) + encode_struct(members) + b"\0"


def shape_type(number: int, crs: str, algorithm: int | None = None) -> bytes:
    """Encode the logical type of geometry, or of geography with an algorithm."""
    members = [(1, _BINARY, encode_bytes(crs.encode()))]
    if algorithm is not None:
        members.append((2, _INTEGER, encode_number(algorithm)))
    return logical_type(number, *members)


def shape_statistics(box: BoundingBox, types: Collection[int]) -> bytes:
    """Encode statistics of shapes: the box around all of them, and their types."""
    ends = [end for pair in zip(box.lower, box.upper, strict=True) for end in pair]
    doubles = [
        (number, _DOUBLE, struct.pack("<d", end))
        for number, end in enumerate(ends, 1)
        if not math.isnan(end)
    ]
    listed = header_of_list(1 << _INTEGER, len(types))
    listed += b"".join(map(encode_number, sorted(types)))
    return encode_struct([(1, _STRUCT, encode_struct(doubles)), (2, _LIST, listed)])


def _struct(
    content: bytes,
    at: int,
    changes: Mapping[int, Change | None],
    added: tuple[int, bytes] | None = None,
) -> Copied:
    """Return a struct, some members of it changed; those whose change is None are left out.

    `added` is the number and value of a further struct, which no member with a change comes behind.
    """
    copied = bytearray()
    number = before = 0
    while at < len(content) and content[at]:
        step, kind = content[at] >> 4, content[at] & 15
        if step:
            number, at = number + step, at + 1
        else:
            doubled, at = read_varint(content, at + 1)
            number = doubled >> 1
        if number not in changes:
            value, at = _value(content, at, kind)
        elif (change := changes[number]) is not None:
            value, at = change(content, at)
        else:
            at = _end(content, at, kind)
            continue
        copied += _member(before, number, kind) + value
        before = number
    if at >= len(content):
        raise damaged_data_file("Parquet", "its footer ends early")
    if added is not None:
        copied += _member(before, added[0], _STRUCT) + added[1]
    return bytes(copied) + b"\0", at + 1


def _each(content: bytes, at: int, change: Callable[[int, bytes, int], Copied]) -> Copied:
    kind, count, first = _list_header(content, at)
    if kind != _STRUCT:
        raise damaged_data_file(
            "Parquet", "its footer has something else in place of a list of structs"
        )
    copied = bytearray(content[at:first])
    at = first
    for number in range(count):
        value, at = change(number, content, at)
        copied += value
    return bytes(copied), at


def _value(content: bytes, at: int, kind: int) -> Copied:
    end = _end(content, at, kind)
    return content[at:end], end


def _member(before: int, number: int, kind: int) -> bytes:
    """Encode how a member begins, by the number of the one before it."""
    step = number - before
    return bytes([step << 4 | kind]) if 0 < step < 16 else _far(number, kind)


def _far(number: int, kind: int) -> bytes:
    """Encode how a member begins whose number is far from the last one's: that number, zigzag."""
    return bytes([kind]) + encode_number(number)


def _end(content: bytes, at: int, kind: int) -> int:
    if kind in (4, 5, 6):
        end = at
        while end < len(content) and content[end] > 0x7F:
            end += 1
        end += 1
    elif kind == 8:
        size, at = read_varint(content, at)
        end = at + size
    elif kind in _SIZES:
        end = at + _SIZES[kind]
    elif kind in (_LIST, 10):
        kind, count, end = _list_header(content, at)
        for _ in range(count):
            end = end + 1 if kind in (1, 2) else _end(content, end, kind)
    elif kind == _STRUCT:
        end = at
        while end < len(content) and content[end]:
            step, kind = content[end] >> 4, content[end] & 15
            end = _end(content, end + 1 if step else read_varint(content, end + 1)[1], kind)
        end += 1
    else:
        raise damaged_data_file("Parquet", "its footer has a member of an unknown kind")
    if end > len(content):
        raise damaged_data_file("Parquet", "its footer ends early")
    return end


def _list_header(content: bytes, at: int) -> tuple[int, int, int]:
    """Return the kind and count of elements, and where the first one starts."""
    if at >= len(content):
        raise damaged_data_file("Parquet", "its footer ends early")
    kind, count = content[at] & 15, content[at] >> 4
    if count < 15:
        return kind, count, at + 1
    count, at = read_varint(content, at + 1)
    return kind, count, at


def encode_number(value: int) -> bytes:
    """Encode a number that is not negative."""
    return encode_varint(value << 1)


def header_of_list(kind_mask: int, count: int) -> bytes:
    """Encode how a list of one kind begins."""
    kind = kind_mask.bit_length() - 1
    return bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + encode_varint(count)


def encode_struct(members: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Encode a struct of (field id, kind, encoded value), in order and not far apart."""
    encoded, before = bytearray(), 0
    for number, kind, value in members:
        encoded += bytes([number - before << 4 | kind]) + value
        before = number
    return bytes(encoded) + b"\0"


def encode_bytes(content: bytes) -> bytes:
    """Encode bytes, or text in UTF-8."""
    return encode_varint(len(content)) + content


def encode_varint(left: int) -> bytes:
    """Encode a number that is not negative, as lengths and counts are."""
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*encoded, left])


def read_varint(content: bytes, at: int, file_format: str = "Parquet") -> tuple[int, int]:
    """Read a number of 7 bits a byte, low first, and its end. Raises: CorruptTable R-099."""
    value = shift = 0
    while at < len(content) and shift < 64:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise damaged_data_file(file_format, "its footer has a number without an end")
