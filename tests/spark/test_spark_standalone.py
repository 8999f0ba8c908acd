"""A standalone cluster whose workers have no icectl but what a run brings, and that loses some."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.builders.compactions import build
from tests.builders.expiry import aged_table
from tests.builders.orphans import age, stray
from tests.builders.rows import current_metadata, head, live_entries, read_metadata
from tests.spark.clusters import Cluster, standalone, submit
from tests.spark.engine import AT_LINK, command, environment, skip_without_spark
from tests.spark.programs import rows
from tests.spark.shipped import Shipped, ship

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.xdist_group("spark-runs")]

SMALL = ("--min-input-files", "2", "--target-file-size", "4KiB")
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
HAPPENS_WITHIN_SECONDS = 240


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    """Make a Python without icectl, one with the wheel, and an archive of that."""
    skip_without_spark()
    return ship(tmp_path_factory.mktemp("shipped"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, shipped: Shipped) -> Iterator[Cluster]:
    """Two workers without icectl, whose tasks may be held in the moment in which they write."""
    folder = tmp_path_factory.mktemp("standalone")
    wishes = folder / "wishes"
    wishes.mkdir()
    with standalone(folder, PYTHONPATH=str(AT_LINK), ICECTL_TEST_AT_LINK=str(wishes)) as running:
        yield running


def unreferenced(directory: Path) -> set[Path]:
    """Data files that no snapshot has."""
    metadata = read_metadata(current_metadata(directory))
    named = {
        Path(entry["data_file"]["file_path"].removeprefix("file:"))
        for snapshot in metadata["snapshots"]
        for entry in live_entries(snapshot)
    }
    return set((directory / "data").rglob("*.parquet")) - named


def compact(
    cluster: Cluster, table: Path, python: str, *words: str, **settings: str
) -> subprocess.Popen[str]:
    """Start a compaction in a session of icectl's own on the cluster."""
    return started(cluster, python, settings, "compact", str(table), *SMALL, *words)


