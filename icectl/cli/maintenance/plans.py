"""Plans of maintenance that are kept: from policies and runs to a file, and from it to errands."""

from collections.abc import Mapping, Sequence
from typing import Any

from icectl.cli.maintenance.errand import HeldPlan
from icectl.cli.maintenance.keys import KEYS
from icectl.cli.maintenance.policy import PolicyValue, TablePolicy
from icectl.cli.options import Common
from icectl.cli.plans import check_no_secret, table_in_full, text_in_full
from icectl.errors import Unsupported
from icectl.plan.maintain.needs import STEPS, Need
from icectl.plan.maintain.schedule import AssessedTable, TableRun
from icectl.report.maintain_plan import PlannedTable, PolicyTexts, maintenance_text
from icectl.run.review import TableState

_WINDOW = "window"


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
    """Return a policy as a plan keeps it.

    Not its window, since whoever applies a plan says when.
    """
    for step in STEPS:
        check_no_secret(policy.read(f"{step}.spark-conf") or (), policy.read(f"{step}.remote"))
    return {
        key: {
            "value": text_in_full(key, value.text)
            if isinstance(value.text, str)
            else list(value.text),
            "origin": value.origin,
        }
        for key, value in policy.values.items()
        if key != _WINDOW
    }


def policy_in(texts: PolicyTexts, file: str) -> TablePolicy:
    """Return the policy that a plan was made by.

    Raises: Unsupported, for keys that are not known here.
    """
    unknown = set(texts) - set(KEYS)
    if unknown:
        raise Unsupported(
            f"{file} has keys of a policy that this icectl does not know: "
            f"{', '.join(sorted(unknown))}",
            hint="apply it with the version of icectl that has made it",
        )
    values = {key: PolicyValue(_text(one["value"]), one["origin"]) for key, one in texts.items()}
    return TablePolicy(values)


def _text(value: Any) -> str | tuple[str, ...]:
    return value if isinstance(value, str) else tuple(value)


def held_steps(table: PlannedTable, *, allow_newer: bool) -> Mapping[str, HeldPlan]:
    """What each step of a table is held to, where all that has changed since are its own steps."""
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
