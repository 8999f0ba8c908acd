"""A run over many tables as text and JSON: one line a table, and what all of them come to."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from icectl.cli.console import Console
from icectl.cli.tables import TableColumn, print_pairs, print_table
from icectl.commands.bill import bill_lines, bill_of_all, bill_row
from icectl.commands.maintain.plan import VALIDATE, Need, StepEnd, TableRun, TableSize, WithheldStep
from icectl.commands.many import print_lines, print_troubles
from icectl.commands.outcomes import STATUS_NAMES, STATUSES
from icectl.commands.steps import ASSESS, OVER_BUDGET
from icectl.units import print_count, print_size


def maintained_result(tables: Sequence[TableRun]) -> dict[str, Any]:
    """Return the run for JSON."""
    return {"tables": [table_row(table) for table in tables], "totals": totals(tables)}


def table_row(table: TableRun) -> dict[str, Any]:
    """Return one table for JSON."""
    worst = table.worst
    return {
        "table": table.name,
        "status": table.status,
        "exit": table.exit_code,
        "reason": reason_of(table),
        "hint": None if worst is None else worst.hint,
        "benefit_bytes": table.first.benefit_bytes,
        "needs": [_need_row(need) for need in _needs(table)],
        "withheld": [asdict(step) for step in _withheld(table)],
        "steps": [
            {
                "step": end.step,
                "status": end.status,
                "exit": end.exit_code,
                "reason": end.reason or None,
                "hint": end.hint,
                "error_id": end.error_id,
                "figures": dict(end.figures),
                "seconds": round(end.seconds, 3),
            }
            for end in table.ends
        ],
        "before": _facts(table.first.facts),
        "after": None if table.last is None else _facts(table.last.facts),
        "seconds": round(table.seconds, 3),
    }


def _needs(table: TableRun) -> Sequence[Need]:
    """Return the steps that the table needs at first, as far as a budget of the run allows."""
    needs = table.first.needs
    if table.budget is None:
        return needs
    unused = {end.step for end in _without_room(table)}
    shares = {step: need for step, need in table.shares.items() if step not in unused}
    return [shares[need.step] for need in needs if need.step in shares]


def _need_row(need: Need) -> dict[str, Any]:
    return {
        "step": need.step,
        "reason": need.reason,
        "benefit_bytes": need.benefit_bytes,
        "bill": None if need.bill is None else bill_row(need.bill),
    }


def totals(tables: Sequence[TableRun]) -> dict[str, Any]:
    """Return what all tables come to, for JSON; those that could not be read do not count."""
    statuses = [table.status for table in tables]
    needed = [need.bill for table in tables for need in _needs(table) if need.bill is not None]
    bill = bill_of_all(needed)
    return {
        "table_count": len(tables),
        "statuses": {status: statuses.count(status) for status in STATUSES},
        "bill": None if bill is None else bill_row(bill),
        "before": _sum(table.first.facts for table in tables),
        "after": _sum((table.last or table.first).facts for table in tables),
    }


def question(tables: Sequence[TableRun]) -> str:
    """Return what is asked before anything is changed."""
    count = sum(bool(item.left) for item in tables)
    steps = Counter(need.step for table in tables for need in table.left)
    shown = ", ".join(f"{step} on {number:,}" for step, number in steps.items())
    return f"maintain {print_count(count, 'table')} ({shown})?"


def print_policy(console: Console, explained: Mapping[str, Any]) -> None:
    """Print what holds for a table, each value with its origin."""
    steps = ", ".join(explained["steps"]) or "none"
    console.print(f"{explained['table']}: {steps}")
    console.print()
    value, origin = TableColumn("value", cut="end"), TableColumn("from", cut="middle")
    rows = [(key["key"], key["value"], key["origin"]) for key in explained["policy"]]
    print_table(console, [TableColumn("key"), value, origin], rows)


def print_maintained(console: Console, tables: Sequence[TableRun], *, planning: bool) -> None:
    """Print a line a table, tables with most to gain first, why some failed, and the totals.

    `--quiet` leaves only what did not end well.
    """
    is_quiet = console.options.verbosity < 0
    failed = [table for table in tables if table.exit_code and (is_quiet or _is_trouble(table))]
    rows = [(table.name, table.status, _what(table, planning=planning)) for table in tables]
    if rows and not is_quiet:
        print_lines(console, rows)
    elif failed:
        console.show_log_header()
    print_troubles(
        console,
        [(table.name, reason_of(table), None if worst is None else worst.hint)
         for table in failed for worst in [table.worst]],
    )  # fmt: skip
    console.say()
    if not is_quiet:
        _print_totals(console, totals(tables), planning=planning)


def _is_trouble(table: TableRun) -> bool:
    """Return whether a table failed by more than the time, which the next run has again."""
    worst = table.worst
    return worst is not None and bool(worst.exit_code) and worst.status != "incomplete"


def note_interrupted(console: Console, tables: Sequence[TableRun]) -> None:
    """Note what a run has done until it was interrupted, and how much was left."""
    for table in tables:
        done = _done(table)
        if table.is_running:
            done.append(f"{table.next_step} was under way")
        if done:
            console.note(f"{table.name}: {', '.join(done)}")
    unfinished = sum(bool(table.left) for table in tables)
    console.note(
        f"{unfinished:,} of {print_count(len(tables), 'table')} not finished: run again to continue"
    )


def _what(table: TableRun, *, planning: bool) -> str:
    """Return the result of a table, or its plan, with reasons, in one line."""
    why = "" if _is_trouble(table) else reason_of(table) or ""  # or it is told in full below
    if table.status == "skipped" and not planning:
        return why
    if planning:
        if why:
            return why
        needed = {need.step: need.reason for need in table.first.needs}
        planned = [
            f"{end.step}: {needed.get(end.step, '')}{_left_to_next_run(table, end)}"
            for end in table.ends
            if end.status == "planned"
        ]
        return "; ".join((*planned, *_not_done(table)))
    return "; ".join(filter(None, (", ".join(_done(table)), *_not_done(table), why)))


def _not_done(table: TableRun) -> Iterator[str]:
    """Yield the needed steps that were not run, grouped by reason."""
    by_reason: dict[str, list[str]] = {}
    for step in _withheld(table):
        by_reason.setdefault(step.reason, []).append(step.step)
    for reason, steps in by_reason.items():
        yield f"no {' and '.join(steps)}: {reason}"


def _withheld(table: TableRun) -> list[WithheldStep]:
    """Return the needed steps that were withheld."""
    by_budget = [
        WithheldStep(end.step, f"{_budget_of(table, end)} is less than any group of files")
        for end in _without_room(table)
    ]
    budget = table.budget
    waiting = [] if budget is None else [
        WithheldStep(step, budget.reason(need)) for step, need in table.waiting.items()
    ]  # fmt: skip
    return [*table.withheld, *waiting, *by_budget]


def _without_room(table: TableRun) -> Iterator[StepEnd]:
    """Yield the steps that a budget was too small for to do anything."""
    for end in table.ends:
        if end.status == "nothing-to-do" and end.figures.get(_OVER_BUDGET):
            yield end


def _budget_of(table: TableRun, end: StepEnd) -> str:
    is_shared = table.most_bytes(end.step) is not None
    return "what the budget of the run leaves" if is_shared else "`budget.rewrite-bytes`"


def _left_to_next_run(table: TableRun, end: StepEnd) -> str:
    """Return how many files the budget leaves to the next run; empty for none."""
    count = end.figures.get(_OVER_BUDGET, 0)
    if not count:
        return ""
    is_shared = table.most_bytes(end.step) is not None
    name = "the budget of the run" if is_shared else "`budget.rewrite-bytes`"
    return f" ({print_count(count, 'file')} left to the next run by {name})"


_OVER_BUDGET = f"left_alone_{OVER_BUDGET}"
"""The figure of a step that tells the files that its budget was not enough for."""


def _done(table: TableRun) -> list[str]:
    return [
        f"{text}{_left_to_next_run(table, end)}"
        for end in table.ends
        if end.status == "done" and (text := end.line)
    ]


def reason_of(table: TableRun) -> str | None:
    """Return why a table is not what it should be; None where it is."""
    if table.skipped is not None:
        return table.skipped
    worst = table.worst
    if worst is not None and (worst.exit_code or worst.status == "skipped"):
        is_own = worst.status != "skipped" and worst.step not in (ASSESS, VALIDATE)
        step = f"{worst.step}: " if is_own else ""
        return f"{step}{worst.reason or worst.status}"
    if table.left:
        return f"not reached: {', '.join(need.step for need in table.left)}"
    return None


def file_count(facts: TableSize | None) -> int | None:
    """Return the number of a table's files, of data and deletes; None if they were not counted."""
    return None if facts is None else facts.data_file_count + facts.delete_file_count


