"""Compactions in worker processes: the same files as in this process, and how they end badly."""

import os
import signal
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from icectl.commands.compact.report import Compacted
from icectl.env import Deadline, SystemEnv
from icectl.errors import CorruptTable, EngineError, Incomplete, MissingFile
from icectl.progress import SilentProgress
from icectl.rows import local
from icectl.rows.compact_job import FileNames
from icectl.rows.local import LocalEngine, threads_of
from icectl.rows.worker_context import WorkerContext
from icectl.rows.workers import KernelCrashed, WorkerPool
from icectl.storage.local.store import LocalStore
from icectl.storage.open import StorageOptions
from tests.builders.broken import DAMAGES, TABLES, Broken
from tests.builders.compactions import build, compacted, lineage, planned
from tests.builders.folders import paths_of
from tests.builders.rows import current_metadata, head, ids_of, live_entries

SIZES = ("file_size_in_bytes", "record_count", "partition_key", "sequence_number")


@dataclass
class Heard:
    """Progress that remembers what it was told."""

    phases: list[tuple[str, int | None, str]] = field(default_factory=list)
    done: int = 0

    def phase(self, name: str, *, total: int | None = None, unit: str = "count") -> None:
        self.phases.append((name, total, unit))

    def advance(self, amount: int) -> None:
        self.done += amount

    def warn(self, message: str) -> None:
        raise AssertionError(message)


def engine(**more: Any) -> LocalEngine:
    return replace(LocalEngine(LocalStore(), SilentProgress(), Deadline(SystemEnv()), 2), **more)


def run(directory: Path, carrier: LocalEngine, **chosen: Any) -> Compacted:
    return compacted(directory, planned(directory, **chosen), carrier)


def described(directory: Path) -> list[tuple[Any, ...]]:
    """What of live data files does not depend on their names."""
    files = [entry["data_file"] for entry in live_entries(head(directory))]
    names = ("file_size_in_bytes", "record_count", "lower_bounds", "null_value_counts")
    return sorted(tuple(str(file[name]) for name in names) for file in files)


@pytest.mark.parametrize(
    ("format_version", "partitioning"), [(1, "none"), (2, "identity"), (3, "none")]
)
def test_workers_make_the_files_that_this_process_makes(tmp_path, format_version, partitioning):
    for name in ("here", "there"):
        build(tmp_path / name, format_version, partitioning)
    before = ids_of(tmp_path / "there")
    ages = lineage(tmp_path / "there") if format_version == 3 else {}
    compacted(tmp_path / "here", planned(tmp_path / "here"))
    run(tmp_path / "there", engine())
    assert described(tmp_path / "there") == described(tmp_path / "here")
    assert ids_of(tmp_path / "there") == before
    assert format_version < 3 or lineage(tmp_path / "there") == ages
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize(
    ("bundles", "cores", "threads"),
    [(1, 2, [2]), (2, 2, [1, 1]), (3, 2, [1, 1, 2]), (5, 16, [3] * 5), (17, 16, [1] * 16 + [16])],
)
def test_cores_that_have_no_task_of_their_own_are_threads_of_others(bundles, cores, threads):
    assert threads_of(bundles, cores) == threads


@pytest.mark.parametrize("worth_a_worker", [1, 1 << 40])
def test_one_task_has_the_threads_of_all_cores(tmp_path, monkeypatch, worth_a_worker):
    monkeypatch.setattr(local, "_WORTH_A_WORKER_BYTES", worth_a_worker)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    threads = []
    kernel = local._rewrite
    build(tmp_path, 3, "none")
    before, ages = ids_of(tmp_path), lineage(tmp_path)

    def seen(workers: Any, at: Any, bundle: Any, of_bundle: Any) -> Any:
        threads.append(of_bundle.args[0].threads)
        assert of_bundle.func is kernel
        return honest(carrier, workers, at, bundle, of_bundle)

    carrier, honest = engine(concurrency=3), LocalEngine._run
    monkeypatch.setattr(LocalEngine, "_run", lambda _, *arguments: seen(*arguments))
    run(tmp_path, carrier)
    assert threads == [3]
    assert (ids_of(tmp_path), lineage(tmp_path)) == (before, ages)


