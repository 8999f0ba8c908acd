"""The changes of a snapshot with a root, and those that it may not have made."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from icectl.checks.live_entries import LiveRows, renumbered
from icectl.checks.rule import Breach, Check, other_counters, rule
from icectl.entries.columns import NONE, Integers, Mask, Positions
from icectl.entries.summary import summary_counters
from icectl.errors import CorruptTable
from icectl.files.deletion_vectors import read_dv
from icectl.format.manifest import Content, Status
from icectl.format.rule import NEXT_COMMIT, ROLL_BACK, WRITER
from icectl.format.snapshot import Snapshot
from icectl.sfc1.checks.live import CheckedTree, LeafUse, Tree, TreeFiles


@dataclass(frozen=True, slots=True)
class RecordedChanges:
    """Rows of the files that a snapshot says it added and removed (sfc-1 9.2).

    `listed` are the removed ones without those that only a DELETED leaf tells of.
    """

    added: Integers
    removed: Integers
    listed: Integers


def changed_rows(
    files: TreeFiles, tree: Tree, live: Integers, parent: Tree | None = None
) -> RecordedChanges:
    """Find what a snapshot changed, from its root and the leaves that it marks (sfc-1 9.2).

    `parent` tells what was dead already where the root does not (sfc-1 9.6).
    """
    rows = files.part(tree.own)
    status = files.status[rows]
    added, removed = [rows[status == Status.ADDED]], [rows[status == Status.DELETED]]
    implied = [rows[:0]]
    leaves = () if parent is None else parent.leaves
    dead = {use.key: use.deleted_positions for use in leaves if use.is_live}
    for use in tree.leaves:
        if use.is_live:
            fresh, gone = _of_leaf(files, use, dead.get(use.key, NONE))
            added.append(fresh)
            removed.append(gone)
        else:
            inside = files.part(use.part)
            alive = files.status[inside] != Status.DELETED
            alive[_within(use.of(Status.DELETED, Status.EXISTING), inside)] = False
            implied.append(inside[alive])
    identities = files.identities
    new, listed = np.concatenate(added), np.concatenate(removed)
    dropped = np.concatenate(implied)
    dropped = dropped[~np.isin(identities[dropped], identities[live])]
    gone = np.concatenate([listed, dropped])
    moved = np.intersect1d(identities[new], identities[gone])

    def unmoved(rows: Integers) -> Integers:
        return files.chosen(rows, ~np.isin(identities[rows], moved))

    return RecordedChanges(unmoved(new), unmoved(gone), unmoved(listed))


def _of_leaf(files: TreeFiles, use: LeafUse, dead_before: Positions) -> tuple[Integers, Integers]:
    """Find the rows that a live leaf adds and removes: (added, removed)."""
    before = use.of(Status.DELETED) if Status.DELETED in use.dead else dead_before
    fresh: Positions = np.setdiff1d(use.of(Status.ADDED), before)
    none = np.empty(0, np.int64)
    if use.status == Status.EXISTING and not len(fresh):
        return none, none
    rows = files.part(use.part)
    status = files.status[rows]
    killed_now = np.zeros(len(rows), bool)
    killed_now[_within(fresh, rows)] = True
    if use.status == Status.EXISTING:
        return none, rows[killed_now & (status != Status.DELETED)]
    alive = np.ones(len(rows), bool)
    alive[_within(use.deleted_positions, rows)] = False
    gone = (status == Status.DELETED) | ((status == Status.EXISTING) & killed_now)
    return rows[(status == Status.ADDED) & alive], rows[gone]


def _within(positions: Positions, rows: Integers) -> Integers:
    return positions[positions < len(rows)].astype(np.int64)


@dataclass(frozen=True)
class TreeStep:
    """A whole snapshot, its whole parent, and what it says it changed."""

    snapshot: Snapshot
    live: CheckedTree
    parent: Tree
    changed: RecordedChanges

    @property
    def subject(self) -> str:
        return self.live.subject

    @property
    def files(self) -> TreeFiles:
        return self.live.files

    @cached_property
    def differing(self) -> tuple[Integers, Integers]:
        alike = set(map(_content, self.live.tree.leaves)) & set(map(_content, self.parent.leaves))

        def rest(one: Tree) -> Integers:
            leaves = [use for use in one.leaves if _content(use) not in alike]
            return np.concatenate([self.files.own_rows(one), *map(self.files.living, leaves)])

        return rest(self.live.tree), rest(self.parent)

    @cached_property
    def stayed(self) -> Integers:
        here, before = self.differing
        identities = self.files.identities
        return np.intersect1d(identities[here], identities[before])

    @cached_property
    def lost_with_leaves(self) -> Integers:
        """Files of leaves that are gone, neither live nor listed as removed."""
        tree, identities = self.live.tree, self.files.identities
        present = {use.part for use in tree.leaves if use.is_live}
        keys = {use.key for use in tree.leaves if use.is_live}
        leaves = self.parent.leaves
        gone = [use for use in leaves if use.part not in present and use.key not in keys]
        if not gone:
            return np.empty(0, np.int64)
        rows = np.concatenate([self.files.living(use) for use in gone])
        known = np.concatenate([identities[self.live.rows], identities[self.changed.listed]])
        return rows[~np.isin(identities[rows], known)]


def in_step(what: str, search: Callable[[TreeStep], Integers]) -> Check[TreeStep]:
    """Check a snapshot against its parent; `search` returns the rows that break the rule."""
    return Check(TreeStep, lambda step: step.live.breaches(what, search(step)))


def _unsaid_changes(step: TreeStep) -> Iterator[Breach]:
    """What went between a snapshot and its parent without being said, or was said and did not."""
    identities = step.files.identities
    here, before = step.differing
    removed, added = identities[step.changed.removed], identities[step.changed.added]
    lost = before[~np.isin(identities[before], np.concatenate([step.stayed, removed]))]
    lost = lost[~np.isin(identities[lost], identities[step.lost_with_leaves])]
    new = here[~np.isin(identities[here], np.concatenate([step.stayed, added]))]
    alive = identities[step.live.rows]
    lived = np.union1d(identities[before], alive)
    for what, wrong in (
        ("is no longer live, and nothing says so", lost),
        ("is live all at once, and nothing says so", new),
        ("was removed, and is live", step.changed.removed[np.isin(removed, alive)]),
        ("was removed, but did not live before", step.changed.removed[~np.isin(removed, lived)]),
        ("was added, but lived before", step.changed.added[np.isin(added, identities[before])]),
    ):
        yield from step.live.breaches(what, wrong)


def _content(use: LeafUse) -> tuple[int, bool, bytes]:
    return use.part, use.is_live, use.deleted_positions.tobytes()


def _renumbered(step: TreeStep) -> Integers:
    """Files that live on keep their numbers; a first row id may be given later."""
    files, identities = step.files, step.files.identities
    here, before = step.differing
    here = here[np.isin(identities[here], step.stayed)]
    before = before[np.isin(identities[before], step.stayed)]
    _, now = np.unique(identities[here], return_index=True)
    _, then = np.unique(identities[before], return_index=True)
    here, before = here[now], before[then]
    wrong = np.zeros(len(here), bool)
    for name in ("snapshot_id", "sequence_number", "file_sequence_number"):
        column = files.numbers(name)
        wrong |= column[here] != column[before]
    row_ids = files.numbers("first_row_id")
    wrong |= (row_ids[before] >= 0) & (row_ids[here] != row_ids[before])
    return here[wrong]


def _restored_rows(step: TreeStep) -> Integers:
    """Data files whose delete vector went, and none came."""
    files, live = step.files, step.live
    vectors: Integers = step.changed.removed[files.is_vector[step.changed.removed]]
    covered = live.rows[files.is_vector[live.rows]]
    named = files.named[vectors]
    wrong = np.isin(named, files.codes[live.data]) & ~np.isin(named, files.named[covered])
    return vectors[wrong]


def replaced_vectors(step: TreeStep) -> Integers:
    """Pairs of rows: a data file's delete vector in the parent, and the one in its place now."""
    files = step.files
    here, before = step.differing
    complete = files.is_vector & (files.named >= 0) & (files.numbers("content_offset") >= 0)
    new, old = here[complete[here]], before[complete[before]]
    place = np.full(files.code_count, -1, np.int64)
    place[files.named[new]] = new
    taken = place[files.named[old]]
    lives = np.isin(files.named[old], files.codes[step.live.data])
    other = files.identities[old] != files.identities[taken]
    chosen = (taken >= 0) & lives & other
    return np.stack([old[chosen], taken[chosen]], axis=1)


