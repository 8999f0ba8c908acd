import struct
from dataclasses import replace
from decimal import Decimal
from uuid import UUID

import pytest

from icectl.entries.conditions import (
    And,
    Column,
    Compare,
    Constant,
    IsNan,
    IsNull,
    Not,
    Or,
    StartsWith,
    parse_where,
)
from icectl.errors import UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.transforms import parse_transform
from icectl.format.types import (
    DecimalType,
    FixedType,
    GeometryType,
    ListType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
)

TYPES: dict[str, Type] = {
    "id": PrimitiveType("int"), "big": PrimitiveType("long"), "f": PrimitiveType("float"),
    "d": PrimitiveType("double"), "ok": PrimitiveType("boolean"), "name": PrimitiveType("string"),
    "raw": PrimitiveType("binary"), "code": FixedType(2), "price": DecimalType(5, 2),
    "day": PrimitiveType("date"), "clock": PrimitiveType("time"),
    "at": PrimitiveType("timestamp"), "atz": PrimitiveType("timestamptz"),
    "ns": PrimitiveType("timestamp_ns"), "key": PrimitiveType("uuid"),
    "two words": PrimitiveType("int"), "place": GeometryType(), "doc": PrimitiveType("variant"),
}  # fmt: skip
NESTED = (
    NestedField(
        90, "s", StructType((NestedField(91, "x", PrimitiveType("int"), required=False),)), False
    ),
    NestedField(92, "items", ListType(93, PrimitiveType("int"), element_required=False), False),
)
SCHEMA = Schema(
    0,
    (
        *(NestedField(at, name, type_, False) for at, (name, type_) in enumerate(TYPES.items(), 1)),
        *NESTED,
    ),
)
SPEC = PartitionSpec(
    0,
    (
        PartitionField((1,), 1000, "id_bucket", parse_transform("bucket[4]")),
        PartitionField((12,), 1001, "at_day", parse_transform("day")),
        PartitionField((6,), 1002, "odd", parse_transform("zigzag")),
    ),
)
METADATA = TableMetadata(2, None, "/t", 0, 0, 93, (SCHEMA,), 0, (SPEC,), 0, 1002, (), 0)


def column(name: str) -> Column:
    field = SCHEMA.field_named(name)
    assert field is not None
    return Column(name, field.type, field.id)


def parsed(text: str):
    return parse_where(text, METADATA)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("id = -42", "id", -42),
        ("big = 9223372036854775807", "big", 2**63 - 1),
        ("f = 0.1", "f", struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        ("d = 1e-3", "d", 0.001),
        ("ok = true", "ok", True),
        ("ok = FALSE", "ok", False),
        ("name = 'it''s'", "name", "it's"),
        ("raw = x'00fF'", "raw", b"\x00\xff"),
        ("code = X'0102'", "code", b"\x01\x02"),
        ("price = 1.5", "price", Decimal("1.5")),
        ("day = '1970-01-03'", "day", 2),
        ("clock = '00:00:01.5'", "clock", 1_500_000),
        ("clock = '00:00:01.500000000'", "clock", 1_500_000),
        ("at = '1970-01-01T00:00:01'", "at", 1_000_000),
        ("at = '1970-01-01 00:00:01'", "at", 1_000_000),
        ("at = '1970-01-02'", "at", 86_400_000_000),
        ("atz = '1970-01-01T01:00:00+01:00'", "atz", 0),
        ("atz = '1970-01-01T01:00:00'", "atz", 3_600_000_000),
        ("ns = '1970-01-01T00:00:00.000000001'", "ns", 1),
        (
            "key = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'",
            "key",
            UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ),
        ("`two words` = 1", "two words", 1),
        ("s.x = 7", "s.x", 7),
        ("7 = s.x", "s.x", 7),
    ],
)
def test_a_value_is_read_as_its_column_has_it(text, name, value):
    found = parsed(text)
    assert found == Compare(column(name), "=", value)
    assert type(found.value) is type(value)


