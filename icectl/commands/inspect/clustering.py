"""The clustering view, read and as text."""

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any

from icectl.cli.console import Console
from icectl.cli.document import id_text
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.inspect.clustering_plan import clustering as clustering_view
from icectl.commands.inspect.clustering_plan import keys_of, read_clustering
from icectl.commands.inspect.views import Row
from icectl.entries.clustering import CLUSTERING_SOURCES
from icectl.table.reader import Reader, SnapshotChoice, chosen_snapshot
from icectl.units import print_count

SHOWN_PARTITIONS = 10
_BAR, _MOST_DETAILED = 24, 3
_BOUNDS_AT_ONCE = 8_000_000
"""Files times columns whose bounds are in memory together."""


def clustering(
    reader: Reader, choice: SnapshotChoice, columns: Sequence[str] | None, limit: int | None
) -> Row:
    """Return how the live files are clustered by some columns.

    Raises: UsageError; what reading manifests raises.
    Cost: the bounds of all live files in memory, of some columns at a time: manifests are read
    again for others.
    """
    keys, order = keys_of(reader.metadata, columns)
    snapshot = chosen_snapshot(reader.metadata, choice)
    manifests = reader.manifests(snapshot)
    file_count = sum(manifest.live_files or 0 for manifest in manifests)
    at_once = max(_BOUNDS_AT_ONCE // max(file_count, 1), 1)
    row: dict[str, Any] = {"snapshot_id": id_text(snapshot.snapshot_id) if snapshot else None}
    found_columns: list[Row] = []
    for start in range(0, max(len(keys), 1), at_once):
        batches = reader.scan(manifests, CLUSTERING_SOURCES)
        read = read_clustering(batches, keys[start : start + at_once], order)
        row |= clustering_view(read, reader.metadata, limit)
        found_columns += row["columns"]
    return {**row, "columns": found_columns}


def print_clustering(console: Console, row: Row) -> None:
    """Print depths by column, then files by depth and the worst partitions of a few columns."""
    files = print_count(row["data_file_count"], "data file")
    partitions = print_count(row["partition_count"], "partition")
    console.print(f"{files} in {partitions}; sort order: {row['sort_order'] or 'none'}")
    if row["deleted_record_count"] or row["equality_delete_file_count"]:
        deleted = print_count(row["deleted_record_count"], "deleted row")
        keys = print_count(row["equality_delete_file_count"], "equality delete file")
        console.print(f"depths count rows before deletes: {deleted}, {keys}")
    known = [column for column in row["columns"] if column["average_depth"] is not None]
    shown = [column for column in row["columns"] if column in known or column["note"]]
    if not row["data_file_count"]:
        return
    console.print()
    if not shown:
        console.print("no data file has bounds of these columns")
        return
    headings = [
        TableColumn("column", cut="end"),
        *(TableColumn(name, align="right") for name in ("depth", "most")),
        *(TableColumn(name, align="right") for name in ("in partition", "most there")),
        *(TableColumn(name, align="right") for name in ("look-up opens", "1% opens", "unknown")),
    ]
    lines = [_line(column) for column in shown]
    own_of_partitions = (3, 4)  # the same as those of the table where there is one partition
    places = [
        at
        for at in range(len(headings))
        if row["partition_count"] > 1 or at not in own_of_partitions
    ]
    print_table(
        console, [headings[at] for at in places], [[line[at] for at in places] for line in lines]
    )
    for column in shown:
        for remark in remarks(column):
            for text in wrap(f"{column['column']}: {remark}", console.prose_width):
                console.print(text)
    for column in known if len(known) <= _MOST_DETAILED else ():
        _print_details(console, column, row["partition_count"])
    if len(known) > _MOST_DETAILED:
        console.print()
        console.print("`--columns NAME` shows files by depth, and the worst partitions")


def _line(column: Mapping[str, Any]) -> list[str]:
    if column["average_depth"] is None:
        return [column["column"], *["?"] * 6, f"{column['unknown_file_count']:,}"]
    return [
        column["column"],
        depth_text(column["average_depth"]),
        f"{column['max_depth']:,}",
        depth_text(column["average_depth_in_partitions"]),
        f"{column['max_depth_in_partitions']:,}",
        *(
            f"{column[f'{kind}_file_count']:,.1f} ({column[f'{kind}_file_ratio']:.1%})"
            for kind in ("point_lookup", "range")
        ),
        f"{column['unknown_file_count']:,}" if column["unknown_file_count"] else "",
    ]


def remarks(column: Mapping[str, Any]) -> list[str]:
    """Return what bounds do not show of a column, or what their depths leave out."""
    unknown, empty = column["unknown_file_count"], column["file_without_values_count"]
    found = []
    if unknown and column["average_depth"] is not None:
        found.append(f"each look-up opens {print_count(unknown, 'file')} without bounds")
    if empty:
        found.append(f"no look-up opens {print_count(empty, 'file')} of nulls or NaN alone")
    return found + ([column["note"]] if column["note"] else [])


def depth_text(depth: float) -> str:
    """Return a depth with two decimals, or none if it is large."""
    return f"{depth:,.2f}" if depth < 1_000 else f"{depth:,.0f}"


def depth_bars(depths: Iterable[Mapping[str, Any]]) -> list[tuple[str, int, int]]:
    """Return the bands that have files, and those between them: name, files and rows."""
    bands = list(depths)
    used = [at for at, band in enumerate(bands) if band["file_count"]]
    chosen = bands[used[0] : used[-1] + 1] if used else []
    return [
        (
            f"below {band['below_depth']}" if at == 0 and used[0] == 0
            else f"{band['from_depth']} and more" if band["below_depth"] is None
            else f"{band['from_depth']} to {band['below_depth']}",
            band["file_count"],
            band["record_count"],
        )
        for at, band in enumerate(chosen)
    ]  # fmt: skip


def _print_details(console: Console, column: Mapping[str, Any], partition_count: int) -> None:
    bars = depth_bars(column["depths"])
    most = max(count for _, count, _ in bars)
    console.print()
    counts = [TableColumn(name, align="right") for name in ("files", "rows")]
    print_table(
        console,
        [TableColumn(f"depth by {column['column']}"), *counts, TableColumn("")],
        [
            (name, f"{files:,}", f"{rows:,}", "#" * -(-files * _BAR // most))
            for name, files, rows in bars
        ],
    )
    if partition_count < 2:
        return
    console.print()
    headings = [
        TableColumn("worst partitions", cut="middle"),
        *(TableColumn(name, align="right") for name in ("files", "depth", "most")),
    ]
    print_table(
        console,
        headings,
        [
            (
                partition["partition_path"] or "(none)",
                f"{partition['file_count']:,}",
                "?" if partition["average_depth"] is None
                else depth_text(partition["average_depth"]),
                "?" if partition["max_depth"] is None else f"{partition['max_depth']:,}",
            )
            for partition in column["partitions"]
        ],
    )  # fmt: skip
    more = partition_count - len(column["partitions"])
    if more:
        console.print(f"and {print_count(more, 'partition')} more: `--limit`")
