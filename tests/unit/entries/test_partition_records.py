"""Partition records over several specs: names, voids and reused ids."""

from dataclasses import replace

from icectl.entries.partition_key import encode_key
from icectl.entries.partition_records import json_value, partitions_of
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from tests.builders.plain_metadata import plain_metadata

DATE, INT, STRING = PrimitiveType("date"), PrimitiveType("int"), PrimitiveType("string")
SCHEMA = Schema(
    0,
    (
        NestedField(1, "at", PrimitiveType("timestamp"), required=False),
        NestedField(2, "region", STRING, required=False),
    ),
)


def field(source: int, field_id: int, name: str, transform: str) -> PartitionField:
    return PartitionField((source,), field_id, name, parse_transform(transform))


def table(*specs: PartitionSpec, version: int = 2) -> TableMetadata:
    return plain_metadata(
        SCHEMA,
        format_version=version,
        partition_specs=specs,
        default_spec_id=specs[-1].spec_id,
        last_partition_id=1001,
    )


BY_DAY = PartitionSpec(0, (field(1, 1000, "at_day", "day"),))
BY_BOTH = PartitionSpec(1, (field(1, 1000, "day", "day"), field(2, 1001, "region", "identity")))


def test_a_tuple_of_an_older_spec_has_null_for_newer_fields_and_the_newest_names():
    partitions = partitions_of(table(BY_DAY, BY_BOTH))
    key = encode_key((DATE,), (19_723,))
    assert partitions.names == ("day", "region")
    assert partitions.record(0, key) == {"day": "2024-01-01", "region": None}
    assert partitions.path(0, key) == "at_day=2024-01-01"


def test_a_field_dropped_to_void_keeps_the_name_it_had():
    dropped = PartitionSpec(1, (field(1, 1000, "at_day_1000", "void"),))
    partitions = partitions_of(table(BY_DAY, dropped))
    assert partitions.names == ("at_day",)
    assert partitions.record(0, encode_key((DATE,), (19_723,))) == {"at_day": "2024-01-01"}
    assert partitions.record(1, encode_key((DATE,), (None,))) == {"at_day": None}


def test_r078_one_id_for_two_columns_gives_two_names():
    other = PartitionSpec(1, (field(2, 1000, "region", "identity"),))
    partitions = partitions_of(table(BY_DAY, other, version=1))
    assert partitions.names == ("region", "at_day")
    assert partitions.record(1, encode_key((STRING,), ("eu",))) == {"region": "eu", "at_day": None}


def test_two_fields_of_one_name_are_told_apart_by_id():
    older = PartitionSpec(0, (field(1, 1000, "part", "day"),))
    newer = PartitionSpec(1, (field(2, 1001, "part", "identity"),))
    assert partitions_of(table(older, newer)).names == ("part_1000", "part")


def test_a_tuple_of_a_spec_that_the_table_lacks_has_no_values():
    partitions = partitions_of(table(BY_DAY))
    assert partitions.record(9, b"") == {"at_day": None}
    assert partitions.path(9, b"") == ""
    assert partitions.values(9, b"") == ()


def test_values_of_an_unknown_type_are_hexadecimal():
    unknown = PartitionSpec(0, (field(1, 1000, "part", "curve[3]"),))
    partitions = partitions_of(replace(table(unknown), schemas=()))
    assert partitions.record(0, b"\x01\x02\x00\x00\x00\xab\xcd") == {"part": "abcd"}
    assert json_value(None, None) is None
    assert json_value(INT, 3) == 3
