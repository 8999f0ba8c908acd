"""A new snapshot of layout sfc-1: its root, and the updates that add it (sfc-1 7.1)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.commit.rewritten_groups import Changes
from icectl.commit.snapshot import engine_summary, head, put_on
from icectl.commit.snapshot_writer import ManifestRewrite, SnapshotWriter
from icectl.commit.transaction import Outputs, Proposal
from icectl.entries.columns import NONE, Positions, text_hashes
from icectl.entries.rows import Entries, by_row, by_spec
from icectl.entries.summary import Totals, moved_totals, summarise, summary_counters
from icectl.env import Env
from icectl.errors import CommitConflict, SelfCheckFailed, Unsupported
from icectl.format import properties
from icectl.format.locations import with_scheme
from icectl.format.manifest import Content, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.format.updates import Update
from icectl.sfc1.commit.compose import compose
from icectl.sfc1.commit.draft import (
    Attempt,
    CommitContext,
    NewFile,
    NewTree,
    ParentState,
    RemovedFile,
    TreeChange,
    TreeOptions,
    keys,
)
from icectl.sfc1.commit.lists import legacy_root, parquet_leaves
from icectl.sfc1.manifest_file import TREE_ROWS, ListedRow
from icectl.sfc1.manifests import (
    FILES,
    LEAVES,
    NAMES,
    OWN_CONTENTS,
    PLAIN,
    LeafPart,
    ReadLeaf,
    TreeSchema,
    can_move,
    is_dead,
    leaf_rows,
    live_parts,
    live_rows,
    manifest_file,
    may_list,
    of_contents,
    read_leaf,
    root_rows,
    rows_of_leaf,
    tree_rows,
    vector_positions,
    vector_rows,
)
from icectl.sfc1.rules import sound_root
from icectl.storage.ahead import AheadStore
from icectl.storage.location import comparison_key, comparison_keys
from icectl.storage.new_files import create_own
from icectl.storage.spill import MOST_PARTS, Spill
from icectl.storage.store import Store
from icectl.table.context import TableContext
from icectl.table.guard import require_safe_base
from icectl.table.live_files import LiveFiles

_MEASURED = (
    "content", "file_format", "record_count", "file_size_in_bytes", "content_size_in_bytes",
)  # fmt: skip

_UNMOVABLE = (
    "`icectl upgrade-to-v4 TABLE --layout iceberg-1.12` leads back; there `icectl compact TABLE"
    " --deletes-only` makes deletion vectors of position delete files"
)
_KEPT_ROWS = 500_000
_ROWS_OF_PART = 250_000
"""Rows of about as many files are compared at a time."""

_IDENTITY = ("content", "key", "content_offset")
_CARRIED = ("spec_id", "snapshot_id", "sequence_number", "file_sequence_number", "record_count")
_COMPARED = (*_IDENTITY, "first_row_id", *_CARRIED)
_COMPARED_PART = LeafPart(frozenset({"status", "location", *_COMPARED} - {"key"}), frozenset())
_ROWS_AT_ONCE = 65_536
_FILES = pa.schema(
    pa.field(name, pa.string() if name == "key" else TREE_ROWS.field(name).type)
    for name in _COMPARED
)
"""What identifies files (sfc-1 EN7), and what no commit changes of them."""

ChangeState = Callable[[TreeSchema, ParentState], TreeChange | None]
"""What an operation does to the state that it is given; None where that is nothing."""


@dataclass(frozen=True, slots=True)
class WrittenTree:
    """The files of one attempt: its root, and what that lists."""

    root: str
    rows: pa.Table
    new_leaves: frozenset[str]

    @property
    def files(self) -> set[str]:
        listed = of_contents(self.rows, *LEAVES, Content.MANIFEST_DV)["location"].to_pylist()
        return {self.root, *(place for place in listed if place is not None)}


def writer(context: TableContext, branch: str, outputs: Outputs) -> SnapshotWriter:
    """Return a writer of one snapshot."""
    return TreeWriter(
        context.store, context.env, branch, outputs, context.concurrency, notes=context.notes
    )


@dataclass(slots=True)
class TreeWriter:
    """The means to put snapshots on one branch; `last` is what the newest attempt wrote."""

    store: Store
    env: Env
    branch: str
    new: Outputs
    concurrency: int = 1
    last: WrittenTree | None = None
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def written(self) -> tuple[ManifestFile, ...]:
        if self.last is None:
            return ()
        rows, new_leaves = leaf_rows(self.last.rows), self.last.new_leaves
        return tuple(manifest_file(row) for row in rows if row.location in new_leaves)

    def replace_files(
        self, metadata: TableMetadata, snapshot_id: int, files: LiveFiles, changes: Changes
    ) -> Proposal:
        """Write a root that says what comes and goes; positions are found in it again."""
        return self.propose(
            metadata, snapshot_id, lambda facts, _: replacement(facts, changes, files.manifests)
        )

    def begin_rewrite(self, metadata: TableMetadata, rewrite: ManifestRewrite) -> None:
        """Do nothing: which leaves are written depends on the newest root."""

    def rewrite_manifests(
        self, metadata: TableMetadata, snapshot_id: int, rewrite: ManifestRewrite
    ) -> Proposal:
        """Write chosen leaves again, and a root that lists them (sfc-1 7.6)."""
        manifests = rewrite.listed.manifests
        chosen = [manifests[at] for group in rewrite.plan.chosen for at in group.rewritten]
        return self.propose(
            metadata,
            snapshot_id,
            lambda facts, state: rewritten_leaves(facts, state, chosen),
            leaf_target_size_bytes=rewrite.plan.options.target_size_bytes,
            sort_by=rewrite.plan.options.sort_by,
        )

    def propose(
        self,
        metadata: TableMetadata,
        snapshot_id: int,
        change: ChangeState,
        *,
        updates: Sequence[Update] = (),
        leaf_target_size_bytes: int | None = None,
        sort_by: tuple[str, ...] = (),
    ) -> Proposal:
        """Propose `updates`, which `metadata` has, and behind them what `write` makes.

        Raises: as `write`.
        """
        made = self.write(
            metadata,
            snapshot_id,
            change,
            leaf_target_size_bytes=leaf_target_size_bytes,
            sort_by=sort_by,
        )
        files = self.last.files if made and self.last is not None else ()
        return Proposal((*updates, *made), frozenset(files))

    def write(
        self,
        metadata: TableMetadata,
        snapshot_id: int,
        change: ChangeState,
        *,
        leaf_target_size_bytes: int | None = None,
        sort_by: tuple[str, ...] = (),
    ) -> tuple[Update, ...]:
        """Write the files of one attempt; the updates that commit it.

        `change` says what to do to the newest state, None where that is nothing: positions are
        found again (sfc-1 7.10). Leaves have the size that the table's properties say, unless
        another is asked for.
        Raises: CommitConflict where the branch, a removed file or the spec of a new one is gone;
        StorageError; others that reading raises.
        """
        require_safe_base(metadata)
        facts = TreeSchema(metadata)
        parent = head(metadata, self.branch)
        state = parent_state(self.store, facts, parent)
        options = tree_options(metadata)
        if leaf_target_size_bytes is not None:
            options = replace(options, leaf_target_size_bytes=leaf_target_size_bytes)
        options = replace(options, sort_by=sort_by)
        store = AheadStore(self.store, self.concurrency)
        plain = partial(read_leaf, store, facts, part=PLAIN)
        means = CommitContext(
            facts,
            options,
            partial(read_leaf, store, facts, carried=True),
            _once(plain),
            _once(partial(read_leaf, store, facts, part=NAMES)),
            lambda: with_scheme(metadata.location, self.new.leaf()),
            lambda: with_scheme(metadata.location, self.new.bitmaps()),
            self._create,
            partial(may_list, self.store, facts),
            lambda leaves: store.ahead(
                (leaf.name, leaf.file_size_in_bytes or 0) for leaf in leaves
            ),
        )
        attempt = Attempt(snapshot_id, metadata.last_sequence_number + 1, metadata.next_row_id or 0)
        wanted = change(facts, state)
        if wanted is None:
            return ()
        for spec_id in wanted.added["spec_id"].unique().to_pylist():
            if metadata.spec(spec_id) is None:  # V4-054
                raise CommitConflict(f"partition spec {spec_id} of new files is gone")  # V4-054
        wanted = _without_foreign(means, state, wanted)
        tree = compose(means, state, wanted, attempt)
        operation = wanted.operation or _operation(tree)
        counters = _counters(means, plain, parent, state, wanted, tree)
        root = with_scheme(metadata.location, self.new.root(snapshot_id))
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            timestamp_ms=max(self.env.now_ms(), metadata.last_updated_ms),
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            sequence_number=attempt.sequence_number,
            root_manifest=root,
            summary={
                "operation": operation,
                **counters,
                **wanted.summary,
                **self.notes,
                **engine_summary(),
            },
            schema_id=metadata.current_schema_id,
            first_row_id=attempt.first_row_id,
            added_rows=tree.added_rows,
        )
        check(store, means, state, wanted, tree, snapshot)
        for file in tree.files:
            self._create(file)
        self._create(NewFile(root, tree.root))
        new_files = {*tree.stored, *(file.location for file in tree.files)}
        self.last = WrittenTree(root, tree.rows, frozenset(new_files))
        return put_on(metadata, self.branch, snapshot)

    def _create(self, file: NewFile) -> None:
        create_own(self.store, self.env, file.location, file.content)


def tree_options(metadata: TableMetadata) -> TreeOptions:
    """Read what the table's properties say of its roots and leaves.

    Raises: Refused for bad values.
    """

    def value(wanted: properties.TableProperty[int]) -> int:
        return properties.read(metadata.properties, wanted)

    return TreeOptions(
        max_data_files=value(properties.TREE_MAX_DATA_FILES),
        max_delete_entries=value(properties.TREE_MAX_DELETE_ENTRIES),
        inline_max_bytes=value(properties.VECTOR_INLINE_MAX_BYTES),
        inline_total_max_bytes=value(properties.VECTOR_INLINE_TOTAL_MAX_BYTES),
        leaf_target_size_bytes=value(properties.TARGET_MANIFEST_SIZE_BYTES),
        leaf_max_entries=value(properties.LEAF_MAX_ENTRIES),
        affinity=properties.read(metadata.properties, properties.AFFINITY_ENABLED),
    )


def parent_state(store: Store, facts: TreeSchema, snapshot: Snapshot | None) -> ParentState:
    """Read what a commit on a snapshot builds on; older versions' lists are converted (sfc-1 7.9).

    Raises: StorageError; CorruptTable; Unsupported.
    """
    if snapshot is None:
        return ParentState(facts.empty(), {})
    if snapshot.root_manifest is None:
        rows = legacy_root(store, facts, snapshot)
        return ParentState(rows, {}, parquet_leaves(store, rows))
    return ParentState(*sound_root(store, facts, snapshot, carried=True))


def _without_foreign(means: CommitContext, state: ParentState, change: TreeChange) -> TreeChange:
    """Return the change, with manifests in Parquet of a manifest list rewritten as leaves.

    Raises: Unsupported, where one of them has entries that no leaf can have.
    """
    if not state.foreign:
        return change
    leaves = [leaf for leaf in leaf_rows(state.rows) if comparison_key(leaf.name) in state.foreign]
    with means.ahead(leaves):
        for leaf in leaves:
            if not can_move(means.facts, means.look(leaf)):
                message = f"`{leaf.name}` is in Parquet, and has entries that no leaf can have"
                raise Unsupported(message, hint=_UNMOVABLE)
    return replace(change, rewritten=change.rewritten | state.foreign)


def _once(read: ReadLeaf) -> ReadLeaf:
    """Read leaves, and keep the first ones, of _KEPT_ROWS rows in all."""
    leaves: dict[str, pa.Table] = {}

    def read_once(leaf: ListedRow) -> pa.Table:
        rows = leaves.get(leaf.name)
        if rows is None:
            rows = read(leaf)
            if len(rows) + sum(map(len, leaves.values())) <= _KEPT_ROWS:
                leaves[leaf.name] = rows
        return rows

    return read_once


def _operation(tree: NewTree) -> str:
    rows = tree.rows.filter(pc.equal(tree.rows["status"], int(Status.ADDED)))
    kinds = set(rows["content"].unique().to_pylist())
    deletes = {Content.POSITION_DELETES, Content.EQUALITY_DELETES, Content.DELETE_MANIFEST}
    removes_data = Content.DATA in tree.removed["content"].unique().to_pylist()
    removes_rows = removes_data or not kinds.isdisjoint(deletes)
    if kinds.isdisjoint({Content.DATA, Content.DATA_MANIFEST}):
        return "delete" if removes_rows else "replace"
    return "overwrite" if removes_rows else "append"


def _entries(rows: pa.Table) -> Entries:
    return Entries(rows.select(_MEASURED))


def _counters(
    means: CommitContext,
    read: ReadLeaf,
    parent: Snapshot | None,
    state: ParentState,
    change: TreeChange,
    tree: NewTree,
) -> dict[str, str]:
    """Return counters of what came and went that are not 0, and the totals with it (R-031).

    Totals begin with the parent's, and are counted where it has none.
    """
    come, gone = (summarise(_entries(rows)) for rows in (change.added, tree.removed))
    counters = {**summary_counters(come, "added"), **summary_counters(gone, "removed")}
    nothing = dict.fromkeys(summary_counters(Totals(), "total"), "0")
    totals = moved_totals(nothing if parent is None else parent.summary, come, gone)
    if len(totals) < len(nothing):
        with means.ahead(_alive(state.rows, state.dead)):
            parts = live_parts(state.rows, state.dead, read)  # each leaf once: there may be many
            live = sum((summarise(_entries(part)) for part in parts), Totals())
        before = summary_counters(live, "total")
        totals = moved_totals({key: str(count) for key, count in before.items()}, come, gone)
    changed = {key: number for key, number in counters.items() if number}
    return {key: str(number) for key, number in {**changed, **totals}.items()}


def _alive(root: pa.Table, dead: Mapping[str, Positions]) -> list[ListedRow]:
    """Return the leaves of a state that live_parts reads. Order: of the root."""
    leaves = leaf_rows(live_rows(root))
    return [leaf for leaf in leaves if not is_dead(leaf, dead.get(comparison_key(leaf.name), NONE))]


# -- what commands change -------------------------------------------------------------------------


def replacement(
    facts: TreeSchema, changes: Changes, manifests: Sequence[ManifestFile]
) -> TreeChange:
    """Rewritten files as a change of a root: what goes and comes, entry by entry.

    `manifests` are those that the entries which go were read from. New files keep the data sequence
    number that their entries state (sfc-1 7.5).
    """
    added = [tree_rows(facts, part, spec_id) for spec_id, part in by_spec(changes.added)]
    removed = by_row(changes.removed, "content", "location", "content_offset", "manifest")
    return TreeChange(
        pa.concat_tables([facts.empty(), *added]),
        tuple(
            RemovedFile(Content(code), location, offset, leaf_at(manifests, at))
            for code, location, offset, at in removed
        ),
        operation=changes.operation,
        summary=changes.run_summary,
    )


def leaf_at(manifests: Sequence[ManifestFile], at: int) -> str | None:
    """Return the leaf of an entry that was read; None where a root has it."""
    manifest = manifests[at]
    return None if manifest.in_root else manifest.manifest_path


def rewritten_leaves(
    facts: TreeSchema, state: ParentState, chosen: Sequence[ManifestFile]
) -> TreeChange | None:
    """Maintenance that writes some leaves again, and files of the root as leaves (sfc-1 7.6).

    A leaf that is gone has been written again by another commit; None where all have. A manifest
    of a list that has no live file is no leaf of the new root, so that root is enough.
    """
    present = {comparison_key(leaf.name) for leaf in leaf_rows(state.rows)}
    keys = {comparison_key(item.manifest_path) for item in chosen if not item.in_root}
    own = {kind for item in chosen if item.in_root for kind in OWN_CONTENTS[item.content]}
    files = of_contents(live_rows(state.rows), *own)["location"].to_pylist()
    has_empty = any(item.status is None and item.live_files == 0 for item in chosen)
    if not keys & present and not files and not has_empty:
        return None
    return TreeChange(
        facts.empty(),
        rewritten=frozenset(keys & present),
        rewritten_files=frozenset(map(comparison_key, files)),
        operation="replace",
    )


# -- the last look before a commit is sent --------------------------------------------------------


def check(
    store: Store,
    means: CommitContext,
    parent: ParentState,
    change: TreeChange,
    tree: NewTree,
    snapshot: Snapshot,
) -> None:
    """Compare the live files before and after (sfc-1 7.6 step 5): what was not to change has not.

    `snapshot` is the one that the root is of.
    Raises: SelfCheckFailed V4-160, where a file came, went or changed that should not have.
    Cost: reads the leaves that go, or whose delete vector changed, and new leaves in the store;
    memory for some of their files.
    """
    new = _NewState(store, means, tree, snapshot)
    changed = {
        key
        for key in parent.dead.keys() | new.dead.keys()
        if not np.array_equal(parent.dead.get(key, NONE), new.dead.get(key, NONE))
    }
    same = (_leaves(parent.rows) & _leaves(new.rows)) - changed
    there, here = _beside(parent.rows, same), _beside(new.rows, same)
    leaves = [of_contents(rows, *LEAVES)["record_count"] for rows in (there, here)]
    counts = [pc.sum(of_leaves, min_count=0).as_py() for of_leaves in leaves]
    part_count = min(1 + max(counts) // _ROWS_OF_PART, MOST_PARTS)
    ahead: list[ListedRow] = []
    if rewritten := change.rewritten - parent.foreign:
        leaves_there = _alive(there, parent.dead)
        ahead += (leaf for leaf in leaves_there if comparison_key(leaf.name) in rewritten)
    if stored := frozenset(map(comparison_key, tree.stored)):
        ahead += (leaf for leaf in leaf_rows(here) if comparison_key(leaf.name) in stored)
    with means.ahead(ahead):
        parts = [
            _by_part(rows, part_count)
            for rows in (
                live_parts(there, parent.dead, means.look),
                live_parts(here, new.dead, new.read),
                [tree.removed],
                [change.added],
            )
        ]
    for number in range(part_count):
        _compare(*(_read_part(part, number) for part in parts))


def _compare(before: pa.Table, after: pa.Table, gone: pa.Table, added: pa.Table) -> None:
    stays = _without(before, gone)
    if len(stays) != len(before) - len(gone):
        raise _wrong(f"{len(gone)} files go, of which {len(before) - len(stays)} were live")
    carried = _without(after, added)
    if len(carried) != len(after) - len(added):
        raise _wrong(f"{len(added)} files are new, of which {len(after) - len(carried)} live")
    differs = _difference(stays, carried)
    if differs is not None:
        raise _wrong(f"files that stay differ in {differs}")


def _by_part(tables: Iterable[pa.Table], part_count: int) -> Spill:
    """Return files in parts by the hash of their location, as _files_of has them."""
    spill = Spill(_FILES, part_count)
    for rows in tables:
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            files = _files_of(rows.slice(start, _ROWS_AT_ONCE))
            numbers = text_hashes(files["key"]) % np.uint64(part_count)
            spill.add(numbers, files.combine_chunks().to_batches()[0])
    return spill


def _read_part(spill: Spill, number: int) -> pa.Table:
    """Return the files of a part by what identifies them."""
    files = pa.Table.from_batches(spill.read(number), _FILES)
    return files.sort_by([(name, "ascending") for name in _IDENTITY])


class _NewState:
    """A composed state as readers would find it: new files from memory or store, others by `means`.

    `dead` has positions of leaves by key.
    """

    def __init__(
        self, store: Store, means: CommitContext, tree: NewTree, snapshot: Snapshot
    ) -> None:
        self._store = store
        self._means = means
        self._new = {comparison_key(file.location): file.content for file in tree.files}
        self._stored = frozenset(map(comparison_key, tree.stored))
        self.rows = root_rows(means.facts, tree.root, snapshot, part=PLAIN)
        self.dead = {
            comparison_key(leaf): vector_positions(self._read_range, row)
            for leaf, row in vector_rows(live_rows(self.rows))
        }

    def read(self, leaf: ListedRow) -> pa.Table:
        """Return what is compared of the rows of a leaf."""
        key = comparison_key(leaf.name)
        if key in self._new:
            return rows_of_leaf(self._means.facts, self._new[key], leaf, part=_COMPARED_PART)
        if key in self._stored:
            return read_leaf(self._store, self._means.facts, leaf, part=_COMPARED_PART)
        return self._means.look(leaf)

    def _read_range(self, location: str, offset: int, length: int) -> bytes:
        content = self._new.get(comparison_key(location))
        if content is None:
            return self._store.read_range(location, offset, length)
        return content[offset : offset + length]


def _wrong(difference: str) -> SelfCheckFailed:
    message = f"a new root does not have the files that it should: {difference}"
    return SelfCheckFailed(message, rule="V4-160")


def _leaves(rows: pa.Table) -> set[str | None]:
    return set(keys(of_contents(live_rows(rows), *LEAVES)["location"]))


def _beside(rows: pa.Table, same: Collection[str | None]) -> pa.Table:
    """Return the files of a root, and its leaves but for some."""
    live = live_rows(rows)
    leaves = of_contents(live, *LEAVES)
    is_same = pc.is_in(comparison_keys(leaves["location"]), pa.array(list(same), pa.string()))
    return pa.concat_tables([of_contents(live, *FILES), leaves.filter(pc.invert(is_same))])


def _files_of(rows: pa.Table) -> pa.Table:
    """Return rows of files in the columns of _FILES. Order: kept."""
    is_vector = pc.equal(rows["content"], int(Content.POSITION_DELETES))
    offsets = pc.if_else(is_vector, pc.fill_null(rows["content_offset"], -1), -1)
    own = {"key": comparison_keys(rows["location"]), "content_offset": offsets}
    return pa.table(
        [own[name] if name in own else rows[name] for name in _FILES.names], schema=_FILES
    )


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
