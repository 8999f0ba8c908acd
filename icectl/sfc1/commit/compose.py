"""A commit to a version 4 table: what an operation adds and removes, as a new root (sfc-1 7).

Pure but for the leaves that are read on the way: the files to write come back as values.
"""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import NONE, Positions, whole
from icectl.errors import CommitConflict, SelfCheckFailed
from icectl.format.manifest import Content, Status
from icectl.sfc1.commit.clustering import ClusteredRows
from icectl.sfc1.commit.draft import (
    DATA,
    DELETES,
    Attempt,
    CommitContext,
    Draft,
    Identity,
    NewTree,
    ParentState,
    TreeChange,
    identities,
    keys,
    vector_rows,
    with_status,
)
from icectl.sfc1.manifest_file import STATS, ListedRow, TreeContent, write_tree
from icectl.sfc1.manifests import (
    FILES,
    LEAVES,
    is_dead,
    leaf_rows,
    live_rows,
    of_contents,
    with_column,
    without,
)
from icectl.storage.location import comparison_key, comparison_keys

_ORDER = (
    Content.MANIFEST_DV, Content.DELETE_MANIFEST, Content.DATA_MANIFEST,
    Content.POSITION_DELETES, Content.EQUALITY_DELETES, Content.DATA,
)  # fmt: skip
_RANKS = np.argsort(_ORDER)
"""The place of each content in this order."""

_IDENTIFYING = ["content", "location", "content_offset", "referenced_file"]

Place = tuple[str | None, int]
"""The comparison key of a leaf, None for the root, and a row there."""


@dataclass(frozen=True, slots=True)
class RemovedPlaces:
    """The places of removed files: rows of the root, and positions of leaves in order of finding.

    `leaves` has the rows of these leaves, `rows` the removed files themselves, those of the root
    first.
    """

    in_root: list[int]
    in_leaves: dict[str, list[int]]
    leaves: dict[str, ListedRow]
    rows: pa.Table


def compose(
    means: CommitContext, parent: ParentState, change: TreeChange, attempt: Attempt
) -> NewTree:
    """Return the root that an operation makes of the parent state (sfc-1 7.1). Nothing is written.

    Raises: CommitConflict for a removed file that is not live.
    """
    kept = with_status(live_rows(parent.rows), Status.EXISTING)
    kept = _with_statistics(kept, change.statistics)
    draft = Draft(means, attempt, kept, dict(parent.dead), change.data_leaves)
    going = {gone.key for gone in change.removed}
    drop_emptied_leaves(draft)
    compact(draft, change, going)
    flush(draft, change.added, going)
    places = find(draft, change)
    removed = _kill(draft, places)
    _place(draft, change.added)
    rows = _numbered(draft, removed)
    rows, added_rows = _with_row_ids(rows, attempt.first_row_id, draft.new_leaves)
    footer = {
        "snapshot-id": str(attempt.snapshot_id),
        "sequence-number": str(attempt.sequence_number),
        "first-row-id": str(attempt.first_row_id),
    }
    root = write_tree(means.facts.stored(rows), TreeContent.ROOT, footer)
    files, stored = tuple(draft.files), tuple(draft.stored)
    return NewTree(rows, root, files, added_rows, places.rows, stored)


def _with_statistics(kept: pa.Table, of_leaves: Mapping[str, pa.StructArray]) -> pa.Table:
    """Return rows with the statistics of some leaves, by key, in the place of their own."""
    if not of_leaves:
        return kept
    stored = whole(kept[STATS])
    places = enumerate(map(str, keys(kept["location"])))
    column = pa.concat_arrays([of_leaves.get(key, stored.slice(at, 1)) for at, key in places])
    return kept.set_column(kept.column_names.index(STATS), kept.schema.field(STATS), column)


def drop_emptied_leaves(draft: Draft) -> None:
    """Leaves in which nothing lives go, with their vectors (sfc-1 7.1 step 4a)."""
    gone = set()
    counts = pc.add(draft.kept["added_files_count"], draft.kept["existing_files_count"])
    with_dead = pa.array(list(draft.dead), pa.string())
    has_dead = pc.is_in(comparison_keys(draft.kept["location"]), with_dead)
    may_be_empty = pc.or_(pc.fill_null(pc.equal(counts, 0), fill_value=True), has_dead)
    for leaf in leaf_rows(draft.kept.filter(may_be_empty)):
        key = comparison_key(leaf.name)
        positions = draft.dead.get(key, NONE)
        if len(positions) < leaf.live_count:
            continue
        if is_dead(leaf, positions) or not len(without(draft.look_at(leaf), positions)):
            gone.add(key)
    _drop_leaves(draft, gone)


