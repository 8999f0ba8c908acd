"""Maintaining many tables: whole runs over a catalog and over folders."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icectl.cli import app
from icectl.commands.maintain import workers
from icectl.commands.maintain.step import Done, StepContext, StepRequest
from icectl.commands.steps import STEPS
from icectl.env import Env
from tests.builders.rows import current_metadata, local
from tests.builders.table_builder import START_MS, TableBuilder, filled_table, make_rows
from tests.builders.warehouse import ORPHAN, at_rest, broken, ids_of, register, rotten
from tests.catalogs.sql_servers import SqlServer
from tests.cli.conftest import Ended, Run, checked_document
from tests.stores.fixed_env import FixedEnv

DAY_MS = 86_400_000
NOW_MS = START_MS + 30 * DAY_MS
PREFIX = "main.db.inner."


@pytest.fixture
def maintain(prepared: Callable[[str, Env], Run]) -> Run:
    """Run `icectl maintain` thirty days after the tables were built, each time a little later."""
    return prepared("maintain", FixedEnv(NOW_MS))


def rows(ended: Ended) -> dict[str, dict[str, Any]]:
    """The tables of a run with --json, which keeps to its schema, by their names."""
    tables = checked_document(ended)["result"]["tables"]
    return {row["table"].removeprefix(PREFIX): row for row in tables}


def statuses(ended: Ended) -> dict[str, tuple[str, int]]:
    return {name: (row["status"], row["exit"]) for name, row in rows(ended).items()}


def pyiceberg_appends(server: SqlServer, name: str, *, times: int) -> None:
    """Have PyIceberg append two rows as often."""
    from pyiceberg.catalog import load_catalog

    with load_catalog("main", **server.properties) as catalog:
        table = catalog.load_table(f"{'.'.join(server.namespace)}.{name}")
        for number in range(times):
            ids = range(1_000 + 2 * number, 1_002 + 2 * number)
            table.append(pa.Table.from_pylist(make_rows(ids), schema=table.schema().as_arrow()))


def steps(row: Mapping[str, Any]) -> dict[str, str]:
    return {step["step"]: step["status"] for step in row["steps"]}


def test_a_plan_has_a_bill_for_each_step_and_for_all(tmp_path, maintain, monkeypatch):
    for name in ("a", "b"):
        table = TableBuilder(
            tmp_path / name, properties={"history.expire.max-snapshot-age-ms": "1"}
        )
        for start in range(12):
            table.append([start])
    found = maintain(tmp_path, "--dry-run", "--json").document["result"]
    bills = [need["bill"] for table in found["tables"] for need in table["needs"]]
    assert len(bills) >= 4
    for figure in ("read_bytes", "get_requests", "fewer_requests_per_scan"):
        assert found["totals"]["bill"][figure] == sum(bill[figure] for bill in bills) > 0
    assert found["totals"]["bill"]["cost"] is None
    shown = maintain(tmp_path, "--dry-run").out
    assert shown.count("costs: ") == shown.count("brings: ") == 1
    policy = tmp_path / "maintain.toml"
    policy.write_text('payback-max = "30d"\nscans-per-day = 1000\n')
    policy.chmod(0o600)
    monkeypatch.setenv("ICECTL_PRICES_GET_1000", "1")
    words = (tmp_path, "--dry-run", "--json", "--policy", policy)

    def compacted() -> list[bool]:
        tables = maintain(*words).document["result"]["tables"]
        return ["compact" in [need["step"] for need in table["needs"]] for table in tables]

    assert compacted() == [True, True]
    monkeypatch.setenv("ICECTL_PRICES_PUT_1000", "1000000")  # dear, and nothing is saved by it
    assert compacted() == [False, False]
    (one, *_) = maintain(*words).document["result"]["tables"]
    reasons = [step["reason"] for step in one["withheld"] if step["step"] == "compact"]
    assert len(reasons) == 1
    assert "`payback-max` is 30.0" in reasons[0]
    monkeypatch.setenv("ICECTL_PRICES_PUT_1000", "1")
    policy.write_text('payback-max = "30d"\n')  # logs say how often tables are read: a each day
    log = tmp_path / "log.jsonl"
    read = {"schema": tmp_path.name, "table": "a"}
    log.write_text(
        "".join(
            json.dumps({"createTime": 1_700_000_000 + 864 * at, "ioMetadata": {"inputs": [read]}})
            + "\n"
            for at in range(1000)
        )
    )
    (a, b) = sorted(compacted_with(maintain, *words, "--queries", log).items())
    assert (a[1], b[1]) == (None, "no payback, as no query reads the table")


def compacted_with(maintain: Run, *words: object) -> dict[str, str | None]:
    """Why each table is not compacted; None where it is."""
    tables = maintain(*words).document["result"]["tables"]
    return {
        table["table"]: next(
            (one["reason"] for one in table["withheld"] if one["step"] == "compact"), None
        )
        for table in tables
    }


def test_a_budget_of_a_run_is_for_all_tables_together(tmp_path, maintain, monkeypatch):
    for name, files in (("a", 12), ("b", 30)):
        filled_table(tmp_path / name, *([start] for start in range(files)))
    policy = tmp_path / "maintain.toml"
    policy.write_text("steps = ['compact']")
    largest = sum(path.stat().st_size for path in tmp_path.glob("b/data/**/*.parquet"))
    words = (tmp_path, "--policy", policy, "--max-rewrite", str(largest - 1), "--json")
    found = rows(maintain(*words, "--dry-run"))
    assert maintain(tmp_path, "--dry-run", "--max-price", "1").code == 2  # there is no price
    a, b = (found[str(tmp_path / name)] for name in "ab")
    # All of b takes more: what it can't use goes to a.
    assert (steps(a), a["withheld"]) == ({"compact": "planned"}, [])
    reason = "what the budget of the run leaves is less than any group of files"
    assert (b["status"], b["withheld"]) == (
        "nothing-to-do", [{"step": "compact", "reason": reason}]
    )  # fmt: skip
    monkeypatch.setenv("ICECTL_PRICES_PUT_1000", "1000")
    words = (tmp_path, "--policy", policy, "--max-price", "0.01", "--json")
    found = rows(maintain(*words))
    ends = [(row["status"], [item["step"] for item in row["withheld"]]) for row in found.values()]
    assert ends == [("nothing-to-do", ["compact"])] * 2


def test_conversions_of_equality_deletes_count_in_bill_and_budget(tmp_path, maintain, inspect):
    table = filled_table(tmp_path / "a", range(20_000))
    for key in range(6):
        table.delete_rows([key * 100], kind="equality")
    debt = inspect(tmp_path / "a", "health", "--json").document["result"]["delete_debt"]
    assert (debt["verdict"], debt["options"]) == ("attention", [])
    assert (debt["converted_delete_file_count"], debt["compared_key_count"]) == (6, 6)
    policy = tmp_path / "maintain.toml"
    policy.write_text("steps = ['compact']\ncompact.min-file-size = '1KiB'")
    words = (tmp_path, "--policy", policy, "--json", "--max-rewrite")
    (little,) = rows(maintain(*words, "1KiB")).values()
    reason = "what the budget of the run leaves is less than any group of files"
    assert little["withheld"] == [{"step": "compact", "reason": reason}]
    (planned,) = rows(maintain(*words, "1MiB", "-n")).values()
    (done,) = rows(maintain(*words, "1MiB")).values()
    (step,) = done["steps"]
    figures = step["figures"]
    assert (step["status"], figures["rewritten_bytes"]) == ("done", 0)
    # Keys are looked up in one of the columns, and in all six files of deletes.
    assert 0 < figures["converted_bytes"] < planned["before"]["file_bytes"]
    (need,) = planned["needs"]
    assert need["bill"]["read_bytes"] > figures["converted_bytes"]
    assert rows(maintain(*words, "1MiB", "-n"))[done["table"]]["status"] == "nothing-to-do"


def test_a_run_does_what_each_table_needs_and_a_second_has_nothing_to_do(server, maintain):
    table = rotten(server, "rotten")
    at_rest(server, "calm")
    at_rest(server, "off", {"icectl.maintain.enabled": "false"})
    rotten(server, "shared", properties={"gc.enabled": "false"})
    before = {name: server.current(name) for name in ("rotten", "calm", "off", "shared")}
    ended = maintain("main", "--yes", "--json")
    found = rows(ended)
    assert {name: row["status"] for name, row in found.items()} == {
        "rotten": "done", "shared": "done", "calm": "nothing-to-do", "off": "skipped",
    }  # fmt: skip
    assert ended.code == 0
    # it has no statistics, no row has a date of expiry, and no policy asks for erasures
    needed = [step for step in STEPS if step not in ("analyze", "erase", "expire-rows")]
    assert steps(found["rotten"]) == dict.fromkeys(needed, "done")
    assert steps(found["shared"]) == {"compact": "done", "rewrite-manifests": "done"}
    assert [one["step"] for one in found["shared"]["withheld"]] == [
        "expire-snapshots", "remove-orphans",
    ]  # fmt: skip
    assert found["off"]["reason"] == "its property `icectl.maintain.enabled` is false"
    assert (found["rotten"]["before"]["file_count"], found["rotten"]["after"]["file_count"]) == (
        25, 1,
    )  # fmt: skip
    assert found["rotten"]["after"]["snapshot_count"] == 2  # compacted, and manifests rewritten
    assert ids_of(local(server.current("rotten"))) == sorted(table.ids())
    assert not (server.warehouse / "rotten" / ORPHAN).exists()
    assert (server.warehouse / "shared" / ORPHAN).exists()
    assert server.current("off") == before["off"]
    assert server.current("calm") != before["calm"]  # when orphans were looked for is noted there

    between = {name: server.current(name) for name in before}
    again = maintain("main", "--yes", "--json")
    assert statuses(again) == {
        "rotten": ("nothing-to-do", 0), "calm": ("nothing-to-do", 0),
        "shared": ("nothing-to-do", 0), "off": ("skipped", 0),
    }  # fmt: skip
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")
    assert {name: server.current(name) for name in before} == between


def test_an_unhealthy_table_is_skipped_and_stops_no_other(server, maintain):
    broken(server, "lost")
    at_rest(server, "calm")
    current_metadata(at_rest(server, "dead").directory).write_text("{")
    ended = maintain("main.db.inner.*", "--yes", "--json", "--only", "remove-orphans")
    assert statuses(ended) == {
        "lost": ("failed", 15), "dead": ("failed", 15), "calm": ("nothing-to-do", 0),
    }  # fmt: skip
    assert (ended.code, ended.document["status"]) == (3, "incomplete")
    assert "is missing" in rows(ended)["lost"]["reason"]


def test_a_table_with_errors_that_only_a_check_finds_is_skipped(server, maintain, tmp_path):
    (rotten(server, "rotten").directory / "data" / "00001.parquet").unlink()
    policy = tmp_path / "maintain.toml"
    policy.write_text("validate.level = 'files'\n")
    words = ("main", "--policy", str(policy), "--json")
    assert maintain(*words, "--check").code == 4
    ended = maintain(*words)
    assert ended.code == 3
    row = rows(ended)["rotten"]
    assert (row["status"], row["exit"]) == ("failed", 15)
    assert row["reason"].startswith("`validate` exits with 4: ")
    assert [step["step"] for step in row["steps"]] == ["validate"]


def test_after_a_sign_of_damage_nothing_is_deleted_that_may_be_the_last_copy(
    server, maintain, repair, tmp_path
):
    """Expiring old snapshots after a compacted file was lost would drop the last copies of rows."""
    table = TableBuilder(server.warehouse / "lost")
    for number in range(20):
        table.append(range(10 * number, 10 * number + 10))
    name = f"{PREFIX}lost"
    register(server, "lost")
    assert maintain("main", "--yes", "--only", "compact").code == 0
    (compacted,) = (table.directory / "data").rglob("*-c*.parquet")
    pyiceberg_appends(server, "lost", times=7)
    compacted.unlink()
    policy, file = tmp_path / "maintain.toml", tmp_path / "icectl.prom"
    policy.write_text("expire-snapshots.older-than = '0s'\nexpire-snapshots.retain-last = 1\n")
    before = {path for path in table.directory.rglob("*") if path.is_file()}
    later = FixedEnv(4_102_444_800_000)
    words = ("main", "--policy", str(policy))
    ended = maintain(*words, "--json", "--metrics-file", str(file), env=later)
    row = rows(ended)["lost"]
    assert (row["status"], row["exit"], ended.code) == ("failed", 15, 3)
    assert steps(row) == {"compact": "failed"}
    assert "expire-snapshots" in [one["step"] for one in row["withheld"]]
    assert {one["reason"] for one in row["withheld"]} == {
        "withheld, as `compact` ended with 15 and the table may be damaged"
    }
    assert before == {path for path in table.directory.rglob("*") if path.is_file()}
    assert f'icectl_last_run_exit_code{{command="maintain",table="{name}"}} 15' in file.read_text()
    assert f'table="{name}",name="withheld_steps"}} ' in file.read_text()
    shown = maintain(*words, env=later).out
    assert "the table may be damaged" in " ".join(shown.split())
    least = repair(name, "--dry-run", "--json").document["result"]["ways_out"][0]
    assert (least["options"][0], least["rows_lost"]) == ("--to-snapshot", 14)


def test_a_plan_and_a_check_change_nothing(server, maintain):
    rotten(server, "rotten")
    at_rest(server, "calm")
    before = sorted(path for path in server.warehouse.rglob("*"))
    ended = maintain("main", "--dry-run", "--json")
    assert (ended.code, ended.document["status"], ended.document["dry_run"]) == (0, "planned", True)
    assert statuses(ended) == {"rotten": ("planned", 0), "calm": ("nothing-to-do", 0)}
    assert {one["step"]: one["reason"] for one in rows(ended)["rotten"]["needs"]} == {
        "compact": "compaction would reduce 24 files to 1, many rows of 1 file are deleted",
        "rewrite-manifests": "rewriting would reduce 12 manifests to 1",
        "expire-snapshots": "12 snapshots eligible for expiration",
        "remove-orphans": "never searched",
    }
    assert maintain("main", "--check").code == 4
    lines = maintain("main", "--check", "--format", "github").out.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        f"::warning title=maintain {PREFIX}rotten::{what}"
        for what in (
            "compact: compaction would reduce 24 files to 1, many rows of 1 file are deleted",
            "rewrite-manifests: rewriting would reduce 12 manifests to 1",
            "expire-snapshots: 12 snapshots eligible for expiration",
            "remove-orphans: never searched",
        )
    ]
    assert maintain("main", "--yes", "--format", "junit").code == 2
    assert maintain("main.db.inner.calm", "--check").code == 0
    assert sorted(path for path in server.warehouse.rglob("*")) == before


def test_the_report_has_a_line_a_table_and_totals(server, maintain):
    rotten(server, "rotten")
    at_rest(server, "calm")
    lines = maintain("main", "--yes").out.splitlines()
    assert lines[0].split() == ["table", "status", "what"]
    assert lines[1].startswith("main.db.inner.rotten  done           24 files into 1 by the local ")
    assert lines[2] == "main.db.inner.calm    nothing to do"
    assert lines[4] == "2 tables: 1 nothing to do, 1 done"
    assert lines[5].startswith("files          26 (")
    assert lines[6] == "snapshots      14 -> 3"


def is_narrow(text: str) -> bool:
    """Whether lines have at most 100 columns, but for a path that is longer alone."""
    return all(len(line) <= 100 or " " not in line.strip() for line in text.splitlines())


def test_a_quiet_run_tells_each_failure_once_in_lines_that_fit(server, maintain):
    at_rest(server, "calm")
    broken(server, "lost")
    ended = maintain("main", "--yes", "-q")
    assert ended.code == 3
    assert ended.out.count("is missing") == 1
    assert "calm" not in ended.out
    assert is_narrow(ended.out)
    assert re.fullmatch(r"20\S+Z icectl \S+, run [0-9a-f]{8}: maintain main\n", ended.err), (
        ended.err
    )
    spoken = maintain("main", "--yes").out
    assert spoken.count("is missing") == 1
    assert is_narrow(spoken)
    assert re.search(r"^main\.db\.inner\.lost +failed$", spoken, re.MULTILINE)
    quiet = maintain("main.db.inner.calm", "--yes", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_the_log_has_a_header_and_the_time_of_each_step(server, maintain, tmp_path):
    rotten(server, "rotten")
    policy = tmp_path / "a policy.toml"
    policy.write_text("")
    log = maintain("main", "--policy", str(policy)).err.splitlines()
    stamp = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ "
    assert all(re.match(stamp, line) for line in log)
    header, *lines, last = [re.sub(stamp, "", line, count=1) for line in log]
    assert re.fullmatch(rf"icectl \S+, run (\w+): maintain main --policy '{policy}'", header)
    run_id = header.split(": ")[0].split()[-1]
    assert last.startswith(f"run {run_id} ended: exit code 0 after ")
    compact, _, expire, orphans = [line for line in lines if not line.startswith("warning: ")]
    assert re.match(r"main\.db\.inner\.rotten: compact done after \S+: 24 files into 1", compact)
    assert ": expire-snapshots done after " in expire
    assert ": remove-orphans done after " in orphans
    assert maintain("main", "--yes", "--json").err == ""
    assert maintain("main", "--yes", "--json-lines").err == ""


def test_a_rule_without_tables_is_a_warning_of_plans_alone(server, maintain, tmp_path):
    at_rest(server, "calm")
    policy = tmp_path / "maintain.toml"
    policy.write_text("[[rule]]\ntables = ['main.audit.**']\nenabled = false\n")
    words = ("main", "--policy", str(policy))
    message = "`main.audit.**` matches none of 1 table"
    assert message in maintain(*words, "-n").err
    assert maintain(*words, "-q").err == ""
    assert message in maintain(*words).err
    assert maintain(*words, "--strict").code == 2
    assert maintain(*words, "--json").document["warnings"] == []


def test_the_document_is_the_golden_one(server, maintain, request):
    rotten(server, "rotten")
    at_rest(server, "calm")
    at_rest(server, "off", {"icectl.maintain.enabled": "false"})
    broken(server, "lost")
    ended = maintain("main", "--yes", "--only", "expire-snapshots,rewrite-manifests", "--json")
    text = ended.out.replace(str(server.warehouse), "WAREHOUSE")
    text = re.sub(
        r'("[a-z_]*bytes[a-z_]*"): [0-9]+', r"\1: 0", text
    )  # libraries compress as they like
    shown = json.dumps(json.loads(text), indent=1) + "\n"
    golden = Path(__file__).parents[1] / "golden" / "maintain.json"
    if request.config.getoption("--update-golden"):
        golden.write_text(shown)
    assert shown == golden.read_text()


def test_json_lines_come_as_tables_end(server, maintain):
    at_rest(server, "calm")
    at_rest(server, "off", {"icectl.maintain.enabled": "false"})
    ended = maintain("main", "--yes", "--json-lines")
    *tables, last = [json.loads(line) for line in ended.out.splitlines()]
    assert {row["table"]: row["status"] for row in tables} == {
        "main.db.inner.calm": "nothing-to-do", "main.db.inner.off": "skipped",
    }  # fmt: skip
    assert (last["exit"], last["status"], last["totals"]["table_count"]) == (0, "nothing-to-do", 2)
    ended = maintain("main.nowhere", "--json-lines")
    (last,) = [json.loads(line) for line in ended.out.splitlines()]
    assert (last["exit"], last["status"], last["error"]["exit"]) == (10, "failed", 10)


def test_metrics_tell_of_each_table(server, maintain, tmp_path):
    at_rest(server, "calm")
    broken(server, "lost")
    file = tmp_path / "icectl.prom"
    maintain("main", "--yes", "--metrics-file", str(file))
    text = file.read_text()
    for name, labels, value in (
        ("exit_code", 'table="main"', 3),
        ("exit_code", 'table="main.db.inner.calm"', 0),
        ("exit_code", 'table="main.db.inner.lost"', 15),
        ("status", 'table="main.db.inner.lost",status="failed"', 1),
        ("count", 'table="main.db.inner.calm",name="now_file_count"', 1),
    ):
        assert f'icectl_last_run_{name}{{command="maintain",{labels}}} {value}\n' in text


@dataclass
class Slow(FixedEnv):
    """A clock on which each commit of a snapshot takes a hundred seconds."""

    def new_snapshot_id(self) -> int:
        self.sleep(100)
        return super().new_snapshot_id()


def test_a_time_limit_cuts_off_what_gains_least_and_the_next_run_goes_on(server, prepared):
    rotten(server, "less")
    rotten(server, "more", appends=16)
    words = ("main", "--yes", "--only", "compact,expire-snapshots")
    limited = prepared("maintain", Slow(NOW_MS))
    ended = limited(*words, "--json", "--time-limit", "50s")
    assert statuses(ended) == {"more": ("incomplete", 3), "less": ("incomplete", 3)}
    assert ended.code == 3
    assert rows(ended)["less"]["reason"] == "not reached: compact, expire-snapshots"
    more = rows(ended)["more"]
    assert (more["after"]["file_count"], more["reason"]) == (1, "not reached: expire-snapshots")
    ended = limited(*words, "--time-limit", "50s")
    assert re.search(r"db\.inner\.less +incomplete +24 files into 1 by the local", ended.out)
    ended = prepared("maintain", FixedEnv(NOW_MS + DAY_MS))(*words, "--json")
    assert {name: steps(row) for name, row in rows(ended).items()} == {
        "less": {"expire-snapshots": "done"}, "more": {"expire-snapshots": "done"},
    }  # fmt: skip


@dataclass
class Racing(FixedEnv):
    """A clock at whose first snapshot another writer is faster."""

    race: Callable[[], None] | None = None

    def new_snapshot_id(self) -> int:
        race, self.race = self.race, None
        if race is not None:
            race()
        return super().new_snapshot_id()


def test_a_step_that_loses_is_tried_again_when_the_others_had_their_turn(server, prepared):
    lost = rotten(server, "lost", appends=16)
    rotten(server, "other")

    def race() -> None:
        lost.remove_data_files(20)  # of 32: fewer are carried over
        server.execute(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'lost'",
            str(current_metadata(lost.directory)),
        )

    clock = Racing(NOW_MS, race=race)
    ended = prepared("maintain", clock)("main", "--yes", "--only", "compact", "--json-lines")
    *tables, last = [json.loads(line) for line in ended.out.splitlines()]
    assert clock.race is None
    assert [(row["table"].removeprefix(PREFIX), row["status"]) for row in tables] == [
        ("other", "done"), ("lost", "done"),
    ]  # fmt: skip
    assert last["exit"] == 0
    assert ids_of(local(server.current("lost"))) == sorted(lost.ids())


def test_a_budget_bounds_what_a_run_does_to_a_table(server, maintain, tmp_path):
    rotten(server, "rotten")
    policy = tmp_path / "maintain.toml"
    policy.write_text("steps = ['expire-snapshots']\nbudget.delete-files = 5\n")
    ended = maintain("main", "--policy", str(policy), "--json")
    row = rows(ended)["rotten"]
    assert (row["status"], row["exit"], row["steps"][0]["error_id"]) == (
        "refused",
        5,
        "over-budget",
    )
    assert "files would be deleted, but the budget allows 5" in row["reason"]

    policy.write_text(
        "steps = ['compact']\nbudget.rewrite-bytes = '25KiB'\ncompact.target-file-size = '20KiB'\n"
    )
    ended = maintain("main", "--policy", str(policy), "--json")
    figures = rows(ended)["rotten"]["steps"][0]["figures"]
    assert 0 < figures["rewritten_bytes"] <= 25 * 1024
    assert 0 < figures["rewritten_data_files"] < 24


def test_a_budget_that_is_smaller_than_any_group_is_named(server, maintain, tmp_path):
    rotten(server, "rotten")
    policy = tmp_path / "maintain.toml"
    policy.write_text("steps = ['compact']\nbudget.rewrite-bytes = '1KiB'\n")
    for words in ((), ("--dry-run",)):
        ended = maintain("main", "--policy", str(policy), "--json", *words)
        [step] = rows(ended)["rotten"]["steps"]
        assert (step["status"], step["exit"]) == ("nothing-to-do", 0)
        left = "left_alone_left to another run by `--max-rewrite` or `budget.rewrite-bytes`"
        assert step["figures"][left] > 0
        [warning] = [one for one in ended.document["warnings"] if "budget" in one]
        assert "`budget.rewrite-bytes`, 1KiB, is less than the smallest group" in warning
        assert rows(ended)["rotten"]["withheld"] == [
            {"step": "compact", "reason": "`budget.rewrite-bytes` is less than any group of files"}
        ]
    shown = maintain("main", "--policy", str(policy)).out
    assert "no compact: `budget.rewrite-bytes` is less than any group of files" in shown

    ended = maintain("main", "--policy", str(policy), "--strict", "--json")
    [step] = rows(ended)["rotten"]["steps"]
    assert (step["status"], step["exit"], step["error_id"]) == ("refused", 5, "over-budget")
    assert (ended.code, step["hint"]) == (3, "raise it; without `--strict` this is a warning")


def test_files_that_a_budget_leaves_to_the_next_run_are_told(server, maintain, tmp_path):
    table = rotten(server, "rotten")
    table_files = len(table.live()) - 1  # but the delete file
    policy = tmp_path / "maintain.toml"
    policy.write_text(
        "steps = ['compact']\nbudget.rewrite-bytes = '25KiB'\ncompact.target-file-size = '20KiB'\n"
    )
    planned = maintain("main", "--policy", str(policy), "--dry-run")
    done = maintain("main", "--policy", str(policy))
    for ended, shown in (
        (planned, r"compaction would reduce \d+ files to \d+[^(]*"),
        (done, r"(\d+) files into 1[^(]+"),
    ):
        told = rf"{shown}\S* \((\d+) files left to the next run by `budget\.rewrite-bytes`\)"
        found = re.search(told, " ".join(ended.out.split()))
        assert found is not None, ended.out
        assert 0 < int(found[found.re.groups]) < table_files


def test_an_interrupted_run_says_what_it_has_done(server, maintain, monkeypatch):
    for number in range(3):
        rotten(server, f"t{number}")
    carry_out = workers.carry_out
    carried_out: list[str] = []

    def once(job: StepRequest, place: StepContext) -> Done:
        if "compact" in carried_out:
            raise KeyboardInterrupt
        carried_out.append(job.step)
        return carry_out(job, place)

    monkeypatch.setattr(workers, "carry_out", once)
    ended = maintain("main", "--yes", "--only", "compact")
    assert ended.code == 130
    assert re.search(r"main\.db\.inner\.t\d: \d+ files into \d", ended.err), ended.err
    assert "2 of 3 tables not finished: run again to continue" in ended.err
    assert "error: interrupted" in ended.err


def test_a_table_that_has_had_its_time_goes_on_in_the_next_run(server, prepared, tmp_path):
    rotten(server, "rotten")
    policy = tmp_path / "maintain.toml"
    policy.write_text("steps = ['compact', 'expire-snapshots']\nbudget.time = '1m'\n")
    words = ("main", "--policy", str(policy), "--json")
    ended = prepared("maintain", Slow(NOW_MS))(*words)
    row = rows(ended)["rotten"]
    assert (row["exit"], steps(row)) == (
        3, {"compact": "done", "expire-snapshots": "incomplete"},
    )  # fmt: skip
    assert row["reason"] == "expire-snapshots: the 1m of this run for a table are used up"
    ended = prepared("maintain", Slow(NOW_MS + DAY_MS))(*words)
    assert steps(rows(ended)["rotten"]) == {"expire-snapshots": "done"}


def test_outside_of_its_window_a_table_is_left_alone(server, maintain, tmp_path):
    rotten(server, "rotten")
    current = server.current("rotten")
    policy = tmp_path / "maintain.toml"
    policy.write_text("window = '22:00-06:00'\n")  # it is 15:06
    ended = maintain("main", "--policy", str(policy), "--json")
    row = rows(ended)["rotten"]
    assert (ended.code, row["status"], row["reason"]) == (
        0, "skipped", "outside its window 22:00-06:00",
    )  # fmt: skip
    assert server.current("rotten") == current


def test_after_an_unknown_outcome_no_further_step_touches_the_table(server, maintain):
    rotten(server, "rotten")
    with server.dying():
        ended = maintain("main.db.inner.rotten", "--yes", "--json")
    row = rows(ended)["rotten"]
    assert (ended.code, ended.document["status"]) == (12, "unknown")
    assert (row["status"], row["exit"], steps(row)) == ("unknown", 12, {"compact": "unknown"})


def test_a_policy_says_what_holds_and_explain_where_it_comes_from(server, maintain, tmp_path):
    at_rest(server, "calm", {"history.expire.min-snapshots-to-keep": "7"}).set_properties({})
    policy = tmp_path / "maintain.toml"
    policy.write_text(
        "expire-snapshots.retain-last = 3\n[[rule]]\ntables = ['main.**']\n"
        "steps = ['expire-snapshots']\n"
    )
    ended = maintain("main.db.inner.calm", "--policy", str(policy), "--explain", "--json")
    explained = checked_document(ended)["result"]["explained"]
    told = {one["key"]: (one["value"], one["origin"]) for one in explained["policy"]}
    assert explained["steps"] == ["expire-snapshots"]
    assert told["steps"] == ("expire-snapshots", f"rule 1 in {policy}")
    assert told["expire-snapshots.retain-last"] == ("3", str(policy))
    assert told["remove-orphans.every"] == ("7d", "built-in")
    assert told["compact.engine"] == ("local", "ICECTL_COMPACT_ENGINE")
    assert told["history.expire.min-snapshots-to-keep"] == ("7", "table property")
    ended = maintain("main", "--policy", str(policy), "--explain")
    assert ended.code == 0
    assert ended.out.splitlines()[0] == "main.db.inner.calm: expire-snapshots"


def test_a_table_that_keeps_more_snapshots_wins_over_a_policy(server, maintain, tmp_path):
    rotten(server, "rotten", properties={"history.expire.min-snapshots-to-keep": "5"})
    policy = tmp_path / "maintain.toml"
    policy.write_text(
        "steps = ['expire-snapshots']\nexpire-snapshots.older-than = '1d'\n"
        "expire-snapshots.retain-last = 1\nexpire-snapshots.snapshots = 1\n"
    )
    ended = maintain("main", "--policy", str(policy), "--json")
    assert rows(ended)["rotten"]["after"]["snapshot_count"] == 5


def test_without_a_policy_and_a_terminal_it_wants_to_be_told_yes(server, maintain):
    rotten(server, "rotten")
    current = server.current("rotten")
    ended = maintain("main", "--json")
    assert (ended.code, ended.document["error"]["id"]) == (2, "confirmation-needed")
    assert server.current("rotten") == current


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["main.db.inner.clam"], 10, "catalog `main` has no table `db.inner.clam`"),
        (["main.db.outer.*"], 10, "catalog `main` has no namespace `db.outer`"),
        (["main.db.inner.x*"], 10, "there is no table at `main.db.inner.x*`"),
        (["main", "--only", "compat"], 2, "`--only`: `compat` is not a step"),
        (["main", "--jobs", "0"], 2, "`--jobs`: `0` is not a whole number above 0"),
        (["main", "--policy", "none.toml"], 2,
         "`--policy`: cannot read none.toml: No such file or directory"),
    ],
)  # fmt: skip
def test_mistakes_end_before_any_table_is_touched(server, maintain, words, code, message):
    at_rest(server, "calm")
    ended = maintain(*words, "--json")
    assert (ended.code, ended.document["error"]["message"]) == (code, message)


@pytest.mark.parametrize("closed", ["t", "t/metadata"])
def test_a_folder_that_cannot_be_read_is_no_missing_table(maintain, tmp_path, monkeypatch, closed):
    TableBuilder(tmp_path / "t").append([1])
    closed = str(tmp_path / closed)

    def refusing(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def refuse(path: Any = ".") -> Any:
            if str(path).startswith(closed):
                raise PermissionError(13, "Permission denied", str(path))
            return read(path)

        return refuse

    monkeypatch.setattr(Path, "iterdir", refusing(Path.iterdir))
    monkeypatch.setattr(os, "scandir", refusing(os.scandir))
    for command in ("inspect", "maintain"):
        ended = maintain(tmp_path / "t", "--json", command=command)
        assert ended.code == 13
        assert re.fullmatch(
            f"cannot list {closed}.*: permission denied", ended.document["error"]["message"]
        )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("compact.strategy", "sorted", "`sorted` is not one of `binpack`, `auto`, `sort`"),
        ("compact.target-file-size", "512M", "`512M`"),
        ("rewrite-manifests.min-manifests", "0", "`0` is not a whole number above 0"),
    ],
)
def test_a_wrong_option_of_a_step_is_named_by_its_key_before_any_table_is_touched(
    server, maintain, tmp_path, key, value, message
):
    at_rest(server, "calm")
    policy = tmp_path / "maintain.toml"
    policy.write_text(f"[[rule]]\ntables = ['main.**']\n{key} = '{value}'\n")
    ended = maintain("main", "--policy", str(policy), "--json")
    told = ended.document["error"]["message"]
    assert (ended.code, told.partition(": ")[0]) == (2, f"`{key}`, rule 1 in {policy}")
    assert message in told


@pytest.mark.parametrize(
    ("rule", "words", "warning"),
    [
        ("sales.*", (), "`sales.*` names no configured catalog"),
        ("main.audit.*", (), "`main.audit.*` matches none of 2 tables"),
        ("MAIN.db.*", (), "`MAIN.db.*` matches none of 2 tables"),
        (
            "main.db",
            ("--exclude", "main.nosuch.*"),
            "`--exclude main.nosuch.*` leaves no table out",
        ),
    ],
)
def test_a_rule_and_an_exclusion_that_match_nothing_are_warned_of(
    server, maintain, tmp_path, rule, words, warning
):
    at_rest(server, "calm")
    at_rest(server, "other")
    policy = tmp_path / "maintain.toml"
    policy.write_text(f"[[rule]]\ntables = ['{rule}']\nenabled = false\n")
    words = ("main", "--policy", str(policy), "--dry-run", *words)
    [told] = maintain(*words, "--json").document["warnings"]
    assert told.endswith(warning)
    strict = maintain(*words, "--strict", "--json")
    assert (strict.code, strict.document["error"]["message"]) == (2, told)


def test_a_rule_for_other_tables_than_those_of_the_run_is_no_mistake(server, maintain, tmp_path):
    at_rest(server, "calm")
    policy = tmp_path / "maintain.toml"
    others = "'main.audit.*', 's3://bucket/wh/*', '/wh/*/*'"
    policy.write_text(f"[[rule]]\ntables = [{others}, 'main.db.inner.*']\nenabled = false\n")
    ended = maintain("main.db.inner.calm", "--policy", str(policy), "--strict", "--json")
    assert (ended.code, ended.document["warnings"]) == (0, [])


def test_a_namespace_stands_for_its_tables_in_rules_and_exclusions(server, maintain, tmp_path):
    rotten(server, "small")
    policy = tmp_path / "maintain.toml"
    policy.write_text("[[rule]]\ntables = ['main.db']\nenabled = false\n")
    ended = maintain("main", "--policy", str(policy), "--json")
    assert statuses(ended) == {"small": ("skipped", 0)}
    assert rows(maintain("main", "--exclude", "main.db", "--dry-run", "--json")) == {}


def test_what_a_compaction_has_replaced_is_expired(server, maintain):
    rotten(server, "small")
    first = rows(maintain("main", "--yes", "--only", "compact", "--json"))["small"]
    assert steps(first)["compact"] == "done"
    policy = ("--only", "expire-snapshots", "--dry-run", "--json")
    [need] = rows(maintain("main", *policy))["small"]["needs"]
    assert "to free" in need["reason"]


def test_tables_are_found_by_globs_over_folders_and_by_what_a_shell_makes_of_them(
    server, maintain, tmp_path, monkeypatch
):
    at_rest(server, "calm")
    at_rest(server, "tmp_calm")
    (server.warehouse / "notes.txt").write_text("")
    (server.warehouse / "empty").mkdir()
    base = str(server.warehouse)
    plan = ("--dry-run", "--json")

    def names(*words: str) -> list[str]:
        return [Path(name).name for name in sorted(rows(maintain(*words, *plan)))]

    assert names(f"{base}/*") == ["calm", "tmp_calm"]
    assert names(f"{base}/**", "--exclude", f"{base}/tmp_*") == ["calm"]
    assert names(str(tmp_path)) == ["calm", "tmp_calm"]
    expanded = [str(path) for path in sorted(server.warehouse.iterdir())]
    assert names(*expanded) == ["calm", "tmp_calm"]
    assert names("main.db.inner.*", "--exclude", "main.*.*.tmp_*") == ["calm"]
    assert names("db.inner.c*", "--catalog", "main") == ["db.inner.calm"]
    monkeypatch.chdir(server.warehouse)
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rule]]\ntables = ["./tmp_*"]\nenabled = true\n')
    assert names(".", "--policy", str(policy)) == ["calm", "tmp_calm"]


def test_a_target_that_is_no_table_is_a_failure_beside_others(server, maintain):
    at_rest(server, "calm")
    ended = maintain("main.db.inner.calm", "main.db.inner.clam", "main.x.*", "--check", "--json")
    assert statuses(ended) == {"calm": ("nothing-to-do", 0), "clam": ("failed", 10)}
    assert (ended.code, ended.document["warnings"]) == (3, ["there is no table at `main.x.*`"])


def test_deletes_that_apply_to_nothing_are_no_deleted_rows_and_are_removed(maintain, tmp_path):
    """As Spark's `rewrite_data_files` leaves them."""
    table = TableBuilder(tmp_path / "t", partitioning="none")
    for start in range(0, 80, 10):
        table.append(range(start, start + 10))
    for start in range(0, 80, 10):
        table.delete_rows([start])
    table.replace_data_files(8)
    words = (table.location, "--only", "compact")
    planned = maintain(*words, "--dry-run").out
    assert "planned  compact: 8 delete files apply to nothing\n" in planned
    assert "done    8 delete files removed\n" in maintain(*words, "--yes").out
    assert maintain(*words, "--check").code == 0


