"""Rows of the views that need the metadata file alone."""

from dataclasses import replace
from typing import Any

import pytest

from icectl.commands.inspect.metadata_rows import METADATA_VIEWS, metadata_rows, names_by_snapshot
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.snapshot import (
    MetadataLogEntry,
    PartitionStatisticsFile,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    StatisticsFile,
)
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from icectl.format.types import ListType, NestedField, PrimitiveType, StructType

INT, STRING = PrimitiveType("int"), PrimitiveType("string")
OLD = Schema(
    0, (NestedField(1, "id", INT, required=True), NestedField(2, "was", INT, required=False))
)
POINT = StructType((NestedField(5, "x", INT, required=False, doc="east"),))
NEW = Schema(
    1,
    (
        NestedField(1, "id", INT, required=True),
        NestedField(3, "tags", ListType(4, STRING, element_required=False), required=False),
        NestedField(6, "at", POINT, required=False, initial_default=None, write_default=None),
        NestedField(7, "kind", STRING, required=False, initial_default="a", write_default="b"),
    ),
    identifier_field_ids=(1,),
)
METADATA = TableMetadata(
    format_version=2,
    table_uuid=None,
    location="/t",
    last_sequence_number=2,
    last_updated_ms=1_750_000_002_000,
    last_column_id=7,
    schemas=(OLD, NEW),
    current_schema_id=1,
    partition_specs=(
        PartitionSpec(0, ()),
        PartitionSpec(1, (PartitionField((2,), 1000, "was_bucket", parse_transform("bucket[4]")),)),
    ),
    default_spec_id=1,
    last_partition_id=1000,
    sort_orders=(
        SortOrder(0, ()),
        SortOrder(1, (SortField((1,), parse_transform("identity"), "desc", "nulls-last"),)),
    ),
    default_sort_order_id=1,
    properties={"b": "2", "a": "1"},
    current_snapshot_id=9_007_199_254_740_993,
    snapshots=(
        Snapshot(5, 1_750_000_000_123, summary={"operation": "append", "added-records": "4"}),
        Snapshot(
            9_007_199_254_740_993, 1_750_000_001_000, 5, 2, "/t/metadata/snap.avro", schema_id=1
        ),
    ),
    refs={
        "main": SnapshotRef(9_007_199_254_740_993, "branch", 3, 1_000, None),
        "first": SnapshotRef(5, "tag", None, None, 2_000),
    },
    snapshot_log=(
        SnapshotLogEntry(1_750_000_000_123, 5),
        SnapshotLogEntry(1_750_000_000_500, 4),
        SnapshotLogEntry(1_750_000_001_000, 9_007_199_254_740_993),
    ),
    metadata_log=(
        MetadataLogEntry(1_750_000_000_000, "/t/metadata/v1.metadata.json"),
        MetadataLogEntry(1_750_000_000_500, "/t/metadata/v2.metadata.json"),
    ),
    statistics=(
        StatisticsFile(
            5, "/t/metadata/a.stats", 900, 100,
            ({"type": "apache-datasketches-theta-v1", "snapshot-id": 5, "sequence-number": 1,
              "fields": [1], "properties": {"ndv": "4"}},),
        ),
    ),
    partition_statistics=(PartitionStatisticsFile(5, "/t/metadata/p.parquet", 700),),
)  # fmt: skip
BIG = "9007199254740993"


def rows(view: str) -> list[dict[str, Any]]:
    found = metadata_rows(view, METADATA, "/t/metadata/v3.metadata.json")
    read = [dict(row) for row in found.rows]
    assert all(tuple(row) == found.columns for row in read)
    return read


def test_snapshots_tell_their_refs_and_keep_the_operation_out_of_the_summary():
    first, second = rows("snapshots")
    assert first == {
        "committed_at": "2025-06-15T15:06:40.123Z", "snapshot_id": "5", "parent_id": None,
        "operation": "append", "manifest_list": None, "summary": {"added-records": "4"},
        "sequence_number": 0, "schema_id": None, "refs": ["first"],
    }  # fmt: skip
    assert (second["snapshot_id"], second["parent_id"], second["summary"]) == (BIG, "5", None)
    assert names_by_snapshot(METADATA) == {5: ["first"], 9_007_199_254_740_993: ["main"]}


