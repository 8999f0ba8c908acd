"""Statistics of version 4 entries: their ids, from maps, promoted, summed up, and as tuples."""

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from icectl.entries.partition_key import encode_key
from icectl.entries.rows import CARRIED, RawEntries
from icectl.errors import CorruptTable
from icectl.files.parquet.schema import field_id
from icectl.format.types import DecimalType, FixedType, PrimitiveType, parse_type
from icectl.sfc1.content_stats import (
    UNKNOWN_KEY,
    StatsColumn,
    TupleField,
    aggregate,
    conform,
    from_maps,
    recover,
    stats_type,
    to_maps,
    with_tuples,
)

LONG, STRING, DOUBLE = (PrimitiveType(name) for name in ("long", "string", "double"))
DATE, UUID_TYPE = PrimitiveType("date"), PrimitiveType("uuid")
COLUMNS = (StatsColumn(1, LONG, is_required=True), StatsColumn(2, STRING), StatsColumn(3, DOUBLE))


def entries(*rows):
    """Entries of 10 records with nothing but maps."""
    names = CARRIED.names
    table = pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows], CARRIED)
    return RawEntries(table.append_column("record_count", pa.array([10] * len(rows), pa.int64())))


@pytest.mark.parametrize("kind", ["variant", "unknown"])
def test_columns_without_an_order_have_counts_alone(kind):
    (field,) = stats_type((StatsColumn(4, parse_type(kind)),))
    assert field.type.names == ["value_count", "null_count"]


def test_members_have_the_ids_of_the_paper():
    kind = stats_type(COLUMNS)
    assert {
        field.name: (field_id(field), {member.name: field_id(member) for member in field.type})
        for field in kind
    } == {
        "s1": (
            10_200,
            {"lower_bound": 10_201, "upper_bound": 10_202, "tight_bounds": 10_203,
             "value_count": 10_204},
        ),
        "s2": (
            10_400,
            {"lower_bound": 10_401, "upper_bound": 10_402, "tight_bounds": 10_403,
             "value_count": 10_404, "null_count": 10_405, "average_uncompressed_length": 10_407,
             "max_uncompressed_length": 10_408},
        ),
        "s3": (
            10_600,
            {"lower_bound": 10_601, "upper_bound": 10_602, "tight_bounds": 10_603,
             "value_count": 10_604, "null_count": 10_605, "nan_count": 10_606},
        ),
    }  # fmt: skip


def test_maps_become_members_and_what_is_missing_is_unknown():
    found = from_maps(
        entries(
            {
                "value_counts": [(1, 10), (3, 10)],
                "null_value_counts": [(3, 1)],
                "nan_value_counts": [(3, 2)],
                "lower_bounds": [(1, struct.pack("<q", -5)), (2, b"ab")],
                "upper_bounds": [(1, struct.pack("<q", 7)), (2, b"cd")],
            },
            {},
        ),
        COLUMNS,
    ).to_pylist()
    assert found == [
        {
            "s1": {"lower_bound": -5, "upper_bound": 7, "tight_bounds": None, "value_count": 10},
            "s2": {
                "lower_bound": "ab", "upper_bound": "cd", "tight_bounds": None,
                "value_count": None, "null_count": None, "average_uncompressed_length": None,
                "max_uncompressed_length": None,
            },
            "s3": {
                "lower_bound": None, "upper_bound": None, "tight_bounds": None, "value_count": 10,
                "null_count": 1, "nan_count": 2,
            },
        },
        {"s1": None, "s2": None, "s3": None},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "stored", "value"),
    [
        (PrimitiveType("long"), struct.pack("<i", -2), -2),
        (PrimitiveType("double"), struct.pack("<f", 0.5), 0.5),
        (PrimitiveType("boolean"), b"\x01", True),
        (PrimitiveType("int"), struct.pack("<i", 3), 3),
        (DATE, struct.pack("<i", 31), date(1970, 2, 1)),
        (
            PrimitiveType("timestamptz"),
            struct.pack("<q", 1_000_000),
            datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        ),
        (PrimitiveType("binary"), b"\xff", b"\xff"),
        (FixedType(2), b"xy", b"xy"),
        (UUID_TYPE, UUID(int=5).bytes, UUID(int=5)),
        (DecimalType(9, 2), b"\x01\x00", Decimal("2.56")),
        (PrimitiveType("int"), b"\x01", None),
        (STRING, b"\xff", None),
        (PrimitiveType("float"), struct.pack("<f", float("nan")), None),
    ],
)
def test_r096_bounds_decode_by_type_and_width_or_are_unknown(type_, stored, value):
    found = from_maps(entries({"lower_bounds": [(4, stored)]}, {}), [StatsColumn(4, type_)])
    assert found.field(0).field(0).to_pylist() == [value, None]


