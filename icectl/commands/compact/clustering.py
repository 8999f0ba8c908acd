"""Which data files overlap so much in an order of rows that they are sorted together: pure.

Files are merged as sorted runs of an LSM tree are, but where they lie instead of run by run. At
each value the files whose bounds hold it have a share of the rows there. The smallest shares are
merged with the next larger one as long as that is at most SORT_RATIO times theirs. So a file's rows
are rewritten a few times for each SORT_RATIO that the table grows by, and a value is in few files.

A run's files lie side by side, as their names say, whatever bounds show. Shares are estimates, so
something must be new where files are merged: what a run has seen and left is no work for the next.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.bound_values import Reals
from icectl.entries.clustering import (
    ClusteringKey,
    keys_of_order,
    metrics_of,
    places_of,
    shares,
    spans_of,
)
from icectl.entries.columns import Integers, Mask
from icectl.entries.rows import Entries, numbers, take
from icectl.format.schema import Schema
from icectl.rows.sort_rows import Curve, RowOrder

MIN_DEPTH = 2
"""Files are sorted together where at least so many overlap."""

SORT_RATIO = 8
"""Files are sorted together with newer ones of which they have at most so many times the rows."""

_ROUNDED = 1e-6
"""By how much shares that are equal may differ, as sums over all partitions are rounded."""

_RUN = (
    r"(?P<group>\d{5,18})-\d+-(?P<run>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"-\d+-(?:g(?P<groups>\d{1,18})-)?c[0-9a-f]{8}\.parquet$"
)
"""The end of the name of a data file that an earlier run has made, as data_file_name makes it.

`groups` are those that the run has had in the partition.
"""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Data files that are sorted together; up to `depth` of them hold one value.

    `parts` are what they consist of: files, and files of one run that bounds don't tell apart.
    Order: those over more than half of the values by size, the others by their lower bounds.
    """

    parts: Sequence[Sequence[int]]
    depth: int

    @property
    def files(self) -> tuple[int, ...]:
        """The rows of the data files."""
        return tuple(row for part in self.parts for row in part)


@dataclass(frozen=True)
class Clustering:
    """How the data files of some partitions lie in an order.

    `places` has the place of a file among those of its partition, for those with bounds.
    `average_depth` is the number of files that hold the value of a row, on average, without those
    that a sort can't tell apart: 1 after a sort of everything; None if nothing is known.
    `depth_after` is that once the overlaps are sorted.
    """

    overlaps: Sequence[Overlap] = ()
    places: Mapping[int, int] = field(default_factory=dict)
    average_depth: float | None = None
    depth_after: float | None = None

    @cached_property
    def overlap_of(self) -> Mapping[int, int]:
        """The overlap that a file is in, by the file's row."""
        return {row: at for at, overlap in enumerate(self.overlaps) for row in overlap.files}


@dataclass(frozen=True, slots=True)
class _Items:
    """Files, or files of one run that overlap, with places as bounds.

    `item_of` says which item each of the files `rows` is part of.
    """

    rows: Integers
    item_of: Integers
    lower: Integers
    upper: Integers
    sizes: Reals
    is_new: Mask


def new_files(data: Entries, rows: Integers, seen: Mask, sequence_numbers: Integers) -> Mask:
    """Return whether no run has seen each of some data files.

    `seen` are files of runs in the same order, without limits, among all of `data`. Such a run has
    seen all files of a partition up to its sequence number, if none of its groups there is lost.
    Number 0, of all files of format version 1, does not tell when a file came.
    """
    files = take(data, rows)
    number_of, is_made = sequence_numbers[rows], seen[rows]
    partitions = _codes(files.table["partition_key"])
    names = _names(files)
    texts = pc.struct_field(names, "groups")
    counts = pc.if_else(pc.greater(texts, ""), texts, None).cast(pa.int64())
    made = pa.table({
        "partition": partitions,
        "number": number_of,
        "group": pc.if_else(counts.is_valid(), pc.struct_field(names, "group"), None),
        "count": pc.fill_null(counts, 0),
    }).filter(pa.array(is_made))  # fmt: skip
    runs = made.group_by(["partition", "number"]).aggregate(
        [("group", "count_distinct"), ("count", "max")]
    )
    has_all = pc.greater_equal(runs["group_count_distinct"], runs["count_max"])
    whole = runs.filter(pc.and_(has_all, pc.greater(runs["number"], 0)))
    last = np.full(int(partitions.max(initial=-1)) + 1, -1)
    np.maximum.at(last, whole["partition"].to_numpy(), whole["number"].to_numpy())
    return ~is_made & (number_of > last[partitions])


