"""Single values as bytes, JSON and text."""

import math
import struct
import uuid
from decimal import Decimal
from typing import Any

import pytest

from icectl.format.single_value import decode, encode, from_json, text, to_json, unscaled_integer
from icectl.format.types import (
    DecimalType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    parse_type,
)

INT = PrimitiveType("int")
STRING = PrimitiveType("string")
UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
POINT = bytes.fromhex("000000000000f03f0000000000000040")
"""x 1.0 and y 2.0."""

# Values and bytes of the reference implementation's TestConversions, and of the format's tables.
BYTES: list[tuple[str, Any, str]] = [
    ("boolean", False, "00"),
    ("boolean", True, "01"),
    ("int", 84202, "ea480100"),
    ("int", -1, "ffffffff"),
    ("long", 200, "c800000000000000"),
    ("float", -4.5, "000090c0"),
    ("double", 6.0, "0000000000001840"),
    ("date", 1000, "e8030000"),
    ("time", 10000, "1027000000000000"),
    ("timestamp", 400000, "801a060000000000"),
    ("timestamptz", 400000, "801a060000000000"),
    ("timestamp_ns", 400000, "801a060000000000"),
    ("timestamptz_ns", -1, "ffffffffffffffff"),
    ("string", "ABC", "414243"),
    ("string", "", ""),
    ("string", "é", "c3a9"),
    ("uuid", UUID, "f79c3e09677c4bbda4793f349cb785e7"),
    ("fixed[2]", b"ab", "6162"),
    ("binary", b"Z", "5a"),
    ("binary", b"", ""),
    ("decimal(9,2)", Decimal("123.45"), "3039"),
    ("decimal(9,4)", Decimal("123.4567"), "12d687"),
    ("decimal(9,4)", Decimal("-123.4567"), "ed2979"),
    ("decimal(9,2)", Decimal("0.00"), "00"),
    ("decimal(9,2)", Decimal("1.27"), "7f"),
    ("decimal(9,2)", Decimal("1.28"), "0080"),
    ("decimal(9,2)", Decimal("-1.28"), "80"),
    ("decimal(9,2)", Decimal("-1.29"), "ff7f"),
    ("decimal(38,0)", Decimal("9" * 38), "4b3b4ca85a86c47a098a223fffffffff"),
    ("variant", b"\x01\x00", "0100"),
    ("geometry", POINT, POINT.hex()),
    ("geometry", POINT + POINT, POINT.hex() * 2),
    ("geography(srid:4269)", POINT + bytes(8), POINT.hex() + "00" * 8),
]


@pytest.mark.parametrize(("type_", "value", "content"), BYTES)
def test_r091_a_value_has_the_bytes_of_the_format(type_, value, content):
    assert encode(parse_type(type_), value).hex() == content
    assert decode(parse_type(type_), bytes.fromhex(content)) == value


def test_r091_any_byte_but_zero_is_true():
    assert decode(PrimitiveType("boolean"), b"\x02") is True


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4, 5])
def test_r093_a_point_has_two_to_four_dimensions(dimensions):
    content = bytes(8 * dimensions)
    if dimensions in (2, 3, 4):
        assert decode(parse_type("geography"), content) == content
    else:
        with pytest.raises(ValueError, match=f"{8 * dimensions} bytes for geography"):
            decode(parse_type("geography"), content)


def test_a_nan_and_a_negative_zero_keep_their_bits():
    assert math.isnan(decode(PrimitiveType("double"), encode(PrimitiveType("double"), math.nan)))
    assert encode(PrimitiveType("float"), -0.0) == b"\x00\x00\x00\x80"


def test_a_decimal_keeps_its_scale_and_all_38_digits():
    decoded = decode(DecimalType(38, 10), encode(DecimalType(38, 10), Decimal(1)))
    assert str(decoded) == "1.0000000000"
    largest = Decimal("9999999999999999999999999999.9999999999")
    assert str(decode(DecimalType(38, 10), encode(DecimalType(38, 10), largest))) == str(largest)


@pytest.mark.parametrize(
    ("type_", "content", "value"),
    [
        ("long", "ffffffff", -1),
        ("double", "000090c0", -4.5),
        ("timestamp", "01000000", 86_400_000_000),
        ("timestamp_ns", "ffffffff", -86_400_000_000_000),
        ("decimal(18,2)", "0000000000003039", Decimal("123.45")),
    ],
)
def test_r096_bounds_from_before_a_promotion_are_read(type_, content, value):
    assert decode(parse_type(type_), bytes.fromhex(content)) == value


