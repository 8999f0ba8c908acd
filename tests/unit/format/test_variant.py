"""Variants by their bytes, and bounds of them: examples of the specification, and of Spark."""

from decimal import Decimal
from uuid import UUID

import pytest

from icectl.format import variant
from icectl.format.single_value import text
from icectl.format.types import PrimitiveType
from icectl.format.variant import Primitive, bounds_text, joined_bounds, read_bounds, write_bounds

EMPTY = b"\x01\x00\x00"
AB = b"\x01\x02\x00\x01\x02ab"
OBJECT = b"\x02\x02\x00\x01\x00\x02\x04\x0c\x01\x0c\x02"
"""{"a": 1, "b": 2}: both ids, offsets 0, 2 and the end, and two numbers of one byte."""


@pytest.mark.parametrize(
    ("value", "type_id", "expected"),
    [
        (b"\x00", variant.NULL, None),
        (b"\x04", variant.TRUE, True),
        (b"\x08", variant.TRUE, False),
        (b"\x0c\xff", variant.INT8, -1),
        (b"\x10\x00\x01", variant.INT16, 256),
        (b"\x14\x00\x00\x00\x80", variant.INT32, -(2**31)),
        (b"\x18" + b"\xff" * 7 + b"\x7f", variant.INT64, 2**63 - 1),
        (b"\x1c\x00\x00\x00\x00\x00\x00\xf8\x3f", variant.DOUBLE, 1.5),
        (b"\x20\x02\x39\x30\x00\x00", variant.DECIMAL4, Decimal("123.45")),
        (b"\x24\x00\xff\xff\xff\xff\xff\xff\xff\xff", variant.DECIMAL8, Decimal(-1)),
        (b"\x28\x26" + b"\x01" + b"\x00" * 15, variant.DECIMAL16, Decimal("1E-38")),
        (b"\x2c\x01\x00\x00\x00", variant.DATE, 1),
        (b"\x30" + b"\x01" + b"\x00" * 7, variant.TIMESTAMPTZ, 1),
        (b"\x34" + b"\x01" + b"\x00" * 7, variant.TIMESTAMP, 1),
        (b"\x38\x00\x00\xc0\x3f", variant.FLOAT, 1.5),
        (b"\x3c\x02\x00\x00\x00\xff\x00", variant.BINARY, b"\xff\x00"),
        (b"\x40\x02\x00\x00\x00hi", variant.STRING, "hi"),
        (b"\x0dabc", variant.STRING, "abc"),
        (b"\x44" + b"\x01" + b"\x00" * 7, variant.TIME, 1),
        (b"\x48" + b"\x01" + b"\x00" * 7, variant.TIMESTAMPTZ_NS, 1),
        (b"\x4c" + b"\x01" + b"\x00" * 7, variant.TIMESTAMP_NS, 1),
        (b"\x50" + bytes(range(16)), variant.UUID_, UUID(bytes=bytes(range(16)))),
    ],
)
def test_primitives_of_every_type(value, type_id, expected):
    variant.check(EMPTY, value)
    assert variant.read_primitive(value) == Primitive(type_id, expected)


def test_names_are_read_and_written():
    assert variant.read_metadata(AB).names == ["a", "b"]
    long = ["k" * 300, "z"]
    assert variant.write_metadata(["a", "b"]) == b"\x11" + AB[1:]
    assert variant.read_metadata(variant.write_metadata(long)).names == long


def test_objects_and_arrays_are_put_together():
    parts = {"b": b"\x0c\x02", "a": b"\x0c\x01"}
    assert variant.write_object(parts, variant.read_metadata(AB).ids) == OBJECT
    assert variant.fields_of(variant.read_metadata(AB), OBJECT) == parts
    assert variant.write_array([b"\x0c\x01", b"\x00"]) == b"\x03\x02\x00\x02\x03\x0c\x01\x00"
    assert variant.text(AB, variant.write_array([OBJECT, b"\x00"])) == '[{"a": 1, "b": 2}, null]'
    many = variant.write_array([b"\x00"] * 300)
    assert many[:7] == b"\x17\x2c\x01\x00\x00\x00\x00"
    variant.check(EMPTY, many)


def test_values_of_an_object_may_be_in_any_order():
    value = b"\x02\x02\x00\x01\x02\x00\x04\x0c\x02\x0c\x01"
    variant.check(AB, value)
    assert variant.text(AB, value) == '{"a": 1, "b": 2}'


@pytest.mark.parametrize(
    ("metadata", "value", "why"),
    [
        (b"", b"\x00", "version 1"),
        (b"\x02\x00\x00", b"\x00", "version 1"),
        (b"\x01\x02\x00\x01", b"\x00", "ends early"),
        (b"\x01\x01\x00\x05a", b"\x00", "other lengths"),
        (b"\x11\x02\x00\x01\x02ba", b"\x00", "in order"),
        (EMPTY, b"", "ends early"),
        (EMPTY, b"\x18\x00", "ends early"),
        (EMPTY, b"\x0dab", "ends early"),
        (EMPTY, b"\x00\x00", "elsewhere"),
        (EMPTY, b"\x40\xff\xff\xff\xff", "ends early"),
        (EMPTY, b"\x20\x27\x00\x00\x00\x00", "scale"),
        (EMPTY, b"\x05\xff", "utf-8"),
        (EMPTY, OBJECT, "lacks"),
        (AB, b"\x02\x02\x01\x00\x00\x02\x04\x0c\x01\x0c\x02", "order of their names"),
        (AB, b"\x02\x02\x00\x00\x00\x02\x04\x0c\x01\x0c\x02", "order of their names"),
        (EMPTY, b"\x13\xff\xff\xff\xff\x00", "more values than bytes"),
        (EMPTY, b"\x03\x02\x00\x09\x03\x0c\x01\x00", "elsewhere"),
    ],
)
def test_what_is_no_variant_is_said(metadata, value, why):
    with pytest.raises(ValueError, match=why):
        variant.check(metadata, value)


