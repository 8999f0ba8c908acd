"""Transforms of one value, the bucket hash, and values as paths show them."""

import math
import uuid
from decimal import Decimal
from typing import Any

import pytest

from icectl.format.transforms import (
    Transform,
    accepts,
    apply,
    bucket_hash,
    parse_transform,
    path_text,
    result_type,
)
from icectl.format.types import ListType, PrimitiveType, parse_type

INT = PrimitiveType("int")
MOMENT_MICROS = 1_510_871_468_000_000
"""2017-11-16T22:31:08 UTC."""
UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("identity", Transform("identity", "identity")),
        ("void", Transform("void", "void")),
        ("bucket[1]", Transform("bucket", "bucket[1]", 1)),
        ("bucket[16]", Transform("bucket", "bucket[16]", 16)),
        ("truncate[3]", Transform("truncate", "truncate[3]", 3)),
        ("Day", Transform("day", "Day")),
        ("BUCKET[4]", Transform("bucket", "BUCKET[4]", 4)),
    ],
)
def test_a_transform_is_known_by_its_name(text, expected):
    assert parse_transform(text) == expected


@pytest.mark.parametrize(
    "text", ["zorder", "bucket", "bucket[0]", "bucket[a]", "days", "day[1]", ""]
)
def test_r007_an_unknown_transform_is_carried(text):
    transform = parse_transform(text)
    assert transform == Transform("unknown", text)
    assert result_type(transform, INT) is None
    assert apply(transform, INT, None) is None
    with pytest.raises(ValueError, match="does not take int"):
        apply(transform, INT, 1)


@pytest.mark.parametrize(
    ("text", "source", "result"),
    [
        ("identity", "string", "string"), ("bucket[16]", "string", "int"),
        ("truncate[4]", "decimal(9,2)", "decimal(9,2)"), ("year", "date", "int"),
        ("month", "timestamp", "int"), ("day", "timestamptz", "date"),
        ("hour", "timestamp_ns", "int"), ("void", "uuid", "uuid"),
    ],
)  # fmt: skip
def test_r071_the_result_has_the_type_of_the_format(text, source, result):
    assert result_type(parse_transform(text), parse_type(source)) == parse_type(result)


def test_r200_days_are_dates():
    assert result_type(parse_transform("day"), PrimitiveType("date")) == PrimitiveType("date")


def test_r208_truncate_takes_binary_but_not_fixed():
    transform = parse_transform("truncate[2]")
    assert apply(transform, PrimitiveType("binary"), b"abc") == b"ab"
    with pytest.raises(ValueError, match=r"truncate does not take fixed\[3\]"):
        apply(transform, parse_type("fixed[3]"), b"abc")


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("int", 34, 2017239379),
        ("long", 34, 2017239379),
        ("decimal(9,2)", Decimal("14.20"), -500754589),
        ("date", 17486, -653330422),
        ("time", 81_068_000_000, -662762989),
        ("timestamp", MOMENT_MICROS, -2047944441),
        ("timestamptz", MOMENT_MICROS, -2047944441),
        ("timestamp", MOMENT_MICROS + 1, -1207196810),
        ("timestamp_ns", MOMENT_MICROS * 1000, -2047944441),
        ("timestamp_ns", MOMENT_MICROS * 1000 + 999, -2047944441),
        ("timestamptz_ns", MOMENT_MICROS * 1000 + 1000, -1207196810),
        ("string", "iceberg", 1210000089),
        ("uuid", UUID, 1488055340),
        ("fixed[4]", bytes(range(4)), -188683207),
        ("binary", bytes(range(4)), -188683207),
        ("boolean", True, 1392991556),
        ("float", 1.0, -142385009),
        ("double", 1.0, -142385009),
        ("float", 0.0, 1669671676),
        ("double", -0.0, 1669671676),
    ],
)
def test_r076_hashes_are_those_of_the_format(type_, value, expected):
    assert bucket_hash(parse_type(type_), value) == expected


def test_r201_the_hash_of_bytes_is_negative():
    assert bucket_hash(PrimitiveType("binary"), bytes(range(4))) == -188683207


def test_r075_every_nan_hashes_as_the_canonical_one():
    # Java: doubleToLongBits(NaN) is 0x7ff8000000000000, and hashes as a long of these bits.
    canonical = bucket_hash(PrimitiveType("long"), 0x7FF8000000000000)
    assert bucket_hash(PrimitiveType("double"), math.nan) == canonical
    assert bucket_hash(PrimitiveType("float"), -math.nan) == canonical


def test_r202_zeros_of_both_signs_hash_alike():
    double = PrimitiveType("double")
    assert bucket_hash(double, -0.0) == bucket_hash(double, 0.0) == 1669671676


