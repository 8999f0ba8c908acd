"""Round trips of single values, in bytes and in JSON."""

import json
import struct
import uuid
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from icectl.format.single_value import decode, encode, from_json, text, to_json
from icectl.format.types import (
    DecimalType,
    FixedType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    parse_type,
    type_json,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(), "int": INT32, "date": INT32, "long": INT64,
    "time": st.integers(0, 86_400 * 10**6 - 1), "timestamp": INT64, "timestamptz": INT64,
    "timestamp_ns": INT64, "timestamptz_ns": INT64, "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False), "string": st.text(), "uuid": st.uuids(),
    "binary": st.binary(),
}  # fmt: skip


@st.composite
def decimals(draw: st.DrawFn) -> tuple[Type, Decimal]:
    """A decimal type and a value with exactly its scale."""
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    digits = draw(st.integers(0, 10**precision - 1))
    sign = draw(st.integers(0, 1))
    return DecimalType(precision, scale), Decimal((sign, tuple(map(int, str(digits))), -scale))


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[Type, Any]:
    """A type that has single-value bytes and one of its values."""
    kind = draw(st.sampled_from([*VALUES, "decimal", "fixed"]))
    if kind == "decimal":
        return draw(decimals())
    if kind == "fixed":
        content = draw(st.binary(max_size=20))
        return FixedType(len(content)), content
    return PrimitiveType(kind), draw(VALUES[kind])


@st.composite
def nested_values(draw: st.DrawFn) -> tuple[Type, Any]:
    """A list, map or struct of primitive values, with nulls where they may be."""
    type_, value = draw(typed_values())
    kind = draw(st.sampled_from(["list", "map", "struct"]))
    if kind == "list":
        return ListType(1, type_, element_required=False), [value, None]
    if kind == "map":
        return MapType(1, PrimitiveType("string"), 2, type_, value_required=False), {"k": value}
    return StructType((NestedField(7, "a", type_, required=False),)), {7: value}


@given(typed_values())
def test_r091_bytes_of_a_value_decode_to_the_value(pair):
    type_, value = pair
    decoded = decode(type_, encode(type_, value))
    assert (decoded, type(decoded)) == (value, type(value))
    assert str(decoded) == str(value) or not value  # a decimal keeps its scale, -0 loses its sign


@given(st.one_of(typed_values(), nested_values()))
def test_r094_json_of_a_value_reads_back_as_the_value(pair):
    type_, value = pair
    assert from_json(type_, json.loads(json.dumps(to_json(type_, value)))) == value


@given(typed_values())
def test_a_type_reads_back_from_its_json(pair):
    assert parse_type(type_json(pair[0])) == pair[0]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_text_of_a_float_reads_back_as_the_same_float(value):
    shown = text(PrimitiveType("float"), value)
    assert struct.pack("<f", float(shown)) == struct.pack("<f", value)


@given(st.integers(-(10**38) + 1, 10**38 - 1))
def test_r091_a_decimal_takes_the_fewest_bytes(number):
    content = encode(DecimalType(38, 0), Decimal(number))
    assert int.from_bytes(content, "big", signed=True) == number
    if len(content) > 1:
        shorter = 8 * (len(content) - 1) - 1
        assert not -(2**shorter) <= number < 2**shorter


@given(st.sampled_from([*VALUES, "decimal(9,2)", "fixed[4]", "geometry"]), st.binary(max_size=40))
def test_any_bytes_are_a_value_or_a_value_error(type_, content):
    try:
        value = decode(parse_type(type_), content)
    except ValueError:
        return
    assert isinstance(value, bool | int | float | Decimal | str | uuid.UUID | bytes)
    assert isinstance(text(parse_type(type_), value), str)


@given(
    st.sampled_from([*VALUES, "decimal(9,2)", "fixed[4]", "geometry", "unknown"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=4,
    ),
)
def test_any_json_is_a_value_or_a_value_error(type_, value):
    try:
        from_json(parse_type(type_), value)
    except ValueError as error:
        assert type(error) is ValueError  # noqa: PT017
