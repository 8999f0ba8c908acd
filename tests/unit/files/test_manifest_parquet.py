"""Manifests in Parquet: as Iceberg 1.12's writer lays them out, read and written."""

import io
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.entries.inherit import inherit
from icectl.entries.rows import ALL_COLUMNS, numbers
from icectl.errors import CorruptTable, Unsupported
from icectl.files.manifest.manifest import read_manifest
from icectl.files.manifest.move import in_file_format, move_entries
from icectl.files.manifest.write import ManifestForm, write_manifest
from icectl.format.manifest import FileFormat, ManifestContent, ManifestFile
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.transforms import parse_transform
from icectl.format.types import DecimalType, NestedField, PrimitiveType


def field(number: int, name: str, kind: pa.DataType, *, required: bool = False) -> pa.Field:
    return pa.field(name, kind, not required, {"PARQUET:field_id": str(number)})


def counts(key: int, value: int, kind: pa.DataType) -> pa.DataType:
    return pa.map_(
        field(key, "key", pa.int32(), required=True), field(value, "value", kind, required=True)
    )


def stored(tuples: pa.DataType | None, **changes: Any) -> bytes:
    """A manifest with one entry, with the columns and ids that Iceberg 1.12 was seen to write."""
    parts = [] if tuples is None else [field(102, "partition", tuples, required=True)]
    data_file = pa.struct(
        [
            field(134, "content", pa.int32(), required=True),
            field(100, "file_path", pa.string(), required=True),
            field(101, "file_format", pa.string(), required=True),
            *parts,
            field(103, "record_count", pa.int64(), required=True),
            field(104, "file_size_in_bytes", pa.int64(), required=True),
            field(109, "value_counts", counts(119, 120, pa.int64())),
            field(125, "lower_bounds", counts(126, 127, pa.binary())),
            field(132, "split_offsets", pa.list_(field(133, "element", pa.int64(), required=True))),
            field(142, "first_row_id", pa.int64()),
            *changes.pop("more", ()),
        ]
    )
    schema = pa.schema(
        [
            field(0, "status", pa.int32(), required=True),
            field(1, "snapshot_id", pa.int64()),
            field(3, "sequence_number", pa.int64()),
            field(4, "file_sequence_number", pa.int64()),
            field(2, "data_file", data_file, required=True),
        ]
    )
    file = {
        "content": 0, "file_path": "file:/t/data/a.parquet", "file_format": "PARQUET",
        "record_count": 3, "file_size_in_bytes": 641, "value_counts": [(1, 3), (2, 3)],
        "lower_bounds": [(1, b"\x04\0\0\0\0\0\0\0"), (2, b"d")], "split_offsets": [4],
        "first_row_id": None, **changes,
    }  # fmt: skip
    row = {
        "status": 1, "snapshot_id": 77, "sequence_number": None, "file_sequence_number": None,
        "data_file": file,
    }  # fmt: skip
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, compression="gzip", store_schema=False) as writer:
        writer.write_table(pa.Table.from_pylist([row], schema))
        metadata = {"format-version": "4", "content": "data", "partition-spec-id": "5"}
        writer.add_key_value_metadata(metadata)
    return sink.getvalue()


DAY = PartitionField(
    source_ids=(4,), field_id=1000, name="day", transform=parse_transform("identity")
)
COST = PartitionField(
    source_ids=(5,), field_id=1001, name="cost", transform=parse_transform("identity")
)
LISTED = ManifestFile("m", 9_000, 0, ManifestContent.DATA, 9, 9, 77)
SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", PrimitiveType("long"), required=False),
        NestedField(4, "day", PrimitiveType("date"), required=False),
        NestedField(5, "cost", DecimalType(9, 2), required=False),
    ),
)


def test_the_entry_of_iceberg_1_12_is_read():
    partition = pa.struct([field(1000, "day", pa.date32())])
    content = stored(partition, partition={"day": date(2024, 1, 3)})
    header, entries = read_manifest(content, columns=ALL_COLUMNS, manifest=7, spec=None)
    (row,) = entries.table.to_pylist()
    assert (header.format_version, header.content, header.spec_id) == (4, ManifestContent.DATA, 5)
    assert (header.codec, header.partition_record) == ("gzip", ((1000, "int"),))
    assert row["location"] == "file:/t/data/a.parquet"
    assert (row["record_count"], row["file_size_in_bytes"], row["snapshot_id"]) == (3, 641, 77)
    assert (row["file_format"], row["manifest"], row["spec_id"]) == (FileFormat.PARQUET, 7, 5)
    # 2024-01-03 is day 19,725 since 1970: a length of 8, then the number.
    assert row["partition_key"] == b"\x01\x08\0\0\0" + (19_725).to_bytes(8, "little")
    assert row["value_counts"] == [(1, 3), (2, 3)]
    assert row["lower_bounds"] == [(1, b"\x04\0\0\0\0\0\0\0"), (2, b"d")]
    assert (row["split_offsets"], row["sequence_number"], row["first_row_id"]) == ([4], None, None)


