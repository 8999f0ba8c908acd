"""Single values as bytes, as JSON and as text (Appendix D).

Values in Python: bool; int for int, long, date (days), time (microseconds) and timestamps
(micro- or nanoseconds since 1970-01-01); float; Decimal; str; uuid.UUID; bytes.
"""

import json
import math
import struct
import uuid
from collections.abc import Callable, Collection, Mapping
from decimal import Context, Decimal
from typing import Any

from icectl.format.bounding_box import (
    CORNER_LENGTHS,
    corner_from_text,
    corner_text,
    decode_corner,
    encode_corner,
)
from icectl.format.moments import (
    DAY_SECONDS,
    MICROS_PER_SECOND,
    NANOS_PER_SECOND,
    parse_clock,
    parse_date,
    parse_timestamp,
    print_clock,
    print_date,
    print_timestamp,
)
from icectl.format.types import (
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
from icectl.format.variant import bounds_text
from icectl.units import print_text, print_value

Value = Any
"""A value of one of the Python types named above; in JSON also a struct as a dict by field id,
a list, and a map as a dict.
"""

EXACT = Context(prec=100)
"""For decimals of 38 digits; the default context rounds to 28."""

UNITS_PER_SECOND = {
    "timestamp": MICROS_PER_SECOND,
    "timestamptz": MICROS_PER_SECOND,
    "timestamp_ns": NANOS_PER_SECOND,
    "timestamptz_ns": NANOS_PER_SECOND,
}
EIGHT_BYTE_INTEGERS = {"long", "time", *UNITS_PER_SECOND}
PROMOTED_FROM_DATE = {"timestamp", "timestamp_ns"}
_SPECIAL_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def unscaled_integer(value: Value, scale: int) -> int:
    """Return the integer behind a decimal. Raises: ValueError, when digits would be lost."""
    shifted = Decimal(value).scaleb(scale, EXACT)
    whole = int(shifted)
    if whole != shifted:
        raise ValueError(f"{value} has more than {scale} decimals")
    return whole


def encode(type_: Type, value: Value) -> bytes:
    """Return the single-value bytes of a value (R-091). Raises: ValueError, where it has none."""
    try:
        match type_:
            case PrimitiveType(name):
                return _encode_primitive(name, value)
            case DecimalType(_, scale):
                whole = unscaled_integer(value, scale)
                length = (whole + (whole < 0)).bit_length() // 8 + 1
                return whole.to_bytes(length, "big", signed=True)
            case FixedType(length):
                return _checked_length(type_, bytes(value), {length})
            case GeometryType() | GeographyType():
                return _checked_length(type_, bytes(value), CORNER_LENGTHS)
            case _:
                raise ValueError(f"{type_text(type_)} has no single-value bytes")
    except (ArithmeticError, TypeError, struct.error) as error:
        raise ValueError(f"{print_value(value)} is not a valid {type_text(type_)}") from error


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


def _checked_length(type_: Type, content: bytes, lengths: Collection[int]) -> bytes:
    if len(content) not in lengths:
        raise ValueError(f"{len(content)} bytes for {type_text(type_)}")
    return content


def decode(type_: Type, content: bytes) -> Value:
    """Return the value of bytes, also of a promoted column's (R-096). Raises: ValueError."""
    match type_:
        case PrimitiveType(name):
            return _decode_primitive(name, content)
        case DecimalType(_, scale):
            if not content:
                raise ValueError(f"0 bytes for {type_text(type_)}")
            whole = int.from_bytes(content, "big", signed=True)
            return Decimal(whole).scaleb(-scale, EXACT)
        case FixedType(length):
            return _checked_length(type_, content, {length})
        case GeometryType() | GeographyType():
            return _checked_length(type_, content, CORNER_LENGTHS)
        case _:
            raise ValueError(f"{type_text(type_)} has no single-value bytes")


def _decode_primitive(name: str, content: bytes) -> Value:
    length = len(content)
    if name == "boolean" and length == 1:
        return content != b"\x00"
    if (name in ("int", "date", "long") and length == 4) or (
        name in EIGHT_BYTE_INTEGERS and length == 8
    ):
        return int.from_bytes(content, "little", signed=True)
    if name in PROMOTED_FROM_DATE and length == 4:
        days = int.from_bytes(content, "little", signed=True)
        return days * DAY_SECONDS * UNITS_PER_SECOND[name]
    if name in ("float", "double") and length in (4, 8) and (name, length) != ("float", 8):
        return struct.unpack("<f" if length == 4 else "<d", content)[0]
    if name == "string":
        return content.decode()
    if name == "uuid" and length == 16:
        return uuid.UUID(bytes=content)
    if name in ("binary", "variant"):
        return content
    raise ValueError(f"{length} bytes for {name}")


def to_json(type_: Type, value: Value) -> Any:
    """Return the JSON single value (R-094); structs by field id, maps as key and value arrays."""
    if value is None:
        return None
    match type_:
        case StructType(fields):
            present = (item for item in fields if item.id in value)
            return {str(item.id): to_json(item.type, value[item.id]) for item in present}
        case ListType():
            return [to_json(type_.element, item) for item in value]
        case MapType():
            return {
                "keys": [to_json(type_.key, key) for key in value],
                "values": [to_json(type_.value, item) for item in value.values()],
            }
        case PrimitiveType("boolean" | "int" | "long"):
            return value
        case PrimitiveType("float" | "double") if math.isfinite(value):
            return value
        case _:
            return text(type_, value)


def from_json(type_: Type, value: Any) -> Value:
    """Return the value of a JSON single value (R-094). Raises: ValueError, when it is none."""
    if value is None:
        return None
    try:
        match type_:
            case StructType(fields):
                present = (item for item in fields if str(item.id) in _typed(dict, value))
                return {item.id: from_json(item.type, value[str(item.id)]) for item in present}
            case ListType():
                return [from_json(type_.element, item) for item in _typed(list, value)]
            case MapType():
                keys = [from_json(type_.key, key) for key in value["keys"]]
                values = [from_json(type_.value, item) for item in value["values"]]
                return dict(zip(keys, values, strict=True))
            case PrimitiveType(name) if name in UNITS_PER_SECOND:
                return parse_timestamp(value, UNITS_PER_SECOND[name])
            case PrimitiveType(name):
                return _PARSERS[name](value)
            case DecimalType():
                return _decimal(type_, _typed(str, value))
            case GeometryType() | GeographyType():
                return encode_corner(corner_from_text(_typed(str, value)))
            case _:
                return decode(type_, bytes.fromhex(value))
    except (ArithmeticError, TypeError, KeyError, ValueError) as error:
        raise ValueError(
            f"{print_text(json.dumps(value))} is not a valid {type_text(type_)}"
        ) from error


def _typed(expected: type, value: Any) -> Any:
    """Return the value itself, for what Python would convert from any other JSON type."""
    if type(value) is not expected:
        raise TypeError(f"{print_value(value)} is not of type {expected.__name__}")
    return value


def _decimal(type_: DecimalType, value: str) -> Decimal:
    digits = unscaled_integer(Decimal(value), type_.scale)
    if abs(digits) >= 10**type_.precision:
        raise ValueError(f"{value} has more than {type_.precision} digits")
    return Decimal(digits).scaleb(-type_.scale, EXACT)


def _integer(bits: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        number: int = _typed(int, value)
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise ValueError(f"{number} needs more than {bits} bits")
        return number

    return parse


def _floating(value: Any) -> float:
    if isinstance(value, str):
        return _SPECIAL_FLOATS[value]
    return float(value) if type(value) is int else float(_typed(float, value))


_PARSERS: Mapping[str, Callable[[Any], Value]] = {
    "boolean": lambda value: _typed(bool, value),
    "int": _integer(32),
    "long": _integer(64),
    "float": _floating,
    "double": _floating,
    "date": parse_date,
    "time": lambda value: parse_clock(value, MICROS_PER_SECOND),
    "uuid": lambda value: uuid.UUID(_typed(str, value)),
    "binary": bytes.fromhex,
    "string": lambda value: _typed(str, value),
}
"""Parsers of JSON single values; variant and unknown have none but null."""


def text(type_: Type, value: Value) -> str:
    """Return a value as people read it, which for most types is its JSON form too."""
    match type_:
        case _ if value is None:
            return "null"
        case DecimalType(_, scale):
            return f"{Decimal(value):.{scale}f}"
        case PrimitiveType("boolean"):
            return "true" if value else "false"
        case PrimitiveType("date"):
            return print_date(value)
        case PrimitiveType("time"):
            return print_clock(value, MICROS_PER_SECOND)
        case PrimitiveType(name) if name in UNITS_PER_SECOND:
            zone = "+00:00" if name.startswith("timestamptz") else ""
            return print_timestamp(value, UNITS_PER_SECOND[name]) + zone
        case PrimitiveType("float" | "double") if not math.isfinite(value):
            special = _SPECIAL_FLOATS.items()
            return next(shown for shown, number in special if repr(number) == repr(value))
        case PrimitiveType("double"):
            return repr(value)
        case PrimitiveType("float"):
            # Six to nine digits, as few as read back as the same value of four bytes.
            stored = struct.pack("<f", value)
            candidates = (repr(float(f"{value:.{digits}g}")) for digits in range(6, 10))
            return next(shown for shown in candidates if struct.pack("<f", float(shown)) == stored)
        case GeometryType() | GeographyType():
            return _text_or_hex(lambda bound: corner_text(decode_corner(bound)), bytes(value))
        case PrimitiveType("variant"):
            return _text_or_hex(bounds_text, bytes(value))
        case _ if isinstance(value, bytes | bytearray):
            return bytes(value).hex()
        case _:
            return str(value)


def _text_or_hex(shown: Callable[[bytes], str], bound: bytes) -> str:
    """Write a bound as people read it; as bytes, where it is none."""
    try:
        return shown(bound)
    except ValueError:
        return bound.hex()
