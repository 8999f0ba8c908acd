"""Live files of snapshots with roots: what each may be, and what they must not share.

Every root and every leaf is a part; its rows are held once, however many snapshots list it.
Locations become numbers, so that a snapshot costs a few passes over numbers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.live_entries import LiveRows, LiveView, RowlessFiles, repeated_places
from icectl.checks.rule import Breach, Check, located, rule
from icectl.entries.columns import NONE, Integers, Mask, Positions
from icectl.entries.partition_key import UNKNOWN_KEY
from icectl.entries.rows import Entries, index_in, location_keys
from icectl.entries.summary import Totals
from icectl.format.manifest import Content, FileFormat, Status
from icectl.format.metadata import TableMetadata
from icectl.format.rule import COMPACT, NEXT_COMMIT, ROLL_BACK, Fault
from icectl.format.snapshot import Snapshot


class LiveTree(LiveView, Protocol):
    """The live files of a snapshot with a root."""

    @property
    def deletes(self) -> Integers:
        """The deletes but for delete vectors."""

    @property
    def repeated_vectors(self) -> Integers:
        """Delete vectors of data files that an earlier row has a vector for."""

    @property
    def vector_targets(self) -> tuple[Integers, Integers]:
        """The delete vectors, and the live data file of each; -1 where there is none."""

    @property
    def is_named(self) -> Mask:
        """Where a row names the data file that it is for."""

    @property
    def is_unknown(self) -> Mask:
        """Where a partition cannot be told."""

    @property
    def data_leaves(self) -> Mapping[int, int]:
        """The data leaves of delete leaves that belong to one, both by number."""

    def leaves(self, rows: Integers) -> Integers:
        """Return the number of the leaf, or of the root, that each row is in."""


T = TypeVar("T", bound=LiveTree)


def in_tree(
    kind: type[T], what: str, search: Callable[[T], Integers], column: str = "location"
) -> Check[T]:
    """Check the live files of snapshots; `search` returns the rows that break the rule.

    `column` has the location that a finding names.
    """
    return Check(kind, lambda tree: tree.breaches(what, search(tree), column))


def _pairs(tree: LiveTree) -> tuple[Integers, Integers]:
    """Return delete vectors whose data file is live, with these."""
    vectors, targets = tree.vector_targets
    return vectors[targets >= 0], targets[targets >= 0]


def _vectors_where(tree: LiveTree, name: str, is_wrong: Callable[..., Mask]) -> Integers:
    """Return delete vectors whose number of a name does not go with that of their data file."""
    vectors, targets = _pairs(tree)
    numbers = tree.numbers(name) if len(vectors) else vectors
    return vectors[is_wrong(numbers[vectors], numbers[targets])] if len(vectors) else vectors


def _unknown_partitions(tree: LiveTree) -> Integers:
    """Which delete applies to which file is not sure where a partition can't be told."""
    if not tree.has("partition_key", "spec_id", "sequence_number") or not tree.is_unknown.any():
        return tree.data[:0]
    of_positions = tree.numbers("content")[tree.deletes] == Content.POSITION_DELETES
    scoped = tree.deletes[~(of_positions & tree.is_named[tree.deletes])]
    specs, numbers = tree.numbers("spec_id"), tree.numbers("sequence_number")
    wrong = [scoped[tree.is_unknown[scoped]]]
    unknown = tree.data[tree.is_unknown[tree.data]]
    for spec in np.unique(specs[scoped]):
        newest = numbers[scoped[specs[scoped] == spec]].max()
        wrong.append(unknown[(specs[unknown] == spec) & (numbers[unknown] <= newest)])
    return np.sort(np.concatenate(wrong))


def strange_in_leaves(tree: LiveTree) -> Integers:
    """A delete leaf of a data leaf holds vectors for it alone."""
    if not tree.data_leaves:
        return tree.data[:0]
    delete_leaves = list(tree.data_leaves)
    vectors, targets = tree.vector_targets
    others = np.concatenate([tree.data, tree.deletes])
    wrong = [others[np.isin(tree.leaves(others), delete_leaves)]]
    own = tree.leaves(vectors)
    chosen = np.isin(own, delete_leaves)
    vectors, targets, own = vectors[chosen], targets[chosen], own[chosen]
    wanted = np.array([tree.data_leaves[leaf] for leaf in own.tolist()], np.int64)
    wrong.append(vectors[(targets < 0) | (wanted != tree.leaves(targets))])
    return np.sort(np.concatenate(wrong))


