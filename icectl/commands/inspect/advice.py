"""The advice view: which layout would make the reads of a table open less, and what that costs."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np

from icectl.cli.console import Console
from icectl.cli.document import id_text
from icectl.cli.settings import Settings
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.bill import (
    GETS_OF_DATA_FILE,
    GETS_OF_RUN,
    PUTS_OF_RUN,
    Work,
    bill,
    bill_row,
    bill_text,
    gets_in_ranges,
    gets_of,
    puts_of,
)
from icectl.commands.inspect.advice_plan import Advice, RowGroups, Simulation, simulate
from icectl.commands.inspect.clustering_plan import ColumnBounds, keys_of, read_clustering
from icectl.commands.inspect.views import Row
from icectl.commands.query_logs import EQUALITY, Filter, Reads, read_query_logs
from icectl.commands.rates import prices_of, rates_of
from icectl.entries.clustering import CLUSTERING_SOURCES, ClusteringKey
from icectl.entries.rows import Entries, data_files, live, numbers, take
from icectl.errors import CorruptTable, StorageError, Unsupported
from icectl.files.data_file import open_data_file
from icectl.format.manifest import FileFormat
from icectl.format.metadata import TableMetadata
from icectl.format.properties import (
    PARQUET_ROW_GROUP_SIZE_BYTES,
    TARGET_FILE_SIZE_BYTES,
    bloom_filters,
    read_or_default,
)
from icectl.format.schema import Schema
from icectl.format.transforms import Transform
from icectl.format.types import is_comparable
from icectl.rows.sort_rows import quoted_name
from icectl.storage.location import is_local
from icectl.table.reader import Reader, SnapshotChoice, chosen_snapshot
from icectl.units import print_count, print_size

_LEAST_SAVED = 0.1
"""A layout is advice if its reads cost so much less."""

_ORDERED = ("sort", "hilbert", "partition")
_MOST_SHOWN = 5
_MOST_NAMED = 20
_LONGEST_PAYBACK_DAYS = 30
_COUNT = re.compile("[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class AdviceRequest:
    """What advice is built on: logs of reads, or columns that are looked up equally often.

    `names` are those that logs call the table by; `table` is what commands call it.
    """

    logs: Sequence[str]
    columns: Sequence[str] | None
    names: Sequence[str]
    table: str
    hint_options: str
    settings: Settings


def advice(reader: Reader, choice: SnapshotChoice, request: AdviceRequest) -> Row:
    """Return what reads cost, and the layouts in which they cost less.

    Raises: UsageError; what reading manifests raises.
    Cost: the bounds of all live files for the columns of filters, and a sample of rows.
    """
    metadata = reader.metadata
    reads = read_query_logs(request.logs, request.names)
    if request.columns is not None:
        keys_of(metadata, request.columns)
    for name in request.columns or ():
        reads.filters[frozenset({(name, EQUALITY)})] += 1
    filters, unknown = _resolved(reads.filters, metadata.current_schema)
    snapshot = chosen_snapshot(metadata, choice)
    keys = _keys(filters, metadata.current_schema)
    first: list[str] = []
    batches = reader.scan(reader.manifests(snapshot), CLUSTERING_SOURCES | {"location"})
    found = read_clustering(_noting_a_file(batches, first), keys, None)
    target = read_or_default(metadata.properties, TARGET_FILE_SIZE_BYTES)
    result = None
    if filters and len(found.sizes):
        result = simulate(
            found,
            filters,
            _distinct_counts(metadata),
            target,
            _partition_terms(metadata),
            bloom_filters(metadata.properties),
            _row_groups(reader, first),
        )
    left_out = sorted({*unknown, *(result.left_out if result else ())})
    facts: dict[str, Any] = {
        "snapshot_id": id_text(snapshot.snapshot_id) if snapshot else None,
        "data_file_count": len(found.sizes),
        "data_file_bytes": int(found.sizes.sum()),
        "target_file_size_bytes": target,
        **_log_facts(reads),
        "unknown_columns": left_out,
    }
    per_day = facts["reads_per_day"]
    return {**facts, **_result(result, found, reader, request, per_day)}


def _noting_a_file(batches: Iterable[Entries], first: list[str]) -> Iterator[Entries]:
    """Yield batches; `first` gets the location of the first live data file in Parquet."""
    for batch in batches:
        if not first:
            data = data_files(live(batch))
            rows = np.flatnonzero(numbers(data, "file_format") == FileFormat.PARQUET)
            first += take(data, rows[:1]).table["location"].to_pylist()
        yield batch


def _row_groups(reader: Reader, locations: Sequence[str]) -> RowGroups | None:
    """Return the row groups that new files get, by the rows of a data file; None if not known."""
    size_bytes = read_or_default(reader.metadata.properties, PARQUET_ROW_GROUP_SIZE_BYTES)
    for location in locations:
        try:
            with reader.context.store.open(location) as file:
                for found in open_data_file(file, FileFormat.PARQUET.name).batches(None):
                    row_count, row_bytes = found.batch.num_rows, max(found.batch.nbytes, 1)
                    if row_count:  # nulls of no type take no bytes
                        return RowGroups(size_bytes, row_bytes / row_count)
        except (CorruptTable, Unsupported, StorageError, OSError):  # `validate` tells more
            continue
    return None


def _resolved(
    filters: Mapping[Filter, int], schema: Schema
) -> tuple[Mapping[Filter, int], set[str]]:
    """Return filters by the names of the schema, and columns that it does not have."""
    by_lower = {
        name.lower(): name for name in map(schema.name_of, schema.all_fields) if name is not None
    }
    known: Counter[Filter] = Counter()
    unknown: set[str] = set()
    for used, count in filters.items():
        conditions = set()
        for name, kind in used:
            if schema.field_named(name) is not None:
                conditions.add((name, kind))
            elif name.lower() in by_lower:
                conditions.add((by_lower[name.lower()], kind))
            else:
                unknown.add(name)
        known[frozenset(conditions)] += count
    return known, unknown


def _keys(filters: Mapping[Filter, int], schema: Schema) -> list[ClusteringKey]:
    identity = Transform("identity", "identity")
    keys = []
    for name in sorted({name for used in filters for name, _ in used}):
        item = schema.field_named(name)
        if item is not None and schema.line_to(item.id) and is_comparable(item.type):
            keys.append(ClusteringKey(name, item.id, item.type, identity))
    return keys


def _distinct_counts(metadata: TableMetadata) -> Mapping[int, int]:
    """Return the distinct values of columns by id, as the newest statistics have them."""
    sequence = {one.snapshot_id: one.sequence_number for one in metadata.snapshots}
    counts: dict[int, int] = {}
    for file in sorted(metadata.statistics, key=lambda file: sequence.get(file.snapshot_id) or 0):
        for blob in file.blob_metadata:
            fields, properties = blob.get("fields"), blob.get("properties")
            text = properties.get("ndv") if isinstance(properties, Mapping) else None
            column = fields[0] if isinstance(fields, list | tuple) and len(fields) == 1 else None
            if isinstance(column, int) and isinstance(text, str) and _COUNT.fullmatch(text):
                counts[column] = int(text)
    return counts


def _partition_terms(metadata: TableMetadata) -> set[str]:
    """Return the terms of the default spec, as candidates are called."""
    schema = metadata.current_schema
    return {
        f"{item.transform.text}({schema.name_of(item.source_ids[0])})"
        for item in metadata.default_spec.fields
    }


def _log_facts(reads: Reads) -> dict[str, Any]:
    return {
        "read_count": reads.count,
        "first_read_ms": reads.first_ms,
        "last_read_ms": reads.last_ms,
        # Of less than a day no rate is told: it would be that of a busy hour.
        "reads_per_day": None if reads.days is None else reads.count / reads.days,
        "logged_files_per_read": reads.files / reads.files_known if reads.files_known else None,
        "other_read_count": reads.other_reads,
        "other_tables": [
            {"table": name, "read_count": count}
            for name, count in reads.other_tables.most_common(_MOST_SHOWN)
        ],
        "unreadable_line_count": reads.unreadable_lines,
        "other_line_count": reads.other_lines,
        "unreadable_files": reads.unreadable_files,
    }


def _result(
    result: Simulation | None,
    found: ColumnBounds,
    reader: Reader,
    request: AdviceRequest,
    reads_per_day: float | None,
) -> Row:
    if result is None:
        return {"files_per_read": None, "bytes_per_read": None, "filters": [], "advice": []}
    rates = rates_of(request.settings, is_local=is_local(reader.metadata.location))
    prices, size = prices_of(request.settings), int(found.sizes.sum())
    gets, now = gets_of(found.sizes.tolist()) + GETS_OF_RUN, result.now
    costs = [one.reading.cost_bytes for one in result.layouts if one.kind == "compact"]
    worth = (1 - _LEAST_SAVED) * min(costs, default=now.cost_bytes)
    rows = []
    for layout in result.layouts:
        saved = now.cost_bytes - layout.reading.cost_bytes
        if saved < _LEAST_SAVED * now.cost_bytes:
            continue
        if layout.kind in _ORDERED and layout.reading.cost_bytes > worth:
            continue  # files that are only compacted bring as much
        fewer = (now.files - layout.reading.files) * GETS_OF_DATA_FILE
        read_again = gets_in_ranges(size, layout.file_count)
        work = Work(
            decoded_bytes=size,
            other_bytes=size,
            written_bytes=size,
            get_requests=gets + read_again,
            put_requests=puts_of(size, layout.file_count) + PUTS_OF_RUN,
            fewer_requests=GETS_OF_DATA_FILE * max(len(found.sizes) - layout.file_count, 0),
            fewer_per_look_up=max(fewer, 0.0),
        )
        payback = 2 * size / saved
        first, command = _commands(layout, request)
        rows.append(
            {
                "kind": layout.kind,
                "terms": list(layout.terms),
                "size_bytes": layout.size_bytes,
                "data_file_count": layout.file_count,
                "files_per_read": layout.reading.files,
                "bytes_per_read": layout.reading.bytes,
                "saved_ratio": saved / now.cost_bytes,
                "payback_reads": payback,
                "payback_days": payback / reads_per_day if reads_per_day else None,
                "first": first,
                "command": command,
                "bill": {"command": "compact", **bill_row(bill(work, rates, prices))},
            }
        )
    return {
        "files_per_read": now.files,
        "bytes_per_read": now.bytes,
        "filters": [
            {
                "conditions": [{"column": name, "kind": kind} for name, kind in sorted(one.filter)],
                "share": one.share,
                "files_per_read": one.reading.files,
                "bytes_per_read": one.reading.bytes,
            }
            for one in result.filters
        ],
        "advice": rows,
    }


def _commands(layout: Advice, request: AdviceRequest) -> tuple[str | None, str]:
    """Return what another engine or command must do first, and the command that rewrites."""
    table = shlex.quote(request.table)
    names = list(map(quoted_name, layout.terms))
    keys, columns = shlex.quote(", ".join(names)), shlex.quote(",".join(names))
    own = {
        "compact": "",
        "sort": f" --strategy sort --sort-order {keys} --rewrite-all",
        "hilbert": f" --strategy hilbert --zorder {columns} --rewrite-all",
        "partition": " --rewrite-all",
        "bloom": " --rewrite-all",
    }
    own["file-size"] = own["row-group"] = own["sort" if layout.terms else "compact"]
    first = None
    if layout.kind in _SIZES:
        setting = f"{_SIZES[layout.kind].name}={layout.size_bytes}"
        first = f"icectl properties {table} set {setting}{request.hint_options}"
    if layout.kind == "partition":
        first = f"in Spark: ALTER TABLE {table} ADD PARTITION FIELD {_spark_term(layout.terms[0])}"
    elif layout.kind == "bloom":
        name = f"write.parquet.bloom-filter-enabled.column.{layout.terms[0]}"
        setting = shlex.quote(f"{name}=true")
        first = f"icectl properties {table} set {setting}{request.hint_options}"
    return first, f"icectl compact {table}{own[layout.kind]}{request.hint_options}"


_SIZES = {"file-size": TARGET_FILE_SIZE_BYTES, "row-group": PARQUET_ROW_GROUP_SIZE_BYTES}
"""The properties of sizes."""


def _spark_term(term: str) -> str:
    """Return a term of a partition spec as Spark writes it."""
    transform, _, column = term.removesuffix(")").partition("(")
    name, _, count = transform.removesuffix("]").partition("[")
    column = quoted_name(column)
    return f"{name}({count}, {column})" if count else f"{name}({column})"


def print_advice(console: Console, row: Row) -> None:
    """Print what was read, what reads cost by filter, and each advice with its command."""
    _print_logs(console, row)
    if not row["filters"]:
        return
    console.print()
    headings = [
        TableColumn("filter", cut="end"),
        *(TableColumn(name, align="right") for name in ("reads", "files opened", "bytes")),
    ]
    lines = [
        (
            ", ".join(
                f"{one['column']} {'=' if one['kind'] == EQUALITY else 'range'}"
                for one in shown["conditions"]
            )
            or "(none)",
            f"{shown['share']:.0%}",
            f"{shown['files_per_read']:,.1f}",
            print_size(round(shown["bytes_per_read"])),
        )
        for shown in row["filters"]
    ]
    print_table(console, headings, lines)
    console.print()
    if not row["advice"]:
        _say(console, f"no layout that was tried makes reads cost {_LEAST_SAVED:.0%} less")
        return
    for shown in row["advice"][:_MOST_SHOWN]:
        _print_one(console, row, shown)
    more = len(row["advice"]) - _MOST_SHOWN
    if more > 0:
        _say(console, f"{more} more in `--json`")


def _print_logs(console: Console, row: Row) -> None:
    files = print_count(row["data_file_count"], "data file")
    reads = print_count(row["read_count"], "read")
    _say(console, f"{reads} of the table; {files}, {print_size(row['data_file_bytes'])}")
    if row["logged_files_per_read"] is not None:
        _say(console, f"engines opened {row['logged_files_per_read']:,.1f} files a read")
    if row["other_read_count"]:
        names = ", ".join(f"{one['table']} ({one['read_count']:,})" for one in row["other_tables"])
        _say(console, f"{print_count(row['other_read_count'], 'read')} of other tables: {names}")
        if not row["read_count"]:
            _say(console, "`--queries-table NAME` says which of them is this table")
    skipped = row["unreadable_line_count"]
    if skipped:
        _say(console, f"{print_count(skipped, 'line')} skipped: not readable as JSON events")
    if row["other_line_count"]:
        _say(console, f"{print_count(row['other_line_count'], 'line')} skipped: of other kinds")
    for path in row["unreadable_files"]:
        _say(console, f"`{path}` was read only in part: its compression is damaged or truncated")
    if row["unknown_columns"]:
        names, more = row["unknown_columns"][:_MOST_NAMED], ""
        if len(row["unknown_columns"]) > _MOST_NAMED:
            more = f" and {len(row['unknown_columns']) - _MOST_NAMED:,} more"
        shown = ", ".join(names)
        _say(console, f"omitted, as the table or its bounds lack them: {shown}{more}")


_TITLES = {
    "compact": "compact small files", "sort": "sort by", "hilbert": "Hilbert order by",
    "partition": "partition by", "bloom": "Bloom filter for", "file-size": "files of",
    "row-group": "row groups of",
}  # fmt: skip


def _print_one(console: Console, row: Row, shown: Mapping[str, Any]) -> None:
    terms = ", ".join(shown["terms"])
    if shown["size_bytes"] is not None:
        in_memory = " in memory" if shown["kind"] == "row-group" else ""
        terms = f"{print_size(shown['size_bytes'])}{in_memory}{terms and f', sorted by {terms}'}"
    title = f"{_TITLES[shown['kind']]} {terms}".rstrip()
    files = f"{row['files_per_read']:,.1f} -> {shown['files_per_read']:,.1f} files"
    now, then = (print_size(round(one["bytes_per_read"])) for one in (row, shown))
    console.print(console.style(title, "bold"))
    _say(
        console, f"{files}, {now} -> {then} a read (cost {shown['saved_ratio']:.0%} less)", indent=2
    )
    paid = f"paid back after {print_count(max(round(shown['payback_reads']), 1), 'read')}"
    days = shown["payback_days"]
    if days is not None:
        paid += f", in {print_count(max(round(days), 1), 'day')}"
        if days > _LONGEST_PAYBACK_DAYS:
            paid += ": it hardly pays"
    _say(console, paid, indent=2)
    _say(console, bill_text(shown["bill"])[0], indent=2)
    if shown["first"]:
        console.print(f"  first: {shown['first']}")
    console.print(f"  run: {shown['command']}")


def _say(console: Console, text: str, indent: int = 0) -> None:
    for line in wrap(text, console.prose_width - indent):
        console.print(f"{' ' * indent}{line}")
