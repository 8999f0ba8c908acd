"""Runs of `icectl maintain` beside each other, and killed ones, in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from icectl.cli import app
from tests.builders.rows import local
from tests.builders.table_builder import TableBuilder
from tests.builders.warehouse import ORPHAN, at_rest, broken, ids_of, rotten, warehouse
from tests.catalogs.sql_servers import SqlServer

PREFIX = "main.db.inner."
WORDS = [
    sys.executable, "-m", "icectl", "maintain", "main", "--yes", "--json-lines",
]  # fmt: skip


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlServer]:
    monkeypatch.setenv("ICECTL_COMPACT_ENGINE", "local")
    with warehouse(tmp_path, monkeypatch) as started:
        yield started


def started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*WORDS, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def rows(out: str) -> dict[str, dict[str, object]]:
    """The lines of tables in a run with --json-lines, by name."""
    read = [json.loads(line) for line in out.splitlines()]
    return {row["table"].removeprefix(PREFIX): row for row in read if "table" in row}


def check_kept(server: SqlServer, tables: dict[str, TableBuilder]) -> None:
    """Every table has the rows that it had, and is in order."""
    for name, table in tables.items():
        assert ids_of(local(server.current(name))) == sorted(table.ids())
    names = [PREFIX + name for name in tables]
    assert app.main(["validate", *names, "--level", "files", "--all-snapshots", "--json"]) == 0


@pytest.mark.parametrize("count", [4, pytest.param(10, marks=pytest.mark.full)])
def test_two_runs_beside_each_other_lose_nothing(server, capsys, count):
    tables = {f"t{number}": rotten(server, f"t{number}") for number in range(count)}
    steps = "--only=rewrite-manifests,expire-snapshots,remove-orphans"
    both = [started(steps), started(steps, "--jobs", "2")]
    for out, err in [one.communicate(timeout=300) for one in both]:
        found = rows(out)
        assert len(found) == count, err
        assert {row["status"] for row in found.values()} <= {
            "done", "nothing-to-do", "conflict", "refused",
        }, err  # fmt: skip
    assert all(one.returncode in (0, 3) for one in both)
    again, _ = started(steps).communicate(timeout=300)
    check_kept(server, tables)
    assert not [name for name in tables if (server.warehouse / name / ORPHAN).exists()]
    assert {row["status"] for row in rows(again).values()} <= {"done", "nothing-to-do"}
    last, _ = started(steps).communicate(timeout=300)
    assert {row["status"] for row in rows(last).values()} == {"nothing-to-do"}


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.full)])
def test_a_run_goes_on_where_a_killed_one_stopped(server, capsys, jobs):
    tables = {f"t{number}": rotten(server, f"t{number}") for number in range(3)}
    killed = started("--jobs", jobs)
    assert killed.stdout is not None
    first = json.loads(killed.stdout.readline())
    workers = Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text().split()
    killed.kill()
    killed.communicate(timeout=60)
    assert first["status"] == "done"
    ends_at = time.monotonic() + 60  # they see between two steps that the killed run is gone
    while any(map(_runs, workers)):
        assert time.monotonic() < ends_at
        time.sleep(0.05)
    out, err = started().communicate(timeout=300)
    found = rows(out)
    assert found[first["table"].removeprefix(PREFIX)]["status"] == "nothing-to-do", err
    assert {row["exit"] for row in found.values()} == {0}, err
    assert "done" in {row["status"] for row in found.values()}
    check_kept(server, tables)
    last, _ = started().communicate(timeout=300)
    assert {row["status"] for row in rows(last).values()} == {"nothing-to-do"}


def _runs(process: str) -> bool:
    try:
        stat = Path("/proc", process, "stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full)]
)
def test_a_signal_ends_a_run_with_workers_and_leaves_none_behind(server, number):
    tables = {f"t{number}": rotten(server, f"t{number}") for number in range(3)}
    process = started("--jobs", "2")
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert "finishing the steps in progress" in err
    out, err = started().communicate(timeout=300)
    assert {row["exit"] for row in rows(out).values()} == {0}, err
    check_kept(server, tables)


@pytest.mark.full
def test_a_warehouse_of_two_hundred_tables(server, capsys):
    tables = {f"rotten{number}": rotten(server, f"rotten{number}") for number in range(3)}
    for number in range(187):
        at_rest(server, f"calm{number:03}")
    for number in range(8):
        broken(server, f"broken{number}")
    for number in range(2):
        at_rest(server, f"off{number}", {"icectl.maintain.enabled": "false"})
    first = started("--jobs", "2")
    out, err = first.communicate(timeout=900)
    by_status: dict[str, int] = {}
    for row in rows(out).values():
        by_status[str(row["status"])] = by_status.get(str(row["status"]), 0) + 1
    assert by_status == {"done": 3, "nothing-to-do": 187, "failed": 8, "skipped": 2}, err
    assert first.returncode == 3  # the broken ones
    check_kept(server, tables)
    second = started("--exclude", "main.*.*.broken*")
    out, err = second.communicate(timeout=900)
    assert second.returncode == 0, err
    assert {row["status"] for row in rows(out).values()} == {"nothing-to-do", "skipped"}
