"""The plan and the outcome of an expiry, as result members and as text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from icectl.cli.console import Console
from icectl.cli.document import id_text, print_new_metadata_file
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.expire_snapshots.plan import ExpirePlan
from icectl.entries.files import NO_FILES, FileKind, Files, count_by_kind, rows, total_bytes
from icectl.table.retention import Decision, Retention
from icectl.units import print_count, print_instant, print_size

LISTED_WITHOUT_VERBOSE = 40
"""Snapshots that are listed when the whole plan was not asked for."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """The plan of an expiry, and the outcome of its execution.

    `deletable` lies inside the table's location, `outside` does not and is only listed. `removed`
    is None before the execution. `failed` pairs locations with reasons. `stopped` is set where
    deleting ended early. `superseded_by` says why nothing was executed after all.
    """

    table_location: str
    plan: ExpirePlan
    deletable: Files
    outside: Files
    deletes_files: bool
    removed: Files | None = None
    failed: tuple[tuple[str, str], ...] = ()
    stopped: bool = False
    new_metadata_file: str | None = None
    superseded_by: str | None = None


def superseded(expiry: Expiry, reason: str) -> Expiry:
    """Return the report of an expiry that changed nothing after all: every snapshot is kept."""
    decisions = tuple(
        item if item.kept else replace(item, kept=True, reason=reason)
        for item in expiry.plan.retention.decisions
    )
    plan = replace(expiry.plan, retention=Retention(decisions, ()), schema_ids=(), spec_ids=())
    return replace(expiry, plan=plan, outside=NO_FILES, removed=NO_FILES, superseded_by=reason)


def expiry_result(expiry: Expiry) -> dict[str, Any]:
    """Return the JSON members; of a plan, `deleted` and `files` are what would be deleted."""
    deleted = expiry.removed
    if deleted is None:
        deleted = expiry.deletable if expiry.deletes_files else NO_FILES
    plan = expiry.plan
    return {
        "expired": [_decision(item) for item in plan.retention.expired],
        "kept": [_decision(item) for item in plan.retention.kept],
        "refs_removed": [
            {"name": ref.name, "snapshot_id": id_text(ref.snapshot_id), "reason": ref.reason}
            for ref in plan.retention.refs_removed
        ],
        "schemas_removed": list(plan.schema_ids),
        "specs_removed": list(plan.spec_ids),
        "deleted": {kind.name.lower(): count for kind, count in count_by_kind(deleted).items()},
        "deleted_bytes": total_bytes(deleted),
        "files": _files(deleted),
        "outside": _files(expiry.outside),
        "failed": [{"path": path, "error": error} for path, error in expiry.failed],
    }


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "snapshot_id": id_text(decision.snapshot_id),
        "timestamp": print_instant(decision.timestamp_ms),
        "reason": decision.reason,
    }


def _files(files: Files) -> list[dict[str, Any]]:
    return [
        {"path": location, "kind": kind.name.lower(), "size_bytes": size}
        for location, kind, size in rows(files)
    ]


def question(expiry: Expiry) -> str:
    """Return the question that the user is asked before anything happens."""
    count = len(expiry.plan.retention.expired)
    files = f" and delete {_counted(expiry.deletable)}" if expiry.deletes_files else ""
    return f"expire {print_count(count, 'snapshot')} of {expiry.table_location}{files}?"


def print_expiry(console: Console, expiry: Expiry, *, whole: bool) -> None:
    """Print the plan, or the outcome of its execution; `whole`: every file of a plan too."""
    if expiry.superseded_by is not None:
        console.say(expiry.superseded_by)
    elif expiry.removed is None:
        _print_plan(console, expiry, whole=whole)
    else:
        _print_expired(console, expiry, expiry.removed)


def _print_plan(console: Console, expiry: Expiry, *, whole: bool) -> None:
    """Print every snapshot with its reason; `whole`: every file with its bytes too."""
    if not expiry.plan.changes_table and not len(expiry.deletable):
        if whole:
            _print_snapshots(console, expiry.plan, whole=True)
        console.say("nothing to do: every snapshot stays")
        return
    _print_snapshots(console, expiry.plan, whole=whole)
    if whole:
        _print_files(console, expiry)
    console.say(_summary(expiry, expiry.deletable, "would be deleted"))
    _print_outside(console, expiry)


def _print_expired(console: Console, expiry: Expiry, removed: Files) -> None:
    for decision in expiry.plan.retention.expired[:LISTED_WITHOUT_VERBOSE]:
        console.detail(f"expired {decision.snapshot_id}: {decision.reason}")
    console.say(_summary(expiry, removed, "deleted"))
    _print_outside(console, expiry)
    print_new_metadata_file(console, expiry.new_metadata_file, "no file was deleted")
    for path, error in expiry.failed:
        console.warn(f"cannot delete {path}: {error}")
    if expiry.stopped:
        console.warn("deleting stopped early; run the command again to finish")


def _print_snapshots(console: Console, plan: ExpirePlan, *, whole: bool) -> None:
    decisions = plan.retention.decisions
    if not decisions:
        return
    shown = decisions if whole else decisions[-LISTED_WITHOUT_VERBOSE:]
    columns = (
        TableColumn("snapshot"),
        TableColumn("committed"),
        TableColumn(""),
        TableColumn("reason", cut="wrap"),
    )
    table = [
        (
            str(item.snapshot_id),
            print_instant(item.timestamp_ms // 1000 * 1000),
            "keep" if item.kept else "expire",
            item.reason,
        )
        for item in shown
    ]
    print_table(console, columns, table)
    if len(shown) < len(decisions):
        console.print(f"and {len(decisions) - len(shown):,} older ones: `--dry-run` lists all")
    for ref in plan.retention.refs_removed:
        console.print(f"ref {ref.name} is removed: {ref.reason}")
    _print_ids(console, "schemas", plan.schema_ids)
    _print_ids(console, "partition specs", plan.spec_ids)
    console.print()


def _print_ids(console: Console, what: str, ids: Sequence[int]) -> None:
    if ids:
        console.print(f"unused {what} are removed: {', '.join(map(str, ids))}")


def _print_files(console: Console, expiry: Expiry) -> None:
    if not expiry.deletes_files or not len(expiry.deletable):
        return
    base = expiry.table_location.rstrip("/") + "/"
    columns = (
        TableColumn("bytes", align="right"),
        TableColumn("kind"),
        TableColumn("file", cut="middle"),
    )
    table = [
        (_size(size), kind.name.lower().replace("_", " ").removesuffix("s"), _short(place, base))
        for place, kind, size in rows(expiry.deletable)
    ]
    print_table(console, columns, table)
    console.print()


def _size(size: int | None) -> str:
    return "?" if size is None else f"{size:,}"


def _short(location: str, base: str) -> str:
    return location.removeprefix(base)


def _summary(expiry: Expiry, deleted: Files, verb: str) -> str:
    expired = len(expiry.plan.retention.expired)
    kept = len(expiry.plan.retention.kept)
    stay = "stays" if kept == 1 else "stay"
    text = f"{print_count(expired, 'snapshot')} expired, {kept:,} kept"
    if verb != "deleted":
        text = f"{print_count(expired, 'snapshot')} would expire, {kept:,} {stay}"
    if not expiry.deletes_files:
        return f"{text}; no file is deleted"
    return f"{text}; {_counted(deleted)} {verb}, {print_size(total_bytes(deleted))}"


def _counted(files: Files) -> str:
    counts = count_by_kind(files)
    content = sum(counts[kind] for kind in FileKind if kind < FileKind.MANIFESTS)
    return f"{print_count(len(files), 'file')} ({content:,} data and delete files)"


def _print_outside(console: Console, expiry: Expiry) -> None:
    if not len(expiry.outside):
        return
    count = print_count(len(expiry.outside), "file")
    console.note(f"kept {count} outside the table's location that no snapshot reads any more")
    for location, _, _ in rows(expiry.outside)[:LISTED_WITHOUT_VERBOSE]:
        console.note(f"  {location}")
