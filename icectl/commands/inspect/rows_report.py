"""Row views: as a table that fits the terminal, as CSV, as JSON lines.

Rows are written while they are read, so that a table of any size can be shown.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Literal

from icectl.cli.console import Console
from icectl.cli.document import csv_text, json_line
from icectl.cli.tables import TableColumn, beginnings, below, print_table, with_room
from icectl.commands.inspect.views import RowSet
from icectl.format.manifest import FileFormat, kind_of
from icectl.units import print_duration, print_size

_CHUNK = 5_000
"""Rows that share one set of column widths; headings are repeated after as many."""


@dataclass(frozen=True, slots=True)
class TextColumn:
    """One column of a text table, and the row members that it is made of."""

    heading: str
    members: tuple[str, ...]
    show: Callable[..., str]
    align: Literal["left", "right"] = "left"
    cut: Literal["middle", "end"] | None = None
    is_spare: bool = False


def text_members(view: str) -> tuple[str, ...]:
    """Return the columns of the rows that the text form of a view shows."""
    return tuple(dict.fromkeys(member for text in TEXT_VIEWS[view] for member in text.members))


def named_columns(view: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return columns by their names; headings of the text form stand for the column they show.

    A heading over several columns, but for a size, stays: `with_headings` shows it, and JSON has
    the columns themselves. A column's own name comes first.
    """
    members = text_members(view)
    headings: dict[str, str] = {}
    for column in TEXT_VIEWS[view]:
        if column.members[0] == "partition_path":
            continue
        plain_heading = column.heading.removesuffix(" (UTC)")
        is_one = len(column.members) == 1 and column.members[0] != "summary"
        shown = column.members[0] if is_one or column.heading == "size" else plain_heading
        headings |= dict.fromkeys((plain_heading, column.heading), shown)
    return tuple(name if name in members else headings.get(name, name) for name in names)


def _composed(view: str) -> Mapping[str, TextColumn]:
    """Return what stands under headings and is no column, but made of several or of parts."""
    composed = {}
    for column in TEXT_VIEWS[view]:
        is_named = any(f".{member}".endswith(f".{column.heading}") for member in column.members)
        is_several = len(column.members) > 1 and column.heading != "size" and not is_named
        if is_several or column.members == ("summary",):
            composed[column.heading] = column
    return composed


def headings_of(view: str) -> Mapping[str, tuple[str, ...]]:
    """Return what the text form of a view has above its columns, each with what is shown below."""
    return {column.heading.removesuffix(" (UTC)"): column.members for column in TEXT_VIEWS[view]}


