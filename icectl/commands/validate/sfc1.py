"""Running `validate` on version 4 snapshots: each root and each leaf is read once, and checked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from icectl.checks.bound_types import types_of_bounds
from icectl.checks.live_entries import expected_places, files_outside
from icectl.checks.metadata import breaches_of_places
from icectl.checks.objects import ManifestEntries
from icectl.checks.rule import Breach, Finding
from icectl.checks.rules import RULES
from icectl.commands.validate.files import check_gone
from icectl.commands.validate.lists import CheckTally, SnapshotsChecked
from icectl.entries.columns import NONE
from icectl.entries.may_match import METRICS
from icectl.entries.rows import Entries, by_row, concat, location_keys, planning, take, where
from icectl.errors import CorruptTable, Unsupported
from icectl.format.locations import named_in_vector
from icectl.format.manifest import FileFormat, ManifestContent, ManifestFile
from icectl.format.snapshot import Snapshot
from icectl.rows.check_data_file import RecordedFile
from icectl.rows.check_delete_file import RecordedDeletes, check_vectors
from icectl.sfc1.checked import (
    DamagedFile,
    RootRead,
    StoredLegacyLeaf,
    StoredTree,
    described_rows,
    entries_of,
    leaf_rows,
    manifest_entries,
    read_decoded,
    resolved_root,
    root_files,
    try_leaf,
    try_tree,
)
from icectl.sfc1.checks.live import ALWAYS, CheckedTree, LeafUse, Tree, TreeFiles
from icectl.sfc1.checks.rows import LeafRows, ListedLeaf, RootRows, TreeColumns, TreeRows
from icectl.sfc1.checks.statistics import LeafStatistics, RowStatistics, TableStatistics
from icectl.sfc1.checks.steps import (
    RecordedChanges,
    ReplacedVector,
    TreeHistory,
    TreeStep,
    TreeSummary,
    changed_rows,
    replaced_vectors,
)
from icectl.sfc1.checks.vectors import VectorStep
from icectl.sfc1.commit.lists import legacy_root
from icectl.sfc1.manifest_file import ListedRow, TreeContent
from icectl.sfc1.manifests import TreeSchema, manifest_file, vector_rows
from icectl.sfc1.reader import leaf_manifest, leaves_without, listed_manifests
from icectl.sfc1.rules import EVERY_RULE, SFC1_RULES, unreadable
from icectl.storage.location import comparison_key
from icectl.storage.store import Store
from icectl.table.manifest_lists import distinct_manifests
from icectl.table.reader import Reader
from icectl.table.reading import read_or_none

_BLOB = ("referenced_data_file", "location", "content_offset", "content_size_in_bytes")
_INHERITED = ("snapshot_id", "sequence_number", "file_sequence_number", "first_row_id")


_DESCRIBED = (
    "status", "record_count", "file_size_in_bytes", "added_files_count", "existing_files_count",
    "deleted_files_count", "added_rows_count", "existing_rows_count", "deleted_rows_count",
    "min_sequence_number",
)  # fmt: skip
_OF_LEAVES: Mapping[str, str] = {"R-118": "V4-090", "R-119": "V4-082"}
"""The ids of rules of deletion vectors where a vector is one over a leaf."""


@dataclass(frozen=True, slots=True)
class _Use:
    """A leaf's row in a root, the place of that row, and whether findings of it are wanted."""

    root: RootRead
    row: ListedRow
    at: int
    is_chosen: bool

    @property
    def stats(self) -> pa.Array:
        """One struct: what the root says of the leaf's columns."""
        return self.root.stats.slice(self.at, 1)


def _of_distinct_stats(uses: Sequence[_Use]) -> Iterator[_Use]:
    """Yield uses, without repeats of the same statistics."""
    before = None
    for use in uses:
        if before is None or not use.stats.equals(before):
            before = use.stats
            yield use


_ReplacedBlob = tuple[str, tuple[str, int, int], tuple[str, int, int]]
"""A data file, where a delete vector of it is, and the one that took its place."""


def check(reader: Reader, snapshots: Sequence[Snapshot], tally: CheckTally) -> SnapshotsChecked:
    """Check version 4 snapshots at level `metadata`.

    Raises: StorageError where the store itself fails; Incomplete at the deadline.
    Cost: every root and leaf of the snapshots and of their parents once; planning columns of their
    entries in memory.
    """
    return _Check(reader, snapshots, tally).run()


