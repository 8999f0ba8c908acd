"""The course of `icectl repair`: options, plan, question, run, outcome."""

from dataclasses import replace
from typing import Literal, cast, get_args

from icectl.cli.commands.repair import RepairRequest
from icectl.cli.options import Change, Common
from icectl.cli.session import Session, identity_of, open_session, unpublished_metadata
from icectl.errors import CommitConflict, Refused, UsageError
from icectl.plan.repair import RepairLevel
from icectl.plan.snapshot_choice import parse_snapshot_id
from icectl.report.document import Outcome
from icectl.report.repair import Repair, print_plan, print_repair, question, repair_result
from icectl.run.repair.mends import Accepted
from icectl.run.repair.repair import (
    COMMAND,
    WHOLE,
    PreparedRepair,
    Repaired,
    RepairOptions,
    execute,
    prepare,
    remove_leftovers,
)

Status = Literal["done", "planned", "nothing-to-do", "incomplete", "refused"]


def run(common: Common, table: str, request: RepairRequest, change: Change) -> Outcome:
    """Plan the repair; unless the plan is all that was asked for, ask, and run it."""
    options = _options(request)
    session = open_session(common, table, read_only=False, change=change)
    access = session.access
    prepared = prepare(access, options)
    told = Repair(
        prepared.loaded.metadata.location,
        prepared.plan,
        target=prepared.target,
        way_back=prepared.way_back,
    )
    session.approve(lambda: repair_result(told))
    planning = change.dry_run or change.check
    if not prepared.plan.has_work:
        if not planning:
            remove_leftovers(access, prepared)
        return _without_work(prepared, told, dry_run=planning)
    if planning:
        outcome = _outcome(prepared, told, status="planned", dry_run=True)
        return replace(outcome, exit_code=4) if change.check else outcome
    if not change.yes and not _confirmed(session, told):
        raise Refused("not confirmed; nothing was changed", hint="`--yes` confirms beforehand")
    try:
        done = execute(access, prepared)
    except CommitConflict:
        if not change.skip_if_busy:
            raise
        untouched = replace(told, plan=replace(prepared.plan, remedies=()))
        return _outcome(prepared, untouched, status="nothing-to-do", dry_run=False)
    return _done(prepared, told, done)


def _options(request: RepairRequest) -> RepairOptions:
    if request.level not in get_args(RepairLevel):
        message = f"`--level` is `metadata`, `files` or `footers`, not `{request.level}`"
        raise UsageError(message)
    target = request.to_snapshot
    if target is not None and (request.drop_missing or request.accept_undeleted):
        raise UsageError("`--to-snapshot` goes back, and leaves what came after as it is")
    return RepairOptions(
        level=cast("RepairLevel", request.level),  # checked above
        branch=request.branch,
        to_snapshot=WHOLE if target == WHOLE else parse_snapshot_id("--to-snapshot", target),
        skip=frozenset(request.skip or ()),
        asked=Accepted(request.drop_missing, request.accept_undeleted),
    )


def _confirmed(session: Session, told: Repair) -> bool:
    """Show what would happen, and ask; UsageError where there is nobody to ask."""
    if session.console.asks:
        print_plan(session.console, told)
    return session.console.ask(question(told))


def _without_work(prepared: PreparedRepair, told: Repair, *, dry_run: bool) -> Outcome:
    """Make the outcome where there is nothing to do, or nothing that can be done."""
    if not prepared.plan.is_refused:
        return _outcome(prepared, told, status="nothing-to-do", dry_run=dry_run)
    outcome = _outcome(prepared, told, status="refused", dry_run=dry_run)
    return replace(outcome, exit_code=5)


def _done(prepared: PreparedRepair, told: Repair, done: Repaired) -> Outcome:
    told = replace(
        told,
        done=True,
        snapshot_id=done.snapshot_id,
        remaining=done.remaining,
        new_metadata_file=unpublished_metadata(done.landed),
    )
    remaining = done.remaining
    broken = remaining is None or any(found.severity == "error" for found in remaining)
    outcome = _outcome(prepared, told, status="incomplete" if broken else "done", dry_run=False)
    table = identity_of(prepared.loaded, done.landed.metadata_location)
    return replace(outcome, table=table, exit_code=3 if broken else 0)


def _outcome(prepared: PreparedRepair, told: Repair, *, status: Status, dry_run: bool) -> Outcome:
    return Outcome(
        command=COMMAND,
        result=repair_result(told),
        render=lambda console: print_repair(console, told),
        table=identity_of(prepared.loaded),
        status=status,
        dry_run=dry_run,
    )
