"""The file of a plan of maintenance: what was planned for each table, and what was left out of it.

The first step of a table is done exactly, or nothing of it. What a later one would find depends on
what the first has made of the table, so that it may do of what the file names what still holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icectl import __version__
from icectl.cli.plans import PLAN_FORMAT, check_step_result, sealed_plan
from icectl.commands.maintain.report import reason_of
from icectl.commands.maintain.schedule_plan import TableRun
from icectl.errors import UsageError
from icectl.format.properties import ORPHANS_LOOKED_FOR
from icectl.table.reviewed import ReviewedAct, acts_of
from icectl.units import print_instant

COMMAND = "maintain"

PolicyTexts = Mapping[str, Mapping[str, Any]]
"""The values of a policy by key: `value`, a text or a list of them, and `origin`."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step of a file: why it is there, its changes, and the settings that it was made with."""

    step: str
    why: str
    acts: frozenset[ReviewedAct]
    settings: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table of a file; `uuid` and `metadata_location` are of the table it was made of."""

    table: str
    uuid: str | None
    metadata_location: str
    policy: PolicyTexts
    steps: tuple[PlannedStep, ...]


@dataclass(frozen=True, slots=True)
class SavedMaintenance:
    """A plan of maintenance as its file has it; ages are counted from `instant_ms`."""

    instant_ms: int
    tables: tuple[PlannedTable, ...]


def maintenance_text(tables: Iterable[tuple[str, TableRun, PolicyTexts]], instant_ms: int) -> str:
    """Write the file of a plan: tables by their full names, what was planned, their policies."""
    policies: list[PolicyTexts] = []
    planned, left_out = [], []
    for name, table, policy in tables:
        steps, moved = _steps(table, instant_ms)
        if steps:
            if policy not in policies:
                policies.append(policy)
            base = next(one.plan["base"] for one in table.ends if one.plan is not None)
            number = policies.index(policy)
            planned.append({"table": name, "policy": number, "base": base, "steps": steps})
        why = reason_of(table)
        left_out += [{"table": name, "why": text} for text in (why, *moved) if text]
    built: dict[str, Any] = {
        "icectl": __version__,
        "plan": PLAN_FORMAT,
        "command": COMMAND,
        "instant_ms": instant_ms,
        "instant": print_instant(instant_ms),
        "policies": [{key: dict(value) for key, value in each.items()} for each in policies],
        "tables": planned,
        "left_out": left_out,
    }
    return sealed_plan(built)


def _steps(table: TableRun, instant_ms: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the steps of a table that were planned of one state of it.

    Second: why others were not.
    """
    needed = {need.step: need.reason for need in table.first.needs}
    steps: list[dict[str, Any]] = []
    moved: list[str] = []
    base = None
    for end in table.ends:
        if end.status != "planned" or end.plan is None:
            continue
        base = base or end.plan["base"]
        if end.plan["base"] != base:
            moved.append(f"{end.step}: another writer has changed the table meanwhile")
            continue
        step: dict[str, Any] = {"command": end.step, "why": needed.get(end.step, "")}
        step["applies"] = "within" if steps else "exactly"
        if end.step == "remove-orphans":
            step["sets"] = {ORPHANS_LOOKED_FOR.name: print_instant(instant_ms)}
        steps.append({**step, "settings": end.plan["settings"], "result": end.plan["result"]})
    return steps, moved


def saved_maintenance(built: Mapping[str, Any], name: str) -> SavedMaintenance:
    """Make a plan of what its file has, as `open_saved_plan` has read it.

    Raises: UsageError, for what no icectl writes.
    """
    policies: Sequence[PolicyTexts] = built["policies"]
    tables = [one["table"] for one in built["tables"]]
    if len(set(tables)) < len(tables):
        raise UsageError(f"{name} is no plan as icectl writes it: a table is in it twice")
    for one in built["tables"]:
        steps = [step["command"] for step in one["steps"]]
        if len(set(steps)) < len(steps) or one["policy"] >= len(policies):
            raise UsageError(
                f"{name} is no plan as icectl writes it: a step twice, or a policy that is not "
                f"there, of {one['table']}"
            )
        for step in one["steps"]:
            check_step_result(step["result"], step["command"], name)
    return SavedMaintenance(
        built["instant_ms"],
        tuple(
            PlannedTable(
                one["table"],
                one["base"]["uuid"],
                one["base"]["metadata_location"],
                policies[one["policy"]],
                tuple(
                    PlannedStep(
                        step["command"],
                        step["why"],
                        acts_of(step["command"], step["result"]),
                        step["settings"],
                    )
                    for step in one["steps"]
                ),
            )
            for one in built["tables"]
        ),
    )
