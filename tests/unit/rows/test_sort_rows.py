"""Sort orders as options say them, the keys of rows by them, and sorting in little memory."""

import datetime as dt
import struct
import tempfile
import threading
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from icectl.errors import Unsupported, UsageError
from icectl.files.parquet.schema import arrow_schema
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from icectl.format.single_value import encode
from icectl.format.sort import SortField, SortOrder, order_from_json
from icectl.format.transforms import parse_transform
from icectl.format.types import ListType, NestedField, PrimitiveType, StructType, Type
from icectl.rows import sort_rows
from icectl.rows.curves import hilbert
from icectl.rows.sort_rows import (
    Curve,
    RowSorter,
    keyed,
    parse_sort_order,
    parse_zorder,
    quoted_name,
    sort_keys,
    sorted_batches,
    sorted_keyed,
    table_order,
    with_ranges,
)
from tests.builders.data_files import schema
from tests.builders.entry_rows import data, entries

TAGS = {"type": "map", "key-id": 4, "key": "string", "value-id": 5, "value": "long",
        "value-required": False}  # fmt: skip
COLUMNS = schema(
    (1, "number", "long"), (2, "name", "string"), (3, "tags", TAGS), (6, "key", "uuid")
)
FIELD = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-last"}
ORDER = order_from_json({"order-id": 1, "fields": [FIELD]})


def batches(count, size=100, distinct=50):
    chance = np.random.default_rng(1)
    arrow = arrow_schema(COLUMNS)
    for start in range(0, count, size):
        rows = range(start, min(start + size, count))
        numbers = chance.integers(0, distinct, len(rows)).tolist()
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([None if number == 7 else number for number in numbers], pa.int64()),
                pa.array([f"row {row}" for row in rows]),
                pa.array([[("a", row)] if row % 3 else None for row in rows], arrow.types[2]),
                pa.array([row.to_bytes(16) for row in rows], pa.uuid()),
            ],
            schema=arrow,
        )


def in_order(given, memory_bytes):
    keys = sort_keys(ORDER, COLUMNS, arrow_schema(COLUMNS))
    return [row for batch in sorted_batches(given, keys, memory_bytes) for row in batch.to_pylist()]


@pytest.mark.parametrize("memory_bytes", [2**30, 32_000, 8_000, 1])
@pytest.mark.parametrize("distinct", [1, 3, 50, 10**9])
def test_rows_come_in_order_and_equal_ones_as_they_were(memory_bytes, distinct):
    given = list(batches(800, distinct=distinct))
    rows = [row for batch in given for row in batch.to_pylist()]
    expected = sorted(rows, key=lambda row: (row["number"] is None, row["number"] or 0))
    assert in_order(given, memory_bytes) == expected


@pytest.mark.parametrize("beginning", [b"", b"ab", b"eight by", b"a beginning of many bytes"])
@pytest.mark.parametrize("lengths", [(8, 9), (4, 5), (0, 30)], ids=str)
@pytest.mark.parametrize("different", [2, 256])
def test_keys_that_begin_alike_are_in_the_order_of_their_bytes(beginning, lengths, different):
    chance = np.random.default_rng(len(beginning) + different)
    rows = (chance.integers(0, different, chance.integers(*lengths)) for _ in range(2_000))
    keys = [beginning + bytes(row.tolist()) for row in rows]
    kinds = [pa.large_binary()]
    if lengths[1] - lengths[0] == 1:
        kinds.append(pa.binary(len(keys[0])))
    for kind in kinds:
        found = sort_rows.order_of(pa.array([keys[0], *keys], kind).slice(1))
        assert found.to_pylist() == sorted(range(len(keys)), key=keys.__getitem__)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_was_on_disk_is_gone_afterwards(disk):
    keys = sort_keys(ORDER, COLUMNS, arrow_schema(COLUMNS))
    found = sorted_batches(batches(3000), keys, 40_000)
    next(found)
    (directory,) = disk.iterdir()
    assert len(list(directory.iterdir())) > 3
    found.close()
    assert list(disk.iterdir()) == []


def test_rows_that_fit_into_memory_do_not_touch_the_disk(disk):
    keys = sort_keys(ORDER, COLUMNS, arrow_schema(COLUMNS))
    assert next(sorted_batches(batches(3000), keys, 2**30)).num_rows == 3000
    assert list(disk.iterdir()) == []


