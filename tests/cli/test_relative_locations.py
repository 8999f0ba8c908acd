"""Tables of version 4 that name their files from their own location on (sfc-1 L4, L5)."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from icectl.files.puffin import read_puffin
from tests.builders.rows import local, read_metadata
from tests.builders.twins import TreeTwin, twins


@pytest.fixture
def table(tmp_path: Path) -> TreeTwin:
    made = twins(tmp_path, "identity")[1]
    made.set_properties(
        {"icectl.v4.relative-locations": "true", "icectl.v4.mdv.inline-max-bytes": "0"}
    )
    return made


def stored(table: TreeTwin, content_type: int) -> list[tuple[str, str]]:
    """Where files of the current root are, and what they refer to, as it is stored."""
    root = read_metadata(local(table.metadata_location))["snapshots"][-1]["root-manifest"]
    assert not root.startswith("file:")
    rows = pq.read_table(table.directory / root).to_pylist()
    found = [row for row in rows if row["content_type"] == content_type]
    live = [row for row in found if row["tracking_info"]["status"] != 2]
    return [(row["location"], row["referenced_file"]) for row in live]


def test_l5_a_vector_over_a_leaf_names_it_as_the_root_does(table):
    table.run("rewrite-manifests", "--yes")
    table.remove_data_files(1)
    ((_, leaf),) = stored(table, 5)
    assert not leaf.startswith("file:")
    for place, file in stored(table, 5):
        (blob,) = read_puffin((table.directory / place).read_bytes()).blobs
        assert blob.properties["referenced-data-file"] == file
    found = table.run("validate", "--level", "data", "--all-snapshots")["result"]["counts"]
    assert (found["error"], found["warning"]) == (0, 0)


def test_dd5_a_merged_vector_names_its_data_file_as_the_root_does(table):
    table.append(range(10, 13))
    table.delete_rows([0])
    table.delete_rows([10])
    ((_, file), *_) = stored(table, 1)
    assert file.startswith("data/")
    merged = table.run("compact", "--deletes-only", "--min-input-files", "2", "--yes")["result"]
    assert (merged["removed_delete_files"], merged["added_delete_files"]) == (2, 1)
    ((place, _), *_) = stored(table, 1)
    blobs = read_puffin((table.directory / place).read_bytes()).blobs
    named = sorted(blob.properties["referenced-data-file"] for blob in blobs)
    assert named == sorted(file for _, file in stored(table, 1))
