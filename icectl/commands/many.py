"""One command on several tables, one after the other: each as by itself, then one report."""

import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

from icectl.cli.console import Console, ConsoleOptions
from icectl.cli.document import Outcome, Status, clean
from icectl.cli.failures import error_and_code, recovery_hint
from icectl.cli.metrics import numbers_of
from icectl.cli.naming import name_in_hints
from icectl.cli.options import Change, Common
from icectl.cli.tables import TableColumn, print_table
from icectl.cli.targets import FoundTables, find_tables, is_glob, is_many, missing_tables
from icectl.commands.maintain.plan import exit_code_of, status_of_error
from icectl.errors import Declined, UsageError
from icectl.rows.spark_classic import kept_session
from icectl.units import print_count, print_size

STATUS_NAMES: Mapping[str, str] = {"nothing-to-do": "nothing to do"}
"""Statuses that are not called in text what they are called in JSON."""


_MOST_NAMED = 20
"""Tables that a question names."""


@dataclass(frozen=True, slots=True)
class TableEnd:
    """How a command ended on one table; `result` is what it says of it, None after an error."""

    table: str
    status: str
    exit_code: int
    reason: str = ""
    hint: str | None = None
    result: Mapping[str, Any] | None = None


def many_result(ends: Sequence[TableEnd]) -> dict[str, Any]:
    """Return all tables for JSON."""
    return {
        "tables": [
            {
                "table": end.table,
                "status": end.status,
                "exit": end.exit_code,
                "reason": end.reason or None,
                "hint": end.hint,
                "result": end.result,
            }
            for end in ends
        ]
    }


def print_lines(console: Console, rows: Sequence[tuple[str, str, str]]) -> None:
    """Print tables with what became of them."""
    last = TableColumn("what", cut="wrap")
    columns = [TableColumn("table", cut="middle"), TableColumn("status"), last]
    print_table(
        console, columns, [(name, STATUS_NAMES.get(is_, is_), why) for name, is_, why in rows]
    )


def print_many(console: Console, command: str, ends: Sequence[TableEnd]) -> None:
    """Print a line a table, and how many ended in which way; hints of failures after it."""
    shown = [end for end in ends if console.options.verbosity >= 0 or end.exit_code]
    if shown:
        print_lines(
            console,
            [
                (row.table, _status(command, row), _done_text(command, row) or row.reason)
                for row in shown
            ],
        )
    print_troubles(console, [(end.table, end.reason, end.hint) for end in ends if end.exit_code])
    counts = Counter(_status(command, end) for end in ends)
    statuses = ", ".join(
        f"{number:,} {STATUS_NAMES.get(is_, is_)}" for is_, number in counts.items()
    )
    console.say()
    console.say(f"{print_count(len(ends), 'table')}: {statuses}")