def clustering_of(
    data: Entries,
    rows: Integers,
    order: RowOrder,
    schema: Schema,
    is_made: Mask,
    is_new: Mask,
    min_depth: int,
    sort_ratio: int = SORT_RATIO,
) -> Clustering:
    """Return how some data files lie in an order, those of each partition by themselves.

    `rows` are of one spec. Of all of `data`, `is_made` are those that runs in the same order have
    made, and `is_new` those that no run has seen.
    Cost: a sort for each key, and a pass for each doubling of shares.
    """
    files = take(data, rows)
    sizes = numbers(data, "file_size_in_bytes")
    groups, runs = _codes(files.table["partition_key"]), _runs(files, is_made[rows])
    overlaps: list[Overlap] = []
    weighed = np.zeros(3)  # depths before and after, and bytes
    places: Mapping[int, int] = {}
    left = np.arange(len(rows))
    for at, key in enumerate(_keys(order, schema)):
        if not len(left):
            break
        lower, upper, gaps, is_known = _spread_out(take(files, left), key, groups[left])
        if at == 0:
            places = _ranks(rows[left], lower, upper, is_known)
        is_wide, is_point = upper > lower, (upper == lower) & (lower >= 0)
        if is_wide.any():
            wide, ends = left[is_wide], (lower[is_wide], upper[is_wide])
            items = _items(rows[wide], runs[wide], *ends, sizes[rows[wide]], is_new[rows[wide]])
            found, depths, size = _overlaps(items, gaps, min_depth, sort_ratio)
            overlaps += found
            weighed += (depths[0] * size, depths[1] * size, size)
        # Files with one value of a key can be told apart by the next.
        left = left[is_point]
        groups[left] = lower[is_point]
    if not weighed[2]:
        return Clustering(overlaps, places)
    weighed += float(sizes[rows[left]].sum())
    return Clustering(overlaps, places, *(weighed[:2] / weighed[2]).tolist())


def _keys(order: RowOrder, schema: Schema) -> Iterator[ClusteringKey | None]:
    """Yield the keys that bounds show, up to the first that they don't; None for a Z-order."""
    if isinstance(order, Curve):
        yield None
        return
    for key in keys_of_order(order, schema):
        if key.why_unordered is not None:
            return
        yield key


def _names(files: Entries) -> pa.Array:
    """Return the parts of the names of files, null of those that no run can have made."""
    return pc.extract_regex(files.table["location"].combine_chunks(), _RUN)


def _codes(values: pa.ChunkedArray) -> Integers:
    """Number equal values alike, from 0."""
    indices = values.combine_chunks().dictionary_encode("encode").indices
    return np.asarray(indices.to_numpy(), np.int64)


def _runs(files: Entries, is_made: Mask) -> Integers:
    """Number the runs of files: each file that no run has made is one of its own."""
    found = _names(files)
    named = pc.binary_join_element_wise(
        pc.struct_field(found, "group"), pc.struct_field(found, "run"), "-"
    )
    codes = named.dictionary_encode().indices
    runs = np.asarray(pc.fill_null(codes, -1).to_numpy(zero_copy_only=False), np.int64)
    own = ~is_made | (runs < 0)
    runs[own] = len(files) + np.flatnonzero(own)
    return runs


def _spread_out(
    files: Entries, key: ClusteringKey | None, groups: Integers
) -> tuple[Integers, Integers, Reals, Mask]:
    """Return the bounds of files as places, the gaps between places, and whether bounds are known.

    Files of unknown bounds lie from the first place of their group to its last, beyond all known
    ones. Files without any value have the place -1.
    """
    count = len(files)
    codes, of_group = np.unique(groups, return_inverse=True)
    is_known, is_empty = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    known_lower = known_upper = known_groups = np.zeros(0, np.int64)
    known_gaps = np.zeros(0)
    if key is not None:
        spans = spans_of(files, metrics_of(files), key)
        is_known, is_empty = spans.known, spans.is_empty
        if is_known.any():
            found = places_of(spans, of_group[is_known])
            known_lower, known_upper = found.lower, found.upper
            known_groups, known_gaps = found.groups, found.gaps
    # One more place at both ends of each group.
    in_group = np.bincount(known_groups, minlength=len(codes))
    first = np.cumsum(in_group + 2) - (in_group + 2)
    moved = np.arange(len(known_groups)) + 2 * known_groups + 1
    gaps = np.full(max(int((in_group + 2).sum()) - 1, 0), np.finfo(float).tiny)
    is_inside = known_groups[1:] == known_groups[:-1]
    gaps[moved[:-1][is_inside]] = known_gaps[is_inside]
    lower, upper = first[of_group].copy(), (first + in_group + 1)[of_group]
    lower[is_known], upper[is_known] = moved[known_lower], moved[known_upper]
    lower[is_empty] = upper[is_empty] = -1
    return lower, upper, gaps, is_known


def _ranks(rows: Integers, lower: Integers, upper: Integers, is_known: Mask) -> Mapping[int, int]:
    """Number the files with known bounds in the order of these, partition by partition."""
    known = np.flatnonzero(is_known)
    order = known[np.lexsort((upper[known], lower[known]))]
    return dict(zip(rows[order].tolist(), range(len(order)), strict=True))


