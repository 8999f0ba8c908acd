from decimal import Decimal
from uuid import UUID

import pytest

from icectl.entries.conditions import And, Column, Compare, IsNull, Not, StartsWith
from icectl.entries.may_match import manifests_may_match, may_match
from icectl.entries.partition_key import encode_key
from icectl.entries.rows import planning
from icectl.format.manifest import FieldSummary, ManifestContent, ManifestFile
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.single_value import encode
from icectl.format.transforms import parse_transform
from icectl.format.types import DecimalType, NestedField, PrimitiveType, Type
from tests.builders.entry_rows import data, entries

LONG, TEXT, DATE = PrimitiveType("long"), PrimitiveType("string"), PrimitiveType("date")
AT = PrimitiveType("timestamp")
DAY = 86_400_000_000


def schema(type_: Type, schema_id: int = 0) -> Schema:
    return Schema(schema_id, (NestedField(1, "c", type_, required=False),))


def partitioned(transform: str, type_: Type, value, predicate) -> bool:
    """Whether a file of one partition matches."""
    spec = PartitionSpec(0, (PartitionField((1,), 1000, "p", parse_transform(transform)),))
    key_type = type_ if transform in ("identity", "truncate[2]") else PrimitiveType("int")
    found = planning(entries(data("f", partition_key=encode_key([key_type], [value]))))
    return bool(may_match(found, predicate, [spec], [schema(type_)])[0])


def column(type_: Type) -> Column:
    return Column("c", type_, 1)


@pytest.mark.parametrize(
    ("day", "matches"),
    [(1, [True, True, True, False, True]), (2, [False, True, False, True, True])],
)
def test_r117_days_are_told_apart_to_the_moment(day, matches):
    at = column(AT)
    conditions = [
        Compare(at, "<", 2 * DAY), Compare(at, "<=", 2 * DAY), Compare(at, "=", DAY + 5),
        Not(Compare(at, "<", 2 * DAY)), Not(Compare(at, "=", DAY)),
    ]  # fmt: skip
    assert [partitioned("day", AT, day, one) for one in conditions] == matches


def test_moments_before_1970_may_lie_in_the_day_after_as_old_writers_put_them():
    before = Compare(column(AT), "<=", -1)
    assert partitioned("day", AT, -1, before)
    assert partitioned("day", AT, 0, before)
    assert not partitioned("day", AT, 1, before)


def test_buckets_tell_equal_values_only():
    of_34 = 3  # 2017239379 mod 4, R-076
    assert [
        partitioned("bucket[4]", LONG, at, Compare(column(LONG), "=", 34)) for at in range(4)
    ] == [at == of_34 for at in range(4)]
    assert partitioned("bucket[4]", LONG, 0, Compare(column(LONG), "<", 34))


@pytest.mark.parametrize(
    ("value", "prefix", "may", "may_not"),
    [
        ("ab", "a", True, False), ("ab", "b", False, True), ("ab", "abc", True, True),
        ("ab", "xbc", False, True), (None, "a", False, False),
    ],
)  # fmt: skip
def test_a_truncated_value_tells_prefixes(value, prefix, may, may_not):
    like = StartsWith(column(TEXT), prefix)
    assert partitioned("truncate[2]", TEXT, value, like) is may
    assert partitioned("truncate[2]", TEXT, value, Not(like)) is may_not


@pytest.mark.parametrize(("name", "bits"), [("int", 32), ("long", 64)])
def test_the_least_numbers_may_lie_in_the_greatest_partition_where_they_are_truncated(name, bits):
    """Writers compute in as many bits as the type has, and -2**63 - 1 is 2**63 - 1 there."""
    type_, end = PrimitiveType(name), 2 ** (bits - 1)
    below = Compare(column(type_), "<", 0)
    assert partitioned("truncate[2]", type_, end - 1, below)
    assert partitioned("truncate[2]", type_, end - 1, Not(below))
    assert not partitioned("truncate[2]", type_, end - 3, below)


