"""The plan and the outcome of a repair, as result members and text."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from icectl.checks.rule import Finding
from icectl.cli.console import Console
from icectl.cli.document import id_text, print_new_metadata_file
from icectl.commands.repair.plan import Fix, RepairPlan
from icectl.commands.validate.report import print_wrapped
from icectl.format.snapshot import Snapshot
from icectl.table.recovery import NOTHING, Loss, WayOut
from icectl.units import print_count


@dataclass(frozen=True, slots=True)
class Repair:
    """The plan of a repair, and its outcome; `remaining` are the findings after it, if known.

    `table` is what the caller calls it by.
    """

    table: str
    table_location: str
    plan: RepairPlan
    target: Snapshot | None = None
    ways_out: Sequence[WayOut] = ()
    done: bool = False
    snapshot_id: int | None = None
    remaining: Sequence[Finding] | None = None
    new_metadata_file: str | None = None


def repair_result(repair: Repair) -> dict[str, Any]:
    """Return the result of a plan or a run."""
    plan = repair.plan
    return {
        "level": plan.level,
        "branch": plan.branch,
        "repairs": [_fix(fix) for fix in plan.fixes],
        "skipped": [_fix(one) for one in plan.skipped],
        "left": [{**asdict(one.finding), "reason": one.reason} for one in plan.left],
        "to_snapshot": None if repair.target is None else id_text(repair.target.snapshot_id),
        "way_back": next((one.options[1] for one in repair.ways_out if _goes_back(one)), None),
        "ways_out": [_way_out(one) for one in repair.ways_out],
        "snapshot_id": id_text(repair.snapshot_id),
        "remaining": None
        if repair.remaining is None
        else [asdict(one) for one in repair.remaining],
    }


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "id": fix.id,
        "kind": fix.kind,
        "subject": fix.subject,
        "what": fix.what,
        "proof": fix.proof,
        **_loss(fix.loss),
        "rules": sorted({finding.rule for finding in fix.answers}),
    }


def _way_out(way: WayOut) -> dict[str, Any]:
    return {"options": list(way.options), **_loss(way.loss), "errors_left": way.errors_left}


def _loss(loss: Loss) -> dict[str, Any]:
    return {
        "rows_lost": loss.rows,
        "rows_back": loss.rows_back,
        "snapshots_dropped": loss.snapshots,
    }


def _goes_back(way: WayOut) -> bool:
    return way.options[0] == "--to-snapshot"


def question(repair: Repair) -> str:
    """Return the question that the user is asked before anything happens."""
    repairs = print_count(len(repair.plan.fixes), "repair")
    loss = repair.plan.loss
    return f"carry out {repairs}?" if loss == NOTHING else f"carry out {repairs} ({loss})?"


def print_repair(console: Console, repair: Repair) -> None:
    """Print what would be set right, or was, and what stays broken."""
    plan = repair.plan
    if not repair.done:
        _print_plan(console, repair)
        return
    for fix in plan.fixes:
        print_wrapped(console, f"done {fix.id}: {fix.what}", "", "  ")
    if repair.snapshot_id is not None:
        console.say(f"branch {plan.branch} is at snapshot {repair.snapshot_id} now")
    if repair.remaining is not None:
        _print_remaining(console, repair, repair.remaining)
    print_new_metadata_file(console, repair.new_metadata_file)


def _print_remaining(console: Console, repair: Repair, remaining: Sequence[Finding]) -> None:
    for finding in remaining:
        if finding.severity != "info":
            _print_left(console, repair, finding, finding.hint)
    if not any(finding.severity == "error" for finding in remaining):
        console.say(f"no errors are left at level {repair.plan.level}")


def _print_plan(console: Console, repair: Repair) -> None:
    """Print what would be set right, what is left, and the way back."""
    plan = repair.plan
    if not (plan.fixes or plan.left):
        console.say(f"nothing to repair at level {plan.level}")
    for fix in plan.fixes:
        subject = _shown(repair, fix.subject)
        print_wrapped(console, f"repair {fix.id}: {subject}: {fix.what}", "", "  ")
        print_wrapped(console, f"because {fix.proof}", "  ", "  ")
        if fix.loss != NOTHING:
            print_wrapped(console, str(fix.loss), "  ", "  ")
    for fix in plan.skipped:
        console.print(f"skipped {fix.id}")
    for left in plan.left:
        _print_left(console, repair, left.finding, left.reason)
    _print_ways_out(console, repair)


def _print_ways_out(console: Console, repair: Repair) -> None:
    """Print what leads out of what is left, and what it costs."""
    if not repair.ways_out:
        return
    first = "way out:" if len(repair.ways_out) == 1 else "ways out, the smallest loss first:"
    console.print(first)
    for way in repair.ways_out:
        left = print_count(way.errors_left, "error")
        loss = f"{way.loss}, and leaves {left}" if way.errors_left else str(way.loss)
        command = f"`{way.command(repair.table)}`"
        print_wrapped(console, f"{command} {loss}", "  ", "    ")


def _print_left(console: Console, repair: Repair, finding: Finding, reason: str) -> None:
    line = (
        f"{finding.severity} {finding.rule}: {_shown(repair, finding.subject)}: {finding.message}"
    )
    print_wrapped(console, line, "", "  ")
    print_wrapped(console, f"left: {reason}", "  ", "  ")


def _shown(repair: Repair, subject: str) -> str:
    return subject.removeprefix(f"{repair.table_location.rstrip('/')}/")
