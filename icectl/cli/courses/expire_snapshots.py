"""The course of `icectl expire-snapshots`: options to a policy, plan, question, run, outcome."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from icectl.cli.commands.expire_snapshots import ExpireRequest
from icectl.cli.options import Change, Common
from icectl.cli.output_files import write_deleted_list
from icectl.cli.session import Session, identity_of, open_session, unpublished_metadata
from icectl.cli.settings import (
    EXPIRE_CLEAN_METADATA,
    EXPIRE_KEEP_DAILY,
    EXPIRE_KEEP_MONTHLY,
    EXPIRE_KEEP_WEEKLY,
    EXPIRE_OLDER_THAN,
    EXPIRE_RETAIN_LAST,
    Layer,
    Setting,
    Settings,
    whole_number,
)
from icectl.entries.files import rows
from icectl.errors import CommitConflict, Refused, UsageError
from icectl.plan.expire_snapshots import as_landed
from icectl.plan.retention import AskedRetention
from icectl.report import expire_snapshots as report
from icectl.report.document import Outcome
from icectl.report.expire_snapshots import (
    expired_result,
    planned_result,
    print_expired,
    print_plan,
    question,
    untouched_result,
)
from icectl.run.expire_snapshots.expire_snapshots import (
    Expired,
    ExpireOptions,
    PreparedExpiry,
    execute,
    prepare,
    remove_leftovers,
)
from icectl.spec.metadata import TableMetadata
from icectl.spec.properties import (
    MAX_SNAPSHOT_AGE_MS,
    MIN_SNAPSHOTS_TO_KEEP,
    TableProperty,
    read,
)
from icectl.units import parse_instant

COMMAND = "expire-snapshots"


def run(common: Common, table: str, request: ExpireRequest, change: Change) -> Outcome:
    """Plan the expiry; unless the plan is all that was asked for, ask, and run it."""
    ids = _expire_ids(request)
    session = open_session(common, table, read_only=False, change=change)
    options = ExpireOptions(
        policy=policy_of(session.settings, session.env.now_ms(), request, ids),
        clean_expired_metadata=session.settings.read(EXPIRE_CLEAN_METADATA),
        keep_files=request.keep_files,
        only=session.reviewed,
    )
    access = session.access
    prepared = prepare(access, options)
    session.approve(lambda: planned_result(_told(prepared)))
    if not prepared.has_work:
        if not (change.dry_run or change.check):
            remove_leftovers(access, prepared)
        return _planned(prepared, status="nothing-to-do", dry_run=change.dry_run or change.check)
    if change.check or change.dry_run:
        outcome = _planned(prepared, status="planned", dry_run=True)
        return replace(outcome, exit_code=4) if change.check else outcome
    if not change.yes and not _confirmed(session, _told(prepared)):
        raise Refused("not confirmed; nothing was changed", hint="`--yes` confirms beforehand")
    common.shell.limits.check_deleted(len(prepared.deletable))
    write_deleted_list(change, ())  # a place that cannot be written to shows now
    try:
        expired = execute(access, prepared)
    except CommitConflict:
        if not change.skip_if_busy:
            raise
        return _untouched(prepared, "another writer was faster; nothing was changed")
    removed = (location for location, _, _ in rows(expired.removal.removed))
    write_deleted_list(change, removed)
    return _done(prepared, expired)


def _confirmed(session: Session, told: report.Expiry) -> bool:
    """Show what would happen, and ask; UsageError where there is nobody to ask."""
    if session.console.asks:
        print_plan(session.console, told, whole=False)
    return session.console.ask(question(told))


def _expire_ids(request: ExpireRequest) -> tuple[int, ...]:
    policy_options = (
        request.older_than,
        request.retain_last,
        request.keep_daily,
        request.keep_weekly,
        request.keep_monthly,
        request.expire_unreferenced,
    )
    if request.expire_id and any(policy_options):
        raise UsageError(
            "`--expire-id` names exactly what goes, and cannot be joined with a policy",
            hint="give either `--expire-id`, or the options of a policy",
        )
    hint = "`icectl inspect TABLE snapshots` lists them"
    return tuple(
        whole_number("--expire-id", text, "snapshot id", most_digits=19, hint=hint)
        for text in request.expire_id or ()
    )


def policy_of(
    settings: Settings, now_ms: int, request: ExpireRequest, ids: tuple[int, ...] = ()
) -> Callable[[TableMetadata], AskedRetention]:
    """The policy for a table: options replace its properties, the file may only keep more."""
    if ids:
        return lambda _: AskedRetention(expire_ids=ids)
    cutoff = settings.read_as(EXPIRE_OLDER_THAN, lambda text: parse_instant(text, now_ms))
    retain_last = settings.read(EXPIRE_RETAIN_LAST)

    def of(metadata: TableMetadata) -> AskedRetention:
        """Make the policy for a table."""
        stored = metadata.properties

        def bounded(setting: Setting[Any], own: TableProperty[int]) -> bool:
            """Return whether the table has a say: the file may not keep less than it."""
            return settings.origin(setting).layer is Layer.FILE and own.name in stored

        kept_cutoff, kept_count = cutoff, retain_last
        if kept_cutoff is not None and bounded(EXPIRE_OLDER_THAN, MAX_SNAPSHOT_AGE_MS):
            kept_cutoff = min(kept_cutoff, now_ms - read(stored, MAX_SNAPSHOT_AGE_MS))
        if kept_count is not None and bounded(EXPIRE_RETAIN_LAST, MIN_SNAPSHOTS_TO_KEEP):
            kept_count = max(kept_count, read(stored, MIN_SNAPSHOTS_TO_KEEP))
        return AskedRetention(
            older_than_ms=kept_cutoff,
            retain_last=kept_count,
            keep_daily=settings.read(EXPIRE_KEEP_DAILY) or 0,
            keep_weekly=settings.read(EXPIRE_KEEP_WEEKLY) or 0,
            keep_monthly=settings.read(EXPIRE_KEEP_MONTHLY) or 0,
            expire_unreferenced=request.expire_unreferenced,
        )

    return of


def _told(prepared: PreparedExpiry, expired: Expired | None = None) -> report.Expiry:
    """Return the expiry as reports speak of it."""
    told = report.Expiry(
        prepared.loaded.metadata.location,
        prepared.plan,
        prepared.deletable,
        prepared.outside,
        prepared.deletes_files,
    )
    if expired is None:
        return told
    return replace(
        told,
        plan=as_landed(prepared.plan, expired.landed.metadata),
        removed=expired.removal.removed,
        failed=tuple((item.location, item.error) for item in expired.removal.failed),
        stopped=expired.removal.stopped,
        new_metadata_file=unpublished_metadata(expired.landed),
    )


def _planned(
    prepared: PreparedExpiry, *, status: Literal["planned", "nothing-to-do"], dry_run: bool
) -> Outcome:
    told = _told(prepared)
    return Outcome(
        command=COMMAND,
        result=planned_result(told),
        render=lambda console: print_plan(console, told, whole=dry_run),
        table=identity_of(prepared.loaded),
        status=status,
        dry_run=dry_run,
    )


def _done(prepared: PreparedExpiry, expired: Expired) -> Outcome:
    told = _told(prepared, expired)
    incomplete = bool(told.failed) or told.stopped
    return Outcome(
        command=COMMAND,
        result=expired_result(told),
        render=lambda console: print_expired(console, told),
        table=identity_of(prepared.loaded, expired.landed.metadata_location),
        exit_code=3 if incomplete else 0,
        status="incomplete" if incomplete else "done",
    )


def _untouched(prepared: PreparedExpiry, reason: str) -> Outcome:
    return Outcome(
        command=COMMAND,
        result=untouched_result(_told(prepared), reason),
        render=lambda console: console.say(reason),
        table=identity_of(prepared.loaded),
        status="nothing-to-do",
    )