def _items(
    rows: Integers,
    runs: Integers,
    lower: Integers,
    upper: Integers,
    sizes: Integers,
    is_new: Mask,
) -> _Items:
    """Return the items of files, none of which has equal ends."""
    _, runs = np.unique(runs, return_inverse=True)
    order = np.lexsort((lower, runs))
    # The end of what overlaps so far, in runs that are laid side by side.
    apart = runs[order] * (int(upper.max()) + 1)
    ends = np.maximum.accumulate(apart + upper[order])
    begins = np.ones(len(order), np.bool_)
    begins[1:] = apart[1:] + lower[order][1:] >= ends[:-1]
    begins[1:] |= runs[order][1:] != runs[order][:-1]
    item_of = np.empty(len(order), np.int64)
    item_of[order] = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins)
    return _Items(
        rows,
        item_of,
        lower[order][starts],
        np.maximum.reduceat(upper[order], starts),
        np.bincount(item_of, np.maximum(sizes, 1).astype(np.float64)).astype(np.float64),
        np.logical_or.reduceat(is_new[order], starts),
    )


def _covering(lower: Integers, upper: Integers, count: int, weights: Reals | None = None) -> Reals:
    """Sum the items between each pair of neighbouring places."""
    begin, end = (np.bincount(ends, weights, count + 1) for ends in (lower, upper))
    return np.asarray(np.cumsum(begin - end)[:count], np.float64)


def _overlaps(
    items: _Items, gaps: Reals, min_depth: int, sort_ratio: int
) -> tuple[Sequence[Overlap], tuple[float, float], float]:
    """Return what is to be sorted together, average depths before and after, and all bytes."""
    lower, upper, count = items.lower, items.upper, len(gaps)
    share, evenly = shares(items.sizes, lower, upper, gaps)
    depth = _covering(lower, upper, count)
    total = float(items.sizes.sum())
    average = float(np.average(depth, weights=evenly))
    levels = np.floor(np.log2(share) + _ROUNDED).astype(np.int64)
    # From small shares to large ones: where all up to a level are merged.
    merged = np.full(count, np.iinfo(np.int64).min)
    below, new = np.zeros(count), np.zeros(count)
    for level in np.unique(levels):
        of_level = levels == level
        ends = lower[of_level], upper[of_level], count
        here = _covering(*ends)
        shared = _covering(*ends, share[of_level])
        is_new = of_level & items.is_new
        new += _covering(lower[is_new], upper[is_new], count)
        most = sort_ratio * below * here
        is_near = (here > 1) | ((below > 0) & (shared <= most + most * _ROUNDED))
        merged[(here > 0) & (new > 0) & is_near] = level
        below += np.where(here > 0, shared, 0.0)
    merged[depth < min_depth] = np.iinfo(np.int64).min
    chosen = np.zeros(len(levels), np.bool_)
    for level in np.unique(levels):
        reached = np.concatenate([np.zeros(1, np.int64), np.cumsum(merged >= level)])
        chosen |= (levels == level) & (reached[upper] > reached[lower])
    if not chosen.any():
        return [], (average, average), total
    sorted_ = _covering(lower[chosen], upper[chosen], count)
    after = float(np.average(depth - np.maximum(sorted_ - 1, 0), weights=evenly))
    return _components(items, np.flatnonzero(chosen), depth), (average, after), total


def _components(items: _Items, chosen: Integers, depth: Reals) -> Sequence[Overlap]:
    """Return items that overlap, directly or by others."""
    order = chosen[np.lexsort((items.upper[chosen], items.lower[chosen]))]
    ends = np.maximum.accumulate(items.upper[order])
    begins = np.concatenate([[True], items.lower[order][1:] >= ends[:-1]])
    by_item = np.argsort(items.item_of, kind="stable")
    firsts = np.searchsorted(items.item_of[by_item], np.arange(len(items.sizes) + 1))
    found = []
    for of_part in np.split(order, np.flatnonzero(begins)[1:]):
        lower, upper = items.lower[of_part], items.upper[of_part]
        reach = slice(int(lower.min()), int(upper.max()))
        # Those over most values come first, the smallest before others: so a part of the work is
        # a merge of small runs, or of what lies in one range.
        is_wide = 2 * (upper - lower) > reach.stop - reach.start
        by_width = np.lexsort((lower, np.where(is_wide, items.sizes[of_part], 0), ~is_wide))
        parts = [
            items.rows[by_item[firsts[at] : firsts[at + 1]]].tolist()
            for at in of_part[by_width].tolist()
        ]
        found.append(Overlap(parts, int(depth[reach].max())))
    return found


def within(
    overlap: Overlap, sizes: Integers, most_bytes: int, *, is_budget: bool
) -> Sequence[Sequence[int]]:
    """Cut what overlaps into groups of up to so many bytes, in the order of parts.

    A group has two parts at least: a single one would gain nothing. The last one goes with those
    before it, or is left to another run where the bytes are a budget.
    """
    groups: list[list[Sequence[int]]] = [[]]
    used = 0
    for part in overlap.parts:
        size = int(sizes[list(part)].sum())
        if used + size > most_bytes and len(groups[-1]) > 1:
            groups.append([])
            used = 0
        groups[-1].append(part)
        used += size
    if len(groups) > 1 and len(groups[-1]) == 1 and not is_budget:
        last = groups.pop()
        groups[-1] += last
    return [tuple(row for part in group for row in part) for group in groups if len(group) > 1]
