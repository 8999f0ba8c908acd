"""Bytes between a worker and its other end: through shared memory, or past one out of reach."""

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from icectl.rows import isolated_files
from icectl.rows.isolated_files import CallFiles, outputs_through
from icectl.storage import memory_file
from icectl.storage.local.store import LocalStore
from icectl.storage.memory_file import MemoryFile
from tests.stores.wrapped import WrappedStore

CONTENT = bytes(range(256)) * 40_000


class Hidden(MemoryFile):
    """Memory that other processes do not reach."""

    def __init__(self) -> None:
        super().__init__()
        self.path = "/nowhere/memory"


class Distant(WrappedStore):
    """A store of one new file, which has no path."""

    def __init__(self) -> None:
        super().__init__(LocalStore())
        self.written = io.BytesIO()

    def open_new(self, location: str) -> "Distant":
        return self

    def __enter__(self) -> io.BytesIO:
        return self.written

    def __exit__(self, *_: object) -> None:
        pass


def held(kind: type[MemoryFile]) -> IO[bytes]:
    file = kind()
    file.fill(CONTENT)
    return file


OPENED: list[Callable[[], IO[bytes]]] = [
    lambda: io.BytesIO(CONTENT),
    lambda: held(MemoryFile),
    lambda: held(Hidden),
]


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("shared", [MemoryFile, Hidden, lambda: None])
@pytest.mark.parametrize("opened", OPENED)
def test_a_worker_reads_a_file_at_any_place(monkeypatch, shared, opened) -> None:
    monkeypatch.setattr(isolated_files, "memory_file", shared)
    before = open_descriptors()
    with (
        CallFiles(LocalStore(), lambda _: opened(), str, lambda _: None) as files,
        outputs_through(files.answer).open("somewhere") as file,
    ):
        assert file.seek(0, os.SEEK_END) == len(CONTENT)
        assert file.seek(-3, os.SEEK_END) == len(CONTENT) - 3
        assert file.read() == b"\xfd\xfe\xff"
        file.seek(100)
        assert file.read(200) == CONTENT[100:300]
        file.seek(1000)
        assert file.read(9_000_000) == CONTENT[1000:9_001_000]
        file.seek(0)
        assert file.read() == CONTENT
    assert open_descriptors() == before


@pytest.mark.parametrize("shared", [MemoryFile, Hidden, lambda: None])
def test_a_worker_writes_a_file(monkeypatch, shared) -> None:
    monkeypatch.setattr(isolated_files, "memory_file", shared)
    store, before = Distant(), open_descriptors()
    with (
        CallFiles(store, store.open, str, lambda _: None) as files,
        outputs_through(files.answer).create("somewhere") as file,
    ):
        file.write(CONTENT[:10])
        file.write(CONTENT[10:5_000_000])
        assert file.tell() == 5_000_000
        file.write(CONTENT[5_000_000:])
    assert store.written.getvalue() == CONTENT
    assert open_descriptors() == before


def test_where_there_are_no_files_in_memory_there_is_none(monkeypatch) -> None:
    monkeypatch.setattr(memory_file.sys, "platform", "darwin")
    assert memory_file.memory_file() is None
