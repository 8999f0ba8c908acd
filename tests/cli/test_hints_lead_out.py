"""Hints of findings that name commands: each runs on the table it was given for, and leads out."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import engines
from tests.builders.broken import DAMAGES
from tests.builders.broken_tree import TREE_DAMAGES, BrokenTree
from tests.builders.expiry import Clock
from tests.builders.inline_engine import InlineEngine
from tests.builders.table_builder import START_MS
from tests.cli.conftest import Run

YEAR_LATER = Clock(START_MS + 365 * 86_400_000)
EVERY_DAMAGE = [*DAMAGES, *TREE_DAMAGES]
READING = ("inspect", "validate")
COMMANDS = re.compile("`(icectl [^`]*)`")
MOVED = re.compile(r"restore `[^`]+` from a copy; else move it away|move (?:`[^`]+`,? )+away")


@pytest.fixture
def run(prepared: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    icectl: Run = prepared("validate", YEAR_LATER)
    return icectl


def findings(run: Run, table: Path, damage: Any, *words: str) -> list[dict[str, Any]]:
    """What is wrong, notes on the damage's rule included."""
    found = run(table, "--level", damage.level, *words, "--json").document["result"]["findings"]
    return [one for one in found if one["severity"] != "info" or one["rule"] == damage.rule]


def clean_ancestor(run: Run, table: Path, damage: Any) -> str:
    """The newest ancestor of the current snapshot in which nothing is wrong."""
    members = BrokenTree(table).members()
    parents = {one["snapshot-id"]: one.get("parent-snapshot-id") for one in members["snapshots"]}
    snapshot = parents.get(members["current-snapshot-id"])
    while snapshot in parents and findings(run, table, damage, "--snapshot", str(snapshot)):
        snapshot = parents[snapshot]
    return str(snapshot)


def follow(hint: str, line: str, run: Run, table: Path, damage: Any, depth: int = 1) -> int | None:
    """Run a command as a user does, who does what the hint says first; its code if it changes.

    Where it is refused, the commands that the refusal names come before it.
    """
    for place in re.findall("`([^`]+)`", " ".join(MOVED.findall(hint))):
        Path(place).rename(f"{place}.away")
    command, *words = shlex.split(line)[1:]
    if "SNAPSHOT" in words:
        words[words.index("SNAPSHOT")] = clean_ancestor(run, table, damage)
    reads = command in READING or "--dry-run" in words
    ended = run(*words, *(() if reads else ("--yes",)), command=command)
    if reads:  # a plan of a repair that needs more options is refused (5)
        assert ended.code in (0, 4, 5), (line, ended.err)
        return None
    before = COMMANDS.findall(ended.err) if ended.code and depth else []
    for other in before:
        follow(ended.err, other, run, table, damage, depth - 1)
    return run(*words, "--yes", command=command).code if before else ended.code


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage, id=damage.name, marks=() if at % 20 == 4 else pytest.mark.full)
        for at, damage in enumerate(EVERY_DAMAGE)
    ],
)
def test_commands_of_hints_lead_out(healthy, run, damage):
    def fresh() -> Path:
        table: Path = healthy(damage.table)
        damage.apply(BrokenTree(table))
        return table

    table = fresh()
    scopes: list[tuple[str, ...]] = [("--all-snapshots",), ()]
    while scopes:  # of the current snapshot, or of all where that alone shows it
        scope = scopes.pop()
        before = findings(run, table, damage, *scope)
        of_rule = {one["hint"] for one in before if one["rule"] == damage.rule}
        if of_rule:
            break
    assert of_rule
    tried, led_out = [], False
    for hint in sorted(of_rule):
        for line in COMMANDS.findall(hint):
            table = fresh()
            code = follow(hint, line, run, table, damage)
            if code is not None:
                is_better = len(findings(run, table, damage, *scope)) < len(before)
                led_out |= code == 0 and is_better
                tried.append((line, code, is_better))
    if tried and not led_out:  # some need those of other findings too
        table = fresh()
        for hint in dict.fromkeys([*sorted(of_rule), *(one["hint"] for one in before)]):
            lines = COMMANDS.findall(hint)
            tried += [(line, follow(hint, line, run, table, damage), None) for line in lines]
        led_out = len(findings(run, table, damage, *scope)) < len(before)
    assert led_out or not tried, tried


def test_v4_149_rows_move_to_the_partition_that_their_column_gives(healthy, run):
    (damage,) = (one for one in TREE_DAMAGES if one.name == "v4_149_a_day_that_does_not_follow")
    table: Path = healthy(damage.table)
    damage.apply(BrokenTree(table))
    (told,) = (one for one in findings(run, table, damage) if one["rule"] == "V4-149")
    (line,) = COMMANDS.findall(told["hint"])
    assert follow(told["hint"], line, run, table, damage) == 0
    follow("", f"icectl rewrite-manifests {table} --rewrite-all", run, table, damage)
    assert findings(run, table, damage) == []
