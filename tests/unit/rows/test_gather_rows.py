"""Rows of more partitions than files are open at once."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from icectl.files.parquet.schema import arrow_schema
from icectl.format.partition import spec_from_json
from icectl.rows import rewrite_data, write_data
from icectl.rows.partition_rows import partitioner
from icectl.rows.rewrite_data import gather_partitions
from icectl.rows.write_data import DataWriter, write_options
from tests.builders.data_files import MemoryFiles, schema

COLUMNS = schema((1, "part", "long"), (2, "at", "long"))
BY_PART = spec_from_json(
    {
        "spec-id": 1,
        "fields": [{"source-id": 1, "field-id": 1000, "name": "p", "transform": "identity"}],
    }
)


def batches(count: int, parts: int) -> list[pa.RecordBatch]:
    chance = np.random.default_rng(parts)
    arrow = arrow_schema(COLUMNS)
    return [
        pa.RecordBatch.from_arrays(
            [chance.integers(0, parts, 100), np.arange(at, at + 100)], schema=arrow
        )
        for at in range(0, count, 100)
    ]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Four files at once, and ten kilobytes of rows; where the others wait."""
    monkeypatch.setattr(rewrite_data, "MOST_OPEN_FILES", 4)
    monkeypatch.setattr(write_data, "MOST_OPEN_FILES", 4)
    monkeypatch.setattr(rewrite_data, "_MEMORY_BYTES", 10_000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("parts", [1, 4, 5, 60])
def test_each_partition_becomes_one_file_with_its_rows_in_order(few, parts):
    given = batches(3000, parts)
    splitting = partitioner(BY_PART, COLUMNS, arrow_schema(COLUMNS))
    files = MemoryFiles()
    with DataWriter(COLUMNS, write_options({}, 2**30, {}), files.outputs(), 16.0) as writer:
        for partition, rows in gather_partitions(given, splitting):
            writer.write(rows, partition.key, partition.path)
    rows = [row for batch in given for row in batch.to_pylist()]
    found = {
        part: [row["at"] for row in files.rows(written.location)]
        for written in writer.written
        for part in [int(written.location.split("p=")[1].split("/")[0])]
    }
    assert len(writer.written) == len(found) == parts
    assert found == {
        part: [row["at"] for row in rows if row["part"] == part] for part in range(parts)
    }
    assert list(few.iterdir()) == []


def test_a_file_more_ends_the_one_that_was_written_to_least_recently(few):
    files = MemoryFiles()
    (rows,) = batches(100, 1)
    with DataWriter(COLUMNS, write_options({}, 2**30, {}), files.outputs(), 16.0) as writer:
        for name in "abcda":
            writer.write(rows, name.encode(), name)
        assert writer.written == []
        writer.write(rows, b"e", "e")
        assert [one.partition_key for one in writer.written] == [b"b"]
    assert sorted(one.partition_key for one in writer.written) == [b"a", b"b", b"c", b"d", b"e"]