def compact(draft: Draft, change: TreeChange, going: set[Identity]) -> None:
    """Write the live rows of chosen leaves, and chosen files of the root, again (sfc-1 7.6)."""
    if not change.rewritten and not change.rewritten_files:
        return
    affiliated = {  # delete leaves that stay, of data leaves that are rewritten
        key
        for leaf in leaf_rows(draft.kept)
        if (key := comparison_key(leaf.name)) not in change.rewritten
        and leaf.referenced_file is not None
        and comparison_key(leaf.referenced_file) in change.rewritten
    }
    for content, contents, kind in (
        (Content.DATA_MANIFEST, DATA, TreeContent.DATA),
        (Content.DELETE_MANIFEST, DELETES, TreeContent.DELETE),
    ):
        chosen = [
            (leaf, draft.dead.get(key, NONE))
            for key, leaf in _chosen(draft, change.rewritten)
            if leaf.content == content
        ]
        taken = _take(
            draft,
            lambda row, of=contents: (  # type: ignore[misc]
                row[0] in of and row[1] in change.rewritten_files and row not in going
            ),
        )
        with ClusteredRows(draft.means.facts, draft.means.options.sort_by) as ordered:
            with draft.means.ahead([leaf for leaf, _ in chosen]):
                for leaf, dead in chosen:
                    ordered.add(without(draft.means.read(leaf), dead))
            ordered.add(taken)
            if kind is TreeContent.DATA:
                draft.existing += _written_again(draft, ordered, kind)
                continue
            _drop_leaves(draft, set(change.rewritten))
            leaves = _written_again(draft, ordered, kind)
        data_leaf = _one_data_leaf(draft, leaves)
        draft.existing += [affiliate(leaf, data_leaf) for leaf in leaves]
    _repair_affinity(draft, affiliated)


def _chosen(draft: Draft, chosen: Set[str]) -> list[tuple[str, ListedRow]]:
    leaves = [(comparison_key(leaf.name), leaf) for leaf in leaf_rows(draft.kept)]
    return [(key, leaf) for key, leaf in leaves if key in chosen]


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
    draft: Draft, added: pa.Table, contents: Sequence[Content], limit: int, going: set[Identity]
) -> int:
    """Count the files of the root that would be too many; 0 where there are none to move."""
    new = len(of_contents(added, *contents))
    files = of_contents(draft.kept, *contents)
    carried = sum(identity not in going for identity in identities(files))
    return min(carried, carried + (new if new <= limit else 0) - limit)


def _flush_deletes(draft: Draft, excess: int, going: set[Identity]) -> None:
    """Vectors of files in leaves first; others only where that is not enough (sfc-1 7.7 step 3)."""
    in_root = {key for code, key, _ in identities(draft.kept) if code == Content.DATA}
    references = dict(zip(identities(draft.kept), keys(draft.kept["referenced_file"]), strict=True))

    def of_leaf(row: Identity) -> bool:
        is_vector = row[0] == Content.POSITION_DELETES
        return is_vector and row not in going and references[row] not in in_root

    taken, alone = _take(draft, of_leaf), []
    rest = draft.means.facts.empty()
    if excess > len(taken):
        rest = _take(draft, lambda row: row[0] in DELETES and row not in going)
    for data_leaf, rows in group_by_data_leaf(draft, taken):
        if data_leaf is None or len(rows) < 2:
            alone.append(rows)
        else:
            write_existing(draft, rows, TreeContent.DELETE, data_leaf)
    write_existing(draft, pa.concat_tables([*alone, rest]), TreeContent.DELETE)


def group_by_data_leaf(draft: Draft, vectors: pa.Table) -> list[tuple[str | None, pa.Table]]:
    """Delete vectors by the data leaf that their data files are in, by its location (sfc-1 4.5).

    Shape: None for those whose data file is in the root; all None without affinity.
    Order: of the first vector of each leaf; those of None last.
    """
    if not draft.means.options.affinity or not len(vectors):
        return [(None, vectors)]
    references = [str(key) for key in keys(vectors["referenced_file"])]
    leaves = data_leaves_of(draft, set(references))
    places = [leaves.get(key) for key in references]
    groups: list[tuple[str | None, pa.Table]] = []
    for data_leaf in [*dict.fromkeys(place for place in places if place is not None), None]:
        mask = pa.array([place == data_leaf for place in places])
        groups.append((data_leaf, vectors.filter(mask)))
    return groups


