"""Running `validate` on version 4 snapshots: each root and each leaf is read once, and checked."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from icectl.checks.finding import fault_findings, finding
from icectl.checks.live_entries import files_outside, roots
from icectl.checks.metadata import breaches_of_places
from icectl.checks.rule import Finding
from icectl.checks.rules import ALL_RULES
from icectl.commands.validate.files import check_gone
from icectl.commands.validate.found import CheckTally, SnapshotsChecked
from icectl.commands.validate.sfc1_manifests import (
    LeafVectors,
    ListedLeaf,
    ReplacedVector,
    TreeChecks,
    check_replaced,
)
from icectl.entries.columns.values import Integers as Rows
from icectl.entries.rows import Entries, by_row, concat, location_keys, planning, take, where
from icectl.errors import CorruptTable, Unsupported
from icectl.format.manifest import ManifestFile
from icectl.format.snapshot import Snapshot
from icectl.sfc1.checked import (
    DamagedFile,
    RootRead,
    StoredManifest,
    StoredTree,
    entries_of,
    read_decoded,
    resolved_root,
    root_files,
    try_leaf,
    try_tree,
)
from icectl.sfc1.checks.live import (
    LeafUse,
    Tree,
    TreeFiles,
    affinity_faults,
    killed_faults,
    live_faults,
    repeated_in_root,
    uniqueness_faults,
)
from icectl.sfc1.checks.manifests import check_replace, check_summary, unreadable
from icectl.sfc1.checks.steps import (
    SaidChanges,
    TreeStep,
    added_again,
    changed_rows,
    renumbered_files,
    replaced_vectors,
    restored_faults,
    row_count,
    step_faults,
)
from icectl.sfc1.checks.vectors import vector_steps
from icectl.sfc1.legacy import legacy_root
from icectl.sfc1.manifest_file import TreeContent
from icectl.sfc1.manifests import TreeFacts
from icectl.sfc1.partition_stats import UNKNOWN_KEY
from icectl.sfc1.rows import ListedRow
from icectl.storage.location import comparison_key
from icectl.table.manifest_lists import distinct_manifests, try_manifest_lists
from icectl.table.reader import Reader
from icectl.table.reading import read_or_none

_BLOB = ("referenced_data_file", "location", "content_offset", "content_size_in_bytes")
_INHERITED = ("snapshot_id", "sequence_number", "file_sequence_number", "first_row_id")


@dataclass(slots=True)
class _Parts:
    """The entries of roots and leaves, by their number."""

    entries: list[Entries] = field(default_factory=list)

    def add(self, made: Entries) -> int:
        """Add entries, and return their number."""
        self.entries.append(made)
        return len(self.entries) - 1

    @property
    def next(self) -> int:
        """The number of the entries that are added next."""
        return len(self.entries)


def check(reader: Reader, snapshots: Sequence[Snapshot], found: CheckTally) -> SnapshotsChecked:
    """Check version 4 snapshots at level `metadata`.

    Raises: StorageError where the store itself fails; Incomplete at the deadline.
    Cost: every root and leaf of the snapshots and of their parents once; planning columns of their
    entries in memory.
    """
    return _Check(reader, snapshots, found).run()


def _key(row: ListedRow) -> tuple[object, ...]:
    """Make a key of all that makes the rows of a leaf read differently."""
    place = comparison_key(row.name)
    return place, row.content, *(getattr(row, name) for name in _INHERITED)


class _Check:
    """One check of the version 4 snapshots of a table."""

    def __init__(self, reader: Reader, snapshots: Sequence[Snapshot], found: CheckTally) -> None:
        self._reader = reader
        self._facts = TreeFacts(reader.metadata)
        self._checks = TreeChecks(self._facts)
        self._chosen = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
        self._found = found
        self._vectors = LeafVectors(reader.context.store, reader.metadata)
        self._parts = _Parts()
        self._own: dict[int, int] = {}
        self._roots: dict[int, RootRead] = {}
        self._leaves: dict[tuple[object, ...], int] = {}
        self._trees: dict[int, tuple[Tree, bool]] = {}

    def run(self) -> SnapshotsChecked:
        """Read, check, and choose what lives."""
        self._read_roots()
        self._read_leaves()
        entries = self._parts.entries
        files = TreeFiles(concat(entries), [len(part) for part in entries], UNKNOWN_KEY)
        return self._check_snapshots(files)

    # -- roots ------------------------------------------------------------------------------------

    def _read_roots(self) -> None:
        metadata = self._reader.metadata
        parents = {
            parent.snapshot_id: parent
            for one in self._chosen.values()
            if (parent := metadata.snapshot(one.parent_snapshot_id or -1)) is not None
        }
        wanted = list({**self._chosen, **parents}.values())
        self._reader.context.progress.phase("reading roots", total=len(wanted))
        rooted = [one for one in wanted if one.root_manifest is not None]
        places = [one.root_manifest or "" for one in rooted]
        read = read_decoded(
            self._reader.context.store,
            places,
            [1] * len(rooted),
            lambda stored: try_tree(self._facts, places[stored[0]], stored[1], "V4-040"),
            concurrency=self._reader.context.concurrency,
        )
        with closing(read):
            for snapshot, stored in zip(rooted, read, strict=True):
                self._reader.context.deadline.check()
                self._root(snapshot, stored)
                self._reader.context.progress.advance(1)
        for snapshot in wanted:
            if snapshot.root_manifest is None:
                self._older(snapshot)

    def _root(self, snapshot: Snapshot, stored: StoredTree | DamagedFile) -> None:
        is_chosen = snapshot.snapshot_id in self._chosen
        faults: list[Finding] = []
        location = snapshot.root_manifest or ""
        if isinstance(stored, DamagedFile):
            faults = [unreadable(location, stored.problem, "V4-180")]
        elif stored.file.content is not TreeContent.ROOT:  # V4-040
            message = f"its footer says `{stored.file.content}`, not `root`"
            faults = [finding("V4-040", location, message)]
        else:
            faults = list(self._checks.root(snapshot, stored)) if is_chosen else []
            faults += self._resolved(snapshot, stored, {one.rule for one in faults})
        if is_chosen:
            self._found.snapshots += 1
            self._found.count_file(stored.size_bytes)
            self._found.add(faults)

    def _resolved(
        self, snapshot: Snapshot, stored: StoredTree, rules: set[str]
    ) -> Iterator[Finding]:
        """Resolve a root and keep it; what is wrong with it then."""
        try:
            root = resolved_root(self._reader.context.store, self._facts, snapshot, stored.rows)
            self._own[snapshot.snapshot_id] = self._parts.add(
                entries_of(self._facts, root_files(root.rows), self._parts.next)
            )
        except (CorruptTable, Unsupported) as error:
            if error.rule not in rules:
                yield unreadable(snapshot.root_manifest or "", error, "V4-180")
            return
        self._roots[snapshot.snapshot_id] = root
        if snapshot.snapshot_id in self._chosen:
            yield from self._checks.resolved_root(root)
            yield from self._vectors.check(root)

    def _older(self, snapshot: Snapshot) -> None:
        """A parent of an older version, as a root; level `metadata` checks it by its own rules."""
        rows = read_or_none(partial(legacy_root, self._reader.context.store, self._facts, snapshot))
        if rows is None:
            return
        root = read_or_none(
            partial(resolved_root, self._reader.context.store, self._facts, snapshot, rows)
        )
        if root is None:
            return
        self._roots[snapshot.snapshot_id] = root
        self._own[snapshot.snapshot_id] = self._parts.add(
            entries_of(self._facts, root_files(rows), self._parts.next)
        )

    # -- leaves -----------------------------------------------------------------------------------

    def _read_leaves(self) -> None:
        uses: dict[tuple[object, ...], list[ListedLeaf]] = {}
        for snapshot_id, root in self._roots.items():
            for at, row in root.leaves.items():
                use = ListedLeaf(root, row, at, snapshot_id in self._chosen)
                uses.setdefault(_key(row), []).append(use)
        wanted = list(uses.values())
        self._reader.context.progress.phase("reading leaves", total=len(wanted))
        sizes = [int(str(each[0].row.file_size_in_bytes or 0)) for each in wanted]
        rows = [each[0].row for each in wanted]
        read = read_decoded(
            self._reader.context.store,
            [row.name for row in rows],
            sizes,
            lambda stored: try_leaf(self._facts, rows[stored[0]], stored[1]),
            concurrency=self._reader.context.concurrency,
        )
        with closing(read):
            for key, each, stored in zip(uses, wanted, read, strict=True):
                self._reader.context.deadline.check()
                part = self._leaf(each, stored)
                if part is not None:
                    self._leaves[key] = part
                self._reader.context.progress.advance(1)

    def _leaf(
        self, uses: Sequence[ListedLeaf], stored: StoredTree | StoredManifest | DamagedFile
    ) -> int | None:
        """Check a leaf; the number of its part, None where its rows can't be told."""
        location, number = uses[0].row.name, self._parts.next
        is_chosen = any(use.is_chosen for use in uses)
        faults: list[Finding] = []
        part = None
        if isinstance(stored, DamagedFile):
            faults = [unreadable(location, stored.problem, "V4-181")]
        else:
            try:
                if isinstance(stored, StoredTree):
                    faults = list(self._checks.leaf(stored, uses)) if is_chosen else []
                    made, more = self._checks.leaf_entries(stored, uses, number)
                else:
                    faults = list(self._checks.manifest(stored, uses)) if is_chosen else []
                    made, more = self._checks.manifest_entries(stored, uses, number)
            except (CorruptTable, Unsupported) as error:
                if error.rule not in {one.rule for one in faults}:
                    faults.append(unreadable(location, error, "V4-181"))
            else:
                faults += more
                part = self._parts.add(made)
        if is_chosen:
            self._found.count_file(stored.size_bytes)
            self._found.add(faults)
        return part

    # -- snapshots --------------------------------------------------------------------------------

    def _tree(self, snapshot_id: int) -> tuple[Tree, bool] | None:
        """Return what a snapshot lists, and whether all of it was readable; None without a root."""
        if snapshot_id not in self._trees and snapshot_id in self._roots:
            self._trees[snapshot_id] = self._listed(snapshot_id, self._roots[snapshot_id])
        return self._trees.get(snapshot_id)

    def _listed(self, snapshot_id: int, root: RootRead) -> tuple[Tree, bool]:
        vectors, columns = root.vectors, root.vectors.columns
        leaves = []
        is_whole = not root.unread
        for at, row in root.leaves.items():
            part = self._leaves.get(_key(row))
            if part is None:
                is_whole = False
                continue
            key = vectors.locations[at] or ""
            status, home = int(columns.status[at]), vectors.referenced[at]
            leaves.append(LeafUse(key, part, status, vectors.positions(key), home))
        return Tree(self._own[snapshot_id], leaves), is_whole

    def _check_snapshots(self, files: TreeFiles) -> SnapshotsChecked:
        self._reader.context.progress.phase("checking snapshots", total=len(self._chosen))
        kept, gone = files.none(), files.none()
        steps: list[SaidChanges] = []
        replaced: list[ReplacedVector] = []
        for snapshot in sorted(self._chosen.values(), key=lambda one: one.sequence_number):
            self._reader.context.deadline.check()
            self._reader.context.progress.advance(1)
            held = self._tree(snapshot.snapshot_id)
            if held is None:
                continue
            tree, is_whole = held
            live = files.live(tree)
            kept[live] = True
            gone[files.dropped(tree)] = True
            subject = f"snapshot {snapshot.snapshot_id}"
            self._found.add(fault_findings(subject, uniqueness_faults(files, live)))
            self._found.add(fault_findings(subject, repeated_in_root(files, tree, live)))
            if is_whole:
                self._found.add(self._live(files, subject, tree, live))
                before = self._tree(snapshot.parent_snapshot_id or -1)
                changed = changed_rows(files, tree, live, before[0] if before else None)
                steps.append(changed)
                parts = (live, changed.added, changed.removed)
                self._found.add(check_summary(snapshot, *map(files.totals, parts)))
                replaced += self._step(files, snapshot, tree, changed, live)
        self._found.add(fault_findings("snapshots", added_again(files, steps)))
        self._found.add(fault_findings("snapshots", renumbered_files(files, kept)))
        alive = where(files.entries, kept)
        keys = location_keys(alive.table["location"])
        outside = files_outside(alive, keys, roots(self._reader.metadata))
        place = ALL_RULES["R-161"]
        breaches = breaches_of_places(list(outside.values()))
        self._found.add(place.finding("snapshots", one) for one in breaches)
        only_gone = where(files.entries, gone & ~kept)
        return SnapshotsChecked(
            planning(alive),
            self._manifests,
            lambda: check_gone(self._reader, only_gone),
            lambda: check_replaced(self._reader.context.store, replaced),
        )

    def _manifests(self) -> Sequence[ManifestFile]:
        """Return the leaves of the chosen snapshots, as far as their roots can be read."""
        read = try_manifest_lists(
            self._reader.context, self._reader.metadata, list(self._chosen.values())
        )
        with closing(read):
            return distinct_manifests([listed.manifests for listed in read])

    def _live(self, files: TreeFiles, subject: str, tree: Tree, live: Rows) -> Iterator[Finding]:
        next_row_id = self._reader.metadata.next_row_id
        yield from fault_findings(subject, live_faults(files, live, next_row_id))
        yield from fault_findings(subject, affinity_faults(files, tree))
        yield from fault_findings(subject, killed_faults(files, tree))

    def _step(
        self, files: TreeFiles, snapshot: Snapshot, tree: Tree, changed: SaidChanges, live: Rows
    ) -> Iterator[ReplacedVector]:
        """Check a snapshot against its parent; the delete vectors that it replaced."""
        parent_id = snapshot.parent_snapshot_id or -1
        held = self._tree(parent_id)
        if held is None:
            return
        vectors = vector_steps(
            self._roots[snapshot.snapshot_id].vectors, self._roots[parent_id].vectors
        )
        self._found.add(fault_findings(snapshot.root_manifest or "", vectors))
        parent, is_whole = held
        if not is_whole:
            return
        step = TreeStep(tree, parent, changed)
        subject = f"snapshot {snapshot.snapshot_id}"
        self._found.add(fault_findings(subject, step_faults(files, step, live)))
        self._found.add(fault_findings(subject, restored_faults(files, step, live)))
        if snapshot.operation == "replace":
            counts = row_count(files, files.live(parent)), row_count(files, live)
            self._found.add(check_replace(snapshot, *counts))
        for before, after in replaced_vectors(files, step, live).tolist():
            (_, *one), (data_file, *other) = by_row(take(files.entries, [before, after]), *_BLOB)
            yield ReplacedVector(str(data_file), (*one,), (*other,))
