"""Kernels in worker processes: what they read, ask, tell, raise, and how a crash of one ends."""

import gc
import io
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from icectl.errors import CorruptTable, EngineError, Incomplete, StorageError
from icectl.rows.wire import KernelFailed
from icectl.rows.workers import KernelCrashed, WorkerPool


def pieces(file, places):
    """Bytes at (offset, length)."""
    for offset, length in places:
        file.seek(offset)
        yield file.read(length)


def from_the_end(file):
    file.seek(-3, io.SEEK_END)
    yield file.read()
    yield file.tell()


def answers(_file, questions, ask):
    return [ask(question) for question in questions]


def tells(_file, words, tell):
    return [tell(word) for word in words]


def tells_and_ends(_file, words, tell):
    tells(_file, words, tell)
    os.kill(os.getpid(), signal.SIGSEGV)


def collects_after(_file):
    yield gc.get_threshold()[0]


def process_id(_file):
    return [os.getpid()]


def ends_by(_file, number):
    os.kill(os.getpid(), number)
    yield None


def leaves(_file):
    os._exit(7)


def raises(_file, number):
    errors = [
        CorruptTable("`f` is odd", rule="R-099", hint="restore it"),
        FileNotFoundError(2, "No such file or directory", "/a b"),
        MemoryError("2 GiB"),
        LookupError("not here"),
    ]
    raise errors[number]


@pytest.fixture(autouse=True, params=["started", "forked"])
def forked_workers(request, forks, monkeypatch):
    """Workers as icectl starts them, and those that stand for them in tests."""
    monkeypatch.setattr(
        "icectl.rows.workers._starters", [forks] if request.param == "forked" else []
    )


@pytest.fixture
def workers():
    with WorkerPool() as made:
        yield made


def test_a_kernel_reads_any_part_of_the_file(workers):
    file = io.BytesIO(bytes(range(256)) * 1024)
    found = workers.call(pieces, file, [(0, 2), (255, 3), (262_143, 9), (300_000, 5)])
    assert found == (b"\x00\x01", b"\xff\x00\x01", b"\xff", b"")
    assert workers.call(pieces, file, [(0, 262_144)])[0] == file.getvalue()
    assert workers.call(from_the_end, file) == (b"\xfd\xfe\xff", 262_144)


def test_a_kernel_asks_the_process_that_called_it(workers):
    assert workers.call(answers, io.BytesIO(), ["a", "b"], ask={"a": 1}.get) == (1, None)


def test_a_kernel_tells_the_process_that_called_it_and_does_not_wait(workers):
    told = []
    assert workers.call(tells, io.BytesIO(), ["a", "b"], tell=told.append) == (None, None)
    assert told == ["a", "b"]


def test_what_a_kernel_told_before_a_crash_is_heard(workers):
    told = []
    with pytest.raises(KernelCrashed):
        workers.call(tells_and_ends, io.BytesIO(), ["a"] * 500, tell=told.append)
    assert told == ["a"] * 500


@pytest.mark.parametrize("forked_workers", ["started"], indirect=True)
def test_a_worker_collects_garbage_as_rarely_as_the_process_that_started_it(workers):
    before = gc.get_threshold()
    gc.set_threshold(54_321)
    try:
        assert workers.call(collects_after, io.BytesIO()) == (54_321,)
    finally:
        gc.set_threshold(*before)


def test_a_worker_is_another_process_and_is_kept_for_the_next_file(workers):
    first, second = (workers.call(process_id, io.BytesIO()) for _ in range(2))
    assert first == second != (os.getpid(),)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_names_its_signal_and_the_next_file_has_a_worker(workers, number):
    with pytest.raises(KernelCrashed, match=f"crashed on it \\({number.name}\\)"):
        workers.call(ends_by, io.BytesIO(), int(number))
    assert workers.call(from_the_end, io.BytesIO(b"abcd")) == (b"bcd", 4)


def test_a_worker_that_was_killed_is_no_word_on_the_file(workers):
    with pytest.raises(EngineError, match=r"ended \(signal 9\)"):
        workers.call(ends_by, io.BytesIO(), int(signal.SIGKILL))
    with pytest.raises(EngineError, match=r"ended \(exit code 7\)"):
        workers.call(leaves, io.BytesIO())


def test_errors_of_icectl_and_of_the_system_come_back_as_they_are(workers):
    with pytest.raises(CorruptTable) as corrupt:
        workers.call(raises, io.BytesIO(), 0)
    error = corrupt.value
    assert (error.message, error.rule, error.hint, error.error_id) == (
        "`f` is odd (R-099)", "R-099", "restore it", "corrupt-table",
    )  # fmt: skip
    with pytest.raises(FileNotFoundError) as missing:
        workers.call(raises, io.BytesIO(), 1)
    assert (missing.value.errno, missing.value.filename) == (2, "/a b")
    with pytest.raises(MemoryError, match="2 GiB"):
        workers.call(raises, io.BytesIO(), 2)


def test_other_errors_come_back_as_text(workers):
    with pytest.raises(KernelFailed) as failed:
        workers.call(raises, io.BytesIO(), 3)
    assert str(failed.value) == "LookupError: not here"
    (traceback,) = failed.value.__notes__
    assert "in raises" in traceback


def unknown(_file):
    yield Answer(1)


@dataclass
class Answer:
    """A value that is read only where it is named."""

    number: int


def test_an_answer_of_a_type_that_nobody_named_is_not_read(workers):
    with pytest.raises(EngineError, match="a worker sent an invalid response: 'Answer'"):
        workers.call(unknown, io.BytesIO())
    with WorkerPool((Answer,)) as others:
        assert others.call(unknown, io.BytesIO()) == (Answer(1),)


class Failing(io.BytesIO):
    """A file of a store that fails."""

    def read(self, size=-1, /):
        raise StorageError("the store is gone")


def test_errors_of_the_file_are_those_of_its_store(workers):
    with pytest.raises(StorageError, match="the store is gone"):
        workers.call(from_the_end, Failing(b"abc"))
    assert workers.call(from_the_end, io.BytesIO(b"abcd")) == (b"bcd", 4)


def test_no_worker_outlives_its_context():
    with WorkerPool() as made:
        (number,) = made.call(process_id, io.BytesIO())
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def sleeps():
    time.sleep(60)
    yield None


def test_a_call_without_a_file_ends_where_time_is_up():
    def check() -> None:
        if time.monotonic() > started + 1:
            raise Incomplete("time is up")

    started = time.monotonic()
    with WorkerPool(check=check) as made:
        with pytest.raises(Incomplete, match="time is up"):
            made.call(sleeps, None)
        assert time.monotonic() < started + 50


def temporary_place():
    yield tempfile.gettempdir()


def test_temporary_files_of_workers_go_where_those_of_this_process_go(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with WorkerPool() as made:
        assert made.call(temporary_place, None) == (str(tmp_path),)


def path_of_modules():
    yield sys.path


def test_workers_look_for_modules_at_absolute_places_only(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", ["", ".", str(tmp_path), "modules", *sys.path])
    with WorkerPool() as made:
        (found,) = made.call(path_of_modules, None)
    assert found[0] == str(tmp_path)
    assert not {"", ".", "modules", str(Path.cwd() / "modules")} & set(found)
