"""The tree view: metadata file, manifest list, manifests, files, and what deletes apply to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from icectl.entries import deletes, rows
from icectl.entries.deletes import Matches
from icectl.entries.rows import Entries
from icectl.plan.inspect.changes import kind_of
from icectl.plan.inspect.metadata_rows import id_text, names_by_snapshot
from icectl.plan.inspect.partitions import Partitions, partitions_of
from icectl.plan.inspect.views import Row
from icectl.spec.manifest import ManifestContent, ManifestFile
from icectl.spec.metadata import TableMetadata
from icectl.spec.snapshot import Snapshot
from icectl.units import print_instant

TREE_SOURCES: frozenset[str] = frozenset(
    {
        "content", "status", "location", "file_format", "spec_id", "partition_key",
        "record_count", "file_size_in_bytes", "sequence_number", "referenced_data_file",
        "content_offset", "content_size_in_bytes",
    }
)  # fmt: skip
DELETE_KINDS = frozenset({"position-deletes", "equality-deletes", "deletion-vector"})


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What `--limit` hides below a node."""

    count: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """One file of the tree, or the snapshot; `facts` are JSON-ready and differ by kind.

    `applies_to` of a delete file holds ids of the shown data files that it applies to.
    """

    id: str
    kind: str
    location: str | None
    facts: Row
    children: tuple["Node", ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)
    applies_to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TreeSource:
    """What a tree is drawn from; `entries` are those of all `manifests`."""

    metadata: TableMetadata
    metadata_location: str
    snapshot: Snapshot | None
    manifests: Sequence[ManifestFile]
    entries: Entries


def tree(source: TreeSource, limit: int) -> Node:
    """Draw the tree of a snapshot, with at most `limit` manifests, and files a manifest.

    Order: manifests as listed, data before deletes; files as stored.
    """
    metadata, snapshot = source.metadata, source.snapshot
    facts: Row = {
        "format_version": metadata.format_version,
        "table_uuid": metadata.table_uuid,
        "last_updated": print_instant(metadata.last_updated_ms),
        "snapshot_count": len(metadata.snapshots),
    }
    children = () if snapshot is None else (_snapshot_node(source, snapshot, limit),)
    return Node("metadata", "metadata-file", source.metadata_location, facts, children)


def tree_json(node: Node) -> Row:
    """A tree for JSON: nested nodes, each with what the limit left out."""
    return {
        "id": node.id,
        "kind": node.kind,
        "location": node.location,
        **node.facts,
        **({"applies_to": list(node.applies_to)} if node.kind in DELETE_KINDS else {}),
        "children": [tree_json(child) for child in node.children],
        "children_left_out": node.left_out.count,
    }


def _snapshot_node(source: TreeSource, snapshot: Snapshot, limit: int) -> Node:
    facts: Row = {
        "snapshot_id": str(snapshot.snapshot_id),
        "parent_id": id_text(snapshot.parent_snapshot_id),
        "committed_at": print_instant(snapshot.timestamp_ms),
        "operation": snapshot.operation,
        "sequence_number": snapshot.sequence_number,
        "refs": names_by_snapshot(source.metadata).get(snapshot.snapshot_id, []),
    }
    manifests = _manifest_nodes(source, limit)
    left_out = _manifests_left_out(source.manifests, limit)
    if snapshot.manifest_list is None:
        return Node("snapshot", "snapshot", None, facts, manifests, left_out)
    list_facts: Row = {"manifest_count": len(source.manifests)}
    manifest_list = Node(
        "list", "manifest-list", snapshot.manifest_list, list_facts, manifests, left_out
    )
    return Node("snapshot", "snapshot", None, facts, (manifest_list,))


def _data_first(manifests: Sequence[ManifestFile]) -> list[int]:
    """Indices of manifests, those of data before those of deletes."""
    return sorted(range(len(manifests)), key=lambda index: manifests[index].content)


def _manifests_left_out(manifests: Sequence[ManifestFile], limit: int) -> LeftOut:
    hidden = _data_first(manifests)[limit:]
    return LeftOut(len(hidden), sum(manifests[index].manifest_length for index in hidden))


@dataclass(frozen=True, slots=True)
class _Drawing:
    """The files of all manifests: rows of `data` and `deletes` by manifest, and what applies.

    `applied` counts the data files of each delete; `targets` names those of them that are shown.
    """

    data: Entries
    deletes: Entries
    data_rows: Mapping[int, Sequence[int]]
    delete_rows: Mapping[int, Sequence[int]]
    applied: Sequence[int]
    targets: Mapping[int, tuple[str, ...]]
    partitions: Partitions
    limit: int