ID, DAY, AT = column("id"), column("day"), column("at")
DAY_MICROS = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("id < 1", Compare(ID, "<", 1)),
        ("id <= 1", Compare(ID, "<=", 1)),
        ("id > 1", Not(Compare(ID, "<=", 1))),
        ("id >= 1", Not(Compare(ID, "<", 1))),
        ("1 < id", Not(Compare(ID, "<=", 1))),
        ("1 >= id", Compare(ID, "<=", 1)),
        ("true = ok", Compare(column("ok"), "=", True)),
        ("id == 1", Compare(ID, "=", 1)),
        ("id <> 1", Not(Compare(ID, "=", 1))),
        ("id != 1", Not(Compare(ID, "=", 1))),
        ("id IS NULL", IsNull(ID)),
        ("items is not null", Not(IsNull(column("items")))),
        ("f is nan", IsNan(column("f"))),
        ("id in (1, 2)", Or((Compare(ID, "=", 1), Compare(ID, "=", 2)))),
        ("id not in (1)", Not(Or((Compare(ID, "=", 1),)))),
        ("id between 1 and 2", And((Not(Compare(ID, "<", 1)), Compare(ID, "<=", 2)))),
        ("name like 'ab%'", StartsWith(column("name"), "ab")),
        (r"name like 'a\%\_%'", StartsWith(column("name"), "a%_")),
        ("name like '%'", Not(IsNull(column("name")))),
        ("name like 'ab'", Compare(column("name"), "=", "ab")),
        ("name not like 'a%'", Not(StartsWith(column("name"), "a"))),
        # 2024-01-02 is day 19,724.
        (
            "day(day) = '2024-01-02'",
            And((Not(Compare(DAY, "<", 19_724)), Compare(DAY, "<", 19_725))),
        ),
        ("Day(at) <= '2024-01-02'", Compare(AT, "<", 19_725 * DAY_MICROS)),
        ("day(at) < '2024-01-02'", Compare(AT, "<", 19_724 * DAY_MICROS)),
        ("'2024-01-02' < day(at)", Not(Compare(AT, "<", 19_725 * DAY_MICROS))),
        ("day(at) >= '2024-01-02'", Not(Compare(AT, "<", 19_724 * DAY_MICROS))),
        ("day(ns) < '1970-01-02'", Compare(column("ns"), "<", DAY_MICROS * 1000)),
        ("day(at) is null", IsNull(AT)),
        (
            "day(at) not in ('1970-01-01')",
            Not(Or((And((Not(Compare(AT, "<", 0)), Compare(AT, "<", DAY_MICROS))),))),
        ),
        ("true", Constant(True)),
        ("not false", Not(Constant(False))),
    ],
)
def test_each_condition_has_its_value(text, predicate):
    assert parsed(text) == predicate


def test_and_binds_closer_than_or_and_not_closer_than_both():
    one, two, three = Compare(ID, "=", 1), Compare(ID, "=", 2), Compare(ID, "=", 3)
    assert parsed("id = 1 or id = 2 and not id = 3") == Or((one, And((two, Not(three)))))
    assert parsed("(id = 1 or id = 2) and id = 3") == And((Or((one, two)), three))
    assert parsed("id between 1 and 2 and id = 3").parts[1] == three


