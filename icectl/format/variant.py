"""Values of the type variant: their bytes, by the specification of variant encoding of Parquet.

A variant is the bytes of its metadata, a dictionary of names of fields, and those of its value. A
value is a primitive, an object or an array, the last two of values. Bytes may come from anybody:
reading takes time in proportion to their number.

A bound of a column of variants is an object of the least or the greatest of its values, by names
that are normalized JSON paths, as `$['user']['name']`; its bytes are those of its metadata and of
its value, one behind the other (R-093).
"""

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Literal
from uuid import UUID

from icectl.format.moments import (
    MICROS_PER_SECOND,
    NANOS_PER_SECOND,
    print_clock,
    print_date,
    print_timestamp,
)

_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
(
    NULL, TRUE, FALSE, INT8, INT16, INT32, INT64, DOUBLE, DECIMAL4, DECIMAL8, DECIMAL16, DATE,
    TIMESTAMPTZ, TIMESTAMP, FLOAT, BINARY, STRING, TIME, TIMESTAMPTZ_NS, TIMESTAMP_NS, UUID_,
) = range(21)  # fmt: skip
"""Ids of primitive types."""

NULL_VALUE = b"\x00"
_SIZES = {
    NULL: 0, TRUE: 0, FALSE: 0, INT8: 1, INT16: 2, INT32: 4, INT64: 8, DOUBLE: 8, DECIMAL4: 5,
    DECIMAL8: 9, DECIMAL16: 17, DATE: 4, TIMESTAMPTZ: 8, TIMESTAMP: 8, FLOAT: 4, TIME: 8,
    TIMESTAMPTZ_NS: 8, TIMESTAMP_NS: 8, UUID_: 16,
}  # fmt: skip
"""Bytes behind the first one, of types whose values all have as many."""

_DECIMALS = (DECIMAL4, DECIMAL8, DECIMAL16)
_INTEGERS = (INT8, INT16, INT32, INT64)
_LARGEST_SCALE = 38
_LONGEST_SHORT_STRING = 63

Side = Literal["lower", "upper"]
_WITHOUT_ORDER = (NULL, UUID_)
"""Writers take UUIDs in different orders."""


@dataclass(frozen=True, slots=True)
class Names:
    """The dictionary of a metadata: names by id, and ids by name."""

    names: Sequence[str]
    ids: Mapping[str, int]


_LONGEST_KEPT_BYTES = 4096


def read_metadata(metadata: bytes) -> Names:
    """Return the names of a metadata; of short ones the last are kept. Raises: ValueError."""
    return _kept_names(metadata) if len(metadata) <= _LONGEST_KEPT_BYTES else _names(metadata)


def _names(metadata: bytes) -> Names:
    if not metadata or metadata[0] & 15 != 1:
        raise ValueError("its metadata is not of version 1")
    width = (metadata[0] >> 6) + 1
    count = _number(metadata, 1, width)
    first = 1 + width * (count + 2)
    if first > len(metadata):
        raise ValueError("its metadata ends early")
    ends = [_number(metadata, 1 + width * place, width) for place in range(1, count + 2)]
    ordered = all(one <= next_ for one, next_ in pairwise(ends))
    if ends[0] != 0 or not ordered or first + ends[-1] != len(metadata):
        raise ValueError("names of its metadata have other lengths than its bytes")
    names = [metadata[first + start : first + end].decode() for start, end in pairwise(ends)]
    if metadata[0] & 16:
        stored = [name.encode() for name in names]
        if any(one >= next_ for one, next_ in pairwise(stored)):
            raise ValueError("its metadata says that names are in order, and they are not")
    return Names(names, {name: id_ for id_, name in reversed(list(enumerate(names)))})


_kept_names = lru_cache(maxsize=1024)(_names)


def metadata_size(content: bytes) -> int:
    """Return the bytes of the metadata that some bytes begin with. Raises: ValueError."""
    if not content:
        raise ValueError("its metadata is not of version 1")
    width = (content[0] >> 6) + 1
    count = _number(content, 1, width)
    return 1 + width * (count + 2) + _number(content, 1 + width * (count + 1), width)


