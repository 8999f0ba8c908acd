"""The branches and tags of a table and their changes, as result members and as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from icectl.cli.console import Console
from icectl.cli.document import id_text, print_new_metadata_file
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.change import MetadataReport
from icectl.commands.refs.plan import RefChange, refs_of
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import SnapshotRef
from icectl.units import print_count, print_duration, print_instant


def refs_result(report: MetadataReport[RefChange]) -> dict[str, Any]:
    """Return the JSON members: all refs after the changes, and the changes."""
    after = refs_of(report.metadata)
    for change in report.changes:
        if change.after is None:
            del after[change.name]
        else:
            after[change.name] = change.after
    return {
        "refs": [{"name": name, **_ref(report.metadata, ref)} for name, ref in after.items()],
        "changes": [
            {
                "name": change.name,
                "before": _ref(report.metadata, change.before) if change.before else None,
                "after": _ref(report.metadata, change.after) if change.after else None,
                "leaving_snapshots": [id_text(snapshot_id) for snapshot_id in change.leaving],
            }
            for change in report.changes
        ],
    }


def _ref(metadata: TableMetadata, ref: SnapshotRef) -> Mapping[str, Any]:
    return {
        "type": ref.type,
        "snapshot_id": id_text(ref.snapshot_id),
        "committed_at": _committed_at(metadata, ref),
        "max_ref_age_ms": ref.max_ref_age_ms,
        "min_snapshots_to_keep": ref.min_snapshots_to_keep,
        "max_snapshot_age_ms": ref.max_snapshot_age_ms,
    }


def _committed_at(metadata: TableMetadata, ref: SnapshotRef) -> str | None:
    snapshot = metadata.snapshot(ref.snapshot_id)
    return None if snapshot is None else print_instant(snapshot.timestamp_ms)


def print_refs(console: Console, metadata: TableMetadata) -> None:
    """Print all branches and tags, main first."""
    refs = refs_of(metadata)
    if not refs:
        console.say("the table has no branches or tags: it has no snapshot yet")
        return
    columns = (
        TableColumn("name", cut="end"),
        TableColumn("type"),
        TableColumn("snapshot"),
        TableColumn("committed (UTC)"),
        TableColumn("ref age", "right"),
        TableColumn("keep", "right"),
        TableColumn("snapshot age", "right"),
    )
    rows = [
        (
            name,
            ref.type,
            str(ref.snapshot_id),
            _committed_at(metadata, ref) or "expired",
            _age(ref.max_ref_age_ms),
            "" if ref.min_snapshots_to_keep is None else f"{ref.min_snapshots_to_keep:,}",
            _age(ref.max_snapshot_age_ms),
        )
        for name, ref in refs.items()
    ]
    print_table(console, columns, rows)


def _age(duration_ms: int | None) -> str:
    return "" if duration_ms is None else print_duration(duration_ms)


def question(table_location: str, changes: Sequence[RefChange]) -> str | None:
    """Return the question before changes that take snapshots from a ref; None for others."""
    taken = [change for change in changes if change.before is not None and _takes(change)]
    if not taken:
        return None
    names = ", ".join(f"`{change.name}`" for change in taken)
    if all(change.after is None for change in taken):
        return f"drop {names} of {table_location}?"
    return f"move {names} of {table_location}?"


def _takes(change: RefChange) -> bool:
    """Return whether a ref goes, or does not lead to all that it led to."""
    if change.after is None or change.leaving:
        return True
    is_tag = change.after.type == "tag"
    return is_tag and change.before != change.after


def print_changes(console: Console, report: MetadataReport[RefChange]) -> None:
    """Print the changes, planned or made."""
    if not report.changes:
        console.say("nothing to do: the branches and tags are as wanted")
        return
    for change in report.changes:
        console.say(_sentence(change, done=report.done))
    leaving = sum(len(change.leaving) for change in report.changes)
    if leaving:
        snapshots = print_count(leaving, "snapshot")
        console.say(f"{snapshots} out of the branch, in the table until they expire")
    if report.done:
        print_new_metadata_file(console, report.new_metadata_file)


def _sentence(change: RefChange, *, done: bool) -> str:
    before, after = change.before, change.after
    if after is None:
        assert before is not None
        verb = "dropped" if done else "drop"
        return f"{verb} {before.type} {change.name}, at snapshot {before.snapshot_id}"
    if before is None:
        verb = "made" if done else "make"
        return f"{verb} {after.type} {change.name} at snapshot {after.snapshot_id}"
    if before.snapshot_id == after.snapshot_id:
        verb = "changed" if done else "change"
        return f"{verb} the retention of {after.type} {change.name}"
    verb = "moved" if done else "move"
    ids = f"from snapshot {before.snapshot_id} to {after.snapshot_id}"
    return f"{verb} {after.type} {change.name} {ids}"
