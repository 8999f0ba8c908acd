"""Footers of Parquet files, changed: without what misleads readers, with types pyarrow lacks.

A footer is one struct of Thrift's compact protocol. Its members are copied as they are, but for
those of column chunks that readers skip rows by, and the logical types of some columns and groups.
"""

import math
import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from icectl.files.arrow_failures import damaged_data_file
from icectl.files.parquet import thrift
from icectl.files.varint import read_varint
from icectl.format.bounding_box import BoundingBox

_INTEGER, _DOUBLE, _BINARY, _LIST, _STRUCT = 5, 7, 8, 9, 12
_SIZES = {1: 0, 2: 0, 3: 1, 7: 8, 13: 16}
"""Bytes of values that all have the same size, by their kind in a struct; booleans have none."""

_ELEMENTS, _CONVERTED_TYPE, _LOGICAL_TYPE = 2, 6, 10
_ROW_GROUPS, _COLUMNS, _META_DATA, _STATISTICS, _ENCODING_STATS, _SHAPES = 4, 1, 3, 12, 13, 17
_COLUMN_INDEX = (6, 7)
"""Members of a column chunk: where the bounds of its pages are, and how long they are."""

_BOUNDS = (1, 2, 5, 6, 7, 8)
"""Members of statistics: the least and the greatest value, twice, and whether these are exact."""

Copied = tuple[bytes, int]
"""A value made anew, and where the old one ends."""

Change = Callable[[bytes, int], Copied]
"""Copies the value that starts at a place of a footer, changed."""


@dataclass(frozen=True, slots=True)
class FooterChanges:
    """The parts of a footer that are left out or replaced.

    `bounds` and `encodings` are left out, by (row group, column): positions, from 0. `encodings`
    are those of pages: with these, readers take a dictionary for all values. `logical_types` are
    those that elements of the schema get, encoded; elements are numbered from 0, the root, depth
    first. `shapes` are statistics of geometry and geography, by (row group, column), encoded; these
    columns have no bounds by their bytes then, neither of chunks nor of pages.
    """

    bounds: frozenset[tuple[int, int]] = frozenset()
    encodings: frozenset[tuple[int, int]] = frozenset()
    logical_types: Mapping[int, bytes] = field(default_factory=dict)
    shapes: Mapping[tuple[int, int], bytes | None] = field(default_factory=dict)


def changed(footer: bytes, changes: FooterChanges) -> bytes:
    """Return the footer with these changes; counts of nulls stay.

    Raises: CorruptTable R-099, where this is no footer.
    """
    if changes == FooterChanges():
        return footer

    def element(number: int, content: bytes, at: int) -> Copied:
        """Copy an element of the schema, with the logical type that it gets."""
        logical_type = changes.logical_types.get(number)
        if logical_type is None:
            return _value(content, at, _STRUCT)
        without_type = dict.fromkeys((_CONVERTED_TYPE, _LOGICAL_TYPE))
        return _struct(content, at, without_type, (_LOGICAL_TYPE, logical_type))

    def row_group(number: int, content: bytes, at: int) -> Copied:
        """Copy a row group, without what the footer is not to say of its columns."""
        columns = partial(_each, change=partial(column, number))
        return _struct(content, at, {_COLUMNS: columns})

    def column(number: int, place: int, content: bytes, at: int) -> Copied:
        """Copy a column of a row group, without what the footer is not to say of it."""
        of_chunk: dict[int, Change | None] = {}
        if (number, place) in changes.encodings:
            of_chunk[_ENCODING_STATS] = None
        is_shape = (number, place) in changes.shapes
        if is_shape or (number, place) in changes.bounds:
            of_chunk[_STATISTICS] = partial(_struct, changes=dict.fromkeys(_BOUNDS))
        if not of_chunk:
            return _value(content, at, _STRUCT)
        shapes = changes.shapes.get((number, place))
        added = None if shapes is None else (_SHAPES, shapes)
        of_column = dict.fromkeys(_COLUMN_INDEX) if is_shape else {}
        meta_data = partial(_struct, changes=of_chunk, added=added)
        return _struct(content, at, {_META_DATA: meta_data, **of_column})

    of_file: dict[int, Change | None] = {_ROW_GROUPS: partial(_each, change=row_group)}
    if changes.logical_types:
        of_file[_ELEMENTS] = partial(_each, change=element)
    return _struct(footer, 0, of_file)[0]


