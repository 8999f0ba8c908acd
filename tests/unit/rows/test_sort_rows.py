"""Rows sorted in memory and, in ever less of it, through runs on disk."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from icectl.files.parquet.schema import arrow_schema
from icectl.format.sort import order_from_json
from icectl.rows import sort_rows
from icectl.rows.sort_rows import sort_keys, sorted_batches
from tests.builders.data_files import schema

TAGS = {"type": "map", "key-id": 4, "key": "string", "value-id": 5, "value": "long",
        "value-required": False}  # fmt: skip
COLUMNS = schema(
    (1, "number", "long"), (2, "name", "string"), (3, "tags", TAGS), (6, "key", "uuid")
)
FIELD = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-last"}
ORDER = order_from_json({"order-id": 1, "fields": [FIELD]})


def batches(count, size=100, distinct=50):
    chance = np.random.default_rng(1)
    arrow = arrow_schema(COLUMNS)
    for start in range(0, count, size):
        rows = range(start, min(start + size, count))
        numbers = chance.integers(0, distinct, len(rows)).tolist()
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([None if number == 7 else number for number in numbers], pa.int64()),
                pa.array([f"row {row}" for row in rows]),
                pa.array([[("a", row)] if row % 3 else None for row in rows], arrow.types[2]),
                pa.array([row.to_bytes(16) for row in rows], pa.uuid()),
            ],
            schema=arrow,
        )


def in_order(given, memory_bytes):
    keys = sort_keys(ORDER, COLUMNS, arrow_schema(COLUMNS))
    return [row for batch in sorted_batches(given, keys, memory_bytes) for row in batch.to_pylist()]


@pytest.mark.parametrize("memory_bytes", [2**30, 32_000, 8_000, 1])
@pytest.mark.parametrize("distinct", [1, 3, 50, 10**9])
def test_rows_come_in_order_and_equal_ones_as_they_were(memory_bytes, distinct):
    given = list(batches(800, distinct=distinct))
    rows = [row for batch in given for row in batch.to_pylist()]
    expected = sorted(rows, key=lambda row: (row["number"] is None, row["number"] or 0))
    assert in_order(given, memory_bytes) == expected


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_was_on_disk_is_gone_afterwards(disk):
    keys = sort_keys(ORDER, COLUMNS, arrow_schema(COLUMNS))
    found = sorted_batches(batches(3000), keys, 40_000)
    next(found)
    (directory,) = disk.iterdir()
    assert len(list(directory.iterdir())) > 3
    found.close()
    assert list(disk.iterdir()) == []


def test_rows_that_fit_into_memory_do_not_touch_the_disk(disk):
    keys = sort_keys(ORDER, COLUMNS, arrow_schema(COLUMNS))
    found = sorted_batches(batches(3000), keys, 2**30)
    assert next(found).num_rows == 3000
    assert list(disk.iterdir()) == []


def test_ranges_of_keys_stay_within_the_memory():
    limit = 100_000
    keys = sort_keys(ORDER, COLUMNS, arrow_schema(COLUMNS))
    found = sorted_batches(batches(20_000, distinct=10**9), keys, limit)
    sizes = [batch.nbytes for batch in found]
    assert sum(sizes) > 9 * limit
    assert max(sizes) <= limit


def test_no_rows_are_no_batches():
    assert in_order([], 1) == []
    assert in_order(batches(0), 1) == []


@pytest.mark.parametrize("most", [2, 3])
def test_runs_become_one_where_there_are_many(disk, monkeypatch, most):
    monkeypatch.setattr(sort_rows, "_MOST_RUNS", most)
    given = list(batches(800, distinct=3))
    rows = [row for batch in given for row in batch.to_pylist()]
    expected = sorted(rows, key=lambda row: (row["number"] is None, row["number"] or 0))
    keys = sort_keys(ORDER, COLUMNS, arrow_schema(COLUMNS))
    found = sorted_batches(given, keys, 1)
    first = next(found)
    (directory,) = disk.iterdir()
    assert 1 <= len(list(directory.iterdir())) < 3 * most
    rest = [row for batch in found for row in batch.to_pylist()]
    assert [*first.to_pylist(), *rest] == expected


def test_wide_rows_come_a_few_at_a_time():
    arrow = arrow_schema(COLUMNS)
    (narrow,) = batches(100)
    at = arrow.names.index("name")
    given = narrow.set_column(at, arrow.field(at), pa.array(["x" * 2**20] * 100))
    keys = sort_keys(ORDER, COLUMNS, arrow)
    for memory_bytes in (2**20, 2**30):
        sizes = [batch.num_rows for batch in sorted_batches([given], keys, memory_bytes)]
        assert sum(sizes) == 100
        assert max(sizes) <= 32