def test_ranges_of_keys_stay_within_the_memory():
    limit = 100_000
    keys = sort_keys(ORDER, COLUMNS, arrow_schema(COLUMNS))
    sizes = [batch.nbytes for batch in sorted_batches(batches(20_000, distinct=10**9), keys, limit)]
    assert sum(sizes) > 9 * limit
    assert max(sizes) <= limit
    # runs that end at different keys do not make many small ranges
    assert min(sizes[:-1]) > limit / 8


def test_no_rows_are_no_batches():
    assert in_order([], 1) == []
    assert in_order(batches(0), 1) == []


@pytest.mark.parametrize("most", [2, 3])
def test_runs_become_one_where_there_are_many(disk, monkeypatch, most):
    monkeypatch.setattr(sort_rows, "_MOST_RUNS", most)
    given = list(batches(800, distinct=3))
    rows = [row for batch in given for row in batch.to_pylist()]
    expected = sorted(rows, key=lambda row: (row["number"] is None, row["number"] or 0))
    found = sorted_batches(given, sort_keys(ORDER, COLUMNS, arrow_schema(COLUMNS)), 1)
    first = next(found)
    (directory,) = disk.iterdir()
    assert 1 <= len(list(directory.iterdir())) < 3 * most
    rest = [row for batch in found for row in batch.to_pylist()]
    assert [*first.to_pylist(), *rest] == expected


def test_wide_rows_come_a_few_at_a_time():
    arrow = arrow_schema(COLUMNS)
    (narrow,) = batches(100)
    at = arrow.names.index("name")
    given = narrow.set_column(at, arrow.field(at), pa.array(["x" * 2**20] * 100))
    keys = sort_keys(ORDER, COLUMNS, arrow)
    for memory_bytes in (2**20, 2**30):
        sizes = [batch.num_rows for batch in sorted_batches([given], keys, memory_bytes)]
        assert sum(sizes) == 100
        assert max(sizes) <= 32


LONG = PrimitiveType("long")
TYPES: list[tuple[int, str, Type]] = [
    (1, "id", LONG),
    (2, "category", PrimitiveType("string")),
    (3, "at", PrimitiveType("timestamp")),
    (4, "two words", PrimitiveType("double")),
    (5, "place", StructType((NestedField(6, "x", LONG, required=False),))),
    (7, "tags", ListType(8, LONG, element_required=False)),
    (9, "desc", LONG),
    (10, "a, b", LONG),
    (11, "a`, b", LONG),
]
SCHEMA = Schema(0, tuple(NestedField(id_, name, type_, False) for id_, name, type_ in TYPES))


def key(source: int, transform: str, direction: str = "asc", nulls: str = "first") -> SortField:
    return SortField((source,), parse_transform(transform), direction, f"nulls-{nulls}")


OWN = SortOrder(3, (key(2, "identity"), key(1, "bucket[16]", "desc", "last")))
METADATA = TableMetadata(
    2, None, "/t", 9, 0, 9, (SCHEMA,), 0, (PartitionSpec(0, ()),), 0, 1001,
    (SortOrder(0, ()), OWN), 3,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("id", [key(1, "identity")]),
        (" id  DESC ", [key(1, "identity", "desc", "last")]),
        ("id desc nulls first", [key(1, "identity", "desc", "first")]),
        ("id Nulls Last", [key(1, "identity", "asc", "last")]),
        ("bucket(16, id)", [key(1, "bucket[16]")]),
        ("bucket(id, 16) desc", [key(1, "bucket[16]", "desc", "last")]),
        ("bucket[16](id)", [key(1, "bucket[16]")]),
        ("Truncate( 4 , category )", [key(2, "truncate[4]")]),
        ("days(at),hour(at)", [key(3, "day"), key(3, "hour")]),
        ("year(at), months(at)", [key(3, "year"), key(3, "month")]),
        ("`two words` desc, place.x", [key(4, "identity", "desc", "last"), key(6, "identity")]),
        ("`place`.`x`", [key(6, "identity")]),
        ("`desc` desc", [key(9, "identity", "desc", "last")]),
        ("desc", [key(9, "identity")]),
        ("`a``, b` desc, `a, b`", [key(11, "identity", "desc", "last"), key(10, "identity")]),
    ],
)
def test_an_order_is_read_key_by_key(text, fields):
    assert parse_sort_order(text, METADATA) == SortOrder(0, tuple(fields))