@pytest.mark.parametrize(
    ("type_", "content"),
    [
        ("boolean", ""), ("boolean", "0101"), ("int", "0100"), ("int", "0100000000000000"),
        ("date", ""), ("long", "01"), ("long", ""), ("time", "00000000"),
        ("timestamptz", "01000000"), ("timestamptz_ns", "01000000"), ("float", "0000000000000000"),
        ("double", "0000"), ("uuid", "00"), ("fixed[3]", "0000"), ("decimal(9,2)", ""),
        ("string", "ff"), ("geometry", "00"), ("geography", POINT.hex() + "00"), ("unknown", ""),
    ],
)  # fmt: skip
def test_bytes_that_are_no_value_of_the_type_are_an_error(type_, content):
    with pytest.raises(ValueError, match=r"bytes for|can't decode"):
        decode(parse_type(type_), bytes.fromhex(content))


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int", 2**31), ("date", -(2**31) - 1), ("long", 2**63), ("int", "a"), ("int", None),
        ("float", 1e300), ("float", "1"), ("uuid", "x"), ("fixed[2]", b"abc"), ("binary", "text"),
        ("geometry", b"abc"), ("decimal(9,2)", Decimal("1.234")), ("decimal(9,2)", "x"),
        ("decimal(9,2)", Decimal("Infinity")), ("decimal(9,2)", Decimal("NaN")),
        ("string", "\ud800"), ("unknown", 1),
    ],
)  # fmt: skip
def test_values_outside_of_the_type_have_no_bytes(type_, value):
    with pytest.raises(ValueError, match=r".") as caught:
        encode(parse_type(type_), value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "type_", [StructType(()), ListType(1, INT, True), MapType(1, STRING, 2, INT, True)]
)
def test_r091_nested_types_have_no_bytes(type_):
    with pytest.raises(ValueError, match="has no single-value bytes"):
        encode(type_, {})
    with pytest.raises(ValueError, match="has no single-value bytes"):
        decode(type_, b"")


def test_unscaled_refuses_to_lose_digits():
    assert unscaled_integer(Decimal("14.20"), 2) == 1420
    assert unscaled_integer(5, 2) == 500
    with pytest.raises(ValueError, match=r"14\.205 has more than 2 decimals"):
        unscaled_integer(Decimal("14.205"), 2)