def _manifest_nodes(source: TreeSource, limit: int) -> tuple[Node, ...]:
    shown = _data_first(source.manifests)[:limit]
    drawing = _drawing(source, shown, limit)
    return tuple(_manifest_node(source.manifests[index], index, drawing) for index in shown)


def _drawing(source: TreeSource, shown: Sequence[int], limit: int) -> _Drawing:
    unpartitioned = [
        spec.spec_id for spec in source.metadata.partition_specs if spec.is_unpartitioned
    ]
    matches = deletes.match(source.entries, unpartitioned)
    data_rows = _rows_by_manifest(matches.data)
    visible = sorted(row for index in shown for row in data_rows.get(index, [])[:limit])
    return _Drawing(
        data=matches.data,
        deletes=matches.deletes,
        data_rows=data_rows,
        delete_rows=_rows_by_manifest(matches.deletes),
        applied=[int(count) for count in deletes.per_delete_file(matches)],
        targets=_targets(matches, visible, unpartitioned),
        partitions=partitions_of(source.metadata),
        limit=limit,
    )


def _targets(
    matches: Matches, visible: Sequence[int], unpartitioned: Sequence[int]
) -> Mapping[int, tuple[str, ...]]:
    """Ids of the visible data files by row of the delete that applies to them.

    The visible ones are matched again by themselves, since all pairs may be a great many.
    """
    few = deletes.match(
        rows.concat([rows.take(matches.data, visible), matches.deletes]), unpartitioned
    )
    targets: dict[int, tuple[str, ...]] = {}
    for pair in deletes.pairs(few).to_pylist():
        known = targets.get(pair["delete_row"], ())
        targets[pair["delete_row"]] = (*known, f"data_{visible[pair['data_row']]}")
    return targets


def _rows_by_manifest(entries: Entries) -> Mapping[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row, (index,) in enumerate(rows.by_row(entries, "manifest")):
        found.setdefault(index, []).append(row)
    return found


def _manifest_node(manifest: ManifestFile, index: int, drawing: _Drawing) -> Node:
    of_data = manifest.content is ManifestContent.DATA
    entries, by_manifest = (
        (drawing.data, drawing.data_rows) if of_data else (drawing.deletes, drawing.delete_rows)
    )
    mine = by_manifest.get(index, [])
    shown, hidden = mine[: drawing.limit], mine[drawing.limit :]
    left_out = LeftOut(len(hidden), rows.total(rows.take(entries, hidden), "file_size_in_bytes"))
    facts: Row = {
        "content": "data" if of_data else "deletes",
        "size_bytes": manifest.manifest_length,
        "partition_spec_id": manifest.partition_spec_id,
        "sequence_number": manifest.sequence_number,
        "added_snapshot_id": id_text(manifest.added_snapshot_id),
        "live_file_count": len(mine),
        "deleted_entry_count": manifest.deleted_files_count,
    }
    files = zip(shown, rows.by_row(rows.take(entries, shown), *_FILE_COLUMNS), strict=True)
    children = tuple(_file_node(row, values, drawing) for row, values in files)
    return Node(f"manifest_{index}", "manifest", manifest.manifest_path, facts, children, left_out)


_FILE_COLUMNS = (
    "location", "content", "file_format", "spec_id", "partition_key", "record_count",
    "file_size_in_bytes", "sequence_number", "referenced_data_file", "content_size_in_bytes",
)  # fmt: skip


def _file_node(row: int, values: tuple[Any, ...], drawing: _Drawing) -> Node:
    file = dict(zip(_FILE_COLUMNS, values, strict=True))
    kind = kind_of(file["content"], file["file_format"])
    is_data = kind == "data"
    facts: dict[str, object] = {
        "partition": drawing.partitions.record(file["spec_id"], file["partition_key"]),
        "record_count": file["record_count"],
        "size_bytes": file["content_size_in_bytes"] or file["file_size_in_bytes"],
        "sequence_number": file["sequence_number"],
    }
    if not is_data:
        facts["referenced_data_file"] = file["referenced_data_file"]
        facts["applies_to_count"] = drawing.applied[row]
    return Node(
        id=f"data_{row}" if is_data else f"delete_{row}",
        kind=kind,
        location=file["location"],
        facts=facts,
        applies_to=() if is_data else drawing.targets.get(row, ()),
    )
