"""icectl as a program of spark-submit: on the submitter's session, with its settings."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.builders.compactions import build
from tests.builders.rows import current_metadata, live_entries, read_metadata
from tests.conftest import ROOT
from tests.spark.clusters import SCRIPT, Cluster, standalone, submit
from tests.spark.engine import skip_without_spark
from tests.spark.programs import rows

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-runs")]

SMALL = ("--min-input-files", "2", "--target-file-size", "4KiB")


@dataclass(frozen=True)
class Ran:
    """A run, its events, and a table before it and after."""

    done: subprocess.CompletedProcess[str]
    events: list[dict[str, Any]]
    rows_before: list[Any]
    rows_after: list[Any]
    unreferenced: set[str]

    @property
    def document(self) -> Any:
        """What it has printed."""
        return json.loads(self.done.stdout)

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the session that it ran on."""
        (told,) = (one for one in self.events if one["Event"] == "SparkListenerEnvironmentUpdate")
        found: dict[str, str] = told["Spark Properties"]
        return found

    @property
    def executors(self) -> set[str]:
        """Where tasks have run."""
        ended = (one for one in self.events if one["Event"] == "SparkListenerTaskEnd")
        return {one["Task Info"]["Executor ID"] for one in ended}


def compacted(folder: Path, *arguments: str, spark: list[str], **environ: str) -> Ran:
    """Submit the compaction of a new table."""
    table = build(folder / "t", 2, "two")
    before = rows(folder / "t")
    events = folder / "events"
    events.mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.app.name": "nightly",
    }
    done = submit(
        "compact", table.location, *SMALL, "--json", *arguments,
        settings=settings, spark=spark, **environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [text for path in events.rglob("events_*") for text in path.read_text().splitlines()]
    files = {str(path) for path in (folder / "t/data").rglob("*.parquet")}
    metadata = read_metadata(current_metadata(folder / "t"))
    named = {
        entry["data_file"]["file_path"].removeprefix("file:")
        for snapshot in metadata["snapshots"]
        for entry in live_entries(snapshot)
    }
    return Ran(
        done, [json.loads(line) for line in lines], before, rows(folder / "t"), files - named
    )


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A compaction on the cores of this machine, as the submitter wants it."""
    skip_without_spark()
    folder = tmp_path_factory.mktemp("submitted")
    # a setting of icectl's that is about sessions of its own
    return compacted(folder, spark=["--master", "local[2]"], ICECTL_COMPACT_MASTER="nowhere")


def test_the_session_is_the_submitters(here):
    assert here.settings["spark.master"] == "local[2]"
    assert here.settings["spark.app.name"] == "nightly"
    assert here.executors == {"driver"}


def test_rows_are_whole_and_what_is_printed_is_one_document(here):
    assert here.document["status"] == "done"
    assert here.rows_after == here.rows_before
    assert len(here.rows_after) == 52
    assert not here.unreferenced


def test_the_exit_code_reaches_who_submitted(tmp_path):
    skip_without_spark()
    done = submit("inspect", str(tmp_path / "none"), spark=["--master", "local[1]"])
    assert done.returncode == 10
    assert "error: there is no directory" in done.stdout  # Spark has one stream for both


def test_the_command_that_finds_the_script(capsys):
    from icectl.cli.app import main

    assert main(["--spark-script"]) == 0
    assert capsys.readouterr().out == f"{SCRIPT}\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster of two workers."""
    skip_without_spark()
    with standalone(tmp_path_factory.mktemp("standalone"), PYTHONPATH=str(ROOT)) as running:
        yield running


ON_BOTH = {
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


@pytest.mark.full
@pytest.mark.parametrize(
    "strategy",
    [[], ["--sort-order", "id"], ["--zorder", "id,at"]],
    ids=["binpack", "sort", "zorder"],
)
def test_every_strategy_on_a_standalone_cluster(cluster, tmp_path, strategy):
    conf = [f"--conf={key}={value}" for key, value in ON_BOTH.items()]
    spark = ["--master", cluster.master, "--executor-memory", "512m", *conf]
    ran = compacted(tmp_path, *strategy, spark=spark)
    assert ran.settings["spark.master"] == cluster.master
    assert ran.executors == {"0", "1"}
    assert ran.rows_after == ran.rows_before
    assert not ran.unreferenced
