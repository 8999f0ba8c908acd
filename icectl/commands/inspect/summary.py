"""The summary view, and it as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from icectl.cli.console import Console
from icectl.cli.tables import print_pairs
from icectl.commands.inspect.views import Row, id_text
from icectl.entries.summary import Totals
from icectl.format.layout import layout_name
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.units import print_count, print_instant, print_size

_PROPERTIES_SHOWN = 8


def print_summary(console: Console, result: Mapping[str, Any]) -> None:
    """Print what a table is and what its snapshot holds."""
    print_pairs(console, _table_pairs(result))
    console.print()
    print_pairs(console, _snapshot_pairs(result))
    properties = result["properties"]
    if properties:
        console.print()
        console.print(console.style("properties", "bold"))
        print_pairs(console, sorted(properties.items())[:_PROPERTIES_SHOWN], indent=2)
        if len(properties) > _PROPERTIES_SHOWN:
            console.print(f"  and {len(properties) - _PROPERTIES_SHOWN} more: view `properties`")


def _table_pairs(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("table", result["location"]),
        ("format version", _version(result)),
        ("uuid", result["uuid"] or "none"),
        ("metadata", result["metadata_location"].removeprefix(f"{result['location']}/")),
        ("last updated", result["last_updated"]),
        ("current", _current(result)),
        ("snapshots", f"{result['snapshot_count']:,}"),
        ("refs", _refs(result["refs"])),
    ]


def _current(result: Mapping[str, Any]) -> str:
    spec, order = result["partition_spec_id"], result["sort_order_id"]
    return f"schema {result['schema_id']}, partition spec {spec}, sort order {order}"


def _version(result: Mapping[str, Any]) -> str:
    layout = f", layout {result['layout']}" if "layout" in result else ""
    return f"{result['format_version']}{layout}"


def _refs(refs: Mapping[str, Any]) -> str:
    main_first = sorted(refs.items(), key=lambda item: item[0] != "main")
    names = [name if ref["type"] == "branch" else f"{name} (tag)" for name, ref in main_first]
    if not names:
        return "none"
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4:,} more"


def _snapshot_pairs(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    if result["snapshot_id"] is None:
        none = "none is current" if result["snapshot_count"] else "none: the table is empty"
        return [("snapshot", none)]
    current = result["snapshot_id"] == result["current_snapshot_id"]
    operation = result["operation"] or "operation unknown"
    snapshot = [
        ("snapshot", f"{result['snapshot_id']}{' (current)' if current else ''}"),
        ("committed", f"{result['committed_at']}, {operation}"),
    ]
    if result["manifest_count"] is None:
        return [*snapshot, ("files", "unknown: what it lists cannot be read")]
    return [
        *snapshot,
        ("manifests", f"{result['manifest_count']:,}, {print_size(result['manifest_bytes'])}"),
        ("data files", f"{result['data_file_count']:,}, {print_size(result['data_file_bytes'])}"),
        ("records", _records(result)),
        ("delete files", _delete_files(result)),
    ]


def _records(result: Mapping[str, Any]) -> str:
    count = f"{result['record_count']:,}"
    return f"{count} before deletes" if result["delete_file_count"] else count


def _delete_files(result: Mapping[str, Any]) -> str:
    """Delete files of each kind there is, with the positions and values they delete."""
    kinds = [
        ("position_delete_file_count", "position"),
        ("equality_delete_file_count", "equality"),
        ("deletion_vector_count", "vectors"),
    ]
    parts = [f"{result[key]:,} {name}" for key, name in kinds if result[key]]
    if not parts:
        return "none"
    deleted = [
        print_count(result[key], noun)
        for key, noun in (
            ("position_delete_record_count", "position"),
            ("equality_delete_record_count", "key"),
        )
        if result[key]
    ]
    return f"{', '.join([*parts, print_size(result['delete_file_bytes'])])}; {', '.join(deleted)}"


SUMMARY_COLUMNS: frozenset[str] = frozenset(
    {
        "content", "status", "file_format", "record_count", "file_size_in_bytes",
        "content_size_in_bytes",
    }
)  # fmt: skip
"""What the totals are made of; manifest lists carry no bytes, so manifests are read."""


def summary(
    metadata: TableMetadata,
    metadata_location: str,
    snapshot: Snapshot | None,
    manifests: Sequence[ManifestFile],
    totals: Totals | None,
) -> Row:
    """Describe the table, and the live files of the chosen snapshot.

    `totals` is None where nobody knows what the snapshot lists; so are all counts of it then.
    Units: bytes; record_count before deletes.
    """
    counts = _counts(manifests, Totals() if totals is None else totals)
    return {
        "format_version": metadata.format_version,
        **({"layout": layout} if (layout := layout_name(metadata)) is not None else {}),
        "uuid": metadata.table_uuid,
        "location": metadata.location,
        "metadata_location": metadata_location,
        "last_updated": print_instant(metadata.last_updated_ms),
        "current_snapshot_id": id_text(metadata.current_snapshot_id),
        "snapshot_count": len(metadata.snapshots),
        "refs": {
            name: {"snapshot_id": str(ref.snapshot_id), "type": ref.type}
            for name, ref in metadata.refs.items()
        },
        "schema_id": metadata.current_schema_id,
        "partition_spec_id": metadata.default_spec_id,
        "sort_order_id": metadata.default_sort_order_id,
        "snapshot_id": id_text(snapshot.snapshot_id) if snapshot else None,
        "committed_at": print_instant(snapshot.timestamp_ms) if snapshot else None,
        "operation": snapshot.operation if snapshot else None,
        **(counts if totals is not None else dict.fromkeys(counts)),
        "properties": dict(metadata.properties),
    }


def _counts(manifests: Sequence[ManifestFile], totals: Totals) -> Row:
    return {
        "data_file_count": totals.data_file_count,
        "delete_file_count": totals.delete_file_count,
        "data_file_bytes": totals.data_file_bytes,
        "delete_file_bytes": totals.delete_file_bytes,
        "record_count": totals.record_count,
        "position_delete_file_count": totals.position_delete_file_count,
        "equality_delete_file_count": totals.equality_delete_file_count,
        "deletion_vector_count": totals.deletion_vector_count,
        "position_delete_record_count": totals.position_delete_record_count
        + totals.deletion_vector_record_count,
        "equality_delete_record_count": totals.equality_delete_record_count,
        # As manifest lists do not count, the root of version 4 does not.
        "manifest_count": sum(not manifest.in_root for manifest in manifests),
        "manifest_bytes": sum(
            manifest.manifest_length for manifest in manifests if not manifest.in_root
        ),
    }
