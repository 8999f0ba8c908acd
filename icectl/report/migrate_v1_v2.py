"""The plan and the outcome of a migration to version 2, as result members and as text."""

from dataclasses import dataclass
from typing import Any

from icectl.plan.migrate_v1_v2 import TO_VERSION, MigratePlan
from icectl.report.console import Console
from icectl.report.document import id_text
from icectl.report.tables import Column, print_table

ONE_WAY = (
    "this cannot be undone: no engine takes a table back to version 1",
    "readers that know version 1 only can no longer read the table",
    "the old metadata file stays, and manifests of version 1 stay valid",
)
"""What to know before the migration."""


@dataclass(frozen=True, slots=True)
class Migration:
    """A migration as it is told; `snapshot_id` is that of rewritten manifests."""

    table_location: str
    plan: MigratePlan
    done: bool = False
    snapshot_id: int | None = None
    unfinished: str | None = None
    new_metadata_file: str | None = None


def migration_result(migration: Migration) -> dict[str, Any]:
    """The result of a plan or a run."""
    plan = migration.plan
    return {
        "from_version": plan.from_version,
        "to_version": max(TO_VERSION, plan.from_version),
        "steps": [{"step": item.step, "detail": item.detail} for item in plan.steps],
        "snapshot_id": id_text(migration.snapshot_id),
        "legacy_manifests": plan.legacy_manifests,
        "findings": [
            {
                "rule": item.rule,
                "severity": item.severity,
                "subject": item.subject,
                "message": item.message,
                "hint": item.hint,
            }
            for item in plan.findings
        ],
    }


def question(migration: Migration) -> str:
    """What the user is asked before anything happens."""
    return f"make {migration.table_location} a table of version {TO_VERSION} for good?"


def print_migration(console: Console, migration: Migration) -> None:
    """Print the steps, what they cost, and what came of them."""
    plan = migration.plan
    if not plan.has_work:
        console.say(f"nothing to do: the table is of version {plan.from_version}")
        return
    if not migration.done:
        print_plan(console, migration)
        return
    console.say(f"the table is of version {TO_VERSION} now")
    if plan.legacy_manifests:
        console.say(f"{plan.legacy_manifests:,} manifests of version 1 stay, and stay valid")
    if migration.unfinished is not None:
        console.warn(f"its manifests were not rewritten: {migration.unfinished}")
    if migration.new_metadata_file is not None:
        console.say(f"new metadata file: {migration.new_metadata_file}")
        console.say("point the catalog at it")


def print_plan(console: Console, migration: Migration) -> None:
    """Print what would change, what is lost by it, and what forbids it."""
    plan = migration.plan
    rows = [(item.step, item.detail) for item in plan.steps]
    print_table(console, (Column("step"), Column("detail", cut="end")), rows)
    console.print()
    for line in ONE_WAY:
        console.print(line)
    for item in plan.findings:
        console.print(f"{item.severity} {item.rule}: {item.subject}: {item.message}")