def print_troubles(
    console: Console, troubles: Sequence[tuple[str, str | None, str | None]]
) -> None:
    """Print why tables are not what they should be, in full, and the next step if it is known."""
    for table, reason, hint in troubles:
        if not reason:
            continue
        console.print()
        for text, indent in ((f"{table}: {reason}", ""), (f"hint: {hint}" if hint else "", "  ")):
            lines = wrap(
                text,
                console.prose_width,
                initial_indent=indent,
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
            for line in lines:
                console.print(line)


def what_was_done(command: str, figures: Mapping[str, int]) -> str:
    """Return what a command has done or would do to a table, in few words.

    Empty for nothing to tell.
    """
    describe = _FIGURE_TEXTS.get(command)
    return "" if describe is None else describe(figures)


def _status(command: str, end: TableEnd) -> str:
    """Return the status for people: a finished check shows its findings."""
    if command != "validate" or end.status != "done":
        return end.status
    return "not ok" if end.exit_code else "ok"


def worst_finding(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the first error that `validate` has found, or what it has found first."""
    findings: Sequence[Mapping[str, Any]] = result.get("findings", ())
    errors = [finding for finding in findings if finding["severity"] == "error"]
    return next(iter(errors or findings), None)


def finding_in_words(finding: Mapping[str, Any]) -> str:
    """Return what is wrong with what, and the rule behind it."""
    return f"{finding['subject']}: {finding['message']} ({finding['rule']})"


def _done_text(command: str, end: TableEnd) -> str:
    if end.result is None or end.status == "nothing-to-do":
        return ""
    done = what_was_done(command, dict(numbers_of(clean(end.result))))
    return f"{done}, by the {end.result['engine']} engine" if command == "compact" else done


_Figures = Mapping[str, int]


def _compact_text(figures: _Figures) -> str:
    files = print_count(figures.get("rewritten_data_files", 0), "file")
    return f"{files} into {figures.get('added_data_files', 0):,}"


def _manifests_text(figures: _Figures) -> str:
    manifests = print_count(figures.get("rewritten", 0), "manifest")
    return f"{manifests} into {figures.get('added', 0):,}"


def _expire_text(figures: _Figures) -> str:
    snapshots = print_count(figures.get("expired", 0), "snapshot")
    return f"{snapshots} expired, {print_size(figures.get('deleted_bytes', 0))} freed"


def _orphans_text(figures: _Figures) -> str:
    orphans = print_count(figures.get("removed", 0), "orphan")
    return f"{orphans}, {print_size(figures.get('removed_bytes', 0))}"


def _validate_text(figures: _Figures) -> str:
    kinds = [
        print_count(number, severity)
        for severity in ("error", "warning")
        if (number := figures.get(f"counts_{severity}", 0))
    ]
    return ", ".join([*kinds, print_count(figures.get("files_checked", 0), "file") + " checked"])


_FIGURE_TEXTS: Mapping[str, Callable[[_Figures], str]] = {
    "compact": _compact_text,
    "rewrite-manifests": _manifests_text,
    "expire-snapshots": _expire_text,
    "remove-orphans": _orphans_text,
    "validate": _validate_text,
}


@dataclass(frozen=True, slots=True)
class _OnOne:
    """A command with its options, to be run on one table; `change` None where it changes none."""

    run: Callable[..., Outcome]
    request: Any
    change: Change | None

    def __call__(self, common: Common, table: str) -> Outcome:
        """Run it. Raises: what the command raises."""
        if self.change is None:
            return self.run(common, table, self.request)
        return self.run(common, table, self.request, self.change)


def on_each(
    run: Callable[..., Outcome],
    command: str,
    common: Common,
    tables: Sequence[str],
    request: Any,
    change: Change | None = None,
    *,
    asks: bool = False,
) -> Outcome:
    """Run a command on every table that is named; on one alone as ever.

    One table's failure stops no other. `asks` where the command has a question of its own: it is
    asked once, for all. A change of tables that a pattern finds is asked about in any case.
    Raises: what the command on one table raises, where it is one; UsageError; TableNotFound, where
    there is none; Declined.
    """
    on_one = _OnOne(run, request, change)
    if not is_many(common, tables):
        return on_one(common, tables[0])
    _check_for_many(change)
    matched = find_tables(common, tables)
    if asks or any(is_glob(common, target) for target in tables):
        on_one = replace(on_one, change=_confirm(command, common, matched.tables, change))
    progress = common.shell.console.progress
    progress.phase(command)
    ends = []
    count = print_count(len(matched.tables), "table")
    with kept_session():  # one is enough for all
        for number, table in enumerate(matched.tables):
            progress.rename(f"{number} of {count}: {command} {table}")
            ends.append(end_on(common, table, on_one))
    return _outcome(command, [*ends, *missing_ends(common, matched)], change)


def missing_ends(common: Common, tables: FoundTables) -> list[TableEnd]:
    """Return the ends of targets that stand for no table by mistake: they have failed."""
    return [
        TableEnd(target, "failed", error.exit_code, error.message)
        for target, error in missing_tables(common, tables)
    ]


def _check_for_many(change: Change | None) -> None:
    """Raises: UsageError, for an option that is about one table."""
    about_one = {
        "--metadata-file": change is not None and change.metadata_file,
        "--deleted-list": change is not None and change.deleted_list,
        "--save-plan": change is not None and change.save_plan,
    }
    for option, value in about_one.items():
        if value:
            raise UsageError(f"`{option}` works for one table, and TABLE stands for several")


def _confirm(
    command: str, common: Common, tables: Sequence[str], change: Change | None
) -> Change | None:
    """Name the tables and ask once for all of them. Raises: Declined; UsageError."""
    if change is None or change.yes or change.dry_run or change.check or not tables:
        return change
    console = common.shell.console
    if console.asks:
        for table in tables[:_MOST_NAMED]:
            console.note(f"  {table}")
        if len(tables) > _MOST_NAMED:
            console.note(f"  and {len(tables) - _MOST_NAMED:,} more")
    if not console.ask(f"{command} on {print_count(len(tables), 'table')}?"):
        raise Declined
    return replace(change, yes=True)


def end_on(common: Common, table: str, on_one: Callable[[Common, str], Outcome]) -> TableEnd:
    """Run a command on one table, and keep what it says to itself; its failure is its end."""
    deadline = common.shell.deadline
    if deadline.passed:
        return TableEnd(table, "incomplete", 3, "not reached before the time limit")
    options = ConsoleOptions(verbosity=-1, progress=False, json=True)
    console = Console(io.StringIO(), io.StringIO(), io.StringIO(), common.shell.env, options)
    shell = replace(common.shell, console=console, recovery_hints=[])
    try:
        outcome = on_one(replace(common, shell=shell, json=True), table)
    except Exception as raised:  # noqa: BLE001 - one table's failure never stops the others
        error, code = error_and_code(raised)
        redact = shell.console.redact
        hint = recovery_hint(error, shell.recovery_hints, name_in_hints(common, table))
        shown_hint = None if hint is None else redact(hint)
        end = TableEnd(table, status_of_error(code), code, redact(error.message), shown_hint)
    else:
        end = _table_end(table, outcome)
    for warning in shell.console.warnings:
        common.shell.console.warn(f"{table}: {shell.console.redact(warning)}")
    return end


def _table_end(table: str, outcome: Outcome) -> TableEnd:
    """Return the end of a command that did not fail: warnings, and the worst finding of a check."""
    reason, hint = "; ".join(outcome.warnings), None
    finding = worst_finding(outcome.result) if outcome.exit_code else None
    if finding is not None:
        reason, hint = finding_in_words(finding), finding["hint"]
    code = outcome.exit_code
    return TableEnd(table, outcome.status, code, reason, hint, result=outcome.result)


def _outcome(command: str, ends: Sequence[TableEnd], change: Change | None) -> Outcome:
    planning = change is not None and (change.dry_run or change.check)
    checks = change is None or change.check  # `validate` ends with 4 where it has found errors
    code = exit_code_of([end.exit_code for end in ends], check=checks)
    return Outcome(
        command=command,
        result=many_result(ends),
        render=lambda console: print_many(console, command, ends),
        exit_code=code,
        status=_outcome_status(code, {end.status for end in ends}),
        dry_run=planning,
    )


def _outcome_status(code: int, statuses: set[str]) -> Status:
    if code in (3, 12):
        return "unknown" if code == 12 else "incomplete"
    if "planned" in statuses:
        return "planned"
    return "nothing-to-do" if statuses == {"nothing-to-do"} else "done"
