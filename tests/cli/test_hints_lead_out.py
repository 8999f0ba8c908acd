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
MOVED = re.compile(r"restore `([^`]+)` from a copy; else move it away")
_TWOFOLD = "it is damaged in a second way, for which another finding has the hint"
_REMOVED = "compact lists the entry as removed; the commit after drops it from the root"
_IN_DELETES = "compact refuses deletes in another partition (R-211), and its error has a hint"
ELSEWHERE = {
    "r071_a_partition_value_of_another_type": "no command reads such a manifest: restore it",
    "r071_an_identity_partition_of_other_rows": _IN_DELETES,
    "r073_a_bucket_of_other_rows": _IN_DELETES,
    "r074_a_truncation_of_other_rows": _IN_DELETES,
    "r116_a_vector_without_its_data_file": _TWOFOLD,
    "r122_a_new_position_delete_file_in_version_3": _TWOFOLD,
    "r133_column_sizes_of_an_avro_file": "a note on a file that is none of Avro",
    "v4_061_split_offsets_that_fall": _REMOVED,
    "v4_069_a_removal_without_a_parent": "no ancestor is left to roll back to",
    "v4_107_an_old_row_among_new_ones": _TWOFOLD,
    "v4_108_a_removed_row_in_a_leaf": _TWOFOLD,
    "v4_144_bounds_that_cross": _REMOVED,
    "v4_145_more_nulls_than_values": _REMOVED,
    "v4_149_a_day_that_does_not_follow": "its dead rows stay in the leaf until rewrite-manifests",
}
"""Damages whose hints are not tried here, and why."""


@pytest.fixture
def run(prepared: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    icectl: Run = prepared("validate", YEAR_LATER)
    return icectl


def findings(run: Run, table: Path, damage: Any, *words: str) -> list[dict[str, Any]]:
    """What is wrong, notes on the damage's rule included."""
    ended = run(table, "--level", damage.level, *words, "--json")
    found = ended.document["result"]["findings"]
    return [one for one in found if one["severity"] != "info" or one["rule"] == damage.rule]


def clean_ancestor(run: Run, table: Path, damage: Any) -> str:
    """The newest ancestor of the current snapshot in which nothing is wrong."""
    members = BrokenTree(table).members()
    parents = {one["snapshot-id"]: one.get("parent-snapshot-id") for one in members["snapshots"]}
    snapshot = parents.get(members["current-snapshot-id"])
    while snapshot in parents and findings(run, table, damage, "--snapshot", str(snapshot)):
        snapshot = parents[snapshot]
    return str(snapshot)


def ready(hint: str, line: str, run: Run, table: Path, damage: Any) -> list[str]:
    """The words of a command as a user gives them, who does what the hint says first."""
    for place in MOVED.findall(hint):
        Path(place).rename(f"{place}.away")
    words = shlex.split(line)[1:]
    if "SNAPSHOT" in words:
        words[words.index("SNAPSHOT")] = clean_ancestor(run, table, damage)
    return words


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage, id=damage.name, marks=() if at % 20 == 4 else pytest.mark.full)
        for at, damage in enumerate(EVERY_DAMAGE)
        if damage.name not in ELSEWHERE
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
        for line in re.findall(r"`(icectl [^`]*)`", hint):
            table = fresh()
            command, *words = ready(hint, line, run, table, damage)
            reads = command in READING or "--dry-run" in words
            ended = run(*words, *(() if reads else ("--yes",)), command=command)
            if reads:  # a plan of a repair that needs more options is refused (5)
                assert ended.code in (0, 4, 5), (line, ended.err)
                continue
            is_better = len(findings(run, table, damage, *scope)) < len(before)
            led_out |= ended.code == 0 and is_better
            tried.append((line, ended.code, is_better, ended.err))
    assert led_out or not tried, tried
