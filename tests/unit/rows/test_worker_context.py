"""Files of tasks on workers: read before they are asked for, deletes too."""

import logging

import pytest

from icectl.env import SystemEnv
from icectl.format.manifest import FileFormat
from icectl.rows.compact_job import FileNames
from icectl.rows.worker_context import WorkerContext
from icectl.storage.open import StorageOptions, open_store
from icectl.table.rewrite_tasks import DeleteFile, InputFile, RewriteTask

BASE = "memory://worker/t"
NAMES = FileNames(BASE, {}, "run")


def task(number: int) -> RewriteTask:
    """A task of two data files and a delete file, each of ten bytes."""
    inputs = [
        InputFile(f"{BASE}/{number}-{one}", FileFormat.PARQUET, 10, 1, 0, b"", 1)
        for one in ("a", "b")
    ]
    deletes = DeleteFile(f"{BASE}/{number}-deletes", FileFormat.PARQUET, 10, 1, 2, 0, b"")
    return RewriteTask(f"0-{number}", 0, tuple(inputs), (deletes,), 0, b"", 2, 100, 20)


@pytest.fixture
def locations():
    store = open_store(StorageOptions(home=BASE), SystemEnv())
    made = [f"{BASE}/{number}-{one}" for number in (0, 1) for one in ("deletes", "a", "b")]
    for location in made:
        store.replace(location, location[-10:].encode())
    return made


def requests(caplog, locations):
    """What was asked of the store for each file."""
    asked = [record.getMessage().split() for record in caplog.records]
    return {
        location: [words[0] for words in asked if words[1:] == [location]] for location in locations
    }


def test_the_files_of_all_tasks_of_an_attempt_are_read_by_one_request_each(caplog, locations):
    caplog.set_level(logging.DEBUG, "icectl.storage.open")
    tasks = [task(0), task(1)]
    with WorkerContext(StorageOptions(home=BASE), NAMES).attempt(1, tasks) as outputs:
        for location in locations:
            with outputs(tasks[0]).open(location) as file:
                assert file.read() == location[-10:].encode()
    assert requests(caplog, locations) == {location: ["read_range"] for location in locations}


def test_files_come_in_the_order_in_which_tasks_ask_for_them(caplog, locations):
    caplog.set_level(logging.DEBUG, "icectl.storage.open")
    place = WorkerContext(StorageOptions(concurrency=1, home=BASE), NAMES)
    with place.attempt(1, [task(0), task(1)]):
        pass
    asked = [record.getMessage().split()[1] for record in caplog.records]
    assert asked == locations[: len(asked)]


def test_without_tasks_nothing_is_read_before_it_is_asked_for(caplog, locations):
    caplog.set_level(logging.DEBUG, "icectl.storage.open")
    with (
        WorkerContext(StorageOptions(home=BASE), NAMES).attempt(1) as outputs,
        outputs(0).open(locations[1]) as file,
    ):
        assert file.read(2) == locations[1][-10:-8].encode()
    assert requests(caplog, locations) == {
        location: ["open"] if location == locations[1] else [] for location in locations
    }