def _one_data_leaf(draft: Draft, delete_leaves: Sequence[pa.Table]) -> str | None:
    """Return the data leaf that holds the data files of all deletes in some leaves, if one does."""
    leaves = [leaf for rows in delete_leaves for leaf in leaf_rows(rows)]
    data_leaves = [leaf for leaf in draft.leaves() if leaf.content == Content.DATA_MANIFEST]
    most = max((leaf.record_count for leaf in data_leaves), default=0)
    dead = [draft.dead.get(comparison_key(leaf.name), NONE) for leaf in leaves]
    count = sum(leaf.live_count for leaf in leaves) - sum(map(len, dead))
    if not 0 < count <= most:  # a data file has one vector at most
        return None
    names = map(without, map(draft.names_of, leaves), dead)
    rows = pa.concat_tables(part.select(["content", "referenced_file"]) for part in names)
    if set(rows["content"].unique().to_pylist()) != {Content.POSITION_DELETES}:
        return None
    groups = [data_leaf for data_leaf, part in group_by_data_leaf(draft, rows) if len(part)]
    return groups[0] if len(groups) == 1 else None


def write_existing(
    draft: Draft, rows: pa.Table, kind: TreeContent, data_leaf: str | None = None
) -> None:
    """Write rows of the parent state into new leaves, by partition.

    `data_leaf` is the data leaf of their files.
    """
    with ClusteredRows(draft.means.facts, draft.means.options.sort_by) as ordered:
        ordered.add(rows)
        leaves = _written_again(draft, ordered, kind)
    draft.existing += [affiliate(leaf, data_leaf) for leaf in leaves]


def _written_again(draft: Draft, ordered: ClusteredRows, kind: TreeContent) -> list[pa.Table]:
    rows = (with_status(part, Status.EXISTING) for part in ordered.tables())
    return draft.write(rows, ordered.count, kind, Status.EXISTING)


def affiliate(leaf: pa.Table, data_leaf: str | None) -> pa.Table:
    """Return the row of a leaf, with the data leaf that it belongs to."""
    if data_leaf is None:
        return leaf
    return with_column(leaf, "referenced_file", pa.array([data_leaf]))


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


def _repair_affinity(draft: Draft, leaves: Set[str]) -> None:
    """Point delete leaves to the data leaf that their files moved to, if it is one (sfc-1 A3)."""
    for key, _ in _chosen(draft, leaves):
        mask = pa.array([found == key for found in keys(draft.kept["location"])])
        data_leaf = _one_data_leaf(draft, [draft.kept.filter(mask)])
        if data_leaf is None:
            continue
        pointed = pc.if_else(mask, pa.scalar(data_leaf), draft.kept["referenced_file"])
        draft.kept = with_column(draft.kept, "referenced_file", pointed)


def _kill(draft: Draft, removed: RemovedPlaces) -> pa.Table:
    """Turn what goes DELETED in the root, dead in leaves; returns the former (sfc-1 7.1 step 6)."""
    references = keys(draft.kept["referenced_file"])
    contents = draft.kept["content"].to_pylist()
    outdated = [
        at
        for at, content in enumerate(contents)
        if content == Content.MANIFEST_DV and references[at] in removed.in_leaves
    ]
    vectors = []
    for key, places in removed.in_leaves.items():
        old = draft.dead.get(key, NONE)
        fresh = np.array(sorted(places), np.uint64)
        if len(np.intersect1d(old, fresh)):
            raise SelfCheckFailed(f"`{key}` is dead where it should live", rule="V4-084")
        vectors.append((removed.leaves[key], np.union1d(old, fresh)))
    inline = sum(len(content or b"") for content in draft.kept["inline_content"].to_pylist())
    room = draft.means.options.inline_total_max_bytes - inline
    rows, files = vector_rows(draft.means, vectors, room)
    draft.files += files
    draft.added.append(rows)
    going = sorted({*removed.in_root, *outdated})
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
        draft.added += _written(draft, _to_inherit(data), TreeContent.DATA)
    deletes = of_contents(added, *DELETES)
    if len(of_contents(draft.kept, *DELETES)) + len(deletes) <= options.max_delete_entries:
        draft.added.append(deletes)
        return
    alone = [of_contents(deletes, Content.EQUALITY_DELETES)]
    vectors = of_contents(deletes, Content.POSITION_DELETES)
    for data_leaf, rows in group_by_data_leaf(draft, vectors):
        if data_leaf is None or len(rows) < 2:
            alone.insert(-1, rows)
            continue
        leaves = _written(draft, _to_inherit(rows), TreeContent.DELETE)
        draft.added += [affiliate(leaf, data_leaf) for leaf in leaves]
    rest = _to_inherit(pa.concat_tables(alone))
    draft.added += _written(draft, rest, TreeContent.DELETE)