class PlannedTree(LiveRows, LiveTree):
    """The live files that a change is planned with; `affiliated` are the data leaves of leaves."""

    def __init__(
        self,
        entries: Entries,
        metadata: TableMetadata,
        snapshot: Snapshot,
        subject: str | None = None,
        affiliated: Mapping[int, int] | None = None,
        *,
        beside_deletes: bool = False,
        rowless: RowlessFiles | None = None,
    ) -> None:
        super().__init__(
            entries, metadata, snapshot, subject, beside_deletes=beside_deletes, rowless=rowless
        )
        self._affiliated = affiliated or {}

    @property
    def data_leaves(self) -> Mapping[int, int]:
        return self._affiliated

    @cached_property
    def deletes(self) -> Integers:
        return np.flatnonzero(self.is_live & ~self.is_data & ~self.is_vector)

    @cached_property
    def repeated_vectors(self) -> Integers:
        if not self.is_vector.any() or not self.has("referenced_data_file"):
            return np.empty(0, np.int64)
        named = self.keys("referenced_data_file", self.is_vector)
        return np.flatnonzero(self.is_vector)[repeated_places(named)]

    @cached_property
    def vector_targets(self) -> tuple[Integers, Integers]:
        if not self.is_vector.any() or not self.has("referenced_data_file"):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        named = self.keys("referenced_data_file", self.is_vector)
        known = pc.drop_null(pc.unique(named))
        codes = index_in(self.keys("location", self.is_data), known)
        targets = np.full(len(known) + 1, -1, np.int64)
        targets[codes[codes >= 0]] = self.data[codes >= 0]
        return np.flatnonzero(self.is_vector), targets[index_in(named, known)]

    @cached_property
    def is_named(self) -> Mask:
        if not self.has("referenced_data_file"):
            return np.zeros(len(self.table), np.bool_)
        return np.asarray(self.table["referenced_data_file"].is_valid().to_numpy())

    @cached_property
    def is_unknown(self) -> Mask:
        return _unknown(self.table["partition_key"])

    def leaves(self, rows: Integers) -> Integers:
        return self.numbers("manifest")[rows]


def _unknown(keys: pa.ChunkedArray) -> Mask:
    flags = pc.equal(keys, pa.scalar(UNKNOWN_KEY, pa.binary()))
    return np.asarray(pc.fill_null(flags, fill_value=False).to_numpy(), np.bool_)


# -- files of many snapshots ----------------------------------------------------------------------


@dataclass(frozen=True)
class LeafUse:
    """A leaf as one root lists it: its part, and dead positions by the status of their vector.

    `affiliated_to` is the key of the data leaf that a delete leaf belongs to.
    """

    key: str
    part: int
    status: int
    dead: Mapping[int, Positions] = field(default_factory=dict)
    affiliated_to: str | None = None

    def of(self, *statuses: Status) -> Positions:
        """Return positions that vectors of some statuses name. Order: ascending."""
        vectors = [self.dead[status] for status in statuses if status in self.dead]
        return np.unique(np.concatenate(vectors)) if vectors else NONE

    @cached_property
    def deleted_positions(self) -> Positions:
        return self.of(Status.ADDED, Status.EXISTING)

    @property
    def is_live(self) -> bool:
        return self.status != Status.DELETED


@dataclass(frozen=True)
class Tree:
    """The tree of one snapshot: the part of its root's own files, and its leaves."""

    own: int
    leaves: Sequence[LeafUse]


