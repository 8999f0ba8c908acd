"""Reading the metadata tree of a snapshot for `inspect`."""

from collections.abc import Sequence

from icectl.commands.inspect.tree_plan import TREE_SOURCES, Node, TreeSource, shown_manifests
from icectl.commands.inspect.tree_plan import tree as tree_view
from icectl.entries.rows import Entries, concat, with_manifest_number
from icectl.format.layout import layout_of_manifest
from icectl.format.manifest import ManifestFile
from icectl.table.manifest_lists import reader_of, snapshot_reader
from icectl.table.reader import Reader, SnapshotChoice, chosen_snapshot


def tree(reader: Reader, choice: SnapshotChoice, limit: int) -> Node:
    """Draw the metadata tree of the chosen snapshot.

    Raises: UsageError for a snapshot that is not there; what reading manifests raises.
    """
    snapshot = chosen_snapshot(reader.metadata, choice)
    manifests = reader.manifests(snapshot)
    root = None
    if snapshot is not None:
        root = snapshot_reader(reader.metadata, snapshot).root(reader.context.store, snapshot)
    source = TreeSource(
        metadata=reader.metadata,
        metadata_location=reader.loaded.metadata_location,
        snapshot=snapshot,
        manifests=manifests,
        entries=reader.load(manifests, TREE_SOURCES, to_match=True),
        root=root,
        killed=_killed(reader, manifests, limit),
    )
    return tree_view(source, limit)


def _killed(reader: Reader, manifests: Sequence[ManifestFile], limit: int) -> Entries:
    """Return the dead entries of the manifests that are shown."""
    struck = [index for index in shown_manifests(manifests, limit) if manifests[index].dead]
    killed = [
        reader_of(reader.metadata, layout_of_manifest(manifests[index])).deleted_only(
            manifests[index]
        )
        for index in struck
    ]
    parts = reader.scan(killed, TREE_SOURCES)
    numbered = ((part.table["manifest"][0].as_py(), part) for part in parts if len(part))
    return concat(with_manifest_number(part, struck[at]) for at, part in numbered)
