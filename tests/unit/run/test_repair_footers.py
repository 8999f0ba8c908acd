"""Which partition a data file is in, by its footer alone: one that is sure, or none."""

from typing import Any

import pytest

from icectl.codec.parquet.metrics import FileMetrics
from icectl.entries.partition.key import encode_key
from icectl.run.repair.footers import proven_partition
from icectl.spec.partition import PartitionField, PartitionSpec
from icectl.spec.single_value import encode
from icectl.spec.transforms import parse_transform
from icectl.spec.types import PrimitiveType
from tests.builders.data_files import schema


def proven(type_: str, transform: str, least: Any, greatest: Any, **told: Any) -> bytes | None:
    """What is proved of a file of four rows whose column ranges so."""
    kind = PrimitiveType(type_)
    facts: dict[str, Any] = {
        "value_counts": {3: 4},
        "null_value_counts": {3: 0},
        "lower_bounds": {3: encode(kind, least)},
        "upper_bounds": {3: encode(kind, greatest)},
    }
    spec = PartitionSpec(1, (PartitionField((3,), 1000, "p", parse_transform(transform)),))
    return proven_partition(spec, schema((3, "c", type_)), FileMetrics(4, **(facts | told)))


def key(type_: str, value: Any) -> bytes:
    return encode_key([PrimitiveType(type_)], [value])


@pytest.mark.parametrize(
    ("type_", "transform", "least", "greatest", "expected"),
    [
        ("int", "identity", 7, 7, key("int", 7)),
        ("int", "identity", 7, 8, None),
        ("string", "identity", "a", "a", key("string", "a")),
        ("string", "identity", "a", "b", None),
        ("int", "truncate[10]", -10, -1, key("int", -10)),
        ("int", "truncate[10]", -1, 0, None),
        ("string", "truncate[2]", "abc", "abz", key("string", "ab")),
        ("string", "truncate[2]", "abc", "acc", None),
        ("date", "year", 0, 364, key("int", 0)),
        ("date", "year", -1, 0, None),
        ("timestamp", "hour", 0, 3_599_999_999, key("int", 0)),
        ("timestamp", "hour", -1, 0, None),
        ("timestamp", "day", -1, -1, key("date", -1)),
        ("int", "bucket[16]", 34, 34, key("int", 3)),  # hashes to 2017239379, as the format says
        ("int", "bucket[1]", 34, 35, None),
        ("int", "void", 1, 2, key("int", None)),
        ("double", "identity", 1.0, 1.0, None),
        ("float", "identity", 1.0, 1.0, None),
        ("boolean", "truncate[2]", True, True, None),
    ],
)
def test_a_partition_is_sure_where_all_values_are_between_two_of_it(
    type_: str, transform: str, least: Any, greatest: Any, expected: bytes | None
) -> None:
    assert proven(type_, transform, least, greatest) == expected


@pytest.mark.parametrize(
    ("told", "is_null"),
    [
        ({"null_value_counts": {3: 4}}, True),
        ({"null_value_counts": {3: 4}, "lower_bounds": {}, "upper_bounds": {}}, True),
        ({"null_value_counts": {3: 1}}, False),
        ({"null_value_counts": {}}, False),
        ({"null_value_counts": {3: 3}, "value_counts": {3: 3}}, False),
        ({"null_value_counts": {3: 4}, "value_counts": {}}, False),
        ({"lower_bounds": {}}, False),
        ({"upper_bounds": {}}, False),
    ],
)
def test_nulls_are_a_partition_only_where_all_are(told: dict[str, Any], is_null: bool) -> None:
    assert proven("int", "identity", 7, 7, **told) == (key("int", None) if is_null else None)


def test_a_partition_without_fields_is_that_of_every_file() -> None:
    assert proven_partition(PartitionSpec(0, ()), schema(), FileMetrics(4)) == b""


def test_columns_that_the_table_has_no_more_prove_nothing() -> None:
    spec = PartitionSpec(1, (PartitionField((9,), 1000, "p", parse_transform("identity")),))
    assert proven_partition(spec, schema((3, "c", "int")), FileMetrics(4)) is None
    both = PartitionSpec(1, (PartitionField((3, 4), 1000, "p", parse_transform("identity")),))
    assert proven_partition(both, schema((3, "c", "int")), FileMetrics(4)) is None
