"""Depths of files by hand: what bounds say of the files that hold a value, and what is unknown."""

import math
from typing import Any

import numpy as np
import pytest

from icectl.entries.clustering import ClusteringKey, Depths, KeyBounds, depths, metrics_of, spans_of
from icectl.format.single_value import encode
from icectl.format.transforms import parse_transform
from icectl.format.types import DecimalType, FixedType, PrimitiveType, Type
from tests.builders.entry_rows import data, entries

LONG, DOUBLE = PrimitiveType("long"), PrimitiveType("double")
DAY = 86_400_000_000


def spans(type_: Type, *files: Any, transform: str = "identity", **shared: Any) -> KeyBounds:
    """Files of 10 rows each, given as (lower, upper, further columns of their entry)."""
    rows = []
    for at, (low, high, *more) in enumerate(files):
        bounds = {
            name: [] if value is None else [(1, encode(type_, value))]
            for name, value in (("lower_bounds", low), ("upper_bounds", high))
        }
        rows.append(data(f"f{at}", **bounds, **shared, **(more[0] if more else {})))
    found = entries(*rows)
    return spans_of(
        found, metrics_of(found), ClusteringKey("c", 1, type_, parse_transform(transform))
    )


def among(found: KeyBounds) -> Depths:
    return depths(found, np.zeros(int(found.known.sum()), np.int64), 1)


@pytest.mark.parametrize(
    ("type_", "files", "expected", "most"),
    [
        # half of the first lies in the second, a third of the second in the first
        (LONG, [(0, 10), (5, 20), (30, 40)], [1.5, 4 / 3, 1.0], 2),
        # ends that touch hold no row in common, but a look-up of 10 opens both
        (LONG, [(0, 10), (10, 20)], [1.0, 1.0], 2),
        # a file of one value is as deep as that value; it weighs nothing in others
        (LONG, [(0, 10), (4, 4), (10, 10)], [1.0, 2.0, 2.0], 2),
        (LONG, [(0, 10)] * 3, [3.0, 3.0, 3.0], 3),
        # a far away file takes no precision from others
        (LONG, [(0, 2), (1, 3), (0, 2**63 - 1)], [2.5, 2.5, 1 + 4 / 2**63], 3),
        (DOUBLE, [(0.0, 1e-9), (0.0, 1e18)], [2.0, 1.0], 2),
        (DOUBLE, [(0.0, 1.0), (0.5, math.inf)], [1.5, 4 / 3], 2),
        (DecimalType(38, 0), [(10**30, 10**30 + 2), (10**30 + 1, 10**30 + 2)], [1.5, 2.0], 2),
        (DecimalType(38, 0), [(-9 * 10**37, 99 * 10**36), (9 * 10**37, 99 * 10**36)],
         [22 / 21, 2.0], 2),
        (PrimitiveType("date"), [(0, 10), (5, 20)], [1.5, 4 / 3], 2),
        (PrimitiveType("boolean"), [(False, True), (True, True)], [1.0, 2.0], 2),
        # a..c..f..m: one of the two gaps of each file is shared
        (PrimitiveType("string"), [("a", "f"), ("c", "m")], [1.5, 1.5], 2),
        (PrimitiveType("binary"), [(b"a", b"f"), (b"c", b"m")], [1.5, 1.5], 2),
        (FixedType(1), [(b"a", b"f"), (b"c", b"m")], [1.5, 1.5], 2),
    ],
)  # fmt: skip
def test_depth_is_the_expected_number_of_files_with_the_value_of_a_row(
    type_, files, expected, most
):
    found = among(spans(type_, *files))
    assert found.of_files.tolist() == pytest.approx(expected)
    assert found.most.tolist() == [most]


def test_a_group_has_only_its_own_files():
    found = depths(spans(LONG, (0, 10), (0, 10), (5, 15)), np.array([0, 1, 1]), 2)
    assert found.of_files.tolist() == pytest.approx([1.0, 1.5, 1.5])
    assert found.most.tolist() == [1, 2]


def test_a_range_opens_files_by_the_rows_around_it():
    # Ranges begin evenly among the first 99% of the rows, those of the first file in 50% of them.
    found = among(spans(LONG, (0, 10), (10, 20)))
    assert found.opened.tolist() == pytest.approx([0.5 / 0.99, 0.5 / 0.99])
    found = among(spans(LONG, (0, 10, {"record_count": 97}), (20, 20, {"record_count": 3})))
    assert found.opened.tolist() == pytest.approx([0.97 / 0.99, 0.03 / 0.99])


def test_files_without_usable_bounds_are_unknown_and_those_without_values_empty():
    nulls, nans = {"null_value_counts": [(1, 10)]}, {"nan_value_counts": [(1, 10)]}
    found = spans(
        DOUBLE,
        (0.0, 1.0),
        (None, 1.0),
        (1.0, 0.0),
        (math.nan, 1.0),
        (None, None, nulls),
        (None, None, nans),
        (0.0, 2.0, {"record_count": 0}),
        (0.0, 2.0, {"null_value_counts": [(1, 4)], "nan_value_counts": [(1, 1)]}),
    )
    assert found.known.tolist() == [True, False, False, False, False, False, False, True]
    assert found.is_empty.tolist() == [False] * 4 + [True] * 3 + [False]
    assert found.rows[found.known].tolist() == [10, 5]


def test_bounds_from_before_a_promotion_are_those_of_the_type_now():
    rows = [
        data("old", lower_bounds=[(1, b"\1\0\0\0")], upper_bounds=[(1, b"\3\0\0\0")]),
        data("new", lower_bounds=[(1, encode(LONG, 2))], upper_bounds=[(1, encode(LONG, 4))]),
    ]
    found = entries(*rows)
    key = ClusteringKey("c", 1, LONG, parse_transform("identity"))
    assert among(spans_of(found, metrics_of(found), key)).of_files.tolist() == [1.5, 1.5]


@pytest.mark.parametrize(
    ("type_", "transform", "files"),
    [
        ("timestamp", "day", [(0, DAY - 1), (5, 9), (DAY, 2 * DAY - 1)]),
        ("timestamptz", "hour", [(0, 9), (5, 8), (DAY, DAY + 5)]),
        ("date", "month", [(0, 30), (5, 9), (31, 50)]),
        ("long", "truncate[10]", [(0, 9), (5, 8), (10, 19)]),
        ("string", "truncate[1]", [("aa", "az"), ("ab", "ac"), ("ba", "bz")]),
    ],
)
def test_a_key_with_a_transform_is_compared_by_its_results(type_, transform, files):
    found = among(spans(PrimitiveType(type_), *files, transform=transform))
    assert found.of_files.tolist() == [2.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("type_", "transform"),
    [("long", "bucket[4]"), ("long", "void"), ("uuid", "identity"), ("unknown", "identity")],
)
def test_keys_whose_bounds_show_no_order_say_why(type_, transform):
    assert ClusteringKey("c", 1, PrimitiveType(type_), parse_transform(transform)).why_unordered
    assert ClusteringKey("c", 1, LONG, parse_transform("truncate[4]")).why_unordered is None