def test_statistics_follow_the_columns_of_the_table():
    narrow = StatsColumn(1, PrimitiveType("int"))
    old = from_maps(
        entries({"value_counts": [(1, 4)], "upper_bounds": [(1, struct.pack("<i", 9))]}),
        [narrow, StatsColumn(5, STRING)],
    )
    new = conform(old, [StatsColumn(1, LONG), StatsColumn(6, DOUBLE)], 1)
    assert new.type == stats_type([StatsColumn(1, LONG), StatsColumn(6, DOUBLE)])
    assert new.to_pylist() == [
        {
            "s1": {
                "lower_bound": None, "upper_bound": 9, "tight_bounds": None, "value_count": 4,
                "null_count": None,
            },
            "s6": None,
        }
    ]  # fmt: skip


def stats(column, *rows):
    """Statistics of one column."""
    kind = stats_type([column])
    return pa.array([{f"s{column.id}": row} for row in rows], kind)


def test_leaves_sum_up_their_files():
    column = StatsColumn(3, DOUBLE)
    one = {
        "lower_bound": 0.0, "upper_bound": 2.0, "tight_bounds": True,
        "value_count": 10, "null_count": 1, "nan_count": 0,
    }  # fmt: skip
    two = one | {"lower_bound": -0.0, "upper_bound": 5.0, "value_count": 4, "nan_count": 2}
    total = aggregate(stats(column, one, two), [column], pa.array([10, 4])).to_pylist()
    assert total == [
        {
            "s3": {
                "lower_bound": 0.0, "upper_bound": 5.0, "tight_bounds": True,
                "value_count": 14, "null_count": 2, "nan_count": 2,
            }
        }
    ]  # fmt: skip
    assert str(total[0]["s3"]["lower_bound"]) == "-0.0"


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({"value_count": 3, "null_count": 3, "nan_count": 0}, (1.0, 2.0, 13)),
        ({"value_count": 3, "null_count": 1, "nan_count": 2}, (1.0, 2.0, 13)),
        ({"value_count": 3, "null_count": 1, "nan_count": 0}, (None, None, 13)),
        ({"lower_bound": 0.5, "upper_bound": 9.0, "value_count": 1, "null_count": 1,
          "nan_count": 0}, (0.5, 9.0, 11)),
        ({"lower_bound": 0.5, "upper_bound": 9.0}, (0.5, 9.0, None)),
        (None, (None, None, None)),
    ],
    ids=["only nulls", "nulls and NaN", "bounds lack", "nulls are no values", "counts lack",
         "nothing known"],
)  # fmt: skip
def test_what_one_file_lacks_the_leaf_lacks(second, expected):
    column = StatsColumn(3, DOUBLE)
    first = {
        "lower_bound": 1.0, "upper_bound": 2.0, "tight_bounds": True,
        "value_count": 10, "null_count": 0, "nan_count": 0,
    }  # fmt: skip
    (total,) = aggregate(stats(column, first, second), [column], pa.array([10, 3])).to_pylist()
    found = total["s3"] or {}
    assert (
        found.get("lower_bound"),
        found.get("upper_bound"),
        found.get("value_count"),
    ) == expected


def test_a_file_without_rows_says_nothing_of_bounds():
    column = StatsColumn(3, DOUBLE)
    first = {"lower_bound": 1.0, "upper_bound": 2.0, "value_count": 10}
    (total,) = aggregate(stats(column, first, None), [column], pa.array([10, 0])).to_pylist()
    assert (total["s3"]["lower_bound"], total["s3"]["upper_bound"]) == (1.0, 2.0)
    assert total["s3"]["tight_bounds"] is False