def write_metadata(names: Sequence[str]) -> bytes:
    """Return the metadata of some names, each once and in the order of their bytes."""
    stored = [name.encode() for name in names]
    width = _width(max(sum(map(len, stored)), len(stored)))
    ends = accumulate(map(len, stored), initial=0)
    numbers = b"".join(number.to_bytes(width, "little") for number in (len(stored), *ends))
    return bytes([1 | 16 | (width - 1) << 6]) + numbers + b"".join(stored)


@dataclass(frozen=True, slots=True)
class VariantParts:
    """The values in an object or an array, by their places; `keys` are ids of an object's names."""

    keys: Sequence[int] | None
    starts: Sequence[int]
    end: int


def check(metadata: bytes, value: bytes) -> None:
    """Do nothing where the bytes are a variant. Raises: ValueError, which says what is wrong."""
    names = read_metadata(metadata).names
    left = len(value)
    open_: list[tuple[int, int, bool]] = [(0, len(value), True)]
    while open_:
        start, end, is_root = open_.pop()
        size = value_size(value, start, end)
        if size is not None and (start + size > end or (is_root and start + size != end)):
            raise ValueError("a value ends elsewhere than its bytes")
        parts = _parts(value, start, end)
        kind, header = value[start] & 3, value[start] >> 2
        if parts is None:
            if kind == _SHORT_STRING:
                value[start + 1 : start + 1 + header].decode()
            elif header == STRING:
                value[start + 5 : start + (size or 0)].decode()
            elif header in _DECIMALS and value[start + 1] > _LARGEST_SCALE:
                raise ValueError("a decimal has a scale beyond 38")
            continue
        if parts.keys is not None:
            _check_keys(parts.keys, names)
        left -= len(parts.starts)  # values that share bytes would be looked at many times
        if left < 0:
            raise ValueError("it has more values than bytes")
        open_ += [(one, parts.end, False) for one in parts.starts]


def _check_keys(keys: Sequence[int], names: Sequence[str]) -> None:
    if any(key >= len(names) for key in keys):
        raise ValueError("an object has a field whose name its metadata lacks")
    stored = [names[key].encode() for key in keys]
    if any(one >= next_ for one, next_ in pairwise(stored)):
        raise ValueError("fields of an object are not in the order of their names")


def value_size(value: bytes, start: int, end: int) -> int | None:
    """Return the bytes of the value that begins at a byte and ends before another.

    None for a primitive of a type that this program does not know.
    Raises: ValueError, where it ends early.
    """
    if start >= end:
        raise ValueError("a value ends early")
    kind, header = value[start] & 3, value[start] >> 2
    if kind == _SHORT_STRING:
        size = 1 + header
    elif kind == _PRIMITIVE:
        if header in (BINARY, STRING):
            if start + 5 > end:
                raise ValueError("a value ends early")
            size = 5 + _number(value, start + 1, 4)
        elif header in _SIZES:
            size = 1 + _SIZES[header]
        else:
            return None
    else:
        parts = _parts(value, start, end)
        assert parts is not None
        size = parts.end - start
    if start + size > end:
        raise ValueError("a value ends early")
    return size


def _parts(value: bytes, start: int, end: int) -> VariantParts | None:
    """Return where the values in an object or an array begin; None of a primitive."""
    kind, header = value[start] & 3, value[start] >> 2
    if kind < _OBJECT:
        return None
    is_large = header >> (4 if kind == _OBJECT else 2) & 1
    at, count_size = start + 1, 4 if is_large else 1
    offset_size, id_size = (header & 3) + 1, (header >> 2 & 3) + 1 if kind == _OBJECT else 0
    if at + count_size > end:
        raise ValueError("a value ends early")
    count = _number(value, at, count_size)
    ids_at = at + count_size
    offsets_at = ids_at + count * id_size
    first = offsets_at + (count + 1) * offset_size
    if first > end:
        raise ValueError("an object or an array has more values than bytes")
    offsets = [
        _number(value, offsets_at + place * offset_size, offset_size) for place in range(count + 1)
    ]
    last = offsets.pop()
    if first + last > end or any(offset >= last for offset in offsets):
        raise ValueError("a value ends elsewhere than its bytes")
    keys = None
    if kind == _OBJECT:
        keys = [_number(value, ids_at + place * id_size, id_size) for place in range(count)]
    return VariantParts(keys, [first + offset for offset in offsets], first + last)


