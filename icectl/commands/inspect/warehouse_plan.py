"""The health of many tables: which needs maintenance most, and what all of them come to, pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from icectl.commands.inspect.health_plan import every_check
from icectl.commands.inspect.views import Row
from icectl.format.metadata import TableMetadata
from icectl.units import read_count

VERDICTS = ("ok", "unknown", "attention", "critical")
"""What a table's health may be, the worst last."""

WAREHOUSE_COLUMNS = (
    "table", "verdict", "commands", "benefit_bytes", "data_file_count", "data_file_bytes",
    "surplus_file_count", "delete_file_count", "delete_file_bytes", "deleted_ratio",
    "manifest_count", "surplus_manifest_count", "snapshot_count", "expirable_snapshot_count",
    "reclaimable_bytes", "untracked_metadata_file_count", "error",
)  # fmt: skip
_SUMMED = (
    "data_file_count", "data_file_bytes", "surplus_file_count", "delete_file_count",
    "delete_file_bytes", "manifest_count", "surplus_manifest_count", "snapshot_count",
    "expirable_snapshot_count", "reclaimable_bytes", "untracked_metadata_file_count",
)  # fmt: skip
_DAY_MS = 86_400_000


def history(metadata: TableMetadata) -> Row:
    """Return how the table grew, day by day in UTC, as far as its snapshots are still there.

    `total_bytes` and `total_records` are what the summary of the day's last snapshot says that was
    the table's current one, null where none says anything; `is_whole` where no snapshot has expired
    before the first of them.
    """
    made_current = {entry.snapshot_id for entry in metadata.snapshot_log}
    ordered = sorted(metadata.snapshots, key=lambda item: (item.timestamp_ms, item.sequence_number))
    days: dict[int, dict[str, Any]] = {}
    for snapshot in ordered:
        day_ms = snapshot.timestamp_ms // _DAY_MS * _DAY_MS
        day = days.setdefault(
            day_ms,
            {"day_ms": day_ms, "snapshot_count": 0, "total_bytes": None, "total_records": None},
        )
        day["snapshot_count"] += 1
        if snapshot.snapshot_id in made_current:
            summary = snapshot.summary or {}
            day["total_bytes"] = read_count(summary.get("total-files-size"))
            day["total_records"] = read_count(summary.get("total-records"))
    return {
        "days": list(days.values()),
        "is_whole": bool(ordered) and ordered[0].parent_snapshot_id is None,
    }


def figures_of(table: str, facts: Mapping[str, Any] | None, error: str | None) -> Row:
    """Return one table as a row of figures: null where it could not be read, with the reason."""
    row: dict[str, Any] = dict.fromkeys(WAREHOUSE_COLUMNS)
    row |= {"table": table, "error": error}
    if facts is None:
        return row
    merged: dict[str, Any] = {}
    checks = [facts[check.name] for _, check in every_check()]
    for check in checks:
        merged |= check
    row |= {name: merged[name] for name in WAREHOUSE_COLUMNS if name in merged}
    commands = (check["command"] for check in checks)
    row |= {
        "verdict": facts["verdict"],
        "commands": list(dict.fromkeys(command for command in commands if command is not None)),
        "benefit_bytes": facts["benefit_bytes"],
        "engine": facts["engine"],
        "data_file_count": facts["data_file_count"],
        "data_file_bytes": facts["data_file_bytes"],
        "delete_file_count": _delete_files(facts),
    }
    return row


def by_need(rows: Iterable[Row]) -> list[Row]:
    """Tables with most need first: those that cannot be read, then by verdict and benefit."""

    def need(row: Row) -> tuple[int, int, str]:
        """Return the place of a table."""
        verdict = row["verdict"]
        place = len(VERDICTS) if verdict is None else VERDICTS.index(verdict)
        return -place, -(row["benefit_bytes"] or 0), row["table"]

    return sorted(rows, key=need)


def totals(rows: Sequence[Row]) -> Row:
    """Return what all tables come to; of those that could not be read nothing is counted."""
    counts = dict.fromkeys(("ok", "attention", "critical", "unread"), 0)
    for row in rows:
        verdict = row["verdict"]
        counts[verdict if verdict in counts else "unread"] += 1
    return {
        "table_count": len(rows),
        "verdicts": counts,
        **{name: sum(row[name] or 0 for row in rows) for name in _SUMMED},
    }


def _delete_files(facts: Mapping[str, Any]) -> int:
    debt = facts["delete_debt"]
    kinds = ("position_delete_file_count", "equality_delete_file_count", "deletion_vector_count")
    return sum(debt[kind] for kind in kinds)