def _written(draft: Draft, rows: pa.Table, kind: TreeContent) -> list[pa.Table]:
    return draft.write([rows], len(rows), kind, Status.ADDED)


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
    order = np.argsort(_RANKS[rows["content"].to_numpy()], kind="stable")
    return rows.take(pa.array(order)).combine_chunks()


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
    rows: pa.Table, first_row_id: int, new_leaves: Mapping[str, bool]
) -> tuple[pa.Table, int]:
    """Give live data files and data leaves their first row ids (sfc-1 4.7); second: ids used.

    `new_leaves` has the keys of new leaves, and whether all their rows have ids. Any other leaf is
    taken to have rows without: only older versions wrote such.
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
        is_numbered[at] = new_leaves.get(comparison_key(rows["location"][at].as_py()), False)
    uses = np.where(is_file, rows["record_count"].to_numpy(), 0)
    uses += np.where(is_leaf & ~is_numbered, pc.fill_null(in_leaves, 0).to_numpy(), 0)
    starts = first_row_id + np.cumsum(uses) - uses
    ids = pc.if_else(
        pa.array(is_file | is_leaf), pa.array(starts, pa.int64()), rows["first_row_id"]
    )
    return with_column(rows, "first_row_id", ids), int(uses.sum())


# -- where removed files are ----------------------------------------------------------------------


def find(draft: Draft, change: TreeChange) -> RemovedPlaces:
    """Locate what goes: the removed files, their delete vectors, and vectors that are replaced.

    Raises: CommitConflict for a removed file that is not live.
    Cost: data leaves are read until all that is looked for was found, those first that it was seen
    in; delete leaves, where data files go or get new vectors, but for those of other data leaves.
    """
    vectors = of_contents(change.added, Content.POSITION_DELETES)
    new_data = set(keys(of_contents(change.added, Content.DATA)["location"]))
    replaced = [str(key) for key in keys(vectors["referenced_file"]) if key not in new_data]
    gone_data = [gone.key[1] for gone in change.removed if gone.content is Content.DATA]
    seen_in = {comparison_key(one.leaf) for one in change.removed if one.leaf is not None}
    search = _Search(draft, {one.key for one in change.removed}, {*gone_data, *replaced})
    search.look_through(seen_in, change.data_leaves)
    order: list[Place] = []
    for gone in change.removed:
        place = search.places.get(gone.key)
        if place is None:
            raise CommitConflict(f"`{gone.location}` was removed by another commit")
        order.append(place)
        if gone.content is Content.DATA:
            order += search.vectors.get(comparison_key(gone.location), [])
    for key in replaced:
        order += search.vectors.get(key, [])
    in_root: list[int] = []
    in_leaves: dict[str, list[int]] = {}
    for leaf, at in dict.fromkeys(order):
        if leaf is None:
            in_root.append(at)
        else:
            in_leaves.setdefault(leaf, []).append(at)
    rows = [draft.kept.take(pa.array(in_root, pa.int64()))]
    for leaf, places in in_leaves.items():
        rows.append(draft.look_at(search.leaves[leaf]).take(pa.array(places, pa.int64())))
    return RemovedPlaces(in_root, in_leaves, search.leaves, pa.concat_tables(rows))


def data_leaves_of(draft: Draft, data_files: set[str]) -> dict[str, str]:
    """Return the location of the data leaf that each data file is live in.

    Those in the root lack.
    """
    leaves = dict(_by_key(draft.leaves(), Content.DATA_MANIFEST))
    by_file = {
        file: leaves[data_leaf].name
        for file, data_leaf in draft.data_leaves.items()
        if file in data_files and data_leaf in leaves
    }
    in_root = keys(of_contents(draft.kept, Content.DATA)["location"])
    left = data_files - by_file.keys() - set(in_root)
    for key, leaf in leaves.items():
        if not left:
            break
        wanted = pa.array(left, pa.string())
        if not draft.may_list(leaf, wanted):
            continue
        rows = draft.names_of(leaf)
        for at in _matching(rows, "location", wanted, draft.dead.get(key, NONE)):
            by_file[comparison_key(rows["location"][at].as_py())] = leaf.name
        left -= by_file.keys()
    return by_file


class _Search:
    """Places of wanted files, and of the delete vectors of wanted data files."""

    def __init__(self, draft: Draft, wanted: set[Identity], data_files: set[str]) -> None:
        self._draft = draft
        self.places: dict[Identity, Place] = {}
        self.leaves: dict[str, ListedRow] = {}
        self.vectors: dict[str, list[Place]] = {}
        self._left = set(wanted)
        self._left_data = sum(code == Content.DATA for code, _, _ in wanted)
        self._wanted = pa.array({key for _, key, _ in wanted}, pa.string())
        self._data_files = pa.array(data_files, pa.string())
        self._data_keys = data_files

    def look_through(self, first: set[str], data_leaves: Mapping[str, str | None]) -> None:
        """Look for all of it: in the root, in leaves of `first`, then in those that may have it.

        `data_leaves` has the data leaf of data files that do not go, as far as it is known.
        """
        if not self._left and not self._data_keys:
            return
        draft = self._draft
        self._look(None, draft.kept, NONE)
        leaves = draft.leaves()
        data_leaves_by_key = _by_key(leaves, Content.DATA_MANIFEST, first)
        for key, leaf in data_leaves_by_key:
            if not self._left_data:
                break
            if key in first or draft.may_list(leaf, self._wanted):
                self._look_into(key, leaf, draft.look_at(leaf))
        strange = self._strange(data_leaves, dict(data_leaves_by_key))
        passed = []
        for key, leaf in _by_key(leaves, Content.DELETE_MANIFEST, first):
            if strange(leaf) and key not in first:
                passed.append((key, leaf))
            elif len(self._data_files) or len(self._left) > self._left_data:
                self._look_into(key, leaf, draft.names_of(leaf))
        for key, leaf in passed:
            if len(self._left) <= self._left_data:  # every delete that goes was found
                break
            self._look_into(key, leaf, draft.names_of(leaf))

    def _strange(
        self, data_leaves: Mapping[str, str | None], present: Collection[str]
    ) -> Callable[[ListedRow], bool]:
        """Tell delete leaves that can have no vector of a wanted data file.

        They belong to data leaves that have none of these (sfc-1 A1).
        """
        data, new = int(Content.DATA), self._draft.new_leaves
        vectors = {key: at for (code, key, _), (at, _) in self.places.items() if code == data}
        known = {
            **{key: at for key, at in data_leaves.items() if at is None or at in present},
            **vectors,
        }
        own = {known[key] for key in self._data_keys & known.keys()}
        if not self._data_keys <= known.keys():
            return lambda _: False
        return lambda leaf: (
            leaf.referenced_file is not None
            and comparison_key(leaf.referenced_file) not in own
            and comparison_key(leaf.name) not in new  # moved since it was seen
        )

    def _look_into(self, key: str, leaf: ListedRow, rows: pa.Table) -> None:
        self.leaves[key] = leaf
        self._look(key, rows, self._draft.dead.get(key, NONE))

    def _look(self, leaf: str | None, rows: pa.Table, deleted: Positions) -> None:
        identified = rows.select(_IDENTIFYING)
        matching = _matching(rows, "location", self._wanted, deleted)
        new_keys = identities(identified.take(pa.array(matching, pa.int64()))) if matching else []
        for at, identity in zip(matching, new_keys, strict=True):
            if identity in self._left:
                self.places[identity] = (leaf, at)
                self._left.discard(identity)
                self._left_data -= identity[0] == Content.DATA
        referring = _matching(rows, "referenced_file", self._data_files, deleted)
        part = identified.take(pa.array(referring, pa.int64()))
        codes, references = part["content"].to_pylist(), keys(part["referenced_file"])
        for at, code, reference in zip(referring, codes, references, strict=True):
            if code == Content.POSITION_DELETES:
                self.vectors.setdefault(str(reference), []).append((leaf, at))


def _by_key(
    leaves: Sequence[ListedRow], kind: Content, first: Collection[str] = ()
) -> list[tuple[str, ListedRow]]:
    """Return leaves of a kind by their keys, those of `first` before others."""
    by_key = [(comparison_key(leaf.name), leaf) for leaf in leaves if leaf.content == kind]
    return sorted(by_key, key=lambda one: one[0] not in first)


def _matching(rows: pa.Table, column: str, wanted: pa.Array, deleted: Positions) -> list[int]:
    """Return rows of live files whose location in a column is one of the wanted."""
    if not len(wanted) or not len(rows):
        return []
    is_wanted = pc.is_in(comparison_keys(rows[column]), wanted)
    if not pc.any(is_wanted, min_count=0).as_py():
        return []
    mask = is_wanted.to_numpy() & (rows["status"].to_numpy() != int(Status.DELETED))
    mask &= np.isin(rows["content"].to_numpy(), [int(one) for one in FILES])
    mask[deleted.astype(np.int64)] = False
    places: list[int] = np.flatnonzero(mask).tolist()
    return places
