"""The changes view as text."""

from collections.abc import Mapping
from typing import Any

from icectl.cli.console import Console
from icectl.cli.tables import print_pairs
from icectl.commands.inspect.rows_report import print_rows
from icectl.commands.inspect.views import RowSet
from icectl.units import print_count, print_size


def print_changes(console: Console, result: Mapping[str, Any], base: str) -> None:
    """Print what lies between two snapshots, and the files."""
    print_pairs(
        console,
        [
            ("from", _snapshot_text(result["from_snapshot_id"], result["from_committed_at"])),
            ("to", _snapshot_text(result["to_snapshot_id"], result["to_committed_at"])),
            ("added", _changed(result, "added")),
            ("removed", _changed(result, "removed")),
            *_live_rows(result["row_changes"]),
        ],
    )
    if not result["from_is_ancestor"]:
        console.print("the first is not an ancestor of the second")
    if result["files"]:
        console.print()
        print_rows(console, "changes", RowSet((), result["files"]), base)
    if result["files_left_out"]:
        console.print(f"and {result['files_left_out']:,} files more")


def _live_rows(counted: Mapping[str, int] | None) -> list[tuple[str, str]]:
    """Tell how many rows a reader sees more and less, where roots of version 4 tell."""
    if counted is None:
        return []
    return [("live rows", f"{counted['added_rows']:,} more, {counted['removed_rows']:,} less")]


def _changed(result: Mapping[str, Any], change: str) -> str:
    files = print_count(result[f"{change}_files"], "data file")
    size = print_size(result[f"{change}_bytes"])
    text = f"{files}, {result[f'{change}_rows']:,} rows, {size}"
    delete_files = result[f"{change}_delete_files"]
    return f"{text}; {print_count(delete_files, 'delete file')}" if delete_files else text


def _snapshot_text(snapshot_id: str | None, committed_at: str | None) -> str:
    return "before the first snapshot" if snapshot_id is None else f"{snapshot_id}  {committed_at}"
