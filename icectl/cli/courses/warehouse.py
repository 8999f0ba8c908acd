"""The course of `icectl inspect TABLE... health` on many tables: each looked at, then one page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icectl.cli.app import COMMANDS
from icectl.cli.many import end_on, missing_ends
from icectl.cli.options import Common
from icectl.cli.session import identity_of, open_session
from icectl.cli.targets import FoundTables, find_tables, look_at_each
from icectl.engine.choice import EngineChoice
from icectl.errors import ProblemsFound
from icectl.plan.inspect.health import HealthLimits
from icectl.plan.inspect.views import Row, RowSet
from icectl.plan.inspect.warehouse import (
    VERDICTS,
    WAREHOUSE_COLUMNS,
    by_need,
    figures_of,
    history,
    totals,
)
from icectl.plan.maintain.schedule import exit_code_of
from icectl.plan.snapshot_choice import SnapshotChoice
from icectl.report.console import Console
from icectl.report.document import Outcome, Status
from icectl.report.inspect.warehouse import print_warehouse
from icectl.report.inspect.warehouse_page import warehouse_page
from icectl.report.many import TableEnd, many_result
from icectl.run.inspect.health import health


@dataclass(frozen=True, slots=True)
class WarehouseRequest:
    """What is asked of many tables: limits, the verdict from which on it ends with 4, output.

    `printer` prints rows of figures, None for text; `write` writes the page to `html`.
    """

    limits: HealthLimits
    fails_from: int
    engine: EngineChoice
    printer: Callable[[Console, RowSet], None] | None
    columns: tuple[str, ...] | None
    limit: int | None
    html: str | None
    write: Callable[[str, str], None]


def run(common: Common, targets: Sequence[str], request: WarehouseRequest) -> Outcome:
    """Judge every table that the targets stand for. Raises: TableNotFound, where there is none."""
    found = find_tables(common, targets)
    ends = {end.table: end for end in _looked_at(common, found, request)}
    rows = by_need(figures_of(one.table, one.result, _error(one)) for one in ends.values())
    ordered = [ends[row["table"]] for row in rows]
    result = _result(ordered, rows)
    code = _code(ordered, request.fails_from)
    if request.html is not None:
        page = warehouse_page(targets, rows, ordered, common.shell.env.now_ms())
        request.write(request.html, page)
    return Outcome(
        command="inspect",
        result=result,
        render=_printer(rows, request),
        exit_code=code,
        status=_status(code),
    )


def _looked_at(common: Common, found: FoundTables, request: WarehouseRequest) -> list[TableEnd]:
    """Judge every table, several at a time; targets without any are failures."""
    progress = common.shell.console.progress
    progress.phase("looking at tables", total=len(found.tables))

    def look(table: str) -> TableEnd:
        """Judge one table."""
        end = end_on(common, table, lambda quiet, name: _judged(quiet, name, request))
        progress.advance(1)
        return end

    return [*look_at_each(common, found.tables, look), *missing_ends(common, found)]


def _judged(common: Common, table: str, request: WarehouseRequest) -> Outcome:
    """Judge one table, as `icectl inspect TABLE health` does."""
    reader = open_session(common, table, read_only=True).read("shown")
    found = health(reader, SnapshotChoice(), frozenset(COMMANDS), request.limits)
    result = {"view": "health", **found, "engine": request.engine.name}
    return Outcome(
        command="inspect",
        result={**result, "history": history(reader.metadata)},
        render=lambda _: None,
        table=identity_of(reader.loaded),
    )


def _error(end: TableEnd) -> str | None:
    return end.reason if end.result is None else None


def _result(ordered: Sequence[TableEnd], rows: Sequence[Row]) -> Mapping[str, Any]:
    tables = [
        {**told, "verdict": row["verdict"], "benefit_bytes": row["benefit_bytes"]}
        for told, row in zip(many_result(ordered)["tables"], rows, strict=True)
    ]
    verdicts = [row["verdict"] for row in rows if row["verdict"] is not None]
    worst = max(verdicts, key=VERDICTS.index, default="ok")
    return {"view": "health", "verdict": worst, "tables": tables, "totals": totals(rows)}


def _code(ends: Sequence[TableEnd], fails_from: int) -> int:
    codes = [one.exit_code for one in ends]
    verdicts = [one.result["verdict"] for one in ends if one.result is not None]
    fails = any(VERDICTS.index(verdict) >= fails_from for verdict in verdicts)
    codes += [ProblemsFound.exit_code] if fails else []
    return exit_code_of(codes, check=True)


def _status(code: int) -> Status:
    return "incomplete" if code == 3 else "done"


def _printer(rows: Sequence[Row], request: WarehouseRequest) -> Callable[[Console], None]:
    """Return what prints the tables, or that the page was written."""
    columns = request.columns or WAREHOUSE_COLUMNS
    shown = rows[: request.limit]

    def render(console: Console) -> None:
        """Print it."""
        if request.html is not None:
            console.say(f"wrote {request.html}")
        elif request.printer is not None:
            request.printer(console, RowSet(columns, shown))
        else:
            print_warehouse(console, shown, rows, request.engine)

    return render
