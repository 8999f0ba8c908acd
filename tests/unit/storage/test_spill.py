"""Rows by parts: each part as it was added, in memory or on disk, and nothing left behind."""

import resource
import tempfile

import numpy as np
import pyarrow as pa
import pytest

from icectl.errors import StorageError
from icectl.storage import spill
from icectl.storage.spill import Spill

SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])


def batch(numbers: range) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers), pa.array(map(str, numbers))], schema=SCHEMA)


def numbers_of(spilled: Spill, part: int) -> list[int]:
    return [number for read in spilled.read(part) for number in read["number"].to_pylist()]


@pytest.mark.parametrize("waiting_bytes", [1, 1000, 1 << 20])
def test_the_rows_of_a_part_come_back_in_their_order(tmp_path, monkeypatch, waiting_bytes):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(spill, "_WAITING_BYTES", waiting_bytes)
    spilled = Spill(SCHEMA, 3)
    for start in range(0, 300, 30):
        numbers = range(start, start + 30)
        spilled.add(np.array(numbers) % 3, batch(numbers))
        assert numbers_of(spilled, 1) == list(range(1, start + 30, 3))
    assert list(tmp_path.iterdir()) == []
    assert [numbers_of(spilled, part) for part in range(3)] == [
        list(range(part, 300, 3)) for part in range(3)
    ]
    spilled.close()
    assert numbers_of(spilled, 0) == []


def test_few_rows_need_no_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", f"{tmp_path}/gone")
    spilled = Spill(SCHEMA, 256)
    spilled.add(np.arange(30), batch(range(30)))
    assert [sorted(part["number"].to_pylist()) for part in spilled.tables()] == [[*range(30)]]
    assert numbers_of(spilled, 29) == [29]


def test_rows_that_have_no_room_on_disk_are_one_error(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", f"{tmp_path}/gone")
    monkeypatch.setattr(spill, "_WAITING_BYTES", 1)
    with pytest.raises(StorageError, match="no such file or directory") as raised:
        Spill(SCHEMA, 2).add(np.zeros(1), batch(range(1)))
    assert raised.value.hint == "choose another folder with `--temp-dir`"


@pytest.mark.parametrize("room", [0, 700, 5000])
def test_rows_that_have_no_room_on_disk_stay_in_memory(monkeypatch, room):
    monkeypatch.setattr(spill, "_WAITING_BYTES", 1)
    spilled, failed = Spill(SCHEMA, 3), 0
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        for start in range(0, 300, 30):
            numbers = range(start, start + 30)
            try:
                spilled.add(np.array(numbers) % 3, batch(numbers))
            except StorageError:
                failed += 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert failed
    assert [numbers_of(spilled, part) for part in range(3)] == [
        list(range(part, 300, 3)) for part in range(3)
    ]
