"""Searches over live entries for what would change the meaning of rows, were anything built on it.

One pass over columns that planning loads anyway: entries that agree cost little, and only where
something is wrong is it looked for in full.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.faults import Broken, Fault, Found
from icectl.entries.live_faults import fingerprints
from icectl.entries.rows import Entries, index_in, location_keys, repeats
from icectl.spec.manifest import Content, FileFormat, Status

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a snapshot and its table say that numbers of live entries keep to.

    `is_tree` says that the snapshot has a root, whose rules have ids of their own.
    """

    format_version: int
    sequence_number: int
    next_row_id: int | None
    is_tree: bool


class _Live:
    """The live rows of entries; columns that were not loaded are not there."""

    def __init__(self, entries: Entries) -> None:
        self.table = entries.table
        self.is_live = self._codes("status") != Status.DELETED
        content = self._codes("content")
        self.is_data = self.is_live & (content == Content.DATA)
        self.is_vector = self.is_live & (content == Content.POSITION_DELETES)
        if self.is_vector.any():
            self.is_vector &= self._codes("file_format") == FileFormat.PUFFIN

    def _codes(self, name: str) -> npt.NDArray[np.int8]:
        return np.asarray(self.table[name].to_numpy(), np.int8)

    def has(self, *names: str) -> bool:
        """Whether columns were loaded."""
        return set(names) <= set(self.table.column_names)

    def numbers(self, name: str) -> Numbers:
        """A number column; null is -1."""
        column = self.table[name]
        return np.asarray(
            (pc.fill_null(column, -1) if column.null_count else column).to_numpy(), np.int64
        )

    def keys(self, name: str, mask: Mask) -> pa.ChunkedArray:
        """A column of locations in the form that they are compared in, of some rows."""
        column = self.table[name]
        return location_keys(column if mask.all() else column.filter(pa.array(mask)))

    def broken(self, rule: str, rows: Numbers, told: str, column: str = "location") -> Found:
        """The rule with the rows that break it, where there are any."""
        if len(rows):
            named = self.table[column][int(rows[0])].as_py()
            yield Broken(rule, Fault(len(rows), str(named)), told)


def row_risks(entries: Entries, ledger: Ledger) -> Found:
    """Numbers that are not of the snapshot, and deletes that its version does not have.

    Rules: R-044, R-104, R-120; V4-064, V4-067 of version 4.
    """
    live = _Live(entries)
    if ledger.format_version == 1:
        said = "is a delete file in a table of version 1, whose readers know none"
        yield from live.broken("R-120", np.flatnonzero(live.is_live & ~live.is_data), said)
    elif live.has("sequence_number"):
        late = live.is_live & (live.numbers("sequence_number") > ledger.sequence_number)
        rule = "V4-064" if ledger.is_tree else "R-044"  # R-044, V4-064
        said = f"has a sequence number above that of its snapshot, {ledger.sequence_number}"
        yield from live.broken(rule, np.flatnonzero(late), said)
    if ledger.next_row_id is not None and live.has("first_row_id", "record_count"):
        first = live.numbers("first_row_id")
        ends = first + live.numbers("record_count")
        above = live.is_data & (first >= 0) & (ends > ledger.next_row_id)
        rule = "V4-067" if ledger.is_tree else "R-104"  # R-104, V4-067
        said = f"has row ids above `next-row-id`, {ledger.next_row_id}"
        yield from live.broken(rule, np.flatnonzero(above), said)


def live_twice(files: Entries, rows: Sequence[int]) -> int:
    """How many of some rows have a location that another row of the files has too (R-066)."""
    keys = location_keys(files.table["location"])
    again = _repeated(keys)
    if not len(again):
        return 0
    named = pc.unique(keys.take(pa.array(again)))
    chosen = pc.is_in(keys.take(pa.array(rows, pa.int64())), named)
    return int(pc.sum(chosen, min_count=0).as_py())


def _repeated(keys: pa.ChunkedArray) -> Numbers:
    """The places whose key an earlier one has; null has none in common."""
    prints = np.sort(np.concatenate([np.zeros(0, np.uint64), *map(fingerprints, keys.chunks)]))
    if not (prints[1:] == prints[:-1]).any():
        return np.empty(0, np.int64)
    return np.flatnonzero(repeats(keys))


