"""Rows of files, entries and manifests: columns, metrics, bounds."""

import pyarrow as pa
import pytest

from icectl.commands.inspect.metadata_rows import manifest_row
from icectl.commands.inspect.read_rows import entry_rows, file_rows, source_columns
from icectl.entries.partition_key import encode_key
from icectl.entries.rows import CARRIED, PLANNING, Entries
from icectl.errors import UsageError
from icectl.format.manifest import FieldSummary, FileFormat, ManifestContent, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.sort import SortOrder
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType, StructType

LONG = PrimitiveType("long")
MONTH = PartitionField((2,), 1000, "month", parse_transform("month"))
METADATA = TableMetadata(
    format_version=2,
    table_uuid=None,
    location="/t",
    last_sequence_number=2,
    last_updated_ms=0,
    last_column_id=4,
    schemas=(
        Schema(
            0,
            (
                NestedField(1, "a.b", LONG, required=True),
                NestedField(2, "at", PrimitiveType("timestamp"), required=False),
                NestedField(
                    3, "p", StructType((NestedField(4, "x", LONG, required=False),)), required=False
                ),
            ),
        ),
    ),
    current_schema_id=0,
    partition_specs=(PartitionSpec(0, (MONTH,)),),
    default_spec_id=0,
    last_partition_id=1000,
    sort_orders=(SortOrder(0, ()),),
    default_sort_order_id=0,
)
STORED = {
    "content": 0,
    "status": int(Status.ADDED),
    "location": "/t/data/1.parquet",
    "file_format": int(FileFormat.PARQUET),
    "spec_id": 0,
    "partition_key": encode_key((PrimitiveType("int"),), (648,)),
    "record_count": 3,
    "file_size_in_bytes": 1_000,
    "snapshot_id": 9_007_199_254_740_993,
    "sequence_number": 2,
    "file_sequence_number": 2,
    "manifest": 0,
    "manifest_pos": 0,
    "column_sizes": [(1, 40), (4, 50)],
    "value_counts": [(1, 3)],
    # Four bytes in a column of long are of the time when it was int.
    "lower_bounds": [(1, (5).to_bytes(4, "little")), (4, b"\x01")],
    "upper_bounds": [(1, (1 << 60).to_bytes(8, "little"))],
    "key_metadata": b"\xca\xfe",
    "split_offsets": [4],
}


def batch(*more: dict[str, object]) -> Entries:
    rows = [STORED | each for each in more or ({},)]
    return Entries(pa.Table.from_pylist(rows, schema=pa.schema([*PLANNING, *CARRIED])))


def test_values_take_the_forms_of_json():
    columns = (
        "file_path", "file_format", "partition", "partition_path", "snapshot_id", "column_sizes",
        "lower_bounds", "nan_value_counts", "key_metadata", "split_offsets", "equality_ids",
    )  # fmt: skip
    (row,) = file_rows([batch()], METADATA, columns)
    assert tuple(row.items()) == (
        ("file_path", "/t/data/1.parquet"), ("file_format", "PARQUET"),
        ("partition", {"month": 648}), ("partition_path", "month=2024-01"),
        ("snapshot_id", "9007199254740993"), ("column_sizes", {"1": 40, "4": 50}),
        ("lower_bounds", {"1": "05000000", "4": "01"}), ("nan_value_counts", None),
        ("key_metadata", "cafe"), ("split_offsets", [4]), ("equality_ids", None),
    )  # fmt: skip


def test_r096_readable_metrics_decode_bounds_of_the_width_they_were_written_in():
    (row,) = file_rows([batch()], METADATA, ("readable_metrics",))
    metrics = row["readable_metrics"]
    assert list(metrics) == ["a.b", "at", "p.x"]
    assert metrics["a.b"] == {
        "column_size": 40, "value_count": 3, "null_value_count": None, "nan_value_count": None,
        "lower_bound": 5, "upper_bound": 1 << 60,
    }  # fmt: skip
    assert metrics["p.x"]["lower_bound"] is None


def test_a_dot_goes_below_a_column_even_where_names_hold_dots():
    columns = (
        "readable_metrics.a.b.upper_bound",
        "partition.month",
        "readable_metrics.none.at_all",
    )
    (row,) = file_rows([batch()], METADATA, columns)
    assert tuple(row.values()) == (1 << 60, 648, None)


def test_below_a_value_that_has_no_members_there_is_nothing():
    (row,) = file_rows([batch()], METADATA, ("record_count.x", "partition.month.x"))
    assert tuple(row.values()) == (None, None)


def test_r110_files_leave_out_deleted_entries_and_entries_keep_them():
    stored = batch({}, {"status": int(Status.DELETED), "manifest_pos": 1})
    assert len(list(file_rows([stored], METADATA, ("record_count",)))) == 1
    rows = list(entry_rows([stored], METADATA, ("status", "data_file.record_count", "data_file")))
    assert [row["status"] for row in rows] == [1, 2]
    assert rows[0]["data_file.record_count"] == rows[0]["data_file"]["record_count"] == 3
    assert "readable_metrics" not in rows[0]["data_file"]


def test_only_the_columns_that_are_shown_are_asked_of_the_manifests():
    assert source_columns(["file_path", "record_count"]) == {"location", "record_count"}
    assert source_columns(["partition.month"]) == {"spec_id", "partition_key"}
    assert source_columns(["data_file.file_path", "status"]) == {"location", "status"}
    assert "lower_bounds" in source_columns(["readable_metrics.a.b.lower_bound"])
    with pytest.raises(UsageError, match="there is no column `path`"):
        source_columns(["path"])


def manifest(spec_id: int, lower: bytes | None) -> ManifestFile:
    summary = FieldSummary(contains_null=False, lower_bound=lower, upper_bound=lower)
    return ManifestFile(
        "/t/metadata/m.avro", 500, spec_id, ManifestContent.DELETES, 2, 2, None,
        1, 0, None, partitions=(summary,),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spec_id", "lower", "shown"),
    [
        (0, (648).to_bytes(4, "little"), "2024-01"),
        (0, None, None),
        (0, b"\x01", "01"),
        (7, b"\x01\x02", "0102"),
    ],
)
def test_bounds_of_manifests_are_printed_as_their_transform_does(spec_id, lower, shown):
    (summary,) = manifest_row(METADATA, manifest(spec_id, lower))["partition_summaries"]
    assert summary["lower_bound"] == summary["upper_bound"] == shown


def test_r051_counts_that_a_list_does_not_tell_are_null_on_the_side_of_the_content():
    row = manifest_row(METADATA, manifest(0, None))
    assert (row["added_delete_files_count"], row["deleted_delete_files_count"]) == (1, None)
    assert (row["added_data_files_count"], row["deleted_data_files_count"]) == (0, 0)
    assert row["added_snapshot_id"] is None
