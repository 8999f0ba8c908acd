from decimal import Decimal
from uuid import UUID

import pytest

from icectl.checks import partitions
from icectl.checks.partitions import outside_summaries
from icectl.entries.partition_key import encode_key, join_values
from icectl.format.manifest import FieldSummary
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.single_value import encode
from icectl.format.transforms import parse_transform
from icectl.format.types import DecimalType, FixedType, NestedField, PrimitiveType
from tests.builders.checked import (
    MANIFEST,
    check_manifest,
    checked,
    header,
    manifest,
    stored,
    table,
    told,
)
from tests.builders.entry_rows import data

NAN = float("nan")
RULES_OF_PARTITIONS = {"R-053", "R-068", "R-071", "R-073"}
KINDS = {"long": "long", "int": "int", "double": "double", "string": "string", "date": "int"}


def check(source, *values, transform="identity", summary=None, kind=None, record=None, version=2):
    """Findings on a manifest whose entries have one partition value each."""
    schema = Schema(0, (NestedField(2, "x", source, required=False),))
    spec = PartitionSpec(0, (PartitionField((2,), 1000, "p", parse_transform(transform)),))
    kind = kind or KINDS.get(getattr(source, "name", ""), "fixed")
    keys = [
        value if isinstance(value, bytes) else encode_key([source], [value]) for value in values
    ]
    rows = stored(*(data(f"s3://b/{at}", partition_key=key) for at, key in enumerate(keys)))
    metadata = table(version, schemas=(schema,), partition_specs=(spec,))
    described = manifest(partition_spec_id=0, partitions=None if summary is None else (summary,))
    findings = check_manifest(
        metadata,
        [described],
        header(version, partition_record=((1000, kind),) if record is None else record),
        1234,
        rows,
        RULES_OF_PARTITIONS,
    )
    found = list(findings)
    # What a change stands on is screened for the same, by either way.
    for few in (partitions._FEW, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(partitions, "_FEW", few)
            places = list(outside_summaries(metadata, [described], rows, 0))
        assert places == [0] or "R-053" not in {one.rule for one in found}
        assert places == [] or found
    return found


def between(source, low, high, *, null=False, nan=None):
    """A summary of a field."""
    ends = (None if value is None else encode(source, value) for value in (low, high))
    return FieldSummary(null, nan, *ends)


STRING, LONG, INT = PrimitiveType("string"), PrimitiveType("long"), PrimitiveType("int")
DOUBLE = PrimitiveType("double")
RANGES = [
    (STRING, ["b", "é", "\U0001f600", "a"], "a", "\U0001f600"),
    (LONG, [3, -(2**63), 2**63 - 1], -(2**63), 2**63 - 1),
    (INT, [-1, 5], -1, 5),
    (PrimitiveType("date"), [0, 20_000], 0, 20_000),
    (PrimitiveType("float"), [1.5, -2.5], -2.5, 1.5),
    (DOUBLE, [-0.0, 0.0], -0.0, 0.0),
    (DOUBLE, [-1.0, -2.0, float("inf")], -2.0, float("inf")),
    (PrimitiveType("boolean"), [True, False], False, True),
    (DecimalType(9, 2), [Decimal("-1.50"), Decimal("200.00")], Decimal("-1.50"), Decimal(200)),
    (
        DecimalType(38, 0),
        [Decimal(-(10**37)), Decimal(10**37)],
        Decimal(-(10**37)),
        Decimal(10**37),
    ),
    (FixedType(2), [b"\x01\x05\x00\x00\x00"[:2], b"\xff\x00"], b"\x01\x05", b"\xff\x00"),
]


@pytest.mark.parametrize(("source", "values", "low", "high"), RANGES, ids=lambda x: str(x)[:24])
def test_r053_a_summary_of_exactly_the_values_is_right(source, values, low, high):
    keys = [encode_key([source], [value]) for value in values]
    kind = KINDS.get(getattr(source, "name", ""), "fixed")
    kind = {"boolean": "boolean", "float": "float"}.get(getattr(source, "name", ""), kind)
    assert told(check(source, *keys, summary=between(source, low, high), kind=kind)) == []


def excluded(text: str) -> list[tuple[str, str, str]]:
    return [("R-053", "error", f"the summary of `p` {text}")]


@pytest.mark.parametrize(
    ("source", "values", "summary", "message"),
    [
        (STRING, ["a", "c"], ("b", "c"), "has the lower bound `b`, but there is `a`, first in `s3://b/0`"),
        (STRING, ["a", "c"], ("a", "b"), "has the upper bound `b`, but there is `c`, first in `s3://b/1`"),
        (LONG, [1, -5], (1, 1), "has the lower bound `1`, but there is `-5`, first in `s3://b/1`"),
        (DOUBLE, [-0.0], (0.0, 0.0), "has the lower bound `0.0`, but there is `-0.0`, first in `s3://b/0`"),
        (
            DecimalType(38, 0),
            [Decimal(2**64), Decimal(-(2**64))],
            (Decimal(-(2**64)), Decimal(2**64 - 1)),
            f"has the upper bound `{2**64 - 1}`, but there is `{2**64}`, first in `s3://b/0`",
        ),
    ],
)  # fmt: skip
def test_r053_a_summary_that_excludes_a_value(source, values, summary, message):
    assert told(check(source, *values, summary=between(source, *summary))) == excluded(message)


def test_r053_a_summary_may_be_wider_than_the_values():
    assert told(check(LONG, 1, summary=between(LONG, -100, 100, null=True, nan=True))) == []


def test_r053_a_summary_without_a_bound_says_that_there_is_no_value():
    found = told(check(LONG, 1, None, summary=between(LONG, None, None, null=True)))
    assert found == excluded("has no lower bound, but there are values")
    found = told(check(LONG, 1, summary=between(LONG, 1, None)))
    assert found == excluded("has no upper bound, but there are values")


def test_r053_a_summary_says_whether_there_are_nulls():
    found = told(check(LONG, 1, None, summary=between(LONG, 1, 1)))
    assert found == excluded("says that there is no null, but there is")
    assert told(check(LONG, None, summary=between(LONG, None, None, null=True))) == []


def test_r053_a_summary_says_whether_there_is_nan():
    found = told(check(DOUBLE, NAN, 1.0, summary=between(DOUBLE, 1.0, 1.0, nan=False)))
    assert found == excluded("says that there is no NaN, but there is")
    for nan in (True, None):
        summary = between(DOUBLE, 1.0, 1.0, nan=nan)
        assert told(check(DOUBLE, NAN, 1.0, summary=summary)) == []
    summary = FieldSummary(contains_null=False, contains_nan=True)
    assert told(check(DOUBLE, NAN, summary=summary)) == []


def test_r053_a_bound_that_does_not_decode():
    found = told(check(LONG, 1, summary=FieldSummary(False, None, b"\x01", b"\x01")))
    assert found == excluded("has a lower bound that does not decode")


def test_r053_r096_a_bound_keeps_the_type_of_write_time():
    narrow = FieldSummary(False, None, (1).to_bytes(4, "little"), (7).to_bytes(4, "little"))
    assert told(check(LONG, 1, 7, summary=narrow)) == []
    found = told(check(LONG, 8, summary=narrow))
    assert found == excluded("has the upper bound `7`, but there is `8`, first in `s3://b/0`")


def test_r053_the_order_of_uuids_is_not_relied_on():
    low, high = UUID(int=1), UUID(int=2**128 - 1)  # the other way round as signed numbers
    source = PrimitiveType("uuid")
    assert told(check(source, low, high, summary=between(source, high, low))) == []


def test_r053_every_row_of_a_list_has_its_own_summary():
    schema = Schema(0, (NestedField(2, "x", LONG, required=False),))
    spec = PartitionSpec(0, (PartitionField((2,), 1000, "p", parse_transform("identity")),))
    rows = stored(data("s3://b/0", partition_key=encode_key([LONG], [5])))
    described = [
        manifest(partition_spec_id=0, partitions=(between(LONG, low, 9),)) for low in (5, 6)
    ]
    of = header(partition_record=((1000, "long"),))
    metadata = table(schemas=(schema,), partition_specs=(spec,))
    found = check_manifest(metadata, described, of, 1234, rows, RULES_OF_PARTITIONS)
    assert told(found) == excluded("has the lower bound `6`, but there is `5`, first in `s3://b/0`")


def test_r068_partitions_are_stored_with_the_ids_of_the_spec():
    found = checked(check(LONG, 1, record=((1001, "long"),)))
    assert [(one.rule, one.severity, one.subject, one.message) for one in found] == [
        (
            "R-068",
            "error",
            MANIFEST,
            "its partitions have fields [1001], those of its spec are [1000]",
        )
    ]


def test_r068_partitions_of_version_1_may_go_by_position():
    assert told(check(LONG, 1, record=((None, "long"),), version=1)) == []
    found = told(check(LONG, 1, record=(), version=1))
    message = "its partitions have fields [], those of its spec are [1000]"
    assert found == [("R-068", "error", message)]


def test_r068_fields_that_the_spec_has_not_are_passed_over():
    found = told(check(LONG, 1, record=((1001, "string"), (1000, "long"))))
    message = "its partitions have fields [1001, 1000], its spec only [1000]"
    assert found == [("R-068", "warning", message)]


def test_r068_partitions_have_a_value_for_each_field():
    two = join_values([b"\x01" * 8, b"\x02" * 8])
    message = "a partition has not as many values as its spec has fields, 1"
    assert told(check(LONG, two)) == [("R-068", "error", message)]
    assert told(check(LONG, b"")) == [("R-068", "error", message)]


def test_r071_values_are_stored_as_their_type():
    found = told(check(LONG, 1, kind="string"))
    assert found == [("R-071", "error", "the values of `p` are stored as `string`, not `long`")]


@pytest.mark.parametrize(
    ("source", "value", "transform", "kind"),
    [
        (LONG, 1, "identity", "int"),  # written before the column was promoted
        (PrimitiveType("timestamptz"), 1, "day", "int"),
        (STRING, 1, "bucket[4]", "int"),
        (DecimalType(9, 2), Decimal("1.00"), "identity", "bytes"),
        (PrimitiveType("binary"), None, "identity", "bytes"),
        (STRING, None, "void", "int"),
        (STRING, None, "curve", "double"),
    ],
)
def test_r071_types_that_a_value_may_be_stored_as(source, value, transform, kind):
    key = encode_key([source if isinstance(value, Decimal) else LONG], [value])
    assert told(check(source, key, transform=transform, kind=kind)) == []


def test_r071_values_that_are_not_of_their_type():
    short = join_values([b"\x01\x02"])
    message = "a value of `p` is not of type `long`, first in `s3://b/1`"
    assert told(check(LONG, 1, short)) == [("R-071", "error", message)]
    message = "a value of `p` is not of type `string`, first in `s3://b/0`"
    assert told(check(STRING, join_values([b"\xff"]), "a")) == [("R-071", "error", message)]


def test_r071_integers_have_four_bytes():
    key = encode_key([LONG], [2**31])
    message = (
        "the value 2147483648 of `p` is not between -2147483648 and 2147483647, first in `s3://b/1`"
    )
    assert told(check(INT, -(2**31), key)) == [("R-071", "error", message)]


def test_r073_buckets_are_below_their_number():
    keys = [encode_key([INT], [value]) for value in (0, 3, 4, -1)]
    assert told(check(STRING, *keys[:2], transform="bucket[4]", kind="int")) == []
    assert told(check(STRING, *keys, transform="bucket[4]", kind="int")) == [
        ("R-073", "error", "the value -1 of `p` is not between 0 and 3, first in `s3://b/3`"),
        ("R-073", "error", "the value 4 of `p` is not between 0 and 3, first in `s3://b/2`"),
    ]


def test_values_of_an_unknown_transform_are_only_null_or_not():
    key = join_values([b"\x01\x02\x03"])
    summary = FieldSummary(contains_null=False)
    assert told(check(LONG, key, transform="curve", summary=summary)) == []
    found = told(check(LONG, key, None, transform="curve", summary=summary))
    assert found == excluded("says that there is no null, but there is")


def test_a_manifest_without_entries_breaks_no_summary():
    assert told(check(LONG, summary=FieldSummary(contains_null=False))) == []
