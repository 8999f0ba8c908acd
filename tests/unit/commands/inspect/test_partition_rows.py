"""Rows of the partitions view."""

from dataclasses import replace

import pyarrow as pa

from icectl.commands.inspect.partitions import partition_columns, partition_rows
from icectl.entries.partition_key import encode_key
from icectl.entries.rows import PLANNING, Entries
from icectl.format.manifest import Content, FileFormat, Status
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.snapshot import Snapshot
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from tests.builders.plain_metadata import plain_metadata

INT = PrimitiveType("int")
SPEC = PartitionSpec(0, (PartitionField((1,), 1000, "region", parse_transform("identity")),))
METADATA = plain_metadata(
    Schema(0, (NestedField(1, "region", INT, required=False),)),
    SPEC,
    format_version=3,
    last_sequence_number=2,
    # Two commits of one millisecond: their sequence numbers tell which is newer.
    snapshots=(
        Snapshot(1, 1_000, sequence_number=2),
        Snapshot(2, 1_000, 1, sequence_number=1),
        Snapshot(3, 500, sequence_number=3),
    ),
)


def row(region: int | None, snapshot_id: int, size: int = 100, **more: object) -> dict[str, object]:
    return {
        "content": 0, "status": int(Status.ADDED), "location": "/t/x",
        "file_format": int(FileFormat.PARQUET), "spec_id": 0,
        "partition_key": encode_key((INT,), (region,)), "record_count": 10,
        "file_size_in_bytes": size, "snapshot_id": snapshot_id, "manifest": 0, "manifest_pos": 0,
    } | more  # fmt: skip


def batch(*rows: dict[str, object]) -> Entries:
    return Entries(pa.Table.from_pylist(list(rows), schema=PLANNING))


def test_partitions_are_added_up_over_manifests_null_first():
    vector = {"content": int(Content.POSITION_DELETES), "file_format": int(FileFormat.PUFFIN)}
    first = batch(row(10, 2), row(None, 3), row(9, 3, status=int(Status.DELETED)))
    second = batch(
        row(10, 1, 40, record_count=5),
        row(10, 3, record_count=2, **vector),
        row(-5, 77),
        row(10, 3, content=int(Content.POSITION_DELETES), record_count=3),
        row(10, 3, content=int(Content.EQUALITY_DELETES), record_count=1),
    )
    found = partition_rows([first, second], METADATA)
    rows = list(found.rows)
    assert [each["partition"] for each in rows] == [
        {"region": None},
        {"region": -5},
        {"region": 10},
    ]
    assert {name: rows[2][name] for name in found.columns} == {
        "partition": {"region": 10}, "spec_id": 0, "record_count": 15, "file_count": 2,
        "total_data_file_size_in_bytes": 140, "position_delete_record_count": 5,
        "position_delete_file_count": 2, "equality_delete_record_count": 1,
        "equality_delete_file_count": 1, "last_updated_at": "1970-01-01T00:00:01Z",
        "last_updated_snapshot_id": "1",
    }  # fmt: skip
    assert rows[2]["partition_path"] == "region=10"
    assert (rows[1]["last_updated_at"], rows[1]["last_updated_snapshot_id"]) == (None, None)


def test_an_unpartitioned_table_has_no_partition_columns():
    plain = replace(METADATA, partition_specs=(PartitionSpec(0, ()),))
    assert partition_columns(METADATA)[:2] == ("partition", "spec_id")
    assert partition_columns(plain)[0] == "record_count"
    assert list(partition_rows([], plain).rows) == []
