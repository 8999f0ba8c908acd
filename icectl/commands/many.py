"""One command on several tables, one after the other: each as by itself, then one report."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

from icectl.cli.console import Console, silent_console
from icectl.cli.document import Outcome, Status
from icectl.cli.failures import error_and_code, recovery_hint
from icectl.cli.naming import name_in_hints
from icectl.cli.options import Change, Common
from icectl.cli.tables import TableColumn, print_table
from icectl.cli.targets import FoundTables, find_tables, is_glob, is_many, missing_tables
from icectl.commands.outcomes import STATUS_NAMES, exit_code_of, status_of_error
from icectl.errors import Declined, UsageError
from icectl.rows.spark_classic import kept_session
from icectl.units import print_count

_MOST_NAMED = 20
"""Tables that a question names."""


@dataclass(frozen=True, slots=True)
class TableEnd:
    """How a command ended on one table.

    `result` is what it says of it, None after an error; `line` the same among other tables.
    """

    table: str
    status: str
    exit_code: int
    reason: str = ""
    hint: str | None = None
    result: Mapping[str, Any] | None = None
    line: str = ""


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
    """Print a line a table, why some failed, and how many ended in which way.

    `--quiet` leaves only what did not end well.
    """
    rows = [  # why some failed is told in full below
        (end.table, _status(command, end), end.line or ("" if end.exit_code else end.reason))
        for end in ends
    ]
    if rows and console.options.verbosity >= 0:
        print_lines(console, rows)
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
    options = (request,) if change is None else (request, change)
    if not is_many(common, tables):
        return run(common, tables[0], *options)
    about_one = {
        "--metadata-file": change is not None and change.metadata_file,
        "--deleted-list": change is not None and change.deleted_list,
        "--save-plan": change is not None and change.save_plan,
    }
    for option, value in about_one.items():
        if value:
            raise UsageError(f"`{option}` accepts one table, but TABLE selects several")
    matched = find_tables(common, tables)
    if asks or any(is_glob(common, target) for target in tables):
        change = _confirm(command, common, matched.tables, change)
        options = (request,) if change is None else (request, change)
    progress = common.shell.console.progress
    progress.phase(command)
    ends = []
    count = print_count(len(matched.tables), "table")
    with kept_session():  # one is enough for all
        for number, table in enumerate(matched.tables):
            progress.rename(f"{number} of {count}: {command} {table}")
            ends.append(end_on(common, table, lambda quiet, name: run(quiet, name, *options)))
    return _outcome(command, [*ends, *missing_ends(common, matched)], change)


def missing_ends(common: Common, tables: FoundTables) -> list[TableEnd]:
    """Return the ends of targets that stand for no table by mistake: they have failed."""
    return [
        TableEnd(target, "failed", error.exit_code, error.message)
        for target, error in missing_tables(common, tables)
    ]


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
    """Run a command on one table, and keep what it says to itself; its failure is its end.

    Otherwise its end has its warnings, and the worst finding of a check.
    """
    deadline = common.shell.deadline
    if deadline.passed:
        return TableEnd(table, "incomplete", 3, "not reached before the time limit")
    shell = replace(common.shell, console=silent_console(common.shell.env), recovery_hints=[])
    try:
        outcome = on_one(replace(common, shell=shell, json=True), table)
    except Exception as raised:  # noqa: BLE001 - one table's failure never stops the others
        error, code = error_and_code(raised)
        redact = shell.console.redact
        hint = recovery_hint(error, shell.recovery_hints, name_in_hints(common, table))
        shown_hint = None if hint is None else redact(hint)
        end = TableEnd(table, status_of_error(code), code, redact(error.message), shown_hint)
    else:
        reason, hint = "; ".join(outcome.warnings), None
        finding = worst_finding(outcome.result) if outcome.exit_code else None
        if finding is not None:
            reason, hint = finding_in_words(finding), finding["hint"]
        code, status = outcome.exit_code, outcome.status
        end = TableEnd(table, status, code, reason, hint, outcome.result, outcome.line)
    for warning in shell.console.warnings:
        common.shell.console.warn(f"{table}: {shell.console.redact(warning)}")
    return end


def _outcome(command: str, ends: Sequence[TableEnd], change: Change | None) -> Outcome:
    planning = change is not None and (change.dry_run or change.check)
    checks = change is None or change.check  # `validate` exits with 4 where it has found errors
    code = exit_code_of([end.exit_code for end in ends], check=checks)
    statuses = {end.status for end in ends}
    status: Status = "nothing-to-do" if statuses == {"nothing-to-do"} else "done"
    if code in (3, 12):
        status = "unknown" if code == 12 else "incomplete"
    elif "planned" in statuses:
        status = "planned"
    return Outcome(
        command=command,
        result=many_result(ends),
        render=lambda console: print_many(console, command, ends),
        exit_code=code,
        status=status,
        dry_run=planning,
    )