def test_progress_counts_the_bytes_of_all_files_once(tmp_path):
    build(tmp_path, 2, "identity")
    prepared = planned(tmp_path)
    heard = Heard()
    compacted(tmp_path, prepared, engine(progress=heard))
    total = sum(group.input_bytes for group in prepared.plan.groups)
    assert heard.phases == [("rewriting data files", total, "bytes")]
    assert heard.done == total


def unchanged(directory: Path, prepared_files: set[Path], version: Path) -> None:
    """Nothing has happened to a table, and nothing is left of what was begun."""
    assert current_metadata(directory) == version
    assert {path for path in directory.rglob("*") if path.is_file()} == prepared_files


def test_a_reader_that_crashes_names_its_file_and_the_table_stays(tmp_path):
    TABLES["v2"](tmp_path)
    next(one for one in DAMAGES if "crashes" in one.name).apply(Broken(tmp_path))
    files, version = paths_of(tmp_path), current_metadata(tmp_path)
    with pytest.raises(
        CorruptTable, match=r"^`.*parquet`: the reader crashed on it \(SIG"
    ) as found:
        run(tmp_path, engine())
    assert found.value.rule == "R-099"
    unchanged(tmp_path, files, version)


def _crashing_on(location: str, at: Any, other: str) -> list[Any]:
    if other == location:
        os.kill(os.getpid(), signal.SIGSEGV)
    if other == "damaged":
        raise CorruptTable("damaged", rule="R-099")
    return []


@pytest.mark.parametrize(("crashing", "named"), [("b", "b"), ("none of them", "c")])
def test_of_files_that_were_read_together_the_one_that_crashes_is_named(
    monkeypatch, crashing, named
):
    monkeypatch.setattr(local, "_read_alone", partial(_crashing_on, crashing))
    with WorkerPool() as workers:
        assert local._crashing(workers, None, ["damaged", "a", "b", "c"]) == named


def test_each_thread_of_a_worker_that_crashes_may_have_decoded_many_files_together(monkeypatch):
    asked: list[str] = []

    class Crashing:
        def call(self, _kernel: Any, _file: None, *, tell: Any) -> None:
            for number in range(2_000):
                tell(str(number))
            raise KernelCrashed("SIGSEGV")

    monkeypatch.setattr(local, "_crashing", lambda _pool, _at, opened: asked.extend(opened) or "a")
    at = replace(WorkerContext(StorageOptions(), FileNames("/t", {}, "op")), threads=3)
    with pytest.raises(CorruptTable, match=r"^`a`"):
        engine()._run(Crashing(), at, [], None)
    assert asked == [str(number) for number in range(2_000 - 3 * 256, 2_000)]


def test_a_file_that_is_gone_ends_the_run(tmp_path):
    build(tmp_path, 2, "identity")
    prepared, version = planned(tmp_path), current_metadata(tmp_path)
    Path(prepared.plan.groups[-1].tasks[-1].inputs[-1].location).unlink()
    files = paths_of(tmp_path)
    with pytest.raises(MissingFile):
        compacted(tmp_path, prepared, engine())
    unchanged(tmp_path, files, version)


def children() -> set[int]:
    """The processes that this one has started: servers of other tests too."""
    threads = Path("/proc/self/task").glob("*/children")
    return {int(number) for one in threads for number in one.read_text().split()}


@dataclass
class Killing(Heard):
    """Progress that kills the only worker once it has opened so many files."""

    left: int = 0
    others: set[int] = field(default_factory=children)

    def advance(self, amount: int) -> None:
        self.left -= 1
        if self.left == 0:
            [worker] = children() - self.others
            os.kill(worker, signal.SIGKILL)


@pytest.mark.new_workers  # it is the child that is killed
@pytest.mark.parametrize("opened", [1, 9])
def test_what_a_killed_worker_has_written_is_removed(tmp_path, opened):
    build(tmp_path, 2, "identity")
    files, version = paths_of(tmp_path), current_metadata(tmp_path)
    with pytest.raises(EngineError, match=r"a worker process ended \(signal 9\)"):
        run(tmp_path, engine(progress=Killing(left=opened)))
    unchanged(tmp_path, files, version)


def test_time_that_is_up_ends_the_workers(tmp_path):
    build(tmp_path, 2, "identity")
    files, version = paths_of(tmp_path), current_metadata(tmp_path)
    over = Deadline(SystemEnv(), 0)
    with pytest.raises(Incomplete, match="stopped at the time limit"):
        run(tmp_path, engine(deadline=over))
    unchanged(tmp_path, files, version)