def is_object(value: bytes) -> bool:
    """Return whether a value is an object, by its first byte."""
    return bool(value) and value[0] & 3 == _OBJECT


def fields_of(names: Names, value: bytes) -> dict[str, bytes] | None:
    """Return the fields of an object by name; None of another value. Raises: ValueError."""
    parts = _parts(value, 0, len(value)) if value else None
    if parts is None or parts.keys is None:
        return None
    _check_keys(parts.keys, names.names)
    return {
        names.names[key]: part for key, part in zip(parts.keys, _values(value, parts), strict=True)
    }


def _values(value: bytes, parts: VariantParts) -> Iterator[bytes]:
    """Yield the values in an object or an array. Raises: ValueError."""
    ends = dict(pairwise([*sorted(parts.starts), parts.end]))
    for start in parts.starts:
        size = value_size(value, start, parts.end)
        yield value[start : ends[start] if size is None else start + size]


def write_object(fields: Mapping[str, bytes], ids: Mapping[str, int]) -> bytes:
    """Return an object of values by name. Raises: ValueError, where a name has no id."""
    ordered = sorted(fields, key=str.encode)
    missing = next((name for name in ordered if name not in ids), None)
    if missing is not None:
        raise ValueError(f"its metadata lacks the name `{missing}` of a shredded field")
    keys = [ids[name] for name in ordered]
    values = [fields[name] for name in ordered]
    id_size, (offset_size, offsets) = _width(max(keys, default=0)), _offsets(values)
    is_large, count = _count(len(keys))
    header = is_large << 4 | (id_size - 1) << 2 | (offset_size - 1)
    stored_ids = b"".join(key.to_bytes(id_size, "little") for key in keys)
    return bytes([header << 2 | _OBJECT]) + count + stored_ids + offsets + b"".join(values)


def write_array(values: Sequence[bytes]) -> bytes:
    """Return an array of values."""
    offset_size, offsets = _offsets(values)
    is_large, count = _count(len(values))
    header = is_large << 2 | (offset_size - 1)
    return bytes([header << 2 | _ARRAY]) + count + offsets + b"".join(values)


def write_string(text: bytes) -> bytes:
    """Return a text, which is in UTF-8."""
    if len(text) <= _LONGEST_SHORT_STRING:
        return bytes([len(text) << 2 | _SHORT_STRING]) + text
    return write_primitive(STRING, len(text).to_bytes(4, "little") + text)


def write_primitive(type_id: int, content: bytes) -> bytes:
    """Return a primitive of a type, by the bytes behind its first."""
    return bytes([type_id << 2]) + content


def _offsets(values: Sequence[bytes]) -> tuple[int, bytes]:
    ends = list(accumulate(map(len, values), initial=0))
    width = _width(ends[-1])
    return width, b"".join(end.to_bytes(width, "little") for end in ends)


def _count(count: int) -> tuple[int, bytes]:
    is_large = count > 255
    return int(is_large), count.to_bytes(4 if is_large else 1, "little")


