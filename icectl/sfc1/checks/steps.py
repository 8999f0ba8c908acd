"""The changes of a version 4 snapshot, and those that it may not have made (V4-160 to V4-166)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from icectl.entries.columns.values import NONE, Integers, Mask, Positions
from icectl.format.manifest import Content, Status
from icectl.format.rule import Found
from icectl.sfc1.checks.live import LeafUse, Tree, TreeFiles


@dataclass(frozen=True, slots=True)
class SaidChanges:
    """Rows of the files that a snapshot says it added and removed (sfc-1 9.2).

    `listed` are the removed ones without those that only a DELETED leaf tells of.
    """

    added: Integers
    removed: Integers
    listed: Integers


def changed_rows(
    files: TreeFiles, tree: Tree, live: Integers, parent: Tree | None = None
) -> SaidChanges:
    """Find what a snapshot changed, from its root and the leaves that it marks (sfc-1 9.2).

    `parent` tells what was dead already where the root does not (sfc-1 9.6).
    """
    rows = files.part(tree.own)
    status = files.status[rows]
    added, removed = [rows[status == Status.ADDED]], [rows[status == Status.DELETED]]
    implied = [rows[:0]]
    dead = {} if parent is None else {use.key: use.killed for use in parent.leaves if use.is_live}
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
        """Leave out rows of files that were both removed and added."""
        return files.chosen(rows, ~np.isin(identities[rows], moved))

    return SaidChanges(unmoved(new), unmoved(gone), unmoved(listed))


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
    alive[_within(use.killed, rows)] = False
    gone = (status == Status.DELETED) | ((status == Status.EXISTING) & killed_now)
    return rows[(status == Status.ADDED) & alive], rows[gone]


def _within(positions: Positions, rows: Integers) -> Integers:
    return positions[positions < len(rows)].astype(np.int64)


@dataclass(frozen=True, slots=True)
class TreeStep:
    """A whole snapshot, its whole parent, and what it says it changed."""

    tree: Tree
    parent: Tree
    changed: SaidChanges


def step_faults(files: TreeFiles, step: TreeStep, live: Integers) -> Found:
    """Find what went between a snapshot and its parent without being said (V4-160 to V4-162)."""
    identities = files.identities
    here, before = _differing(files, step.tree, step.parent)
    kept = np.intersect1d(identities[here], identities[before])
    yield from _renumbered(files, here, before, kept)
    removed, added = identities[step.changed.removed], identities[step.changed.added]
    lost = before[~np.isin(identities[before], np.concatenate([kept, removed]))]
    unlisted = _lost_with_leaves(files, step, live)
    yield from files.broken("V4-161", unlisted, "went with its leaf, and nothing says so")
    lost = lost[~np.isin(identities[lost], identities[unlisted])]
    yield from files.broken("V4-160", lost, "is live no more, and nothing says so")
    new = here[~np.isin(identities[here], np.concatenate([kept, added]))]
    yield from files.broken("V4-160", new, "is live all at once, and nothing says so")
    alive = identities[live]
    still = step.changed.removed[np.isin(removed, alive)]
    yield from files.broken("V4-160", still, "was removed, and is live")
    never = step.changed.removed[~np.isin(removed, np.union1d(identities[before], alive))]
    yield from files.broken("V4-160", never, "was removed, but did not live before")
    known = np.isin(added, identities[before])
    said = "was added, but lived before"
    yield from files.broken("V4-160", step.changed.added[known], said)


def _differing(files: TreeFiles, tree: Tree, parent: Tree) -> tuple[Integers, Integers]:
    """Return live rows of two snapshots but for those of leaves that both list alike."""
    alike = {_content(use) for use in tree.leaves} & {_content(use) for use in parent.leaves}

    def rest(one: Tree) -> Integers:
        """List the live rows of a tree but for those of leaves that are alike."""
        leaves = (use for use in one.leaves if _content(use) not in alike)
        return np.concatenate([files.own_rows(one), *(files.living(use) for use in leaves)])

    return rest(tree), rest(parent)


def _content(use: LeafUse) -> tuple[int, bool, bytes]:
    return use.part, use.is_live, use.killed.tobytes()


def _renumbered(files: TreeFiles, here: Integers, before: Integers, kept: Integers) -> Found:
    """Yield files that live on with other numbers (V4-162); a first row id may be given later."""
    identities = files.identities
    here = here[np.isin(identities[here], kept)]
    before = before[np.isin(identities[before], kept)]
    _, now = np.unique(identities[here], return_index=True)
    _, then = np.unique(identities[before], return_index=True)
    here, before = here[now], before[then]
    wrong = np.zeros(len(here), bool)
    for name in ("snapshot_id", "sequence_number", "file_sequence_number"):
        column = files.numbers(name)
        wrong |= column[here] != column[before]
    row_ids = files.first_row_ids
    wrong |= (row_ids[before] >= 0) & (row_ids[here] != row_ids[before])
    yield from files.broken("V4-162", here[wrong], "lives on with other numbers than before")


def _lost_with_leaves(files: TreeFiles, step: TreeStep, live: Integers) -> Integers:
    """Return files of leaves that are gone, neither live nor listed as removed (V4-161)."""
    present = {use.part for use in step.tree.leaves if use.is_live}
    keys = {use.key for use in step.tree.leaves if use.is_live}
    gone = [use for use in step.parent.leaves if use.part not in present and use.key not in keys]
    if not gone:
        return np.empty(0, np.int64)
    identities = files.identities
    rows = np.concatenate([files.living(use) for use in gone])
    known = np.concatenate([identities[live], identities[step.changed.listed]])
    return rows[~np.isin(identities[rows], known)]


def restored_faults(files: TreeFiles, step: TreeStep, live: Integers) -> Found:
    """Yield data files whose delete vector went, and none came (V4-165)."""
    vectors = step.changed.removed[files.is_vector[step.changed.removed]]
    covered = live[files.is_vector[live]]
    data = live[files.content[live] == Content.DATA]
    named = files.named[vectors]
    wrong = np.isin(named, files.codes[data]) & ~np.isin(named, files.named[covered])
    said = "was a delete vector of a file that lives on without one"
    yield from files.broken("V4-165", vectors[wrong], said)


def replaced_vectors(files: TreeFiles, step: TreeStep, live: Integers) -> Integers:
    """Pairs of rows: a data file's delete vector in the parent, and the one in its place now."""
    here, before = _differing(files, step.tree, step.parent)
    whole = files.is_vector & (files.named >= 0) & (files.numbers("content_offset") >= 0)
    new, old = here[whole[here]], before[whole[before]]
    place = np.full(files.code_count, -1, np.int64)
    place[files.named[new]] = new
    taken = place[files.named[old]]
    lives = np.isin(files.named[old], files.codes[live[files.content[live] == Content.DATA]])
    other = files.identities[old] != files.identities[taken]
    chosen = (taken >= 0) & lives & other
    return np.stack([old[chosen], taken[chosen]], axis=1)


