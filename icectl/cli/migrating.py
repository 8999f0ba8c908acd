"""The course of `icectl migrate-v1-v2`: plan, preconditions, question, run, outcome."""

from dataclasses import replace
from typing import Literal

from icectl.cli.options import Change, Common
from icectl.cli.session import Session, open_session
from icectl.errors import CommitConflict, Refused, UsageError
from icectl.report import migrate_v1_v2 as report
from icectl.report.document import Outcome, TableIdentity
from icectl.report.migrate_v1_v2 import migration_result, print_migration, print_plan, question
from icectl.run.migrate_v1_v2 import (
    COMMAND,
    Migrated,
    Migration,
    Prepared,
    execute,
    prepare,
    refusal,
    remove_leftovers,
)


def migrate(common: Common, table: str, change: Change, *, rewrite_manifests: bool) -> Outcome:
    """Plan the migration; unless the plan is all that was asked for, ask, and run it."""
    if rewrite_manifests and change.metadata_file is not None:
        raise UsageError(
            "`--rewrite-manifests` makes a second commit, and `--metadata-file` allows for one",
            hint="migrate, point the catalog at the new file, then `icectl rewrite-manifests`",
        )
    session = open_session(common, table, read_only=False, change=change)
    means = Migration(
        store=session.store,
        catalog=session.catalog,
        env=session.env,
        progress=session.progress,
        deadline=session.deadline,
        concurrency=session.concurrency,
        shield=session.shield,
    )
    prepared = prepare(means, rewrite_manifests=rewrite_manifests)
    told = report.Migration(prepared.loaded.metadata.location, prepared.plan)
    planning = change.dry_run or change.check
    if not prepared.plan.has_work:
        if not planning:
            remove_leftovers(means, prepared)
        return _outcome(prepared, told, status="nothing-to-do", dry_run=planning)
    if planning:
        return _planned(prepared, told, change)
    if prepared.plan.forbidding:
        raise refusal(prepared.plan.forbidding)
    if not change.yes and not _confirmed(session, told):
        raise Refused("not confirmed; nothing was changed", hint="`--yes` confirms beforehand")
    try:
        done = execute(means, prepared)
    except CommitConflict:
        if not change.skip_if_busy:
            raise
        untouched = replace(told, plan=replace(prepared.plan, steps=()))
        return _outcome(prepared, untouched, status="nothing-to-do", dry_run=False)
    return _done(prepared, told, done)


def _confirmed(session: Session, told: report.Migration) -> bool:
    """Show what would happen, and ask; UsageError where there is nobody to ask."""
    if session.console.asks:
        print_plan(session.console, told)
    return session.console.ask(question(told))


def _planned(prepared: Prepared, told: report.Migration, change: Change) -> Outcome:
    """The plan; it ends with 5 where a real run would be refused."""
    if prepared.plan.forbidding:
        outcome = _outcome(prepared, told, status="refused", dry_run=True)
        return replace(outcome, exit_code=5)
    outcome = _outcome(prepared, told, status="planned", dry_run=True)
    return replace(outcome, exit_code=4) if change.check else outcome


def _done(prepared: Prepared, told: report.Migration, done: Migrated) -> Outcome:
    location = done.landed.metadata_location
    told = replace(
        told,
        done=True,
        snapshot_id=done.snapshot_id,
        unfinished=None if done.unfinished is None else done.unfinished.message,
        new_metadata_file=location if prepared.loaded.current == "given" else None,
    )
    outcome = _outcome(
        prepared, told, status="done" if done.unfinished is None else "incomplete", dry_run=False
    )
    assert outcome.table is not None
    table = replace(outcome.table, metadata_location_after=location)
    return replace(outcome, table=table, exit_code=0 if done.unfinished is None else 3)


def _outcome(
    prepared: Prepared,
    told: report.Migration,
    *,
    status: Literal["done", "planned", "nothing-to-do", "incomplete", "refused"],
    dry_run: bool,
) -> Outcome:
    metadata = prepared.loaded.metadata
    return Outcome(
        command=COMMAND,
        result=migration_result(told),
        render=lambda console: print_migration(console, told),
        table=TableIdentity(
            metadata.location,
            metadata.table_uuid,
            metadata.format_version,
            prepared.loaded.metadata_location,
        ),
        status=status,
        dry_run=dry_run,
    )