def test_a_spec_without_fields_has_no_partition_in_the_file():
    _, entries = read_manifest(
        stored(None), columns=frozenset({"partition_key"}), manifest=0, spec=PartitionSpec(0, ())
    )
    assert entries.table["partition_key"].to_pylist() == [b""]


def test_r068_a_partition_of_another_spec_is_refused():
    partition = pa.struct([field(1000, "day", pa.date32()), field(1003, "b", pa.int32())])
    content = stored(partition, partition={"day": None, "b": 1})
    with pytest.raises(CorruptTable) as error:
        read_manifest(content, columns=ALL_COLUMNS, manifest=0, spec=PartitionSpec(0, (COST,)))
    assert error.value.rule == "R-068"


def test_r063_a_file_without_a_required_column_is_no_manifest():
    sink = io.BytesIO()
    schema = pa.schema([field(0, "status", pa.int32(), required=True)])
    pq.write_table(pa.table({"status": pa.array([1], pa.int32())}, schema=schema), sink)
    with pytest.raises(CorruptTable) as error:
        read_manifest(sink.getvalue(), columns=ALL_COLUMNS, manifest=0, spec=None)
    assert error.value.rule == "R-062"


def test_a_truncated_file_is_damaged():
    with pytest.raises(CorruptTable, match=r"the manifest file is damaged: [^()]* \(R-008\)$"):
        read_manifest(stored(None)[:-20], columns=ALL_COLUMNS, manifest=0, spec=None)


def test_what_is_written_holds_the_same_entries_and_the_ids_of_iceberg():
    spec = PartitionSpec(5, (DAY, COST))
    form = ManifestForm(SCHEMA, spec, 4, ManifestContent.DATA, FileFormat.PARQUET)
    fields = [field(1000, "day", pa.date32()), field(1001, "cost", pa.decimal128(9, 2))]
    partition = {"day": date(1969, 12, 31), "cost": Decimal("-1.50")}
    source = stored(pa.struct(fields), partition=partition)
    _, entries = read_manifest(source, columns=ALL_COLUMNS, manifest=0, spec=spec)
    written = in_file_format(
        write_manifest(
            entries, schema=SCHEMA, spec=spec, format_version=4, content=ManifestContent.DATA,
            snapshot_id=None, sync_marker=bytes(16),
        ),
        form,
    )  # fmt: skip
    header, again = read_manifest(written, columns=ALL_COLUMNS, manifest=0, spec=spec)
    assert again.table.equals(entries.table)
    assert (header.format_version, header.spec_id, header.codec) == (4, 5, "gzip")
    file = pq.ParquetFile(io.BytesIO(written))
    stored_file = file.schema_arrow.field("data_file").type
    ids = {one.name: int(one.metadata[b"PARQUET:field_id"]) for one in stored_file}
    assert (ids["partition"], ids["first_row_id"], ids["content_size_in_bytes"]) == (102, 142, 145)
    assert stored_file.field("partition").type.field("day").type == pa.date32()
    assert b"iceberg.schema" in file.metadata.metadata
    (row,) = file.read().to_pylist()
    assert row["data_file"]["partition"] == partition


def test_pages_are_compressed_as_hard_as_zlib_and_iceberg_do_by_themselves():
    spec = PartitionSpec(0, ())
    _, entries = read_manifest(stored(None), columns=ALL_COLUMNS, manifest=0, spec=spec)
    content = write_manifest(
        entries, schema=SCHEMA, spec=spec, format_version=4, content=ManifestContent.DATA,
        snapshot_id=None, sync_marker=bytes(16),
    )  # fmt: skip
    form = ManifestForm(SCHEMA, spec, 4, ManifestContent.DATA, FileFormat.PARQUET)
    written = in_file_format(content, form)
    member = b"\x1f\x8b\x08" + bytes(5)  # RFC 1952: no flags, no time, then how hard
    assert member + b"\0" in written
    assert member + b"\2" not in written, "2 is for the hardest"


def test_entries_move_between_files_of_both_formats():
    spec = PartitionSpec(0, ())
    form = ManifestForm(SCHEMA, spec, 4, ManifestContent.DATA)
    source = stored(None)
    _, raw = read_manifest(source, columns=ALL_COLUMNS, manifest=0, spec=spec)
    entries = inherit(raw, [LISTED])
    ((piece, encoded, ends),) = move_entries(
        source, entries, numbers(entries, "manifest") * 0, form
    )
    assert (piece, len(ends), int(ends[-1])) == (0, 1, len(encoded))


def test_fields_that_a_rewrite_would_lose_are_told():
    spec = PartitionSpec(0, ())
    source = stored(None, more=[field(999, "later", pa.int32())], later=1)
    header, raw = read_manifest(source, columns=ALL_COLUMNS, manifest=0, spec=spec)
    assert header.unknown_field_ids == (999,)
    entries = inherit(raw, [LISTED])
    form = ManifestForm(SCHEMA, spec, 4, ManifestContent.DATA)
    with pytest.raises(Unsupported, match="ids 999"):
        list(move_entries(source, entries, numbers(entries, "manifest"), form))