def test_a_target_that_cannot_be_listed_is_a_failure_beside_others(
    server, maintain, monkeypatch, tmp_path
):
    """One in a store without credentials, and a folder that may not be read."""
    at_rest(server, "calm")
    locked = tmp_path / "locked"
    locked.mkdir()
    listed = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path == locked:
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    nowhere = ("--storage-option", "endpoint_url=http://127.0.0.1:1", "--time-limit", "60s")
    for target, options in [("s3://bucket/db/t", nowhere), (str(locked), ())]:
        ended = maintain("main.db.inner.calm", target, *options, "--check", "--json")
        found = {row["table"]: row["exit"] for row in ended.document["result"]["tables"]}
        assert (ended.code, found) == (3, {"main.db.inner.calm": 0, target: 13}), ended.err
        assert maintain(target, *options, "--check", "--json").code == 13


def test_main_runs_in_workers_too(server, maintain, tmp_path):
    for name in ("a", "b"):
        at_rest(server, name)
    ended = maintain("main", "--yes", "--jobs", "2", "--json")
    assert statuses(ended) == {"a": ("nothing-to-do", 0), "b": ("nothing-to-do", 0)}
    rotten(server, "c")
    ended = maintain("main", "--check", "--jobs", "2", "--json")
    assert all(need["bill"]["get_requests"] for need in rows(ended)["c"]["needs"])
    assert app.main(["maintain", "main", "--check"]) == 4
