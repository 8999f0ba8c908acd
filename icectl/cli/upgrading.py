"""The course of `icectl migrate-v1-v2` and `upgrade-to-v4`: plan, question, run, outcome."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from icectl.catalog.protocol import LoadedTable
from icectl.cli.options import Change, Common
from icectl.cli.session import Session, identity_of, open_session, unpublished
from icectl.errors import CommitConflict, IcectlError, Refused, UsageError
from icectl.plan.migrate_v1_v2 import TO_VERSION as MIGRATED
from icectl.plan.model import Finding
from icectl.plan.upgrade_to_v4 import TO_VERSION as UPGRADED
from icectl.plan.upgrade_to_v4 import UpgradeOptions
from icectl.report import upgrading as report
from icectl.report.document import Outcome
from icectl.report.upgrading import print_plan, print_upgrade, question, upgrade_result
from icectl.run import migrate_v1_v2, upgrade_to_v4


class Plan(report.UpgradePlan, Protocol):
    """A plan that findings may forbid."""

    @property
    def forbidding(self) -> Sequence[Finding]:
        """The findings that forbid it."""


class Done(Protocol):
    """What a run did."""

    @property
    def landed(self) -> LoadedTable:
        """The table after it."""

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that it made."""

    @property
    def unfinished(self) -> IcectlError | None:
        """Why not everything was done."""


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
    execute: Callable[[], Done]
    refusal: Callable[[Sequence[Finding]], Refused]
    tidy: Callable[[], None]


def migrate(common: Common, table: str, change: Change, *, rewrite_manifests: bool) -> Outcome:
    """Plan a migration from version 1 to 2; ask, and run it."""
    if rewrite_manifests and change.metadata_file is not None:
        raise UsageError(
            "`--rewrite-manifests` makes a second commit, and `--metadata-file` allows for one",
            hint="migrate, point the catalog at the new file, then `icectl rewrite-manifests`",
        )
    session = open_session(common, table, read_only=False, change=change)
    access = session.access
    prepared = migrate_v1_v2.prepare(access, rewrite_manifests=rewrite_manifests)
    course = Course(
        command=migrate_v1_v2.COMMAND,
        to_version=MIGRATED,
        to_know=report.OF_MIGRATION if prepared.plan.from_version < MIGRATED else (),
        loaded=prepared.loaded,
        plan=prepared.plan,
        execute=lambda: migrate_v1_v2.execute(access, prepared),
        refusal=migrate_v1_v2.refusal,
        tidy=lambda: migrate_v1_v2.remove_leftovers(access, prepared),
    )
    return _upgrade(session, course, change)


def upgrade(common: Common, table: str, change: Change, options: UpgradeOptions) -> Outcome:
    """Plan an upgrade to version 4; ask, and run it."""
    if options.mode == "eager" and change.metadata_file is not None:
        raise UsageError(
            "`--eager` makes a commit per branch, and `--metadata-file` allows for one",
            hint="upgrade without, point the catalog at the new file, then go on with the next",
        )
    session = open_session(common, table, read_only=False, change=change)
    access = session.access
    prepared = upgrade_to_v4.prepare(access, options)
    course = Course(
        command=upgrade_to_v4.COMMAND,
        to_version=UPGRADED,
        to_know=report.of_upgrade(options.mode),
        loaded=prepared.loaded,
        plan=prepared.plan,
        execute=lambda: upgrade_to_v4.execute(access, prepared),
        refusal=upgrade_to_v4.refusal,
        tidy=lambda: upgrade_to_v4.remove_leftovers(access, prepared),
    )
    return _upgrade(session, course, change)


def _upgrade(session: Session, course: Course, change: Change) -> Outcome:
    """Unless the plan is all that was asked for, ask, and run it."""
    told = report.Upgrade(
        course.loaded.metadata.location, course.plan, course.to_version, course.to_know
    )
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
    """What is told of a plan that another run was faster than."""

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
    """The plan; it ends with 5 where a real run would be refused."""
    if course.plan.forbidding:
        outcome = _outcome(course, told, status="refused", dry_run=True)
        return replace(outcome, exit_code=5)
    outcome = _outcome(course, told, status="planned", dry_run=True)
    return replace(outcome, exit_code=4) if change.check else outcome


def _done(course: Course, told: report.Upgrade, done: Done) -> Outcome:
    location = done.landed.metadata_location
    told = replace(
        told,
        done=True,
        snapshot_id=done.snapshot_id,
        unfinished=None if done.unfinished is None else done.unfinished.message,
        new_metadata_file=unpublished(done.landed),
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