def _facts(facts: TableSize | None) -> dict[str, Any] | None:
    """Return the figures of a table; planning a scan opens every manifest."""
    if facts is None:
        return None
    return {
        "file_count": file_count(facts),
        "file_bytes": facts.live_bytes,
        "snapshot_count": facts.snapshot_count,
        "expirable_snapshot_count": facts.expirable_snapshot_count,
        "metadata_file_count": facts.metadata_file_count,
        "planning_file_count": facts.manifest_count,
        "planning_bytes": facts.manifest_bytes,
    }


def _sum(facts: Iterator[TableSize | None]) -> dict[str, int]:
    judged = [_facts(fact) for fact in facts if fact is not None]
    keys = ("file_count", "file_bytes", "snapshot_count", "planning_file_count", "planning_bytes")
    return {key: sum(item[key] for item in judged if item is not None) for key in keys}


def _print_totals(console: Console, sums: Mapping[str, Any], *, planning: bool) -> None:
    tables = print_count(sums["table_count"], "table")
    counts = [
        f"{number:,} {STATUS_NAMES.get(status, status)}"
        for status, number in sums["statuses"].items()
        if number
    ]
    console.say(": ".join(filter(None, (tables, ", ".join(counts)))))
    if planning and sums["bill"] is not None:
        for line in bill_lines(sums["bill"], console.prose_width):
            console.say(line)
    before, after = sums["before"], sums["after"]
    if not any(before.values()):  # no table was read
        return
    pairs = [
        (name, show(before) if planning or show(before) == show(after)
         else f"{show(before)} -> {show(after)}")
        for name, show in _SHOWN.items()
    ]  # fmt: skip
    print_pairs(console, pairs)


_SHOWN: Mapping[str, Callable[[Mapping[str, int]], str]] = {
    "files": lambda row: f"{row['file_count']:,} ({print_size(row['file_bytes'])})",
    "snapshots": lambda row: f"{row['snapshot_count']:,}",
    "read per scan": lambda row: (
        f"{print_count(row['planning_file_count'], 'manifest')} "
        f"({print_size(row['planning_bytes'])})"
    ),
}
