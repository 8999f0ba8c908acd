"""What a version 4 snapshot changed, from its own root and the leaves that it marks (sfc-1 9)."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from icectl.entries.column_values import NONE, Positions
from icectl.entries.sfc1.rows import ListedRow
from icectl.spec.manifest import ManifestFile, Status
from icectl.spec.snapshot import Snapshot
from icectl.storage.location import comparison_key
from icectl.storage.store import Store
from icectl.table.sfc1.listed import leaf_manifest, own_manifests
from icectl.table.sfc1.live import is_dead, leaf_rows, vector_positions, vector_rows
from icectl.table.sfc1.manifests import TreeFacts, read_root
from icectl.table.snapshot_reader import Marked

_LIVE = frozenset({Status.ADDED, Status.EXISTING})


def marked_manifests(store: Store, facts: TreeFacts, snapshot: Snapshot) -> list[Marked]:
    """The manifests to read for what a snapshot changed (sfc-1 9.2); others have no part in it.

    Order: the root first, then of the root.
    Raises: StorageError; CorruptTable; Unsupported.
    """
    root = read_root(store, facts, snapshot)
    found = [
        Marked(manifest, frozenset({Status.ADDED}), frozenset({Status.DELETED}))
        for manifest in own_manifests(root, snapshot)
        if manifest.added_files_count or manifest.deleted_files_count
    ]
    marks = _marks(store, root)
    for leaf in leaf_rows(root):
        mark = marks.get(comparison_key(leaf.name), _Marks())
        is_dead(leaf, mark.of(*Status))  # V4-083
        found += _in_leaf(leaf, mark)
    return found


@dataclass(slots=True)
class _Marks:
    """Dead positions of a leaf by the status of the vector that names them."""

    by_status: dict[int, Positions] = field(default_factory=dict)

    def of(self, *statuses: Status) -> Positions:
        positions = NONE
        for status in statuses:
            positions = np.union1d(positions, self.by_status.get(status, NONE))
        return positions


def _marks(store: Store, root: pa.Table) -> dict[str, _Marks]:
    found: dict[str, _Marks] = {}
    for leaf, row in vector_rows(root):
        mark = found.setdefault(comparison_key(leaf), _Marks())
        mark.by_status[row.status] = vector_positions(store.read_range, row)
    return found


def _in_leaf(leaf: ListedRow, mark: _Marks) -> Iterator[Marked]:
    """How to read what changed in a leaf; nothing where nothing did (sfc-1 9.2 steps 3 to 5)."""
    fresh = np.setdiff1d(mark.of(Status.ADDED), mark.of(Status.DELETED))
    if leaf.status == Status.EXISTING:
        if len(fresh):
            yield Marked(_only(leaf, fresh), removed=_LIVE)
    elif leaf.status == Status.ADDED:
        manifest = leaf_manifest(leaf, mark.of(Status.ADDED, Status.EXISTING))
        yield Marked(manifest, frozenset({Status.ADDED}), frozenset({Status.DELETED}))
        if len(fresh):
            yield Marked(_only(leaf, fresh), removed=frozenset({Status.EXISTING}))
    else:
        manifest = leaf_manifest(leaf, mark.of(Status.DELETED, Status.EXISTING))
        yield Marked(manifest, removed=_LIVE, unless_live=True)


def _only(leaf: ListedRow, positions: Positions) -> ManifestFile:
    """A leaf in which everything but some positions is dead."""
    others = np.setdiff1d(np.arange(leaf.record_count, dtype=np.uint64), positions)
    return leaf_manifest(leaf, others)
