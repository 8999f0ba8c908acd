"""Compactions on YARN: spark-submit in both modes, and sessions of icectl's own."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders.compactions import build
from tests.builders.rows import current_metadata, live_entries, read_metadata
from tests.spark.clusters import pyspark_home, submit, yarn
from tests.spark.engine import command, environment, why_skipped
from tests.spark.programs import rows
from tests.spark.shipped import ship

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.xdist_group("spark-runs")]

SMALL = ("--min-input-files", "2", "--target-file-size", "4KiB")
PYTHON = "env/bin/python"


@dataclass(frozen=True)
class Yarn:
    """Where YARN has its settings and its nodes, and what each submission wants."""

    folder: Path
    archive: str
    environ: Mapping[str, str]
    settings: Mapping[str, str]

    def printed(self) -> str:
        """What programs have printed on the nodes."""
        return "".join(path.read_text() for path in self.folder.glob("node-*/logs/*/*/stdout"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """Two nodes, and icectl in an archive."""
    jars = os.environ.get("ICECTL_TEST_YARN_JARS")
    skipped = why_skipped()
    if jars is None:
        skipped = os.environ.get("ICECTL_TEST_NO_YARN") or "tests/run.sh fetches YARN"
    if skipped is not None or jars is None:
        pytest.skip(f"Hadoop's YARN: {skipped}")
    shipped = ship(tmp_path_factory.mktemp("shipped"))
    folder = tmp_path_factory.mktemp("yarn")
    settings = {
        "spark.yarn.jars": f"local:{pyspark_home()}/jars/*",
        "spark.yarn.stagingDir": (folder / "staging").as_uri(),
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "2",
    }
    with yarn(folder, jars) as conf:
        environ = {"HADOOP_CONF_DIR": str(conf)}
        yield Yarn(folder, f"{shipped.archive}#env", environ, settings)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    build(tmp_path / "t", 2, "two")
    return tmp_path / "t"


def unreferenced(directory: Path) -> set[str]:
    """Data files that no snapshot has."""
    metadata = read_metadata(current_metadata(directory))
    named = {
        entry["data_file"]["file_path"].removeprefix("file:")
        for snapshot in metadata["snapshots"]
        for entry in live_entries(snapshot)
    }
    return set(map(str, (directory / "data").rglob("*.parquet"))) - named


def submitted(cluster: Yarn, mode: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Submit a command in one of the two modes."""
    python = {
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": PYTHON,
        "spark.executorEnv.PYSPARK_PYTHON": PYTHON,
    }
    spark = ["--master", "yarn", "--deploy-mode", mode, "--archives", cluster.archive]
    of_driver = {"PYSPARK_DRIVER_PYTHON": command()[0]} if mode == "client" else {}
    return submit(
        *arguments, settings={**cluster.settings, **python}, spark=spark,
        PYSPARK_PYTHON=PYTHON, **of_driver, **cluster.environ,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_submitted_compaction(cluster, table, mode):
    before = rows(table)
    done = submitted(cluster, mode, "compact", str(table), *SMALL)
    assert done.returncode == 0, done.stderr[-4000:]
    told = done.stdout if mode == "client" else cluster.printed()
    assert "50 files of 98" in told
    assert len(list((table / "data").rglob("*.parquet"))) == 88
    assert rows(table) == before
    assert not unreferenced(table)


def test_the_exit_code_is_in_the_diagnostics(cluster, tmp_path):
    done = submitted(cluster, "cluster", "inspect", str(tmp_path / "none"))
    assert done.returncode == 1
    assert "User application exited with status 10" in done.stderr
    assert "error: there is no directory" in cluster.printed()


def test_a_session_of_icectl_s_own(cluster, table):
    before = rows(table)
    settings = {**cluster.settings, "spark.archives": cluster.archive}
    words = command(
        "-m", "icectl", "compact", str(table), *SMALL, "--master", "yarn",
        *(f"--spark-conf={key}={value}" for key, value in settings.items()),
    )  # fmt: skip
    environ = {**environment(), **cluster.environ, "PYSPARK_PYTHON": PYTHON}
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert rows(table) == before
    assert not unreferenced(table)
