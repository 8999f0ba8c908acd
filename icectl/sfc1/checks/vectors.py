"""Searches over the delete vectors of a root and the leaves that they are for."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from icectl.entries.columns.values import Positions
from icectl.format.manifest import Content, Status
from icectl.format.rule import BrokenRule, Fault, Found
from icectl.sfc1.checks.rows import TreeColumns

_PUFFIN_FRAMING = 24
"""Bytes that a blob has more than the bitmap in it (sfc-1 6.3)."""


@dataclass(frozen=True, slots=True)
class VectorLimits:
    """The limits that a table's properties set to delete vectors over leaves."""

    inline_max_bytes: int
    inline_total_max_bytes: int
    rewrite_ratio: float


class RootVectors:
    """The rows of vectors and of leaves of one root, by the leaf's key.

    `bitmaps` has the positions by the ordinal of their row, as far as they could be read;
    `repeated` are rows of leaves that an earlier row lists.
    """

    def __init__(self, columns: TreeColumns, bitmaps: Mapping[int, Positions]) -> None:
        self.columns = columns
        self.bitmaps = bitmaps
        self._statuses: list[int] = columns.status.tolist()
        self.leaves: dict[str, int] = {}
        self.vectors: dict[str, list[int]] = {}
        self.locations, self.referenced = columns.keys("location"), columns.keys("referenced_file")
        self.repeated: list[int] = []
        for at in columns.places(Content.DATA_MANIFEST, Content.DELETE_MANIFEST):
            if self.leaves.setdefault(self.locations[at] or "", at) != at:
                self.repeated.append(at)
        self._record_counts: list[int] = columns.numbers("record_count").tolist()
        self.forms: dict[int, tuple[object, ...]] = {}
        for at, row in columns.rows_of(Content.MANIFEST_DV).items():
            self.vectors.setdefault(self.referenced[at] or "", []).append(at)
            self.forms[at] = row.inline_content, row.location, row.content_offset

    def fault(self, key: str) -> Fault:
        """Return the leaf that something is wrong with, as the root names it."""
        at = self.leaves.get(key)
        if at is not None:
            return Fault(1, str(self.columns.rows["location"][at].as_py()))
        named = self.columns.rows["referenced_file"][self.vectors[key][0]].as_py()
        return Fault(1, str(named or "a leaf without a name"))

    def record_count(self, at: int) -> int:
        """Return the record count of a row."""
        return self._record_counts[at]

    def status(self, at: int) -> int:
        """Return the status of a row."""
        return self._statuses[at]

    def is_live(self, key: str) -> bool:
        """Return whether the leaf is listed, and not as DELETED."""
        return key in self.leaves and self.status(self.leaves[key]) != Status.DELETED

    def positions(self, key: str) -> dict[int, Positions]:
        """Positions of a leaf that could be read, by the status of the vectors that name them."""
        found: dict[int, Positions] = {}
        for at in self.vectors.get(key, ()):
            if at in self.bitmaps:
                before = found.get(self.status(at), self.bitmaps[at][:0])
                found[self.status(at)] = np.union1d(before, self.bitmaps[at])
        return found

    def of(self, key: str, *statuses: Status) -> list[int]:
        """Return rows of the vectors over a leaf that have one of the statuses."""
        return [at for at in self.vectors.get(key, ()) if self.status(at) in statuses]


def vector_faults(root: RootVectors) -> Found:
    """Check the vectors and leaves of a root among themselves.

    Rules: V4-080 to V4-091, V4-114, V4-116.
    """
    for key in dict.fromkeys(root.locations[at] or "" for at in root.repeated):
        yield BrokenRule("V4-116", root.fault(key), "is listed more than once")  # V4-116
    for key in root.vectors:
        yield from _of_leaf(root, key)
    for at in root.columns.places(Content.DELETE_MANIFEST):
        named = root.referenced[at]
        if named is None or root.status(at) == Status.DELETED or root.is_live(named):
            continue
        said = f"belongs to `{named}`, which is not live"  # V4-114
        yield BrokenRule("V4-114", root.fault(root.locations[at] or ""), said)


def _of_leaf(root: RootVectors, key: str) -> Found:
    here = root.fault(key)
    live = root.of(key, Status.ADDED, Status.EXISTING)
    added, deleted = root.of(key, Status.ADDED), root.of(key, Status.DELETED)
    if len(live) > 1:  # V4-080
        yield BrokenRule("V4-080", here, f"has {len(live)} live delete vectors")
    if not root.is_live(key):  # V4-081
        if live:
            yield BrokenRule("V4-081", here, "has a delete vector, but is not live")
        if deleted:
            said = "has a DELETED delete vector, but is not live"
            yield BrokenRule("V4-081", here, said, "warning")
    elif deleted and not added:  # V4-086
        yield BrokenRule("V4-086", here, "has lost its delete vector, and none took its place")
    if key in root.leaves:
        yield from _inside(root, key)
        if added and root.status(root.leaves[key]) == Status.ADDED:  # V4-091
            yield BrokenRule("V4-091", here, "is new and has a new delete vector")
    if not all(_grows(root, old, new) for old in deleted for new in added):  # V4-085
        said = "has a new delete vector that does not hold more than the old one"
        yield BrokenRule("V4-085", here, said)