@pytest.mark.parametrize(
    ("partition", "operator", "may", "may_not"),
    [
        ("1234567890123456789012345678.0123456788", "<", True, True),
        ("1234567890123456789012345678.0123456790", "<", False, True),
        ("1234567890123456789012345678.0123456788", "<=", True, False),
        ("1234567890123456789012345678.0123456786", "<", True, False),
    ],
)
def test_truncated_decimals_are_told_apart_to_the_38th_digit(partition, operator, may, may_not):
    type_ = DecimalType(38, 10)
    below = Compare(column(type_), operator, Decimal("1234567890123456789012345678.0123456789"))
    assert partitioned("truncate[2]", type_, Decimal(partition), below) is may
    assert partitioned("truncate[2]", type_, Decimal(partition), Not(below)) is may_not


@pytest.mark.parametrize("transform", ["void", "zigzag", "bucket[4]"])
def test_r117_unknown_transforms_and_void_say_nothing(transform):
    type_ = PrimitiveType("float") if transform == "bucket[4]" else LONG
    assert partitioned(transform, type_, 1, Compare(column(type_), "=", 34.0))


def test_nulls_of_a_partition_are_known():
    null = IsNull(column(LONG))
    assert partitioned("bucket[4]", LONG, None, null)
    assert not partitioned("bucket[4]", LONG, 1, null)
    assert not partitioned("bucket[4]", LONG, None, Not(null))
    assert not partitioned("identity", LONG, None, Not(Compare(column(LONG), "=", 1)))


def test_partitions_of_a_column_that_was_a_date_say_nothing():
    spec = PartitionSpec(0, (PartitionField((1,), 1000, "p", parse_transform("identity")),))
    found = planning(entries(data("f", partition_key=encode_key([DATE], [1]))))
    schemas = [schema(DATE), schema(AT, 1)]
    assert may_match(found, Compare(column(AT), "=", 9), [spec], schemas).all()


def test_a_partition_field_decides_for_the_specs_that_have_it():
    with_it = PartitionSpec(1, (PartitionField((1,), 1000, "p", parse_transform("bucket[4]")),))
    key = encode_key([PrimitiveType("int")], [2])
    other = encode_key([PrimitiveType("int")], [3])
    found = planning(
        entries(
            data("a", spec_id=1, partition_key=key),
            data("b"),
            data("c", spec_id=1, partition_key=other),
        )
    )
    condition = Compare(Column("p", PrimitiveType("int"), None), "=", 2)
    specs = [PartitionSpec(0, ()), with_it]
    assert may_match(found, condition, specs, [schema(LONG)]).tolist() == [True, True, False]


def test_a_partition_field_says_nothing_for_specs_where_it_was_dropped():
    """Version 1 keeps it there under its name, without values."""
    specs = [
        PartitionSpec(at, (PartitionField((1,), 1000, "p", parse_transform(transform)),))
        for at, transform in enumerate(("identity", "void"))
    ]
    found = planning(
        entries(
            data("a", spec_id=0, partition_key=encode_key([LONG], [2])),
            data("b", spec_id=1, partition_key=encode_key([LONG], [None])),
            data("c", spec_id=0, partition_key=encode_key([LONG], [3])),
        )
    )
    condition = Compare(Column("p", LONG, None), "=", 2)
    assert may_match(found, condition, specs, [schema(LONG)]).tolist() == [True, True, False]


def bounded(type_: Type, lower: bytes, upper: bytes, predicate, **values) -> bool:
    bounds = {"lower_bounds": [(1, lower)], "upper_bounds": [(1, upper)]}
    found = entries(data("f", **bounds, **values))
    return bool(may_match(found, predicate, [], [schema(type_)])[0])


@pytest.mark.parametrize(
    ("type_", "bound", "same", "less"),
    [
        (LONG, (5).to_bytes(4, "little"), 5, 4),
        (PrimitiveType("double"), encode(PrimitiveType("float"), 0.5), 0.5, 0.25),
        (AT, (3).to_bytes(4, "little"), 3 * DAY, 3 * DAY - 1),
        (DecimalType(30, 2), b"\x05", Decimal("0.05"), Decimal("0.04")),
        (DecimalType(30, 2), b"\xff", Decimal("-0.01"), Decimal("-0.02")),
        (DecimalType(38, 0), b"\x01" + bytes(10), Decimal(2**80), Decimal(2**80 - 1)),
    ],
)
def test_r096_bounds_of_promoted_columns_are_read_as_the_type_before(type_, bound, same, less):
    equal = column(type_)
    assert bounded(type_, bound, bound, Compare(equal, "=", same))
    assert not bounded(type_, bound, bound, Compare(equal, "=", less))
    assert not bounded(type_, bound, bound, Compare(equal, "<=", less))


