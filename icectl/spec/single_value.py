"""Single values as bytes, as JSON and as text (Appendix D).

Values in Python: bool; int for int, long, date (days), time (microseconds) and timestamps
(micro- or nanoseconds since 1970-01-01); float; Decimal; str; uuid.UUID; bytes.
"""

import datetime as dt
import json
import math
import re
import struct
import uuid
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from icectl.spec.types import (
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    Type,
    type_text,
)

Value = Any
"""A value of one of the Python types named above; struct, list and map in JSON only."""

EXACT = Context(prec=100)
"""For decimals of 38 digits; the default context rounds to 28."""

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
UNIT_PER_SECOND = {
    "timestamp": 1_000_000,
    "timestamptz": 1_000_000,
    "timestamp_ns": 1_000_000_000,
    "timestamptz_ns": 1_000_000_000,
}
EIGHT_BYTE_INTEGERS = {"long", "time", *UNIT_PER_SECOND}
_TIMESTAMP = re.compile(
    r"(-?\d{4,}-\d{2}-\d{2})T(\d{2}:\d{2}(?::\d{2})?)(?:\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})?"
)
_TIME = re.compile(r"(\d{2}):(\d{2})(?::(\d{2}))?(?:\.(\d{1,9}))?")


def encode(type_: Type, value: Value) -> bytes:
    """The single-value bytes of a value (R-091). Raises: ValueError, for types without them."""
    match type_:
        case PrimitiveType(name):
            return _encode_primitive(name, value)
        case DecimalType(_, scale):
            unscaled = int(Decimal(value).scaleb(scale, EXACT))
            length = max(1, (unscaled + (unscaled < 0)).bit_length() // 8 + 1)
            return unscaled.to_bytes(length, "big", signed=True)
        case FixedType() | GeometryType() | GeographyType():
            return bytes(value)
        case _:
            raise ValueError(f"{type_text(type_)} has no single-value bytes")


def _encode_primitive(name: str, value: Value) -> bytes:
    if name == "boolean":
        return b"\x01" if value else b"\x00"
    if name in ("int", "date"):
        return int(value).to_bytes(4, "little", signed=True)
    if name in EIGHT_BYTE_INTEGERS:
        return int(value).to_bytes(8, "little", signed=True)
    if name in ("float", "double"):
        return struct.pack("<f" if name == "float" else "<d", value)
    if name == "string":
        return str(value).encode()
    if name == "uuid":
        return uuid.UUID(str(value)).bytes
    if name in ("binary", "variant"):
        return bytes(value)
    raise ValueError(f"{name} has no single-value bytes")


def decode(type_: Type, content: bytes) -> Value:
    """The value of single-value bytes, narrower ones of a promoted column too (R-096).

    Raises: ValueError, when the bytes are no value of the type.
    """
    match type_:
        case PrimitiveType(name):
            return _decode_primitive(name, content)
        case DecimalType(_, scale):
            if not content:
                raise ValueError("a decimal needs at least one byte")
            unscaled = int.from_bytes(content, "big", signed=True)
            return Decimal(unscaled).scaleb(-scale, EXACT)
        case FixedType(length):
            if len(content) != length:
                raise ValueError(f"{len(content)} bytes for fixed[{length}]")
            return content
        case GeometryType() | GeographyType():
            if len(content) not in (16, 24, 32):
                raise ValueError(f"{len(content)} bytes for a point")
            return content
        case _:
            raise ValueError(f"{type_text(type_)} has no single-value bytes")


def _decode_primitive(name: str, content: bytes) -> Value:
    length = len(content)
    if name == "boolean" and length == 1:
        return content != b"\x00"
    if name in ("int", "date") and length == 4:
        return int.from_bytes(content, "little", signed=True)
    if name in EIGHT_BYTE_INTEGERS:
        return _decode_wide_integer(name, content)
    if name in ("float", "double") and length in (4, 8) and (name, length) != ("float", 8):
        return struct.unpack("<f" if length == 4 else "<d", content)[0]
    if name == "string":
        return content.decode()
    if name == "uuid" and length == 16:
        return uuid.UUID(bytes=content)
    if name in ("binary", "variant"):
        return content
    raise ValueError(f"{length} bytes for {name}")


def _decode_wide_integer(name: str, content: bytes) -> int:
    """An 8-byte integer, or the 4 bytes of the type it was promoted from (R-096)."""
    value = int.from_bytes(content, "little", signed=True)
    if len(content) == 8:
        return value
    if len(content) != 4 or name == "time":
        raise ValueError(f"{len(content)} bytes for {name}")
    return value * 86_400 * UNIT_PER_SECOND[name] if name in UNIT_PER_SECOND else value


def to_json(type_: Type, value: Value) -> Any:
    """The JSON single value (R-094); structs by field id, maps as key and value arrays."""
    if value is None:
        return None
    match type_:
        case StructType(fields):
            by_id = {item.id: to_json(item.type, value.get(item.id)) for item in fields}
            return {str(id_): item for id_, item in by_id.items() if item is not None}
        case ListType():
            return [to_json(type_.element, item) for item in value]
        case MapType():
            return {
                "keys": [to_json(type_.key, key) for key in value],
                "values": [to_json(type_.value, item) for item in value.values()],
            }
        case FixedType() | GeometryType() | GeographyType():
            return bytes(value).hex()
        case PrimitiveType(name) if name in ("binary", "variant"):
            return bytes(value).hex()
        case PrimitiveType("boolean" | "int" | "long"):
            return value
        case PrimitiveType("float" | "double"):
            return value if math.isfinite(value) else str(value)
        case _:
            return text(type_, value)


def from_json(type_: Type, value: Any) -> Value:
    """The value of a JSON single value (R-094). Raises: ValueError, when it is none."""
    if value is None:
        return None
    try:
        match type_:
            case StructType(fields):
                return {
                    f.id: from_json(f.type, value[str(f.id)]) for f in fields if str(f.id) in value
                }
            case ListType():
                return [from_json(type_.element, item) for item in value]
            case MapType():
                return _map_from_json(type_, value)
            case DecimalType():
                return Decimal(value)
            case FixedType() | GeometryType() | GeographyType():
                return bytes.fromhex(value)
            case PrimitiveType(name):
                return _primitive_from_json(name, value)
    except (TypeError, AttributeError, KeyError, InvalidOperation) as error:
        raise ValueError(f"{json.dumps(value)} is no {type_text(type_)}") from error


def _map_from_json(type_: MapType, value: Mapping[str, Any]) -> dict[Value, Value]:
    keys = [from_json(type_.key, key) for key in value["keys"]]
    return dict(zip(keys, (from_json(type_.value, item) for item in value["values"]), strict=True))


def _primitive_from_json(name: str, value: Any) -> Value:
    if name == "boolean":
        if not isinstance(value, bool):
            raise ValueError(f"{json.dumps(value)} is no boolean")
        return value
    if name in _PARSERS:
        return _PARSERS[name](value)
    if name in UNIT_PER_SECOND:
        return _parse_timestamp(value, UNIT_PER_SECOND[name])
    raise ValueError(f"{name} has no JSON value but null")


def _parse_date(value: str) -> int:
    return (dt.date.fromisoformat(value) - EPOCH.date()).days


def _parse_time(value: str) -> int:
    match = _TIME.fullmatch(value)
    if match is None:
        raise ValueError(f"{value!r} is no time")
    hours, minutes, seconds = (int(part or 0) for part in match.group(1, 2, 3))
    micros = int((match[4] or "").ljust(9, "0")) // 1000
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros


_PARSERS: Mapping[str, Callable[[Any], Value]] = {
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "date": _parse_date,
    "time": _parse_time,
    "uuid": uuid.UUID,
    "binary": bytes.fromhex,
    "variant": bytes.fromhex,
    "string": str,
}


def _parse_timestamp(value: str, unit: int) -> int:
    match = _TIMESTAMP.fullmatch(value)
    if match is None:
        raise ValueError(f"{value!r} is no timestamp")
    moment = dt.datetime.fromisoformat(f"{match[1]}T{match[2]}{match[4] or '+00:00'}")
    difference = moment - EPOCH
    whole_seconds = difference.days * 86_400 + difference.seconds
    return whole_seconds * unit + int((match[3] or "").ljust(9, "0")) * unit // 1_000_000_000


def text(type_: Type, value: Value) -> str:
    """A value as people read it, which for most types is its JSON form too."""
    match type_:
        case _ if value is None:
            return "null"
        case DecimalType(_, scale):
            return f"{Decimal(value):.{scale}f}"
        case PrimitiveType("boolean"):
            return "true" if value else "false"
        case PrimitiveType("date"):
            return date_text(value)
        case PrimitiveType("time"):
            return _clock_text(value, 1_000_000)
        case PrimitiveType(name) if name in UNIT_PER_SECOND:
            zone = "+00:00" if name.startswith("timestamptz") else ""
            return timestamp_text(value, UNIT_PER_SECOND[name]) + zone
        case _ if isinstance(value, bytes | bytearray):
            return bytes(value).hex()
        case _:
            return str(value)


def date_text(days: int) -> str:
    """A date as ISO 8601; years outside 1 to 9999 as a number of days."""
    try:
        return (EPOCH.date() + dt.timedelta(days=days)).isoformat()
    except OverflowError:
        return f"{days} days"


def timestamp_text(value: int, unit_per_second: int) -> str:
    """A timestamp as ISO 8601 with as many decimals as it needs, none or 6 or 9."""
    days, rest = divmod(value, 86_400 * unit_per_second)
    return f"{date_text(days)}T{_clock_text(rest, unit_per_second)}"


def _clock_text(value: int, unit_per_second: int) -> str:
    seconds, fraction = divmod(value, unit_per_second)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    digits = len(str(unit_per_second)) - 1
    decimals = f".{fraction:0{digits}}" if fraction else ""
    return f"{hours:02}:{minutes:02}:{seconds:02}{decimals}"
