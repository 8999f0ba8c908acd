import pytest

from icectl.format.metrics_modes import (
    COUNTS,
    FULL,
    NONE,
    TRUNCATE_16,
    MetricsMode,
    lower_bound,
    metrics_modes,
    upper_bound,
)
from icectl.format.schema import Schema
from icectl.format.types import FixedType, ListType, NestedField, PrimitiveType, StructType

LONG, STRING, BINARY = (PrimitiveType(name) for name in ("long", "string", "binary"))


def optional(number, name, type_):
    return NestedField(number, name, type_, required=False)


SCHEMA = Schema(
    0,
    (
        optional(1, "place", StructType((optional(4, "x", LONG), optional(5, "y", LONG)))),
        optional(2, "id", LONG),
        optional(3, "tags", ListType(6, STRING, element_required=False)),
        optional(7, "name", STRING),
    ),
)


def modes(properties, sorted_ids=()):
    return metrics_modes(properties, SCHEMA, sorted_ids)


def test_columns_without_fields_have_sixteen_characters_of_bounds():
    assert modes({}) == dict.fromkeys((2, 4, 5, 6, 7), TRUNCATE_16)


def test_columns_have_the_mode_that_the_table_names_for_them():
    found = modes(
        {
            "write.metadata.metrics.default": "counts",
            "write.metadata.metrics.column.place.x": "full",
            "write.metadata.metrics.column.tags.element": "none",
            "write.metadata.metrics.column.name": "Truncate(4)",
        }
    )
    assert found == {2: COUNTS, 4: FULL, 5: COUNTS, 6: NONE, 7: MetricsMode(True, 4)}


def test_columns_of_the_sort_order_have_bounds():
    properties = {"write.metadata.metrics.default": "none"}
    assert modes(properties, sorted_ids=[7]) == {
        **dict.fromkeys((2, 4, 5, 6), NONE),
        7: TRUNCATE_16,
    }
    properties["write.metadata.metrics.column.name"] = "counts"
    assert modes(properties, sorted_ids=[7])[7] == COUNTS
    assert modes({"write.metadata.metrics.default": "full"}, sorted_ids=[7])[7] == FULL


def test_of_many_columns_the_first_have_metrics_outer_ones_before_inner_ones():
    limit = "write.metadata.metrics.max-inferred-column-defaults"
    found = modes({limit: "3"})
    assert [id_ for id_, mode in found.items() if mode == TRUNCATE_16] == [4, 2, 7]
    assert {found[5], found[6]} == {NONE}
    found = modes({limit: "0", "write.metadata.metrics.column.id": "full"})
    assert found == {**dict.fromkeys((4, 5, 6, 7), NONE), 2: FULL}
    assert set(modes({limit: "0", "write.metadata.metrics.default": "counts"}).values()) == {COUNTS}


@pytest.mark.parametrize("text", ["truncate", "truncate(0)", "truncate(-1)", "all", ""])
def test_a_text_that_names_no_mode_is_passed_over(text):
    assert modes({"write.metadata.metrics.default": text})[2] == TRUNCATE_16
    assert modes({"write.metadata.metrics.column.id": text})[2] == TRUNCATE_16


@pytest.mark.parametrize(
    ("bound", "longest", "lower", "upper"),
    [
        ("abc", 3, "abc", "abc"), ("abcd", 3, "abc", "abd"),
        ("ab\U0010ffffd", 3, "ab\U0010ffff", "ac"),
        ("\U0010ffff\U0010ffffx", 2, "\U0010ffff\U0010ffff", None),
        ("a\ud7ffz", 2, "a\ud7ff", "a\ue000"), ("äöüß", 2, "äö", "ä÷"), ("", 1, "", ""),
    ],
)  # fmt: skip
def test_text_is_cut_by_code_points_downward_and_upward(bound, longest, lower, upper):
    assert lower_bound(STRING, bound.encode(), longest) == lower.encode()
    expected = None if upper is None else upper.encode()
    assert upper_bound(STRING, bound.encode(), longest) == expected


def test_bytes_are_cut_downward_and_upward():
    assert lower_bound(BINARY, b"\x01\xff\xff\x05", 3) == b"\x01\xff\xff"
    assert upper_bound(BINARY, b"\x01\xff\xff\x05", 3) == b"\x02"
    assert upper_bound(BINARY, b"\x01\x02\xff\x05", 4) == b"\x01\x02\xff\x05"
    assert upper_bound(BINARY, b"\xff\xff\xff\x05", 3) is None


def test_bounds_of_other_types_are_never_cut():
    assert lower_bound(LONG, bytes(8), 1) == bytes(8)
    assert upper_bound(LONG, bytes(8), 1) == bytes(8)
    assert upper_bound(PrimitiveType("uuid"), bytes(range(16)), 1) == bytes(range(16))
    assert lower_bound(FixedType(4), b"abcd", 1) == b"abcd"
    assert upper_bound(FixedType(4), b"abcd", 1) == b"abcd"
