"""Maintenance of the parent state by a version 4 commit, before its operation: without changing it.

Leaves in which nothing lives go, chosen ones are written anew, and files of the root move into
leaves where they have become too many (sfc-1 7.6, 7.7).
"""

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.codec.sfc1.manifest import TreeContent
from icectl.commit.sfc1.draft import (
    DATA,
    DELETES,
    Draft,
    Identity,
    TreeChange,
    identities,
    keys,
    with_status,
)
from icectl.commit.sfc1.find import homes
from icectl.entries.columns.values import NONE
from icectl.entries.sfc1.rows import ListedRow
from icectl.spec.manifest import Content, Status
from icectl.storage.location import comparison_key
from icectl.table.sfc1.live import is_dead, leaf_rows, of_contents, without
from icectl.table.sfc1.manifests import LEAVES, with_column


def drop_dead_leaves(draft: Draft) -> None:
    """Leaves in which nothing lives go, with their vectors (sfc-1 7.1 step 4a)."""
    gone = set()
    for leaf in leaf_rows(draft.kept):
        key = comparison_key(leaf.name)
        positions = draft.dead.get(key, NONE)
        if len(positions) < leaf.live_count:
            continue
        if is_dead(leaf, positions) or not len(without(draft.look_at(leaf), positions)):
            gone.add(key)
    _drop_leaves(draft, gone)


def compact(draft: Draft, change: TreeChange, going: set[Identity]) -> None:
    """Write the live rows of chosen leaves, and chosen files of the root, anew (sfc-1 7.6)."""
    if not change.rewritten and not change.rewritten_files:
        return
    affiliated = _affiliated(draft, change.rewritten)
    for content, contents, kind in (
        (Content.DATA_MANIFEST, DATA, TreeContent.DATA),
        (Content.DELETE_MANIFEST, DELETES, TreeContent.DELETE),
    ):
        parts = [
            without(draft.rows_of(leaf), draft.dead.get(key, NONE))
            for key, leaf in _chosen(draft, change.rewritten)
            if leaf.content == content
        ]
        taken = _take(
            draft,
            lambda row, of=contents: (  # type: ignore[misc]
                row[0] in of and row[1] in change.rewritten_files and row not in going
            ),
        )
        rows = pa.concat_tables([*parts, taken])
        if kind is TreeContent.DATA:
            write_existing(draft, rows, kind)
            continue
        _drop_leaves(draft, set(change.rewritten))
        write_existing(draft, rows, kind, _one_home(draft, rows))
    _repair_affinity(draft, affiliated)


def _chosen(draft: Draft, chosen: Iterable[str]) -> list[tuple[str, ListedRow]]:
    wanted = set(chosen)
    leaves = [(comparison_key(leaf.name), leaf) for leaf in leaf_rows(draft.kept)]
    return [(key, leaf) for key, leaf in leaves if key in wanted]


def flush(draft: Draft, added: pa.Table, going: set[Identity]) -> None:
    """Move files of the root into leaves where they would be too many (sfc-1 7.7)."""
    options = draft.means.options
    if _excess(draft, added, DATA, options.max_data_files, going) > 0:
        taken = _take(draft, lambda row: row[0] in DATA and row not in going)
        write_existing(draft, taken, TreeContent.DATA)
    excess = _excess(draft, added, DELETES, options.max_delete_entries, going)
    if excess > 0:
        _flush_deletes(draft, excess, going)


def _excess(
    draft: Draft, added: pa.Table, contents: Iterable[Content], limit: int, going: set[Identity]
) -> int:
    """Count the files of the root that would be too many; 0 where there are none to move."""
    contents = tuple(contents)
    new = len(of_contents(added, *contents))
    carried = sum(
        identity not in going for identity in identities(of_contents(draft.kept, *contents))
    )
    return min(carried, carried + (new if new <= limit else 0) - limit)


def _flush_deletes(draft: Draft, excess: int, going: set[Identity]) -> None:
    """Vectors of files in leaves first; others only where that is not enough (sfc-1 7.7 step 3)."""
    in_root = {key for code, key, _ in identities(draft.kept) if code == Content.DATA}
    references = dict(zip(identities(draft.kept), keys(draft.kept["referenced_file"]), strict=True))

    def of_leaf(row: Identity) -> bool:
        """Tell whether a row is a vector that does not go anyway, of a data file in a leaf."""
        is_vector = row[0] == Content.POSITION_DELETES
        return is_vector and row not in going and references[row] not in in_root

    taken = _take(draft, of_leaf)
    if excess > len(taken):
        rest = _take(draft, lambda row: row[0] in DELETES and row not in going)
    else:
        rest = draft.means.facts.empty()
    alone = []
    for home, rows in by_home(draft, taken):
        if home is None or len(rows) < 2:
            alone.append(rows)
        else:
            write_existing(draft, rows, TreeContent.DELETE, home)
    write_existing(draft, pa.concat_tables([*alone, rest]), TreeContent.DELETE)


