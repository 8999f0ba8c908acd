"""Bounds of variants: those that Iceberg's Spark runtime wrote, and joined ones."""

import pytest

from icectl.format.single_value import text
from icectl.format.types import PrimitiveType
from icectl.format.variant import bounds_text, joined_bounds, read_bounds, write_bounds

SPARK_LOWER = (
    b"\x11\x03\x00\x06\x0c\x17$['a']$['b']$['c']['d']\x02\x03\x00\x01\x02\x00\x02\x05\x0b"
    b"\x0c\x00\tx0 \x01\x00\x00\x00\x00"
)
"""Of a file that Iceberg 1.12 with Spark 4.1 has shredded."""

ONE, TWO, WIDE = b"\x0c\x01", b"\x0c\x02", b"\x10\x02\x00"


def test_bounds_of_spark_are_read_and_written_to_the_same_bytes() -> None:
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
def test_bounds_are_joined_of_paths_that_all_have(bounds, lower, upper) -> None:
    stored = [write_bounds(one) for one in bounds]
    assert joined_bounds(stored, "lower") == (None if lower is None else write_bounds(lower))
    assert joined_bounds(stored, "upper") == (None if upper is None else write_bounds(upper))


def test_the_lesser_zero_is_the_lower_bound() -> None:
    zero, negative = (b"\x1c" + b"\x00" * 7 + last for last in (b"\x00", b"\x80"))
    both = [write_bounds({"$": one}) for one in (zero, negative)]
    assert joined_bounds(both, "lower") == both[1]
    assert joined_bounds(both, "upper") == both[0]


@pytest.mark.parametrize("places", [(0, 1), (1, 0)])
def test_nan_is_no_bound_of_others(places: tuple[int, int]) -> None:
    values = b"\x1c" + b"\x00" * 6 + b"\xf8\x7f", b"\x1c" + b"\x00" * 8
    both = [write_bounds({"$": values[at], "$['a']": ONE}) for at in places]
    for side in ("lower", "upper"):
        assert joined_bounds(both, side) == write_bounds({"$['a']": ONE})


@pytest.mark.parametrize("bound", [b"", b"\x01", b"\x01\x00\x00\x0c\x01", SPARK_LOWER[:-1]])
def test_what_is_no_bound_is_said(bound: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_bounds(bound)
