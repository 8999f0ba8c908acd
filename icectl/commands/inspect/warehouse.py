"""The run of `icectl inspect TABLE... health` on many tables: each looked at, then one page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icectl.cli.app import COMMANDS
from icectl.cli.console import Console
from icectl.cli.document import Outcome
from icectl.cli.options import Common
from icectl.cli.session import identity_of, open_session
from icectl.cli.tables import print_pairs
from icectl.cli.targets import FoundTables, find_tables, look_at_each
from icectl.commands.inspect.health import health
from icectl.commands.inspect.health_plan import HealthLimits
from icectl.commands.inspect.rows_report import print_rows
from icectl.commands.inspect.views import Row, RowSet
from icectl.commands.inspect.warehouse_page import warehouse_page
from icectl.commands.inspect.warehouse_plan import (
    VERDICTS,
    WAREHOUSE_COLUMNS,
    by_need,
    figures_of,
    history,
    totals,
)
from icectl.commands.maintain.schedule_plan import exit_code_of
from icectl.commands.many import TableEnd, end_on, many_result, missing_ends, print_troubles
from icectl.errors import ProblemsFound
from icectl.rows.choice import EngineChoice
from icectl.table.reader import SnapshotChoice
from icectl.units import print_count, print_size


def print_warehouse(
    console: Console, shown: Sequence[Row], rows: Sequence[Row], engine: EngineChoice
) -> None:
    """Print those that are `shown`, why tables could not be read, and the totals of all rows."""
    print_rows(console, "warehouse", RowSet(WAREHOUSE_COLUMNS, shown), "")
    print_troubles(console, [(row["table"], row["error"], None) for row in shown])
    sums = totals(rows)
    if len(shown) < len(rows):
        console.say()
        console.say(f"and {len(rows) - len(shown):,} more")
    console.say()
    verdicts = [f"{count:,} {_NAMES[name]}" for name, count in sums["verdicts"].items() if count]
    console.say(f"{print_count(len(rows), 'table')}: {', '.join(reversed(verdicts))}")
    print_pairs(console, summary(sums))
    if any("compact" in (row["commands"] or ()) for row in rows):
        console.say(str(engine))


def summary(totals: Row) -> list[tuple[str, str]]:
    """Return what all tables come to, and what maintenance would make of it."""
    data, deletes = totals["data_file_count"], totals["delete_file_count"]
    files = f"{data:,} of data ({print_size(totals['data_file_bytes'])}), {deletes:,} of deletes"
    merged = print_count(totals["surplus_file_count"], "file")
    regrouped = print_count(totals["surplus_manifest_count"], "manifest")
    snapshots = print_count(totals["snapshot_count"], "snapshot")
    freed = f"{print_size(totals['reclaimable_bytes'])} freed"
    return [
        ("files", files),
        ("to merge", f"{merged}, {regrouped}"),
        ("to expire", f"{totals['expirable_snapshot_count']:,} of {snapshots}, {freed}"),
    ]


_NAMES = {"ok": "ok", "attention": "attention", "critical": "critical", "unread": "not read"}


@dataclass(frozen=True, slots=True)
class WarehouseRequest:
    """What is asked of many tables: limits, the verdicts that end with 4, output.

    `printer` prints rows of figures, None for text; `write` writes the page to `html`.
    """

    limits: HealthLimits
    failing: frozenset[str]
    engine: EngineChoice
    printer: Callable[[Console, RowSet], None] | None
    columns: tuple[str, ...] | None
    limit: int | None
    html: str | None
    write: Callable[[str, str], None]


def run(common: Common, targets: Sequence[str], request: WarehouseRequest) -> Outcome:
    """Judge every table that the targets stand for. Raises: TableNotFound, where there is none."""
    tables = find_tables(common, targets)
    ends = {end.table: end for end in _looked_at(common, tables, request)}
    rows = by_need(figures_of(one.table, one.result, _error(one)) for one in ends.values())
    ordered = [ends[row["table"]] for row in rows]
    result = _result(ordered, rows)
    code = _code(ordered, request.failing)
    if request.html is not None:
        page = warehouse_page(targets, rows, ordered, common.shell.env.now_ms())
        request.write(request.html, page)
    return Outcome(
        command="inspect",
        result=result,
        render=_printer(rows, request),
        exit_code=code,
        status="incomplete" if code == 3 else "done",
    )


def _looked_at(common: Common, tables: FoundTables, request: WarehouseRequest) -> list[TableEnd]:
    """Judge every table, several at a time; targets without any are failures."""
    progress = common.shell.console.progress
    progress.phase("looking at tables", total=len(tables.tables))

    def look(table: str) -> TableEnd:
        end = end_on(common, table, lambda quiet, name: _judged(quiet, name, request))
        progress.advance(1)
        return end

    return [*look_at_each(common, tables.tables, look), *missing_ends(common, tables)]


def _judged(common: Common, table: str, request: WarehouseRequest) -> Outcome:
    """Judge one table, as `icectl inspect TABLE health` does."""
    reader = open_session(common, table, read_only=True).open_for_reading("shown")
    report = health(reader, SnapshotChoice(), frozenset(COMMANDS), request.limits)
    result = {"view": "health", **report, "engine": request.engine.name}
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
        {**entry, "verdict": row["verdict"], "benefit_bytes": row["benefit_bytes"]}
        for entry, row in zip(many_result(ordered)["tables"], rows, strict=True)
    ]
    verdicts = [row["verdict"] for row in rows if row["verdict"] is not None]
    worst = max(verdicts, key=VERDICTS.index, default="unknown" if rows else "ok")
    return {"view": "health", "verdict": worst, "tables": tables, "totals": totals(rows)}


def _code(ends: Sequence[TableEnd], failing: frozenset[str]) -> int:
    codes = [one.exit_code for one in ends]
    if any(one.result is not None and one.result["verdict"] in failing for one in ends):
        codes.append(ProblemsFound.exit_code)
    return exit_code_of(codes, check=True)


def _printer(rows: Sequence[Row], request: WarehouseRequest) -> Callable[[Console], None]:
    """Return what prints the tables, or that the page was written."""
    columns = request.columns or WAREHOUSE_COLUMNS
    shown = rows[: request.limit]

    def render(console: Console) -> None:
        if request.html is not None:
            for row in rows:
                if row["error"]:
                    console.warn(f"{row['table']}: {row['error']}")
        if request.printer is not None:
            request.printer(console, RowSet(columns, shown))
        elif request.html is not None:
            console.say(f"wrote {request.html}")
        else:
            print_warehouse(console, shown, rows, request.engine)

    return render
