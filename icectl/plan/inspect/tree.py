"""The tree view: metadata file, manifest list or root, manifests, and what applies to what."""

from collections.abc import Sequence

from icectl.plan.inspect.metadata_rows import id_text, names_by_snapshot
from icectl.plan.inspect.tree_nodes import (
    DELETE_KINDS,
    MANIFEST_DV,
    LeftOut,
    Node,
    TreeSource,
    drawing,
    manifest_node,
)
from icectl.plan.inspect.tree_root import root_node
from icectl.plan.inspect.views import Row
from icectl.spec.manifest import ManifestFile
from icectl.spec.snapshot import Snapshot
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
    """A tree for JSON: nested nodes, each with what the limit left out."""
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
