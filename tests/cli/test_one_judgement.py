"""Health says exactly what commands would do, and doing what it says makes it green.

Orphans that are no metadata files are the exception: to find them is a listing.
"""

import io
import json
import os
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.cli import app, engines
from icectl.commands.maintain.policy import KEYS
from icectl.env import Env, SystemEnv
from icectl.errors import CorruptTable, Refused, Unsupported
from icectl.format.file_names import parse_metadata_file_name
from icectl.format.schema import Schema
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from tests.builders.expiry import Clock
from tests.builders.foreign_table import facts_of
from tests.builders.inline_engine import InlineEngine
from tests.builders.lives import Life, Step, evolving_twins, upgraded
from tests.builders.relocate import relocate
from tests.builders.table_builder import START_MS, TableBuilder, filled_table
from tests.cli.conftest import Ended
from tests.interop.test_open_fixtures import TABLES
from tests.property.test_v4_lives import BEGINNING, CHANGE, MODE

COMMANDS = (
    "expire-rows", "compact", "rewrite-manifests", "analyze", "expire-snapshots", "remove-orphans",
)  # fmt: skip
OPTIONS = {"analyze": ["--refresh"]}
"""Options that a step has beside its command's defaults: only such statistics as there are."""
DAY_MS = 86_400_000
MONTH_LATER = Clock(START_MS + 30 * DAY_MS)
REFUSALS = {Refused.exit_code, Unsupported.exit_code, CorruptTable.exit_code}


def run(*words: str, env: Env) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("XDG_CONFIG_HOME", "/nonexistent")
        patch.setattr(engines, "LocalEngine", InlineEngine)
        code = app.main(words, env=env)
    return Ended(code, out.getvalue(), err.getvalue())


def needs(table: str, env: Env) -> dict[str, list[str]]:
    """The commands that health asks for, with their options: those whose `--check` exits with 4."""
    ended = run("inspect", table, "health", "--check", "--json", env=env)
    health = ended.document["result"]
    is_sorted = health["overlaps"]["order"] is not None
    options = {**OPTIONS, "compact": ["--strategy", "auto"] if is_sorted else []}
    ends = {
        name: run(name, table, "--check", *options.get(name, ()), "--json", env=env)
        for name in COMMANDS
    }
    codes = {name: ended.code for name, ended in ends.items()}
    if codes["expire-rows"] == 2:  # the table has no rule for rows past their time
        del codes["expire-rows"]
    assert set(codes.values()) <= {0, 4} | REFUSALS
    checks = [one for one in health.values() if isinstance(one, dict)]
    asked = {one["command"]: one["options"] for one in checks if one["command"] is not None}
    needed = {name for name, code in codes.items() if code == 4}
    if "remove-orphans" in needed:
        orphans = ends["remove-orphans"].document["result"]["orphans"]
        names = [Path(orphan["path"]).name for orphan in orphans]
        if all(parse_metadata_file_name(name) is None for name in names):
            needed.discard("remove-orphans")
    assert (asked.keys(), ended.code == 4) == (needed, bool(needed)), (codes, checks)
    for name in asked.keys() & FIGURES.keys():
        planned = ends[name].document["result"]
        assert FIGURES[name](health) == PLANNED[name](planned), (name, health, planned)
    assert asked.get("compact", options["compact"]) == options["compact"]
    return asked


def planned_compaction(plan: dict[str, Any]) -> list[Any]:
    converted = [one["group"] for one in plan["equality_deletes"] if one["becomes"] in CONVERTED]
    data = [group for at, group in enumerate(plan["groups"]) if at not in converted]
    files, stored = (sum(one[name] for one in data) for name in ("input_files", "input_bytes"))
    return [plan["engine"], files, stored, len(converted)]


