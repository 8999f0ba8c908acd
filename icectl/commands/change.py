"""Run a command that changes a table: plan, ask, execute, report the outcome."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, Generic, TypeVar

from icectl.catalog.protocol import LoadedTable
from icectl.cli.console import Console
from icectl.cli.document import Outcome, Status, write_deleted_list
from icectl.cli.options import Change
from icectl.cli.session import Session, identity_of, unpublished_metadata
from icectl.commit.attempt import CommitRequest, commit_changes
from icectl.commit.output_journal import Leftovers
from icectl.errors import CommitConflict, Declined, Incomplete, ProblemsFound, Refused, UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.updates import Update
from icectl.table.context import TableContext
from icectl.table.removed_files import unless_removed

Report = TypeVar("Report")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Finished(Generic[Report]):
    """The result of an execution: its report, the current metadata file, the deleted files."""

    report: Report
    metadata_location: str
    is_complete: bool = True
    removed: Iterable[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange(Generic[Report]):
    """A plan, how to execute it, and how to report on it.

    `result` and `show` write a report as JSON members and as text, `line` as one line among other
    tables; `show` lists everything where its last argument is true. `superseded` is the report
    where another writer committed first. `clean_up` runs where there is no work. `refusal` is the
    error of a plan that may not be executed. `errors_left` are errors of the table that the plan
    does not repair. `deleted_file_count` is None for a command without a list of deleted files.
    `warnings` are of a plan that is not executed.
    """

    command: str
    loaded: LoadedTable
    report: Report
    result: Callable[[Report], Mapping[str, Any]]
    show: Callable[[Console, Report, bool], None]
    has_work: bool
    execute: Callable[[], Finished[Report]]
    superseded: Callable[[], Report]
    line: Callable[[Report], str] = lambda _: ""
    clean_up: Callable[[], None] = lambda: None
    question: str | None = None
    refusal: Refused | None = None
    errors_left: bool = False
    deleted_file_count: int | None = None
    warnings: Sequence[str] = ()


def check_table_first(command: str, verbs: Sequence[str], table: str, verb: str) -> None:
    """Raises: UsageError, where a verb is in the place of the table."""
    if table in verbs and verb not in verbs:
        raise UsageError(
            "the table comes before the verb", hint=f"`icectl {command} {quote(verb)} {table}`"
        )


def carry_out(session: Session, change: Change, planned: PlannedChange[Report]) -> Outcome:
    """Ask, execute the plan and return the outcome; that of the plan if no more was asked for.

    Raises: Refused; Declined; UsageError, if no user can answer; CommitConflict, where the
    plan is not what was reviewed; what `execute` raises.
    """
    report = planned.report
    session.approve(lambda: planned.result(report))
    plans_only = change.dry_run or change.check
    if not planned.has_work:
        if not plans_only:
            planned.clean_up()
        if planned.errors_left:
            return _outcome(planned, report, "refused", Refused.exit_code, dry_run=plans_only)
        return _outcome(planned, report, "nothing-to-do", dry_run=plans_only)
    if plans_only:
        if planned.refusal is not None:
            outcome = _outcome(planned, report, "refused", Refused.exit_code, dry_run=True)
        else:
            exit_code = ProblemsFound.exit_code if change.check or planned.errors_left else 0
            outcome = _outcome(planned, report, "planned", exit_code, dry_run=True)
        return replace(outcome, warnings=planned.warnings)
    if planned.refusal is not None:
        raise planned.refusal
    if planned.question is not None and not change.yes:
        if session.console.asks:
            planned.show(session.console, report, False)  # noqa: FBT003 - it has no keywords
        if not session.console.ask(planned.question):
            raise Declined
    if planned.deleted_file_count is not None:
        session.limits.check_deleted(planned.deleted_file_count)
        # an unwritable place must show before the execution
        write_deleted_list(change.deleted_list, ())
    try:
        with unless_removed(session.context):
            finished = planned.execute()
    except CommitConflict:
        if not change.skip_if_busy:
            raise
        return _outcome(planned, planned.superseded(), "nothing-to-do")
    if planned.deleted_file_count is not None:
        write_deleted_list(change.deleted_list, finished.removed)
    outcome = (
        _outcome(planned, finished.report, "done")
        if finished.is_complete
        else _outcome(planned, finished.report, "incomplete", Incomplete.exit_code)
    )
    return replace(outcome, table=identity_of(planned.loaded, finished.metadata_location))


@dataclass(frozen=True, slots=True)
class MetadataReport(Generic[Item]):
    """The metadata of a table, and the changes of it that are planned or made."""

    metadata: TableMetadata
    changes: Sequence[Item] = ()
    done: bool = False
    new_metadata_file: str | None = None


def commit_metadata(
    context: TableContext,
    leftovers: Leftovers,
    loaded: LoadedTable,
    report: MetadataReport[Item],
    updates: Callable[[TableMetadata, Sequence[Item]], Sequence[Update]],
) -> Finished[MetadataReport[Item]]:
    """Execute a change that writes no file but the metadata's.

    Raises: CommitConflict; CommitUnknown; what `updates` and loading raise.
    """
    with leftovers.removed_after(loaded):
        landed = commit_changes(
            context, loaded, lambda newest: updates(newest, report.changes), CommitRequest()
        )
    changed_report = replace(report, done=True, new_metadata_file=unpublished_metadata(landed))
    return Finished(changed_report, landed.metadata_location)


def _outcome(
    planned: PlannedChange[Report],
    report: Report,
    status: Status,
    exit_code: int = 0,
    *,
    dry_run: bool = False,
) -> Outcome:
    return Outcome(
        command=planned.command,
        result=planned.result(report),
        render=lambda console: planned.show(console, report, dry_run),
        table=identity_of(planned.loaded),
        exit_code=exit_code,
        status=status,
        dry_run=dry_run,
        line="" if status == "nothing-to-do" else planned.line(report),
    )