def _width(largest: int) -> int:
    return max(1, (largest.bit_length() + 7) // 8)


def _number(content: bytes, at: int, size: int) -> int:
    return int.from_bytes(content[at : at + size], "little")


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive by the id of its type, and its value in Python: numbers, text, bytes."""

    type_id: int
    value: Any


def read_primitive(value: bytes) -> Primitive | None:
    """Return a primitive, truth values and texts under one id; else None. Raises: ValueError."""
    size = value_size(value, 0, len(value))
    kind, header, content = value[0] & 3, value[0] >> 2, value[1:]
    if kind >= _OBJECT:
        return None
    if size is None:
        raise ValueError(f"a primitive is of the unknown type {header}")
    if kind == _SHORT_STRING:
        return Primitive(STRING, content[:header].decode())
    if header in (TRUE, FALSE):
        return Primitive(TRUE, header == TRUE)
    return Primitive(header, _READERS[header](content[: size - 1]))


def _integer(content: bytes) -> int:
    return int.from_bytes(content, "little", signed=True)


def _decimal(content: bytes) -> Decimal:
    unscaled = _integer(content[1:])
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -content[0]))


_READERS = {
    NULL: lambda _: None,
    FLOAT: lambda content: struct.unpack("<f", content)[0],
    DOUBLE: lambda content: struct.unpack("<d", content)[0],
    BINARY: lambda content: content[4:],
    STRING: lambda content: content[4:].decode(),
    UUID_: lambda content: UUID(bytes=content),
    **dict.fromkeys(_DECIMALS, _decimal),
    **dict.fromkeys(
        (*_INTEGERS, DATE, TIME, TIMESTAMPTZ, TIMESTAMP, TIMESTAMPTZ_NS, TIMESTAMP_NS), _integer
    ),
}


def _shown(one: Primitive) -> Any:
    value, kind = one.value, one.type_id
    if kind == DATE:
        return print_date(value)
    if kind == TIME:
        return print_clock(value, MICROS_PER_SECOND)
    if kind in (TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS):
        is_fine = kind in (TIMESTAMP_NS, TIMESTAMPTZ_NS)
        zone = "+00:00" if kind in (TIMESTAMPTZ, TIMESTAMPTZ_NS) else ""
        return print_timestamp(value, NANOS_PER_SECOND if is_fine else MICROS_PER_SECOND) + zone
    if isinstance(value, bytes):
        return value.hex()
    is_special = isinstance(value, float) and not math.isfinite(value)
    return str(value) if is_special or isinstance(value, Decimal | UUID) else value


def text(metadata: bytes, value: bytes) -> str:
    """Return a variant as JSON for people, moments and decimals as text. Raises: ValueError."""
    check(metadata, value)
    try:
        return json.dumps(_tree(read_metadata(metadata), value), ensure_ascii=False)
    except RecursionError as error:
        raise ValueError("it nests too deep to be shown") from error


def _tree(names: Names, value: bytes) -> Any:
    parts = _parts(value, 0, len(value))
    if parts is None:
        one = read_primitive(value)
        assert one is not None
        return _shown(one)
    inner = [_tree(names, part) for part in _values(value, parts)]
    if parts.keys is None:
        return inner
    return dict(zip((names.names[key] for key in parts.keys), inner, strict=True))


def read_bounds(bound: bytes) -> Mapping[str, bytes]:
    """Return the primitives of a bound by path, as values of variants. Raises: ValueError."""
    end = metadata_size(bound)
    metadata, value = bound[:end], bound[end:]
    check(metadata, value)
    fields = fields_of(read_metadata(metadata), value)
    if fields is None:
        raise ValueError("it is not an object")
    for path, one in fields.items():
        if read_primitive(one) is None:
            raise ValueError(f"the bound of {path} is not a primitive")
    return fields


def write_bounds(fields: Mapping[str, bytes]) -> bytes:
    """Return the bound of primitives by path."""
    metadata = write_metadata(sorted(fields, key=str.encode))
    return metadata + write_object(fields, read_metadata(metadata).ids)


def joined_bounds(bounds: Sequence[bytes], side: Side) -> bytes | None:
    """Return the bound of all values that several are of; None where no path has one.

    Only of paths that each of them has a bound of, of one type. Raises: as read_bounds.
    """
    parsed = [read_bounds(bound) for bound in bounds]
    joined = {}
    for path in parsed[0] if parsed else ():
        values = [fields[path] for fields in parsed if path in fields]
        read = {value: read_primitive(value) for value in values}
        types = {None if one is None else one.type_id for one in read.values()}
        if len(values) < len(parsed) or len(types) > 1 or types & {None, *_WITHOUT_ORDER}:
            continue
        numbers = [one.value for one in read.values() if one and isinstance(one.value, float)]
        if any(map(math.isnan, numbers)):
            continue  # it is no bound of others
        choose = min if side == "lower" else max
        joined[path] = choose(values, key=lambda one: _ordered(read[one]))
    return write_bounds(joined) if joined else None


def _ordered(one: Primitive | None) -> Any:
    value = None if one is None else one.value
    return (value, math.copysign(1, value)) if isinstance(value, float) else value


def bounds_text(bound: bytes) -> str:
    """Return a bound as JSON for people. Raises: ValueError, where the bytes are none."""
    end = metadata_size(bound)
    read_bounds(bound)
    return text(bound[:end], bound[end:])
