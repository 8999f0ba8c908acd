"""Saved plans of maintenance: their file, and the steps that are restricted to one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from icectl import __version__
from icectl.cli.options import Common, SparkRun
from icectl.cli.plans import (
    PLAN_FORMAT,
    TableState,
    check_no_password,
    check_step_result,
    not_for_plans,
    sealed_plan,
    table_in_full,
    text_in_full,
)
from icectl.commands.maintain.plan import AssessedTable, Need, TableRun
from icectl.commands.maintain.policy import (
    KEYS,
    RENAMED_KEYS,
    SPARK_KEYS,
    MaintenancePolicy,
    PolicyValue,
    TablePolicy,
    check_text,
)
from icectl.commands.maintain.report import reason_of
from icectl.commands.maintain.step import ReviewedPlan
from icectl.errors import Unsupported, UsageError
from icectl.format.properties import LAST_ORPHAN_SCAN
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


_LEFT_OUT = frozenset({"window", *SPARK_KEYS})
"""Keys that no plan has: the user of `apply` says when, and on which Spark."""


def kept_plan(
    common: Common,
    tables: Sequence[TableRun],
    policies_of: Mapping[str, TablePolicy],
    instant_ms: int,
) -> Iterator[str]:
    """Yield the plan of a dry run: tables by full names, what was planned, their policies.

    Raises: UsageError, for a secret in a policy.
    """
    policies: list[PolicyTexts] = []
    planned, left_out = [], []
    for table in tables:
        name = table.name
        policy: PolicyTexts = {}
        if name in policies_of:  # a target that stands for no table has no policy
            policy = _texts(policies_of[name])
            name = table_in_full(common, name)
        steps, moved = _steps(table, instant_ms)
        if steps:
            if policy not in policies:
                policies.append(policy)
            base = next(end.plan["base"] for end in table.ends if end.plan is not None)
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
        "policies": [{key: dict(value) for key, value in texts.items()} for texts in policies],
        "tables": planned,
        "left_out": left_out,
    }
    return sealed_plan(built)


def _steps(table: TableRun, instant_ms: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the steps of a table that were planned of one state of it, and why others were not."""
    needed = {need.step: need.reason for need in table.first.needs}
    steps: list[dict[str, Any]] = []
    moved: list[str] = []
    base = None
    for end in table.ends:
        if end.status != "planned":
            continue
        if end.plan is None:
            moved.append(f"{end.step}: no plan of it can be saved")
            continue
        base = base or end.plan["base"]
        if end.plan["base"] != base:
            moved.append(f"{end.step}: another writer has changed the table")
            continue
        step: dict[str, Any] = {"command": end.step, "why": needed.get(end.step, "")}
        step["applies"] = "within" if steps else "exactly"
        if end.step == "remove-orphans":
            step["sets"] = {LAST_ORPHAN_SCAN.name: print_instant(instant_ms)}
        steps.append({**step, "settings": end.plan["settings"], "result": end.plan["result"]})
    return steps, moved


def saved_maintenance(built: Mapping[str, Any], name: str) -> SavedMaintenance:
    """Make a plan of what its file has, as `open_saved_plan` has read it.

    Raises: UsageError, for what no icectl writes.
    """
    policies: Sequence[PolicyTexts] = built["policies"]
    tables = [table["table"] for table in built["tables"]]
    if len(set(tables)) < len(tables):
        raise UsageError(f"{name} is not a plan that icectl wrote: a table is in it twice")
    for table in built["tables"]:
        steps = [step["command"] for step in table["steps"]]
        if len(set(steps)) < len(steps) or table["policy"] >= len(policies):
            raise UsageError(
                f"{name} is not a plan that icectl wrote: a step appears twice or a policy is "
                f"missing, for {table['table']}"
            )
        for step in table["steps"]:
            check_step_result(step["result"], step["command"], name)
    planned = []
    for table in built["tables"]:
        base, policy = table["base"], policies[table["policy"]]
        table_steps = tuple(
            PlannedStep(
                step["command"],
                step["why"],
                acts_of(step["command"], step["result"]),
                step["settings"],
            )
            for step in table["steps"]
        )
        location = base["metadata_location"]
        planned.append(PlannedTable(table["table"], base["uuid"], location, policy, table_steps))
    return SavedMaintenance(built["instant_ms"], tuple(planned))


