"""Manifests and manifest lists of other writers, and what other readers make of ours."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from icectl.entries import rows
from icectl.entries.partition_key import decode_key, encode_key
from icectl.entries.rows import ALL_COLUMNS, CARRIED, PLANNING, PLANNING_COLUMNS
from icectl.errors import CorruptTable, StorageError, Unsupported
from icectl.files import compiled
from icectl.files.manifest.manifest import read_manifest
from icectl.files.manifest.manifest_list import read_manifest_list
from icectl.format.manifest import FieldSummary, ManifestContent, ManifestFile, Status
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.transforms import parse_transform
from icectl.format.types import DecimalType, NestedField, PrimitiveType
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries
from tests.builders.expiry import context_of
from tests.builders.foreign_table import facts_of, open_foreign
from tests.builders.plain_manifests import list_of, manifest_of

FORMATS = {"AVRO": 1, "ORC": 2, "PARQUET": 3, "PUFFIN": 4}
METRICS = CARRIED.names[:6]


def avro_files(fixtures_dir: Path, field: str) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """Avro files whose schema has a field of that name, with their records."""
    for path in sorted(fixtures_dir.rglob("*.avro")):
        content = path.read_bytes()
        if content[:4] != b"Obj\x01":
            continue
        reader = fastavro.reader(io.BytesIO(content))
        if any(
            part["name"] == field for part in json.loads(reader.metadata["avro.schema"])["fields"]
        ):
            yield path, list(reader)  # type: ignore[arg-type]


def flattened(record: dict[str, Any]) -> dict[str, Any]:
    """One entry as the columns of an entries table, null where the file has no such field."""
    stored = {**record, **record["data_file"]}
    stored["content"] = stored.get("content", 0)
    stored["location"] = stored["file_path"]
    stored["file_format"] = FORMATS[stored["file_format"].upper()]
    for name in METRICS:
        if stored.get(name) is not None:
            stored[name] = [(item["key"], item["value"]) for item in stored[name]]
    made = {"spec_id", "partition_key", "manifest", "manifest_pos"}
    return {
        name: stored.get(name) for name in (*PLANNING.names, *CARRIED.names) if name not in made
    }


@pytest.mark.parametrize("end", ["scan", "fastavro"])
def test_every_manifest_of_other_writers_reads_as_fastavro_reads_it(end, fixtures_dir, monkeypatch):
    if end == "fastavro":
        monkeypatch.setattr(compiled, "loops", lambda: None)
    count = 0
    for path, records in avro_files(fixtures_dir, "data_file"):
        _, entries = read_manifest(path.read_bytes(), columns=ALL_COLUMNS, manifest=3, spec=None)
        wanted = [flattened(record) for record in records]
        names = list(wanted[0]) if wanted else []
        assert entries.table.select(names).to_pylist() == wanted, path
        assert entries.table["manifest_pos"].to_pylist() == list(range(len(records)))
        assert set(entries.table["manifest"].to_pylist()) <= {3}
        count += 1
    assert count == 247


def test_every_manifest_list_of_other_writers_reads_as_fastavro_reads_it(fixtures_dir):
    count = 0
    for path, records in avro_files(fixtures_dir, "manifest_path"):
        for row, record in zip(read_manifest_list(path.read_bytes()), records, strict=True):
            for kind in ("added", "existing", "deleted"):
                old = record.get(f"{kind}_data_files_count")
                assert getattr(row, f"{kind}_files_count") == record.get(f"{kind}_files_count", old)
                assert getattr(row, f"{kind}_rows_count") == record.get(f"{kind}_rows_count")
            assert row.manifest_path == record["manifest_path"]
            assert row.manifest_length == record["manifest_length"]
            assert row.partition_spec_id == record["partition_spec_id"]
            assert row.content == record.get("content", 0)
            assert row.sequence_number == record.get("sequence_number", 0)
            assert row.min_sequence_number == record.get("min_sequence_number", 0)
            assert row.added_snapshot_id == record["added_snapshot_id"]
            assert row.first_row_id == record.get("first_row_id")
            assert row.key_metadata == record.get("key_metadata")
            summaries = record.get("partitions")
            if summaries is None:
                assert row.partitions is None
                continue
            assert row.partitions == tuple(
                FieldSummary(
                    one["contains_null"],
                    one.get("contains_nan"),
                    one["lower_bound"],
                    one["upper_bound"],
                )
                for one in summaries
            )
        count += 1
    assert count == 216


def test_encrypted_manifest_list_is_an_error_and_no_empty_list(fixtures_dir):
    content = (fixtures_dir / "iceberg-rust/avro/manifest-list-v3-encrypted.avro").read_bytes()
    with pytest.raises(Unsupported, match="encrypted"):
        read_manifest_list(content)


def test_an_avro_data_file_is_no_manifest(fixtures_dir):
    path = next((fixtures_dir / "impala/iceberg_avro_mixed/data").glob("*.avro"))
    with pytest.raises(CorruptTable) as caught:
        read_manifest(path.read_bytes(), columns=frozenset(), manifest=0, spec=None)
    assert caught.value.rule == "R-062"


def tables(fixtures_dir: Path) -> list[str]:
    facts = json.loads((fixtures_dir / "expected.json").read_text())["tables"]
    return [name for name, table in facts.items() if table["completeness"] in ("full", "manifests")]


def test_entries_of_every_snapshot_count_what_independent_readers_count(fixtures_dir):
    checked = row_ids = 0
    for name in tables(fixtures_dir):
        store, metadata = open_foreign(fixtures_dir, name)
        for facts in facts_of(fixtures_dir, name)["snapshots"]:
            snapshot = metadata.snapshot(facts["snapshot_id"])
            if facts.get("live_data_files") is None or snapshot is None:
                continue
            try:
                manifests = read_snapshot_manifests(store, metadata, snapshot)
            except StorageError:
                continue  # never published
            live = rows.live(
                load_entries(context_of(store=store), metadata, manifests, PLANNING_COLUMNS)
            )
            found = {
                "live_data_files": len(rows.data_files(live)),
                "position_delete_files": len(rows.position_delete_files(live)),
                "deletion_vectors": len(rows.deletion_vectors(live)),
                "equality_delete_files": len(rows.equality_delete_files(live)),
                "data_records": rows.total(rows.data_files(live), "record_count"),
            }
            assert found == {key: facts[key] for key in found}, (name, facts["snapshot_id"])
            checked += 1
            if facts.get("first_row_ids"):
                data = rows.data_files(live).table
                ids = {
                    location.rsplit("/", 1)[-1]: row_id
                    for location, row_id in zip(
                        data["location"].to_pylist(), data["first_row_id"].to_pylist(), strict=True
                    )
                }
                assert ids == facts["first_row_ids"], name
                row_ids += 1
    assert (checked, row_ids) == (202, 8)


TYPES = (
    PrimitiveType("string"), DecimalType(9, 2), PrimitiveType("uuid"), PrimitiveType("date"),
    DecimalType(9, 2),
)  # fmt: skip
SCHEMA = Schema(
    5,
    (
        NestedField(1, "name", TYPES[0], required=False),
        NestedField(2, "price", TYPES[1], required=False),
        NestedField(3, "id", TYPES[2], required=False),
        NestedField(4, "day at", TYPES[3], required=False),
        NestedField(6, "cost", TYPES[4], required=False),
        NestedField(5, "n", PrimitiveType("long"), required=False),
    ),
)
SPEC = PartitionSpec(
    3,
    tuple(
        PartitionField((field.id,), 999 + field.id, field.name, parse_transform("identity"))
        for field in SCHEMA.fields[:5]
    ),
)


def written(format_version: int, codec: str = "deflate") -> bytes:
    """A manifest of 40 entries with metrics; EXISTING ones carry their numbers."""
    from decimal import Decimal
    from uuid import UUID

    partitions = [
        (None,) * 5,
        (
            "a", Decimal("-1.50"), UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 17_486,
            Decimal("2.25"),
        ),
    ]  # fmt: skip
    stored = [
        {
            "content": 0, "status": at % 2, "location": f"s3://b/t/{at}.parquet",
            "file_format": 3, "spec_id": 3,
            "partition_key": encode_key(TYPES, partitions[at // 2 % 2]), "record_count": 10 + at,
            "file_size_in_bytes": 1000 + at, "snapshot_id": 70 + at % 2,
            "sequence_number": None if at % 2 else 6,
            "file_sequence_number": None if at % 2 else 7, "sort_order_id": 0, "manifest": 0,
            "manifest_pos": at, "column_sizes": [(1, 100), (5, 8)], "value_counts": [(1, 10)],
            "null_value_counts": [(1, 0)], "lower_bounds": [(1, b"a")],
            "upper_bounds": [(1, b"z")], "split_offsets": [4, 1 << 33],
        }
        for at in range(40)
    ]  # fmt: skip
    table = pa.Table.from_pylist(stored, schema=pa.schema([*PLANNING, *CARRIED]))
    return manifest_of(
        table, SCHEMA, SPEC, format_version=format_version, snapshot_id=71, codec=codec
    )


@pytest.mark.parametrize("end", ["encoder", "fastavro"])
@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_pyiceberg_reads_what_icectl_writes(format_version, end, tmp_path, monkeypatch):
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import read_manifest_list as read_with_pyiceberg

    if end == "fastavro":
        monkeypatch.setattr(compiled, "loops", lambda: None)
    manifest_path, list_path = tmp_path / "m0.avro", tmp_path / "snap.avro"
    manifest_path.write_bytes(written(format_version))
    one = ManifestFile(
        str(manifest_path),
        manifest_path.stat().st_size,
        3,
        ManifestContent.DATA,
        8 if format_version > 1 else 0,
        6 if format_version > 1 else 0,
        71,
        20,
        20,
        0,
        600,
        590,
        0,
        (FieldSummary(contains_null=True, contains_nan=False, lower_bound=b"a", upper_bound=b"a"),)
        * 5,
    )
    list_path.write_bytes(
        list_of([one], 71, 8, format_version=format_version, parent_snapshot_id=70, first_row_id=0)
    )
    io_ = PyArrowFileIO()
    (listed,) = read_with_pyiceberg(io_.new_input(str(list_path)))
    assert listed.partition_spec_id == 3
    assert (listed.added_files_count, listed.existing_rows_count) == (20, 590)
    found = listed.fetch_manifest_entry(io_, discard_deleted=False)
    assert [int(entry.status) for entry in found] == [at % 2 for at in range(40)]
    assert [entry.snapshot_id for entry in found] == [70 + at % 2 for at in range(40)]
    if format_version > 1:
        assert [entry.sequence_number for entry in found] == [
            8 if at % 2 else 6 for at in range(40)
        ]
    file = found[2].data_file
    assert file.file_path == "s3://b/t/2.parquet"
    assert file.record_count == 12
    assert file.column_sizes == {1: 100, 5: 8}
    assert file.upper_bounds == {1: b"z"}
    assert file.split_offsets == [4, 1 << 33]
    assert [str(file.partition[at]) for at in (1, 4)] == ["-1.50", "2.25"]
    assert [found[0].data_file.partition[at] for at in range(5)] == [None] * 5


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_fastavro_reads_what_icectl_writes(codec):
    records: list[Any] = list(fastavro.reader(io.BytesIO(written(2, codec))))  # type: ignore[arg-type]
    assert [record["data_file"]["record_count"] for record in records] == list(range(10, 50))
    partition = records[2]["data_file"]["partition"]
    assert partition["name"] == "a"
    assert (str(partition["price"]), str(partition["cost"])) == ("-1.50", "2.25")
    assert partition["id"].hex() == "f79c3e09677c4bbda4793f349cb785e7"
    assert partition["day_x20at"].isoformat() == "2017-11-16"
    assert records[1]["sequence_number"] is None
    assert records[0]["file_sequence_number"] == 7


def test_r083_partition_values_survive_a_manifest():
    _, entries = read_manifest(written(2), columns=PLANNING_COLUMNS, manifest=0, spec=SPEC)
    keys = entries.table["partition_key"].to_pylist()
    assert decode_key(keys[0], TYPES) == (None,) * 5
    assert [str(value) for value in decode_key(keys[2], TYPES)] == [
        "a", "-1.50", "f79c3e09-677c-4bbd-a479-3f349cb785e7", "17486", "2.25",
    ]  # fmt: skip


def test_statuses_of_written_entries_are_kept():
    _, entries = read_manifest(written(3), columns=frozenset(), manifest=0, spec=SPEC)
    assert rows.count_by_value(entries, "status") == {Status.EXISTING: 20, Status.ADDED: 20}  # type: ignore[arg-type]