def test_lengths_are_weighed_by_the_values_that_there_are():
    column = StatsColumn(2, STRING)
    rows = [
        {"value_count": 10, "null_count": 8, "average_uncompressed_length": 5,
         "max_uncompressed_length": 6},
        {"value_count": 6, "null_count": 0, "average_uncompressed_length": 10,
         "max_uncompressed_length": 20},
    ]  # fmt: skip
    (total,) = aggregate(stats(column, *rows), [column], pa.array([10, 6])).to_pylist()
    assert total["s2"]["average_uncompressed_length"] == (2 * 5 + 6 * 10) // 8
    assert total["s2"]["max_uncompressed_length"] == 20


TYPES = (DATE, STRING, DOUBLE)
FIELDS = (TupleField(0, 12, DATE), TupleField(1, 2, STRING), TupleField(2, 3, DOUBLE))
TUPLE_COLUMNS = (*COLUMNS[1:], StatsColumn(12, DATE, is_expression=True))


@pytest.mark.parametrize(
    "values", [(20_000, "b" * 40, 1.5), (None, None, None), (0, "", float("nan")), (-1, "ü", -0.0)]
)
def test_v4_142_tuples_come_back_from_statistics(values):
    empty = conform(None, TUPLE_COLUMNS, 1)
    keys = pa.array([encode_key(TYPES, values)], pa.binary())
    written = with_tuples(empty, keys, pa.array([7]), FIELDS, TYPES)
    assert recover(written, 1, FIELDS, 3).to_pylist() == keys.to_pylist()
    day = written.to_pylist()[0]["s12"]
    assert (day["value_count"], day["null_count"]) == (7, 7 if values[0] is None else 0)


@pytest.mark.parametrize(
    "group",
    [
        None,
        {"value_count": 5, "null_count": 4},
        {"lower_bound": "a", "upper_bound": "b"},
        {"upper_bound": "b"},
        {"lower_bound": "a", "upper_bound": "a", "tight_bounds": False},
    ],
)
def test_v4_142_a_range_is_no_value(group):
    found = recover(stats(COLUMNS[1], group), 1, [TupleField(0, 2, STRING)], 1)
    assert found.to_pylist() == [UNKNOWN_KEY]


@pytest.mark.parametrize(
    ("group", "value"),
    [
        ({"lower_bound": "a"}, "a"),
        ({"lower_bound": "a", "upper_bound": "a"}, "a"),
        ({"value_count": 5, "null_count": 5}, None),
        ({"value_count": 5}, None),
    ],
)
def test_v4_142_what_readers_take_for_a_value(group, value):
    found = recover(stats(COLUMNS[1], group), 1, [TupleField(0, 2, STRING)], 1)
    assert found.to_pylist() == [encode_key([STRING], [value])]


@pytest.mark.parametrize(
    ("type_", "bound", "length"),
    [
        (PrimitiveType("long"), struct.pack("<q", 7), None),
        (DATE, struct.pack("<i", 7), None),
        (PrimitiveType("boolean"), b"\0", None),
        (DecimalType(9, 2), b"\x01\x00", None),
        (UUID_TYPE, UUID(int=5).bytes, None),
        (FixedType(2), b"xy", None),
        (DOUBLE, struct.pack("<d", 1.5), None),
        (STRING, "zwölf".encode(), 6),
        (PrimitiveType("binary"), b"\xff\0", 2),
    ],
    ids=str,
)
def test_of_files_with_one_value_bounds_are_tight_and_lengths_known(type_, bound, length):
    def known(**maps):
        maps = {"lower_bounds": bound, "upper_bounds": bound, "null_value_counts": 9, **maps}
        pairs = {name: [(4, value)] for name, value in maps.items() if value is not None}
        (found,) = from_maps(entries(pairs), [StatsColumn(4, type_)]).to_pylist()
        group = found["s4"]
        return (
            group["tight_bounds"],
            group.get("average_uncompressed_length"),
            group.get("max_uncompressed_length"),
        )

    counted = {"nan_value_counts": 0} if type_ == DOUBLE else {}
    assert known(**counted) == (True, length, length)
    for unproved in (
        {**counted, "null_value_counts": None},  # there may be no value
        {**counted, "null_value_counts": 10},
        {**counted, "upper_bounds": None},
        {"nan_value_counts": None if type_ == DOUBLE else 0, "null_value_counts": 11},
        {**counted, "nan_value_counts": 1} if type_ == DOUBLE else {"lower_bounds": None},
    ):
        assert known(**unproved) == (None, None, None)


