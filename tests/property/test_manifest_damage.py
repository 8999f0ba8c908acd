"""Every truncation and flipped bit of a small manifest, through both ends of the codec.

Agreement is: where the scan accepts a file, icectl's fastavro end reads the same table from it, and
where only blocks are damaged, plain fastavro reads the same values. The scan may refuse more: union
branches in more bytes than one, for instance. A file cut off between two blocks is a valid file
with fewer entries: nothing in Avro tells, only the counts of the manifest list do.
"""

import io
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from icectl.entries.partition_key import encode_key
from icectl.entries.rows import ALL_COLUMNS, CARRIED, PLANNING
from icectl.errors import CorruptTable, Unsupported
from icectl.files import compiled
from icectl.files.manifest.manifest import read_manifest
from icectl.files.manifest.manifest_list import read_manifest_list
from icectl.format.manifest import FieldSummary, ManifestContent, ManifestFile, Status
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from tests.builders.plain_manifests import list_of, manifest_of

SYNC = b"icectl-test-sync"
LOOPS = compiled.loops()
STRING = PrimitiveType("string")
SCHEMA = Schema(0, (NestedField(1, "name", STRING, required=False),))
SPEC = PartitionSpec(7, (PartitionField((1,), 1000, "name", parse_transform("identity")),))


def row(position: int, **values: Any) -> dict[str, Any]:
    """One data file's entry; values not named are null."""
    required = {
        "content": 0, "status": Status.ADDED, "location": f"s3://b/t/ü-{position}.parquet",
        "file_format": 3, "spec_id": 7, "partition_key": encode_key((STRING,), ("x" * position,)),
        "record_count": 1 << 40, "file_size_in_bytes": 300, "manifest": 0,
        "manifest_pos": position,
    }  # fmt: skip
    return required | values


ROWS = [
    row(0),
    row(
        1,
        status=Status.EXISTING,
        snapshot_id=2**62,
        sequence_number=3,
        file_sequence_number=4,
        first_row_id=900,
        sort_order_id=0,
        column_sizes=[(1, 70), (2, -5)],
        value_counts=[(1, 9)],
        null_value_counts=[],
        nan_value_counts=[(2, 2**50)],
        lower_bounds=[(1, b"ab"), (3, b"")],
        upper_bounds=[(1, b"cd")],
        key_metadata=b"key",
        split_offsets=[4, 2**33],
        equality_ids=[1, 2],
        referenced_data_file="s3://b/t/r",
        content_offset=4,
        content_size_in_bytes=40,
    ),
    row(2, partition_key=encode_key((STRING,), (None,))),
]


def manifest(codec: str) -> bytes:
    table = pa.Table.from_pylist(ROWS, schema=pa.schema([*PLANNING, *CARRIED]))
    return manifest_of(table, SCHEMA, SPEC, format_version=3, codec=codec)


def damages(content: bytes, stride: int) -> Iterator[tuple[int, bytes]]:
    """(position, damaged content): truncations, one bit of each byte, every bit of the blocks.

    With a stride so many times fewer, but for truncations within the blocks.
    """
    blocks = content.index(SYNC)
    for at in (*range(0, blocks, stride), *range(blocks, len(content))):
        yield at, content[:at]
        for bit in range(at % stride, 8, stride) if at >= blocks else [at % 8]:
            yield at, content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :]


def read(content: bytes, monkeypatch: pytest.MonkeyPatch, *, scan: bool) -> pa.Table | None:
    monkeypatch.setattr(compiled, "loops", lambda: LOOPS if scan else None)
    try:
        return read_manifest(content, columns=ALL_COLUMNS, manifest=0, spec=None)[1].table
    except (CorruptTable, Unsupported):
        return None


def independent(content: bytes) -> list[dict[str, Any]] | None:
    """The records as fastavro reads them; None where it does not."""
    try:
        return list(fastavro.reader(io.BytesIO(content)))  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - whatever it raises
        return None


def as_records(table: pa.Table) -> list[dict[str, Any]]:
    return table.drop_columns(["spec_id", "manifest", "manifest_pos", "partition_key"]).to_pylist()


def from_fastavro(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for record in records:
        flat = {**record, **record["data_file"]}
        flat["location"] = flat["file_path"]
        formats = {"AVRO": 1, "ORC": 2, "PARQUET": 3, "PUFFIN": 4}
        flat["file_format"] = formats.get(flat["file_format"].upper(), 0)
        for name in CARRIED.names[:6]:
            if flat[name] is not None:
                flat[name] = [(item["key"], item["value"]) for item in flat[name]]
        rows.append(flat)
    return rows


EVERY_BIT = pytest.param(1, marks=pytest.mark.full)


@pytest.mark.parametrize("stride", [3, EVERY_BIT])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_r008_damaged_manifests_agree_with_fastavro_or_end_in_an_error(codec, stride, monkeypatch):
    content = manifest(codec)
    header = content.index(SYNC) + len(SYNC)
    whole = as_records(read(content, monkeypatch, scan=True))
    assert len(whole) == 3
    accepted = refused = 0
    for at, damaged in damages(content, stride):
        scanned = read(damaged, monkeypatch, scan=True)
        if scanned is None:
            refused += 1
            continue
        accepted += 1
        other = read(damaged, monkeypatch, scan=False)
        assert other is not None
        assert scanned.equals(other), at
        if at >= header:
            records = independent(damaged)
            assert records is not None, at
            wanted = [{name: flat[name] for name in whole[0]} for flat in from_fastavro(records)]
            assert as_records(scanned) == wanted, at
    assert accepted > 50 / stride
    assert refused > 1000 / stride


@pytest.mark.parametrize("stride", [3, EVERY_BIT])
def test_r008_damaged_manifest_lists_agree_with_fastavro_or_end_in_an_error(stride):
    summary = FieldSummary(
        contains_null=True, contains_nan=None, lower_bound=b"a", upper_bound=None
    )
    rows = [
        ManifestFile(
            "s3://b/m-1", 9, 0, ManifestContent.DATA, 4, 3, 77, 1, 2, 3, 4, 5, 6, (summary,)
        ),
        ManifestFile("s3://b/m-2", 9, 0, ManifestContent.DELETES, 4, 3, 77, 1, 2, 3, 4, 5, 6),
    ]
    content = list_of(rows, 1, 4, codec="null")
    header = content.index(SYNC) + len(SYNC)
    refused = 0
    for at, damaged in damages(content, stride):
        try:
            found = read_manifest_list(damaged)
        except (CorruptTable, Unsupported):
            refused += 1
            continue
        if at >= header:
            records = independent(damaged)
            assert records is not None
            assert [one.manifest_path for one in found] == [one["manifest_path"] for one in records]
            assert [one.sequence_number for one in found] == [
                one["sequence_number"] for one in records
            ]
    assert refused > 1000 / stride