def test_the_order_of_uuids_is_not_relied_on():
    uuid = PrimitiveType("uuid")
    low, high = b"\x01" * 16, b"\x02" * 16
    wanted = UUID(int=5)
    assert bounded(uuid, low, high, Compare(column(uuid), "=", wanted))


@pytest.mark.parametrize("wrong", [b"", b"\x01\x02\x03"])
def test_bounds_that_do_not_decode_are_not_known(wrong):
    for type_, value in ((LONG, 7), (PrimitiveType("double"), 7.0)):
        assert bounded(type_, wrong, wrong, Compare(column(type_), "=", value))


def test_r092_a_bound_that_is_nan_is_not_known():
    double = PrimitiveType("double")
    nan = encode(double, float("nan"))
    assert bounded(double, nan, nan, Compare(column(double), "=", 1.0))


def test_nulls_are_counted_against_the_rows_of_the_file():
    """A writer may leave nulls out of the value counts: five values and five nulls are ten rows."""
    compared = Compare(column(LONG), "=", 7)
    counts = {"value_counts": [(1, 5)], "null_value_counts": [(1, 5)]}
    found = entries(data("half", **counts), data("all", null_value_counts=[(1, 10)]))
    assert may_match(found, compared, [], [schema(LONG)]).tolist() == [True, False]


def test_r130_a_missing_metric_matches():
    found = entries(data("f"), data("g", lower_bounds=[(9, b"\x00")]))
    for predicate in (
        Compare(column(LONG), "=", 7),
        IsNull(column(LONG)),
        Not(IsNull(column(LONG))),
    ):
        assert may_match(found, predicate, [], [schema(LONG)]).all()
        assert may_match(planning(found), predicate, [], [schema(LONG)]).all()


def test_of_no_files_none_match():
    assert may_match(entries(), Compare(column(LONG), "=", 7), [], [schema(LONG)]).tolist() == []


def manifest(*summaries: FieldSummary) -> ManifestFile:
    return ManifestFile("m", 1, 0, ManifestContent.DATA, 1, 1, 1, partitions=summaries or None)


def days(first: int, last: int, *, nulls: bool = False) -> FieldSummary:
    return FieldSummary(nulls, None, first.to_bytes(4, "little"), last.to_bytes(4, "little"))


def test_r053_a_manifest_is_left_out_only_where_its_summaries_exclude_a_match():
    spec = PartitionSpec(0, (PartitionField((1,), 1000, "p", parse_transform("day")),))
    manifests = [
        manifest(days(1, 3)),
        manifest(days(5, 9)),
        manifest(days(5, 9, nulls=True)),
        manifest(FieldSummary(contains_null=True)),  # nulls alone
        manifest(FieldSummary(contains_null=False)),  # which says nothing
        manifest(days(9, 5)),
        manifest(),
        manifest(days(5, 9), days(5, 9)),  # of another spec
    ]

    def matching(predicate):
        kept = manifests_may_match(manifests, predicate, [spec], [schema(AT)])
        return "".join("x" if one else "." for one in kept)

    at = column(AT)
    assert matching(Compare(at, "=", 3 * DAY + 5)) == "x...xxxx"
    assert matching(Compare(at, "<", 5 * DAY)) == "x...xxxx"
    assert matching(Not(Compare(at, "<", 4 * DAY))) == ".xx.xxxx"
    assert matching(IsNull(at)) == "..xxxxxx"
    assert matching(Not(IsNull(at))) == "xxx.xxxx"
    assert matching(And((Compare(at, "<", 5 * DAY), Compare(column(TEXT), "=", "a")))) == "x...xxxx"


def test_ranges_of_truncated_numbers_hold_the_least_ones_where_they_reach_the_greatest():
    spec = PartitionSpec(0, (PartitionField((1,), 1000, "p", parse_transform("truncate[10]")),))
    greatest = 2**63 - 1
    bounds = [number.to_bytes(8, "little", signed=True) for number in (100, greatest - 5)]
    least = Compare(column(LONG), "<", -greatest)
    wide, narrow = (
        manifest(FieldSummary(False, None, bounds[0], upper)) for upper in reversed(bounds)
    )
    kept = manifests_may_match([wide, narrow], least, [spec], [schema(LONG)])
    assert kept.tolist() == [True, False]
