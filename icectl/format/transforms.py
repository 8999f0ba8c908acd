"""Partition transforms of one value, and the bucket hash."""

import base64
import re
import struct
from dataclasses import dataclass
from decimal import Decimal

import mmh3

from icectl.format.moments import DAY_SECONDS, civil_date
from icectl.format.single_value import (
    EXACT,
    UNITS_PER_SECOND,
    Value,
    encode,
    text,
    unscaled_integer,
)
from icectl.format.types import (
    DecimalType,
    FixedType,
    PrimitiveType,
    Type,
    is_comparable,
    is_nested,
    type_text,
)

KNOWN = {"identity", "year", "month", "day", "hour", "void"}
_PARAMETRISED = re.compile(r"(bucket|truncate)\[([0-9]+)\]")
_INT = PrimitiveType("int")
_HASHED_AS_LONG = {"int", "long", "date", "time", "timestamp", "timestamptz"}
_OTHERWISE_HASHED = {"timestamp_ns", "timestamptz_ns", "string", "uuid", "binary"}
_TRUNCATED = {"int", "long", "string", "binary"}
_NOT_FOR_BUCKETS = (PrimitiveType("boolean"), PrimitiveType("float"), PrimitiveType("double"))
"""Types with a hash that the format does not let buckets use (R-076)."""


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
    """Return a transform from its text, whose case does not matter; others are carried (R-007)."""
    name = value.lower()
    if name in KNOWN:
        return Transform(name, value)
    match = _PARAMETRISED.fullmatch(name)
    if match and int(match[2]) > 0:
        return Transform(match[1], value, int(match[2]))
    return Transform("unknown", value)


def result_type(transform: Transform, source: Type) -> Type | None:
    """Return the type of a transform's result (R-071); None for an unknown transform."""
    match transform.name:
        case "bucket" | "year" | "month" | "hour":
            return _INT
        case "day":
            return PrimitiveType("date")
        case "identity" | "truncate" | "void":
            return source
        case _:
            return None


def accepts(transform: Transform, source: Type) -> bool:
    """Return whether a transform takes columns of a type (R-071); no unknown one does."""
    name = source.name if isinstance(source, PrimitiveType) else ""
    match transform.name:
        case "identity":
            return is_comparable(source)
        case "void":
            return not is_nested(source)
        case "bucket":
            exact = isinstance(source, (DecimalType, FixedType))
            return exact or name in _HASHED_AS_LONG | _OTHERWISE_HASHED
        case "truncate":
            return isinstance(source, DecimalType) or name in _TRUNCATED
        case "year" | "month" | "day":
            return name == "date" or name in UNITS_PER_SECOND
        case "hour":
            return name in UNITS_PER_SECOND
        case _:
            return False


def apply(transform: Transform, source: Type, value: Value) -> Value:
    """Return the partition value of a column value; null stays null (R-070).

    Units: years, months, days, hours since 1970-01-01 00:00 UTC, rounded down (R-072).
    Raises: ValueError, when the transform is unknown or does not take the type.
    """
    if value is None or transform.name == "void":
        return None
    match transform:
        case Transform("identity"):
            return value
        case Transform("bucket", width=int(buckets)) if source not in _NOT_FOR_BUCKETS:
            return (bucket_hash(source, value) & 0x7FFFFFFF) % buckets
        case Transform("truncate", width=int(width)):
            return _truncate(width, source, value)
        case Transform("day" | "month" | "year" as unit):
            days = _seconds(transform, source, value) // DAY_SECONDS
            if unit == "day":
                return days
            year, month, _ = civil_date(days)
            return year - 1970 if unit == "year" else (year - 1970) * 12 + month - 1
        case Transform("hour") if source != PrimitiveType("date"):
            return _seconds(transform, source, value) // 3600
        case _:
            raise ValueError(f"{transform.text} does not take {type_text(source)}")


def _truncate(width: int, source: Type, value: Value) -> Value:
    match source:
        case PrimitiveType("int" | "long"):
            return value - value % width
        case DecimalType(_, scale):
            whole = unscaled_integer(value, scale)
            return Decimal(whole - whole % width).scaleb(-scale, EXACT)
        case PrimitiveType("string" | "binary"):
            return value[:width]
        case _:
            raise ValueError(f"truncate does not take {type_text(source)}")


def _seconds(transform: Transform, source: Type, value: int) -> int:
    """Whole seconds since 1970-01-01 of a date or timestamp, rounded down (R-072)."""
    match source:
        case PrimitiveType("date"):
            return value * DAY_SECONDS
        case PrimitiveType(name) if name in UNITS_PER_SECOND:
            return value // UNITS_PER_SECOND[name]
        case _:
            raise ValueError(f"{transform.text} does not take {type_text(source)}")


def bucket_hash(type_: Type, value: Value) -> int:
    """Return the signed 32-bit murmur3 hash (R-075, R-076). Raises: ValueError, without one."""
    return int(mmh3.hash(_hash_input(type_, value), 0))


def _hash_input(type_: Type, value: Value) -> bytes:
    match type_:
        case PrimitiveType(name) if name in _HASHED_AS_LONG:
            return int(value).to_bytes(8, "little", signed=True)
        case PrimitiveType("timestamp_ns" | "timestamptz_ns"):
            return (int(value) // 1000).to_bytes(8, "little", signed=True)
        case PrimitiveType("float" | "double"):
            if value != value:  # noqa: PLR0124  # NaN is the one value that differs from itself
                return bytes.fromhex("000000000000f87f")
            return struct.pack("<d", value + 0.0)  # R-202: -0.0 + 0.0 is 0.0
        case PrimitiveType("boolean"):
            return int(value).to_bytes(8, "little")
        case PrimitiveType("string" | "uuid" | "binary") | DecimalType() | FixedType():
            return encode(type_, value)
        case _:
            raise ValueError(f"{type_text(type_)} has no bucket hash")


def path_text(transform: Transform, source: Type, value: Value) -> str:
    """Return a partition value as Java shows it in paths; `source` may be the result type."""
    if value is None:
        return "null"
    match transform.name:
        case "year":
            return f"{1970 + value:04}"
        case "month":
            return f"{1970 + value // 12:04}-{value % 12 + 1:02}"
        case "day":
            return _plain_date(value)
        case "hour":
            return f"{_plain_date(value // 24)}-{value % 24:02}"
        case "bucket":
            return str(value)
        case _:
            return _human_value(source, value)


def _plain_date(days: int) -> str:
    year, month, day = civil_date(days)
    return f"{year:04}-{month:02}-{day:02}"


def _human_value(type_: Type, value: Value) -> str:
    match type_:
        case DecimalType(_, scale):
            return str(Decimal(unscaled_integer(value, scale)).scaleb(-scale, EXACT))
        case PrimitiveType("date"):
            return _plain_date(value)
        case PrimitiveType("time" | "timestamp" | "timestamp_ns"):
            return _short_clock(text(type_, value))
        case PrimitiveType("timestamptz" | "timestamptz_ns"):
            return _short_clock(text(type_, value).removesuffix("+00:00")) + "Z"
        case _ if isinstance(value, bytes | bytearray):
            return base64.b64encode(bytes(value)).decode()
        case _:
            return text(type_, value)


def _short_clock(shown: str) -> str:
    """Drop seconds of zero, and keep three, six or nine decimals, as few as will do."""
    while shown.endswith("000"):  # of decimals: seconds have two digits
        shown = shown[:-3]
    return shown.removesuffix(":00")
