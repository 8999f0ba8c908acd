"""Keys of rows sort as the rows should: directions, nulls, floats, text, transforms, z-values."""

import datetime as dt
import struct
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from icectl.errors import Unsupported
from icectl.files.parquet.schema import arrow_schema
from icectl.format.sort import order_from_json
from icectl.rows.sort_rows import ZOrder, sort_keys
from tests.builders.data_files import schema

NAN, INF = float("nan"), float("inf")
ASCENDING = [
    ("boolean", [False, True]),
    ("int", [-(2**31), -1, 0, 1, 2**31 - 1]),
    ("long", [-(2**63), -1, 0, 1, 2**63 - 1]),
    ("float", [-NAN, -INF, -1.5, -0.0, 0.0, 1e-40, 1.5, INF, NAN]),
    ("double", [-NAN, -INF, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, INF, NAN]),
    ("date", [dt.date(1960, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 1, 1)]),
    ("time", [dt.time(0), dt.time(0, 0, 0, 1), dt.time(23)]),
    ("timestamp", [-(2**62), -1, 0, 1, 2**62]),
    ("timestamptz_ns", [-(2**62), -1, 0, 1, 2**62]),
    ("string", ["", "\0", "\0\0", "\0a", "a", "a\0", "a\0\0", "a\0b", "a\x01", "aa", "b", "é",
                "\uffff", "\U0001f600"]),
    ("binary", [b"", b"\0", b"\0\0", b"\0\x01", b"\0\xff", b"\x01", b"a", b"\xff", b"\xff\0",
                b"\xff\xff"]),
    ("uuid", [bytes(16), b"\x7f" * 16, b"\x80" + bytes(15), b"\xff" * 16]),
    ("fixed[3]", [b"\0\0\0", b"\0\0\x01", b"\x01\0\0", b"\xff\xff\xff"]),
    ("decimal(9, 2)", [Decimal("-9999999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("0.01")]),
    ("decimal(38, 0)", [Decimal(-(10**37)), Decimal(-1), Decimal(0), Decimal(2**64),
                        Decimal(10**37)]),
]  # fmt: skip
EVERY = pytest.mark.parametrize(("type_", "values"), ASCENDING, ids=[name for name, _ in ASCENDING])


def order(*fields):
    described = [
        {"source-id": source, "transform": transform, "direction": direction, "null-order": nulls}
        for source, transform, direction, nulls in fields
    ]
    return order_from_json({"order-id": 1, "fields": described})


def keys(columns, types, how):
    wanted = schema(*((number, f"c{number}", type_) for number, type_ in enumerate(types, 1)))
    arrow = arrow_schema(wanted)
    arrays = [pa.array(values, item.type) for values, item in zip(columns, arrow, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=arrow)
    return sort_keys(how, wanted, arrow).of(batch).to_pylist()


@EVERY
def test_keys_ascend_with_the_values(type_, values):
    found = keys([values], [type_], order((1, "identity", "asc", "nulls-first")))
    assert all(one < other for one, other in pairwise(found)), found


@EVERY
def test_keys_descend_with_the_values_and_nulls_go_where_they_should(type_, values):
    given = [None, *values, None]
    for nulls, first in (("nulls-first", True), ("nulls-last", False)):
        found = keys([given], [type_], order((1, "identity", "desc", nulls)))
        assert all(one > other for one, other in pairwise(found[1:-1])), found
        assert found[0] == found[-1]
        assert all((found[0] < one) is first for one in found[1:-1])


@EVERY
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_a_second_field_decides_where_the_first_is_equal(type_, values, direction):
    first = [value for value in [*values, None] for _ in range(3)]
    second = [1, 2, None] * (len(values) + 1)
    how = order((1, "identity", direction, "nulls-last"), (2, "identity", "desc", "nulls-last"))
    found = keys([first, second], [type_, "int"], how)
    groups = [found[at : at + 3] for at in range(0, len(found), 3)]
    assert all(two < one < nothing for one, two, nothing in groups)
    ends = [(min(group), max(group)) for group in groups]
    ends = ends if direction == "asc" else [*ends[:-1][::-1], ends[-1]]
    assert all(one[1] < other[0] for one, other in pairwise(ends))


def test_r084_nan_is_before_or_behind_everything_by_its_sign_alone():
    stored = struct.pack("<QQQdd", 0x7FF8000000000001, 0x7FF0000000000001, 0x7FFF << 48, INF, -INF)
    stored += struct.pack("<QQ", 0xFFF8000000000001, 0xFFFF << 48)
    column = pa.Array.from_buffers(pa.float64(), 7, [None, pa.py_buffer(stored)])
    wanted = schema((1, "c", "double"))
    batch = pa.RecordBatch.from_arrays([column], schema=arrow_schema(wanted))
    how = order((1, "identity", "asc", "nulls-first"))
    found = sort_keys(how, wanted, batch.schema).of(batch).to_pylist()
    assert found[0] == found[1] == found[2] > found[3] > found[4] > found[5] == found[6]


def test_transforms_are_what_is_compared():
    found = keys([["ab", "aa", "b"]], ["string"], order((1, "truncate[1]", "asc", "nulls-first")))
    assert found[0] == found[1] < found[2]
    days = [0, 86_399_999_999, 86_400_000_000]
    found = keys([days], ["timestamp"], order((1, "day", "asc", "nulls-first")))
    assert found[0] == found[1] < found[2]


def test_columns_inside_of_structs_are_sorted_by():
    inner = {"id": 2, "name": "x", "type": "int", "required": False}
    place = {"type": "struct", "fields": [inner]}
    wanted = schema((1, "place", place))
    arrow = arrow_schema(wanted)
    batch = pa.RecordBatch.from_pylist(
        [{"place": {"x": 2}}, {"place": {"x": 1}}, {"place": None}], schema=arrow
    )
    found = sort_keys(order((2, "identity", "asc", "nulls-first")), wanted, arrow).of(batch)
    two, one, nothing = found.to_pylist()
    assert nothing < one < two


@pytest.mark.parametrize(
    "field", [(1, "shuffle", "asc"), (9, "identity", "asc"), (2, "identity", "asc")]
)
def test_r007_what_cannot_be_sorted_by_is_refused(field):
    element = {"type": "list", "element-id": 3, "element": "int", "element-required": False}
    wanted = schema((1, "id", "long"), (2, "tags", element))
    with pytest.raises(Unsupported, match="rows can't be sorted by"):
        sort_keys(order((*field, "nulls-first")), wanted, arrow_schema(wanted))


def test_a_column_of_nulls_that_no_file_stores_is_named_when_it_is_sorted_by():
    wanted = schema((1, "id", "long"), (2, "later", "unknown"))
    with pytest.raises(Unsupported, match="by identity of `later`, of type unknown"):
        sort_keys(order((2, "identity", "asc", "nulls-first")), wanted, arrow_schema(wanted))


def test_no_rows_have_no_keys():
    for type_, _ in ASCENDING:
        assert keys([[]], [type_], order((1, "identity", "desc", "nulls-first"))) == []
        assert keys([[]], [type_], ZOrder((1,))) == []


@EVERY
def test_z_values_of_one_column_ascend_with_its_beginning(type_, values):
    found = keys([values], [type_], ZOrder((1,)))
    assert all(one <= other for one, other in pairwise(found))
    assert {len(key) for key in found} == {8}
    assert keys([[None]], [type_], ZOrder((1,))) == [bytes(8)]


def test_z_values_take_bits_of_columns_in_turn():
    found = keys([[-(2**63), 0, 2**63 - 1, 1]], ["long"], ZOrder((1,)))
    assert found == [bytes(8), b"\x80" + bytes(7), b"\xff" * 8, b"\x80" + bytes(6) + b"\x01"]
    smallest, one = -(2**63), -(2**63) + 1
    found = keys([[smallest, one, 0], [one, smallest, smallest]], ["long", "long"], ZOrder((1, 2)))
    assert found == [bytes(15) + b"\x01", bytes(15) + b"\x02", b"\x80" + bytes(15)]


def test_neighbours_on_the_curve_are_near_in_every_column():
    chance = np.random.default_rng(1)
    columns = [chance.integers(0, 1024, 4096) for _ in range(2)]
    found = keys(columns, ["long", "long"], ZOrder((1, 2)))
    rows = np.argsort(np.array(found, dtype=object), kind="stable")
    spans = [np.ptp(column[rows[at : at + 64]]) for column in columns for at in range(0, 4096, 64)]
    assert np.mean(spans) < 1024 / 4