def logical_type(number: int, *members: tuple[int, int, bytes]) -> bytes:
    """Encode a logical type: the number of a member of the union, and the members of that struct.

    Shape: of members the number, the kind and the encoded value, in order.
    """
    return _far(number, _STRUCT) + thrift.struct(members) + b"\0"


def shape_type(number: int, crs: str, algorithm: int | None = None) -> bytes:
    """Encode the logical type of geometry, or of geography with an algorithm."""
    members = [(1, _BINARY, thrift.text(crs.encode()))]
    if algorithm is not None:
        members.append((2, _INTEGER, thrift.number(algorithm)))
    return logical_type(number, *members)


def shape_statistics(box: BoundingBox, types: Collection[int]) -> bytes:
    """Encode statistics of shapes: the box around all of them, and their types."""
    ends = [end for pair in zip(box.lower, box.upper, strict=True) for end in pair]
    doubles = [
        (number, _DOUBLE, struct.pack("<d", end))
        for number, end in enumerate(ends, 1)
        if not math.isnan(end)
    ]
    listed = thrift.header_of_list(1 << _INTEGER, len(types))
    listed += b"".join(map(thrift.number, sorted(types)))
    return thrift.struct([(1, _STRUCT, thrift.struct(doubles)), (2, _LIST, listed)])


def _struct(
    content: bytes,
    at: int,
    changes: Mapping[int, Change | None],
    added: tuple[int, bytes] | None = None,
) -> Copied:
    """Return a struct, some members of it changed; those whose change is None are left out.

    `added` is the number and value of a further struct, which no member with a change comes behind.
    """
    made = bytearray()
    number = before = 0
    while at < len(content) and content[at]:
        step, kind = content[at] >> 4, content[at] & 15
        if step:
            number, at = number + step, at + 1
        else:
            doubled, at = _varint(content, at + 1)
            number = doubled >> 1
        if number not in changes:
            value, at = _value(content, at, kind)
        elif (change := changes[number]) is not None:
            value, at = change(content, at)
        else:
            at = _end(content, at, kind)
            continue
        made += _member(before, number, kind) + value
        before = number
    if at >= len(content):
        raise damaged_data_file("Parquet", "its footer ends early")
    if added is not None:
        made += _member(before, added[0], _STRUCT) + added[1]
    return bytes(made) + b"\0", at + 1


def _each(content: bytes, at: int, change: Callable[[int, bytes, int], Copied]) -> Copied:
    """Return a list of structs, each of them changed."""
    kind, count, first = _list_header(content, at)
    if kind != _STRUCT:
        raise damaged_data_file(
            "Parquet", "its footer has something else in place of a list of structs"
        )
    made = bytearray(content[at:first])
    at = first
    for number in range(count):
        value, at = change(number, content, at)
        made += value
    return bytes(made), at


def _value(content: bytes, at: int, kind: int) -> Copied:
    end = _end(content, at, kind)
    return content[at:end], end


def _member(before: int, number: int, kind: int) -> bytes:
    """Encode how a member begins, by the number of the one before it."""
    step = number - before
    return bytes([step << 4 | kind]) if 0 < step < 16 else _far(number, kind)


def _far(number: int, kind: int) -> bytes:
    """Encode how a member begins whose number is far from the last one's: that number, zigzag."""
    return bytes([kind]) + thrift.number(number)


def _end(content: bytes, at: int, kind: int) -> int:
    """Find where a value ends that starts here."""
    if kind in (4, 5, 6):
        end = at
        while end < len(content) and content[end] > 0x7F:
            end += 1
        end += 1
    elif kind == 8:
        size, at = _varint(content, at)
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
            end = _end(content, end + 1 if step else _varint(content, end + 1)[1], kind)
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
    count, at = _varint(content, at + 1)
    return kind, count, at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    return read_varint(content, at, "Parquet")