def _row_count(files: TreeFiles, live: Integers) -> int | None:
    """Count the rows that live files hold; None where other deletes than vectors may hide some."""
    vector = files.is_vector[live]
    is_data = files.content[live] == Content.DATA
    if not (vector | is_data).all():
        return None
    counts = files.numbers("record_count")[live]
    return int(counts[is_data].sum() - counts[vector].sum())


def _mismatched_row_count(step: TreeStep) -> Iterator[Breach]:
    if step.snapshot.operation != "replace":
        return
    before = _row_count(step.files, step.files.live(step.parent))
    after = _row_count(step.files, step.live.rows)
    if before is not None and after is not None and before != after:
        yield Breach(f"it is a replace, and has {after:,} rows, its parent {before:,}")


@dataclass(frozen=True, slots=True)
class ReplacedVector:
    """The bytes of a data file's delete vector, and of the one that took its place."""

    subject: str
    before: bytes
    after: bytes


def _lost_positions(vector: ReplacedVector) -> Iterator[Breach]:
    try:
        lost = np.setdiff1d(read_dv(vector.before), read_dv(vector.after))
    except CorruptTable:
        return  # said where their files are checked
    if len(lost):
        lacks = f"its new delete vector lacks {len(lost):,} positions of the one before"
        yield Breach(f"{lacks}, {int(lost[0])} first")