def test_values_that_share_bytes_are_not_looked_at_again_and_again():
    """Thirty arrays in one another, each of whose ten values is the same next one: 10**30."""
    value = b"\x00"
    for _ in range(30):
        size = len(value).to_bytes(2, "little")
        value = b"\x07\x0a" + b"\x00\x00" * 10 + size + value
    with pytest.raises(ValueError, match="more values than bytes"):
        variant.check(EMPTY, value)


def test_what_nests_deep_is_checked_and_not_shown():
    value = b"\x00"
    for _ in range(5_000):
        value = b"\x0f\x01\x00\x00\x00\x00" + len(value).to_bytes(4, "little") + value
    variant.check(EMPTY, value)
    with pytest.raises(ValueError, match="too deep"):
        variant.text(EMPTY, value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"\x2c\x01\x00\x00\x00", '"1970-01-02"'),
        (b"\x30" + b"\x40\x42\x0f" + b"\x00" * 5, '"1970-01-01T00:00:01+00:00"'),
        (b"\x20\x02\x39\x30\x00\x00", '"123.45"'),
        (b"\x3c\x02\x00\x00\x00\xff\x00", '"ff00"'),
        (b"\x38\x00\x00\xc0\x7f", '"nan"'),
        (b"\x04", "true"),
    ],
)
def test_primitives_are_shown_as_people_read_them(value, shown):
    assert variant.text(EMPTY, value) == shown


SPARK_LOWER = (
    b"\x11\x03\x00\x06\x0c\x17$['a']$['b']$['c']['d']\x02\x03\x00\x01\x02\x00\x02\x05\x0b"
    b"\x0c\x00\tx0 \x01\x00\x00\x00\x00"
)
"""Of a file that Iceberg 1.12 with Spark 4.1 has shredded."""

ONE, TWO, WIDE = b"\x0c\x01", b"\x0c\x02", b"\x10\x02\x00"


def test_bounds_of_spark_are_read_and_written_to_the_same_bytes():
    found = read_bounds(SPARK_LOWER)
    assert found == {
        "$['a']": b"\x0c\x00",
        "$['b']": b"\x09x0",
        "$['c']['d']": b"\x20\x01\x00\x00\x00\x00",
    }
    assert write_bounds(found) == SPARK_LOWER
    shown = '{"$[\'a\']": 0, "$[\'b\']": "x0", "$[\'c\'][\'d\']": "0.0"}'
    assert bounds_text(SPARK_LOWER) == shown
    assert text(PrimitiveType("variant"), SPARK_LOWER) == shown
    assert text(PrimitiveType("variant"), b"\x01\x00") == "0100"


@pytest.mark.parametrize(
    ("bounds", "lower", "upper"),
    [
        ([{"$": ONE}, {"$": TWO}], {"$": ONE}, {"$": TWO}),
        ([{"$": ONE, "$['a']": ONE}, {"$": TWO}], {"$": ONE}, {"$": TWO}),
        ([{"$": ONE}, {"$['a']": TWO}], None, None),
        ([{"$": ONE}, {"$": WIDE}], None, None),
        ([{"$": b"\x09xa"}, {"$": b"\x09xb"}], {"$": b"\x09xa"}, {"$": b"\x09xb"}),
        ([{"$": b"\x50" + bytes(16)}] * 2, None, None),
        ([{"$": ONE}], {"$": ONE}, {"$": ONE}),
        ([], None, None),
        ([{}, {"$": ONE}], None, None),
    ],
)
def test_bounds_are_joined_of_paths_that_all_have(bounds, lower, upper):
    stored = [write_bounds(one) for one in bounds]
    assert joined_bounds(stored, "lower") == (None if lower is None else write_bounds(lower))
    assert joined_bounds(stored, "upper") == (None if upper is None else write_bounds(upper))


def test_the_lesser_zero_is_the_lower_bound():
    zero, negative = (b"\x1c" + b"\x00" * 7 + last for last in (b"\x00", b"\x80"))
    both = [write_bounds({"$": one}) for one in (zero, negative)]
    assert joined_bounds(both, "lower") == both[1]
    assert joined_bounds(both, "upper") == both[0]


@pytest.mark.parametrize("places", [(0, 1), (1, 0)])
def test_nan_is_no_bound_of_others(places):
    values = b"\x1c" + b"\x00" * 6 + b"\xf8\x7f", b"\x1c" + b"\x00" * 8
    both = [write_bounds({"$": values[at], "$['a']": ONE}) for at in places]
    for side in ("lower", "upper"):
        assert joined_bounds(both, side) == write_bounds({"$['a']": ONE})


@pytest.mark.parametrize("bound", [b"", b"\x01", b"\x01\x00\x00\x0c\x01", SPARK_LOWER[:-1]])
def test_what_is_no_bound_is_said(bound):
    with pytest.raises(ValueError, match=r"."):
        read_bounds(bound)