def started(
    cluster: Cluster, python: str, settings: Mapping[str, str], *words: str
) -> subprocess.Popen[str]:
    """Start a command in a session of icectl's own on the cluster."""
    conf = SETTINGS | settings
    return subprocess.Popen(
        command(
            "-m", "icectl", *words, "--json", "--master", cluster.master,
            *(f"--spark-conf={key}={value}" for key, value in conf.items()),
        ),
        cwd=cluster.folder,
        env={**environment(), "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def ended(run: subprocess.Popen[str]) -> tuple[int, Any]:
    """The exit code of a run, and its document."""
    out, err = run.communicate(timeout=300)
    assert out, err[-4000:]
    return run.returncode, json.loads(out)


@contextmanager
def held(cluster: Cluster) -> Iterator[Path]:
    """Have the first task that writes a file held; the wish, which is called `met` then."""
    met = cluster.folder / "wishes/met"
    met.unlink(missing_ok=True)
    wish = met.with_name("hold")
    wish.touch()
    try:
        yield met
    finally:
        wish.unlink(missing_ok=True)


def wait_for(path: Path, run: subprocess.Popen[str]) -> None:
    ends_at = time.monotonic() + HAPPENS_WITHIN_SECONDS
    while not path.exists():
        assert time.monotonic() < ends_at, "nothing was written"
        assert run.poll() is None, run.communicate()
        time.sleep(0.2)


def executors(pid: int) -> list[int]:
    """The executors of a worker."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    threads = Path(f"/proc/{pid}/task").iterdir() if found.exists() else ()
    children = [int(child) for one in threads for child in (one / "children").read_text().split()]
    return [child for child in children if "Executor" in Path(f"/proc/{child}/cmdline").read_text()]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    build(tmp_path / "t", 2, "two")
    return tmp_path / "t"


def test_icectl_comes_by_the_wheel_on_every_node(cluster, shipped, table):
    before = rows(table)
    code, told = ended(compact(cluster, table, str(shipped.installed / "bin/python")))
    assert (code, told["status"]) == (0, "done")
    assert rows(table) == before
    assert not unreferenced(table)


def test_icectl_comes_in_an_archive(cluster, shipped, table):
    before = rows(table)
    archives = {"spark.archives": f"{shipped.archive}#env"}
    code, told = ended(compact(cluster, table, "env/bin/python", **archives))
    assert (code, told["status"]) == (0, "done"), told["error"]
    assert rows(table) == before
    assert not unreferenced(table)


def test_icectl_comes_by_py_files(cluster, shipped, table):
    before = rows(table)
    archive = shipped.wheel.with_name("icectl.zip")  # Spark looks into no file of another name
    archive.write_bytes(shipped.wheel.read_bytes())
    done = submit(
        "compact", str(table), *SMALL, "--json", "--quiet",
        settings=SETTINGS, spark=["--master", cluster.master, "--py-files", str(archive)],
        PYSPARK_DRIVER_PYTHON=command()[0], PYSPARK_PYTHON=str(shipped.bare / "bin/python"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert rows(table) == before
    assert not unreferenced(table)


def test_a_worker_without_icectl_says_what_to_do(cluster, shipped, table):
    before = current_metadata(table)
    code, told = ended(compact(cluster, table, str(shipped.bare / "bin/python")))
    assert code == 16
    assert "No module named" in told["error"]["message"]
    assert "`spark.archives` (docs/spark.md)" in told["error"]["hint"]
    assert current_metadata(table) == before
    assert not unreferenced(table)


def test_a_submitted_run_on_workers_without_icectl_says_so_too(cluster, shipped, table):
    before = current_metadata(table)
    done = submit(
        "compact", str(table), *SMALL, settings=SETTINGS, spark=["--master", cluster.master],
        PYSPARK_DRIVER_PYTHON=command()[0], PYSPARK_PYTHON=str(shipped.bare / "bin/python"),
    )  # fmt: skip
    assert done.returncode == 16
    assert "No module named 'icectl'" in done.stdout
    assert "`spark.archives` (docs/spark.md)" in done.stdout
    assert current_metadata(table) == before


def test_an_executor_that_is_killed_while_it_writes(cluster, shipped, table):
    before = rows(table)
    with held(cluster) as met:
        run = compact(cluster, table, str(shipped.installed / "bin/python"))
        wait_for(met, run)
        for worker in cluster.workers:
            for executor in executors(worker.pid):
                os.kill(executor, signal.SIGKILL)
        code, told = ended(run)
    assert (code, told["status"]) == (0, "done"), told["error"]
    assert rows(table) == before
    assert not unreferenced(table)


def test_what_a_driver_that_dies_leaves_goes_with_the_next_run(cluster, shipped, table):
    before, metadata = rows(table), current_metadata(table)
    with held(cluster) as met:
        run = compact(cluster, table, str(shipped.installed / "bin/python"))
        wait_for(met, run)
        run.kill()
        run.communicate()
    assert current_metadata(table) == metadata
    assert unreferenced(table)
    ends_at = time.monotonic() + HAPPENS_WITHIN_SECONDS
    while any(executors(worker.pid) for worker in cluster.workers):
        assert time.monotonic() < ends_at, "executors outlive their driver"
        time.sleep(0.5)
    again = ("-m", "icectl", "compact", str(table), *SMALL, "--engine", "local", "--json")
    done = subprocess.run([sys.executable, *again], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert rows(table) == before
    assert not unreferenced(table)


@contextmanager
def written_down(folder: Path) -> Iterator[tuple[dict[str, str], list[dict[str, Any]]]]:
    """Settings by which Spark writes down what it does, and what it wrote in the end."""
    folder.mkdir()
    events: list[dict[str, Any]] = []
    yield (
        {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": folder.as_uri(),
        },
        events,
    )
    for path in folder.rglob("events_*"):
        events += [json.loads(line) for line in path.read_text().splitlines()]


def attempts(events: list[dict[str, Any]]) -> dict[int, int]:
    """How often each stage of a shuffle was begun."""
    infos = [one["Stage Info"] for one in events if one["Event"] == "SparkListenerStageSubmitted"]
    return Counter(info["Stage ID"] for info in infos)


def test_a_shuffle_that_is_lost_between_its_stages_is_made_again(cluster, shipped, tmp_path):
    """Rows that were dealt out are on disks of executors, which die as files are written."""
    table = build(tmp_path / "t", 2, "none").directory
    before = rows(table)
    with held(cluster) as met, written_down(tmp_path / "events") as (settings, events):
        python = str(shipped.installed / "bin/python")
        run = compact(cluster, table, python, "--rewrite-all", "--zorder", "id,amount", **settings)
        wait_for(met, run)
        for worker in cluster.workers:
            for executor in executors(worker.pid):
                os.kill(executor, signal.SIGKILL)
        code, told = ended(run)
    assert (code, told["status"]) == (0, "done"), told["error"]
    assert min(sorted(attempts(events).values())[-2:]) >= 2  # that which deals, and which writes
    assert rows(table) == before
    assert not unreferenced(table)


SPECULATION = {
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.1",
}


def copies(events: list[dict[str, Any]]) -> list[str]:
    """How the second attempts at tasks ended that run beside the first."""
    ended = [one for one in events if one["Event"] == "SparkListenerTaskEnd"]
    return [one["Task End Reason"]["Reason"] for one in ended if one["Task Info"]["Speculative"]]


def test_what_a_task_has_written_goes_where_its_copy_was_faster(cluster, shipped, table, tmp_path):
    before = rows(table)
    with held(cluster) as met, written_down(tmp_path / "events") as (settings, events):
        python = str(shipped.installed / "bin/python")
        run = compact(cluster, table, python, **settings, **SPECULATION)
        wait_for(met, run)
        code, told = ended(run)
    assert (code, told["status"]) == (0, "done"), told["error"]
    assert "Success" in copies(events)
    assert rows(table) == before
    assert not unreferenced(table)


def test_executors_come_as_there_is_work_and_go_when_they_idle(cluster, shipped, table, tmp_path):
    before = rows(table)
    dynamic = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
    }
    with written_down(tmp_path / "events") as (settings, events):
        python = str(shipped.installed / "bin/python")
        run = compact(
            cluster, table, python, "--rewrite-all", "--zorder", "id,amount", **settings, **dynamic
        )
        code, told = ended(run)
    assert (code, told["status"]) == (0, "done"), told["error"]
    kinds = [one["Event"] for one in events]
    assert kinds.index("SparkListenerExecutorAdded") > kinds.index("SparkListenerJobStart")
    assert rows(table) == before
    assert not unreferenced(table)


def test_workers_of_a_cluster_find_what_is_found_without_them(cluster, shipped, tmp_path):
    """Faults of data files, and orphans, are those that icectl finds alone; these are removed."""
    table = aged_table(tmp_path).directory
    for number in range(12):
        stray(table, f"data/day={number % 3}/hour={number}/lost.parquet")
    age(table, 7)
    damaged = Path(min(live(table)))
    damaged.write_bytes(damaged.read_bytes()[:-8] + b"nofooter")
    age(damaged, 7)
    python = str(shipped.installed / "bin/python")
    check = ("validate", str(table), "--level", "data")
    seek = ("remove-orphans", str(table), "--older-than", "1d", "--max-fraction", "1")
    alone = [here(*check), here(*seek, "--dry-run")]
    on_workers = [
        ended(started(cluster, python, {}, *check, "--engine", "spark")),
        ended(started(cluster, python, {}, *seek, "--engine", "spark", "--yes")),
    ]
    assert [code for code, _ in on_workers] == [code for code, _ in alone] == [4, 0]
    assert on_workers[0][1]["result"]["findings"] == alone[0][1]["result"]["findings"]
    orphans = [{item["path"] for item in told["result"]["orphans"]} for _, told in
               (on_workers[1], alone[1])]  # fmt: skip
    assert orphans[0] == orphans[1]
    assert len([path for path in orphans[0] if path.endswith("/lost.parquet")]) == 12
    assert on_workers[1][1]["result"]["removed"] == len(orphans[0])
    assert here(*seek, "--dry-run")[1]["status"] == "nothing-to-do"


def live(directory: Path) -> set[str]:
    """The data files of the current snapshot."""
    return {entry["data_file"]["file_path"] for entry in live_entries(head(directory))}


def here(*words: str) -> tuple[int, Any]:
    """Run a command without Spark: its exit code, and its document."""
    run = [sys.executable, "-m", "icectl", *words, "--json"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)
