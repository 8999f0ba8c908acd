import datetime as dt
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from icectl.format.transforms import parse_transform
from icectl.format.types import DecimalType, PrimitiveType
from icectl.rows.columns import (
    ColumnFacts,
    as_values,
    differing,
    inside,
    not_earlier,
    path_to,
    with_lost_seconds,
)


def field(name, kind, number):
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


SCHEMA = pa.schema(
    [
        field("id", pa.int64(), 1),
        field("place", pa.struct([field("x", pa.float64(), 3), field("y", pa.float64(), 4)]), 2),
        field("tags", pa.list_(field("element", pa.string(), 6)), 5),
    ]
)


@pytest.mark.parametrize(
    ("wanted", "path"), [(1, (0,)), (4, (1, 1)), (2, (1,)), (6, None), (9, None)]
)
def test_a_column_is_found_through_structs_but_not_inside_of_lists(wanted, path):
    assert path_to(SCHEMA, wanted) == path


def test_a_column_inside_of_a_struct_is_null_where_the_struct_is():
    column = pa.array([{"x": 1.0, "y": 2.0}, None, {"x": None, "y": 3.0}], SCHEMA.field(1).type)
    assert inside(column, (0,)).to_pylist() == [1.0, None, None]
    assert inside(column, ()) is column


@pytest.mark.parametrize(
    ("kind", "column", "values"),
    [
        ("date", pa.array([dt.date(1970, 1, 2)]), [1]),
        ("timestamp", pa.array([dt.date(1970, 1, 2)], pa.date32()), [86_400_000_000]),
        ("timestamp", pa.array([5], pa.timestamp("ms")), [5000]),
        ("timestamptz", pa.array([7], pa.timestamp("us")), [7]),
        ("timestamptz", pa.array([7], pa.timestamp("us", "Asia/Tokyo")), [7]),
        ("timestamp_ns", pa.array([7], pa.timestamp("us")), [7000]),
        ("time", pa.array([9], pa.time64("us")), [9]),
        ("string", pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        ("uuid", pa.array([bytes(16)], pa.uuid()), [bytes(16)]),
    ],
)
def test_values_are_those_of_single_values(kind, column, values):
    assert as_values(column, PrimitiveType(kind)).to_pylist() == values


def test_what_is_measured_adds_up_over_batches():
    measured = ColumnFacts()
    measured.add(pa.array([3.0, None, float("nan")]), PrimitiveType("double"))
    measured.add(pa.array([-1.0, float("nan")]), PrimitiveType("double"))
    measured.add(pa.array([None], pa.float64()), PrimitiveType("double"))
    assert measured == ColumnFacts(6, 2, 2, -1.0, 3.0)


def test_uuids_are_measured_as_uuids():
    measured = ColumnFacts()
    measured.add(pa.array([bytes([9] * 16), bytes([1] * 16)], pa.binary(16)), PrimitiveType("uuid"))
    assert (measured.lower, measured.upper) == (
        UUID(bytes=bytes([1] * 16)),
        UUID(bytes=bytes([9] * 16)),
    )


LONG, STRING, DATE = PrimitiveType("long"), PrimitiveType("string"), PrimitiveType("date")
STAMP, UUID_ = PrimitiveType("timestamp"), PrimitiveType("uuid")


@pytest.mark.parametrize(
    ("kind", "transform", "stored", "expected"),
    [
        # The hashes are those of the specification's appendix B.
        (LONG, "bucket[1000]", pa.array([34, 34]), 2_017_239_379 % 1000),
        (DATE, "bucket[1000]", pa.array([17_486], pa.int32()), (-653_330_422 & 0x7FFFFFFF) % 1000),
        (
            STAMP,
            "bucket[1000]",
            pa.array([1_510_871_468_000_000]),
            (-2_047_944_441 & 0x7FFFFFFF) % 1000,
        ),
        (STRING, "bucket[1000]", pa.array(["iceberg"]), 1_210_000_089 % 1000),
        (
            UUID_,
            "bucket[1000]",
            pa.array([UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes], pa.binary(16)),
            1_488_055_340 % 1000,
        ),
        (
            DecimalType(4, 2),
            "bucket[1000]",
            pa.array([Decimal("14.20")]),
            (-500_754_589 & 0x7FFFFFFF) % 1000,
        ),
        (LONG, "truncate[10]", pa.array([-1, -9, -10]), -10),
        (STRING, "truncate[3]", pa.array(["iceberg", "ice"]), "ice"),
        (DecimalType(4, 2), "truncate[50]", pa.array([Decimal("10.65")]), Decimal("10.50")),
        (STAMP, "hour", pa.array([-1]), -1),
        (STAMP, "day", pa.array([-1, -86_400_000_000]), -1),
        (DATE, "month", pa.array([17_501], pa.int32()), 575),
        (DATE, "year", pa.array([17_501], pa.int32()), 47),
        (LONG, "void", pa.array([1, 2]), None),
        (PrimitiveType("double"), "identity", pa.array([float("nan")]), float("nan")),
        (LONG, "identity", pa.array([None, None], pa.int64()), None),
    ],
)
def test_partition_values_are_recomputed(kind, transform, stored, expected):
    assert differing(stored, kind, parse_transform(transform), expected) is None
    wrong = differing(stored, kind, parse_transform(transform), "another")
    assert wrong is not None
    assert wrong[0] == expected or expected != expected  # NaN


def test_a_null_among_values_differs_from_their_partition():
    assert differing(pa.array([1, None]), LONG, parse_transform("identity"), 1) == (None,)


def test_a_transform_that_does_not_take_the_type_is_an_error():
    with pytest.raises(ValueError, match="hour"):
        differing(pa.array([1]), LONG, parse_transform("hour"), 1)


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize(("unit", "scale"), [("us", 1), ("ns", 1000)])
def test_what_orc_shows_a_second_too_late_is_what_the_partition_says(unit, scale, zone):
    kind = pa.timestamp(unit, zone)
    shown = pa.array([999_999 * scale, 999_998 * scale, None, 0], pa.int64()).cast(kind)
    column = field("at", kind, 7)
    found = with_lost_seconds(shown, column, {7: -scale})
    assert found.type == kind
    assert found.cast(pa.int64()).to_pylist() == [-scale, 999_998 * scale, None, 0]
    for told in ({}, {7: None}, {7: 5}, {7: -(10**6) * scale}, {8: -scale}):
        assert with_lost_seconds(shown, column, told).equals(shown)
    around = pa.StructArray.from_arrays(
        [shown], fields=[column], mask=pa.array([False] * 3 + [True])
    )
    whole = with_lost_seconds(around, field("s", around.type, 6), {7: -scale})
    assert whole.type == around.type
    assert inside(whole, (0,)).cast(pa.int64()).to_pylist() == [
        -scale, 999_998 * scale, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("transform", "expected", "left"),
    [
        ("identity", -1, [-5, None, 5]), ("year", -1, [-5, None, 5]), ("hour", -1, [-5, None, 5]),
        ("hour", 7, [-5, None, 5, 999_999]), ("bucket[4]", 0, [-5, None, 5]),
        ("year", None, [-5, None, 5, 999_999]),
    ],
)  # fmt: skip
def test_values_that_orc_shows_a_second_too_late_give_the_result_of_the_second_before(
    transform, expected, left
):
    values = pa.array([-5, 999_999, None, 5])
    told = (PrimitiveType("timestamp"), parse_transform(transform), expected)
    assert sorted(not_earlier(values, *told).to_pylist(), key=str) == sorted(left, key=str)
    assert not_earlier(values, PrimitiveType("date"), parse_transform("year"), -1) is values
