"""Hashes of rows: equal rows have equal ones, and what differs in any way has another."""

import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from icectl.files import compiled
from icectl.files import row_hash as row_hash_scan
from icectl.files.row_hash import row_hashes, sum_of

LISTS = [[1, 2], [], None, [1], [2, 1], [1, 2, None], [None]]
STRINGS = ["", None, "a", "b", "ab", "ba", "abcdefgh", "abcdefghi", "abcdefgh\0", "i" * 40]
COLUMNS = [
    pa.array([0, 1, None, -1, 2**31 - 1], pa.int32()),
    pa.array([0, 1, None, -1, 2**63 - 1], pa.int64()),
    pa.array([0.0, -0.0, None, float("nan"), float("inf"), 1.5], pa.float32()),
    pa.array([0.0, -0.0, None, float("nan"), float("inf"), 1.5], pa.float64()),
    pa.array([True, False, None]),
    pa.array(STRINGS),
    pa.array([None if text is None else text.encode() for text in STRINGS], pa.binary()),
    pa.array([b"ab", b"ba", None, b"\0\0"], pa.binary(2)),
    pa.array([Decimal("1.00"), Decimal("-1.00"), None, Decimal("9999999.99")], pa.decimal128(9, 2)),
    pa.array([0, 1, None], pa.timestamp("us", "UTC")),
    pa.array([bytes(16), bytes(range(16)), None], pa.uuid()),
    pa.array(LISTS, pa.list_(pa.int64())),
    pa.array([[(1, "a")], [(1, "b")], [], None, [(1, None)]], pa.map_(pa.int64(), pa.string())),
    pa.array(
        [{"x": 1, "y": 2}, {"x": 2, "y": 1}, None, {"x": None, "y": None}, {"x": 1, "y": None}]
    ),
]
EVERY = pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))


@pytest.fixture(params=["loops", "numpy"], autouse=True)
def end(request, monkeypatch) -> str:
    """Every test runs through the loops, and through numpy where they were not built."""
    if request.param == "numpy":
        monkeypatch.setattr(row_hash_scan, "loops", lambda: None)
    return request.param


def hashes(column):
    return row_hashes([column], len(column)).tolist()


@EVERY
def test_different_values_have_different_hashes(column):
    assert len(set(hashes(column))) == len(column)


@EVERY
def test_equal_values_have_equal_hashes_wherever_they_stand(column):
    expected = hashes(column)
    twice = pa.concat_arrays([column, column])
    assert hashes(twice) == expected * 2
    for start in range(len(column)):
        assert (
            hashes(twice.slice(start, len(column))) == (expected * 2)[start : start + len(column)]
        )
    reversed_ = column.take(pa.array(range(len(column) - 1, -1, -1)))
    assert hashes(reversed_) == expected[::-1]


def test_a_slice_of_more_than_eight_rows_has_the_hashes_of_its_rows():
    column = pa.array([None if row % 3 == 0 else row for row in range(100)])
    expected = hashes(column)
    assert hashes(column.slice(13, 50)) == expected[13:63]
    flags = pa.array([None if row % 3 == 0 else row % 2 == 0 for row in range(100)])
    assert hashes(flags.slice(13, 50)) == hashes(flags)[13:63]


def test_all_nan_are_one():
    for code, kind, bits in (
        ("<d", pa.float64(), 0xFFF8000000000123),
        ("<f", pa.float32(), 0xFF800001),
    ):
        stored = bits.to_bytes(kind.bit_width // 8, "little") + struct.pack(code, float("nan"))
        column = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(stored)])
        assert len(set(hashes(column))) == 1


def test_what_stands_under_a_null_does_not_count():
    values = pa.py_buffer(struct.pack("<qq", 5, 7))
    column = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\0"), values])
    assert hashes(column) == hashes(pa.nulls(2, pa.int64()))


def test_the_place_of_a_column_counts():
    one, other = pa.array([1, 2]), pa.array([2, 1])
    assert row_hashes([one, other], 2)[0] == row_hashes([other, one], 2)[1]
    assert row_hashes([one, other], 2)[0] != row_hashes([one, other], 2)[1]


def test_the_sum_is_of_rows_in_any_order_and_of_parts():
    chance = np.random.default_rng(1)
    columns = [pa.array(chance.integers(0, 99, 1000)), pa.array(chance.random(1000))]
    expected = sum_of(row_hashes(columns, 1000))
    order = pa.array(chance.permutation(1000))
    assert sum_of(row_hashes([column.take(order) for column in columns], 1000)) == expected
    parts = [
        sum_of(row_hashes([one.slice(at, 250) for one in columns], 250))
        for at in (0, 250, 500, 750)
    ]
    assert sum(parts) % 2**64 == expected


def test_the_sum_tells_rows_whose_values_changed_places():
    before = [pa.array([1, 2]), pa.array(["a", "b"])]
    after = [pa.array([1, 2]), pa.array(["b", "a"])]
    assert sum_of(row_hashes(before, 2)) != sum_of(row_hashes(after, 2))


def test_no_rows_and_no_columns_have_a_sum_too():
    assert sum_of(row_hashes([pa.array([], pa.string())], 0)) == 0
    assert sum_of(row_hashes([], 3)) == sum_of(row_hashes([pa.nulls(3)], 3))


@EVERY
def test_machines_without_the_loops_find_the_same_hashes(column, monkeypatch):
    monkeypatch.setattr(row_hash_scan, "loops", compiled.loops)
    twice = pa.concat_arrays([column, column]).slice(1)
    by_loops = row_hashes([twice], len(twice))
    sum_by_loops = sum_of(by_loops)
    monkeypatch.setattr(row_hash_scan, "loops", lambda: None)
    by_numpy = row_hashes([twice], len(twice))
    assert by_numpy.tolist() == by_loops.tolist()
    assert sum_of(by_numpy) == sum_by_loops