def test_partition_fields_have_the_type_of_their_values():
    assert parsed("id_bucket = 3") == Compare(
        Column("id_bucket", PrimitiveType("int"), None), "=", 3
    )
    assert parsed("at_day < '1970-01-05'") == Compare(
        Column("at_day", PrimitiveType("date"), None), "<", 4
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at its end: expected a column, found the end"),
        ("id", "at its end: expected a comparison, `in`, `between`, `is` or `like`, found the end"),
        ("id = ", "at its end: expected a value, found the end"),
        ("id = 1 id = 2", "at position 8: expected `and`, `or` or the end, found `id`"),
        ("(id = 1", "at its end: expected `)`, found the end"),
        ("id = 'a'", "at position 6: cannot compare `id` (int) with `'a'`"),
        ("id = 1.5", "at position 6: cannot compare `id` (int) with `1.5`"),
        ("id = 3000000000", "at position 6: cannot compare `id` (int) with `3000000000`"),
        ("price = 1.005", "at position 9: cannot compare `price` (decimal(5, 2)) with `1.005`"),
        ("price = 1000", "at position 9: cannot compare `price` (decimal(5, 2)) with `1000`"),
        ("code = x'01'", "at position 8: cannot compare `code` (fixed[2]) with `x'01'`"),
        ("day = '2024-02-30'", "at position 7: cannot compare `day` (date) with `'2024-02-30'`"),
        (
            "at = '2024-01-01T00:00:00Z'",
            "at position 6: cannot compare `at` (timestamp) with `'2024-01-01T00:00:00Z'`",
        ),
        (
            "at = '2024-01-01T00:00:00.1234567'",
            "at position 6: cannot compare `at` (timestamp) with `'2024-01-01T00:00:00.1234567'`",
        ),
        (
            "clock < '00:00:00.0000001'",
            "at position 9: cannot compare `clock` (time) with `'00:00:00.0000001'`",
        ),
        (
            "ns < '9999-12-31'",
            "at position 6: cannot compare `ns` (timestamp_ns) with `'9999-12-31'`",
        ),
        (
            "day > '9999999-01-01'",
            "at position 7: cannot compare `day` (date) with `'9999999-01-01'`",
        ),
        ("doc = 1", "at position 7: `doc` is variant; only `is null` works on it"),
        ("place = 1", "at position 9: `place` is geometry; only `is null` works on it"),
        ("id = null", "at position 6: null cannot be compared"),
        ("items = 1", "at position 9: `items` is list<int>; only `is null` works on it"),
        ("items.element = 1", "at position 1: `items.element` is inside a list"),
        ("id is 5", "at position 7: expected `null` or `nan`, found `5`"),
        ("id is nan", "at position 7: `id` is int, which is never NaN"),
        ("id like '1%'", "at position 9: `id` is int; `like` is for strings"),
        ("name like 'a_b%'", "at position 11: a pattern is text that ends with one `%`"),
        ("name like 5", "at position 11: expected a pattern in single quotes, found `5`"),
        ("id = 1 and colour = 2", "at position 12: the table has no column `colour`"),
        ('name = "x"', "at position 8: a double quote does not belong here"),
        ("name = 'x", "at position 8: the ' has no match"),
        ("id = 1;", "at position 7: `;` does not belong here"),
        ("id = 12ab", "at position 6: `1` does not belong here"),
        ("odd = 1", "at position 1: partition field `odd` has no type that all specs agree on"),
        (
            "upper(name) = 'A'",
            "at position 1: `upper` is a function, and conditions have only `day`",
        ),
        (
            "day(id) = '2024-01-01'",
            "at position 5: `id` is not a date or timestamp column, and has no `day`",
        ),
        (
            "day(at_day) = '2024-01-01'",
            "at position 5: `at_day` is not a date or timestamp column, and has no `day`",
        ),
        ("day(at = 1", "at position 8: expected `)`, found `=`"),
        ("day(at) = 5", "at position 11: cannot compare `day(at)` (date) with `5`"),
        (
            "day(ns) = '2262-04-11'",
            "at position 11: no timestamp_ns is of the day `'2262-04-11'`",
        ),
        ("(" * 120 + "id = 1" + ")" * 120, "at position 101: it is nested too deeply"),
    ],
)
def test_what_is_wrong_is_told_with_its_position(text, message):
    with pytest.raises(UsageError) as failure:
        parsed(text)
    assert failure.value.message == f"`--where`: {message}"
    assert failure.value.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("ID = 1", "did you mean `id`?"),
        ("prise = 1", "did you mean `price`?"),
        ("colour = 1", "`icectl inspect TABLE schemas` lists them"),
        ("day = 5", "a value of date is written like '2024-01-31'"),
        ("code = 5", "a value of fixed[2] is written like x'0000'"),
        ("id = null", "write `id is null`"),
        ("name = c1", "text stands in single quotes: 'c1'"),
        ("id in (1, c1)", "a value of int is written like 42"),
    ],
)
def test_the_hint_says_how_to_write_it(text, hint):
    with pytest.raises(UsageError) as failure:
        parsed(text)
    assert failure.value.hint == hint


def test_a_partition_field_whose_specs_disagree_is_not_compared():
    other = PartitionSpec(
        1, (PartitionField((6,), 1000, "id_bucket", parse_transform("identity")),)
    )
    both = replace(METADATA, partition_specs=(SPEC, other))
    with pytest.raises(UsageError, match="no type that all specs agree on"):
        parse_where("id_bucket = 3", both)
    dropped = PartitionSpec(1, (replace(other.fields[0], transform=parse_transform("void")),))
    found = parse_where("id_bucket = 3", replace(METADATA, partition_specs=(SPEC, dropped)))
    assert found == Compare(Column("id_bucket", PrimitiveType("int"), None), "=", 3)
