"""Listings on disk: what goes in comes out, nothing is left behind, failures are one error."""

import os
import resource
import tempfile
from contextlib import contextmanager, suppress

import pyarrow as pa
import pytest

from icectl.errors import StorageError
from icectl.storage.listing import LISTING_SCHEMA, Spool


def batch(*rows: tuple[str, int, int | None]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [[], [], []]
    return pa.record_batch([pa.array(column) for column in columns], schema=LISTING_SCHEMA)


BATCHES = [batch(("s3://b/a", 1, 1_700_000_000_000), ("s3://b/b", 20, None)), batch(("/c", 0, 5))]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_batches_come_back_as_they_were_appended_as_often_as_asked():
    with Spool() as spool:
        for each in BATCHES:
            spool.append(each)
        assert list(spool) == BATCHES
        assert list(spool) == BATCHES
        assert [(one, other) for one in spool for other in spool] == [
            (one, other) for one in BATCHES for other in BATCHES
        ]


@pytest.mark.usefixtures("folder")
def test_files_and_bytes_are_counted():
    with Spool() as spool:
        assert (spool.file_count, spool.total_bytes) == (0, 0)
        assert list(spool) == []
    with Spool() as spool:
        for each in BATCHES:
            spool.append(each)
        assert (spool.file_count, spool.total_bytes) == (3, 21)


def test_no_name_is_ever_in_the_folder_even_after_a_failure(folder):
    with suppress(KeyError), Spool() as spool:
        spool.append(BATCHES[0])
        list(spool)
        assert list(folder.iterdir()) == []
        raise KeyError
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_not_there_is_one_error_that_names_it(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", f"{folder}/gone")
    with pytest.raises(StorageError) as raised:
        Spool()
    assert raised.value.message == (
        f"cannot write a temporary file in `{folder}/gone`: no such file or directory"
    )
    assert raised.value.hint == "choose another folder with `--temp-dir`"


def append_ten_times(spool: Spool, added: pa.RecordBatch) -> None:
    for _ in range(10):
        spool.append(added)


@contextmanager
def room_for(size_bytes: int):
    """A disk with that much room, as far as this process can tell: in the block, not while the
    test is reported, which may go to a file too.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_one_error_while_appending(folder):
    many = batch(*[(os.urandom(50).hex(), 1, 1) for _ in range(1000)])
    with Spool() as spool, room_for(20_000), pytest.raises(StorageError) as raised:
        append_ten_times(spool, many)
    assert raised.value.message == f"cannot write a temporary file in `{folder}`: file too large"


def test_a_full_disk_is_one_error_when_the_last_bytes_are_written(folder):
    few = batch(*[(os.urandom(50).hex(), 1, 1) for _ in range(100)])
    with Spool() as spool:
        spool.append(few)
        with room_for(100), pytest.raises(StorageError, match="file too large"):
            list(spool)
