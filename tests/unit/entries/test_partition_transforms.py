"""Transforms over columns: the format's own examples, and what is not taken."""

import datetime as dt
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

from icectl.entries.columns import integers
from icectl.entries.partition_key import encode_keys
from icectl.entries.partition_transforms import partition_keys, transform_column
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.transforms import parse_transform
from icectl.format.types import parse_type

MOMENT = dt.datetime(2017, 11, 16, 22, 31, 8)  # noqa: DTZ001 - as stored
UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


def transformed(text, type_, column):
    return transform_column(parse_transform(text), parse_type(type_), column)


@pytest.mark.parametrize(
    ("type_", "column", "hashed"),
    [
        ("int", pa.array([34], pa.int32()), 2017239379),
        ("long", pa.array([34]), 2017239379),
        ("decimal(9, 2)", pa.array([Decimal("14.20")]), -500754589),
        ("date", pa.array([dt.date(2017, 11, 16)]), -653330422),
        ("time", pa.array([dt.time(22, 31, 8)]), -662762989),
        ("timestamp", pa.array([MOMENT], pa.timestamp("us")), -2047944441),
        ("timestamptz", pa.array([MOMENT], pa.timestamp("us", "UTC")), -2047944441),
        ("timestamp_ns", pa.array([MOMENT], pa.timestamp("ns")), -2047944441),
        ("timestamp", pa.array([MOMENT + dt.timedelta(microseconds=1)]), -1207196810),
        ("string", pa.array(["iceberg"]), 1210000089),
        ("uuid", pa.array([UUID.bytes], pa.uuid()), 1488055340),
        ("uuid", pa.array([UUID.bytes], pa.binary(16)), 1488055340),
        ("fixed[4]", pa.array([b"\0\1\2\3"], pa.binary(4)), -188683207),
        ("binary", pa.array([b"\0\1\2\3"]), -188683207),
        ("binary", pa.array([b"\0\1\2\3"], pa.large_binary()), -188683207),
    ],
)
def test_r076_the_format_s_hashes_are_those_of_columns(type_, column, hashed):
    assert transformed(f"bucket[{2**31}]", type_, column).to_pylist() == [hashed & 0x7FFFFFFF]


@pytest.mark.parametrize(
    ("text", "type_", "column", "result"),
    [
        ("truncate[10]", "int", pa.array([1, -1, None], pa.int32()), [0, -10, None]),
        ("truncate[50]", "decimal(9, 2)", pa.array([Decimal("10.65")]), [Decimal("10.50")]),
        ("truncate[3]", "string", pa.array(["iceberg", "ü😀ab", None]), ["ice", "ü😀a", None]),
        ("truncate[3]", "string", pa.array(["iceberg"]).dictionary_encode(), ["ice"]),
        ("truncate[2]", "binary", pa.array([b"abc", b"a", None]), [b"ab", b"a", None]),
        ("year", "date", pa.array([dt.date(1969, 12, 31), None]), [-1, None]),
        ("month", "date", pa.array([dt.date(2017, 12, 1)]), [575]),
        ("hour", "timestamp", pa.array([-1, 0], pa.timestamp("us")), [-1, 0]),
        ("void", "string", pa.array(["a"]), [None]),
        ("identity", "string", pa.array(["a", None]), ["a", None]),
    ],
)
def test_r072_and_r074_examples_of_the_format(text, type_, column, result):
    assert transformed(text, type_, column).to_pylist() == result


def test_r071_results_have_the_arrow_type_of_their_type():
    column = pa.array([0], pa.timestamp("us", "UTC"))
    kinds = {"year": pa.int32(), "month": pa.int32(), "day": pa.date32(), "hour": pa.int32()}
    assert {text: transformed(text, "timestamptz", column).type for text in kinds} == kinds
    assert transformed("bucket[4]", "timestamptz", column).type == pa.int32()


def test_columns_narrower_than_their_promoted_type_are_taken():
    day = pa.array([dt.date(1970, 1, 2), None])
    assert transformed("hour", "timestamp", day).to_pylist() == [24, None]
    assert transformed("bucket[100]", "long", pa.array([34], pa.int8())).to_pylist() == [79]
    decimal = pa.array([Decimal("14.20")], pa.decimal128(4, 2))
    assert transformed("truncate[50]", "decimal(38, 2)", decimal).to_pylist() == [Decimal("14.00")]


