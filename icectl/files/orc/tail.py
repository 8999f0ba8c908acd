"""The tail of an ORC file as pyarrow hands it on: stripes and column statistics.

Its footer is a message of protocol buffers; pyarrow decodes it, and tells little of what it says.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from icectl.files.arrow_failures import damaged_data_file
from icectl.files.varint import read_varint

_FOOTER_OF_TAIL = 2
_STRIPES, _STATISTICS = 3, 7
_OFFSET, _ROW_COUNT = 1, 5
_VALUE_COUNT, _HAS_NULL = 1, 10
_INTEGERS, _STRINGS, _DECIMALS, _DATES, _BINARIES = 2, 4, 6, 7, 8
_STRING_SUM, _BINARY_SUM = 3, 1
_WIRE_SIZES = {1: 8, 5: 4}

Members = dict[int, list[int | bytes]]


@dataclass(frozen=True, slots=True)
class Stripe:
    """A stripe: where it starts, and its rows."""

    offset: int
    row_count: int


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of one column: bounds only of integers, dates, strings and decimals."""

    value_count: int | None
    """Values that are not null."""
    has_null: bool
    smallest: int | bytes | None = None
    largest: int | bytes | None = None
    """Integers; strings and decimals as UTF-8."""
    total_bytes: int = 0
    """Of all strings or byte strings together, by the writer's word."""


@dataclass(frozen=True, slots=True)
class OrcTail:
    """The content of an ORC footer, columns in the order of their numbers: the root is number 0."""

    stripes: tuple[Stripe, ...]
    columns: tuple[ColumnStatistics, ...]


def read_tail(serialized: bytes) -> OrcTail:
    """Read the tail of an ORC file as pyarrow serialises it.

    Raises: CorruptTable R-099.
    """
    footer = _members(_message(_members(serialized), _FOOTER_OF_TAIL))
    stripes = [_members(_content(stored)) for stored in footer.get(_STRIPES, [])]
    statistics = [_members(_content(stored)) for stored in footer.get(_STATISTICS, [])]
    return OrcTail(
        tuple(Stripe(_number(one, _OFFSET), _number(one, _ROW_COUNT)) for one in stripes),
        tuple(_column(one) for one in statistics),
    )


def _column(stored: Members) -> ColumnStatistics:
    count = _number(stored, _VALUE_COUNT) if _VALUE_COUNT in stored else None
    has_null = bool(_number(stored, _HAS_NULL)) if _HAS_NULL in stored else True
    total = _total_bytes(stored)
    for kind in (_INTEGERS, _DATES, _STRINGS, _DECIMALS):
        bounds = _members(_message(stored, kind)) if kind in stored else {}
        if 1 in bounds and 2 in bounds:
            smallest, largest = (_bound(bounds[number][-1]) for number in (1, 2))
            return ColumnStatistics(count, has_null, smallest, largest, total)
    return ColumnStatistics(count, has_null, total_bytes=total)


def _total_bytes(stored: Members) -> int:
    for kind, number in ((_STRINGS, _STRING_SUM), (_BINARIES, _BINARY_SUM)):
        if kind in stored:
            sum_ = _bound(_number(_members(_message(stored, kind)), number))
            return max(sum_, 0) if isinstance(sum_, int) else 0
    return 0


def _bound(stored: int | bytes) -> int | bytes:
    """Integers are zigzag numbers there."""
    return stored if isinstance(stored, bytes) else (stored >> 1) ^ -(stored & 1)


def _number(message: Members, number: int) -> int:
    value = message.get(number, [0])[-1]
    if isinstance(value, bytes):
        raise damaged_data_file("ORC", "its footer has bytes in place of a number")
    return value


def _message(message: Members, number: int) -> bytes:
    return _content(message.get(number, [b""])[-1])


def _content(stored: int | bytes) -> bytes:
    if isinstance(stored, int):
        raise damaged_data_file("ORC", "its footer has a number in place of a message")
    return stored


def _members(content: bytes) -> Members:
    members: Members = {}
    for number, value in _read(content):
        members.setdefault(number, []).append(value)
    return members


def _read(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(content):
        key, at = read_varint(content, at, "ORC")
        wire = key & 7
        if wire == 0:
            value, at = read_varint(content, at, "ORC")
            yield key >> 3, value
            continue
        if wire == 2:
            size, at = read_varint(content, at, "ORC")
        elif wire in _WIRE_SIZES:
            size = _WIRE_SIZES[wire]
        else:
            raise damaged_data_file("ORC", "its footer has a member of an unknown kind")
        if at + size > len(content):
            raise damaged_data_file("ORC", "its footer ends early")
        yield key >> 3, content[at : at + size]
        at += size