# Examples of the format's table of JSON single values; times and timestamps as counts.
JSON: list[tuple[str, Any, Any]] = [
    ("boolean", True, True),
    ("int", 34, 34),
    ("int", -(2**31), -(2**31)),
    ("int", 2**31 - 1, 2**31 - 1),
    ("long", -(2**63), -(2**63)),
    ("long", 2**63 - 1, 2**63 - 1),
    ("float", 1.0, 1.0),
    ("double", 1.5, 1.5),
    ("double", math.inf, "Infinity"),
    ("float", -math.inf, "-Infinity"),
    ("decimal(9,2)", Decimal("14.20"), "14.20"),
    ("decimal(38,0)", Decimal("9" * 38), "9" * 38),
    ("decimal(11,11)", Decimal("0.00000000001"), "0.00000000001"),
    ("date", 17486, "2017-11-16"),
    ("time", 81_068_123_456, "22:31:08.123456"),
    ("timestamp", 1_510_871_468_123_456, "2017-11-16T22:31:08.123456"),
    ("timestamptz", 1_510_871_468_123_456, "2017-11-16T22:31:08.123456+00:00"),
    ("timestamp_ns", 1_510_871_468_123_456_789, "2017-11-16T22:31:08.123456789"),
    ("timestamptz_ns", 1_510_871_468_123_456_789, "2017-11-16T22:31:08.123456789+00:00"),
    ("string", "iceberg", "iceberg"),
    ("uuid", UUID, "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    ("fixed[4]", bytes.fromhex("000102ff"), "000102ff"),
    ("binary", bytes.fromhex("000102ff"), "000102ff"),
    ("geometry", POINT, "POINT (1 2)"),
    ("geography", struct.pack("<3d", -1.5, 2e300, 3), "POINT Z (-1.5 2e+300 3)"),
    ("geometry", struct.pack("<4d", 1, 2, math.nan, 0.25), "POINT M (1 2 0.25)"),
    ("geometry(srid:0)", struct.pack("<4d", 1, 2, math.inf, 0), "POINT ZM (1 2 inf 0)"),
    ("int", None, None),
    ("unknown", None, None),
]


@pytest.mark.parametrize(("type_", "value", "json_value"), JSON)
def test_r094_a_value_has_the_json_of_the_format(type_, value, json_value):
    assert to_json(parse_type(type_), value) == json_value
    assert from_json(parse_type(type_), json_value) == value


def test_r094_nan_is_a_string_in_json():
    assert to_json(PrimitiveType("double"), math.nan) == "NaN"
    assert math.isnan(from_json(PrimitiveType("float"), "NaN"))


def test_r094_nested_values_use_field_ids_and_arrays_of_keys_and_values():
    inner = (NestedField(1, "a", INT, required=True), NestedField(2, "b", STRING, required=False))
    struct, values = StructType(inner), {1: 1, 2: "bar"}
    assert to_json(struct, values) == {"1": 1, "2": "bar"}
    assert from_json(struct, {"1": 1, "2": "bar"}) == values
    assert from_json(struct, {"2": None}) == {2: None}
    assert to_json(struct, {2: None}) == {"2": None}
    list_ = ListType(3, PrimitiveType("date"), element_required=False)
    assert to_json(list_, [0, None]) == ["1970-01-01", None]
    assert from_json(list_, ["1970-01-01", None]) == [0, None]
    map_ = MapType(4, STRING, 5, INT, value_required=True)
    assert to_json(map_, {"a": 1, "b": 2}) == {"keys": ["a", "b"], "values": [1, 2]}
    assert from_json(map_, {"keys": ["a", "b"], "values": [1, 2]}) == {"a": 1, "b": 2}


def test_json_of_other_writers_is_read():
    assert from_json(PrimitiveType("double"), 1) == 1.0
    assert from_json(PrimitiveType("timestamptz"), "2017-11-16T14:31:08-08:00") == (
        1_510_871_468_000_000
    )
    assert from_json(PrimitiveType("uuid"), str(UUID).upper()) == UUID
    assert from_json(PrimitiveType("binary"), "00FF") == b"\x00\xff"
    assert str(from_json(DecimalType(9, 2), "14.2")) == "14.20"


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("boolean", 1), ("int", 1.0), ("int", True), ("int", "1"), ("int", 2**31), ("long", 2**63),
        ("int", -(2**31) - 1), ("float", "x"), ("double", True),
        ("decimal(9,2)", 14.2), ("decimal(9,2)", "14.205"),
        ("decimal(9,2)", "NaN"), ("decimal(9,2)", "x"), ("date", 17486), ("date", "today"),
        ("time", "25:00"), ("timestamp", 5), ("uuid", 5), ("uuid", "f79c"), ("string", 5),
        ("geometry", "POINT (1)"), ("geometry", "POINT Z (1 2)"), ("geography", "POINT (1 2 3)"),
        ("geometry", "LINESTRING (1 2, 3 4)"), ("geometry", "0000"), ("geometry", 5),
        ("binary", "xyz"), ("binary", 5), ("fixed[2]", "00"), ("unknown", 1), ("variant", "00"),
    ],
)  # fmt: skip
def test_json_that_is_no_value_of_the_type_is_an_error(type_, value):
    with pytest.raises(ValueError, match=r" is not (a valid|of type) ") as caught:
        from_json(parse_type(type_), value)
    assert type(caught.value) is ValueError


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (StructType((NestedField(1, "a", INT, required=True),)), [1]),
        (StructType((NestedField(1, "a", INT, required=True),)), {"1": "x"}),
        (ListType(3, INT, True), "12"),
        (ListType(3, INT, True), {"1": 1}),
        (MapType(4, STRING, 5, INT, True), {"keys": ["a"], "values": []}),
        (MapType(4, STRING, 5, INT, True), {"a": 1}),
        (MapType(4, STRING, 5, INT, True), [1]),
    ],
)
def test_json_that_is_no_nested_value_is_an_error(type_, value):
    with pytest.raises(ValueError, match=r" is not a valid (struct|list|map|int)"):
        from_json(type_, value)


@pytest.mark.parametrize(
    ("type_", "value", "shown"),
    [
        ("boolean", True, "true"),
        ("boolean", False, "false"),
        ("int", -5, "-5"),
        ("int", None, "null"),
        ("float", 0.10000000149011612, "0.1"),
        ("float", 16777216.0, "16777216.0"),
        ("float", 1.100000023841858, "1.1"),
        ("float", 0.12345679104328156, "0.12345679"),
        ("float", 1.0000001192092896, "1.0000001"),
        ("float", 1000.00006103515625, "1000.00006"),
        ("float", 1.401298464324817e-45, "1.4013e-45"),
        ("float", 3.4028234663852886e38, "3.4028235e+38"),
        ("double", 0.1, "0.1"),
        ("double", 1e300, "1e+300"),
        ("double", math.nan, "NaN"),
        ("double", -math.inf, "-Infinity"),
        ("float", -0.0, "-0.0"),
        ("decimal(9,2)", Decimal("1.5"), "1.50"),
        ("decimal(38,10)", Decimal("9" * 28 + "." + "9" * 10), "9" * 28 + "." + "9" * 10),
        ("date", -719529, "-0001-12-31"),
        ("timestamptz", 0, "1970-01-01T00:00:00+00:00"),
        ("timestamp", 1, "1970-01-01T00:00:00.000001"),
        ("string", "a b", "a b"),
        ("binary", b"\x00\xff", "00ff"),
        ("binary", bytearray(b"\x01"), "01"),
        ("uuid", UUID, str(UUID)),
    ],
)
def test_text_is_what_people_read(type_, value, shown):
    assert text(parse_type(type_), value) == shown