def test_instants_stay_the_same_whatever_zone_a_file_names():
    column = pa.array([0, 3_600_000_000], pa.timestamp("us", "Asia/Tokyo"))
    assert transformed("hour", "timestamptz", column).to_pylist() == [0, 1]
    assert integers("timestamp", column).tolist() == [0, 3_600_000_000]


@pytest.mark.parametrize(
    ("text", "type_", "column"),
    [
        ("zigzag", "int", pa.array([1])),
        ("bucket[2]", "double", pa.array([1.0])),
        ("truncate[2]", "uuid", pa.array([UUID.bytes], pa.uuid())),
        ("hour", "date", pa.array([dt.date(1970, 1, 1)])),
        ("day", "string", pa.array(["1970-01-01"])),
        ("year", "time", pa.array([dt.time(1)])),
        ("day", "timestamp", pa.array([[1]])),
        ("truncate[4]", "decimal(9, 2)", pa.array([[1]])),
    ],
)
def test_what_a_transform_does_not_take_is_a_value_error(text, type_, column):
    with pytest.raises(ValueError, match=r"does not take|is not one of"):
        transformed(text, type_, column)


@pytest.mark.parametrize(
    ("text", "type_", "column"),
    [
        ("hour", "timestamp", pa.array([2**63 - 1], pa.timestamp("us"))),
        ("truncate[10]", "int", pa.array([-(2**31)], pa.int32())),
        ("truncate[10]", "long", pa.array([-(2**63)])),
        (f"truncate[{2**70}]", "long", pa.array([-1])),
        ("truncate[10]", "decimal(2, 1)", pa.array([Decimal("-9.9")])),
        ("truncate[10]", "decimal(38, 0)", pa.array([Decimal(-(10**38) + 1)])),
    ],
)
def test_results_outside_of_their_type_are_value_errors(text, type_, column):
    with pytest.raises(ValueError, match=r"."):
        transformed(text, type_, column)


@pytest.mark.parametrize("precision", [2, 28, 38])
def test_r074_a_truncation_that_has_more_digits_than_its_type_is_told_so(precision):
    column = pa.array([Decimal(1 - 10**precision)])
    with pytest.raises(ValueError, match=rf"not a valid decimal\({precision}, 0\)"):
        transformed("truncate[10]", f"decimal({precision}, 0)", column)


def test_widths_beyond_64_bits_still_truncate():
    assert transformed(f"truncate[{2**70}]", "long", pa.array([7, None])).to_pylist() == [0, None]
    assert transformed(f"truncate[{2**70}]", "string", pa.array(["abc"])).to_pylist() == ["abc"]
    assert transformed(f"truncate[{2**70}]", "string", pa.array([], pa.string())).to_pylist() == []


def test_a_partition_key_takes_the_source_column_of_each_field():
    texts = ["identity", "truncate[2]", "void"]
    fields = [
        PartitionField((at,), 1000 + at, text, parse_transform(text))
        for at, text in enumerate(texts)
    ]
    types = [parse_type(name) for name in ("boolean", "string", "double")]
    columns = [pa.array([True, None]), pa.array(["abc", "d"]), pa.array([1.5, 2.5])]
    keys = partition_keys(PartitionSpec(0, tuple(fields)), types, columns)
    assert keys.to_pylist() == [
        b"\1\1\0\0\0\1" + b"\1\2\0\0\0ab" + b"\0",
        b"\0" + b"\1\1\0\0\0d" + b"\0",
    ]


def test_r083_there_is_one_nan_and_there_are_two_zeros():
    other_nan = pa.array([0x7FC00001, 0], pa.int32()).view(pa.float32())[0:1]
    nan = pa.array([float("nan"), -0.0, 0.0], pa.float32())
    keys = encode_keys([parse_type("float")], [pa.concat_arrays([other_nan, nan])]).to_pylist()
    assert keys[0] == keys[1] == b"\1\x08\0\0\0\0\0\0\0\0\0\xf8\x7f"
    assert keys[2] == b"\1\x08\0\0\0\0\0\0\0\0\0\0\x80"
    assert keys[3] == b"\1\x08\0\0\0\0\0\0\0\0\0\0\0"


def test_keys_of_no_rows_are_none():
    empty = [pa.array([], kind) for kind in (pa.string(), pa.int64(), pa.decimal128(9, 2))]
    types = [parse_type(name) for name in ("string", "long", "decimal(9, 2)")]
    assert encode_keys(types, empty).to_pylist() == []
