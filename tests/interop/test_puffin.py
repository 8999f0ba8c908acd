"""Puffin files and deletion vectors by Java, Trino, Impala, Go and DuckDB."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from icectl.errors import CorruptTable
from icectl.files import deletion_vectors as dv
from icectl.files import puffin

BITMAPS = "iceberg-java/position-bitmaps"
SINGLE_FILES = [
    "iceberg-go/puffin/multi-blob-dv.puffin",
    "iceberg-java/puffin/empty-puffin-uncompressed.bin",
    "iceberg-java/puffin/sample-metric-data-uncompressed.bin",
]
VECTOR_FILES = [
    "duckdb-iceberg/multi_blob_deletion_vectors",
    "impala/iceberg_v3_deletion_vectors",
    "iceberg-cxx/deletion_vectors",
]


@pytest.fixture(scope="module")
def expected(fixtures_dir: Path) -> dict[str, Any]:
    return json.loads((fixtures_dir / "expected.json").read_text())


@pytest.mark.parametrize("name", SINGLE_FILES)
def test_footers_and_blobs_say_what_independent_readers_found(name, fixtures_dir, expected):
    facts = expected["files"][name]["facts"]
    content = (fixtures_dir / name).read_bytes()
    found = puffin.read_puffin(content)
    assert found.properties == facts["properties"]
    assert [
        {
            "type": blob.type, "fields": list(blob.fields), "snapshot_id": blob.snapshot_id,
            "sequence_number": blob.sequence_number, "offset": blob.offset, "length": blob.length,
            "codec": blob.compression_codec, "properties": blob.properties or None,
        }
        for blob in found.blobs
    ] == [
        {key: blob[key] for key in blob if key not in {"positions", "crc_ok"}}
        for blob in facts["blobs"]
    ]  # fmt: skip
    for blob, fact in zip(found.blobs, facts["blobs"], strict=True):
        stored = puffin.read_blob(content[blob.span], blob)
        if "positions" in fact:
            assert dv.read_dv(stored).tolist() == fact["positions"]
        else:
            assert len(stored) == fact["length"]


@pytest.mark.parametrize("name", ["64mapempty.bin", "64mapspreadvals.bin"])
def test_bare_bitmaps_by_java_are_read(name, fixtures_dir, expected):
    positions = dv.read_positions((fixtures_dir / BITMAPS / name).read_bytes())
    assert_positions(positions, expected["files"][f"{BITMAPS}/{name}"]["facts"])


@pytest.mark.parametrize(
    "name", ["empty-position-index.bin", "small-and-large-values-position-index.bin"]
)
def test_vectors_by_java_are_read_and_written_byte_for_byte(name, fixtures_dir, expected):
    content = (fixtures_dir / BITMAPS / name).read_bytes()
    positions = dv.read_dv(content)
    assert_positions(positions, expected["files"][f"{BITMAPS}/{name}"]["facts"])
    assert dv.write_dv(positions) == content


def assert_positions(positions: Any, facts: dict[str, Any]) -> None:
    """Compare with the cardinality and the checksum over the numbers joined by commas."""
    assert len(positions) == facts["cardinality"]
    numbers = ",".join(map(str, positions.tolist())).encode()
    assert hashlib.sha256(numbers).hexdigest() == facts["positions_sha256"]


@pytest.mark.parametrize("table", VECTOR_FILES)
def test_vectors_in_tables_have_the_cardinality_that_their_footer_states(table, fixtures_dir):
    files = sorted((fixtures_dir / table).rglob("*.puffin"))
    assert files
    for file in files:
        content = file.read_bytes()
        for blob in puffin.read_puffin(content).blobs:
            positions = dv.read_dv(puffin.read_blob(content[blob.span], blob))
            dv.check_cardinality(positions, int(blob.properties["cardinality"]))


def test_statistics_name_the_blobs_that_the_metadata_lists(fixtures_dir, expected):
    checked = 0
    for table, facts in expected["tables"].items():
        for entry in facts["statistics"]:
            if not entry.get("local") or not entry.get("puffin_blobs"):
                continue
            content = (fixtures_dir / table / entry["local"]).read_bytes()
            blobs = puffin.read_puffin(content).blobs
            assert [blob.type for blob in blobs] == entry["puffin_blobs"]
            for blob in blobs:
                puffin.read_blob(content[blob.span], blob)
            checked += 1
    assert checked > 20


@pytest.mark.parametrize("name", ["corrupt_file", "corrupt_file1", "corrupt_file2"])
def test_files_that_impala_broke_on_purpose_are_corrupt(name, fixtures_dir):
    content = (fixtures_dir / f"impala/ice_puffin/generated/{name}.stats").read_bytes()
    with pytest.raises(CorruptTable):
        puffin.read_puffin(content)
