"""The health view of a table: what all steps would do is asked, and shown."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from icectl.cli.console import Console, Style
from icectl.cli.failures import with_table
from icectl.cli.naming import changed_in_hints
from icectl.cli.settings import HEALTH_LIMITS, Settings
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.bill import bill_lines
from icectl.commands.inspect.health_plan import (
    HealthLimits,
    HealthSource,
    MeasureLimits,
    every_check,
)
from icectl.commands.inspect.health_plan import health as health_view
from icectl.commands.inspect.views import Row
from icectl.commands.rates import prices_of, rates_of
from icectl.commands.sight import Sight
from icectl.commands.steps import judge_all
from icectl.format.properties import TARGET_FILE_SIZE_BYTES, read_or_default
from icectl.storage.location import is_local
from icectl.table.context import TableContext
from icectl.table.reader import Reader, SnapshotChoice, chosen_snapshot
from icectl.units import print_count, print_size


@dataclass(frozen=True, slots=True)
class Health:
    """A table's health; `notes` are for people, by command."""

    row: Row
    notes: Mapping[str, str]


def limits_of(settings: Settings) -> HealthLimits:
    """Return the limits of every measure, by name."""
    return {
        setting.key.rpartition(".")[2]: MeasureLimits(*settings.read(setting))
        for setting in HEALTH_LIMITS
    }


def health(
    reader: Reader,
    choice: SnapshotChoice,
    settings: Settings,
    table: str,
    other: Callable[[str], TableContext],
) -> Health:
    """Judge the chosen snapshot and the table's metadata by what each command would do.

    Hints call the table `table`; `other` connects to another table.
    Raises: UsageError for a snapshot that is not there; what reading manifests raises.
    Cost: the manifests of all snapshots, where some are past retention.
    """
    metadata = reader.metadata
    sight = Sight(reader, settings, chosen_snapshot(metadata, choice), other=other)
    limits = limits_of(settings)
    attention = {name: limit.attention for name, limit in limits.items()}
    files = sight.files.data  # what cannot be read ends the look
    judged = judge_all(sight, lambda step: step.with_limits(step.request_of_health, attention))
    compact = judged["compact"].figures
    usual_bytes = read_or_default(metadata.properties, TARGET_FILE_SIZE_BYTES)
    row = health_view(
        HealthSource(
            snapshot=sight.snapshot,
            data=files,
            totals=sight.totals,
            judged=judged,
            limits=limits,
            target_bytes=compact.target_bytes or usual_bytes,
            is_target_set=TARGET_FILE_SIZE_BYTES.name in metadata.properties,
            engine=compact.engine.name,
            rates=rates_of(settings, is_local=is_local(metadata.location)),
            prices=prices_of(settings),
            is_whole=sight.is_whole,
        )
    )
    for _, check in every_check():
        shown = row[check.name]
        shown["hint"] = shown["hint"] and with_table(shown["hint"], table)
    return Health(row, {command: judgement.note for command, judgement in judged.items()})


_STYLES: Mapping[str, Style] = {
    "ok": "green", "unknown": "yellow", "attention": "yellow", "critical": "red"
}  # fmt: skip
_BAR = 24
_LEFT_OF_BAR = 42


def print_health(console: Console, health: Health, table: str, options: str) -> None:
    """Print the sizes of data files, then each check with its threshold and the command to run.

    `options` are those that commands need to reach the table.
    """
    result = health.row
    files = print_count(result["data_file_count"], "data file")
    size, target = (print_size(result[f"{key}_bytes"]) for key in ("data_file", "target_file_size"))
    text = f"{files}, {size}; target {target} ({result['target_file_size_origin']})"
    for line in wrap(text, console.prose_width):
        console.print(line)
    if result["data_file_count"]:
        console.print()
        _print_sizes(console, result)
    bills = {bill["command"]: bill for bill in result["bills"]}
    for step, check in every_check():
        console.print()
        row = result[check.name]
        _print_check(console, check.title, row, table, options)
        if row["command"] is not None and health.notes[step.command]:
            console.print(f"  {health.notes[step.command]}")
        if row["command"] in bills:  # once, where the step is named first
            for line in bill_lines(bills.pop(row["command"]), console.prose_width - 2):
                console.print(f"  {line}")


def _print_sizes(console: Console, result: Mapping[str, Any]) -> None:
    bar = _BAR if console.width is None else max(min(_BAR, console.width - _LEFT_OF_BAR), 4)
    most = max(size_bar["file_count"] for size_bar in result["file_sizes"])
    rows = [
        (
            band(size_bar["from_bytes"], size_bar["below_bytes"]),
            f"{size_bar['file_count']:,}",
            print_size(size_bar["bytes"]),
            "#" * -(-size_bar["file_count"] * bar // most),
        )
        for size_bar in result["file_sizes"]
    ]
    counts = [TableColumn("files", align="right"), TableColumn("bytes", align="right")]
    print_table(console, [TableColumn("size of data file"), *counts, TableColumn("")], rows)


def band(low: int, high: int | None) -> str:
    """Return the name of a band of sizes; `high` None where it has no end."""
    if high is None:
        return f"{print_size(low)} and more"
    return f"below {print_size(high)}" if low == 0 else f"{print_size(low)} to {print_size(high)}"


def _print_check(
    console: Console, title: str, check: Mapping[str, Any], table: str, options: str
) -> None:
    verdict = console.style(check["verdict"], "bold", _STYLES[check["verdict"]])
    console.print(f"{console.style(title, 'bold')}: {verdict}")
    for line in wrap(check["found"], console.prose_width - 2):
        console.print(f"  {line}")
    for name in ("withheld", "hint"):
        for line in wrap(f"{name}: {check[name]}" if check[name] else "", console.prose_width - 2):
            console.print(f"  {line}")
    if check["command"] is None:
        return
    for line in wrap(check["threshold"], console.prose_width - 2):
        console.print(console.style(f"  {line}", "dim"))
    words = changed_in_hints(table)
    named = "TABLE" if words[0].endswith(".json") else shlex.join(words)
    own = "".join(f" {option}" for option in check["options"])
    console.print(f"  run: icectl {check['command']} {named}{own}{options}")