def _grows(root: RootVectors, old: int, new: int) -> bool:
    """Whether a vector holds all that an old one does, and more, as far as both were read."""
    if not {old, new} <= root.bitmaps.keys():
        return True
    before, after = root.bitmaps[old], root.bitmaps[new]
    return not len(np.setdiff1d(before, after)) and len(after) > len(before)


def _inside(root: RootVectors, key: str) -> Found:
    count = root.record_count(root.leaves[key])
    for at in root.vectors[key]:
        positions = root.bitmaps.get(at)
        if positions is not None and len(positions) and int(positions[-1]) >= count:  # V4-083
            said = f"has {count} rows, and a delete vector that names row {int(positions[-1])}"
            yield BrokenRule("V4-083", root.fault(key), said)


def worth_rewriting(root: RootVectors, limits: VectorLimits, location: str) -> Found:
    """Find what the next rewrite would write in another way (V4-089, V4-192, V4-193).

    `location` is that of the root.
    """
    columns = root.columns
    inline = columns.rows["inline_content"].to_pylist()
    sizes = [0 if one is None else len(one) for one in inline]
    total = sum(sizes)
    if total > limits.inline_total_max_bytes:  # V4-089
        yield BrokenRule("V4-089", Fault(1, location), f"has {total:,} bytes of bitmaps")
    blobs = columns.numbers("content_size_in_bytes")
    for key, rows in root.vectors.items():
        for at in rows:
            bare = int(blobs[at]) - _PUFFIN_FRAMING
            fits = bare <= limits.inline_max_bytes
            room = total + bare <= limits.inline_total_max_bytes
            is_out = columns.rows["content_offset"][at].is_valid
            if sizes[at] > limits.inline_max_bytes or (is_out and fits and room):  # V4-089
                yield BrokenRule("V4-089", root.fault(key), "has its bitmap in the wrong place")
        yield from _shares(root, key, limits.rewrite_ratio)


def _shares(root: RootVectors, key: str, ratio: float) -> Found:
    live = root.of(key, Status.ADDED, Status.EXISTING)
    if len(live) != 1 or live[0] not in root.bitmaps or not root.is_live(key):
        return
    dead, leaf = len(root.bitmaps[live[0]]), root.leaves[key]
    added, existing, deleted = (
        int(root.columns.numbers(f"{name}_files_count")[leaf])
        for name in ("added", "existing", "deleted")
    )
    if dead == added + existing and not deleted:  # V4-193
        yield BrokenRule("V4-193", root.fault(key), "has no live rows left")
    elif dead > ratio * (added + existing):  # V4-192
        yield BrokenRule("V4-192", root.fault(key), f"has {dead} dead rows of {added + existing}")


def vector_steps(root: RootVectors, parent: RootVectors) -> Found:
    """Yield vectors against those of the parent, of leaves that live in both (V4-087, V4-088)."""
    for key in root.leaves:
        if not (root.is_live(key) and parent.is_live(key)) or _is_carried(root, parent, key):
            continue
        said = _differs(root, parent, key)
        if said is not None:  # V4-087
            yield BrokenRule("V4-087", root.fault(key), said)
        elif _rewritten(root, parent, key):  # V4-088
            yield BrokenRule("V4-088", root.fault(key), "has its delete vector in another form")


def _differs(root: RootVectors, parent: RootVectors, key: str) -> str | None:
    """Tell what is wrong between a leaf's dead rows and those in the parent; None for nothing."""
    live = (Status.ADDED, Status.EXISTING)
    before = _union(parent, parent.of(key, *live))
    here = _union(root, root.of(key, *live))
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
        told = _union(root, deleted)
        if not deleted or (told is not None and not np.array_equal(told, before)):
            return "has a new delete vector, and the one before it is not listed as DELETED"
    return None


def _union(root: RootVectors, rows: list[int]) -> Positions | None:
    """Return the positions of vectors; None where one could not be read."""
    if not set(rows) <= root.bitmaps.keys():
        return None
    return np.unique(np.concatenate([np.empty(0, np.uint64), *(root.bitmaps[at] for at in rows)]))


def _is_carried(root: RootVectors, parent: RootVectors, key: str) -> bool:
    """Return whether the vector of a leaf is the one of the parent, or neither has one."""
    before = parent.of(key, Status.ADDED, Status.EXISTING)
    here = root.vectors.get(key, [])
    if any(root.status(at) != Status.EXISTING for at in here):
        return False
    return [root.forms[at] for at in here] == [parent.forms[at] for at in before]


def _rewritten(root: RootVectors, parent: RootVectors, key: str) -> bool:
    old, new = parent.of(key, Status.ADDED, Status.EXISTING), root.of(key, Status.EXISTING)
    return len(old) == len(new) == 1 and root.forms[new[0]] != parent.forms[old[0]]