def source_names(view: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of rows that named columns are made of."""
    composed = _composed(view)
    members = (composed[name].members if name in composed else (name,) for name in columns)
    return tuple(dict.fromkeys(chain.from_iterable(members)))


def with_headings(view: str, row_set: RowSet, columns: tuple[str, ...]) -> RowSet:
    """Return rows with named columns, of which headings over several have the text below them."""
    composed = _composed(view)
    if composed.keys().isdisjoint(columns):
        return row_set

    def value(row: Mapping[str, Any], name: str) -> object:
        column = composed.get(name)
        return row[name] if column is None else column.show(*map(row.get, column.members))

    return RowSet(columns, ({name: value(row, name) for name in columns} for row in row_set.rows))


def print_rows(console: Console, view: str, row_set: RowSet, base: str) -> None:
    """Print rows as text; locations below `base`, the table's, are printed from there on."""
    starts = beginnings(base)
    shortened = (
        {
            name: below(value, starts) if name in _LOCATIONS and value else value
            for name, value in row.items()
        }
        for row in row_set.rows
    )
    _print(console, TEXT_VIEWS[view], shortened, none=_NONE.get(view))


_NONE = {
    "deletes": "no equality deletes; the view `partitions` counts deleted positions",
    "statistics": "the table has no statistics; `icectl analyze` makes them",
    "erasures": "no snapshot is of `icectl erase`",
}
"""What it means that a view has no rows."""


def print_chosen(console: Console, row_set: RowSet) -> None:
    """Print the columns that the caller named, with their values as they are."""
    rows = iter(row_set.rows)
    first = list(islice(rows, 1))
    columns = []
    for name in row_set.columns:
        value = first[0].get(name) if first else None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        align: Literal["left", "right"] = "right" if is_number else "left"
        columns.append(TextColumn(name, (name,), plain, align, "middle"))
    _print(console, columns, chain(first, rows), whole=True)


def print_csv(console: Console, row_set: RowSet) -> None:
    """Write rows as CSV with one header."""
    names = row_set.columns
    console.write(csv_text(names, []))
    for chunk in _chunks(row_set.rows):
        console.write(csv_text(names, chunk).removeprefix(csv_text(names, [])))


def print_json_lines(console: Console, row_set: RowSet) -> None:
    """Write rows as one JSON object a line."""
    for row in row_set.rows:
        console.print(json_line({name: row.get(name) for name in row_set.columns}))


def plain(value: object) -> str:
    """Return a value as text: nested ones as JSON, null as nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, default=str)
    return str(value)


def _print(
    console: Console,
    columns: Sequence[TextColumn],
    rows: Iterable[Mapping[str, Any]],
    *,
    whole: bool = False,
    none: str | None = None,
) -> None:
    """Print rows in chunks; unless `whole`, columns empty in a chunk are left out."""
    number = -1
    for number, chunk in enumerate(_chunks(rows)):
        if number > 0:
            console.print()
        cells = [
            [column.show(*map(row.get, column.members)) for row in chunk] for column in columns
        ]
        present = [at for at, values in enumerate(cells) if whole or any(values)]
        headings = [
            TableColumn(column.heading, column.align, column.cut, column.is_spare)
            for column in (columns[at] for at in present)
        ]
        lines = list(zip(*(cells[at] for at in present), strict=True))
        shown = with_room(headings, lines, console.width)
        chosen = [[line[at] for at in shown] for line in lines]
        print_table(console, [headings[at] for at in shown], chosen)
    if number < 0:
        console.note(f"nothing to show: {none or 'there are no rows'}")


def _chunks(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    remaining = iter(rows)
    while chunk := list(islice(remaining, _CHUNK)):
        yield chunk


_LOCATIONS = frozenset({"file_path", "data_file.file_path"})


def _or(absent: str, show: Callable[..., str]) -> Callable[..., str]:
    """Return what shows a value, and a null as a text."""
    return lambda value: absent if value is None else show(value)


_thousands = "{:,}".format
_count, _size = _or("?", _thousands), _or("?", print_size)

_moment = _or("", lambda value: f"{value[:10]} {value[11:19]}" if value[10:11] == "T" else value)
"""Shows an instant to the second, under a heading that says UTC; one in no year as it is."""
_name = _or("", lambda location: location.rpartition("/")[2])
_age = _or("default", print_duration)


def _some(value: int | None) -> str:
    return f"{value:,}" if value else ""


def _some_size(value: int | None) -> str:
    return print_size(value) if value else ""


def _names(value: Sequence[str | None] | None) -> str:
    return ", ".join(name or "?" for name in value or ())


def _mark(value: object) -> str:
    return "yes" if value else ""


def _changed(added: str, removed: str) -> Callable[..., str]:
    """Return what shows how much a snapshot added and removed, by its own summary."""

    def show(summary: Mapping[str, str] | None) -> str:
        counts = {"+": (summary or {}).get(added, "0"), "-": (summary or {}).get(removed, "0")}
        return " ".join(f"{sign}{count}" for sign, count in counts.items() if count != "0")

    return show


_KINDS: Mapping[str, str] = {
    "data": "data", "position-deletes": "positions", "equality-deletes": "equality",
    "deletion-vector": "vector",
}  # fmt: skip


def _kind(content: int, file_format: str) -> str:
    return _KINDS[kind_of(content, FileFormat[file_format])]


def _files(data: int | None, deletes: int | None) -> str:
    """Return the number of data and of delete files, one of which is zero."""
    return "?" if data is None or deletes is None else f"{data + deletes:,}"


def _ranges(summaries: Sequence[Mapping[str, Any]]) -> str:
    shown = []
    for summary in summaries:
        lower, upper = summary["lower_bound"], summary["upper_bound"]
        shown.append(f"{lower}..{upper}" if lower != upper else "null" if lower is None else lower)
    return ", ".join(shown)


def _column(
    heading: str,
    members: str,
    show: Callable[..., str] = plain,
    align: Literal["left", "right"] = "left",
    cut: Literal["middle", "end"] | None = None,
) -> TextColumn:
    return TextColumn(heading, tuple(members.split()), show, align, cut)


def _number(
    heading: str, member: str, show: Callable[..., str] = _count, *, is_spare: bool = False
) -> TextColumn:
    return TextColumn(heading, (member,), show, align="right", is_spare=is_spare)


TEXT_VIEWS: Mapping[str, tuple[TextColumn, ...]] = {
    "snapshots": (
        _column("snapshot", "snapshot_id"),
        _column("committed (UTC)", "committed_at", _moment),
        _column("operation", "operation"),
        _column("files", "summary", _changed("added-data-files", "deleted-data-files"), "right"),
        _column("rows", "summary", _changed("added-records", "deleted-records"), "right"),
        _column(
            "deletes", "summary", _changed("added-delete-files", "removed-delete-files"), "right"
        ),
        _column("refs", "refs", _names, cut="end"),
    ),
    "history": (
        _column("made current (UTC)", "made_current_at", _moment),
        _column("snapshot", "snapshot_id"),
        _column("parent", "parent_id"),
        _column("ancestor", "is_current_ancestor"),
    ),
    "erasures": (
        _column("committed (UTC)", "committed_at", _moment),
        _column("erasure", "erasure"),
        _column("snapshot", "snapshot_id"),
        _column("columns", "columns", _names, cut="end"),
        _number("rows", "erased_rows", _or("-", _thousands)),
    ),
    "refs": (
        _column("name", "name", cut="end"),
        _column("type", "type", str.lower),
        _column("snapshot", "snapshot_id"),
        _column("ref age", "max_reference_age_in_ms", _age, "right"),
        _number("keep", "min_snapshots_to_keep", _or("default", _thousands)),
        _column("snapshot age", "max_snapshot_age_in_ms", _age, "right"),
    ),
    "manifests": (
        _column("content", "content", lambda content: "deletes" if content else "data"),
        _number("spec", "partition_spec_id"),
        _column("added", "added_data_files_count added_delete_files_count", _files, "right"),
        _column(
            "existing", "existing_data_files_count existing_delete_files_count", _files, "right"
        ),
        _column("deleted", "deleted_data_files_count deleted_delete_files_count", _files, "right"),
        _number("dead", "dead_files_count", _some),
        _number("size", "length", _size),
        _column("partitions", "partition_summaries", _ranges, cut="end"),
        _column("manifest", "path", _name, cut="middle"),
    ),
    "files": (
        _column("content", "content file_format", _kind),
        _column("partition", "partition_path", cut="middle"),
        _number("records", "record_count"),
        _column(
            "size",
            "file_size_in_bytes content_size_in_bytes",
            lambda file, blob: print_size(file if blob is None else blob),
            "right",
        ),
        _column("file", "file_path", cut="middle"),
    ),
    "entries": (
        _column("status", "status", ("existing", "added", "deleted").__getitem__),
        _column("snapshot", "snapshot_id"),
        _number("seq", "sequence_number"),
        _column("content", "data_file.content data_file.file_format", _kind),
        _number("records", "data_file.record_count"),
        _column("file", "data_file.file_path", cut="middle"),
    ),
    "deletes": (
        _column("partition", "partition_path", cut="middle"),
        _number("data files", "data_file_count"),
        _number("compared keys", "key_count"),
        _number("compared rows", "row_count"),
    ),
    "partitions": (
        _column("partition", "partition_path", cut="middle"),
        _number("spec", "spec_id"),
        _number("files", "file_count"),
        _number("records", "record_count"),
        _number("size", "total_data_file_size_in_bytes", _size),
        _number("positions", "position_delete_record_count", _some),
        _number("equality", "equality_delete_record_count", _some),
        _column("updated (UTC)", "last_updated_at", _moment),
    ),
    "changes": (
        _column("change", "change"),
        _column("content", "kind", _KINDS.__getitem__),
        _column("partition", "partition_path", cut="middle"),
        _number("records", "record_count"),
        _number("size", "file_size_in_bytes", _size),
        _column("file", "file_path", cut="middle"),
    ),
    "schemas": (
        _number("schema", "schema_id"),
        _column("current", "is_current", _mark),
        _number("id", "field_id"),
        _column("name", "name", cut="end"),
        _column("type", "type", cut="end"),
        _column("required", "required", _mark),
        _column("key", "is_identifier", _mark),
        _column(
            "default",
            "initial_default write_default",
            lambda initial, write: plain(write if initial is None else initial),
            cut="end",
        ),
        _column("doc", "doc", cut="end"),
    ),
    "specs": (
        _number("spec", "spec_id"),
        _column("default", "is_default", _mark),
        _column("field", "field_id", plain, "right"),
        _column("name", "name", cut="end"),
        _column("transform", "transform"),
        _column("source", "source_names", _names, cut="end"),
    ),
    "sort-orders": (
        _number("order", "order_id"),
        _column("default", "is_default", _mark),
        _column("transform", "transform"),
        _column("source", "source_names", _names, cut="end"),
        _column("direction", "direction"),
        _column("nulls", "null_order"),
    ),
    "properties": (_column("property", "key"), _column("value", "value", cut="end")),
    "metadata-log": (
        _column("written (UTC)", "timestamp", _moment),
        _column("snapshot", "latest_snapshot_id"),
        _number("schema", "latest_schema_id", plain),
        _number("seq", "latest_sequence_number", plain),
        _column("file", "file", _name, cut="end"),
    ),
    "warehouse": (
        _column("table", "table", cut="middle"),
        _column("health", "verdict", lambda verdict: verdict or "not read"),
        _number("files", "data_file_count", _some, is_spare=True),
        _number("size", "data_file_bytes", _some_size, is_spare=True),
        _number("deleted", "deleted_ratio", lambda r: f"{r:.0%}" if r else "", is_spare=True),
        _number("to merge", "surplus_file_count", _some),
        _number("to expire", "expirable_snapshot_count", _some),
        _number("to free", "reclaimable_bytes", _some_size),
    ),
    "tables": (
        _column("table", "table", cut="middle"),
        _number("version", "format_version", plain, is_spare=True),
        _column("updated (UTC)", "last_updated", _moment),
        _number("snapshots", "snapshot_count", _some, is_spare=True),
        _number("files", "file_count", plain, is_spare=True),
        _number("size", "file_bytes", _size),
    ),
    "statistics": (
        _column("snapshot", "snapshot_id"),
        _column("kind", "kind"),
        _number("size", "file_size_in_bytes", _size),
        _column(
            "blobs",
            "blobs",
            lambda blobs: ", ".join(dict.fromkeys(str(b["type"]) for b in blobs)),
            cut="end",
        ),
        _column("file", "statistics_path", _name, cut="middle"),
    ),
}
