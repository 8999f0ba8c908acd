"""The last look at a version 4 commit before it is sent: is the new state what was asked for?

What would be stored is decoded again, and its live files are compared with those of the parent
state. Leaves that stay as they were are not read.
"""

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import NONE, Positions
from icectl.errors import SelfCheckFailed
from icectl.format.manifest import Content
from icectl.format.snapshot import Snapshot
from icectl.sfc1.commit.draft import NewTree, ParentState, TreeChange, TreeMeans
from icectl.sfc1.live import (
    ReadLeaf,
    leaf_rows,
    live_in_tree,
    live_rows,
    of_contents,
    vector_positions,
    vector_rows,
)
from icectl.sfc1.manifests import FILES, LEAVES, PLAIN, root_rows, rows_of_leaf
from icectl.sfc1.rows import ListedRow
from icectl.storage.location import comparison_key, comparison_keys
from icectl.storage.store import Store

_IDENTITY = ("content", "key", "content_offset")
_CARRIED = ("spec_id", "snapshot_id", "sequence_number", "file_sequence_number", "record_count")


class _NewState:
    """A composed state as readers would find it: new files come from memory, others by `means`.

    `dead` has positions of leaves by key.
    """

    def __init__(self, store: Store, means: TreeMeans, tree: NewTree, snapshot: Snapshot) -> None:
        self._store = store
        self._means = means
        self._new = {comparison_key(file.location): file.content for file in tree.files}
        self.rows = root_rows(means.facts, tree.root, snapshot, part=PLAIN)
        self.dead = {
            comparison_key(leaf): vector_positions(self._read_range, row)
            for leaf, row in vector_rows(live_rows(self.rows))
        }

    def read(self, leaf: ListedRow) -> pa.Table:
        """Return the rows of a leaf, perhaps without their statistics."""
        content = self._new.get(comparison_key(leaf.name))
        if content is None:
            return self._means.look(leaf)
        return rows_of_leaf(self._means.facts, content, leaf, part=PLAIN)

    def _read_range(self, location: str, offset: int, length: int) -> bytes:
        content = self._new.get(comparison_key(location))
        if content is None:
            return self._store.read_range(location, offset, length)
        return content[offset : offset + length]


def check(
    store: Store,
    means: TreeMeans,
    parent: ParentState,
    change: TreeChange,
    tree: NewTree,
    snapshot: Snapshot,
) -> None:
    """Compare the live files before and after (sfc-1 7.6 step 5): what was not to change has not.

    `snapshot` is the one that the root is of.
    Raises: SelfCheckFailed V4-160, where a file came, went or changed that should not have.
    Cost: reads the leaves that go, or whose delete vector changed.
    """
    new = _NewState(store, means, tree, snapshot)
    before_by_leaf, after_by_leaf = _leaves(parent.rows), _leaves(new.rows)
    same = {
        key
        for key in before_by_leaf & after_by_leaf
        if np.array_equal(parent.dead.get(key, NONE), new.dead.get(key, NONE))
    }
    before = _files(_beside(parent.rows, same), parent.dead, means.look)
    after = _files(_beside(new.rows, same), new.dead, new.read)
    gone, added = _files_of(tree.removed), _files_of(change.added)
    stays = _without(before, gone)
    if len(stays) != len(before) - len(gone):
        raise _wrong(f"{len(gone)} files go, of which {len(before) - len(stays)} were live")
    carried = _without(after, added)
    if len(carried) != len(after) - len(added):
        raise _wrong(f"{len(added)} files are new, of which {len(after) - len(carried)} live")
    differs = _difference(stays, carried)
    if differs is not None:
        raise _wrong(f"files that stay differ in {differs}")


def _wrong(difference: str) -> SelfCheckFailed:
    message = f"a new root does not have the files that it should: {difference}"
    return SelfCheckFailed(message, rule="V4-160")


def _leaves(rows: pa.Table) -> set[str]:
    return {comparison_key(leaf.name) for leaf in leaf_rows(live_rows(rows))}


def _beside(rows: pa.Table, same: Collection[str]) -> pa.Table:
    """Return the files of a root, and its leaves but for some."""
    live = live_rows(rows)
    leaves = of_contents(live, *LEAVES)
    changed = [comparison_key(str(place)) not in same for place in leaves["location"].to_pylist()]
    return pa.concat_tables(
        [of_contents(live, *FILES), leaves.filter(pa.array(changed, pa.bool_()))]
    )


def _files(rows: pa.Table, vectors: Mapping[str, Positions], read: ReadLeaf) -> pa.Table:
    return _files_of(live_in_tree(rows, vectors, read))


def _files_of(rows: pa.Table) -> pa.Table:
    """Return files by what identifies them (sfc-1 EN7), with what no commit changes of them."""
    is_vector = pc.equal(rows["content"], int(Content.POSITION_DELETES))
    offsets = pc.if_else(is_vector, pc.fill_null(rows["content_offset"], -1), -1)
    columns = {
        "content": rows["content"],
        "key": comparison_keys(rows["location"]),
        "content_offset": offsets,
        "first_row_id": rows["first_row_id"],
        **{name: rows[name] for name in _CARRIED},
    }
    table = pa.table(columns)
    return table.sort_by([(name, "ascending") for name in _IDENTITY])


def _without(files: pa.Table, others: pa.Table) -> pa.Table:
    if not len(others):
        return files
    keys = others.select(_IDENTITY)
    kept = files.join(keys, keys=list(_IDENTITY), join_type="left anti", use_threads=False)
    return kept.sort_by([(name, "ascending") for name in _IDENTITY])


def _difference(before: pa.Table, after: pa.Table) -> str | None:
    """Return the first column in which the same files differ.

    Null row ids may be filled (sfc-1 4.7).
    """
    if len(before) != len(after):
        return f"their number ({len(before)} and {len(after)})"
    for name in (*_IDENTITY, *_CARRIED):
        if not before[name].combine_chunks().equals(after[name].combine_chunks()):
            return name
    had = pc.is_valid(before["first_row_id"])
    ids_before, ids_after = (one["first_row_id"].filter(had) for one in (before, after))
    return None if ids_before.equals(ids_after) else "first_row_id"