CONVERTED = ("position-deletes", "vectors")
FIGURES: dict[str, Callable[[dict[str, Any]], list[Any]]] = {
    "expire-rows": lambda health: [health["expired_rows"]["expired_row_count"]],
    "compact": lambda health: [
        health["engine"],
        health["small_files"]["reducible_file_count"],
        health["small_files"]["merge_bytes"] + health["small_files"]["rewrite_bytes"],
        health["delete_debt"]["converted_delete_file_count"],
    ],
    "rewrite-manifests": lambda health: [health["manifest_debt"]["surplus_manifest_count"]],
    "expire-snapshots": lambda health: [
        health["snapshot_debt"]["expirable_snapshot_count"],
        health["reclaimable"]["reclaimable_file_count"],
        health["reclaimable"]["reclaimable_bytes"],
    ],
}
"""What health counts of a command's work."""

PLANNED: dict[str, Callable[[dict[str, Any]], list[Any]]] = {
    "expire-rows": lambda plan: [sum(file["expired_row_count"] for file in plan["files"])],
    "compact": planned_compaction,
    "rewrite-manifests": lambda plan: [max(plan["rewritten"] - plan["added"], 0)],
    "expire-snapshots": lambda plan: [
        len(plan["expired"]), len(plan["files"]), plan["deleted_bytes"],
    ],
}  # fmt: skip
"""The same of its own plan."""


def check_law(table: str, env: Env) -> None:
    for _ in range(4):
        asked = needs(table, env)
        if not asked:
            return
        for name in COMMANDS:
            if name in asked:
                ended = run(name, table, "--yes", *asked[name], env=env)
                assert ended.code == 0, (name, ended.err)
    raise AssertionError(asked)


def calm(table: TableBuilder) -> None:
    table.append(range(10))


def few_small_files(table: TableBuilder) -> None:
    for start in range(0, 12, 4):
        table.append(range(start, start + 4))


def many_small_files(table: TableBuilder) -> None:
    table.append(range(60), files=6)


def deleted_rows(table: TableBuilder) -> None:
    table.append(range(10))
    table.delete_rows(range(5))


def dangling_deletes(table: TableBuilder) -> None:
    table.append(range(10))
    table.delete_rows(range(1))
    table.remove_data_files(1)


def equality_deletes(table: TableBuilder) -> None:
    table.append(range(20))
    for id_ in range(6):
        table.delete_rows([id_], kind="equality")


def few_deleted_by_key(table: TableBuilder) -> None:
    table.append(range(100))
    for id_ in range(6):
        table.delete_rows([id_], kind="equality")


def rule(table: TableBuilder, row: int) -> None:
    """Have the rows before one be past their time."""
    age_ms = MONTH_LATER.now_ms() - (1_700_000_000_000 + row * 3_600_000)
    table.set_properties({"icectl.ttl.column": "at", "icectl.ttl.age": f"{age_ms}ms"})


def expired_rows(table: TableBuilder) -> None:
    """Ten rows are past their time: all of a file, and some of another."""
    rule(table, 10)
    for ids in (range(8), range(8, 12), range(12, 100)):
        table.append(ids)


def rows_that_bounds_alone_call_expired(table: TableBuilder) -> None:
    """The only row past its time is deleted by key: bounds do not say so."""
    rule(table, 1)
    table.append(range(100))
    table.delete_rows([0], kind="equality")


def more_expired_rows_than_may_go(table: TableBuilder) -> None:
    """Bounds show one of a hundred rows to go: the others are in a file of which some stay."""
    rule(table, 30)
    for ids in (range(1), range(1, 100)):
        table.append(ids)


def old_statistics(table: TableBuilder) -> None:
    table.append(range(100))
    assert run("analyze", table.location, env=MONTH_LATER).code == 0
    table.follow()
    table.append([200])


def overlapping(table: TableBuilder) -> None:
    """Files of the size that they are to have, each with values of all."""
    by_id = SortField((1,), parse_transform("identity"), "asc", "nulls-first")
    properties = table.metadata.properties | {"write.target-file-size-bytes": "3600"}
    orders = (SortOrder(0, ()), SortOrder(1, (by_id,)))
    table.metadata = replace(
        table.metadata, sort_orders=orders, default_sort_order_id=1, properties=properties
    )
    for start in range(3):
        table.append(range(start, 300, 3))


def upserts(table: TableBuilder) -> None:
    table.append(range(100))
    for id_ in range(6):
        table.delete_rows([id_], kind="equality")
        table.append([id_])


