"""Searches in what a root and its leaves list for what makes it unsure which rows live."""

from collections.abc import Mapping

import numpy as np
import pyarrow.compute as pc

from icectl.checks.row_risks import LiveRows, repeated_places
from icectl.entries.columns.values import Integers
from icectl.entries.rows import index_in
from icectl.format.manifest import Content
from icectl.format.rule import BrokenRule, Fault, Found


def tree_risks(live: LiveRows) -> Found:
    """Files that are live twice, vectors that disagree with theirs, row ids that two files have.

    `live` may be a part of a snapshot: data files that are not among them are left out.
    Rules: V4-067, V4-120, V4-121, V4-123, V4-124.
    """
    files = np.flatnonzero(live.is_live & ~live.is_vector)
    again = repeated_places(live.keys("location", live.is_live & ~live.is_vector))
    yield from _broken(live, "V4-120", files[again], "is live again")
    if live.has("first_row_id", "record_count"):
        yield from _shared_row_ids(live)
    if not live.is_vector.any() or not live.has("referenced_data_file"):
        return
    again = np.flatnonzero(live.is_vector)[
        repeated_places(live.keys("referenced_data_file", live.is_vector))
    ]
    said = "has a second live delete vector"
    yield from _broken(live, "V4-121", again, said, "referenced_data_file")
    vectors, homes = _homes(live)
    vectors, homes = vectors[homes >= 0], homes[homes >= 0]
    rows, numbers = live.numbers("record_count"), live.numbers("sequence_number")
    said = "deletes more rows than its data file has"
    yield from _broken(live, "V4-123", vectors[rows[vectors] > rows[homes]], said)
    said = "is older than its data file"
    yield from _broken(live, "V4-124", vectors[numbers[vectors] < numbers[homes]], said)


def partition_risks(live: LiveRows, unknown_key: bytes) -> Found:
    """Yield deletes, or data files that some may apply to, whose partition can't be told (V4-126).

    Which delete applies to which file is not sure then. `unknown_key` stands for such a partition.
    """
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
    yield from _broken(live, "V4-126", np.flatnonzero(wrong), said)


def home_risks(live: LiveRows, affiliated: Mapping[int, int]) -> Found:
    """Delete vectors of no live data file, or of one elsewhere than their leaf says.

    `live` are all of a snapshot; `affiliated` has the data leaf of delete leaves that belong to
    one, both as `manifest` numbers.
    Rules: V4-114, V4-122.
    """
    if not live.has("referenced_data_file"):
        return
    vectors, homes = _homes(live)
    said = "is a delete vector of no live data file"
    yield from _broken(live, "V4-122", vectors[homes < 0], said)
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
    yield from _broken(live, "V4-114", np.flatnonzero(strange), said)


def _broken(
    live: LiveRows, rule: str, rows: Integers, said: str, column: str = "location"
) -> Found:
    if len(rows):
        named = live.table[column][int(rows[0])].as_py()
        yield BrokenRule(rule, Fault(len(rows), str(named)), said)


def _shared_row_ids(live: LiveRows) -> Found:
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
    yield from _broken(live, "V4-067", wrong, "has row ids that another file has too")


def _homes(live: LiveRows) -> tuple[Integers, Integers]:
    """Return the delete vectors, and the live data file of each; -1 where there is none."""
    if not live.is_vector.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    named = live.keys("referenced_data_file", live.is_vector)
    known = pc.drop_null(pc.unique(named))
    codes = index_in(live.keys("location", live.is_data), known)
    homes = np.full(len(known) + 1, -1, np.int64)
    homes[codes[codes >= 0]] = np.flatnonzero(live.is_data)[codes >= 0]
    return np.flatnonzero(live.is_vector), homes[index_in(named, known)]
