"""An export to the upstream draft, and what a root of it says, as result members and text."""

from dataclasses import dataclass
from typing import Any

from icectl.report.console import Console
from icectl.report.document import id_text
from icectl.units import print_count, print_size


@dataclass(frozen=True, slots=True)
class Export:
    """An export as it is told; `bytes_written` is None before it is done."""

    from_version: int
    folder: str
    root: str
    snapshot_id: int
    leaf_count: int
    live_count: int
    notes: tuple[str, ...]
    bytes_written: int | None = None


def export_result(export: Export) -> dict[str, Any]:
    """Return the result of a plan or a run, in the form of an upgrade's."""
    leaves = print_count(export.leaf_count, "leaf manifest")
    steps = [
        {"step": "write-leaves", "detail": f"{leaves}, one for each manifest"},
        {"step": "write-root", "detail": f"`{export.root}` lists them"},
    ]
    return {
        "from_version": export.from_version,
        "to_version": 4,
        "steps": steps,
        "snapshot_id": None,
        "legacy_manifests": 0,
        "findings": [],
        "export": {
            "folder": export.folder,
            "root": export.root,
            "snapshot_id": id_text(export.snapshot_id),
            "leaves": export.leaf_count,
            "live_files": export.live_count,
            "bytes": export.bytes_written,
            "notes": list(export.notes),
        },
    }


def print_export(console: Console, export: Export) -> None:
    """Say what is written, or would be, and what of the table it does not say."""
    files = print_count(export.live_count, "live file")
    leaves = print_count(export.leaf_count, "leaf manifest")
    told = f"snapshot {export.snapshot_id} in the form of draft 16025: {files} in {leaves}"
    if export.bytes_written is None:
        console.say(f"would write {told}")
    else:
        console.say(f"wrote {told}, {print_size(export.bytes_written)}")
    console.print(export.root)
    for note in export.notes:
        console.print(f"note: {note}")
