"""Many keys in files are found as they are in memory, and leave nothing behind."""

from dataclasses import replace

import pyarrow as pa
import pytest

from icectl.errors import StorageError
from icectl.format.schema import Schema
from icectl.format.types import NestedField, PrimitiveType
from icectl.rows.find_job import keys_of, sorted_in
from icectl.storage import spill

SCHEMA = Schema(
    0,
    (
        NestedField(1, "x", PrimitiveType("long"), required=False),
        NestedField(2, "note", PrimitiveType("string"), required=False),
    ),
)


@pytest.mark.parametrize("waiting_bytes", [1 << 10, 8 << 20])
def test_keys_lie_in_files_by_their_hashes_each_once(tmp_path, monkeypatch, waiting_bytes):
    monkeypatch.setattr(spill, "_WAITING_BYTES", waiting_bytes)
    count = 5_000
    frame = pa.table({"x": range(count), "note": [f"n{at}" for at in range(count)]})
    keys, _ = keys_of(frame, SCHEMA)
    moved = sorted_in(tmp_path, keys, SCHEMA)
    assert (moved.content, moved.count, moved.field_ids) == (b"", count, (1, 2))
    with moved.open() as file:
        assert file.read() == keys.content
    hashes = pa.py_buffer((tmp_path / "hashes").read_bytes())
    stored = pa.Array.from_buffers(pa.uint64(), hashes.size // 8, [None, hashes]).to_pylist()
    assert stored == sorted(stored)
    found = pa.ipc.open_file(str(tmp_path / "keys.arrow")).read_all()["key"].to_pylist()
    assert len(found) == len(set(found)) == len(stored) == count


def test_some_of_the_columns_are_looked_for_in_memory(tmp_path):
    keys, _ = keys_of(pa.table({"x": [1, 2], "note": ["a", "b"]}), SCHEMA)
    moved = sorted_in(tmp_path, keys, SCHEMA)
    assert moved.of_columns((1, 2)) == moved
    assert moved.of_columns((2,)) == replace(keys, field_ids=(2,))


def test_a_full_disk_is_told_of(tmp_path):
    keys, _ = keys_of(pa.table({"x": [1]}), SCHEMA)
    with pytest.raises(StorageError, match="cannot write a temporary file"):
        sorted_in(tmp_path / "none", keys, SCHEMA)
