"""The run of `icectl runs`: read the history, choose rows, print them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from icectl.cli.console import Console
from icectl.cli.document import Outcome
from icectl.cli.history import history_of
from icectl.cli.naming import name_in_hints
from icectl.cli.options import Common, read_options
from icectl.cli.patterns import covers
from icectl.cli.settings import parse_option
from icectl.cli.tables import TableColumn, print_table
from icectl.cli.targets import parts_of
from icectl.commands.outcomes import STATUS_NAMES
from icectl.commands.runs.options import RunsRequest
from icectl.commands.steps import ASSESS
from icectl.errors import StorageError, UsageError
from icectl.units import parse_instant, print_count, print_duration

COMMAND = "runs"
_LIMIT = 50

Record = Mapping[str, Any]


def run(common: Common, tables: Sequence[str], request: RunsRequest) -> Outcome:
    """Return the chosen rows of the history, the newest first. Raises: UsageError; StorageError."""
    history = history_of(common.shell.settings)
    limit = read_options(request)["limit"] or _LIMIT
    is_chosen = _choice(common, tables, request)
    rows: list[Record] = []
    try:
        for record in () if history is None else history.records():
            if is_chosen(record):
                rows.append(record)
            if len(rows) == limit:
                break
    except OSError as error:
        raise StorageError(
            f"cannot read the history of runs: {error.strerror or error}",
            hint="set another folder with `state-dir` in icectl.toml",
        ) from error
    folder, skipped = (None, 0) if history is None else (str(history.folder), history.skipped)
    warnings = []
    if skipped:
        lines = print_count(skipped, "line")
        warnings.append(f"skipped {lines} of the history in {folder} that icectl did not write")

    def render(console: Console) -> None:
        if not rows:
            console.say("no such runs" if tables or request.since or request.failed else "no runs")
            return
        columns = [
            TableColumn("began"),
            TableColumn("table", cut="middle"),
            TableColumn("status"),
            TableColumn("took", align="right"),
            TableColumn("what", cut="wrap"),
        ]
        print_table(console, columns, [_cells(row) for row in rows])

    result = {"folder": folder, "skipped_lines": skipped, "runs": rows}
    return Outcome(COMMAND, result, render, warnings=warnings)


def _choice(
    common: Common, tables: Sequence[str], request: RunsRequest
) -> Callable[[Record], bool]:
    """Return what tells the records that the options ask for. Raises: UsageError."""
    now_ms = common.shell.env.now_ms()
    since_ms = parse_option("--since", request.since, lambda text: parse_instant(text, now_ms))
    patterns = [parts_of(name_in_hints(common, table)) for table in tables]

    def is_chosen(record: Record) -> bool:
        if request.failed and not record["exit"]:
            return False
        with suppress(UsageError):  # of a name or time that none can be
            is_of_time = since_ms is None or _started_ms(record) >= since_ms
            parts = parts_of(record["table"]) if patterns else ()
            return is_of_time and (not patterns or any(covers(one, parts) for one in patterns))
        return False

    return is_chosen


def _started_ms(record: Record) -> int:
    """Return when a run began. Raises: UsageError, for a time that there is not."""
    return parse_instant(record["started"], _ANY_TIME_MS)


_ANY_TIME_MS = 1 << 53
_TO_SECONDS = len("2026-01-02T03:04:05")


def _cells(record: Record) -> tuple[str, ...]:
    """Return a row of the table; failed steps come with their exit codes."""
    what = []
    for step in record["steps"]:
        if step["exit"]:
            name = "" if step["step"] == ASSESS else f"{step['step']} "
            what.append(f"{name}{step['status']} with exit code {step['exit']}")
        elif step.get("summary"):
            what.append(step["summary"])
    status = STATUS_NAMES.get(record["status"], record["status"])
    seconds = max(round(record["seconds"]), 0)
    took = print_duration(1000 * seconds) if seconds else ""
    began = f"{record['started'][:_TO_SECONDS]}Z"
    return began, record["table"], status, took, ", ".join(what)
