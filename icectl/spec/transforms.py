"""Partition transforms of one value, and the bucket hash."""

import base64
import re
import struct
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import mmh3

from icectl.spec.single_value import (
    EPOCH,
    EXACT,
    UNIT_PER_SECOND,
    Value,
    date_text,
    encode,
    text,
)
from icectl.spec.types import DecimalType, FixedType, PrimitiveType, Type, type_text

KNOWN = {"identity", "year", "month", "day", "hour", "void"}
_PARAMETRISED = re.compile(r"(bucket|truncate)\[(\d+)\]")
_INT = PrimitiveType("int")
_HASHED_AS_LONG = {"int", "long", "date", "time", "timestamp", "timestamptz"}


@dataclass(frozen=True, slots=True)
class Transform:
    """A transform by name, with its parameter where it has one; others are carried as `unknown`.

    `name` is one of identity, bucket, truncate, year, month, day, hour, void, unknown;
    `text` is what the table stores, printed again unchanged (R-007).
    """

    name: str
    text: str
    width: int | None = None


def parse_transform(value: str) -> Transform:
    """A transform from its text; one that is not known is carried (R-007)."""
    if value in KNOWN:
        return Transform(value, value)
    match = _PARAMETRISED.fullmatch(value)
    if match and int(match[2]) > 0:
        return Transform(match[1], value, int(match[2]))
    return Transform("unknown", value)


def result_type(transform: Transform, source: Type) -> Type | None:
    """The type of a transform's result (R-071); None for an unknown transform."""
    match transform.name:
        case "bucket" | "year" | "month" | "hour":
            return _INT
        case "day":
            return PrimitiveType("date")
        case "identity" | "truncate" | "void":
            return source
        case _:
            return None


def apply(transform: Transform, source: Type, value: Value) -> Value:
    """The partition value of a column value; null stays null (R-070).

    Units: years, months, days, hours since 1970-01-01 00:00 UTC, rounded down (R-072).
    Raises: ValueError, when the transform is unknown or does not take the type.
    """
    if value is None or transform.name == "void":
        return None
    match transform.name:
        case "identity":
            return value
        case "bucket":
            return (bucket_hash(source, value) & 0x7FFFFFFF) % (transform.width or 1)
        case "truncate":
            return _truncate(transform.width or 1, source, value)
        case "year" | "month" | "day" | "hour":
            return _time_unit(transform.name, source, value)
        case _:
            raise ValueError(f"transform {transform.text} is not known")


def _truncate(width: int, source: Type, value: Value) -> Value:
    match source:
        case PrimitiveType("int" | "long"):
            return value - value % width
        case DecimalType(_, scale):
            unscaled = int(Decimal(value).scaleb(scale, EXACT))
            return Decimal(unscaled - unscaled % width).scaleb(-scale, EXACT)
        case PrimitiveType("string" | "binary"):
            return value[:width]
        case _:
            raise ValueError(f"truncate does not take {type_text(source)}")


def _time_unit(name: str, source: Type, value: int) -> int:
    if source == PrimitiveType("date"):
        days, seconds = value, 0
    elif isinstance(source, PrimitiveType) and source.name in UNIT_PER_SECOND:
        days, seconds = divmod(value // UNIT_PER_SECOND[source.name], 86_400)
    else:
        raise ValueError(f"{name} does not take {type_text(source)}")
    if name == "day":
        return days
    if name == "hour":
        return days * 24 + seconds // 3600
    date = EPOCH.date() + timedelta(days=days)
    return date.year - 1970 if name == "year" else (date.year - 1970) * 12 + date.month - 1


def bucket_hash(type_: Type, value: Value) -> int:
    """The signed 32-bit murmur3 hash of a value (R-075, R-076).

    Raises: ValueError, for types without a hash.
    """
    return int(mmh3.hash(_hash_input(type_, value), 0))


def _hash_input(type_: Type, value: Value) -> bytes:
    match type_:
        case PrimitiveType(name) if name in _HASHED_AS_LONG:
            return int(value).to_bytes(8, "little", signed=True)
        case PrimitiveType("timestamp_ns" | "timestamptz_ns"):
            return (int(value) // 1000).to_bytes(8, "little", signed=True)
        case PrimitiveType("float" | "double"):
            return _canonical_double(value)
        case PrimitiveType("boolean"):
            return int(value).to_bytes(8, "little")
        case PrimitiveType("string" | "uuid" | "binary") | DecimalType() | FixedType():
            return encode(type_, value)
        case _:
            raise ValueError(f"{type_text(type_)} has no bucket hash")


def _canonical_double(value: float) -> bytes:
    if value != value:  # noqa: PLR0124  # NaN is the one value that differs from itself
        return bytes.fromhex("000000000000f87f")
    return struct.pack("<d", value + 0.0)  # R-202: -0.0 + 0.0 is 0.0


def human(transform: Transform, source: Type, value: Value) -> str:
    """A partition value as partition paths and people show it: `2024-01`, `2024-01-02-03`."""
    if value is None:
        return "null"
    match transform.name:
        case "year":
            return str(1970 + value)
        case "month":
            return f"{1970 + value // 12:04}-{value % 12 + 1:02}"
        case "day":
            return date_text(value)
        case "hour":
            return f"{date_text(value // 24)}-{value % 24:02}"
        case "bucket":
            return str(value)
        case _ if isinstance(value, bytes | bytearray):
            return base64.b64encode(bytes(value)).decode()
        case _:
            return text(source, value)
