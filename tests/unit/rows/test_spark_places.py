"""Files that workers of Spark have on disks of their own, and this process has not; and others."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from icectl.env import Deadline, SystemEnv
from icectl.errors import EngineError
from icectl.files.parquet.metrics import FileMetrics
from icectl.format.manifest import FileFormat
from icectl.progress import SilentProgress
from icectl.rows import spark_frames, spark_orphans, spark_rewrite
from icectl.rows.compact_job import FileNames, TaskResult, data_entries
from icectl.rows.spark_classic import ClassicJobs, SparkOptions
from icectl.rows.spark_frames import SparkFrame
from icectl.rows.spark_orphans import SparkOrphanSearch
from icectl.rows.spark_rewrite import SparkEngine
from icectl.rows.write_data import WrittenFile
from icectl.storage.local.store import LocalStore
from icectl.storage.open import StorageOptions
from icectl.table.rewrite_tasks import InputFile, RewriteTask

DEADLINE = Deadline(SystemEnv())


class Places:
    """The record of a run's new files."""

    def __init__(self, folder):
        self.names = FileNames(str(folder), {}, "run")
        self.recorded = []

    def record(self, locations):
        self.recorded += locations

    def find(self):
        pass


@pytest.fixture
def places(tmp_path):
    return Places(tmp_path)


@pytest.fixture(params=["here", "elsewhere", "shorter"])
def written(request, tmp_path):
    """Entries of a file of ten bytes that a worker has written, and whether it is here."""
    location = tmp_path / "data/new.parquet"
    (tmp_path / "data").mkdir()
    if request.param != "elsewhere":
        location.write_bytes(b"x" * (10 if request.param == "here" else 9))
    metrics = FileMetrics(2)
    file = WrittenFile(str(location), b"", 10, metrics, metrics)
    return data_entries([file], 0, 1, None), request.param == "here"


def run(work: Any, places: Places, entries: Any, *, is_here: bool) -> None:
    """Work ends with an error unless the file is here, which is on record either way."""
    if is_here:
        work()
    else:
        with pytest.raises(EngineError, match=r"a worker has written .*/new\.parquet, which is"):
            work()
    assert places.recorded == entries["location"].to_pylist()


def test_no_task_has_a_result_whose_files_are_on_disks_of_workers(monkeypatch, places, written):
    entries, is_here = written
    inputs = (InputFile("old", FileFormat.PARQUET, 10, 2, 0, b"", 1),)
    task = RewriteTask("0-0", 0, inputs, (), 0, b"", 1, 100, 20)
    result = TaskResult("0-0", entries, 2, 0, 10)
    spark = SimpleNamespace(
        core_count=1,
        progress=SilentProgress(),
        speculates=False,
        each=lambda *_: [([result], True)],
        task_counts=lambda: (1, 0),
    )
    monkeypatch.setattr(spark_rewrite, "open_spark", lambda *_: nullcontext(spark))
    job: Any = SimpleNamespace(sorting=None)
    engine = SparkEngine(SparkOptions(), StorageOptions(), SilentProgress(), DEADLINE)

    def work() -> None:
        assert list(engine.rewrite([task], job, places)) == [result]

    run(work, places, entries, is_here=is_here)


def test_no_frame_is_written_to_disks_of_workers(monkeypatch, places, written):
    entries, is_here = written
    spark = SimpleNamespace(on_rows=lambda *_: ([entries], True))
    monkeypatch.setattr(spark_frames, "open_beside", lambda *_: nullcontext(spark))
    frame = SparkFrame(
        SimpleNamespace(sparkSession=None), StorageOptions, SilentProgress(), DEADLINE
    )
    job: Any = None
    run(lambda: frame.write(job, places, by_partition=False), places, entries, is_here=is_here)


@pytest.mark.parametrize("is_here", [True, False])
def test_workers_list_no_table_that_they_do_not_have(monkeypatch, tmp_path, *, is_here):
    table = tmp_path / "t"
    for number in range(4):
        (table / f"{number}").mkdir(parents=True)
    jobs = ClassicJobs(SimpleNamespace(master="local[1]"), str(tmp_path))
    spark = SimpleNamespace(speculates=False, core_count=1, jobs=jobs)
    monkeypatch.setattr(spark_orphans, "classic_session", lambda *_: nullcontext(spark))
    locations = [str(table), str(tmp_path / "not made yet")]
    search = SparkOrphanSearch(
        SparkOptions(), StorageOptions(), LocalStore(), SilentProgress(), DEADLINE
    )

    def answer(_: Any, kernel: Any, tasks: Any) -> Any:
        """The answers of workers, on whose disks the table may be gone, or never was."""
        if not is_here:
            table.rename(tmp_path / "elsewhere")
        answered = [pair for task in tasks for pair in kernel(task)]
        return SimpleNamespace(of=lambda kind: [pair for pair in answered if pair[0] == kind])

    monkeypatch.setattr(spark_orphans, "answer", answer)
    if is_here:
        with search.list(locations) as listing:
            assert listing.file_count == 0
        return
    with pytest.raises(EngineError, match=r"a worker does not have .*/t$"), search.list(locations):
        pass
