"""A relocation as result members and as text."""

from typing import Any

from icectl.cli.console import Console
from icectl.cli.tables import print_pairs
from icectl.commands.relocate.plan import RelocatePlan
from icectl.units import print_count, print_size

_SHOWN = {
    "position_delete_files": "position delete file",
    "deletion_vector_files": "deletion vector file",
    "manifests": "manifest",
    "manifest_lists": "manifest list",
}

_REGISTRATIONS = (
    ("Spark", "CALL c.system.register_table('db.t', 'NEW')"),
    ("Trino", "CALL c.system.register_table('db', 't', 'DIRECTORY', 'FILE')"),
    ("PyIceberg", 'catalog.register_table("db.t", "NEW")'),
    ("REST", 'POST .../register {"name": "t", "metadata-location": "NEW"}'),
)
"""How catalogs take a table that has metadata already."""


def relocate_result(plan: RelocatePlan) -> dict[str, Any]:
    """Return the JSON members of a plan or of a run."""
    move, metadata = plan.move, plan.metadata
    return {
        "from": list(move.sources),
        "to": move.target,
        "location": move.location,
        "location_after": move.new_location,
        "uuid_after": metadata.table_uuid if plan.done and metadata is not None else None,
        "snapshots": plan.snapshot_count,
        "written": {kind: (plan.written or {}).get(kind, 0) for kind in _SHOWN},
        "kept_files": plan.kept_files,
        "kept_bytes": plan.kept_bytes,
        "to_copy": [
            {
                "source": file.source,
                "target": file.target,
                "size_bytes": file.size_bytes,
                "found_bytes": file.found_bytes,
            }
            for file in plan.missing
        ],
        "to_copy_bytes": plan.missing_bytes,
        "copy_list": plan.copy_list,
        "metadata_file": plan.metadata_file,
        "needs_registering": plan.needs_registering,
        "set_aside": list(plan.set_aside),
    }


def print_relocation(console: Console, plan: RelocatePlan) -> None:
    """Print a plan or a run."""
    move = plan.move
    if plan.metadata is None:
        console.say(f"nothing to do: the table names its files in {move.new_location}")
        return
    pairs = [("from", move.location), ("to", move.new_location)]
    if move.sources != (move.location,):
        pairs.append(("locations", f"{', '.join(move.sources)} becomes {move.target}"))
    print_pairs(console, pairs)
    written = ", ".join(
        print_count(count, _SHOWN[kind]) for kind, count in (plan.written or {}).items() if count
    )
    verb = "wrote" if plan.done else "would write"
    snapshots = print_count(plan.snapshot_count, "snapshot")
    size = print_size(plan.written_bytes)
    console.say(f"{verb} {written or 'no file'} and the metadata file, for {snapshots}: {size}")
    kept = print_count(plan.kept_files, "file")
    console.say(f"{kept} of {print_size(plan.kept_bytes)} keep their content and their names")
    if plan.set_aside:
        console.say(
            f"{print_count(len(plan.set_aside), 'metadata file')} of the original "
            + ("renamed" if plan.done else "will be renamed")
            + ", to *.original"
        )
    if plan.missing:
        console.say(
            f"{print_count(len(plan.missing), 'file')} of {print_size(plan.missing_bytes)} not at "
            "the new place yet" + (f": {plan.copy_list} lists them" if plan.copy_list else "")
        )
        if plan.done:
            console.say("copy them before anybody reads the table")
    if plan.done:
        console.say(f"new metadata file: {plan.metadata_file}")
        if plan.needs_registering:
            console.say("register it under a name of its own; NEW is that file:")
            for kind, statement in _REGISTRATIONS:
                console.say(f"  {kind:<9}  {statement}")
