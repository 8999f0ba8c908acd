"""A commit to a version 4 table: what an operation adds and removes, as a new root (sfc-1 7).

Pure but for the leaves that are read on the way: the files to write come back as values.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.codec.sfc1.manifest import TreeContent, write_tree
from icectl.commit.sfc1.draft import (
    DATA,
    DELETES,
    Attempt,
    Draft,
    NewTree,
    ParentState,
    TreeChange,
    TreeMeans,
    keys,
    with_status,
)
from icectl.commit.sfc1.find import RemovedPlaces, find
from icectl.commit.sfc1.leaves import NewVector, vector_rows
from icectl.commit.sfc1.maintenance import affiliate, by_home, compact, drop_dead_leaves, flush
from icectl.entries.columns.values import NONE
from icectl.errors import SelfCheckFailed
from icectl.spec.manifest import Content, Status
from icectl.storage.location import comparison_key
from icectl.table.sfc1.live import live_rows, of_contents
from icectl.table.sfc1.manifests import with_column

_ORDER = (
    Content.MANIFEST_DV, Content.DELETE_MANIFEST, Content.DATA_MANIFEST,
    Content.POSITION_DELETES, Content.EQUALITY_DELETES, Content.DATA,
)  # fmt: skip


def compose(means: TreeMeans, parent: ParentState, change: TreeChange, attempt: Attempt) -> NewTree:
    """Return the root that an operation makes of the parent state (sfc-1 7.1). Nothing is written.

    Raises: CommitConflict for a removed file that is not live.
    """
    kept = with_status(live_rows(parent.rows), Status.EXISTING)
    draft = Draft(means, attempt, kept, dict(parent.dead), change.homes)
    going = {gone.key for gone in change.removed}
    drop_dead_leaves(draft)
    compact(draft, change, going)
    flush(draft, change.added, going)
    found = find(draft, change)
    removed = _kill(draft, found)
    _place(draft, change.added)
    rows = _numbered(draft, removed)
    rows, added_rows = _with_row_ids(rows, attempt.first_row_id, draft.in_memory)
    footer = {
        "snapshot-id": str(attempt.snapshot_id),
        "sequence-number": str(attempt.sequence_number),
        "first-row-id": str(attempt.first_row_id),
    }
    root = write_tree(means.facts.stored(rows), TreeContent.ROOT, footer)
    return NewTree(rows, root, tuple(draft.files), added_rows, found.rows)


def _kill(draft: Draft, found: RemovedPlaces) -> pa.Table:
    """Turn what goes DELETED in the root, dead in leaves; returns the former (sfc-1 7.1 step 6)."""
    leaves = {comparison_key(leaf.name): leaf for leaf in draft.leaves()}
    references = keys(draft.kept["referenced_file"])
    contents = draft.kept["content"].to_pylist()
    outdated = [
        at
        for at, content in enumerate(contents)
        if content == Content.MANIFEST_DV and references[at] in found.in_leaves
    ]
    vectors = []
    for key, places in found.in_leaves.items():
        old = draft.dead.get(key, NONE)
        fresh = np.array(sorted(places), np.uint64)
        if len(np.intersect1d(old, fresh)):
            raise SelfCheckFailed(f"`{key}` is dead where it should live", rule="V4-084")
        vectors.append(NewVector(leaves[key], np.union1d(old, fresh)))
    inline = sum(len(content or b"") for content in draft.kept["inline_content"].to_pylist())
    rows, files = vector_rows(
        draft.means.facts,
        vectors,
        inline_max_bytes=draft.means.options.inline_max_bytes,
        inline_bytes_left=draft.means.options.inline_total_max_bytes - inline,
        new_puffin=draft.means.new_puffin,
    )
    draft.files += files
    draft.added.append(rows)
    going = sorted({*found.in_root, *outdated})
    gone = draft.kept.take(pa.array(going, pa.int64()))
    stays = np.ones(len(draft.kept), bool)
    stays[going] = False
    draft.kept = draft.kept.filter(pa.array(stays))
    return gone


def _place(draft: Draft, added: pa.Table) -> None:
    """Put new files into the root, or into leaves where they are too many (sfc-1 7.1 step 8)."""
    added = with_status(added, Status.ADDED)
    options = draft.means.options
    data = of_contents(added, *DATA)
    if len(of_contents(draft.kept, *DATA)) + len(data) <= options.max_data_files:
        draft.added.append(data)
    else:
        draft.added += draft.write(_to_inherit(data), TreeContent.DATA, Status.ADDED)
    deletes = of_contents(added, *DELETES)
    if len(of_contents(draft.kept, *DELETES)) + len(deletes) <= options.max_delete_entries:
        draft.added.append(deletes)
        return
    alone = [of_contents(deletes, Content.EQUALITY_DELETES)]
    for home, rows in by_home(draft, of_contents(deletes, Content.POSITION_DELETES)):
        if home is None or len(rows) < 2:
            alone.insert(-1, rows)
            continue
        leaves = draft.write(_to_inherit(rows), TreeContent.DELETE, Status.ADDED)
        draft.added += [affiliate(leaf, home) for leaf in leaves]
    rest = _to_inherit(pa.concat_tables(alone))
    draft.added += draft.write(rest, TreeContent.DELETE, Status.ADDED)


def _to_inherit(rows: pa.Table) -> pa.Table:
    """Return rows without what a leaf gives them, so that it survives a retry."""
    for name in ("snapshot_id", "file_sequence_number", "first_row_id"):
        rows = with_column(rows, name, pa.nulls(len(rows), pa.int64()))
    return rows


# -- numbers --------------------------------------------------------------------------------------


def _numbered(draft: Draft, gone: pa.Table) -> pa.Table:
    """All rows of the root in their order, with what this attempt gives them (sfc-1 7.1 step 9)."""
    attempt = draft.attempt
    deleted = _filled(with_status(gone, Status.DELETED), attempt, ["snapshot_id"])
    both = ["snapshot_id", "sequence_number", "file_sequence_number"]
    existing = [_filled(part, attempt, both) for part in draft.existing]
    added = [_filled(part, attempt, both, keep=("sequence_number",)) for part in draft.added]
    rows = pa.concat_tables([draft.kept, *existing, *added, deleted])
    ranks = np.array([_ORDER.index(Content(code)) for code in rows["content"].to_pylist()], np.int8)
    return rows.take(pa.array(np.argsort(ranks, kind="stable"))).combine_chunks()


def _filled(
    rows: pa.Table, attempt: Attempt, names: Sequence[str], keep: Sequence[str] = ()
) -> pa.Table:
    for name in names:
        number = attempt.snapshot_id if name == "snapshot_id" else attempt.sequence_number
        values = pa.repeat(pa.scalar(number, pa.int64()), len(rows))
        if name in keep:
            values = pc.coalesce(rows[name], values)
        rows = with_column(rows, name, values)
    return rows


def _with_row_ids(
    rows: pa.Table, first_row_id: int, in_memory: Mapping[str, pa.Table]
) -> tuple[pa.Table, int]:
    """Give live data files and data leaves their first row ids (sfc-1 4.7); second: ids used.

    A leaf that was not read is taken to have rows without ids: only older versions wrote such.
    """
    contents = rows["content"].to_numpy()
    waits = rows["first_row_id"].is_null().to_numpy() & (
        rows["status"].to_numpy() != int(Status.DELETED)
    )
    is_file = waits & (contents == int(Content.DATA))
    is_leaf = waits & (contents == int(Content.DATA_MANIFEST))
    is_numbered = np.zeros(len(rows), bool)
    in_leaves = pc.add(rows["added_rows_count"], rows["existing_rows_count"])
    for at in np.flatnonzero(is_leaf):
        held = in_memory.get(comparison_key(rows["location"][at].as_py()))
        if held is not None and not held["first_row_id"].null_count:
            is_numbered[at] = True
    uses = np.where(is_file, rows["record_count"].to_numpy(), 0)
    uses += np.where(is_leaf & ~is_numbered, pc.fill_null(in_leaves, 0).to_numpy(), 0)
    starts = first_row_id + np.cumsum(uses) - uses
    ids = pc.if_else(
        pa.array(is_file | is_leaf), pa.array(starts, pa.int64()), rows["first_row_id"]
    )
    return with_column(rows, "first_row_id", ids), int(uses.sum())
