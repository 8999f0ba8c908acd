"""An upgrade to a newer format version as a planned change, with its report as JSON and text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from icectl.catalog.protocol import Capabilities, LoadedTable
from icectl.checks.rule import Finding
from icectl.cli.console import Console
from icectl.cli.document import id_text, print_new_metadata_file
from icectl.cli.session import unpublished_metadata
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.change import Finished, PlannedChange
from icectl.commands.upgrade_to_v4.options import READERS
from icectl.commands.upgrade_to_v4.plan import UpgradeOptions, UpgradePlan
from icectl.errors import IcectlError, Refused
from icectl.format.layout import LAYOUTS_OF_VERSION_4, Layout
from icectl.units import print_count

MIGRATION_NOTES = (
    "this cannot be undone: no engine takes a table back to version 1",
    "readers that know version 1 only can no longer read the table",
    "the old metadata file stays, and manifests of version 1 stay valid",
)
"""What to know before a table becomes one of version 2."""
_OF_VERSION_4 = (
    "version 4 is a proposal, not an adopted format: only icectl can read this layout",
    "no other engine can read or write the table; `--layout iceberg-1.12` leads out of the layout",
    "the old metadata file stays, and manifests of older versions stay valid",
)
_OF_ICEBERG = (
    "version 4 is experimental in Iceberg 1.12, and may change with the next release",
    "engines with Iceberg 1.12 can use the table; older ones cannot read manifests in Parquet",
    "the old metadata file stays, and manifests of older versions stay valid",
)
_WAY_BACK_BY_FILES = (
    "until the next commit there is a way back: remove the new metadata file by hand,",
    "and set the number in `version-hint.text` back by one",
)
_WAY_BACK_BY_CATALOG = (
    "until the next commit there is a way back: point the catalog at the old metadata file again",
)
_NO_WAY_BACK = ("no command takes the table back to an older version",)
_OTHER_LAYOUT = (
    "data files stay as they are; roots, leaves and their bitmaps do until they are orphans",
    "`icectl upgrade-to-v4 --layout {}` leads back",
)


def version_4_notes(
    options: UpgradeOptions, catalog: Capabilities, *, changes_layout: bool
) -> tuple[str, ...]:
    """List what to know before a table becomes one of version 4, or of another layout of it."""
    if changes_layout:
        notes = _OF_ICEBERG[:2] if options.layout is Layout.MANIFEST_LISTS else _OF_VERSION_4[:2]
        other = next(
            name for name, layout in LAYOUTS_OF_VERSION_4.items() if layout is not options.layout
        )
        return (*notes, *(line.format(other) for line in _OTHER_LAYOUT))
    if options.layout is Layout.MANIFEST_LISTS:
        return (*_OF_ICEBERG, *_way_back(catalog, is_there=options.mode != "eager"))
    return (*_OF_VERSION_4, *_way_back(catalog, is_there=options.mode == "lazy"))


def _way_back(catalog: Capabilities, *, is_there: bool) -> tuple[str, ...]:
    """Tell how to undo what has changed the metadata alone; a server takes no version back."""
    if not is_there:
        return _NO_WAY_BACK
    if catalog.numbers_versions:
        return _WAY_BACK_BY_FILES
    is_pointer = catalog.commits_on_base or not catalog.publishes
    return _WAY_BACK_BY_CATALOG if is_pointer else _NO_WAY_BACK


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The table after a run, and the snapshot that it made, if any.

    `unfinished` is the error that left something undone after the first commit.
    """

    landed: LoadedTable
    snapshot_id: int | None = None
    unfinished: IcectlError | None = None


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The plan of an upgrade to a version, or layout of version 4, and its outcome."""

    table_location: str
    plan: UpgradePlan
    to_version: int
    notes: Sequence[str]
    layout: str | None = None
    outcome: Upgraded | None = None


def upgrade_result(upgrade: Upgrade) -> dict[str, Any]:
    """Return the result of a plan or a run."""
    plan = upgrade.plan
    return {
        "from_version": plan.from_version,
        "to_version": max(upgrade.to_version, plan.from_version),
        "steps": [{"step": item.step, "detail": item.detail} for item in plan.steps],
        "snapshot_id": id_text(None if upgrade.outcome is None else upgrade.outcome.snapshot_id),
        "legacy_manifests": plan.legacy_manifests,
        "findings": [item.json() for item in plan.findings],
    }


def upgrade_line(upgrade: Upgrade) -> str:
    """Return what becomes of the table, or would."""
    plan = upgrade.plan
    if _only(plan, "convert-position-deletes"):
        return "deletion vectors for position deletes"
    if _only(plan, "rewrite-manifests"):
        return f"manifests of version {plan.from_version}"
    layout = "" if upgrade.layout is None else f"layout {upgrade.layout}"
    versions = f"version {plan.from_version} to {upgrade.to_version}"
    return ", ".join(filter(None, ("" if _changes_layout(plan) else versions, layout)))


def question(upgrade: Upgrade) -> str:
    """Return the question that the user is asked before anything happens."""
    if _changes_layout(upgrade.plan):
        return f"take {upgrade.table_location} to layout {upgrade.layout}?"
    if _only(upgrade.plan, "rewrite-manifests"):
        return f"rewrite the manifests of {upgrade.table_location}?"
    if _only(upgrade.plan, "convert-position-deletes"):
        return f"make deletion vectors of the position deletes of {upgrade.table_location}?"
    if upgrade.layout is None:
        return f"make {upgrade.table_location} a table of version {upgrade.to_version} for good?"
    return f"make {upgrade.table_location} a table of version 4, layout {upgrade.layout}?"


def _only(plan: UpgradePlan, step: str) -> bool:
    """Return whether the table has its version already, and all that is left is one step."""
    return [item.step for item in plan.steps] == [step]


def _changes_layout(plan: UpgradePlan) -> bool:
    return any(item.step == "change-layout" for item in plan.steps)


def print_upgrade(console: Console, upgrade: Upgrade) -> None:
    """Print the plan, or the outcome."""
    plan, outcome = upgrade.plan, upgrade.outcome
    if not plan.has_work:
        console.say(f"nothing to do: the table has version {plan.from_version}")
        return
    if outcome is None:
        rows = [(item.step, item.detail) for item in upgrade.plan.steps]
        print_table(console, (TableColumn("step"), TableColumn("detail", cut="wrap")), rows)
        console.print()
        for note in upgrade.notes:
            console.print_sentence(note)
        for item in upgrade.plan.findings:
            console.print_sentence(f"{item.severity} {item.rule}: {item.subject}: {item.message}")
        return
    if _changes_layout(plan):
        console.say(f"the table has layout {upgrade.layout} now")
    elif _only(plan, "rewrite-manifests"):
        console.say(f"the table and its manifests have version {plan.from_version} now")
    elif not _only(plan, "convert-position-deletes"):
        console.say(f"the table has version {outcome.landed.metadata.format_version} now")
    if plan.converted and outcome.unfinished is None:
        console.say("its position deletes are deletion vectors now")
    if upgrade.layout is not None and not _only(plan, "rewrite-manifests"):
        console.say(READERS[upgrade.layout])
    if plan.legacy_manifests:
        manifests = print_count(plan.legacy_manifests, "manifest")
        console.say(f"{manifests} of older versions stay as they are")
    if outcome.unfinished is not None:
        console.warn(f"not all steps were done: {outcome.unfinished.message}")
    print_new_metadata_file(console, unpublished_metadata(outcome.landed))


def refused(forbidding: Sequence[Finding], error_id: str) -> Refused:
    """Return the error of a table that is not upgraded: the first rule that forbids it."""
    first = forbidding[0]
    message = f"{first.subject}: {first.message} ({first.rule})"
    return Refused(message, hint=first.hint, id=error_id)


def planned_upgrade(
    command: str,
    loaded: LoadedTable,
    report: Upgrade,
    execute: Callable[[], Upgraded],
    *,
    refusal: Refused | None,
    clean_up: Callable[[], None],
) -> PlannedChange[Upgrade]:
    """Return the change; `refusal` is the error of a plan that findings forbid."""

    def finish() -> Finished[Upgrade]:
        upgraded = execute()
        return Finished(
            replace(report, outcome=upgraded),
            upgraded.landed.metadata_location,
            is_complete=upgraded.unfinished is None,
        )

    return PlannedChange(
        command=command,
        loaded=loaded,
        report=report,
        result=upgrade_result,
        show=lambda console, upgrade, _: print_upgrade(console, upgrade),
        line=upgrade_line,
        has_work=report.plan.has_work,
        execute=finish,
        superseded=lambda: replace(report, plan=UpgradePlan(report.plan.from_version)),
        clean_up=clean_up,
        question=question(report),
        refusal=refusal,
    )
