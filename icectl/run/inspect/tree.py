"""Running the tree view of `inspect`: the entries of a snapshot, and of version 4 what is dead."""

from collections.abc import Sequence

from icectl.entries.rows import Entries, concat, numbered
from icectl.plan.inspect.tree import shown_manifests
from icectl.plan.inspect.tree import tree as tree_view
from icectl.plan.inspect.tree_nodes import TREE_SOURCES, Node, TreeSource
from icectl.plan.snapshot_choice import SnapshotChoice, chosen_snapshot
from icectl.run.reader import Reader
from icectl.spec.layout import layout_of_manifest
from icectl.spec.manifest import ManifestFile
from icectl.table.manifest_lists import snapshot_reader
from icectl.table.snapshot_reader import reader_of


def tree(reader: Reader, choice: SnapshotChoice, limit: int) -> Node:
    """Draw the metadata tree of the chosen snapshot.

    Raises: UsageError for a snapshot that is not there; what reading manifests raises.
    """
    snapshot = chosen_snapshot(reader.metadata, choice)
    manifests = reader.manifests(snapshot)
    root = None
    if snapshot is not None:
        root = snapshot_reader(reader.metadata, snapshot).root(reader.store, snapshot)
    source = TreeSource(
        metadata=reader.metadata,
        metadata_location=reader.loaded.metadata_location,
        snapshot=snapshot,
        manifests=manifests,
        entries=reader.load_to_match(manifests, TREE_SOURCES),
        root=root,
        killed=_killed(reader, manifests, limit),
    )
    return tree_view(source, limit)


def _killed(reader: Reader, manifests: Sequence[ManifestFile], limit: int) -> Entries:
    """The dead entries of the manifests that are shown."""
    struck = [index for index in shown_manifests(manifests, limit) if manifests[index].dead]
    killed = [
        reader_of(reader.metadata, layout_of_manifest(manifests[index])).killed(manifests[index])
        for index in struck
    ]
    parts = reader.scan(killed, TREE_SOURCES)
    told = ((part.table["manifest"][0].as_py(), part) for part in parts if len(part))
    return concat(numbered(part, struck[at]) for at, part in told)
