"""The tree view: metadata file, manifest list or root, manifests, and what applies to what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from icectl.cli.document import id_text
from icectl.commands.inspect.metadata_rows import names_by_snapshot
from icectl.commands.inspect.views import Row
from icectl.entries import deletes, rows
from icectl.entries.partition_records import Partitions, partitions_of
from icectl.entries.rows import Entries
from icectl.format.manifest import (
    ManifestContent,
    ManifestFile,
    ManifestVector,
    RootManifest,
    Status,
    kind_of,
)
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.units import print_instant

TREE_SOURCES: frozenset[str] = frozenset({
    "content", "status", "location", "file_format", "spec_id", "partition_key",
    "record_count", "file_size_in_bytes", "sequence_number", "referenced_data_file",
    "content_offset", "content_size_in_bytes",
})  # fmt: skip
DELETE_KINDS = frozenset({"position-deletes", "equality-deletes", "deletion-vector"})
MANIFEST_DV = "manifest-dv"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The nodes that `--limit` hides below a node."""

    count: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """One file of the tree, the snapshot, or a manifest delete vector.

    `facts` are JSON-ready and differ by kind. `applies_to` holds ids of shown nodes: of the data
    files that a delete applies to, of the manifest that a manifest delete vector or an affiliated
    manifest of deletes does.
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
    """The source that a tree is drawn from; `entries` are those of all `manifests`.

    `root` is that of a version 4 snapshot; `killed` are the entries that its vectors name, of the
    shown manifests.
    """

    metadata: TableMetadata
    metadata_location: str
    snapshot: Snapshot | None
    manifests: Sequence[ManifestFile]
    entries: Entries
    root: RootManifest | None = None
    killed: Entries = rows.EMPTY


@dataclass(frozen=True, slots=True)
class Drawing:
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


def drawing(metadata: TableMetadata, entries: Entries, shown: Sequence[int], limit: int) -> Drawing:
    """Match the deletes of all manifests; `shown` of them are drawn, with `limit` files each."""
    unpartitioned = [spec.spec_id for spec in metadata.partition_specs if spec.is_unpartitioned]
    matches = deletes.match(entries, unpartitioned)
    data_rows = _rows_by_manifest(matches.data)
    visible = sorted(row for index in shown for row in data_rows.get(index, [])[:limit])
    # The visible ones are matched again by themselves, since all pairs may be a great many.
    visible_entries = rows.concat([rows.take(matches.data, visible), matches.deletes])
    targets: dict[int, tuple[str, ...]] = {}
    for pair in deletes.pairs(deletes.match(visible_entries, unpartitioned)).to_pylist():
        known = targets.get(pair["delete_row"], ())
        targets[pair["delete_row"]] = (*known, f"data_{visible[pair['data_row']]}")
    return Drawing(
        data=matches.data,
        deletes=matches.deletes,
        data_rows=data_rows,
        delete_rows=_rows_by_manifest(matches.deletes),
        applied=[int(count) for count in deletes.per_delete_file(matches)],
        targets=targets,
        partitions=partitions_of(metadata),
        limit=limit,
    )


def _rows_by_manifest(entries: Entries) -> Mapping[int, list[int]]:
    by_manifest: dict[int, list[int]] = {}
    for row, (index,) in enumerate(rows.by_row(entries, "manifest")):
        by_manifest.setdefault(index, []).append(row)
    return by_manifest


def manifest_node(manifest: ManifestFile, index: int, drawn: Drawing) -> Node:
    """Return a manifest with its live files."""
    children, left_out, live_count = file_nodes(manifest.content, index, drawn)
    of_data = manifest.content is ManifestContent.DATA
    facts: Row = {
        "content": "data" if of_data else "deletes",
        "size_bytes": manifest.manifest_length,
        "partition_spec_id": manifest.partition_spec_id,
        "sequence_number": manifest.sequence_number,
        "added_snapshot_id": id_text(manifest.added_snapshot_id),
        "live_file_count": live_count,
        "deleted_entry_count": manifest.deleted_files_count,
    }
    return Node(f"manifest_{index}", "manifest", manifest.manifest_path, facts, children, left_out)


def file_nodes(
    content: ManifestContent, index: int, drawn: Drawing
) -> tuple[tuple[Node, ...], LeftOut, int]:
    """The live files of one manifest: those that are shown, what is not, and how many there are."""
    of_data = content is ManifestContent.DATA
    entries, by_manifest = (
        (drawn.data, drawn.data_rows) if of_data else (drawn.deletes, drawn.delete_rows)
    )
    mine = by_manifest.get(index, [])
    shown, hidden = mine[: drawn.limit], mine[drawn.limit :]
    left_out = LeftOut(len(hidden), rows.total(rows.take(entries, hidden), "file_size_in_bytes"))
    nodes = []
    files = rows.by_row(rows.take(entries, shown), *_FILE_COLUMNS)
    for row, values in zip(shown, files, strict=True):
        node = _file(f"{'data' if of_data else 'delete'}_{row}", values, drawn)
        if not of_data:
            facts = {**node.facts, "applies_to_count": drawn.applied[row]}
            node = replace(node, facts=facts, applies_to=drawn.targets.get(row, ()))
        nodes.append(node)
    return tuple(nodes), left_out, len(mine)


def dead_files(entries: Entries, prefix: str, drawn: Drawing) -> tuple[tuple[Node, ...], LeftOut]:
    """Nodes of entries that are no longer live; ids begin with `prefix`. Order: kept."""
    shown = rows.part(entries, 0, drawn.limit)
    left_out = LeftOut(
        max(0, len(entries) - drawn.limit),
        rows.total(entries, "file_size_in_bytes") - rows.total(shown, "file_size_in_bytes"),
    )
    nodes = []
    for at, values in enumerate(rows.by_row(shown, *_FILE_COLUMNS)):
        node = _file(f"{prefix}_{at}", values, drawn)
        nodes.append(replace(node, facts={**node.facts, "dead": True}))
    return tuple(nodes), left_out


_FILE_COLUMNS = (
    "location", "content", "status", "file_format", "spec_id", "partition_key", "record_count",
    "file_size_in_bytes", "sequence_number", "referenced_data_file", "content_size_in_bytes",
    "manifest_pos",
)  # fmt: skip


def _file(node_id: str, values: tuple[Any, ...], drawn: Drawing) -> Node:
    file = dict(zip(_FILE_COLUMNS, values, strict=True))
    kind = kind_of(file["content"], file["file_format"])
    facts: dict[str, object] = {
        "status": Status(file["status"]).name.lower(),
        "position": file["manifest_pos"],
        "partition": drawn.partitions.record(file["spec_id"], file["partition_key"]),
        "record_count": file["record_count"],
        "size_bytes": file["content_size_in_bytes"] or file["file_size_in_bytes"],
        "sequence_number": file["sequence_number"],
    }
    if kind != "data":
        facts["referenced_data_file"] = file["referenced_data_file"]
    return Node(node_id, kind, file["location"], facts)


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
    """Return a tree for JSON: nested nodes, each with what the limit left out."""
    applies = node.kind in DELETE_KINDS | {MANIFEST_DV} or bool(node.applies_to)
    return {
        "id": node.id,
        "kind": node.kind,
        "location": node.location,
        **node.facts,
        **({"applies_to": list(node.applies_to)} if applies else {}),
        "children": [tree_json(child) for child in node.children],
        "children_left_out": node.left_out.count,
    }


def shown_manifests(manifests: Sequence[ManifestFile], limit: int | None) -> list[int]:
    """Indices of the manifests that are drawn, those of data before those of deletes."""
    listed = [index for index, manifest in enumerate(manifests) if not manifest.in_root]
    return sorted(listed, key=lambda index: manifests[index].content)[:limit]


def _snapshot_node(source: TreeSource, snapshot: Snapshot, limit: int) -> Node:
    facts: Row = {
        "snapshot_id": str(snapshot.snapshot_id),
        "parent_id": id_text(snapshot.parent_snapshot_id),
        "committed_at": print_instant(snapshot.timestamp_ms),
        "operation": snapshot.operation,
        "sequence_number": snapshot.sequence_number,
        "refs": names_by_snapshot(source.metadata).get(snapshot.snapshot_id, []),
    }
    data_first = shown_manifests(source.manifests, None)
    shown, hidden = data_first[:limit], data_first[limit:]
    hidden_bytes = sum(source.manifests[index].manifest_length for index in hidden)
    left_out = LeftOut(len(hidden), hidden_bytes)
    root_files = [index for index, manifest in enumerate(source.manifests) if manifest.in_root]
    drawn = drawing(source.metadata, source.entries, [*shown, *root_files], limit)
    nodes = tuple(manifest_node(source.manifests[index], index, drawn) for index in shown)
    if source.root is not None:
        root = root_node(source, source.root, nodes, left_out, drawn)
        return Node("snapshot", "snapshot", None, facts, (root,))
    if snapshot.manifest_list is None:
        return Node("snapshot", "snapshot", None, facts, nodes, left_out)
    count: Row = {"manifest_count": len(source.manifests)}
    listing = Node("list", "manifest-list", snapshot.manifest_list, count, nodes, left_out)
    return Node("snapshot", "snapshot", None, facts, (listing,))


def root_node(
    source: TreeSource, root: RootManifest, nodes: Sequence[Node], left_out: LeftOut, drawn: Drawing
) -> Node:
    """Hang what a root lists below it: `nodes` are its leaves, as any manifests.

    Order: each leaf before the vectors over it, then vectors over nothing, then own files: live
    ones, removed ones.
    """
    facts: Row = {
        "entry_count": root.entry_count,
        "size_bytes": root.size_bytes,
        "leaf_count": sum(not manifest.in_root for manifest in source.manifests),
    }
    ids = {node.location: node.id for node in nodes}
    children: list[Node] = []
    for node in nodes:
        children.append(_leaf(node, source.manifests[_index(node)], ids))
        children += _vectors(source, root, node, drawn)
    listed = {manifest.manifest_path for manifest in source.manifests if not manifest.in_root}
    children += [
        _vector(at, vector)
        for at, vector in enumerate(root.vectors)
        if vector.manifest_path not in listed
    ]
    root_files, hidden = _root_files(source, drawn)
    left_out = LeftOut(left_out.count + hidden.count, left_out.size_bytes + hidden.size_bytes)
    return Node("root", "root-manifest", root.location, facts, (*children, *root_files), left_out)


def _index(node: Node) -> int:
    return int(node.id.removeprefix("manifest_"))


def _leaf(node: Node, manifest: ManifestFile, ids: dict[str | None, str]) -> Node:
    counts = manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count
    data_leaf = manifest.affiliated_to
    facts = {
        **node.facts,
        "status": None if manifest.status is None else manifest.status.name.lower(),
        "file_format": manifest.file_format.name.lower(),
        "entry_count": sum(count or 0 for count in counts),
        "affiliated_to": data_leaf,
    }
    targets = (ids[data_leaf],) if data_leaf in ids else ()
    return replace(node, facts=facts, applies_to=targets)


def _vectors(source: TreeSource, root: RootManifest, leaf: Node, drawn: Drawing) -> list[Node]:
    """Return the vectors over a leaf, with the deleted files below the effective one."""
    nodes = []
    for at, vector in enumerate(root.vectors):
        if vector.manifest_path != leaf.location:
            continue
        node = replace(_vector(at, vector), applies_to=(leaf.id,))
        if vector.status is not Status.DELETED:
            killed = rows.in_manifests(source.killed, [_index(leaf)])
            children, left_out = dead_files(killed, f"dead_{at}", drawn)
            node = replace(node, children=children, left_out=left_out)
        nodes.append(node)
    return nodes


def _vector(at: int, vector: ManifestVector) -> Node:
    facts: Row = {
        "status": vector.status.name.lower(),
        "referenced_manifest": vector.manifest_path,
        "position_count": vector.position_count,
        "fresh_count": vector.fresh_count,
        "size_bytes": vector.size_bytes,
    }
    return Node(f"vector_{at}", MANIFEST_DV, vector.location, facts)


def _root_files(source: TreeSource, drawn: Drawing) -> tuple[list[Node], LeftOut]:
    """Return the files that the root lists itself, and those that are left out."""
    children: list[Node] = []
    count = size_bytes = 0
    for index, manifest in enumerate(source.manifests):
        if not manifest.in_root:
            continue
        live, left_out, _ = file_nodes(manifest.content, index, drawn)
        gone = rows.of_status(rows.in_manifests(source.entries, [index]), Status.DELETED)
        removed, more = dead_files(gone, f"gone_{index}", drawn)
        files = (*live, *removed)
        children += [replace(node, facts={**node.facts, "in_root": True}) for node in files]
        count += left_out.count + more.count
        size_bytes += left_out.size_bytes + more.size_bytes
    return children, LeftOut(count, size_bytes)