def test_r075_before_the_epoch_nanoseconds_are_rounded_down_to_microseconds():
    micros = bucket_hash(PrimitiveType("timestamp"), -1)
    assert bucket_hash(PrimitiveType("timestamp_ns"), -1) == micros


@pytest.mark.parametrize("type_", [PrimitiveType("variant"), ListType(1, INT, True)])
def test_types_without_a_hash_are_refused(type_):
    with pytest.raises(ValueError, match="has no bucket hash"):
        bucket_hash(type_, b"")


@pytest.mark.parametrize(
    ("type_", "value", "bucket"),
    [
        ("int", 34, 3),  # 2017239379 mod 16
        ("decimal(9,2)", Decimal("14.20"), 3),  # 1646729059 mod 16
        ("date", 17486, 10),  # 1494153226 mod 16
        ("string", "iceberg", 9),  # 1210000089 mod 16
    ],
)
def test_r073_a_bucket_is_the_positive_hash_modulo_n(type_, value, bucket):
    assert apply(parse_transform("bucket[16]"), parse_type(type_), value) == bucket


@pytest.mark.parametrize("type_", ["variant", "geometry(srid:0)", "geography"])
def test_r208_variants_and_shapes_have_no_transform_but_void(type_):
    texts = ["identity", "bucket[4]", "truncate[4]", "year", "month", "day", "hour", "void"]
    assert [text for text in texts if accepts(parse_transform(text), parse_type(type_))] == ["void"]


@pytest.mark.parametrize("type_", ["boolean", "float", "double", "variant"])
def test_r076_some_types_have_no_buckets(type_):
    with pytest.raises(ValueError, match=r"bucket\[16\] does not take|has no bucket hash"):
        apply(parse_transform("bucket[16]"), parse_type(type_), 1)


@pytest.mark.parametrize(
    ("width", "type_", "value", "expected"),
    [
        (10, "int", 1, 0),
        (10, "int", -1, -10),
        (10, "int", 0, 0),
        (10, "long", -10, -10),
        (10, "long", -11, -20),
        (50, "decimal(9,2)", Decimal("10.65"), Decimal("10.50")),
        (10, "decimal(9,2)", Decimal("-0.05"), Decimal("-0.10")),
        (10, "decimal(38,0)", Decimal("9" * 38), Decimal("9" * 37 + "0")),
        (3, "string", "iceberg", "ice"),
        (5, "string", "ice", "ice"),
        (2, "string", "a\U0001f600b", "a\U0001f600"),
        (3, "binary", b"\x01\x02\x03\x04\x05", b"\x01\x02\x03"),
    ],
)
def test_r074_truncate_rounds_down_or_cuts(width, type_, value, expected):
    assert apply(parse_transform(f"truncate[{width}]"), parse_type(type_), value) == expected


@pytest.mark.parametrize(
    ("name", "type_", "value", "expected"),
    [
        ("year", "date", 17486, 47),
        ("month", "date", 17486, 574),
        ("day", "date", 17486, 17486),
        ("year", "timestamp", MOMENT_MICROS, 47),
        ("month", "timestamptz", MOMENT_MICROS, 574),
        ("day", "timestamp", MOMENT_MICROS, 17486),
        ("hour", "timestamp", MOMENT_MICROS, 419686),
        ("hour", "timestamptz_ns", MOMENT_MICROS * 1000, 419686),
        ("year", "date", -1, -1),
        ("month", "date", -1, -1),
        ("day", "timestamp", -1, -1),
        ("hour", "timestamp", -1, -1),
        ("hour", "timestamp_ns", -1, -1),
        ("month", "timestamp", -1, -1),
        ("year", "timestamptz", -31_536_000_000_000, -1),
        ("year", "timestamptz", -31_536_000_000_001, -2),
        ("year", "date", 2**31 - 1, 5_879_610),
    ],
)
def test_r072_units_count_from_the_epoch_and_round_down(name, type_, value, expected):
    assert apply(parse_transform(name), parse_type(type_), value) == expected


@pytest.mark.parametrize(
    ("transform", "type_"),
    [
        ("hour", "date"), ("hour", "time"), ("day", "long"), ("year", "string"),
        ("truncate[4]", "date"), ("truncate[4]", "double"), ("truncate[4]", "fixed[9]"),
    ],
)  # fmt: skip
def test_a_transform_refuses_types_it_does_not_take(transform, type_):
    with pytest.raises(ValueError, match="does not take"):
        apply(parse_transform(transform), parse_type(type_), 1)


