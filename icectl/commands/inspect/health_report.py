"""The health view as text."""

import shlex
from collections.abc import Mapping
from textwrap import wrap
from typing import Any

from icectl.cli.console import Console, Style
from icectl.cli.tables import TableColumn, print_table
from icectl.rows.choice import EngineChoice
from icectl.units import print_count, print_size

CHECKS: Mapping[str, str] = {
    "small_files": "small files",
    "delete_debt": "deletes",
    "manifest_debt": "manifests",
    "snapshot_debt": "snapshots",
    "metadata_file_debt": "metadata files",
    "reclaimable": "reclaimable",
}
_STYLES: Mapping[str, Style] = {
    "ok": "green",
    "unknown": "yellow",
    "attention": "yellow",
    "critical": "red",
}
_BAR = 24
_LEFT_OF_BAR = 42


def print_health(
    console: Console, result: Mapping[str, Any], table: str, engine: EngineChoice
) -> None:
    """Print the sizes of data files, then each check with its threshold and the command to run."""
    target = print_size(result["target_file_size_bytes"])
    text = (
        f"{print_count(result['data_file_count'], 'data file')}, "
        f"{print_size(result['data_file_bytes'])}; "
        f"target {target} ({result['target_file_size_origin']})"
    )
    for line in wrap(text, console.prose_width):
        console.print(line)
    if result["data_file_count"]:
        console.print()
        _print_sizes(console, result)
    for name, title in CHECKS.items():
        console.print()
        _print_check(console, title, result[name], table)
        if result[name]["command"] == "compact":
            console.print(f"  {engine}")


def _print_sizes(console: Console, result: Mapping[str, Any]) -> None:
    bar = _BAR if console.width is None else max(min(_BAR, console.width - _LEFT_OF_BAR), 4)
    most = max(one["file_count"] for one in result["file_sizes"])
    rows = [
        (
            band(one["from_bytes"], one["below_bytes"]),
            f"{one['file_count']:,}",
            print_size(one["bytes"]),
            "#" * -(-one["file_count"] * bar // most),
        )
        for one in result["file_sizes"]
    ]
    columns = [
        TableColumn("size of data file"),
        TableColumn("files", align="right"),
        TableColumn("bytes", align="right"),
        TableColumn(""),
    ]
    print_table(console, columns, rows)


def band(low: int, high: int | None) -> str:
    """Return the name of a band of sizes; `high` None where it has no end."""
    if high is None:
        return f"{print_size(low)} and more"
    return f"below {print_size(high)}" if low == 0 else f"{print_size(low)} to {print_size(high)}"


def _print_check(console: Console, title: str, check: Mapping[str, Any], table: str) -> None:
    verdict = console.style(check["verdict"], "bold", _STYLES[check["verdict"]])
    console.print(f"{console.style(title, 'bold')}: {verdict}")
    for line in wrap(check["found"], console.prose_width - 2):
        console.print(f"  {line}")
    if check["command"] is None:
        return
    for line in wrap(check["threshold"], console.prose_width - 2):
        console.print(console.style(f"  {line}", "dim"))
    if check["command_in_this_version"]:
        named = "TABLE" if table.endswith(".json") else shlex.quote(table)
        console.print(f"  run: icectl {check['command']} {named}")
    else:
        console.print(f"  to do: `{check['command']}`, which this version of icectl does not have")
