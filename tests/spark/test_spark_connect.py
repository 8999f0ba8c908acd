"""Compactions and rows over Spark Connect, on workers that have of icectl but what comes along."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.builders.byte_scanner import hits_below
from tests.builders.compactions import lineage
from tests.builders.rows import rows_without_lineage
from tests.conftest import ROOT
from tests.spark.clusters import connect_server, python_without_icectl
from tests.spark.conftest import asked_for
from tests.spark.engine import on_spark, skip_without_spark
from tests.spark.programs import (
    COMPACTED,
    STEPS,
    build_tables,
    build_trees,
    check_clean,
    check_loaded,
    check_overwritten,
    check_typed,
    checked,
    ids_by_snapshot,
    rows,
    told_by,
    unreferenced,
)
from tests.spark.test_spark_erase import GONE, built

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-runs")]


@dataclass(frozen=True)
class Client:
    """What the client has told, and its tables before and after."""

    told: dict[str, Any]
    folder: Path
    checked: Any
    before: dict[str, list[Any]]
    lineage_before: dict[int, tuple[int, int]]


@pytest.fixture(scope="module")
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Start a server, build tables, and compact and change there those that are asked for."""
    skip_without_spark()
    if on_spark("-c", "import pyspark.sql.connect.session").returncode:
        pytest.skip("the Python of Spark has no pyspark[connect]")
    folder, server = (tmp_path_factory.mktemp(name) for name in ("connect", "server"))
    build_tables(folder)
    build_trees(folder)
    built(folder / "erased", damaged=False)
    (folder / "gone.txt").write_text("".join(f"note {id_}\n" for id_ in GONE))
    found = checked(folder / "wrong")
    before = {name: rows(folder / name) for name in COMPACTED}
    of_sorted = lineage(folder / "sorted")
    bare = python_without_icectl(server / "bare")
    with connect_server(server, PYSPARK_PYTHON=str(bare), PYTHONPATH="") as remote:
        script = str(ROOT / "tests/peers/spark_connect.py")
        done = on_spark(script, remote, str(folder), *asked_for(request))
    assert done.returncode == 0, done.stderr[-4000:]
    return Client(told_by(done.stdout), folder, found, before, of_sorted)


FULL = pytest.mark.full


@pytest.mark.parametrize("name", ["packed", "sorted", pytest.param("z-ordered", marks=FULL)])
def test_rows_are_whole(client, name):
    assert client.told[name]["document"]["status"] == "done", client.told[name]
    assert rows(client.folder / name) == client.before[name]
    assert not unreferenced(client.folder / name)


def test_a_check_finds_what_is_found_without_spark(client):
    assert client.told["checked"]["document"] == client.checked
    assert client.checked["exit"] == 4


def test_row_ids_stay_with_their_rows(client):
    assert lineage(client.folder / "sorted") == client.lineage_before


def test_rows_are_erased(client):
    document = client.told["erased"]["document"]
    assert (document["exit"], document["result"]["is_proved"]) == (0, True), document
    assert "rows" in {it["known_by"] for it in document["result"]["objects"]}
    assert hits_below(client.folder / "erased", [f"note {id_}".encode() for id_ in GONE]) == []
    kept = sorted(row["id"] for row in rows_without_lineage(client.folder / "erased"))
    assert kept == [id_ for id_ in (*range(10), *range(20, 30)) if id_ not in (3, 21)]


def test_a_damaged_file_ends_as_it_does_elsewhere(client):
    assert client.told["wrong"]["error"] == "CorruptTable"
    assert not unreferenced(client.folder / "wrong")


def test_what_the_protocol_cannot_do_is_told_by_name(client):
    told = client.told["orphans"]
    assert (told["error"], told["exit"]) == ("Unsupported", 14)
    assert told["message"].startswith("Spark Connect cannot keep results on disks of workers")


def test_the_callers_session_is_as_it_was(client):
    left = client.told["left"]
    assert (left["same"], left["alive"]) == (True, 5)
    pattern = r"rewriting data files of [1-9][0-9,]* rows on Spark"
    assert [phase for phase in left["phases"] if re.fullmatch(pattern, phase)]


@pytest.mark.parametrize("step", STEPS)
def test_each_step_leaves_the_rows_that_it_should(client, step):
    told = client.told[step]
    found = ids_by_snapshot(client.folder / "two")
    assert found[told["made"]["snapshot_id"]] == told["expected"]


def test_frames_are_written_and_loaded_as_on_any_session(client):
    check_overwritten(client.told, client.folder / "two")
    check_loaded(client.told)


@pytest.mark.parametrize("name", [pytest.param("typed", marks=FULL)])
def test_values_of_types_that_spark_lacks_go_there_and_back(client, name):
    check_typed(client.told, client.folder / name)
    check_clean(client.folder / name)


def test_attempts_that_failed_leave_nothing(client):
    assert client.told["stumbling"]["made"]["added_rows"] == 40
    for table in ("two", "plain"):
        check_clean(client.folder / table)
