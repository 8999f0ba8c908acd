"""The tree view: metadata file, manifest list or root, manifests, and what applies to what."""

from collections.abc import Sequence
from dataclasses import replace

from icectl.commands.inspect.metadata_rows import id_text, names_by_snapshot
from icectl.commands.inspect.tree_nodes import (
    DELETE_KINDS,
    MANIFEST_DV,
    Drawing,
    LeftOut,
    Node,
    TreeSource,
    dead_files,
    drawing,
    file_nodes,
    manifest_node,
)
from icectl.commands.inspect.views import Row
from icectl.entries import rows
from icectl.format.manifest import ManifestFile, ManifestVector, RootManifest, Status
from icectl.format.snapshot import Snapshot
from icectl.units import print_instant


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


def shown_manifests(manifests: Sequence[ManifestFile], limit: int) -> list[int]:
    """Indices of the manifests that are drawn, those of data before those of deletes."""
    return _data_first(manifests)[:limit]


def _data_first(manifests: Sequence[ManifestFile]) -> list[int]:
    listed = [index for index, manifest in enumerate(manifests) if not manifest.in_root]
    return sorted(listed, key=lambda index: manifests[index].content)


def _snapshot_node(source: TreeSource, snapshot: Snapshot, limit: int) -> Node:
    facts: Row = {
        "snapshot_id": str(snapshot.snapshot_id),
        "parent_id": id_text(snapshot.parent_snapshot_id),
        "committed_at": print_instant(snapshot.timestamp_ms),
        "operation": snapshot.operation,
        "sequence_number": snapshot.sequence_number,
        "refs": names_by_snapshot(source.metadata).get(snapshot.snapshot_id, []),
    }
    shown = shown_manifests(source.manifests, limit)
    hidden = [source.manifests[index] for index in _data_first(source.manifests)[limit:]]
    left_out = LeftOut(len(hidden), sum(manifest.manifest_length for manifest in hidden))
    own = [index for index, manifest in enumerate(source.manifests) if manifest.in_root]
    drawn = drawing(source.metadata, source.entries, [*shown, *own], limit)
    nodes = tuple(manifest_node(source.manifests[index], index, drawn) for index in shown)
    if source.root is not None:
        root = root_node(source, source.root, nodes, left_out, drawn)
        return Node("snapshot", "snapshot", None, facts, (root,))
    if snapshot.manifest_list is None:
        return Node("snapshot", "snapshot", None, facts, nodes, left_out)
    list_facts: Row = {"manifest_count": len(source.manifests)}
    manifest_list = Node(
        "list", "manifest-list", snapshot.manifest_list, list_facts, nodes, left_out
    )
    return Node("snapshot", "snapshot", None, facts, (manifest_list,))


def root_node(
    source: TreeSource,
    root: RootManifest,
    nodes: Sequence[Node],
    left_out: LeftOut,
    drawn: Drawing,
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
    astray = [
        (at, vector) for at, vector in enumerate(root.vectors) if vector.manifest_path not in listed
    ]
    children += [_vector(at, vector) for at, vector in astray]
    own, hidden = _own(source, drawn)
    left_out = LeftOut(left_out.count + hidden.count, left_out.size_bytes + hidden.size_bytes)
    return Node("root", "root-manifest", root.location, facts, (*children, *own), left_out)


def _index(node: Node) -> int:
    return int(node.id.removeprefix("manifest_"))


def _leaf(node: Node, manifest: ManifestFile, ids: dict[str | None, str]) -> Node:
    counts = (
        manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count
    )  # fmt: skip
    home = manifest.affiliated_to
    facts = {
        **node.facts,
        "status": None if manifest.status is None else manifest.status.name.lower(),
        "file_format": manifest.file_format.name.lower(),
        "entry_count": sum(count or 0 for count in counts),
        "affiliated_to": home,
    }
    targets = (ids[home],) if home in ids else ()
    return replace(node, facts=facts, applies_to=targets)


def _vectors(source: TreeSource, root: RootManifest, leaf: Node, drawn: Drawing) -> list[Node]:
    """Return the vectors over a leaf; the one that counts has the files that it kills below it."""
    found = []
    for at, vector in enumerate(root.vectors):
        if vector.manifest_path != leaf.location:
            continue
        node = replace(_vector(at, vector), applies_to=(leaf.id,))
        if vector.status is not Status.DELETED:
            killed = rows.in_manifests(source.killed, [_index(leaf)])
            children, left_out = dead_files(killed, f"dead_{at}", drawn)
            node = replace(node, children=children, left_out=left_out)
        found.append(node)
    return found


def _vector(at: int, vector: ManifestVector) -> Node:
    facts: Row = {
        "status": vector.status.name.lower(),
        "referenced_manifest": vector.manifest_path,
        "position_count": vector.position_count,
        "fresh_count": vector.fresh_count,
        "size_bytes": vector.size_bytes,
    }
    return Node(f"vector_{at}", MANIFEST_DV, vector.location, facts)


def _own(source: TreeSource, drawn: Drawing) -> tuple[list[Node], LeftOut]:
    """Return the files that the root lists itself, and what is not shown of them."""
    children: list[Node] = []
    count = size_bytes = 0
    own = [index for index, manifest in enumerate(source.manifests) if manifest.in_root]
    for index in own:
        live, left_out, _ = file_nodes(source.manifests[index].content, index, drawn)
        of_manifest = rows.in_manifests(source.entries, [index])
        removed, more = dead_files(
            rows.of_status(of_manifest, Status.DELETED), f"gone_{index}", drawn
        )
        children += [
            replace(node, facts={**node.facts, "in_root": True}) for node in (*live, *removed)
        ]
        count += left_out.count + more.count
        size_bytes += left_out.size_bytes + more.size_bytes
    return children, LeftOut(count, size_bytes)