class TreeFiles:
    """The rows of all parts, in their order, and what snapshots are checked with."""

    def __init__(self, entries: Entries, sizes: Sequence[int]) -> None:
        table = entries.table
        self.entries = entries
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.content = table["content"].to_numpy()
        self.status = table["status"].to_numpy()
        self.is_vector = (self.content == Content.POSITION_DELETES) & (
            table["file_format"].to_numpy() == FileFormat.PUFFIN
        )
        locations = location_keys(table["location"])
        named = location_keys(table["referenced_data_file"])
        both = pa.chunked_array([*locations.chunks, *named.chunks], pa.string())
        encoded = both.cast(pa.large_string()).dictionary_encode()  # of all chunks together
        indices = [pc.fill_null(chunk.indices, -1).to_numpy() for chunk in encoded.chunks]
        codes = np.concatenate([np.empty(0, np.int64), *indices]).astype(np.int64)
        self.codes, self.named = codes[: len(table)], codes[len(table) :]
        self.is_file = (self.codes >= 0) & (self.content <= Content.EQUALITY_DELETES)
        self.code_count = int(codes.max(initial=-1)) + 1
        self.is_unknown = _unknown(table["partition_key"])
        self._numbers: dict[str, Integers] = {}

    @cached_property
    def identities(self) -> Integers:
        """The identity of the entry of each row (sfc-1 EN7), as a number."""
        identities: Integers = self.codes * 3 + self.content
        vectors = np.flatnonzero(self.is_vector)
        offsets = self.numbers("content_offset")[vectors]
        pairs = np.stack([self.codes[vectors], offsets], axis=1)
        _, numbers = np.unique(pairs, axis=0, return_inverse=True)
        identities[vectors] = 3 * self.code_count + numbers.reshape(-1)
        return identities

    def numbers(self, name: str) -> Integers:
        """Return a number column; null is -1."""
        if name not in self._numbers:
            column = self.entries.table[name]
            filled = pc.fill_null(column, -1) if column.null_count else column
            self._numbers[name] = np.asarray(filled.to_numpy(), np.int64)
        return self._numbers[name]

    def none(self) -> Mask:
        return np.zeros(len(self.entries), bool)

    def part(self, number: int) -> Integers:
        return np.arange(self.starts[number], self.starts[number + 1], dtype=np.int64)

    def chosen(self, rows: Integers, mask: Mask) -> Integers:
        """The rows that a mask chooses, without those that are of no file (V4-051, V4-102)."""
        files: Integers = rows[mask & self.is_file[rows]]
        return files

    def living(self, use: LeafUse) -> Integers:
        rows: Integers = self.part(use.part)
        if not use.is_live:
            return rows[:0]
        alive = self.status[rows] != Status.DELETED
        dead = use.deleted_positions[use.deleted_positions < len(rows)]
        alive[dead.astype(np.int64)] = False
        return self.chosen(rows, alive)

    def own_rows(self, tree: Tree) -> Integers:
        rows = self.part(tree.own)
        return self.chosen(rows, self.status[rows] != Status.DELETED)

    def live(self, tree: Tree) -> Integers:
        return np.concatenate([self.own_rows(tree), *(self.living(use) for use in tree.leaves)])

    def dropped(self, tree: Tree) -> Integers:
        rows = self.part(tree.own)
        return self.chosen(rows, self.status[rows] == Status.DELETED)

    @cached_property
    def _kinds(self) -> Integers:
        """The place of each row among the counts of Totals."""
        return np.where(self.is_vector, 3, self.content).astype(np.int64)

    @cached_property
    def _sizes(self) -> Integers:
        blobs = self.numbers("content_size_in_bytes")
        return np.where(self.is_vector, blobs, self.numbers("file_size_in_bytes"))

    def totals(self, rows: Integers) -> Totals:
        kinds = self._kinds[rows]
        counted = [
            np.bincount(kinds, weights, minlength=4).astype(np.int64).tolist()
            for weights in (None, self._sizes[rows], self.numbers("record_count")[rows])
        ]
        return Totals(*(number for kind in zip(*counted, strict=True) for number in kind))

    def breaches(
        self, subject: str, what: str, rows: Integers, column: str = "location"
    ) -> Iterator[Breach]:
        if len(rows):
            first = self.entries.table[column][int(rows[0])].as_py()
            yield from located(subject, Fault(len(rows), first), what)


class CheckedTree(LiveTree):
    """The live files of one of many snapshots; `rows` are those of `files` that live in `tree`."""

    def __init__(self, files: TreeFiles, tree: Tree, subject: str, next_row_id: int | None) -> None:
        self.files = files
        self.tree = tree
        self.subject = subject
        self.next_row_id = next_row_id
        self.rows = files.live(tree)
        vectors = files.is_vector[self.rows]
        self.vectors = self.rows[vectors & (files.named[self.rows] >= 0)]
        self._others = self.rows[~vectors]
        self._is_data = files.content[self._others] == Content.DATA

    def has(self, *names: str) -> bool:
        return set(names) <= set(self.files.entries.table.column_names)

    def numbers(self, name: str) -> Integers:
        return self.files.numbers(name)

    def breaches(self, what: str, rows: Integers, column: str = "location") -> Iterator[Breach]:
        return self.files.breaches(self.subject, what, rows, column)

    @property
    def data(self) -> Integers:
        data: Integers = self._others[self._is_data]
        return data

    @property
    def deletes(self) -> Integers:
        deletes: Integers = self._others[~self._is_data]
        return deletes

    @property
    def repeated_files(self) -> Integers:
        return _again(self.files.codes[self._others], self._others)

    @property
    def repeated_vectors(self) -> Integers:
        return _again(self.files.named[self.vectors], self.vectors)

    @cached_property
    def vector_targets(self) -> tuple[Integers, Integers]:
        place = np.full(self.files.code_count, -1, np.int64)
        place[self.files.codes[self.data]] = self.data
        return self.vectors, place[self.files.named[self.vectors]]

    @property
    def is_named(self) -> Mask:
        return np.asarray(self.files.named >= 0)

    @property
    def is_unknown(self) -> Mask:
        return self.files.is_unknown

    @cached_property
    def data_leaves(self) -> Mapping[int, int]:
        parts = {use.key: use.part for use in self.tree.leaves if use.is_live}
        return {
            use.part: parts[use.affiliated_to]
            for use in self.tree.leaves
            if use.is_live and use.affiliated_to in parts
        }

    def leaves(self, rows: Integers) -> Integers:
        return np.searchsorted(self.files.starts, rows, side="right") - 1