@pytest.mark.by_turns(2)
@pytest.mark.parametrize(
    ("version", "gc_enabled"),
    [
        (2, "true"), (3, "true"), (3, "false"), pytest.param(2, "false", marks=pytest.mark.full),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "build",
    [
        calm, few_small_files, many_small_files, deleted_rows, dangling_deletes, equality_deletes,
        expired_rows, rows_that_bounds_alone_call_expired, more_expired_rows_than_may_go,
        old_statistics, upserts, few_deleted_by_key, overlapping,
    ],
)  # fmt: skip
def test_health_asks_for_what_commands_would_do(tmp_path: Path, build, version, gc_enabled):
    table = TableBuilder(
        tmp_path / "t", format_version=version, properties={"gc.enabled": gc_enabled}
    )
    build(table)
    check_law(table.location, MONTH_LATER)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if at % 28 == 2 else pytest.mark.full)
        for at, name in enumerate(sorted(TABLES))
    ],
)
def test_health_asks_for_what_commands_would_do_to_tables_of_other_writers(
    fixtures_dir, tmp_path, name
):
    facts, table = facts_of(fixtures_dir, name), tmp_path / "t"
    relocate(fixtures_dir / name, facts, table)
    judge = check_law if facts["completeness"] == "full" else needs
    judge(str(table), SystemEnv())


def live(beginning: Any, early: list[Step], mode: Any, late: list[Step], days: int) -> None:
    """Judge twins of any version after what has become of them."""
    version, partitioning, spelling, mixed = beginning
    with TemporaryDirectory() as directory:
        life = Life(evolving_twins(Path(directory), version, partitioning, spelling, mixed=mixed))
        for step in [("append", "main", 4), *early]:
            life.step(*step)
        if mode is not None:
            upgraded(life, *mode)
        for step in late:
            life.step(*step)
        for table in life.tables:
            check_law(str(table.directory), Clock(table.now_ms + days * DAY_MS))


LIVES = (
    BEGINNING, st.lists(CHANGE, max_size=8), st.one_of(st.none(), MODE),
    st.lists(CHANGE, max_size=8), st.sampled_from([0, 1, 30]),
)  # fmt: skip


@settings(max_examples=2, deadline=None)
@given(*LIVES)
def test_health_asks_for_what_commands_would_do_after_any_life(beginning, early, mode, late, days):
    live(beginning, early, mode, late, days)


@pytest.mark.full
@settings(max_examples=40, deadline=None)
@given(*LIVES)
def test_health_asks_for_what_commands_would_do_after_many_lives(
    beginning, early, mode, late, days
):
    live(beginning, early, mode, late, days)


def test_rows_whose_partition_cannot_be_found_are_no_work(tmp_path):
    table = TableBuilder(tmp_path / "t", partitioning="none")
    few_small_files(table)
    few_small_files(table)
    table.respec("day")
    without_times(table)
    ended = run("compact", table.location, "--check", env=MONTH_LATER)
    assert ended.code == 14
    assert "whose column is missing\nhint: choose another spec with `--output-spec-id`" in ended.err
    check_law(table.location, MONTH_LATER)


def without_times(table: TableBuilder) -> None:
    """Drop the column that the table is partitioned by."""
    fields = table.metadata.current_schema.fields
    table.reschema(Schema(1, tuple(item for item in fields if item.name != "at")))


@pytest.fixture
def long_log(tmp_path: Path) -> TableBuilder:
    """A table of a few rows whose log has forgotten most of its metadata files."""
    properties = {"write.metadata.previous-versions-max": "3"}
    table = filled_table(tmp_path / "t", *([id_] for id_ in range(25)), properties=properties)
    for path in table.directory.rglob("*"):
        os.utime(path, (START_MS / 1000, START_MS / 1000))
    return table


def test_metadata_files_of_a_table_itself_are_never_too_much_of_it(long_log):
    """They are most of the bytes of a table with few rows, and prove that the place is its own."""
    assert "remove-orphans" in needs(long_log.location, MONTH_LATER)
    check_law(long_log.location, MONTH_LATER)
    metadata = [path.name for path in long_log.directory.glob("metadata/v*.metadata.json")]
    assert len(metadata) == 4  # the current one and its log