def test_history_marks_ancestors_and_keeps_expired_snapshots():
    assert [tuple(row.values()) for row in rows("history")] == [
        ("2025-06-15T15:06:40.123Z", "5", None, True),
        ("2025-06-15T15:06:40.500Z", "4", None, False),
        ("2025-06-15T15:06:41Z", BIG, "5", True),
    ]


def test_refs_have_the_retention_that_they_set():
    assert [tuple(row.values()) for row in rows("refs")] == [
        ("main", "BRANCH", BIG, None, 3, 1_000),
        ("first", "TAG", "5", 2_000, None, None),
    ]


def test_schemas_list_fields_of_any_depth_by_dotted_name():
    found = rows("schemas")
    assert [(row["schema_id"], row["name"], row["field_id"]) for row in found] == [
        (0, "id", 1), (0, "was", 2), (1, "id", 1), (1, "tags", 3), (1, "tags.element", 4),
        (1, "at", 6), (1, "at.x", 5), (1, "kind", 7),
    ]  # fmt: skip
    assert [row["is_identifier"] for row in found[:3]] == [False, False, True]
    assert {row["schema_id"] for row in found if row["is_current"]} == {1}
    assert (found[-1]["initial_default"], found[-1]["write_default"]) == ("a", "b")
    assert [row["doc"] for row in found if row["doc"]] == ["east"]


def test_specs_name_sources_that_the_schema_dropped_and_show_the_unpartitioned():
    unpartitioned, bucket = rows("specs")
    assert (unpartitioned["spec_id"], unpartitioned["field_id"]) == (0, None)
    assert bucket == {
        "spec_id": 1, "is_default": True, "field_id": 1000, "name": "was_bucket",
        "transform": "bucket[4]", "source_ids": [2], "source_names": ["was"],
    }  # fmt: skip


def test_sort_orders_list_keys_in_order_and_show_the_unsorted():
    unsorted, descending = rows("sort-orders")
    assert (unsorted["order_id"], unsorted["is_default"], unsorted["position"]) == (0, False, None)
    assert tuple(descending.values()) == (
        1, True, 0, "identity", [1], ["id"], "desc", "nulls-last",
    )  # fmt: skip


def test_properties_are_sorted():
    assert rows("properties") == [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]


def test_metadata_log_ends_with_the_file_in_use():
    assert [tuple(row.values()) for row in rows("metadata-log")] == [
        ("2025-06-15T15:06:40Z", "/t/metadata/v1.metadata.json", None, None, None),
        ("2025-06-15T15:06:40.500Z", "/t/metadata/v2.metadata.json", None, None, None),
        ("2025-06-15T15:06:42Z", "/t/metadata/v3.metadata.json", BIG, 1, 2),
    ]


def test_statistics_of_the_table_and_of_partitions():
    table, partition = rows("statistics")
    assert table["blobs"] == [
        {
            "type": "apache-datasketches-theta-v1", "snapshot_id": "5", "sequence_number": 1,
            "fields": [1], "properties": {"ndv": "4"},
        }
    ]  # fmt: skip
    assert (partition["kind"], partition["file_size_in_bytes"]) == ("partition", 700)


@pytest.mark.parametrize("view", sorted(METADATA_VIEWS))
def test_every_view_of_a_bare_table_can_be_read(view):
    bare = replace(
        METADATA, current_snapshot_id=None, snapshots=(), refs={}, snapshot_log=(), properties={},
        metadata_log=(), statistics=(), partition_statistics=(),
    )  # fmt: skip
    expected = {"schemas": 8, "specs": 2, "sort-orders": 2, "metadata-log": 1}
    found = metadata_rows(view, bare, "/t/metadata/v3.metadata.json")
    assert len(list(found.rows)) == expected.get(view, 0)