def _texts(policy: TablePolicy) -> PolicyTexts:
    """Return a policy as a plan keeps it. Raises: UsageError, for a password in it."""
    texts = {}
    for key, value in policy.values.items():
        if key not in _LEFT_OUT:
            text = value.text
            check_no_password([text] if isinstance(text, str) else text)
            shown = text_in_full(key, text) if isinstance(text, str) else list(text)
            texts[key] = {"value": shown, "origin": value.origin}
    return texts


def policy_in(texts: PolicyTexts, file: str) -> TablePolicy:
    """Return the policy that a plan was made by.

    Raises: Unsupported, for keys that are not known here; Refused, for keys that no plan may have;
    UsageError, for values that make no sense.
    """
    texts = {RENAMED_KEYS.get(key, key): value for key, value in texts.items()}
    unknown = ", ".join(sorted(set(texts) - set(KEYS)))
    if unknown:
        raise Unsupported(
            f"{file} has keys of a policy that this icectl does not know: {unknown}",
            hint="apply it with the version of icectl that made it",
        )
    for key in sorted(_LEFT_OUT & set(texts)):
        raise not_for_plans(key, f"`--{key.rpartition('.')[2]}`")
    values = dict(MaintenancePolicy().of("").values)
    for key, entry in texts.items():
        text = entry["value"] if isinstance(entry["value"], str) else tuple(entry["value"])
        if KEYS[key].is_list == isinstance(text, str):
            raise UsageError(f"`{key}` in {file} has a value of another type")
        check_text(KEYS[key], text, file)
        values[key] = PolicyValue(text, entry["origin"])
    return TablePolicy(values)


_WHERE = (".master", ".remote")


def on_spark(policy: TablePolicy, spark: SparkRun) -> TablePolicy:
    """Return a policy whose steps on Spark are run where the command line says."""
    values = dict(policy.values)
    if spark.master or spark.remote:  # of which one is meant
        values = {key: value for key, value in values.items() if not key.endswith(_WHERE)}
    steps = [] if policy.read("compact.engine") == "local" else ["compact"]
    steps += ["remove-orphans"] if policy.read("remove-orphans.engine") == "spark" else []
    for name, option_value in asdict(spark).items():
        option = name.replace("_", "-")
        for key in (f"{step}.{option}" for step in steps):
            if option_value and key in KEYS:
                text = option_value if isinstance(option_value, str) else tuple(option_value)
                values[key] = PolicyValue(text, f"`--{option}`")
    return TablePolicy(values)


def reviewed_steps(table: PlannedTable, *, allow_newer: bool) -> Mapping[str, ReviewedPlan]:
    """What each step of a table is held to, where all that has changed since are its own steps."""
    for key in sorted(SPARK_KEYS & {key for step in table.steps for key in step.settings}):
        raise not_for_plans(key, f"`--{key.rpartition('.')[2]}`")
    location = None if allow_newer else table.metadata_location
    return {
        step.step: ReviewedPlan(
            TableState(table.uuid, location),
            step.acts,
            step.settings,
            exact=number == 0 and not allow_newer,
        )
        for number, step in enumerate(table.steps)
    }


def planned_run(table: PlannedTable, seen: AssessedTable) -> TableRun:
    """Return a table in a run that carries a plan out; `seen` is what a look at it says now."""
    if seen.end is None:
        needs = tuple(Need(step.step, step.why, 0) for step in table.steps)
        seen = AssessedTable(seen.facts, needs)
    return TableRun(table.table, seen, is_fixed=True)
