"""Every rule that `icectl validate` reports is found where it is broken, and nothing else is."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from icectl.cli import app
from icectl.format.rule import OURS
from icectl.sfc1.rules import EVERY_RULE
from tests.builders.broken import DAMAGES, TABLES
from tests.builders.broken_tree import TREE_DAMAGES, TREE_TABLES, BrokenTree
from tests.builders.table_builder import START_MS
from tests.stores.fixed_env import FixedEnv

ROOT = Path(__file__).resolve().parents[2]
CHECKS = ("checks/**/*.py", "rows/check_*.py", "commands/validate/*.py", "sfc1/checks/*.py")
"""The modules that report findings."""

EVERY_TABLE = {**TABLES, **TREE_TABLES}
EVERY_DAMAGE = [*DAMAGES, *TREE_DAMAGES]
LEVELS = ("metadata", "files", "footers", "data")

ELSEWHERE_TESTED = {"R-018", "R-021", "R-193", "V4-115", "V4-192"}
"""Malformed properties: test_recovery_hints.py. A leaf that is too large has two million rows:
tests/unit/sfc1/checks/test_rows.py. Leaves with many dead rows: test_layouts.py."""

Finding = dict[str, str]


@pytest.fixture
def findings(capsys: pytest.CaptureFixture[str]) -> Callable[[Path, str], list[Finding]]:
    """Run `icectl validate` over all snapshots at a level."""

    def run(table: Path, level: str) -> list[Finding]:
        arguments = ["validate", str(table), "--level", level, "--all-snapshots", "--json"]
        app.main(arguments, env=FixedEnv(START_MS + 10**9))
        found: list[Finding] = json.loads(capsys.readouterr().out)["result"]["findings"]
        return found

    return run


@pytest.mark.parametrize("name", EVERY_TABLE)
def test_a_healthy_table_has_no_findings(healthy, findings, name):
    found = findings(healthy(name), "data")  # of the few files of a leaf many may be dead
    assert [one for one in found if one["rule"] != "V4-192"] == []


@pytest.mark.parametrize("damage", EVERY_DAMAGE, ids=lambda damage: damage.name)
def test_a_damage_is_found_by_its_rule_and_no_other(healthy, findings, damage):
    table = healthy(damage.table)
    damage.apply(BrokenTree(table))
    found = findings(table, damage.level)
    assert damage.rule in {one["rule"] for one in found}
    errors = {one["rule"] for one in found if one["severity"] == "error"}
    assert errors <= {damage.rule} | damage.explained
    assert all(one["hint"] and one["subject"] for one in found)
    assert [one for one in found if one["severity"] == "error" and one["hint"] == OURS] == []


@pytest.mark.full
@pytest.mark.parametrize(
    "damage", [one for one in EVERY_DAMAGE if one.level != LEVELS[0]], ids=lambda one: one.name
)
def test_a_damage_shows_from_its_level_on(healthy, findings, damage):
    table = healthy(damage.table)
    damage.apply(BrokenTree(table))
    below = LEVELS[LEVELS.index(damage.level) - 1]  # which has the checks of those below it
    assert [one for one in findings(table, below) if one["rule"] == damage.rule] == []


def test_no_rule_is_reported_without_a_damage():
    checks = [file for pattern in CHECKS for file in (ROOT / "icectl").glob(pattern)]
    assert len(checks) > 15
    named = re.compile(r'(?<!rule\()"((?:R|V4)-\d{3})"')
    reported = {rule for file in checks for rule in named.findall(file.read_text())}
    reported |= {rule.id for rule in EVERY_RULE.values() if rule.checks}
    assert reported - {damage.rule for damage in EVERY_DAMAGE} - ELSEWHERE_TESTED == set()
