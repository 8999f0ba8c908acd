"""Rules of the delete vectors of a root and the leaves that they are for."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from icectl.checks.rule import Breach, Check, located, rule
from icectl.entries.columns import Positions
from icectl.format.manifest import Content, Status
from icectl.format.rule import NO_ROW, OURS, REWRITE_MANIFESTS, ROLL_BACK, Fault, Severity
from icectl.sfc1.checks.live import LiveTree, in_tree, strange_in_leaves
from icectl.sfc1.checks.rows import TreeColumns
from icectl.storage.location import comparison_key
from icectl.units import print_count

_LIVE = (Status.ADDED, Status.EXISTING)


class RootVectors:
    """The rows of vectors and of leaves of one root, by the leaf's key.

    `bitmaps` has the positions by the ordinal of their row, as far as they could be read;
    `repeated` are rows of leaves that an earlier row lists; leaves are due for a rewrite above the
    `rewrite_ratio` of dead rows.
    """

    def __init__(
        self,
        subject: str,
        columns: TreeColumns,
        bitmaps: Mapping[int, Positions],
        rewrite_ratio: float = 1.0,
    ) -> None:
        self.subject = subject
        self.columns = columns
        self.bitmaps = bitmaps
        self.rewrite_ratio = rewrite_ratio
        self.statuses: list[int] = columns.status.tolist()
        self.leaves: dict[str, int] = {}
        self.vectors: dict[str, list[int]] = {}
        self.locations, self.referenced = columns.keys("location"), columns.keys("referenced_file")
        self.repeated: list[int] = []
        for at in columns.places(Content.DATA_MANIFEST, Content.DELETE_MANIFEST):
            if self.leaves.setdefault(self.locations[at] or "", at) != at:
                self.repeated.append(at)
        self.record_counts: list[int] = columns.numbers("record_count").tolist()
        self.forms: dict[int, tuple[object, ...]] = {}
        for at, row in columns.rows_of(Content.MANIFEST_DV).items():
            self.vectors.setdefault(self.referenced[at] or "", []).append(at)
            self.forms[at] = row.inline_content, row.location, row.content_offset

    def breach(self, key: str, what: str, severity: Severity | None = None) -> Iterator[Breach]:
        """Yield a breach of the leaf that something is wrong with, as the root names it."""
        at = self.leaves.get(key)
        if at is not None:
            name = str(self.columns.rows["location"][at].as_py())
        else:
            named = self.columns.rows["referenced_file"][self.vectors[key][0]].as_py()
            name = str(named or "a leaf without a name")
        yield from located(self.subject, Fault(1, name), what, severity)

    def is_live(self, key: str) -> bool:
        return key in self.leaves and self.statuses[self.leaves[key]] != Status.DELETED

    def positions(self, key: str) -> dict[int, Positions]:
        """Positions of a leaf that could be read, by the status of the vectors that name them."""
        vectors: dict[int, Positions] = {}
        for at in self.vectors.get(key, ()):
            if at in self.bitmaps:
                before = vectors.get(self.statuses[at], self.bitmaps[at][:0])
                vectors[self.statuses[at]] = np.union1d(before, self.bitmaps[at])
        return vectors

    def dead(self) -> dict[str, Positions]:
        """Return what live vectors name, as far as they could be read, by comparison key."""
        leaves = self.columns.rows["referenced_file"]
        return {
            comparison_key(str(leaves[live[0]].as_py())): np.unique(
                np.concatenate([self.bitmaps[at] for at in live])
            )
            for key in self.vectors
            if (live := [at for at in self.of(key, *_LIVE) if at in self.bitmaps])
        }

    def of(self, key: str, *statuses: Status) -> list[int]:
        """Return rows of the vectors over a leaf that have one of the statuses."""
        return [at for at in self.vectors.get(key, ()) if self.statuses[at] in statuses]


def _listed_twice(root: RootVectors) -> Iterator[Breach]:
    for key in dict.fromkeys(root.locations[at] or "" for at in root.repeated):
        yield from root.breach(key, "is listed more than once")


def _without_data_leaf(root: RootVectors) -> Iterator[Breach]:
    for at in root.columns.places(Content.DELETE_MANIFEST):
        named = root.referenced[at]
        if named is None or root.statuses[at] == Status.DELETED or root.is_live(named):
            continue
        what = f"belongs to `{named}`, which is not live"
        yield from root.breach(root.locations[at] or "", what)


def in_leaves(
    what: str, wrong: Callable[[RootVectors, str], bool], severity: Severity | None = None
) -> Check[RootVectors]:
    """Check each leaf of a root that has delete vectors, by its key."""

    def search(root: RootVectors) -> Iterator[Breach]:
        for key in root.vectors:
            if wrong(root, key):
                yield from root.breach(key, what, severity)

    return Check(RootVectors, search)


def _several_live(root: RootVectors) -> Iterator[Breach]:
    for key in root.vectors:
        live = root.of(key, *_LIVE)
        if len(live) > 1:
            yield from root.breach(key, f"has {len(live)} live delete vectors")


def _mostly_dead(root: RootVectors) -> Iterator[Breach]:
    for key in root.vectors:
        positions = _union(root, root.of(key, *_LIVE)) if root.is_live(key) else None
        count = root.record_counts[root.leaves[key]] if key in root.leaves else 0
        if positions is not None and len(positions) > root.rewrite_ratio * count:
            yield from root.breach(
                key, f"has {print_count(len(positions), 'dead row')} of {count:,}"
            )


def _outside_of_leaf(root: RootVectors) -> Iterator[Breach]:
    for key, rows in root.vectors.items():
        count = root.record_counts[root.leaves[key]] if key in root.leaves else None
        for at in rows:
            positions = root.bitmaps.get(at)
            if count is None or positions is None or not len(positions):
                continue
            last = int(positions[-1])
            if last >= count:
                what = f"has {count} rows, and a delete vector that names row {last}"
                yield from root.breach(key, what)


def _has_shrunk(root: RootVectors, key: str) -> bool:
    """Whether a new vector lacks part of an old one, or has no more, as far as both were read."""
    old, new = (
        [root.bitmaps[at] for at in root.of(key, status) if at in root.bitmaps]
        for status in (Status.DELETED, Status.ADDED)
    )
    return any(
        len(np.setdiff1d(before, after)) > 0 or len(after) <= len(before)
        for before, after in product(old, new)
    )


@dataclass(frozen=True, slots=True)
class VectorStep:
    """The delete vectors of a root, and those of its parent."""

    root: RootVectors
    parent: RootVectors

    @property
    def subject(self) -> str:
        return self.root.subject

    def changed(self) -> Iterator[str]:
        """Yield leaves that live in both, and whose vector is not simply carried."""
        for key in self.root.leaves:
            if self.root.is_live(key) and self.parent.is_live(key):
                before, here = self.parent.of(key, *_LIVE), self.root.vectors.get(key, [])
                are_old = all(self.root.statuses[at] == Status.EXISTING for at in here)
                forms = [self.parent.forms[at] for at in before]
                if not are_old or [self.root.forms[at] for at in here] != forms:
                    yield key


def _mismatched_deleted_rows(step: VectorStep) -> Iterator[Breach]:
    for key in step.changed():
        what = _differs(step.root, step.parent, key)
        if what is not None:
            yield from step.root.breach(key, what)


def _mismatched_forms(step: VectorStep) -> Iterator[Breach]:
    for key in step.changed():
        old, new = step.parent.of(key, *_LIVE), step.root.of(key, Status.EXISTING)
        forms = [step.parent.forms[at] for at in old], [step.root.forms[at] for at in new]
        is_other = len(old) == len(new) == 1 and forms[0] != forms[1]
        if is_other and _differs(step.root, step.parent, key) is None:
            yield from step.root.breach(key, "has its delete vector in another form")


def _differs(root: RootVectors, parent: RootVectors, key: str) -> str | None:
    """Tell what is wrong between a leaf's dead rows and those in the parent; None for nothing."""
    before, here = (_union(one, one.of(key, *_LIVE)) for one in (parent, root))
    added, deleted = root.of(key, Status.ADDED), root.of(key, Status.DELETED)
    if before is None or here is None:
        return None
    if len(np.setdiff1d(before, here)):
        return "has rows that were dead in the parent, and live again"
    if len(here) == len(before):
        return "has another delete vector that holds no more" if added or deleted else None
    if not added:
        return "has more dead rows than in the parent, and no new delete vector says so"
    if len(before):
        replaced = _union(root, deleted)
        if not deleted or (replaced is not None and not np.array_equal(replaced, before)):
            return "has a new delete vector, and the one before it is not listed as DELETED"
    return None