def test_an_order_of_the_table_is_known_again_as_a_whole():
    spelled = "category asc nulls first, bucket(16, id) desc nulls last"
    assert parse_sort_order(spelled, METADATA) is OWN
    assert parse_sort_order("category", METADATA).order_id == 0
    assert parse_sort_order(spelled + ", at", METADATA).order_id == 0
    assert table_order(METADATA) is OWN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at position 1: `` is not a sort key"),
        ("id,", "at position 4: `` is not a sort key"),
        ("id, , at", "at position 4: `, at` is not a sort key"),
        ("id descending", "at position 1: `id descending` is not a sort key"),
        ("id desc asc", "is not a sort key"),
        ("id nulls", "is not a sort key"),
        ("bucket(16 id)", "is not a sort key"),
        ("colour", "the table has no column `colour`"),
        ("ID", "the table has no column `ID`"),
        ("tags", "there is no identity of `tags`, which is list<long>"),
        ("tags.element", "`tags.element` is inside a list, and a row may have many values of it"),
        ("hour(id)", "there is no hour of `id`, which is long"),
        ("bucket(8, `two words`)", "there is no bucket[8] of"),
        ("shuffle(id)", "there is no transform `shuffle`"),
        ("void(id)", "there is no transform `void`"),
        ("bucket(id)", "there is no transform `bucket`"),
        ("bucket(0, id)", "there is no transform `bucket[0]`"),
        ("bucket[4](4, id)", "there is no transform `bucket[4][4]`"),
        ("zorder(id, at)", "is not a sort key"),
    ],
)
def test_what_is_no_order_is_wrong_usage(text, message):
    with pytest.raises(UsageError) as caught:
        parse_sort_order(text, METADATA)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse_sort_order, '"two words" desc'), (parse_sort_order, 'id, "a.b"'),
     (parse_zorder, '"two words",id')],
)  # fmt: skip
def test_double_quotes_lead_to_backticks(parse, text):
    with pytest.raises(UsageError) as caught:
        parse(text, METADATA)
    assert caught.value.hint == (
        "a name with other characters stands in backticks, not in double quotes"
    )


def test_names_that_are_nearly_right_are_proposed():
    with pytest.raises(UsageError) as caught:
        parse_sort_order("categry", METADATA)
    assert caught.value.hint == "did you mean `category`?"


@pytest.mark.parametrize("orders", [(SortOrder(0, ()),), ()])
def test_a_table_that_is_not_sorted_has_no_order(orders):
    unsorted = replace(METADATA, sort_orders=orders, default_sort_order_id=0)
    with pytest.raises(UsageError, match="the table has no sort order to sort by"):
        table_order(unsorted)


def test_a_curve_goes_through_columns():
    assert parse_zorder("id, `two words`,place.x", METADATA) == Curve((1, 4, 6))


def test_a_comma_in_a_quoted_name_ends_no_name():
    assert parse_zorder("`a, b`,id", METADATA) == Curve((10, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id", "takes two or more different columns"),
        ("id,id", "takes two or more different columns"),
        ("id,", "`` is not a column name"),
        ("id desc,at", "`id desc` is not a column name"),
        ("id,colour", "the table has no column `colour`"),
        ("id,place", "`place` is struct<6: x: optional long>, which has no order"),
        ("id,tags.element", "is inside a list"),
    ],
)
def test_what_no_curve_goes_through_is_wrong_usage(text, message):
    with pytest.raises(UsageError) as caught:
        parse_zorder(text, METADATA)
    assert message in caught.value.message


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
    place = {"type": "struct", "fields": [{"id": 2, "name": "x", "type": "int", "required": False}]}
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
        assert keys([[]], [type_], Curve((1,))) == []


@EVERY
def test_z_values_of_one_column_ascend_with_its_beginning(type_, values):
    found = keys([values], [type_], Curve((1,)))
    assert all(one <= other for one, other in pairwise(found))
    assert {len(key) for key in found} == {8}
    assert keys([[None]], [type_], Curve((1,))) == [bytes(8)]


def test_z_values_take_bits_of_columns_in_turn():
    found = keys([[-(2**63), 0, 2**63 - 1, 1]], ["long"], Curve((1,)))
    assert found == [bytes(8), b"\x80" + bytes(7), b"\xff" * 8, b"\x80" + bytes(6) + b"\x01"]
    smallest, one = -(2**63), -(2**63) + 1
    found = keys([[smallest, one, 0], [one, smallest, smallest]], ["long", "long"], Curve((1, 2)))
    assert found == [bytes(15) + b"\x01", bytes(15) + b"\x02", b"\x80" + bytes(15)]