def row_count(files: TreeFiles, live: Integers) -> int | None:
    """Count the rows that live files hold; None where other deletes than vectors may hide some."""
    vector = files.is_vector[live]
    is_data = files.content[live] == Content.DATA
    if not (vector | is_data).all():
        return None
    counts = files.record_counts[live]
    return int(counts[is_data].sum() - counts[vector].sum())


def renumbered_files(files: TreeFiles, lived: Mask) -> Found:
    """Yield data files that one snapshot added, with two data sequence numbers (V4-163).

    `lived` are the rows that live in any of the snapshots.
    """
    rows = np.flatnonzero(lived & (files.content == Content.DATA))
    keys = np.stack([files.codes[rows], files.numbers("snapshot_id")[rows]], axis=1)
    _, first, groups = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    numbers = files.sequence_numbers[rows]
    wrong = rows[numbers != numbers[first][groups.reshape(-1)]]
    said = "has another data sequence number in another snapshot"
    yield from files.broken("V4-163", wrong, said)


def added_again(files: TreeFiles, steps: Sequence[SaidChanges]) -> Found:
    """Yield data files that were removed once and added later (V4-166). `steps`: oldest first."""
    gone: Mask = np.zeros(files.code_count, bool)
    for step in steps:
        added = step.added[files.content[step.added] == Content.DATA]
        said = "was removed before, and is added again"
        yield from files.broken("V4-166", added[gone[files.codes[added]]], said)
        removed = step.removed[files.content[step.removed] == Content.DATA]
        gone[files.codes[removed]] = True
