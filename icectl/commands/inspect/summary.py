"""The summary view and the tree: read, and the summary as text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from icectl.cli.console import Console
from icectl.cli.document import id_text
from icectl.cli.tables import print_pairs
from icectl.commands.inspect.tree_plan import TREE_SOURCES, Node, TreeSource, shown_manifests
from icectl.commands.inspect.tree_plan import tree as tree_view
from icectl.commands.inspect.views import Row, View
from icectl.entries.rows import Entries, concat, live, with_manifest_number
from icectl.entries.summary import Totals, summarise
from icectl.errors import CorruptTable, StorageError
from icectl.format.file_names import lost_versions
from icectl.format.layout import layout_name, layout_of_manifest
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.table.manifest_lists import reader_of, snapshot_reader
from icectl.table.reader import Reader, SnapshotChoice, chosen_snapshot
from icectl.units import print_count, print_instant, print_size

_PROPERTIES_SHOWN = 8


def print_summary(console: Console, result: Mapping[str, Any], name: str | None) -> None:
    """Print what a table is and what its snapshot holds."""
    location = result["location"]
    spec, order = result["partition_spec_id"], result["sort_order_id"]
    layout = f", layout {result['layout']}" if "layout" in result else ""
    main_first = sorted(result["refs"].items(), key=lambda item: item[0] != "main")
    refs = [ref if facts["type"] == "branch" else f"{ref} (tag)" for ref, facts in main_first]
    further = f" and {len(refs) - 4:,} more" if len(refs) > 4 else ""
    pairs = [
        *([("table", location)] if name is None else [("table", name), ("location", location)]),
        ("format version", f"{result['format_version']}{layout}"),
        ("uuid", result["uuid"] or "none"),
        ("metadata", result["metadata_location"].removeprefix(f"{location}/")),
        ("last updated", result["last_updated"]),
        ("current", f"schema {result['schema_id']}, partition spec {spec}, sort order {order}"),
        ("snapshots", f"{result['snapshot_count']:,}"),
        ("refs", ", ".join(refs[:4]) + further or "none"),
    ]
    print_pairs(console, pairs)
    console.print()
    print_pairs(console, _snapshot_pairs(result))
    properties = result["properties"]
    if properties:
        console.print()
        console.print(console.style("properties", "bold"))
        print_pairs(console, sorted(properties.items())[:_PROPERTIES_SHOWN], indent=2)
        if len(properties) > _PROPERTIES_SHOWN:
            console.print(f"  and {len(properties) - _PROPERTIES_SHOWN} more: view `properties`")


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
    count = f"{result['record_count']:,}"
    return [
        *snapshot,
        ("manifests", f"{result['manifest_count']:,}, {print_size(result['manifest_bytes'])}"),
        ("data files", f"{result['data_file_count']:,}, {print_size(result['data_file_bytes'])}"),
        ("records", f"{count} before deletes" if result["delete_file_count"] else count),
        ("delete files", _delete_files(result)),
    ]


def _delete_files(result: Mapping[str, Any]) -> str:
    """Return delete files of each kind, with the positions and values they delete."""
    kinds = {
        "position_delete_file_count": "position",
        "equality_delete_file_count": "equality",
        "deletion_vector_count": "vectors",
    }
    nouns = {"position_delete_record_count": "position", "equality_delete_record_count": "key"}
    parts = [f"{result[key]:,} {kind}" for key, kind in kinds.items() if result[key]]
    if not parts:
        return "none"
    deleted = [print_count(result[key], noun) for key, noun in nouns.items() if result[key]]
    return f"{', '.join([*parts, print_size(result['delete_file_bytes'])])}; {', '.join(deleted)}"


SUMMARY_COLUMNS: frozenset[str] = frozenset({
    "content", "status", "file_format", "record_count", "file_size_in_bytes",
    "content_size_in_bytes",
})  # fmt: skip
"""What the totals are made of; manifest lists carry no bytes, so manifests are read."""


def summary(
    metadata: TableMetadata,
    metadata_location: str,
    snapshot: Snapshot | None,
    manifests: Sequence[ManifestFile],
    totals: Totals | None,
) -> Row:
    """Describe the table, and the live files of the chosen snapshot.

    `totals` is None if it is unknown what the snapshot lists; so are all counts of it then.
    Units: bytes; record_count before deletes.
    """
    counted = Totals() if totals is None else totals
    # As manifest lists do not count, the root of version 4 does not.
    sizes = [manifest.manifest_length for manifest in manifests if not manifest.in_root]
    same = (
        "data_file_count", "delete_file_count", "data_file_bytes", "delete_file_bytes",
        "record_count", "position_delete_file_count", "equality_delete_file_count",
        "deletion_vector_count", "position_delete_record_count", "equality_delete_record_count",
    )  # fmt: skip
    counts = {name: getattr(counted, name) for name in same}
    counts["position_delete_record_count"] += counted.deletion_vector_record_count
    counts |= {"manifest_count": len(sizes), "manifest_bytes": sum(sizes)}
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


_BATCH_ROWS = 50_000
_OF_METADATA: Mapping[str, frozenset[str]] = {
    "snapshots": frozenset({"snapshots", "refs"}),
    "history": frozenset({"snapshot-log", "snapshots", "current-snapshot-id"}),
    "erasures": frozenset({"snapshots"}),
    "refs": frozenset({"refs"}),
    "schemas": frozenset({"schemas", "schema", "current-schema-id"}),
    "specs": frozenset({"partition-specs", "partition-spec", "expressions", "schemas", "schema"}),
    "sort-orders": frozenset({"sort-orders", "schemas", "schema"}),
    "properties": frozenset({"properties"}),
    "metadata-log": frozenset({"metadata-log"}),
    "statistics": frozenset({"statistics", "partition-statistics"}),
}
"""Members of the metadata that a view shows."""
_OF_FILES = frozenset(
    {"current-snapshot-id", "schemas", "schema", "partition-specs", "partition-spec", "expressions"}
)
"""Members that rows of manifests are shown by."""


def is_incomplete(
    reader: Reader, view: View, choice: SnapshotChoice, *, all_snapshots: bool
) -> bool:
    """Return whether part of what a view shows could not be read.

    Raises: the first problem, where nothing of it could.
    """
    lost = {oddity.member for oddity in reader.metadata.oddities if oddity.lost}
    if view.rows:
        shown = _OF_METADATA.get(view.name, _OF_FILES)
        lost &= shown | {"snapshots"} if all_snapshots else shown
        if view.of_snapshot and not all_snapshots and not choice.count:
            for oddity in reader.metadata.oddities:
                if oddity.member == "current-snapshot-id" and oddity.lost:
                    raise CorruptTable(oddity.message, rule=oddity.rule)
    if reader.gaps is None or not reader.gaps.problems:
        return bool(lost)
    has_shown = reader.gaps.has_listed if view.name == "manifests" else reader.gaps.has_read
    if (view.rows or view.name == "clustering") and not has_shown:
        raise next(iter(reader.gaps.problems.values()))
    return True


def oddities_of(reader: Reader) -> Sequence[str]:
    """List what of the table breaks a rule and was read all the same, or left out: each once."""
    messages = [f"{oddity.message} ({oddity.rule})" for oddity in reader.metadata.oddities]
    messages += [*reader.gaps.odd, *reader.gaps.problems] if reader.gaps is not None else ()
    messages = list(dict.fromkeys(messages))
    version = reader.loaded.version
    if version is not None and reader.loaded.capabilities.numbers_versions:
        with suppress(FileNotFoundError, StorageError):  # nothing depends on the hint
            hint = reader.hinted_version()
            if isinstance(hint, int) and hint > version:  # newer metadata is lost
                message, advice = lost_versions(hint, version, reader.metadata.location)
                messages.append(f"{message} (R-163); {advice}")
    return messages


def read_summary(reader: Reader, choice: SnapshotChoice) -> Row:
    """Describe the table and its chosen snapshot.

    Raises: UsageError for a snapshot that is not there; what reading manifests raises.
    """
    snapshot = chosen_snapshot(reader.metadata, choice)
    manifests = reader.manifests(snapshot)
    totals = Totals()
    for entries in _in_batches(reader.scan(manifests, SUMMARY_COLUMNS)):
        totals += summarise(live(entries))
    location = reader.loaded.metadata_location
    unknown = reader.gaps is not None and snapshot is not None and not reader.gaps.has_listed
    return summary(reader.metadata, location, snapshot, manifests, None if unknown else totals)


def _in_batches(parts: Iterable[Entries]) -> Iterator[Entries]:
    """Yield the same entries in fewer tables: each table costs the same to add up."""
    batch: list[Entries] = []
    row_count = 0
    for part in parts:
        batch.append(part)
        row_count += len(part)
        if row_count >= _BATCH_ROWS:
            yield concat(batch)
            batch, row_count = [], 0
    if batch:
        yield concat(batch)


def tree(reader: Reader, choice: SnapshotChoice, limit: int) -> Node:
    """Draw the metadata tree of the chosen snapshot.

    Raises: UsageError for a snapshot that is not there; what reading manifests raises.
    """
    snapshot = chosen_snapshot(reader.metadata, choice)
    manifests = reader.manifests(snapshot)
    root = None
    if snapshot is not None:
        root = snapshot_reader(reader.metadata, snapshot).root(reader.context.store, snapshot)
    entries = reader.load(manifests, TREE_SOURCES, to_match=True)
    # The dead entries of the manifests that are shown
    struck = [index for index in shown_manifests(manifests, limit) if manifests[index].dead]
    killed = [
        reader_of(reader.metadata, layout_of_manifest(manifest)).deleted_only(manifest)
        for manifest in (manifests[index] for index in struck)
    ]
    parts = (part for part in reader.scan(killed, TREE_SOURCES) if len(part))
    dead = concat(
        with_manifest_number(part, struck[part.table["manifest"][0].as_py()]) for part in parts
    )
    source = TreeSource(
        metadata=reader.metadata,
        metadata_location=reader.loaded.metadata_location,
        snapshot=snapshot,
        manifests=manifests,
        entries=entries,
        root=root,
        killed=dead,
    )
    return tree_view(source, limit)