def _union(root: RootVectors, rows: list[int]) -> Positions | None:
    """Return the positions of vectors; None where one could not be read."""
    if not set(rows) <= root.bitmaps.keys():
        return None
    return np.unique(np.concatenate([np.empty(0, np.uint64), *(root.bitmaps[at] for at in rows)]))


# fmt: off
VECTOR_RULES = (
    rule("V4-080", "a leaf has one live manifest delete vector at most",
         "Manifest delete vectors", "error",
         ROLL_BACK, Check(RootVectors, _several_live)),
    rule("V4-081", "the leaf of a manifest delete vector is live",
         "Manifest delete vectors", "error",
         ROLL_BACK,
         in_leaves("has a delete vector, but is not live",
                   lambda root, key: not root.is_live(key) and bool(root.of(key, *_LIVE))),
         in_leaves("has a DELETED delete vector, but is not live",
                   lambda root, key: not root.is_live(key) and bool(root.of(key, Status.DELETED)),
                   "warning")),
    rule("V4-082", "the bitmap of a manifest delete vector is intact, and counts what its row says",
         "Manifest delete vectors", "error", ROLL_BACK),
    rule("V4-083", "positions of a manifest delete vector lie inside of its leaf",
         "Manifest delete vectors",
         "error", ROLL_BACK, Check(RootVectors, _outside_of_leaf)),
    rule("V4-085", "a manifest delete vector that replaces another holds more",
         "Manifest delete vectors",
         "error", ROLL_BACK,
         in_leaves("has a new delete vector that does not hold more than the old one",
                   _has_shrunk)),
    rule("V4-086", "a replaced manifest delete vector has one in its place",
         "Manifest delete vectors",
         "error", ROLL_BACK,
         in_leaves("has lost its delete vector, and no other replaced it",
                   lambda root, key: root.is_live(key) and bool(root.of(key, Status.DELETED))
                   and not root.of(key, Status.ADDED))),
    rule("V4-087", "dead rows of a leaf stay dead", "Manifest delete vectors", "error", ROLL_BACK,
         Check(VectorStep, _mismatched_deleted_rows)),
    rule("V4-088", "manifest delete vectors that stay keep their form",
         "Manifest delete vectors", "info",
         OURS, Check(VectorStep, _mismatched_forms)),
    rule("V4-089", "manifest delete vectors are inline or not by their size",
         "Manifest delete vectors",
         "info", REWRITE_MANIFESTS, not_enforced=NO_ROW),
    rule("V4-090", "a manifest delete vector in a Puffin file is the blob that its row says",
         "Manifest delete vectors", "error", ROLL_BACK),
    rule("V4-091", "a leaf is not added together with a manifest delete vector over it",
         "Manifest delete vectors", "warning", REWRITE_MANIFESTS,
         in_leaves("is new and has a new delete vector",
                   lambda root, key: key in root.leaves and bool(root.of(key, Status.ADDED))
                   and root.statuses[root.leaves[key]] == Status.ADDED)),
    rule("V4-114", "an affiliated delete leaf belongs to its data leaf", "Leaves", "error",
         ROLL_BACK,
         Check(RootVectors, _without_data_leaf),
         in_tree(LiveTree, "is in a delete leaf of a data leaf that does not have its data file",
                 strange_in_leaves)),
    rule("V4-192", "few rows of a leaf are dead", "Storage", "info", REWRITE_MANIFESTS,
         Check(RootVectors, _mostly_dead)),
    rule("V4-116", "a root lists every leaf once", "Leaves", "error", ROLL_BACK,
         Check(RootVectors, _listed_twice)),
)
# fmt: on
