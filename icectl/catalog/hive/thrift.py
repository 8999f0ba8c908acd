"""Thrift's binary protocol, read and written without a schema.

A metastore of another version than was thought of sends unknown members, and wants
all of them back with a changed table: what is read without a schema is written as it was.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

BOOL, BYTE, DOUBLE, I16, I32, I64 = 2, 3, 4, 6, 8, 10
TEXT, STRUCT, MAP, SET, LIST = 11, 12, 13, 14, 15
"""The types of values on the wire; texts and bytes are one."""

Fields = Mapping[int, tuple[int, Any]]
"""The members of a struct by their ids, each with its type; texts are bytes."""

Read = Callable[[int], bytes]
"""Gives that many bytes of what comes from the other side, and raises where they do not come."""

_STOP = 0
_VERSION = 0x80010000
_CALL, _REPLY, _EXCEPTION = 1, 2, 3
_NUMBERS = {
    BOOL: struct.Struct(">?"),
    BYTE: struct.Struct(">b"),
    DOUBLE: struct.Struct(">d"),
    I16: struct.Struct(">h"),
    I32: struct.Struct(">i"),
    I64: struct.Struct(">q"),
}
_MOST_BYTES = 1 << 28
_MOST_VALUES = 1 << 23
"""How long an answer may be as a whole, and how many values it may have: each takes memory."""

_DEEPEST = 64


class NotThrift(Exception):
    """What came is not of the protocol; the text says what came instead."""


class CallRefused(Exception):
    """The server, not the call, failed; `is_unknown`, because it has none of that name."""

    def __init__(self, reason: str, *, is_unknown: bool) -> None:
        super().__init__(reason)
        self.is_unknown = is_unknown


@dataclass(frozen=True, slots=True)
class ThriftList:
    """A list or a set of values of one type."""

    type: int
    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ThriftMap:
    """A map."""

    key_type: int
    value_type: int
    items: tuple[tuple[Any, Any], ...]


def texts(items: Mapping[str, str]) -> tuple[int, ThriftMap]:
    """Return a map of texts, as the member of a struct."""
    pairs = tuple((key.encode(), value.encode()) for key, value in items.items())
    return MAP, ThriftMap(TEXT, TEXT, pairs)


def text(value: str) -> tuple[int, bytes]:
    """Return a text, as the member of a struct."""
    return TEXT, value.encode()


def text_of(fields: Fields, number: int) -> str | None:
    """Return a member that is a text; None where it is not there, or is something else."""
    kind, value = fields.get(number, (_STOP, None))
    return value.decode("utf-8", "replace") if kind == TEXT else None


def texts_of(fields: Fields, number: int) -> dict[str, str]:
    """Return a member that is a map of texts; empty where it is not there."""
    kind, value = fields.get(number, (_STOP, None))
    if kind != MAP or (value.items and (value.key_type, value.value_type) != (TEXT, TEXT)):
        return {}
    return {
        key.decode("utf-8", "replace"): item.decode("utf-8", "replace") for key, item in value.items
    }


def many_of(fields: Fields, number: int, item_type: int) -> tuple[Any, ...]:
    """Return the values of a list or a set of a type; none where that is not there."""
    kind, value = fields.get(number, (_STOP, None))
    return value.items if kind in (LIST, SET) and value.type == item_type else ()


def struct_of(fields: Fields, number: int) -> Fields:
    """Return a member that is a struct; an empty one where it is not there."""
    kind, value = fields.get(number, (_STOP, None))
    members: Fields = value if kind == STRUCT else {}
    return members


def number_of(fields: Fields, number: int) -> int | None:
    """Return a member that is a whole number; None where it is not there."""
    kind, value = fields.get(number, (_STOP, None))
    return int(value) if kind in (BYTE, I16, I32, I64) else None


def write_call(name: str, arguments: Fields, sequence: int) -> bytes:
    """Return the bytes of a call."""
    out = bytearray(struct.pack(">I", _VERSION | _CALL))
    _write(out, TEXT, name.encode())
    _write(out, I32, sequence)
    _write(out, STRUCT, arguments)
    return bytes(out)


def read_reply(read: Read, name: str) -> Fields:
    """Return what a call returned: its value is member 0, what it raised a later one.

    Raises: NotThrift; CallRefused; what `read` raises.
    """
    read = _bounded(read)
    (version,) = struct.unpack(">I", read(4))
    if version & 0xFFFF0000 != _VERSION:
        raise NotThrift(f"it answered {version.to_bytes(4, 'big')!r}")
    answered = _read(read, TEXT).decode("utf-8", "replace")
    _read(read, I32)
    fields: Fields = _read(read, STRUCT)
    kind = version & 0xFF
    if kind == _EXCEPTION:
        reason = text_of(fields, 1) or "it gave no reason"
        raise CallRefused(reason, is_unknown=number_of(fields, 2) == 1)
    if kind != _REPLY or answered != name:
        raise NotThrift(f"it answered {answered!r} to {name!r}")
    return fields


def _bounded(read: Read) -> Read:
    """Return a reader that ends an answer which has no end; each value is one read at least."""
    size = count = 0

    def within(wanted: int) -> bytes:
        nonlocal size, count
        size += wanted
        count += 1
        if size > _MOST_BYTES or count > _MOST_VALUES:
            raise NotThrift("its response does not end")
        return read(wanted)

    return within


def _write(out: bytearray, kind: int, value: Any) -> None:
    if kind in _NUMBERS:
        out += _NUMBERS[kind].pack(value)
    elif kind == TEXT:
        out += struct.pack(">i", len(value)) + value
    elif kind == STRUCT:
        for number, (member, item) in value.items():
            out += struct.pack(">bh", member, number)
            _write(out, member, item)
        out.append(_STOP)
    elif kind == MAP:
        out += struct.pack(">bbi", value.key_type, value.value_type, len(value.items))
        for key, item in value.items:
            _write(out, value.key_type, key)
            _write(out, value.value_type, item)
    else:
        out += struct.pack(">bi", value.type, len(value.items))
        for item in value.items:
            _write(out, value.type, item)


def _read(read: Read, kind: int, depth: int = 0) -> Any:
    if kind in _NUMBERS:
        number = _NUMBERS[kind]
        return number.unpack(read(number.size))[0]
    if kind == TEXT:
        return read(_size(read))
    if depth == _DEEPEST:
        raise NotThrift("it nests values without end")
    if kind == STRUCT:
        fields: dict[int, tuple[int, Any]] = {}
        while member := read(1)[0]:
            (field_id,) = struct.unpack(">h", read(2))
            fields[field_id] = member, _read(read, member, depth + 1)
        return fields
    if kind == MAP:
        key_type, value_type = read(2)
        return ThriftMap(
            key_type,
            value_type,
            tuple(
                (_read(read, key_type, depth + 1), _read(read, value_type, depth + 1))
                for _ in range(_size(read))
            ),
        )
    if kind in (SET, LIST):
        item_type = read(1)[0]
        return ThriftList(
            item_type, tuple(_read(read, item_type, depth + 1) for _ in range(_size(read)))
        )
    raise NotThrift(f"it sent a value of type {kind}")


def _size(read: Read) -> int:
    (size,) = struct.unpack(">i", read(4))
    if not 0 <= size <= _MOST_BYTES:
        raise NotThrift(f"it announced {size} bytes or values at once")
    return int(size)
