"""Searches over the live files of version 4 snapshots.

Every root and every leaf is a part; its rows are held once, however many snapshots list it.
Locations become numbers, so that a snapshot costs a few passes over numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns.values import NONE, Integers, Mask, Positions
from icectl.entries.rows import Entries, location_keys
from icectl.entries.summary import Totals
from icectl.format.manifest import Content, FileFormat, Status
from icectl.format.rule import BrokenRule, Fault, Found


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
        found = [self.dead[status] for status in statuses if status in self.dead]
        return np.unique(np.concatenate(found)) if found else NONE

    @cached_property
    def killed(self) -> Positions:
        """Positions that are dead in the snapshot."""
        return self.of(Status.ADDED, Status.EXISTING)

    @property
    def is_live(self) -> bool:
        """Whether the leaf is listed, and not as DELETED."""
        return self.status != Status.DELETED


@dataclass(frozen=True)
class Tree:
    """The tree of one snapshot: the part of its root's own files, and its leaves."""

    own: int
    leaves: Sequence[LeafUse]


class TreeFiles:
    """The rows of all parts, in their order, and what snapshots are checked with.

    `unknown_key` stands for partitions that statistics do not tell.
    """

    def __init__(self, entries: Entries, sizes: Sequence[int], unknown_key: bytes) -> None:
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
        codes = _codes(both)
        self.codes, self.named = codes[: len(table)], codes[len(table) :]
        self.is_file = (self.codes >= 0) & (self.content <= Content.EQUALITY_DELETES)
        self.code_count = int(codes.max(initial=-1)) + 1
        self.specs = table["spec_id"].to_numpy()
        self.is_unknown = np.asarray(
            pc.equal(table["partition_key"], pa.scalar(unknown_key, pa.binary())).to_numpy(), bool
        )

    @cached_property
    def identities(self) -> Integers:
        """The identity of the entry of each row (sfc-1 EN7), as a number."""
        found: Integers = self.codes * 3 + self.content
        vectors = np.flatnonzero(self.is_vector)
        offsets = self.numbers("content_offset")[vectors]
        pairs = np.stack([self.codes[vectors], offsets], axis=1)
        _, numbers = np.unique(pairs, axis=0, return_inverse=True)
        found[vectors] = 3 * self.code_count + numbers.reshape(-1)
        return found

    def numbers(self, name: str) -> Integers:
        """Return a number column; null is -1."""
        column = self.entries.table[name]
        filled = pc.fill_null(column, -1) if column.null_count else column
        return np.asarray(filled.to_numpy(), np.int64)

    @cached_property
    def sequence_numbers(self) -> Integers:
        """The data sequence number of each row."""
        return self.numbers("sequence_number")

    @cached_property
    def record_counts(self) -> Integers:
        """The record count of each row."""
        return self.numbers("record_count")

    @cached_property
    def first_row_ids(self) -> Integers:
        """First row ids; -1 where there is none."""
        return self.numbers("first_row_id")

    def none(self) -> Mask:
        """Return a mask that chooses no row."""
        return np.zeros(len(self.entries), bool)

    def part(self, number: int) -> Integers:
        """Return the rows of a part."""
        return np.arange(self.starts[number], self.starts[number + 1], dtype=np.int64)

    def chosen(self, rows: Integers, mask: Mask) -> Integers:
        """The rows that a mask chooses, without those that are of no file (V4-051, V4-102)."""
        found: Integers = rows[mask & self.is_file[rows]]
        return found

    def living(self, use: LeafUse) -> Integers:
        """Return the live rows of a leaf in a snapshot that lists it."""
        rows: Integers = self.part(use.part)
        if not use.is_live:
            return rows[:0]
        alive = self.status[rows] != Status.DELETED
        dead = use.killed[use.killed < len(rows)]
        alive[dead.astype(np.int64)] = False
        return self.chosen(rows, alive)

    def own_rows(self, tree: Tree) -> Integers:
        """Return the live rows that a root lists itself."""
        rows = self.part(tree.own)
        return self.chosen(rows, self.status[rows] != Status.DELETED)

    def live(self, tree: Tree) -> Integers:
        """Return the live rows of a snapshot."""
        return np.concatenate([self.own_rows(tree), *(self.living(use) for use in tree.leaves)])

    def dropped(self, tree: Tree) -> Integers:
        """Return the rows that a root lists itself as DELETED."""
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
        """Counts, bytes and records of some rows."""
        kinds = self._kinds[rows]
        counted = [
            np.bincount(kinds, weights, minlength=4).astype(np.int64).tolist()
            for weights in (None, self._sizes[rows], self.record_counts[rows])
        ]
        return Totals(*(number for kind in zip(*counted, strict=True) for number in kind))

    def fault(self, rows: Integers) -> Fault | None:
        """Tell how many rows are wrong, and where the first file lies; None for none."""
        if not len(rows):
            return None
        return Fault(len(rows), self.entries.table["location"][int(rows[0])].as_py())

    def broken(self, rule: str, rows: Integers, told: str) -> Found:
        """Yield the rule with the rows that break it, where there are any."""
        fault = self.fault(rows)
        if fault is not None:
            yield BrokenRule(rule, fault, told)


def _codes(keys: pa.ChunkedArray) -> Integers:
    """Return a number for each text that equal texts share; -1 for null."""
    encoded = keys.cast(pa.large_string()).dictionary_encode()  # of all chunks together
    indices = [pc.fill_null(chunk.indices, -1).to_numpy() for chunk in encoded.chunks]
    return np.concatenate([np.empty(0, np.int64), *indices]).astype(np.int64)