def test_neighbours_on_the_curve_are_near_in_every_column():
    chance = np.random.default_rng(1)
    columns = [chance.integers(0, 1024, 4096) for _ in range(2)]
    found = keys(columns, ["long", "long"], Curve((1, 2)))
    rows = np.argsort(np.array(found, dtype=object), kind="stable")
    spans = [np.ptp(column[rows[at : at + 64]]) for column in columns for at in range(0, 4096, 64)]
    assert np.mean(spans) < 1024 / 4


def random_keys(chance, count):
    """Keys that have beginnings, ends and zeros in common, some of them equal."""
    beginnings = [b"", b"\x00", b"a" * 8, b"a" * 9, b"b" * 700, b"\x00" * 16, b"a" * 8 + b"\x00"]
    ends = [chance.bytes(int(length)) for length in chance.integers(0, 20, 50)]
    return [
        beginnings[one] + bytes(int(other) % 3) + ends[last]
        for one, other, last in chance.integers(0, (len(beginnings), 9, len(ends)), (count, 3))
    ]


@pytest.mark.parametrize("count", [0, 1, 2, 47, 48, 3_000])
def test_keys_are_in_the_order_of_their_bytes_and_equal_ones_stay(count):
    keys = random_keys(np.random.default_rng(count), count)
    expected = sorted(range(count), key=lambda place: keys[place])  # sorted() is stable
    column = pa.array([b"before", *keys], pa.large_binary()).slice(1)
    assert sort_rows.order_of(column).to_pylist() == expected


def test_keys_that_differ_far_behind_their_beginning_are_sorted_by_that():
    keys = [b"x" * (8 * level) + bytes([at % 7]) for level in range(80) for at in range(60)]
    expected = sorted(range(len(keys)), key=lambda place: keys[place])
    assert sort_rows.order_of(pa.array(keys, pa.large_binary())).to_pylist() == expected


def test_keys_are_sorted_without_compiled_loops_too(monkeypatch):
    monkeypatch.setattr(sort_rows, "loops", lambda: None)
    keys = random_keys(np.random.default_rng(0), 500)
    expected = sorted(range(500), key=lambda place: keys[place])
    assert sort_rows.order_of(pa.array(keys, pa.large_binary())).to_pylist() == expected


def test_several_threads_sort_as_one_does_and_equal_rows_stay_through_merges_of_runs(monkeypatch):
    monkeypatch.setattr(sort_rows, "_MOST_RUNS", 4)
    keys = sort_keys(ORDER, COLUMNS, arrow_schema(COLUMNS))
    found = [
        [row for batch in sorted_keyed(rows, 20_000, threads) for row in batch.to_pylist()]
        for threads in (1, 3)
        for rows in [keyed(batches(3_000), keys)]
    ]
    given = [row for batch in batches(3_000) for row in batch.to_pylist()]
    expected = sorted(given, key=lambda row: (row["number"] is None, row["number"] or 0))
    assert found == [expected, expected]


@pytest.mark.parametrize(("threads", "runs"), [(1, 2), (2, 3), (3, 4)])
def test_each_thread_sorts_a_part_of_the_last_rows(disk, threads, runs):
    rows = [*keyed(batches(2_000), sort_keys(ORDER, COLUMNS, arrow_schema(COLUMNS)))]
    first, last = rows[:10], rows[10:19]
    with RowSorter(sum(batch.nbytes for batch in first), threads) as sorter:
        for batch in (*first, *last):
            sorter.add(batch)
        found = sorter.batches()
        count = next(found).num_rows
        (directory,) = disk.iterdir()
        assert len(list(directory.iterdir())) == runs
        assert count + sum(batch.num_rows for batch in found) == sum(
            batch.num_rows for batch in (*first, *last)
        )


def test_a_sorter_that_is_left_early_leaves_no_thread_and_nothing_on_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    keys = sort_keys(ORDER, COLUMNS, arrow_schema(COLUMNS))
    with RowSorter(20_000, 2) as sorter:
        for rows in keyed(batches(1_000), keys):
            sorter.add(rows)
        next(sorter.batches())
    assert not list(tmp_path.iterdir())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sort")]