@dataclass(frozen=True, slots=True)
class TreeSummary:
    """The summary of a whole snapshot, its live files and its changes."""

    snapshot: Snapshot
    live: CheckedTree
    changed: RecordedChanges

    @property
    def subject(self) -> str:
        return self.live.subject


def _mismatched_counters(summary: TreeSummary) -> Iterator[Breach]:
    totals, changed = summary.live.files.totals, summary.changed
    counters = {
        **summary_counters(totals(summary.live.rows), "total"),
        **summary_counters(totals(changed.added), "added"),
        **summary_counters(totals(changed.removed), "removed"),
    }
    return other_counters(summary.snapshot.summary or {}, counters)


@dataclass(frozen=True, slots=True)
class TreeHistory:
    """The files of several snapshots, the rows that live in any, and changes, oldest first."""

    files: TreeFiles
    lived: Mask
    steps: Sequence[RecordedChanges]
    subject: str = "snapshots"


def _mismatched_sequence_numbers(history: TreeHistory) -> Iterator[Breach]:
    """Data files that one snapshot added have one data sequence number."""
    files = history.files
    rows = np.flatnonzero(history.lived & (files.content == Content.DATA))
    keys = np.stack([files.codes[rows], files.numbers("snapshot_id")[rows]], axis=1)
    _, first, groups = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    numbers = files.numbers("sequence_number")[rows]
    wrong = rows[numbers != numbers[first][groups.reshape(-1)]]
    what = "has another data sequence number in another snapshot"
    yield from files.breaches(history.subject, what, wrong)


def _added_again(history: TreeHistory) -> Iterator[Breach]:
    files = history.files
    gone: Mask = np.zeros(files.code_count, bool)
    for step in history.steps:
        added = step.added[files.content[step.added] == Content.DATA]
        wrong = added[gone[files.codes[added]]]
        what = "was removed before, and is added again"
        yield from files.breaches(history.subject, what, wrong)
        removed = step.removed[files.content[step.removed] == Content.DATA]
        gone[files.codes[removed]] = True


SHORTER_VECTOR = (
    "roll back to a snapshot from before the vector with "
    "`icectl refs TABLE rollback --to SNAPSHOT`, or delete the rows again"
)
# fmt: off
STEP_RULES = (
    rule("V4-037", "a replace keeps the number of live rows", "Snapshots", "warning", ROLL_BACK,
         Check(TreeStep, _mismatched_row_count)),
    rule("V4-038", "the counters of a summary are those of the files", "Snapshots", "warning",
         NEXT_COMMIT, Check(TreeSummary, _mismatched_counters)),
    rule("V4-160", "live files are those of the parent, plus the changes", "Across snapshots",
         "error", ROLL_BACK, Check(TreeStep, _unsaid_changes)),
    rule("V4-161", "no leaf with live files is removed", "Across snapshots", "error", ROLL_BACK,
         in_step("was removed with its leaf, without a DELETED entry",
                 lambda step: step.lost_with_leaves)),
    rule("V4-162", "files that stay keep their numbers", "Across snapshots", "error", ROLL_BACK,
         in_step("stays live with other numbers than before", _renumbered)),
    rule("V4-163", "the data sequence number of a file never changes", "Across snapshots", "error",
         ROLL_BACK, Check(TreeHistory, _mismatched_sequence_numbers), Check(LiveRows, renumbered)),
    rule("V4-164", "a deletion vector that replaces another deletes no less", "Across snapshots",
         "error", SHORTER_VECTOR, Check(ReplacedVector, _lost_positions)),
    rule("V4-165", "no deleted rows come back", "Across snapshots", "warning", ROLL_BACK,
         in_step("was a delete vector of a file that lives on without one", _restored_rows)),
    rule("V4-166", "a removed file is not added again", "Across snapshots", "warning", WRITER,
         Check(TreeHistory, _added_again)),
)
# fmt: on