@pytest.mark.parametrize(
    "transform", ["identity", "bucket[4]", "truncate[4]", "year", "month", "day", "hour", "void"]
)
def test_r070_null_stays_null(transform):
    assert apply(parse_transform(transform), PrimitiveType("timestamp"), None) is None
    assert path_text(parse_transform(transform), INT, None) == "null"


def test_r070_void_makes_everything_null_and_identity_changes_nothing():
    assert apply(parse_transform("void"), PrimitiveType("string"), "a") is None
    assert apply(parse_transform("identity"), PrimitiveType("string"), "a") == "a"


# Values and texts of the reference implementation's TestDates, TestTimestamps, TestIdentity and
# TestTruncate; the moment is 2017-12-01T10:12:55.038194 UTC.
@pytest.mark.parametrize(
    ("transform", "type_", "value", "shown"),
    [
        ("year", "int", 47, "2017"),
        ("year", "int", -1, "1969"),
        ("year", "int", -1966, "0004"),
        ("month", "int", 575, "2017-12"),
        ("month", "int", -1, "1969-12"),
        ("month", "int", -12, "1969-01"),
        ("day", "date", 17501, "2017-12-01"),
        ("day", "date", -2, "1969-12-30"),
        ("day", "date", 2932897, "10000-01-01"),
        ("hour", "int", 420034, "2017-12-01-10"),
        ("hour", "int", -1, "1969-12-31-23"),
        ("bucket[4]", "int", 3, "3"),
        ("identity", "long", -1234567890000, "-1234567890000"),
        ("identity", "string", "a/b/c=d", "a/b/c=d"),
        ("identity", "boolean", True, "true"),
        ("identity", "date", 17501, "2017-12-01"),
        ("identity", "time", 36_775_038_194, "10:12:55.038194"),
        ("identity", "time", 36_775_038_000, "10:12:55.038"),
        ("identity", "time", 36_000_000_000, "10:00"),
        ("identity", "time", 36_775_000_000, "10:12:55"),
        ("identity", "timestamp", 1_512_123_175_038_194, "2017-12-01T10:12:55.038194"),
        ("identity", "timestamptz", 1_512_123_175_038_194, "2017-12-01T10:12:55.038194Z"),
        ("identity", "timestamptz", 1_512_086_400_000_000, "2017-12-01T00:00Z"),
        ("identity", "timestamp_ns", 1_512_123_175_038_194_001, "2017-12-01T10:12:55.038194001"),
        ("identity", "timestamptz_ns", 1_512_123_175_500_000_000, "2017-12-01T10:12:55.500Z"),
        ("identity", "binary", b"\x01\x02\x03", "AQID"),
        ("identity", "fixed[3]", bytearray(b"\x01\x02\x03"), "AQID"),
        ("truncate[2]", "binary", b"\xab\xcd", "q80="),
        ("identity", "decimal(9,2)", Decimal("-1.50"), "-1.50"),
        ("truncate[10]", "decimal(11,11)", Decimal("0.00000000001"), "1E-11"),
        ("identity", "decimal(11,11)", Decimal(0), "0E-11"),
        ("identity", "uuid", UUID, "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("identity", "float", 1.100000023841858, "1.1"),
        ("zorder", "string", "x", "x"),
    ],
)
def test_partition_values_are_shown_as_the_reference_implementation_does(
    transform, type_, value, shown
):
    assert path_text(parse_transform(transform), parse_type(type_), value) == shown


VALUES: list[tuple[str, Any]] = [
    ("boolean", True), ("int", 1), ("long", 1), ("float", 1.0), ("double", 1.0), ("date", 1),
    ("time", 1), ("timestamp", 1), ("timestamptz", 1), ("timestamp_ns", 1), ("timestamptz_ns", 1),
    ("string", "a"), ("uuid", UUID), ("binary", b"a"), ("fixed[1]", b"a"),
    ("decimal(9,2)", Decimal("1.00")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), VALUES, ids=[name for name, _ in VALUES])
@pytest.mark.parametrize(
    "text",
    ["identity", "void", "bucket[4]", "truncate[4]", "year", "month", "day", "hour", "zorder"],
)
def test_r071_a_transform_takes_the_types_that_it_has_results_for(text, name, value):
    transform, type_ = parse_transform(text), parse_type(name)
    if accepts(transform, type_):
        apply(transform, type_, value)
    else:
        with pytest.raises(ValueError, match="does not take"):
            apply(transform, type_, value)


def test_r071_no_transform_takes_lists():
    list_ = ListType(1, INT, element_required=False)
    assert not any(
        accepts(parse_transform(text), list_) for text in ("identity", "bucket[4]", "day")
    )
