"""The course of an upgrade to a newer format version: plan, question, run, outcome."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from icectl.catalog.protocol import LoadedTable
from icectl.checks.finding import Finding
from icectl.cli.options import Change
from icectl.cli.session import Session, identity_of, unpublished_metadata
from icectl.errors import CommitConflict, IcectlError, Refused
from icectl.report import upgrade as report
from icectl.report.document import Outcome
from icectl.report.upgrade import print_plan, print_upgrade, question, upgrade_result


class Plan(report.ToldUpgradePlan, Protocol):
    """A plan that findings may forbid."""

    @property
    def forbidding(self) -> Sequence[Finding]:
        """The findings that forbid it."""


class UpgradeDone(Protocol):
    """The result of a run."""

    @property
    def landed(self) -> LoadedTable:
        """The table after it."""

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that it made."""

    @property
    def unfinished(self) -> IcectlError | None:
        """The error that left something undone; None where all was done."""


@dataclass(frozen=True, slots=True)
class Course:
    """One upgrade: what it is called, its plan, and how it is run.

    `refusal` makes an error of the findings that forbid it; `tidy` is done where nothing else is.
    """

    command: str
    to_version: int
    to_know: Sequence[str]
    loaded: LoadedTable
    plan: Plan
    execute: Callable[[], UpgradeDone]
    refusal: Callable[[Sequence[Finding]], Refused]
    tidy: Callable[[], None]
    layout: str | None = None


def upgrade(session: Session, course: Course, change: Change) -> Outcome:
    """Ask, and run the upgrade, unless the plan is all that was asked for."""
    told = report.Upgrade(
        course.loaded.metadata.location,
        course.plan,
        course.to_version,
        course.to_know,
        course.layout,
    )
    session.approve(lambda: upgrade_result(told))
    planning = change.dry_run or change.check
    if not course.plan.has_work:
        if not planning:
            course.tidy()
        return _outcome(course, told, status="nothing-to-do", dry_run=planning)
    if planning:
        return _planned(course, told, change)
    if course.plan.forbidding:
        raise course.refusal(course.plan.forbidding)
    if not change.yes and not _confirmed(session, told):
        raise Refused("not confirmed; nothing was changed", hint="`--yes` confirms beforehand")
    try:
        done = course.execute()
    except CommitConflict:
        if not change.skip_if_busy:
            raise
        untouched = replace(told, plan=_Untouched(course.plan.from_version))
        return _outcome(course, untouched, status="nothing-to-do", dry_run=False)
    return _done(course, told, done)


@dataclass(frozen=True, slots=True)
class _Untouched:
    """A plan that another run was faster than, as it is told."""

    from_version: int
    steps: tuple[()] = ()
    findings: tuple[()] = ()
    legacy_manifests: int = 0
    has_work: bool = False


def _confirmed(session: Session, told: report.Upgrade) -> bool:
    """Show what would happen, and ask; UsageError where there is nobody to ask."""
    if session.console.asks:
        print_plan(session.console, told)
    return session.console.ask(question(told))


def _planned(course: Course, told: report.Upgrade, change: Change) -> Outcome:
    """Return the plan; it ends with 5 where a real run would be refused."""
    if course.plan.forbidding:
        outcome = _outcome(course, told, status="refused", dry_run=True)
        return replace(outcome, exit_code=5)
    outcome = _outcome(course, told, status="planned", dry_run=True)
    return replace(outcome, exit_code=4) if change.check else outcome


def _done(course: Course, told: report.Upgrade, done: UpgradeDone) -> Outcome:
    location = done.landed.metadata_location
    told = replace(
        told,
        done=True,
        snapshot_id=done.snapshot_id,
        unfinished=None if done.unfinished is None else done.unfinished.message,
        new_metadata_file=unpublished_metadata(done.landed),
    )
    outcome = _outcome(
        course, told, status="done" if done.unfinished is None else "incomplete", dry_run=False
    )
    table = identity_of(course.loaded, location)
    return replace(outcome, table=table, exit_code=0 if done.unfinished is None else 3)


def _outcome(
    course: Course,
    told: report.Upgrade,
    *,
    status: Literal["done", "planned", "nothing-to-do", "incomplete", "refused"],
    dry_run: bool,
) -> Outcome:
    return Outcome(
        command=course.command,
        result=upgrade_result(told),
        render=lambda console: print_upgrade(console, told),
        table=identity_of(course.loaded),
        status=status,
        dry_run=dry_run,
    )