def uniqueness_faults(files: TreeFiles, live: Integers) -> Found:
    """Yield files that are live more than once (V4-120, V4-121)."""
    vector = files.is_vector[live]
    once = live[~vector]
    yield from files.broken("V4-120", _again(files.codes[once], once), "is live again")
    vectors = live[vector & (files.named[live] >= 0)]
    said = "is a further delete vector for its data file"
    yield from files.broken("V4-121", _again(files.named[vectors], vectors), said)


def _again(codes: Integers, rows: Integers) -> Integers:
    """Return the rows whose code an earlier row has."""
    if not len(codes) or int(np.bincount(codes).max()) < 2:
        return rows[:0]
    _, first = np.unique(codes, return_index=True)
    repeated = np.ones(len(rows), bool)
    repeated[first] = False
    return rows[repeated]


def live_faults(files: TreeFiles, live: Integers, next_row_id: int | None) -> Found:
    """Check the live files of one whole snapshot among themselves (V4-067, V4-122 to V4-128)."""
    data = live[files.content[live] == Content.DATA]
    place = np.full(files.code_count, -1, np.int64)
    place[files.codes[data]] = data
    yield from _vectors(files, live, place)
    yield from _row_ids(files, data, next_row_id)
    yield from _partitions(files, live, data)


def _vectors(files: TreeFiles, live: Integers, place: Integers) -> Found:
    """Delete vectors against their data files."""
    vectors = live[files.is_vector[live] & (files.named[live] >= 0)]
    homes = place[files.named[vectors]]
    lost = homes < 0
    yield from files.broken("V4-122", vectors[lost], "is a delete vector of no live data file")
    vectors, homes = vectors[~lost], homes[~lost]
    wrong = files.record_counts[vectors] > files.record_counts[homes]
    said = "deletes more rows than its data file has"
    yield from files.broken("V4-123", vectors[wrong], said)
    wrong = files.sequence_numbers[vectors] < files.sequence_numbers[homes]
    yield from files.broken("V4-124", vectors[wrong], "is older than its data file")
    wrong = files.specs[vectors] != files.specs[homes]
    yield from files.broken("V4-125", vectors[wrong], "is of another spec than its data file")
    has_vector = np.zeros(files.code_count, bool)
    has_vector[files.named[vectors]] = True
    named = live[
        (files.content[live] == Content.POSITION_DELETES)
        & ~files.is_vector[live]
        & (files.named[live] >= 0)
    ]
    said = "deletes rows of a file that has a delete vector by now"
    yield from files.broken("V4-128", named[has_vector[files.named[named]]], said)


def _row_ids(files: TreeFiles, data: Integers, next_row_id: int | None) -> Found:
    """Row ids of live data files lie apart from each other and below the next one (V4-067)."""
    starts = files.first_row_ids[data]
    given = data[starts >= 0]
    order = given[np.argsort(files.first_row_ids[given], kind="stable")]
    begin = files.first_row_ids[order]
    end = begin + files.record_counts[order]
    reached = np.maximum.accumulate(end) if len(end) else end
    wrong = order[1:][begin[1:] < reached[:-1]]
    yield from files.broken("V4-067", wrong, "has row ids that another file has too")
    if next_row_id is not None:
        said = f"has row ids above `next-row-id`, {next_row_id}"
        yield from files.broken("V4-067", order[end > next_row_id], said)


def _partitions(files: TreeFiles, live: Integers, data: Integers) -> Found:
    """Yield partitions that deletes need are known (V4-126)."""
    if not files.is_unknown.any():
        return
    position = (files.content[live] == Content.POSITION_DELETES) & ~files.is_vector[live]
    scoped = live[
        (files.content[live] == Content.EQUALITY_DELETES) | (position & _unnamed(files, live))
    ]
    wrong = list(scoped[files.is_unknown[scoped]])
    unknown = data[files.is_unknown[data]]
    for spec in np.unique(files.specs[scoped]):
        deletes = scoped[files.specs[scoped] == spec]
        newest = files.sequence_numbers[deletes].max()
        files_ = unknown[files.specs[unknown] == spec]
        wrong += list(files_[files.sequence_numbers[files_] <= newest])
    said = "has no partition that can be told, on which deletes depend"
    yield from files.broken("V4-126", np.array(wrong, np.int64), said)


def _unnamed(files: TreeFiles, rows: Integers) -> Mask:
    return np.asarray(files.named[rows] < 0)


def repeated_in_root(files: TreeFiles, tree: Tree, live: Integers) -> Found:
    """Yield files that a root lists as live and as DELETED (V4-127)."""
    gone = files.dropped(tree)
    if len(gone):
        both = np.isin(files.identities[gone], files.identities[live])
        yield from files.broken("V4-127", gone[both], "is live, and listed as DELETED")


def affinity_faults(files: TreeFiles, tree: Tree) -> Found:
    """Delete leaves that hold something else than vectors for their data leaf (V4-114)."""
    data = {use.key: use for use in tree.leaves if use.is_live}
    for use in tree.leaves:
        home = data.get(use.affiliated_to or "")
        if home is None or not use.is_live:
            continue
        rows = files.living(use)
        held = np.isin(files.named[rows], files.codes[files.living(home)])
        said = "is in a delete leaf of a data leaf that does not have its data file"
        yield from files.broken("V4-114", rows[~(held & files.is_vector[rows])], said)


def killed_faults(files: TreeFiles, tree: Tree) -> Found:
    """Yield rows that vectors name and that were DELETED before (V4-084)."""
    for use in tree.leaves:
        if use.is_live and len(use.killed):
            rows = files.part(use.part)
            named = rows[use.killed[use.killed < len(rows)].astype(np.int64)]
            wrong = named[files.status[named] == Status.DELETED]
            said = "is named by a delete vector, and DELETED in its leaf"
            yield from files.broken("V4-084", wrong, said)
