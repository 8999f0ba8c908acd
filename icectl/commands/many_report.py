"""One command on several tables as text and JSON: one line a table."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from icectl.cli.console import Console
from icectl.cli.document import clean
from icectl.cli.metrics import numbers_of
from icectl.cli.tables import TableColumn, print_table
from icectl.units import print_count, print_size

STATUS_NAMES: Mapping[str, str] = {"nothing-to-do": "nothing to do"}
"""Statuses that are not called in text what they are called in JSON."""


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
                "table": one.table,
                "status": one.status,
                "exit": one.exit_code,
                "reason": one.reason or None,
                "hint": one.hint,
                "result": one.result,
            }
            for one in ends
        ]
    }


def print_lines(
    console: Console, rows: Sequence[tuple[str, str, str]], *, whole: bool = False
) -> None:
    """Print tables with what became of them, a line each in the width that there is, or `whole`."""
    last = TableColumn("what", cut="wrap" if whole else "end")
    columns = [TableColumn("table", cut="middle"), TableColumn("status"), last]
    print_table(
        console, columns, [(name, STATUS_NAMES.get(is_, is_), why) for name, is_, why in rows]
    )


def print_many(console: Console, command: str, ends: Sequence[TableEnd]) -> None:
    """Print a line a table, and how many ended in which way; hints of failures after it."""
    shown = [one for one in ends if console.options.verbosity >= 0 or one.exit_code]
    if shown:
        rows = [(one.table, _status(one), _told(command, one) or one.reason) for one in shown]
        print_lines(console, rows)
    print_troubles(console, [(one.table, one.reason, one.hint) for one in ends if one.exit_code])
    counts = Counter(one.status for one in ends)
    told = ", ".join(f"{number:,} {STATUS_NAMES.get(is_, is_)}" for is_, number in counts.items())
    console.say()
    console.say(f"{print_count(len(ends), 'table')}: {told}")


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
    tell = _TOLD.get(command)
    return "" if tell is None else tell(figures)


def _status(end: TableEnd) -> str:
    """Return the status for people: a check that was done, and has found errors, says so."""
    return "errors" if (end.status, end.exit_code) == ("done", 4) else end.status


def worst_finding(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the first error that `validate` has found, or what it has found first."""
    findings: Sequence[Mapping[str, Any]] = result.get("findings", ())
    errors = [one for one in findings if one["severity"] == "error"]
    return next(iter(errors or findings), None)


def _told(command: str, end: TableEnd) -> str:
    if end.result is None or end.status == "nothing-to-do":
        return ""
    return what_was_done(command, dict(numbers_of(clean(end.result))))


_Figures = Mapping[str, int]


def _compacted(found: _Figures) -> str:
    files = print_count(found.get("rewritten_data_files", 0), "file")
    return f"{files} into {found.get('added_data_files', 0):,}"


def _regrouped(found: _Figures) -> str:
    manifests = print_count(found.get("rewritten", 0), "manifest")
    return f"{manifests} into {found.get('added', 0):,}"


def _expired(found: _Figures) -> str:
    snapshots = print_count(found.get("expired", 0), "snapshot")
    return f"{snapshots} expired, {print_size(found.get('deleted_bytes', 0))} freed"


def _removed(found: _Figures) -> str:
    orphans = print_count(found.get("removed", 0), "orphan")
    return f"{orphans}, {print_size(found.get('removed_bytes', 0))}"


def _validated(found: _Figures) -> str:
    kinds = [
        print_count(number, severity)
        for severity in ("error", "warning")
        if (number := found.get(f"counts_{severity}", 0))
    ]
    return ", ".join([*kinds, print_count(found.get("files_checked", 0), "file") + " checked"])


_TOLD: Mapping[str, Callable[[_Figures], str]] = {
    "compact": _compacted,
    "rewrite-manifests": _regrouped,
    "expire-snapshots": _expired,
    "remove-orphans": _removed,
    "validate": _validated,
}
