"""Partition values beside bounds of their own entry; those here are computed by hand."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from icectl.checks.live_entries import LiveRows
from icectl.checks.partitions import refuse_misplaced
from icectl.checks.rules import RULES
from icectl.entries.partition_key import encode_key
from icectl.entries.rows import Entries, RawEntries
from icectl.errors import CorruptTable
from icectl.format.manifest import Content, Status
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec, result_types
from icectl.format.schema import Schema
from icectl.format.single_value import encode
from icectl.format.transforms import apply, parse_transform
from icectl.format.types import DecimalType, FixedType, NestedField, PrimitiveType, Type
from tests.builders.checked import check_entries, header, manifest, snapshot, stored, table
from tests.builders.entry_rows import data

NAN = float("nan")
INT, LONG, STRING, DATE = map(PrimitiveType, ("int", "long", "string", "date"))
TIME, NANOS = PrimitiveType("timestamptz"), PrimitiveType("timestamp_ns")
DOUBLE, FLOAT, UUIDS = map(PrimitiveType, ("double", "float", "uuid"))
BINARY, FLAG, MONEY = PrimitiveType("binary"), PrimitiveType("boolean"), DecimalType(9, 2)
LARGE = DecimalType(38, 0)
RULES_OF_BOUNDS = ("R-071", "R-072", "R-073", "R-074")
HOUR = 3_600_000_000
DAY = 24 * HOUR


def days(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def micros(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp()) * 1_000_000


def of_column(*types: Type, transform: str = "identity") -> TableMetadata:
    """A table by one field, whose column has had these types."""
    schemas = [
        Schema(at, (NestedField(2, "x", type_, required=False),)) for at, type_ in enumerate(types)
    ]
    spec = PartitionSpec(0, (PartitionField((2,), 1000, "p", parse_transform(transform)),))
    return table(schemas=tuple(schemas), current_schema_id=len(types) - 1, partition_specs=(spec,))


def rows(metadata: TableMetadata, value: object, *bounds: object, **more: object) -> RawEntries:
    """One data file with a partition value, and with bounds in bytes or of the newest type."""
    (kind,) = result_types(metadata.partition_specs[0], metadata.schemas)
    type_ = metadata.schemas[-1].fields[0].type
    stated = [
        None if one is None else {2: one if isinstance(one, bytes) else encode(type_, one)}
        for one in bounds
    ]
    key = value if isinstance(value, bytes) and value == b"\xff" else encode_key([kind], [value])
    file = data(
        "s3://b/1", partition_key=key, spec_id=0, lower_bounds=stated[0], upper_bounds=stated[1],
        null_value_counts={2: 0},
    ) | more  # fmt: skip
    return stored(file)


def found(metadata: TableMetadata, entries: RawEntries) -> list[str]:
    """The rules that are broken: a change and `validate` find the same."""
    live = LiveRows(Entries(entries.table), metadata, snapshot())
    planned = [(one.rule, one.message) for one in RULES.findings(live, RULES_OF_BOUNDS)]
    validated = [
        one.rule
        for one in check_entries(metadata, manifest(partition_spec_id=0), header(), entries)
        if one.rule in RULES_OF_BOUNDS
    ]
    assert [rule for rule, _ in planned] == validated
    what = "`s3://b/1` has a partition value of `p` that its own bounds exclude"
    assert {message for _, message in planned} <= {what}
    return validated


@pytest.mark.parametrize(
    ("type_", "low", "high", "inside", "outside"),
    [
        (INT, 3, 5, [3, 4, 5], [2, 6]),
        (LONG, -(2**63), -(2**63), [-(2**63)], [2**63 - 1, 0]),
        (DATE, days("2024-02-28"), days("2024-03-01"), [days("2024-02-29")], [days("2024-03-02")]),
        (TIME, micros("2024-01-01"), micros("2024-01-01"), [micros("2024-01-01")], [0]),
        (DOUBLE, -0.0, 1.5, [0.0, -0.0, 1.5], [-0.5, 2.0, NAN]),
        (FLOAT, 0.25, 0.25, [0.25], [0.5, NAN]),
        (MONEY, Decimal("-1.50"), Decimal("2.00"), [Decimal("-1.50")], [Decimal("-1.51")]),
        (LARGE, Decimal(10**30), Decimal(10**30), [Decimal(10**30), Decimal(1)], []),
        (STRING, "b", "d", ["b", "bz", "c", "d", "dx"], ["a", "", "e"]),
        (STRING, "ä", "ä", ["ä"], ["z", "ö", "a"]),
        (BINARY, b"\x80", b"\x80", [b"\x80"], [b"\x7f", b"\x81"]),
        (FixedType(2), b"\x00\xff", b"\x00\xff", [b"\x00\xff"], [b"\x01\x00"]),
        (FLAG, True, True, [True], [False]),
        (UUIDS, UUID(int=5), UUID(int=5), [UUID(int=5), UUID(int=6)], []),
    ],
)
def test_r071_identity_is_a_value_between_the_bounds(type_, low, high, inside, outside):
    compare(of_column(type_), low, high, inside, outside, "R-071")


def compare(
    metadata: TableMetadata, low: Any, high: Any, inside: list[Any], outside: list[Any], rule: str
) -> None:
    """Partition values are inside or outside of bounds, which breaks a rule."""
    for value in inside:
        assert found(metadata, rows(metadata, value, low, high)) == []
    for value in outside:
        assert found(metadata, rows(metadata, value, low, high)) == [rule]


@pytest.mark.parametrize(
    ("transform", "type_", "low", "high", "inside", "outside"),
    [
        ("truncate[10]", INT, -5, 12, [-10, 0, 10], [-20, 20]),
        # In 32 bits, as Java and PyIceberg count: -2147483650 becomes 2147483646.
        ("truncate[10]", INT, -(2**31), -(2**31) + 7, [2**31 - 2], []),
        ("truncate[3]", LONG, -(2**63), -(2**63), [0, 2**63 - 2], []),  # it has no multiple below
        ("truncate[9223372036854775807]", LONG, 5, 5, [0, 7], []),
        ("truncate[100]", MONEY, Decimal("1.50"), Decimal("2.99"), [Decimal("2.00")],
         [Decimal("0.00"), Decimal("3.00")]),
        ("truncate[2]", STRING, "äbc", "äx", ["äb", "äx"], ["äa", "äy"]),
        ("truncate[1]", BINARY, b"\x81\x01", b"\x82", [b"\x81"], [b"\x80", b"\x83"]),
        ("year", DATE, days("1999-12-31"), days("2000-01-01"), [29, 30], [28, 31]),
        ("month", TIME, micros("2024-02-29"), micros("2024-03-31"), [649, 650], [648, 651]),
        ("day", TIME, DAY, 2 * DAY - 1, [1], [0, 2]),
        ("day", NANOS, DAY * 1000, DAY * 1000, [1], [0, 2]),
        ("hour", TIME, 5 * HOUR, 6 * HOUR - 1, [5], [4, 6]),
        # Old writers rounded up before 1970, so that one more is no lie.
        ("hour", TIME, -HOUR - 1, -HOUR - 1, [-2, -1], [-3, 0]),
        ("day", TIME, -1, -1, [-1, 0], [-2, 1]),
        ("hour", TIME, 2**62, 2**62, [2**62 // HOUR], [5]),
    ],
)  # fmt: skip
def test_r072_r074_date_parts_and_truncations_are_of_a_value_between_the_bounds(
    transform, type_, low, high, inside, outside
):
    rule = "R-074" if transform.startswith("truncate") else "R-072"
    compare(of_column(type_, transform=transform), low, high, inside, outside, rule)


@pytest.mark.parametrize(
    ("type_", "value", "bucket"),
    # The hashes that the specification prints (Appendix B), modulo 100.
    [
        (INT, 34, 2017239379), (LONG, 34, 2017239379), (DATE, days("2017-11-16"), -653330422),
        (FixedType(4), bytes([0, 1, 2, 3]), -188683207),
        (TIME, micros("2017-11-16T22:31:08"), -2047944441),
        (NANOS, micros("2017-11-16T22:31:08") * 1000, -2047944441),
        (UUIDS, UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1488055340),
    ],
)  # fmt: skip
def test_r073_buckets_are_compared_where_both_bounds_are_one_value(type_, value, bucket):
    metadata = of_column(type_, transform="bucket[100]")
    right = (bucket & 0x7FFFFFFF) % 100
    assert found(metadata, rows(metadata, right, value, value)) == []
    assert found(metadata, rows(metadata, (right + 1) % 100, value, value)) == ["R-073"]
    if type_ in (INT, LONG):
        assert found(metadata, rows(metadata, (right + 1) % 100, value, value + 1)) == []


@pytest.mark.parametrize("type_", [STRING, BINARY, FixedType(25)])
@pytest.mark.parametrize("length", [3, 16, 25])
def test_r073_bounds_that_may_be_cut_are_no_value(type_, length):
    """Some writers cut both bounds alike: a file of one value looks so, too.

    How long bounds may be is up to properties, which may be others by now.
    """
    value, metadata = b"customer-0000000000000777", of_column(type_, transform="bucket[16]")
    one = value.decode() if type_ == STRING else value
    right = apply(parse_transform("bucket[16]"), type_, one)
    assert found(metadata, rows(metadata, right, value[:length], value[:length])) == []
    wrong = rows(metadata, (right + 1) % 16, value[:length], value[:length])
    is_whole = type_ == FixedType(25) and length == 25
    assert found(metadata, wrong) == (["R-073"] if is_whole else [])


def test_r073_decimals_are_not_looked_at():
    metadata = of_column(MONEY, transform="bucket[100]")
    assert found(metadata, rows(metadata, 5, Decimal("14.20"), Decimal("14.20"))) == []


def test_texts_may_be_cut_on_either_side():
    """Java and PyIceberg cut at 16 characters, and put the last one of the upper bound up."""
    metadata = of_column(STRING)
    value = "abcdefghijklmnopqrst"
    assert found(metadata, rows(metadata, value, value[:16], "abcdefghijklmnoq")) == []
    assert found(metadata, rows(metadata, value, value[:16], value[:16])) == []
    assert found(metadata, rows(metadata, "abcdefghijklmnoz", value[:16], value[:16])) == ["R-071"]
    assert found(metadata, rows(metadata, "abc", b"\xff", b"\xff")) == ["R-071"]
    by_start = of_column(STRING, transform="truncate[2]")
    assert found(by_start, rows(by_start, "abc", b"\xff", b"\xff")) == []


@pytest.mark.parametrize("transform", ["identity", "truncate[4]", "bucket[4]"])
def test_a_null_partition_has_no_value_unless_nulls_are_not_counted(transform):
    metadata = of_column(INT, transform=transform)
    rule = {"i": "R-071", "t": "R-074", "b": "R-073"}[transform[0]]
    assert found(metadata, rows(metadata, None, 5, 9)) == [rule]
    assert found(metadata, rows(metadata, None, None, None)) == []
    for counts in (None, {2: 1}, {3: 0}):
        assert found(metadata, rows(metadata, None, 5, 9, null_value_counts=counts)) == []


def test_unknown_bounds_exclude_nothing():
    metadata = of_column(INT)
    assert found(metadata, rows(metadata, 7, None, None, null_value_counts={2: 10})) == []
    assert found(metadata, rows(metadata, 7, None, 5)) == ["R-071"]
    assert found(metadata, rows(metadata, 7, 8, None)) == ["R-071"]
    assert found(metadata, rows(metadata, 7, None, 9)) == []
    assert found(metadata, rows(metadata, 7, b"", b"12345")) == []
    reals = of_column(DOUBLE)
    assert found(reals, rows(reals, 7.0, NAN, NAN)) == []
    assert found(metadata, rows(metadata, b"\xff", 8, 8)) == []


@pytest.mark.parametrize(
    "more", [{"content": Content.EQUALITY_DELETES}, {"status": Status.DELETED}, {"spec_id": 1}]
)
def test_only_live_data_files_of_the_spec_are_compared(more):
    metadata = of_column(INT)
    other = PartitionSpec(1, (PartitionField((2,), 1000, "p", parse_transform("void")),))
    metadata = table(schemas=metadata.schemas, partition_specs=(*metadata.partition_specs, other))
    entries = rows(metadata, 7, 8, 8, **more)
    refuse_misplaced(metadata, entries)
    assert list(RULES.findings(LiveRows(Entries(entries.table), metadata, snapshot()),
                               RULES_OF_BOUNDS)) == []  # fmt: skip


def test_bounds_of_an_older_type_are_read_as_such_and_of_dates_not_at_all():
    """R-096; a column of dates that became timestamps has days as identity partitions."""
    metadata = of_column(INT, LONG)
    four = (8).to_bytes(4, "little")
    assert found(metadata, rows(metadata, 8, four, four)) == []
    assert found(metadata, rows(metadata, 7, four, four)) == ["R-071"]
    were_dates = of_column(DATE, PrimitiveType("timestamp"))
    assert found(were_dates, rows(were_dates, 7, four, four)) == []


def test_a_field_whose_column_was_dropped_is_compared_by_its_last_type():
    metadata = of_column(INT)
    empty = Schema(1, (NestedField(9, "y", INT, required=False),))
    metadata = table(
        schemas=(*metadata.schemas, empty), current_schema_id=1,
        partition_specs=metadata.partition_specs,
    )  # fmt: skip
    wrong = stored(
        data("s3://b/1", spec_id=0, partition_key=encode_key([INT], [7]),
             lower_bounds={2: encode(INT, 8)}, upper_bounds={2: encode(INT, 8)})
    )  # fmt: skip
    assert found(metadata, wrong) == ["R-071"]


def test_the_first_of_several_wrong_files_is_named():
    metadata = of_column(INT)
    bounds = {"lower_bounds": {2: encode(INT, 8)}, "upper_bounds": {2: encode(INT, 8)}}
    keys = {at: encode_key([INT], [at]) for at in (8, 7, 9)}
    files = [data(f"f{at}", spec_id=0, partition_key=key, **bounds) for at, key in keys.items()]
    with pytest.raises(CorruptTable, match=r"^`f7` has a partition value of `p`") as raised:
        refuse_misplaced(metadata, stored(*files))
    assert raised.value.rule == "R-071"
    way_out = (
        "move `f7`, `f9` away, remove what you moved with `icectl repair TABLE --drop-missing`, "
        "and write its rows again"
    )
    live = LiveRows(Entries(stored(*files).table), metadata, snapshot())
    for hint in (raised.value.hint, *(one.hint for one in RULES.findings(live, ("R-071",)))):
        assert hint == way_out  # both values are in the entry: no copy of the file changes it
