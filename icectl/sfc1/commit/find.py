"""Where files are that a version 4 commit is about: in the root, or at a position of a leaf."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import NONE, Positions
from icectl.errors import CommitConflict
from icectl.format.manifest import Content, Status
from icectl.sfc1.commit.draft import Draft, Identity, TreeChange, identities, keys
from icectl.sfc1.live import of_contents
from icectl.sfc1.manifests import FILES
from icectl.sfc1.rows import ListedRow
from icectl.storage.location import comparison_key, comparison_keys

_IDENTIFYING = ["content", "location", "content_offset", "referenced_file"]

Place = tuple[str | None, int]
"""The comparison key of a leaf, None for the root, and a row there."""


@dataclass(frozen=True, slots=True)
class RemovedPlaces:
    """The places of removed files: rows of the root, and positions of leaves in order of finding.

    `rows` are the removed files themselves, those of the root first.
    """

    in_root: list[int]
    in_leaves: dict[str, list[int]]
    rows: pa.Table


def find(draft: Draft, change: TreeChange) -> RemovedPlaces:
    """Locate what goes: the removed files, their delete vectors, and vectors that are replaced.

    Raises: CommitConflict for a removed file that is not live.
    Cost: data leaves are read until all that is looked for was found, those first that it was seen
    in; delete leaves, where data files go or get new vectors, but for those of other data leaves.
    """
    vectors = of_contents(change.added, Content.POSITION_DELETES)
    new_data = set(keys(of_contents(change.added, Content.DATA)["location"]))
    replaced = [str(key) for key in keys(vectors["referenced_file"]) if key not in new_data]
    gone_data = [comparison_key(one.location) for one in change.removed if _is_data(one.content)]
    seen_in = {comparison_key(one.leaf) for one in change.removed if one.leaf is not None}
    search = _Search(draft, {one.key for one in change.removed}, {*gone_data, *replaced})
    search.look_through(seen_in, change.data_leaves)
    order: list[Place] = []
    for gone in change.removed:
        place = search.places.get(gone.key)
        if place is None:
            raise CommitConflict(f"`{gone.location}` is not live any more")
        order.append(place)
        if _is_data(gone.content):
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
        entries = draft.look_at(search.leaves[leaf])
        rows.append(entries.take(pa.array(places, pa.int64())))
    return RemovedPlaces(in_root, in_leaves, pa.concat_tables(rows))


def data_leaves_of(draft: Draft, data_files: set[str]) -> dict[str, str]:
    """Return the location of the data leaf that each data file is live in.

    Those in the root lack.
    """
    leaves = dict(_leaves(draft, Content.DATA_MANIFEST))
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
        if not draft.may_list(leaf, _texts(left)):
            continue
        rows = draft.names_of(leaf)
        for at in _matching(rows, "location", _texts(left), draft.dead.get(key, NONE)):
            by_file[comparison_key(rows["location"][at].as_py())] = leaf.name
        left -= by_file.keys()
    return by_file


def _is_data(content: Content) -> bool:
    return content is Content.DATA


class _Search:
    """Places of wanted files, and of the delete vectors of wanted data files."""

    def __init__(self, draft: Draft, wanted: set[Identity], data_files: set[str]) -> None:
        self._draft = draft
        self.places: dict[Identity, Place] = {}
        self.leaves: dict[str, ListedRow] = {}
        self.vectors: dict[str, list[Place]] = {}
        self._left = set(wanted)
        self._left_data = sum(_is_data(Content(one[0])) for one in wanted)
        self._wanted = _texts({key for _, key, _ in wanted})
        self._data_files = _texts(data_files)
        self._data_keys = data_files

    def look_through(self, first: set[str], data_leaves: Mapping[str, str | None]) -> None:
        """Look for all of it: in the root, in leaves of `first`, then in those that may have it.

        `data_leaves` has the data leaf of data files that do not go, as far as it is known.
        """
        draft = self._draft
        self._look(None, draft.kept, NONE)
        for key, leaf in _first(first, _leaves(draft, Content.DATA_MANIFEST)):
            if not self._left_data:
                break
            if key in first or draft.may_list(leaf, self._wanted):
                self._look_into(key, leaf, draft.look_at(leaf))
        strange = self._strange(data_leaves)
        passed = []
        for key, leaf in _first(first, _leaves(draft, Content.DELETE_MANIFEST)):
            if strange(leaf) and key not in first:
                passed.append((key, leaf))
            elif len(self._data_files) or self._left_deletes:
                self._look_into(key, leaf, draft.names_of(leaf))
        for key, leaf in passed:
            if not self._left_deletes:
                break
            self._look_into(key, leaf, draft.names_of(leaf))

    def _strange(self, data_leaves: Mapping[str, str | None]) -> Callable[[ListedRow], bool]:
        """Tell delete leaves that can have no vector of a wanted data file.

        They belong to data leaves that have none of these (sfc-1 A1).
        """
        data, new = int(Content.DATA), self._draft.in_memory
        vectors = {key: at for (code, key, _), (at, _) in self.places.items() if code == data}
        there = {None, *(key for key, _ in _leaves(self._draft, Content.DATA_MANIFEST))}
        known = {**{key: at for key, at in data_leaves.items() if at in there}, **vectors}
        own = {known[key] for key in self._data_keys & known.keys()}
        if not self._data_keys <= known.keys():
            return lambda _: False
        return lambda leaf: (
            leaf.referenced_file is not None
            and comparison_key(leaf.referenced_file) not in own
            and comparison_key(leaf.name) not in new  # moved since it was seen
        )

    @property
    def _left_deletes(self) -> bool:
        """Whether a delete that goes was not found yet."""
        return len(self._left) > self._left_data

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
                self._left_data -= _is_data(Content(identity[0]))
        referring = _matching(rows, "referenced_file", self._data_files, deleted)
        part = identified.take(pa.array(referring, pa.int64()))
        codes, references = part["content"].to_pylist(), keys(part["referenced_file"])
        for at, code, reference in zip(referring, codes, references, strict=True):
            if code == Content.POSITION_DELETES:
                self.vectors.setdefault(str(reference), []).append((leaf, at))


def _leaves(draft: Draft, kind: Content) -> Iterator[tuple[str, ListedRow]]:
    for leaf in draft.leaves():
        if leaf.content == kind:
            yield comparison_key(leaf.name), leaf


def _first(first: set[str], leaves: Iterable[tuple[str, ListedRow]]) -> list[tuple[str, ListedRow]]:
    return sorted(leaves, key=lambda one: one[0] not in first)


def _texts(wanted: set[str]) -> pa.Array:
    return pa.array(list(wanted), pa.string())


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