def _again(codes: Integers, rows: Integers) -> Integers:
    """Return the rows whose code an earlier row has."""
    if not len(codes) or int(np.bincount(codes).max()) < 2:
        return rows[:0]
    _, first = np.unique(codes, return_index=True)
    repeated = np.ones(len(rows), bool)
    repeated[first] = False
    return rows[repeated]


def _live_and_deleted(live: CheckedTree) -> Integers:
    gone = live.files.dropped(live.tree)
    if not len(gone):
        return gone
    identities = live.files.identities
    return gone[np.isin(identities[gone], identities[live.rows])]


def _replaced_position_deletes(live: CheckedTree) -> Integers:
    files, vectors = live.files, _pairs(live)[0]
    of_positions = files.content[live.deletes] == Content.POSITION_DELETES
    named: Integers = live.deletes[of_positions & (files.named[live.deletes] >= 0)]
    return named[np.isin(files.named[named], files.named[vectors])]


def _deleted_before(live: CheckedTree) -> Iterator[Breach]:
    for use in live.tree.leaves:
        if use.is_live and len(use.deleted_positions):
            rows = live.files.part(use.part)
            named = rows[use.deleted_positions[use.deleted_positions < len(rows)].astype(np.int64)]
            wrong = named[live.files.status[named] == Status.DELETED]
            what = "is named by a delete vector, and DELETED in its leaf"
            yield from live.breaches(what, wrong)


ALWAYS = frozenset({"V4-120", "V4-121", "V4-127"})
"""Rules that a snapshot can break of which a part cannot be read; others need all of it."""

# fmt: off
LIVE_RULES = (
    rule("V4-084", "manifest delete vectors name rows that lived",
         "Manifest delete vectors", "warning",
         NEXT_COMMIT, Check(CheckedTree, _deleted_before)),
    rule("V4-120", "every live file is live once", "Across entries", "error", ROLL_BACK,
         in_tree(LiveTree, "is live again", lambda tree: tree.repeated_files)),
    rule("V4-121", "every data file has one live deletion vector at most",
         "Across entries", "error",
         ROLL_BACK,
         in_tree(LiveTree, "has a second live delete vector", lambda tree: tree.repeated_vectors,
                 "referenced_data_file")),
    rule("V4-122", "live deletion vectors belong to live data files", "Across entries", "error",
         ROLL_BACK,
         in_tree(LiveTree, "is a delete vector of no live data file",
                 lambda tree: tree.vector_targets[0][tree.vector_targets[1] < 0])),
    rule("V4-123", "deleted positions lie inside of the data file", "Across entries", "error",
         ROLL_BACK,
         in_tree(LiveTree, "deletes more rows than its data file has",
                 lambda tree: _vectors_where(tree, "record_count", np.greater))),
    rule("V4-124", "no deletion vector is older than its data file", "Across entries", "error",
         ROLL_BACK,
         in_tree(LiveTree, "is older than its data file",
                 lambda tree: _vectors_where(tree, "sequence_number", np.less))),
    rule("V4-125", "deletion vectors have the spec of their data file", "Across entries", "warning",
         COMPACT,
         in_tree(CheckedTree, "has another spec than its data file",
                 lambda tree: _vectors_where(tree, "spec_id", np.not_equal))),
    rule("V4-126", "partitions that deletes depend on are known", "Across entries", "error",
         ROLL_BACK,
         in_tree(LiveTree, "has an unknown partition, on which deletes depend",
                 _unknown_partitions)),
    rule("V4-127", "a location is not live and DELETED at once", "Across entries", "warning",
         NEXT_COMMIT, in_tree(CheckedTree, "is live, and listed as DELETED", _live_and_deleted)),
    rule("V4-128", "no position deletes stay after a vector replaced them", "Across entries",
         "info", COMPACT,
         in_tree(CheckedTree, "deletes rows of a file that has a delete vector by now",
                 _replaced_position_deletes)),
)
# fmt: on
