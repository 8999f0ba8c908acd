"""`icectl inspect` on a catalog, namespace or folder: its tables, or their health on one page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path

from icectl.catalog.files import FileSystemCatalog
from icectl.catalog.identifier import dotted_name, no_namespace
from icectl.cli.console import Console
from icectl.cli.document import Outcome
from icectl.cli.naming import name_in_catalog, name_in_hints, options_in_hints, warehouse_of
from icectl.cli.options import Common
from icectl.cli.session import connect_to, identity_of, open_session, storage_of
from icectl.cli.settings import CONCURRENCY, parse_count, parse_option
from icectl.cli.tables import print_pairs
from icectl.cli.targets import (
    TABLE_COLUMNS,
    ListedTable,
    find_tables,
    look_at_each,
    table_rows,
    tables_below,
    tables_in,
    tables_on_disk,
)
from icectl.commands.inspect import rows_report as row_output
from icectl.commands.inspect.clustering import SHOWN_PARTITIONS, clustering
from icectl.commands.inspect.health import health
from icectl.commands.inspect.rows_report import print_rows
from icectl.commands.inspect.views import Row, RowSet, columns_hint
from icectl.commands.inspect.warehouse_page import warehouse_page
from icectl.commands.inspect.warehouse_plan import (
    VERDICTS,
    WAREHOUSE_COLUMNS,
    by_need,
    figures_of,
    history,
    totals,
)
from icectl.commands.many import TableEnd, end_on, many_result, missing_ends, print_troubles
from icectl.commands.outcomes import exit_code_of
from icectl.errors import Incomplete, ProblemsFound, TableNotFound, UsageError
from icectl.storage.location import scheme
from icectl.storage.open import open_store, requests_at_once
from icectl.table.reader import Gaps, SnapshotChoice
from icectl.units import print_count, print_size


def print_warehouse(
    console: Console, shown: Sequence[Row], rows: Sequence[Row], notes: Sequence[str]
) -> None:
    """Print those that are `shown`, why tables could not be read, and the totals of all rows."""
    print_rows(console, "warehouse", RowSet(WAREHOUSE_COLUMNS, shown), "")
    print_troubles(console, [(row["table"], row["error"], None) for row in shown])
    sums = totals(rows)
    if len(shown) < len(rows):
        console.say()
        console.say(f"and {len(rows) - len(shown):,} more")
    console.say()
    counts = [(name, count) for name, count in sums["verdicts"].items() if count]
    verdicts = [f"{count:,} {'not read' if name == 'unread' else name}" for name, count in counts]
    console.say(f"{print_count(len(rows), 'table')}: {', '.join(reversed(verdicts))}")
    print_pairs(console, summary(sums))
    for note in dict.fromkeys(notes):
        console.say(note)


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


@dataclass(frozen=True, slots=True)
class WarehouseRequest:
    """What is asked of many tables: the verdicts that exit with 4, output.

    `printer` prints rows of figures, None for text; `write` writes the page to `html`.
    """

    failing: frozenset[str]
    printer: Callable[[Console, RowSet], None] | None
    columns: tuple[str, ...] | None
    limit: int | None
    html: str | None
    write: Callable[[str, str], None]


def _title(common: Common, target: str) -> str:
    """Return what a page calls a target: the catalog, for all of its tables."""
    is_whole = common.catalog is not None and target == "**"
    return f"{common.catalog}" if is_whole else name_in_hints(common, target)


def run(common: Common, targets: Sequence[str], request: WarehouseRequest) -> Outcome:
    """Judge every table that the targets stand for. Raises: TableNotFound, where there is none."""
    tables = find_tables(common, targets)
    progress = common.shell.console.progress
    progress.phase("checking tables", total=len(tables.tables))

    assess = partial(_assess, with_clustering=request.html is not None)

    def look(table: str) -> TableEnd:
        end = end_on(common, table, assess)
        progress.advance(1)
        return end

    # Several are looked at together; targets without tables are failures.
    looks = [*look_at_each(common, tables.tables, look), *missing_ends(common, tables)]
    ends = {end.table: end for end in looks}
    rows = by_need(
        figures_of(end.table, end.result, end.reason if end.result is None else None)
        for end in ends.values()
    )
    ordered = [ends[row["table"]] for row in rows]
    verdicts = [row["verdict"] for row in rows if row["verdict"] is not None]
    worst = max(verdicts, key=VERDICTS.index, default="unknown" if rows else "ok")
    entries = [
        {**entry, "verdict": row["verdict"], "benefit_bytes": row["benefit_bytes"]}
        for entry, row in zip(many_result(ordered)["tables"], rows, strict=True)
    ]
    codes = [end.exit_code for end in ordered]
    if any(end.result is not None and end.result["verdict"] in request.failing for end in ordered):
        codes.append(ProblemsFound.exit_code)
    code = exit_code_of(codes, check=True)
    if request.html is not None:
        names = [_title(common, target) for target in targets]
        now_ms = common.shell.env.now_ms()
        hint_options = options_in_hints(common, with_catalog=True)
        page = warehouse_page(names, rows, ordered, now_ms, hint_options)
        request.write(request.html, page)

    def render(console: Console) -> None:
        for row in rows if request.html is not None else ():
            if row["error"]:
                console.warn(f"{row['table']}: {row['error']}")
        shown = rows[: request.limit]
        if request.printer is not None:
            request.printer(console, RowSet(request.columns or WAREHOUSE_COLUMNS, shown))
        elif request.html is not None:
            console.say(f"wrote {request.html}")
        else:
            engines = [row["engine"] for row in rows if "compact" in (row["commands"] or ())]
            print_warehouse(console, shown, rows, [f"engine: {name}" for name in engines])

    return Outcome(
        command="inspect",
        result={"view": "health", "verdict": worst, "tables": entries, "totals": totals(rows)},
        render=render,
        exit_code=code,
        status="incomplete" if code == 3 else "done",
    )


def _assess(common: Common, table: str, *, with_clustering: bool) -> Outcome:
    """Assess one table, as `icectl inspect TABLE health` does, and how well a sorted one is."""
    reader = open_session(common, table, read_only=True).open_for_reading("shown")
    settings, name = common.shell.settings, name_in_hints(common, table)
    judged = health(reader, SnapshotChoice(), settings, name, partial(connect_to, common))
    result = {"view": "health", **judged.row, "history": history(reader.metadata)}
    order = reader.metadata.sort_order(reader.metadata.default_sort_order_id)
    if with_clustering and order is not None and order.fields:
        as_far_as_read = replace(reader, gaps=Gaps())
        result["clustering"] = clustering(as_far_as_read, SnapshotChoice(), None, SHOWN_PARTITIONS)
    return Outcome(
        command="inspect",
        result=result,
        render=lambda _: None,
        table=identity_of(reader.loaded),
    )


VIEW = "tables"
_PRINTERS: Mapping[str, Callable[[Console, RowSet], None]] = {
    "jsonl": row_output.print_json_lines,
    "csv": row_output.print_csv,
}


def list_tables(
    common: Common, table: str, named: tuple[str, ...] | None, limit: str | None, form: str
) -> Outcome:
    """List the tables in a catalog or in a namespace of one, or below a folder.

    `named` are the columns that were asked for. Raises: UsageError; TableNotFound, where there are
    no tables; StorageError.
    """
    if form not in ("text", "json", *_PRINTERS):
        raise UsageError(f"`--format {form}` is not one of text, json, jsonl and csv")
    unknown = set(named or ()) - set(TABLE_COLUMNS)
    if unknown:
        raise UsageError(
            f"a listing of tables has no column `{min(unknown)}`",
            hint=columns_hint(TABLE_COLUMNS, row_output.headings_of(VIEW)),
        )
    most = parse_option("--limit", limit, parse_count)
    shell, columns = common.shell, named or TABLE_COLUMNS
    entries = _entries(common, table)
    first = list(islice(entries, 1))  # that the namespace is none shows before a header is printed
    problems: list[str] = []

    def read() -> Iterator[Row]:
        """Yield the rows; why tables could not be read is added to `problems`."""
        concurrency = requests_at_once(shell.settings.read(CONCURRENCY), table)
        listed = islice(chain(first, entries), most)
        for row in table_rows(listed, concurrency, shell.console.progress, shell.deadline):
            if row["error"] is not None:
                problems.append(f"{row['table']}: {row['error']}")
            yield row

    rows = list(read()) if form == "json" else read()

    def render(console: Console) -> None:
        if form in _PRINTERS:
            _PRINTERS[form](console, RowSet(columns, rows))
        elif named is not None:
            row_output.print_chosen(console, RowSet(named, rows))
        else:
            row_output.print_rows(console, VIEW, RowSet(TABLE_COLUMNS, rows), "")
            for problem in problems:
                console.warn(problem)
        if problems:
            raise Incomplete(f"{print_count(len(problems), 'table')} could not be read")

    shown = [{key: row[key] for key in columns} for row in (rows if form == "json" else ())]
    failed = form == "json" and bool(problems)
    return Outcome(
        command="inspect",
        result={"view": VIEW, "rows": shown},
        render=render,
        exit_code=Incomplete.exit_code if failed else 0,
        status="incomplete" if failed else "done",
        warnings=[f"{print_count(len(problems), 'table')} could not be read"] if failed else (),
    )


def _entries(common: Common, table: str) -> Iterator[ListedTable]:
    name = name_in_catalog(common, table)
    storage = storage_of(common, table if name is None else "")
    if name is not None:
        warehouse = warehouse_of(common, name, storage)
        tables = tables_in(warehouse, name.catalog, name.parts)
        first = list(islice(tables, 1))
        if not first and name.parts:  # some servers do not say that a namespace is not there
            beside = list(warehouse.namespaces(name.parts[:-1]))
            if name.parts not in beside:
                near = [dotted_name(table) for table in beside]
                raise no_namespace(name.catalog, name.parts, near)
        return chain(first, tables)
    shell = common.shell
    directory = table if scheme(table) else str(Path(table).absolute())
    store = open_store(replace(storage, home=directory), shell.env, shell.deadline)
    tables = (
        tables_below(store, shell.env, directory)
        if scheme(table)
        else (
            ListedTable(location, FileSystemCatalog(store, location, shell.env))
            for location in tables_on_disk(Path(directory), shell.console.warn)
        )
    )
    first = list(islice(tables, 1))
    if not first:
        raise TableNotFound(
            f"no Iceberg table at or below {directory}",
            hint="a table directory contains metadata/*.metadata.json",
        )
    return chain(first, tables)