def by_home(draft: Draft, vectors: pa.Table) -> list[tuple[str | None, pa.Table]]:
    """Delete vectors by the data leaf that their data files are in, by its location (sfc-1 4.5).

    Shape: None for those whose data file is in the root; all None without affinity.
    Order: of the first vector of each leaf; those of None last.
    """
    if not draft.means.options.affinity or not len(vectors):
        return [(None, vectors)]
    references = [str(key) for key in keys(vectors["referenced_file"])]
    found = homes(draft, set(references))
    places = [found.get(key) for key in references]
    groups: list[tuple[str | None, pa.Table]] = []
    for home in [*dict.fromkeys(place for place in places if place is not None), None]:
        mask = pa.array([place == home for place in places])
        groups.append((home, vectors.filter(mask)))
    return groups


def _one_home(draft: Draft, rows: pa.Table) -> str | None:
    """Return the data leaf that the files of all these vectors are in.

    None where there is no such.
    """
    if set(rows["content"].unique().to_pylist()) != {Content.POSITION_DELETES}:
        return None
    groups = [home for home, part in by_home(draft, rows) if len(part)]
    return groups[0] if len(groups) == 1 else None


def write_existing(
    draft: Draft, rows: pa.Table, kind: TreeContent, home: str | None = None
) -> None:
    """Write rows of the parent state into new leaves; `home` is the data leaf they belong to."""
    if len(rows):
        leaves = draft.write(with_status(rows, Status.EXISTING), kind, Status.EXISTING)
        draft.existing += [affiliate(leaf, home) for leaf in leaves]


def affiliate(leaf: pa.Table, home: str | None) -> pa.Table:
    """Return the row of a leaf, with the data leaf that it belongs to."""
    return leaf if home is None else with_column(leaf, "referenced_file", pa.array([home]))


def _take(draft: Draft, wanted: Callable[[Identity], bool]) -> pa.Table:
    """Take files out of the root. Order: of the root."""
    mask = pa.array([wanted(identity) for identity in identities(draft.kept)], pa.bool_())
    taken = draft.kept.filter(mask)
    draft.kept = draft.kept.filter(pc.invert(mask))
    return taken


def _drop_leaves(draft: Draft, gone: set[str]) -> None:
    """Take leaves and their vectors out of the root; what was affiliated to them no more is."""
    if not gone:
        return
    contents = draft.kept["content"].to_numpy()
    is_leaf = np.isin(contents, [int(one) for one in LEAVES])
    places = np.array([key in gone for key in keys(draft.kept["location"])], bool)
    references = np.array([key in gone for key in keys(draft.kept["referenced_file"])], bool)
    drop = (is_leaf & places) | ((contents == int(Content.MANIFEST_DV)) & references)
    cleared = pc.if_else(
        pa.array(is_leaf & references), pa.scalar(None, pa.string()), draft.kept["referenced_file"]
    )
    draft.kept = with_column(draft.kept, "referenced_file", cleared).filter(pa.array(~drop))
    for key in gone:
        draft.dead.pop(key, None)


def _affiliated(draft: Draft, rewritten: frozenset[str]) -> list[str]:
    """Delete leaves that stay, of data leaves that are rewritten."""
    found = []
    for leaf in leaf_rows(draft.kept):
        key = comparison_key(leaf.name)
        home = leaf.referenced_file
        if home is not None and comparison_key(str(home)) in rewritten and key not in rewritten:
            found.append(key)
    return found


def _repair_affinity(draft: Draft, leaves: list[str]) -> None:
    """Point delete leaves to the data leaf that their files moved to, if it is one (sfc-1 A3)."""
    for key, leaf in _chosen(draft, leaves):
        rows = without(draft.look_at(leaf), draft.dead.get(key, NONE))
        home = _one_home(draft, rows)
        if home is None:
            continue
        mask = pa.array([found == key for found in keys(draft.kept["location"])])
        pointed = pc.if_else(mask, pa.scalar(home), draft.kept["referenced_file"])
        draft.kept = with_column(draft.kept, "referenced_file", pointed)
