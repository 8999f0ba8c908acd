"""Plans of maintenance that are kept: from policies and runs to a file, and from it to errands."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from icectl.cli.options import Common, SparkRun
from icectl.cli.plans import check_no_password, not_for_plans, table_in_full, text_in_full
from icectl.cli.review import TableState
from icectl.commands.maintain.needs_plan import Need
from icectl.commands.maintain.plan_file import PlannedTable, PolicyTexts, maintenance_text
from icectl.commands.maintain.policy import MaintenancePolicy, PolicyValue, TablePolicy, check_text
from icectl.commands.maintain.policy_keys import KEYS, SPARK_KEYS
from icectl.commands.maintain.schedule_plan import AssessedTable, TableRun
from icectl.commands.maintain.step import HeldPlan
from icectl.errors import Unsupported, UsageError

_LEFT_OUT = frozenset({"window", *SPARK_KEYS})
"""Keys that no plan has: whoever applies it says when, and on which Spark."""


def kept_plan(
    common: Common, tables: Sequence[TableRun], policies: Mapping[str, TablePolicy], instant_ms: int
) -> str:
    """Write the plan of a dry run over tables. Raises: UsageError, for a secret in a policy."""
    return maintenance_text([_told(common, one, policies) for one in tables], instant_ms)


def _told(
    common: Common, table: TableRun, policies: Mapping[str, TablePolicy]
) -> tuple[str, TableRun, PolicyTexts]:
    """Return a table of a dry run under its full name.

    A target that stands for none has no policy.
    """
    policy = policies.get(table.name)
    if policy is None:
        return table.name, table, {}
    return table_in_full(common, table.name), table, _texts(policy)


def _texts(policy: TablePolicy) -> PolicyTexts:
    """Return a policy as a plan keeps it. Raises: UsageError, for a password in it."""
    kept = {key: value for key, value in policy.values.items() if key not in _LEFT_OUT}
    for value in kept.values():
        check_no_password([value.text] if isinstance(value.text, str) else value.text)
    return {
        key: {
            "value": text_in_full(key, value.text)
            if isinstance(value.text, str)
            else list(value.text),
            "origin": value.origin,
        }
        for key, value in kept.items()
    }


def policy_in(texts: PolicyTexts, file: str) -> TablePolicy:
    """Return the policy that a plan was made by.

    Raises: Unsupported, for keys that are not known here; Refused, for keys that no plan may have;
    UsageError, for values that make no sense.
    """
    unknown = set(texts) - set(KEYS)
    if unknown:
        raise Unsupported(
            f"{file} has keys of a policy that this icectl does not know: "
            f"{', '.join(sorted(unknown))}",
            hint="apply it with the version of icectl that has made it",
        )
    for key in sorted(_LEFT_OUT & set(texts)):
        raise not_for_plans(key, _option(key))
    values = dict(MaintenancePolicy().of("").values)
    for key, one in texts.items():
        text = one["value"] if isinstance(one["value"], str) else tuple(one["value"])
        if KEYS[key].is_list == isinstance(text, str):
            raise UsageError(f"`{key}` in {file} has a value of another type")
        check_text(KEYS[key], text, file)
        values[key] = PolicyValue(text, one["origin"])
    return TablePolicy(values)


def _option(key: str) -> str:
    return f"`--{key.rpartition('.')[2]}`"


_WHERE = (".master", ".remote")


def on_spark(policy: TablePolicy, spark: SparkRun) -> TablePolicy:
    """Return a policy whose steps on Spark are run where the command line says."""
    values = dict(policy.values)
    if spark.master or spark.remote:  # of which one is meant
        values = {key: one for key, one in values.items() if not key.endswith(_WHERE)}
    for name, given in asdict(spark).items():
        option = name.replace("_", "-")
        for key in (f"{step}.{option}" for step in _spark_steps(policy)):
            if given and key in KEYS:
                text = given if isinstance(given, str) else tuple(given)
                values[key] = PolicyValue(text, f"`--{option}`")
    return TablePolicy(values)


def _spark_steps(policy: TablePolicy) -> list[str]:
    steps = [] if policy.read("compact.engine") == "local" else ["compact"]
    return [*steps, "remove-orphans"] if policy.read("remove-orphans.engine") == "spark" else steps


def held_steps(table: PlannedTable, *, allow_newer: bool) -> Mapping[str, HeldPlan]:
    """What each step of a table is held to, where all that has changed since are its own steps."""
    for key in sorted(SPARK_KEYS & {key for one in table.steps for key in one.settings}):
        raise not_for_plans(key, _option(key))
    location = None if allow_newer else table.metadata_location
    return {
        one.step: HeldPlan(
            TableState(table.uuid, location),
            one.acts,
            one.settings,
            exact=number == 0 and not allow_newer,
        )
        for number, one in enumerate(table.steps)
    }


def planned_run(table: PlannedTable, seen: AssessedTable) -> TableRun:
    """Return a table in a run that carries a plan out; `seen` is what a look at it says now."""
    if seen.end is None:
        needs = tuple(Need(one.step, one.why, 0) for one in table.steps)
        seen = AssessedTable(seen.facts, needs)
    return TableRun(table.table, seen, is_fixed=True)
