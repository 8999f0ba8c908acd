"""The health view: entries, properties, the metadata folder and retention are read, and shown."""

import shlex
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from icectl.cli.console import Console, Style
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.expire_snapshots.reach import read_reached
from icectl.commands.inspect.health_plan import (
    CHECKS,
    HEALTH_SOURCES,
    Expirable,
    HealthLimits,
    HealthSource,
    MetadataFiles,
    Targets,
)
from icectl.commands.inspect.health_plan import health as health_view
from icectl.commands.inspect.views import Row
from icectl.entries import files
from icectl.errors import CorruptTable, Refused, StorageError
from icectl.format import properties
from icectl.format.file_names import parse_metadata_file_name
from icectl.format.metadata import TableMetadata
from icectl.rows.choice import EngineChoice
from icectl.storage import location as locations
from icectl.storage.store import FileStatus
from icectl.table.reader import Reader, SnapshotChoice, chosen_snapshot
from icectl.table.retention import AskedRetention, Retention, decide
from icectl.units import print_count, print_size, read_count

_EXACT_SNAPSHOTS = 5_000
"""Snapshots whose manifests are read for exact reclaimable bytes; beyond, summaries must do."""


def health(
    reader: Reader,
    choice: SnapshotChoice,
    commands: frozenset[str],
    limits: HealthLimits | None = None,
) -> Row:
    """Judge the chosen snapshot and the table's metadata; `commands` may be advised.
    Measures are compared with `limits`.

    Raises: UsageError for a snapshot that is not there; Refused for a property that makes no
    sense; what reading manifests raises.
    Cost: the manifests of all snapshots, where some are past retention.
    """
    snapshot = chosen_snapshot(reader.metadata, choice)
    manifests = reader.manifests(snapshot)
    listed = reader.context.store.list_directory(reader.loaded.metadata_folder)
    entries = reader.load(manifests, HEALTH_SOURCES, to_match=True)
    has_gaps = reader.gaps is not None and bool(reader.gaps.problems or reader.gaps.odd)
    return health_view(
        HealthSource(
            metadata=reader.metadata,
            snapshot=snapshot,
            manifests=manifests,
            entries=entries,
            targets=targets_of(reader.metadata),
            expirable=_expirable(reader, listed),
            metadata_files=metadata_files_in(listed),
            commands=commands,
            limits=limits or HealthLimits(),
            is_whole=not has_gaps and not any(oddity.lost for oddity in reader.metadata.oddities),
        )
    )


def targets_of(metadata: TableMetadata) -> Targets:
    """Return the sizes that a table asks for. Raises: Refused, for a senseless property."""
    stored = metadata.properties
    return Targets(
        file_size_bytes=properties.read(stored, properties.TARGET_FILE_SIZE_BYTES),
        file_size_given=properties.TARGET_FILE_SIZE_BYTES.name in stored,
        manifest_size_bytes=properties.read(stored, properties.TARGET_MANIFEST_SIZE_BYTES),
    )


def metadata_files_in(listed: Sequence[FileStatus]) -> MetadataFiles:
    """Return the metadata files in the folder of the one that was read."""
    sizes = [
        status.size_bytes
        for status in listed
        if parse_metadata_file_name(locations.name(status.location)) is not None
    ]
    return MetadataFiles(len(sizes), sum(sizes))


def _expirable(reader: Reader, listed: Sequence[FileStatus]) -> Expirable:
    """Return what expiring by the table's own policy frees."""
    metadata = reader.metadata
    retention = decide(metadata, AskedRetention(), reader.context.env.now_ms())
    if not retention.expired:
        return Expirable(0, 0, 0, exact=True)
    if len(metadata.snapshots) <= _EXACT_SNAPSHOTS:
        sizes = {locations.loosest_key(status.location): status.size_bytes for status in listed}
        try:
            reached = read_reached(reader.context, metadata, retention, sizes)
        except (StorageError, CorruptTable, Refused) as error:
            doubts = [error.message]
        else:
            doubts = [lost.reason for lost in reached.unread]
        if not doubts:
            freed = reached.only_going
            size_bytes = files.total_bytes(freed)
            return Expirable(len(retention.expired), size_bytes, len(freed), exact=True)
        reader.context.progress.warn(f"reclaimable bytes are an estimate: {doubts[0]}")
    return estimate_freed(metadata, retention)


def estimate_freed(metadata: TableMetadata, retention: Retention) -> Expirable:
    """Return what expiring frees, by the summaries of the snapshots."""
    expired_ids = {decision.snapshot_id for decision in retention.expired}
    # A snapshot removes files of those before it: they are freed once its parent has gone.
    removed = sum(
        (read_count((snapshot.summary or {}).get("removed-files-size")) or 0)
        for snapshot in metadata.snapshots
        if snapshot.parent_snapshot_id in expired_ids
    )
    return Expirable(len(expired_ids), removed, None, exact=False)


_STYLES: Mapping[str, Style] = {
    "ok": "green", "unknown": "yellow", "attention": "yellow", "critical": "red"
}  # fmt: skip
_BAR = 24
_LEFT_OF_BAR = 42


def print_health(
    console: Console, result: Mapping[str, Any], table: str, options: str, engine: EngineChoice
) -> None:
    """Print the sizes of data files, then each check with its threshold and the command to run.

    `options` are those that commands need to reach the table.
    """
    files = print_count(result["data_file_count"], "data file")
    size, target = (print_size(result[f"{key}_bytes"]) for key in ("data_file", "target_file_size"))
    text = f"{files}, {size}; target {target} ({result['target_file_size_origin']})"
    for line in wrap(text, console.prose_width):
        console.print(line)
    if result["data_file_count"]:
        console.print()
        _print_sizes(console, result)
    for name, title in CHECKS.items():
        console.print()
        _print_check(console, title, result[name], table, options)
        if result[name]["command"] == "compact":
            console.print(f"  {engine}")


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
    if check["command"] is None:
        return
    for line in wrap(check["threshold"], console.prose_width - 2):
        console.print(console.style(f"  {line}", "dim"))
    if check["command_in_this_version"]:
        named = "TABLE" if table.endswith(".json") else shlex.quote(table)
        console.print(f"  run: icectl {check['command']} {named}{options}")
    else:
        console.print(f"  to do: `{check['command']}`, which this version of icectl does not have")
