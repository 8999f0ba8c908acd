"""`icectl inspect` on a catalog, a namespace or a folder: the tables there are."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

from icectl.catalog.files import FileSystemCatalog
from icectl.catalog.identifier import dotted_name, no_namespace
from icectl.catalog.warehouse import Warehouse
from icectl.cli.console import Console
from icectl.cli.document import Outcome
from icectl.cli.naming import NameInCatalog, name_in_catalog, warehouse_of
from icectl.cli.options import Common
from icectl.cli.session import storage_of
from icectl.cli.settings import CONCURRENCY, parse_count, parse_option
from icectl.cli.targets import (
    TABLE_COLUMNS,
    ListedTable,
    table_rows,
    tables_below,
    tables_in,
    tables_on_disk,
)
from icectl.commands.inspect import rows_report as row_output
from icectl.commands.inspect.views import Row, RowSet
from icectl.errors import Incomplete, TableNotFound, UsageError
from icectl.storage.location import scheme
from icectl.storage.open import open_store, requests_at_once

VIEW = "tables"
_PRINTERS: Mapping[str, Callable[[Console, RowSet], None]] = {
    "jsonl": row_output.print_json_lines,
    "csv": row_output.print_csv,
}


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options of a listing as given."""

    table: str
    columns: tuple[str, ...] | None
    limit: str | None
    format: str


@dataclass(slots=True)
class _Counted:
    """Rows as they are consumed, and what is wrong with the tables of some of them."""

    rows: Iterator[Row]
    problems: list[str] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """How many tables could not be read."""
        return len(self.problems)

    def __iter__(self) -> Iterator[Row]:
        for row in self.rows:
            if row["error"] is not None:
                self.problems.append(f"{row['table']}: {row['error']}")
            yield row


def list_tables(common: Common, given: ListOptions) -> Outcome:
    """List the tables in a catalog or in a namespace of one, or below a folder.

    Raises: UsageError; TableNotFound, where there are none; StorageError.
    """
    if given.format not in ("text", "json", *_PRINTERS):
        raise UsageError(f"`--format {given.format}` is none of text, json, jsonl and csv")
    unknown = set(given.columns or ()) - set(TABLE_COLUMNS)
    if unknown:
        raise UsageError(
            f"a listing of tables has no column `{min(unknown)}`",
            hint=f"columns: {', '.join(TABLE_COLUMNS)}",
        )
    limit = parse_option("--limit", given.limit, parse_count)
    shell = common.shell
    entries = _entries(common, given.table)
    first = list(islice(entries, 1))  # that the namespace is none shows before a header is printed
    loaded = table_rows(
        islice(chain(first, entries), limit),
        requests_at_once(shell.settings.read(CONCURRENCY), given.table),
        shell.console.progress,
        shell.deadline,
    )
    rows = _Counted(loaded)
    shown = list(rows) if given.format == "json" else []

    def render(console: Console) -> None:
        _print(console, rows, given)
        if rows.failed:
            raise Incomplete(_failed(rows))

    incomplete = given.format == "json" and rows.failed > 0
    columns = given.columns or TABLE_COLUMNS
    return Outcome(
        command="inspect",
        result={"view": VIEW, "rows": [{key: row[key] for key in columns} for row in shown]},
        render=render,
        exit_code=Incomplete.exit_code if incomplete else 0,
        status="incomplete" if incomplete else "done",
        warnings=[_failed(rows)] if incomplete else (),
    )


def _failed(rows: _Counted) -> str:
    tables = "table" if rows.failed == 1 else "tables"
    return f"{rows.failed:,} {tables} could not be read"


def _entries(common: Common, table: str) -> Iterator[ListedTable]:
    name = name_in_catalog(common, table)
    storage = storage_of(common, table if name is None else "")
    if name is not None:
        return _entries_in(warehouse_of(common, name, storage), name)
    shell = common.shell
    directory = table if scheme(table) else str(Path(table).absolute())
    store = open_store(replace(storage, home=directory), shell.env, shell.deadline)
    tables = (
        tables_below(store, shell.env, directory)
        if scheme(table)
        else (
            ListedTable(each, FileSystemCatalog(store, each, shell.env))
            for each in tables_on_disk(Path(directory), shell.console.warn)
        )
    )
    first = list(islice(tables, 1))
    if not first:
        raise TableNotFound(
            f"no Iceberg table at or below {directory}",
            hint="a table directory holds metadata/*.metadata.json",
        )
    return chain(first, tables)


def _entries_in(warehouse: Warehouse, name: NameInCatalog) -> Iterator[ListedTable]:
    """The tables of a namespace; some servers list none in place of saying that it is not there.

    Raises: TableNotFound; StorageError.
    """
    tables = tables_in(warehouse, name.catalog, name.parts)
    first = list(islice(tables, 1))
    if not first and name.parts:
        beside = list(warehouse.namespaces(name.parts[:-1]))
        if name.parts not in beside:
            raise no_namespace(name.catalog, name.parts, [dotted_name(each) for each in beside])
    return chain(first, tables)


def _print(console: Console, rows: _Counted, given: ListOptions) -> None:
    printer = _PRINTERS.get(given.format)
    if printer is not None:
        printer(console, RowSet(given.columns or TABLE_COLUMNS, rows))
    elif given.columns is not None:
        row_output.print_chosen(console, RowSet(given.columns, rows))
    else:
        row_output.print_rows(console, VIEW, RowSet(TABLE_COLUMNS, rows), "")
        for problem in rows.problems:
            console.warn(problem)