def tree_risks(entries: Entries) -> Found:
    """Files that are live twice, vectors that disagree with theirs, row ids that two files have.

    `entries` may be a part of a snapshot: data files that are not among them are left out.
    Rules: V4-067, V4-120, V4-121, V4-123, V4-124.
    """
    live = _Live(entries)
    files = np.flatnonzero(live.is_live & ~live.is_vector)
    again = _repeated(live.keys("location", live.is_live & ~live.is_vector))
    yield from live.broken("V4-120", files[again], "is live again")
    if live.has("first_row_id", "record_count"):
        yield from _shared_row_ids(live)
    if not live.is_vector.any() or not live.has("referenced_data_file"):
        return
    again = np.flatnonzero(live.is_vector)[
        _repeated(live.keys("referenced_data_file", live.is_vector))
    ]
    said = "has a second live delete vector"
    yield from live.broken("V4-121", again, said, "referenced_data_file")
    vectors, homes = _homes(live)
    vectors, homes = vectors[homes >= 0], homes[homes >= 0]
    rows, numbers = live.numbers("record_count"), live.numbers("sequence_number")
    said = "deletes more rows than its data file has"
    yield from live.broken("V4-123", vectors[rows[vectors] > rows[homes]], said)
    said = "is older than its data file"
    yield from live.broken("V4-124", vectors[numbers[vectors] < numbers[homes]], said)


def partition_risks(entries: Entries, unknown_key: bytes) -> Found:
    """Deletes, or data files that some may apply to, whose partition can't be told (V4-126).

    Which delete applies to which file is not sure then. `unknown_key` stands for such a partition.
    """
    live = _Live(entries)
    if not live.has("partition_key", "spec_id", "sequence_number"):
        return
    column = live.table["partition_key"]
    is_unknown = np.asarray(pc.fill_null(pc.equal(column, unknown_key), False).to_numpy())  # noqa: FBT003
    if not is_unknown.any():
        return
    scoped = live.is_live & ~live.is_data & ~live.is_vector
    if live.has("referenced_data_file"):
        named = live.table["referenced_data_file"].is_valid().to_numpy()
        scoped &= ~(named & (live.numbers("content") == Content.POSITION_DELETES))
    specs, numbers = live.numbers("spec_id"), live.numbers("sequence_number")
    wrong = scoped & is_unknown
    for spec in np.unique(specs[scoped]):
        newest = numbers[scoped & (specs == spec)].max()
        wrong |= live.is_data & is_unknown & (specs == spec) & (numbers <= newest)
    said = "has no partition that can be told, on which deletes depend"
    yield from live.broken("V4-126", np.flatnonzero(wrong), said)


def home_risks(entries: Entries, affiliated: Mapping[int, int]) -> Found:
    """Delete vectors of no live data file, or of one elsewhere than their leaf says.

    `entries` are all of a snapshot; `affiliated` has the data leaf of delete leaves that belong to
    one, both as `manifest` numbers.
    Rules: V4-114, V4-122.
    """
    live = _Live(entries)
    if not live.has("referenced_data_file"):
        return
    vectors, homes = _homes(live)
    said = "is a delete vector of no live data file"
    yield from live.broken("V4-122", vectors[homes < 0], said)
    if not affiliated:
        return
    manifests = live.numbers("manifest")
    home_of = np.full(int(manifests.max(initial=-1)) + 1, -1, np.int64)
    for leaf, home in affiliated.items():
        home_of[leaf : leaf + 1] = home
    wanted = home_of[manifests]
    strange = (wanted >= 0) & live.is_live & ~live.is_vector
    strange[vectors] = (wanted[vectors] >= 0) & (wanted[vectors] != manifests[homes])
    said = "is in a delete leaf of a data leaf that does not have its data file"
    yield from live.broken("V4-114", np.flatnonzero(strange), said)


def _shared_row_ids(live: _Live) -> Found:
    """Row ids of live data files lie apart from each other (V4-067)."""
    starts = live.numbers("first_row_id")[live.is_data]
    rows = np.flatnonzero(live.is_data)[starts >= 0]
    starts = starts[starts >= 0]
    ends = starts + live.numbers("record_count")[rows]
    if (starts[1:] >= ends[:-1]).all():
        return
    order = np.argsort(starts, kind="stable")
    reached = np.maximum.accumulate(ends[order])
    wrong = rows[order[1:][starts[order[1:]] < reached[:-1]]]
    yield from live.broken("V4-067", wrong, "has row ids that another file has too")


def _homes(live: _Live) -> tuple[Numbers, Numbers]:
    """The delete vectors, and the live data file of each; -1 where there is none."""
    if not live.is_vector.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    named = live.keys("referenced_data_file", live.is_vector)
    known = pc.drop_null(pc.unique(named))
    codes = index_in(live.keys("location", live.is_data), known)
    homes = np.full(len(known) + 1, -1, np.int64)
    homes[codes[codes >= 0]] = np.flatnonzero(live.is_data)[codes >= 0]
    return np.flatnonzero(live.is_vector), homes[index_in(named, known)]