def test_one_old_metadata_file_off_the_log_is_work(long_log):
    for version in range(1, 22):
        (long_log.directory / f"metadata/v{version}.metadata.json").unlink()
    assert "remove-orphans" in needs(long_log.location, MONTH_LATER)
    assert "remove-orphans" not in needs(long_log.location, Clock(START_MS + 2 * DAY_MS))
    (long_log.directory / "metadata/v22.metadata.json").unlink()
    assert "remove-orphans" not in needs(long_log.location, MONTH_LATER)


def a_hint_behind(table: TableBuilder) -> None:
    (table.directory / "metadata/version-hint.text").write_text("1")


def another_table(table: TableBuilder) -> None:
    members = json.loads((table.directory / "metadata/v1.metadata.json").read_text())
    members["table-uuid"] = "11111111-2222-4333-8444-555555555555"
    (table.directory / "metadata/00000-ab.metadata.json").write_text(json.dumps(members))


@pytest.mark.parametrize("spoil", [a_hint_behind, another_table])
def test_metadata_files_that_stay_are_no_work(long_log, spoil):
    spoil(long_log)
    assert "remove-orphans" not in needs(long_log.location, MONTH_LATER)


@pytest.mark.parametrize(
    ("variable", "value", "command"),
    [
        ("ICECTL_EXPIRE_SNAPSHOTS_MIN_AGE", "60d", "expire-snapshots"),
        ("ICECTL_REMOVE_ORPHANS_OLDER_THAN", "1h", "remove-orphans"),
    ],
)
def test_health_knows_the_ages_that_commands_refuse(
    long_log, monkeypatch, variable, value, command
):
    assert command in needs(long_log.location, MONTH_LATER)
    monkeypatch.setenv(variable, value)
    assert command not in needs(long_log.location, MONTH_LATER)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key.name, marks=() if key.name == "compact.repartition" else pytest.mark.full)
        for key in KEYS.values()
        if key.metavar == "BOOL" and key.section
    ],
)
def test_no_switch_of_a_policy_makes_work_every_night(tmp_path, key):
    table = TableBuilder(tmp_path / "t", partitioning="identity")
    for start in range(0, 18, 3):
        table.append(range(start, start + 3))
    table.delete_rows(range(6))
    table.respec("bucket")
    table.append(range(40, 60), files=3)
    table.delete_rows([1, 9], kind="equality")
    policy = tmp_path / "policy.toml"
    policy.write_text(f"{key} = true")
    words = ("maintain", table.location, "--policy", str(policy), "--yes", "--json")
    ends = [run(*words, env=MONTH_LATER).document["status"] for _ in range(2)]
    assert ends == ["done", "nothing-to-do"]


def test_a_policy_sorts_what_the_command_would_sort(tmp_path):
    table = TableBuilder(tmp_path / "t", format_version=2)
    overlapping(table)
    policy = tmp_path / "policy.toml"
    policy.write_text('steps = ["compact"]\ncompact.strategy = "auto"')
    maintain = ("maintain", table.location, "--policy", str(policy), "--yes")
    command = ("compact", table.location, "--strategy", "auto", "--check")
    assert run("compact", table.location, "--check", env=MONTH_LATER).code == 0
    assert "compact" in needs(table.location, MONTH_LATER)
    for code in (4, 0):
        checks = (*maintain, "--check"), command
        assert [run(*words, env=MONTH_LATER).code for words in checks] == [code, code]
        assert run(*maintain, env=MONTH_LATER).code == 0


@pytest.mark.parametrize("command", ["compact", "rewrite-manifests"])
def test_no_policy_rewrites_everything_every_night(tmp_path, command):
    table = TableBuilder(tmp_path / "t")
    calm(table)
    policy = tmp_path / "policy.toml"
    policy.write_text(f"{command}.rewrite-all = true")
    ended = run("maintain", table.location, "--policy", str(policy), env=MONTH_LATER)
    assert ended.code == 2
    assert "policies must not set this option" in ended.err
    assert ended.err.endswith(f"hint: give it to one run of `icectl {command}`\n")