def test_zeros_and_texts_that_are_cut_are_not_known_to_be_one_value():
    def tight(type_, lower, upper):
        maps = {"lower_bounds": [(4, lower)], "upper_bounds": [(4, upper)]}
        maps |= {"null_value_counts": [(4, 0)], "nan_value_counts": [(4, 0)]}
        (found,) = from_maps(entries(maps), [StatsColumn(4, type_)]).to_pylist()
        return found["s4"]["tight_bounds"]

    zero, minus_zero = struct.pack("<d", 0.0), struct.pack("<d", -0.0)
    for lower, upper in ((zero, zero), (minus_zero, zero), (minus_zero, minus_zero)):
        assert tight(DOUBLE, lower, upper) is None
    assert tight(STRING, b"abcdefghijklmnop", b"abcdefghijklmnoq") is None


def test_lengths_of_partition_values_are_known():
    written = with_tuples(
        conform(None, TUPLE_COLUMNS, 2),
        pa.array([encode_key(TYPES, (1, one, 1.5)) for one in ("ü" * 40, None)], pa.binary()),
        pa.array([7, 7]),
        FIELDS,
        TYPES,
    )
    names = ("average_uncompressed_length", "max_uncompressed_length")
    found = [[row["s2"][name] for name in names] for row in written.to_pylist()]
    assert found == [[80, 80], [None, None]]
    (total,) = aggregate(written, TUPLE_COLUMNS, pa.array([7, 7])).to_pylist()
    assert [total["s2"][name] for name in names] == [80, 80]


def test_zeros_of_two_signs_are_a_range():
    group = {"lower_bound": -0.0, "upper_bound": 0.0}
    found = recover(stats(COLUMNS[2], group), 1, [TupleField(0, 3, DOUBLE)], 1)
    assert found.to_pylist() == [UNKNOWN_KEY]


def test_void_fields_are_null_and_unpartitioned_tuples_empty():
    found = recover(stats(COLUMNS[1], {"lower_bound": "a"}), 1, [TupleField(1, 2, STRING)], 2)
    assert found.to_pylist() == [encode_key([DATE, STRING], [None, "a"])]
    assert recover(None, 2, (), 0).to_pylist() == [b"", b""]


def test_statistics_become_maps_again():
    columns = (
        *COLUMNS, StatsColumn(4, DATE), StatsColumn(5, UUID_TYPE),
        StatsColumn(6, DecimalType(9, 2)), StatsColumn(7, PrimitiveType("boolean")),
        StatsColumn(8, FixedType(2)), StatsColumn(9, PrimitiveType("int")),
    )  # fmt: skip
    bounds = [
        (1, struct.pack("<q", -5)), (2, "ü".encode()), (3, struct.pack("<d", -0.5)),
        (4, struct.pack("<i", -1)), (5, UUID(int=7).bytes), (6, b"\xff\x38"), (7, b"\x01"),
        (8, b"ab"), (9, struct.pack("<i", 300)),
    ]  # fmt: skip
    rows = [
        {"lower_bounds": bounds, "value_counts": [(1, 4), (9, 5)]},
        {},
        {"lower_bounds": bounds[3:5], "null_value_counts": [(2, 0)], "nan_value_counts": [(3, 1)]},
    ]
    names = frozenset({"lower_bounds", "upper_bounds", "value_counts", "null_value_counts"})
    made = to_maps(from_maps(entries(*rows), columns), columns, names)
    assert made.keys() == names
    assert made["lower_bounds"].to_pylist() == [bounds, None, bounds[3:5]]
    assert made["value_counts"].to_pylist() == [[(1, 4), (9, 5)], None, None]
    assert made["null_value_counts"].to_pylist() == [None, None, [(2, 0)]]
    assert made["upper_bounds"].to_pylist() == [None, None, None]
    assert made["lower_bounds"].type == CARRIED.field("lower_bounds").type


def test_v4_140_statistics_of_a_column_that_are_no_struct_are_refused():
    group = stats_type(COLUMNS)[1].with_type(pa.int64())
    stored = pa.StructArray.from_arrays([pa.array([7], pa.int64())], fields=[group])
    with pytest.raises(CorruptTable, match="as int64, not a struct") as caught:
        conform(stored, COLUMNS, 1)
    assert caught.value.rule == "V4-140"