def _key(row: ListedRow) -> tuple[object, ...]:
    """Return a key of all that affects how the rows of a leaf are read."""
    place = comparison_key(row.name)
    return place, row.content, *(getattr(row, name) for name in _INHERITED)


class _Check:
    """One check of the version 4 snapshots of a table."""

    def __init__(self, reader: Reader, snapshots: Sequence[Snapshot], tally: CheckTally) -> None:
        self._reader = reader
        self._facts = TreeSchema(reader.metadata)
        self._statistics = TableStatistics(self._facts)
        self._bound_types = types_of_bounds(reader.metadata)
        self._chosen = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
        self._tally = tally
        self._vectors_seen: set[tuple[object, ...]] = set()
        self._parts: list[Entries] = []
        """The entries of roots and leaves, by their number."""
        self._matching = [np.ones(0, np.bool_)]
        self._metrics = frozenset[str]() if tally.within is None else METRICS
        self._excluded: dict[int, Set[str]] = {}
        """The keys of data leaves without a matching row, by snapshot."""
        self._own: dict[int, int] = {}
        self._roots: dict[int, RootRead] = {}
        self._leaves: dict[tuple[object, ...], int] = {}
        self._trees: dict[int, tuple[Tree, bool]] = {}

    def run(self) -> SnapshotsChecked:
        """Read, check, and choose what lives."""
        self._read_roots()
        self._read_leaves()
        files = TreeFiles(concat(self._parts), [len(part) for part in self._parts])
        return self._check_snapshots(files)

    # -- roots ------------------------------------------------------------------------------------

    def _read_roots(self) -> None:
        metadata = self._reader.metadata
        parents = {
            parent.snapshot_id: parent
            for item in self._chosen.values()
            if (parent := metadata.snapshot(item.parent_snapshot_id or -1)) is not None
        }
        to_read = list({**self._chosen, **parents}.values())
        self._reader.context.progress.phase("reading roots", total=len(to_read))
        rooted = [item for item in to_read if item.root_manifest is not None]
        places = [item.root_manifest or "" for item in rooted]
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
                is_chosen = snapshot.snapshot_id in self._chosen
                findings: list[Finding] = []
                location = snapshot.root_manifest or ""
                if isinstance(stored, DamagedFile):
                    findings = [unreadable(location, stored.problem, "V4-180")]
                elif stored.file.content is not TreeContent.ROOT:  # V4-040
                    breach = Breach(f"its footer says `{stored.file.content}`, not `root`")
                    findings = [EVERY_RULE["V4-040"].finding(location, breach)]
                else:
                    rows = RootRows(self._facts.metadata, snapshot, stored.file, stored.rows)
                    findings = list(self._stored(rows)) if is_chosen else []
                    findings += self._resolved(
                        snapshot, stored, {finding.rule for finding in findings}
                    )
                if is_chosen:
                    self._tally.snapshots += 1
                    self._tally.count_file(stored.size_bytes)
                    self._tally.add(findings)
                self._reader.context.progress.advance(1)
        for snapshot in to_read:
            if snapshot.root_manifest is None:  # of an older version: level `metadata` checks it
                store, facts = self._reader.context.store, self._facts
                listed = read_or_none(partial(legacy_root, store, facts, snapshot))
                resolve = partial(resolved_root, store, facts, snapshot, listed)
                root = None if listed is None else read_or_none(resolve)
                if root is not None:
                    self._keep(snapshot, root)

    def _stored(self, rows: TreeRows) -> Iterator[Finding]:
        yield from SFC1_RULES.findings(rows)
        schema = rows.file.rows.schema
        statistics = RowStatistics(rows.subject, rows, schema, self._statistics)
        yield from SFC1_RULES.findings(statistics)

    def _resolved(
        self, snapshot: Snapshot, stored: StoredTree, rules: set[str]
    ) -> Iterator[Finding]:
        """Resolve a root and keep it; what is wrong with it then."""
        location = snapshot.root_manifest or ""
        try:
            root = resolved_root(self._reader.context.store, self._facts, snapshot, stored.rows)
            self._keep(snapshot, root)
        except (CorruptTable, Unsupported) as error:
            if error.rule not in rules:
                yield unreadable(location, error, "V4-180")
            return
        if snapshot.snapshot_id in self._chosen:
            for problem in root.unread.values():
                yield unreadable(location, problem, "V4-182")
            yield from SFC1_RULES.findings(root.vectors)
            yield from self._leaf_vectors(root)

    def _keep(self, snapshot: Snapshot, root: RootRead) -> None:
        number, within = len(self._parts), self._tally.within
        files = entries_of(self._facts, root_files(root.rows), number, self._metrics)
        self._matching.append(self._tally.matching(files, self._facts.metadata))
        self._parts.append(planning(files))
        if within is not None:
            excluded = leaves_without(self._facts, root.rows, within)
            self._excluded[snapshot.snapshot_id] = excluded
        self._own[snapshot.snapshot_id] = number
        self._roots[snapshot.snapshot_id] = root

    def _leaf_vectors(self, root: RootRead) -> Iterator[Finding]:
        """Check vectors over leaves that are not inline, each once for all roots (V4-090, V4-182).

        Those of one Puffin file are read together.
        """
        files: dict[str, list[RecordedDeletes]] = {}
        for leaf, row in vector_rows(root.rows):
            place, offset, size = row.location, row.content_offset, row.content_size_in_bytes
            key = (place, offset, size, leaf, row.record_count)
            if place is None or row.inline_content is not None or key in self._vectors_seen:
                continue
            self._vectors_seen.add(key)
            file = RecordedFile(
                place, FileFormat.PUFFIN, row.record_count, row.sequence_number or 0
            )
            deletes = RecordedDeletes(file, (), leaf, offset, size)
            files.setdefault(place, []).append(deletes)
        store, named = self._reader.context.store, partial(named_in_vector, self._reader.metadata)
        for location, vectors in files.items():
            status = store.stat(location)
            if status is None:
                message = "the file of delete vectors over leaves is missing"
                yield EVERY_RULE["V4-182"].finding(location, Breach(message))
                continue
            read = partial(store.read_range, location)
            for vector in check_vectors(read, status.size_bytes, vectors, lambda _: None, named):
                rule = EVERY_RULE[_OF_LEAVES.get(vector.rule, vector.rule)]
                yield rule.finding(vector.subject, Breach(vector.message))

    # -- leaves -----------------------------------------------------------------------------------

    def _read_leaves(self) -> None:
        uses: dict[tuple[object, ...], list[_Use]] = {}
        skipped: dict[tuple[object, ...], ManifestFile] = {}
        for snapshot_id, root in self._roots.items():
            excluded = self._excluded.get(snapshot_id, ())
            dead = root.vectors.dead() if excluded else {}
            for at, row in root.leaves.items():
                if comparison_key(row.referenced_file or row.name) not in excluded:
                    use = _Use(root, row, at, snapshot_id in self._chosen)
                    uses.setdefault(_key(row), []).append(use)
                elif snapshot_id in self._chosen:
                    gone = dead.get(comparison_key(row.name), NONE)
                    skipped[_key(row)] = leaf_manifest(row, gone)
        self._tally.skip(skipped[key] for key in skipped.keys() - uses.keys())
        leaves = list(uses.values())
        self._reader.context.progress.phase("reading leaves", total=len(leaves))
        sizes = [int(str(uses_of_leaf[0].row.file_size_in_bytes or 0)) for uses_of_leaf in leaves]
        rows = [uses_of_leaf[0].row for uses_of_leaf in leaves]
        read = read_decoded(
            self._reader.context.store,
            [row.name for row in rows],
            sizes,
            lambda stored: try_leaf(self._facts, rows[stored[0]], stored[1]),
            concurrency=self._reader.context.concurrency,
        )
        with closing(read):
            for key, uses_of_leaf, stored in zip(uses, leaves, read, strict=True):
                self._reader.context.deadline.check()
                part = self._leaf(uses_of_leaf, stored)
                if part is not None:
                    self._leaves[key] = part
                self._reader.context.progress.advance(1)

    def _leaf(
        self, uses: Sequence[_Use], stored: StoredTree | StoredLegacyLeaf | DamagedFile
    ) -> int | None:
        """Check a leaf; return the number of its part, None if its rows are unknown."""
        listed, number = uses[0].row, len(self._parts)
        chosen = [use for use in uses if use.is_chosen]
        findings: list[Finding] = []
        part = None
        if isinstance(stored, DamagedFile):
            findings = [unreadable(listed.name, stored.problem, "V4-181")]
        else:
            try:
                if isinstance(stored, StoredTree):
                    leaf = LeafRows(self._facts.metadata, listed, stored.file, stored.rows)
                    findings = list(self._stored(leaf)) if chosen else []
                    rows = leaf_rows(self._facts, stored, listed)
                    findings += self._check_described(TreeColumns(rows), stored.size_bytes, chosen)
                    for use in _of_distinct_stats(chosen):
                        statistics = LeafStatistics(
                            listed.name, use.stats, rows, self._facts.columns
                        )
                        findings += SFC1_RULES.findings(statistics)
                    entries = entries_of(self._facts, rows, number, self._metrics)
                    matching = self._tally.matching(entries, self._facts.metadata)
                else:
                    findings = list(self._manifest(stored, listed)) if chosen else []
                    entries = manifest_entries(stored, listed, number)
                    findings += self._manifest_in_root(stored, entries, chosen)
                    of_manifest = Entries(stored.rows.table)
                    matching = self._tally.matching(of_manifest, self._facts.metadata)
            except (CorruptTable, Unsupported) as error:
                if error.rule not in {finding.rule for finding in findings}:
                    findings.append(unreadable(listed.name, error, "V4-181"))
            else:
                self._parts.append(planning(entries))
                self._matching.append(matching)
                part = number
        if chosen:
            self._tally.count_file(stored.size_bytes)
            self._tally.add(findings)
        return part

    def _check_described(
        self, columns: TreeColumns, size_bytes: int, uses: Sequence[_Use]
    ) -> Iterator[Finding]:
        """Check a leaf against its rows in roots, each distinct row once."""
        seen = set()
        for use in uses:
            snapshot = use.root.snapshot
            is_new = use.row.snapshot_id == snapshot.snapshot_id
            key = (is_new, *(getattr(use.row, name) for name in _DESCRIBED))
            if key not in seen:
                seen.add(key)
                leaf = ListedLeaf(columns, use.row, size_bytes, snapshot)
                yield from SFC1_RULES.findings(leaf)

    def _manifest(self, stored: StoredLegacyLeaf, row: ListedRow) -> Iterator[Finding]:
        """Check a leaf of an older version by itself."""
        listed = manifest_file(row)
        states = "content" in stored.header.metadata
        if states and stored.header.content is not listed.content:  # V4-111
            names = {ManifestContent.DATA: "data", ManifestContent.DELETES: "deletes"}
            breach = Breach(
                f"it holds {names[stored.header.content]}, its root says {names[listed.content]}"
            )
            yield EVERY_RULE["V4-111"].finding(listed.manifest_path, breach)
        metadata = self._facts.metadata
        yield from RULES.findings(
            ManifestEntries(metadata, listed, stored.header, stored.rows, self._bound_types)
        )

    def _manifest_in_root(
        self, stored: StoredLegacyLeaf, entries: Entries, uses: Sequence[_Use]
    ) -> Iterator[Finding]:
        """Check a leaf of an older version against its roots."""
        yield from self._check_described(TreeColumns(entries.table), stored.size_bytes, uses)
        for use in _of_distinct_stats(uses):
            spec_id = manifest_file(use.row).partition_spec_id
            found = described_rows(self._facts, stored, spec_id, use.stats)
            yield from SFC1_RULES.findings(
                LeafStatistics(
                    use.row.name, found.stated, found.rows, found.columns, of_older_version=True
                )
            )

    # -- snapshots --------------------------------------------------------------------------------

    def _tree(self, snapshot_id: int) -> tuple[Tree, bool] | None:
        """Return the files of a snapshot, and whether all were readable; None without a root."""
        if snapshot_id not in self._trees and snapshot_id in self._roots:
            root = self._roots[snapshot_id]
            vectors, columns = root.vectors, root.vectors.columns
            leaves = []
            is_whole = not root.unread and not any(self._excluded.values())
            for at, row in root.leaves.items():
                part = self._leaves.get(_key(row))
                if part is None:
                    is_whole = False
                    continue
                key = vectors.locations[at] or ""
                status, data_leaf = int(columns.status[at]), vectors.referenced[at]
                leaves.append(LeafUse(key, part, status, vectors.positions(key), data_leaf))
            self._trees[snapshot_id] = Tree(self._own[snapshot_id], leaves), is_whole
        return self._trees.get(snapshot_id)

    def _check_snapshots(self, files: TreeFiles) -> SnapshotsChecked:
        metadata, progress = self._reader.metadata, self._reader.context.progress
        progress.phase("checking snapshots", total=len(self._chosen))
        kept_files, removed_files = files.none(), files.none()
        steps: list[RecordedChanges] = []
        replaced: list[_ReplacedBlob] = []
        for snapshot in sorted(self._chosen.values(), key=lambda item: item.sequence_number):
            self._reader.context.deadline.check()
            progress.advance(1)
            listed = self._tree(snapshot.snapshot_id)
            if listed is None:
                continue
            tree, is_whole = listed
            subject = f"snapshot {snapshot.snapshot_id}"
            live = CheckedTree(files, tree, subject, metadata.next_row_id)
            kept_files[live.rows] = True
            removed_files[files.dropped(tree)] = True
            self._tally.add(SFC1_RULES.findings(live, only=None if is_whole else ALWAYS))
            if is_whole:
                before = self._tree(snapshot.parent_snapshot_id or -1)
                changed = changed_rows(files, tree, live.rows, before[0] if before else None)
                steps.append(changed)
                self._tally.add(SFC1_RULES.findings(TreeSummary(snapshot, live, changed)))
                replaced += self._step(snapshot, live, changed)
        self._tally.add(SFC1_RULES.findings(TreeHistory(files, kept_files, steps)))
        alive = where(files.entries, kept_files)
        outside = files_outside(
            alive, location_keys(alive.table["location"]), expected_places(metadata)
        )
        place = EVERY_RULE["R-161"]
        breaches = breaches_of_places(list(outside.values()))
        self._tally.add(place.finding("snapshots", breach) for breach in breaches)
        matching = np.concatenate(self._matching)
        only_gone = where(files.entries, removed_files & ~kept_files & matching)
        lists = self._lists()
        return SnapshotsChecked(
            alive,
            self._tally.chosen(alive, matching[kept_files]),
            lists,
            lambda: distinct_manifests(map(self._opened, lists, lists.values())),
            lambda: check_gone(self._reader, only_gone),
            lambda: _check_replaced(self._reader.context.store, replaced),
        )

    def _opened(self, id_: int, listed: Sequence[ManifestFile]) -> Sequence[ManifestFile]:
        """Return the manifests of a snapshot without those that were not read."""
        excluded = self._excluded.get(id_, ())
        return [
            one
            for one in listed
            if comparison_key(one.affiliated_to or one.manifest_path) not in excluded
        ]

    def _lists(self) -> Mapping[int, Sequence[ManifestFile]]:
        """Return what the roots of the chosen snapshots list, where they can be read."""
        lists = {}
        for id_ in self._chosen.keys() & self._roots.keys():
            root = self._roots[id_]
            dead = root.vectors.dead()
            read = partial(listed_manifests, root.snapshot, root.rows, dead)
            listed = None if root.unread else read_or_none(read)
            if listed is not None:
                lists[id_] = listed
        return lists

    def _step(
        self, snapshot: Snapshot, live: CheckedTree, changed: RecordedChanges
    ) -> Iterator[_ReplacedBlob]:
        """Check a snapshot against its parent, and yield replaced deletion vectors."""
        parent_id = snapshot.parent_snapshot_id or -1
        listed = self._tree(parent_id)
        if listed is None:
            return
        root, before = self._roots[snapshot.snapshot_id], self._roots[parent_id]
        self._tally.add(SFC1_RULES.findings(VectorStep(root.vectors, before.vectors)))
        parent, is_whole = listed
        if not is_whole:
            return
        step = TreeStep(snapshot, live, parent, changed)
        self._tally.add(SFC1_RULES.findings(step))
        for old, new in replaced_vectors(step).tolist():
            rows = take(live.files.entries, [old, new])
            (_, *one), (data_file, *other) = by_row(rows, *_BLOB)
            yield str(data_file), (*one,), (*other,)


def _check_replaced(store: Store, replaced: Iterable[_ReplacedBlob]) -> Iterator[Finding]:
    """Check that vectors hold all positions of those that they replaced (V4-164).

    Cost: the bytes of both.
    """
    for data_file, *places in replaced:
        # A file that can't be read is said of the file.
        before, after = (read_or_none(partial(store.read_range, *place)) for place in places)
        if before is not None and after is not None:
            yield from SFC1_RULES.findings(ReplacedVector(data_file, before, after))
