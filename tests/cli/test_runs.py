"""`icectl runs`: what the history says of runs of `maintain`, chosen by table, time and outcome."""

import io
import json
import re
import time
from types import SimpleNamespace

import pytest

from icectl.cli.console import Console, ConsoleOptions
from icectl.cli.settings import resolve
from icectl.commands.maintain.ended_tables import EndedTables
from icectl.commands.maintain.plan import AssessedTable, TableRun
from icectl.env import Env
from tests.builders.table_builder import START_MS
from tests.builders.warehouse import at_rest, broken, rotten
from tests.cli.conftest import Ended, Run, result
from tests.stores.fixed_env import FixedEnv
from tests.unit.cli.test_history import RECORD

DAY_MS = 86_400_000
NOW_MS = START_MS + 30 * DAY_MS


@pytest.fixture
def maintain(prepared, tmp_path, monkeypatch) -> Run:
    """Run `icectl maintain` with a history of the test's own, a day later each time."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    clock = FixedEnv(NOW_MS)
    run = prepared("maintain", clock)

    def later(*words: object, command: str = "maintain", env: Env | None = None) -> Ended:
        if command == "maintain":
            clock.sleep(DAY_MS / 1000)
        return run(*words, command=command, env=env)

    return later


def test_each_table_of_a_run_is_a_row(server, maintain):
    rotten(server, "rotten")
    at_rest(server, "calm")
    broken(server, "lost")
    ended = maintain("main", "--yes", "--json")
    assert ended.code == 3
    found = result(maintain("--json", command="runs"))
    rows = {row["table"].rpartition(".")[2]: row for row in found["runs"]}
    assert {name: (row["status"], row["exit"]) for name, row in rows.items()} == {
        "rotten": ("done", 0), "calm": ("nothing-to-do", 0), "lost": ("failed", 15),
    }  # fmt: skip
    assert {row["run"] for row in rows.values()} == {ended.document["result"]["run"]}
    row = rows["rotten"]
    assert (row["file_count_before"], row["file_count_after"]) == (25, 1)
    assert row["rewritten_bytes"] > 0
    assert row["freed_bytes"] > 0
    steps = {step["step"]: step["summary"] for step in row["steps"]}
    assert steps["compact"] == "24 files into 1 by the local engine, 1 delete file removed"
    assert steps["expire-snapshots"].startswith("13 snapshots expired, ")
    text = maintain(command="runs").out
    assert re.search(r"main\.db\.inner\.lost +failed +failed with exit code 15\n", text), text


def test_rows_are_chosen_by_table_time_and_outcome(server, maintain):
    at_rest(server, "calm")
    broken(server, "lost")
    for _ in range(3):
        maintain("main", "--yes")

    def chosen(*words: str) -> list[str]:
        rows = result(maintain(*words, "--json", command="runs"))["runs"]
        return [row["table"].rpartition(".")[2] for row in rows]

    assert sorted(chosen()) == ["calm"] * 3 + ["lost"] * 3
    assert chosen("main.db.inner.calm") == ["calm"] * 3
    assert chosen("main.*.*.c*", "main.nowhere") == ["calm"] * 3
    assert len(chosen("main.db")) == 6
    assert chosen("--failed") == ["lost"] * 3
    assert len(chosen("--since", "25h")) == 4
    assert chosen("--limit", "1", "--failed", "--since", "1h") == ["lost"]
    assert maintain("--limit", "0", command="runs").code == 2
    assert maintain("--since", "tomorrow", command="runs").code == 2
    assert maintain("nothing.at.all", command="runs").out == "no such runs\n"


def test_plans_leave_no_row(server, maintain, tmp_path):
    rotten(server, "rotten")
    maintain("main", "--dry-run")
    maintain("main", "--check")
    assert not (tmp_path / "state").exists()
    assert maintain(command="runs").out == "no runs\n"


def test_secrets_and_messages_are_in_no_row(server, maintain, tmp_path):
    broken(server, "lost")
    maintain("main", "--yes", "--storage-option", "key=hunter3")
    path = tmp_path / "state" / "icectl" / "runs.jsonl"
    assert "main.db.inner.lost" in path.read_text()
    console = Console(io.StringIO(), io.StringIO(), io.StringIO(), FixedEnv(), ConsoleOptions())
    shell = SimpleNamespace(console=console, env=FixedEnv(), settings=resolve({}, {}, None))
    ended = EndedTables(SimpleNamespace(catalog=None, shell=shell), ["maintain"], planning=False)
    ended.tell([TableRun("s3://someone:hunter2@bucket/wh/t", AssessedTable())])
    text = path.read_text()
    assert '"s3://someone:***@bucket/wh/t"' in text
    assert not re.search("hunter|is missing", text)


def test_a_history_that_cannot_be_written_is_a_warning(server, maintain, tmp_path):
    at_rest(server, "calm")
    (tmp_path / "state").write_text("in the way")
    ended = maintain("main", "--yes")
    assert ended.code == 0
    assert "warning: cannot write the history of runs to " in ended.err
    assert ended.err.count("warning: ") == 1
    assert maintain(command="runs").code == 13


def test_a_hostile_line_is_skipped_with_a_warning(server, maintain, tmp_path):
    at_rest(server, "calm")
    maintain("main", "--yes")
    path = tmp_path / "state" / "icectl" / "runs.jsonl"
    record = json.loads(path.read_text())
    with path.open("a") as file:
        file.write(json.dumps({**record, "table": "\x1b[2J\nprod\x00", "exit": 3}) + "\n")
        file.write("{}\n")
    ended = maintain(command="runs")
    assert ended.code == 0
    assert "warning: skipped 1 line of the history in " in ended.err
    assert "\x1b" not in ended.out
    assert len(ended.out.splitlines()) == 3
    assert maintain("main.**", command="runs").out.count("\n") == 2  # and no traceback


def test_a_long_history_is_read_in_time(tmp_path, run, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    line = json.dumps(RECORD) + "\n"
    folder = tmp_path / "icectl"
    folder.mkdir()
    (folder / "runs.jsonl").write_text(line * ((1 << 20) // len(line)))
    started = time.monotonic()
    assert run("runs", "nothing.like.it").out == "no such runs\n"
    assert time.monotonic() - started < 10