@pytest.mark.parametrize(("dimensions", "levels"), [(2, 4), (3, 3), (4, 2)])
def test_neighbours_on_a_hilbert_curve_are_neighbours_in_space(dimensions, levels):
    side = 1 << levels
    cells = np.indices((side,) * dimensions).reshape(dimensions, -1)
    places = hilbert([cell.astype(np.uint64) << np.uint64(64 - levels) for cell in cells])
    bits = [
        place >> np.uint64(63 - bit) & np.uint64(1) for bit in range(levels) for place in places
    ]
    order = np.lexsort(bits[::-1])
    assert len({tuple(bit[at] for bit in bits) for at in order}) == side**dimensions
    steps = np.abs(np.diff(cells[:, order], axis=1)).sum(axis=0)
    assert steps.tolist() == [1] * (side**dimensions - 1)


def curve_file(low: Any, high: Any, id_: int, type_: str, **more: Any) -> Any:
    bounds = {
        f"{end}_bounds": [(id_, encode(PrimitiveType(type_), value))]
        for end, value in (("lower", low), ("upper", high))
    }
    return data("f", **bounds, **more)


@pytest.mark.parametrize(("is_hilbert", "most"), [(False, 30), (True, 20)])
def test_columns_of_other_types_and_ranges_count_alike(is_hilbert, most):
    chance = np.random.default_rng(1)
    numbers = chance.integers(0, 1_000_000, 20_000)
    texts = [f"n{number:09}" for number in chance.integers(0, 10**9, 20_000).tolist()]
    types = {1: "long", 2: "string"}
    fields = (NestedField(id_, "c", PrimitiveType(name), False) for id_, name in types.items())
    ends = {1: (0, 1_000_000), 2: ("n000000000", "n999999999")}
    bounds = {
        f"{end}_bounds": [(id_, encode(PrimitiveType(types[id_]), ends[id_][at])) for id_ in types]
        for at, end in enumerate(("lower", "upper"))
    }
    file = entries(data("f", **bounds))
    order = with_ranges(Curve((1, 2), is_hilbert), file, Schema(0, tuple(fields)))
    places = np.argsort(np.array(keys([numbers.tolist(), texts], list(types.values()), order)))
    for column in (numbers, np.argsort(np.argsort(texts))):  # 64 files: 8 by 8 at best
        files = [column[part] for part in np.array_split(places, 64)]
        opened = [
            sum(file.min() <= value <= file.max() for file in files) for value in column[:200]
        ]
        assert sum(opened) / len(opened) < most


@pytest.mark.parametrize(
    ("type_", "bounds", "values"),
    [
        ("long", [(100, 120), (90, 103)], [90, 100, 120]),
        ("int", [(-5, 2)], [-5, 0, 2]),
        ("date", [(19_000, 19_300)], [19_000, 19_150, 19_300]),
        ("double", [(-1.5, 2.0)], [-1.5, 0.0, 2.0]),
        ("string", [("order-0001", "order-9999")], ["order-0", "order-5", "order-9999"]),
    ],
)
def test_a_curve_spreads_over_the_values_that_bounds_show(type_, bounds, values):
    schema = Schema(0, (NestedField(1, "c", PrimitiveType(type_), False),))
    rows = [curve_file(low, high, 1, type_) for low, high in bounds]
    order = with_ranges(Curve((1,)), entries(*rows), schema)
    wide, narrow = (keys([values], [type_], one) for one in (Curve((1,)), order))
    assert sorted(range(3), key=wide.__getitem__) == [0, 1, 2]
    assert sorted(range(3), key=narrow.__getitem__) == [0, 1, 2]
    first, _, last = (int.from_bytes(key) for key in narrow)
    assert (first, last > 0.99 * 2**64) == (0, True)  # of all places


def test_values_beyond_all_bounds_and_nulls_keep_their_order():
    schema = Schema(0, (NestedField(1, "c", PrimitiveType("long"), False),))
    order = with_ranges(Curve((1,)), entries(curve_file(10, 20, 1, "long")), schema)
    found = keys([[None, 5, 10, 15, 20, 99]], ["long"], order)
    assert found == sorted(found)
    unknown = with_ranges(Curve((1,)), entries(data("f")), schema)
    assert keys([[1, 2]], ["long"], unknown) == keys([[1, 2]], ["long"], Curve((1,)))


@pytest.mark.parametrize(
    "name", ["id", "a b", "1x", "back`tick", "id desc", "bucket(4, id)", "p.x y", "a b, ``c"]
)
def test_a_quoted_name_is_one_key_of_this_name(name):
    named = Schema(0, (NestedField(7, name, LONG, False),))
    fields = parse_sort_order(quoted_name(name), replace(METADATA, schemas=(named,))).fields
    assert fields == (key(7, "identity"),)
