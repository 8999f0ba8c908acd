"""Which layout of its data files would make the reads of a table open less: a simulation. Pure.

A sample of rows stands for the table: each file has as many as its part of all rows, spread evenly
between its bounds. A layout puts the sample into files of the target size, whose bounds are those
of their rows. Reads compare columns with the values of rows of the sample. Deletes, files that
come later and the bounds of text that is cut off are left out.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, takewhile
from math import inf

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icectl.commands.bill import GETS_OF_DATA_FILE
from icectl.commands.inspect.clustering_plan import ColumnBounds
from icectl.commands.query_logs import EQUALITY, Filter
from icectl.commands.steps import OPEN_COST_BYTES
from icectl.entries.bound_values import Reals
from icectl.entries.clustering import RANGE_OF_ROWS, ClusteringKey, KeyBounds, places_of
from icectl.entries.columns import Integers, Mask
from icectl.format.types import PrimitiveType
from icectl.rows.curves import bits_in_turn, hilbert
from icectl.table.output_sizes import sizes_of

_MOST_KEYS, _MOST_FILTERS = 8, 20
_ROWS_OF_FILE, _FEWEST_ROWS, _MOST_ROWS = 50, 20_000, 1_000_000
_MOST_COMPARED = 20_000_000
"""Files times reads that one filter is tried with."""

_FEWEST_READS, _MOST_READS = 25, 400
_LEAST_FILE = 0.25
"""A partition transform is no advice if its files have less than so much of the target size."""

_MOST_BUCKETS = 4096
_WORTH = 0.9
"""Another size of files or row groups is advice if reads cost no more than this part."""

_LEAST_TARGET, _LARGEST_TARGET, _LEAST_GROUP = 1 << 20, 1 << 30, 1 << 20
_ROWS_OF_GROUP = 10
"""Row groups with fewer rows of the sample are not tried."""

_FALSE_POSITIVES = 0.01
_SEED = 20_261_129
_PLACES = 1 << 16

_DAYS: Mapping[str, int] = {
    "date": 1,
    **dict.fromkeys(("timestamp", "timestamptz"), 86_400_000_000),
    **dict.fromkeys(("timestamp_ns", "timestamptz_ns"), 86_400_000_000_000),
}
"""The length of a day in the units of types of times."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What reads cost on average, of all filters by how often each is used.

    `more_groups` are row groups beyond one of each file, where they are told apart.
    """

    files: float
    bytes: float
    more_groups: float = 0.0

    @property
    def cost_bytes(self) -> float:
        """Bytes read, with those that opening a file counts for, and one more request a group."""
        requests = self.files + self.more_groups / GETS_OF_DATA_FILE
        return self.bytes + OPEN_COST_BYTES * requests


@dataclass(frozen=True, slots=True)
class Advice:
    """A layout, its data files, and what the same reads cost in it.

    `kind` is `compact`, `sort`, `hilbert`, `partition`, `bloom`, `file-size` or `row-group`;
    `terms` are columns, or transforms. A Bloom filter leaves out rows of a file that is opened, so
    only bytes are fewer. `size_bytes` is the size of files, or of row groups in memory.
    """

    kind: str
    terms: tuple[str, ...]
    file_count: int
    reading: Reading
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RowGroups:
    """The row groups of new files: bytes of one and of a row, both in memory."""

    size_bytes: int
    row_bytes: float


@dataclass(frozen=True, slots=True)
class FilterShare:
    """One filter: the part of all reads that have it, and what they cost as files lie now."""

    filter: Filter
    share: float
    reading: Reading


@dataclass(frozen=True, slots=True)
class Simulation:
    """The reads as files lie now, and layouts that cost less, the best first.

    Those with another size of files or row groups come last. `left_out` are columns of filters
    whose values bounds do not show.
    """

    now: Reading
    filters: Sequence[FilterShare]
    layouts: Sequence[Advice]
    left_out: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Column:
    """The values of a key in all files, as numbers: between `low` and `high` in steps of `step`.

    Files without usable bounds have all values, those without rows that have one none.
    """

    key: ClusteringKey
    low: Reals
    high: Reals
    has_values: Mask
    least: float
    step: float


@dataclass(frozen=True, slots=True)
class _Buckets:
    """The buckets of a column, of rows or of files."""

    column: str
    numbers: Integers
    count: int


@dataclass(frozen=True, slots=True)
class _Files:
    """Files of one layout: their bounds by key, sizes, and their buckets where they have some."""

    low: Mapping[str, Reals]
    high: Mapping[str, Reals]
    sizes: Reals
    buckets: _Buckets | None = None


@dataclass(frozen=True, slots=True)
class _Sample:
    """Rows: their values by key, their partitions, source files and bytes."""

    values: Mapping[str, Reals]
    partitions: Integers
    files: Integers
    bytes: Reals
    record_count: int


_Intervals = Mapping[str, tuple[float, float]]
"""The values that a read compares each column with, from the first to the last."""


def simulate(
    found: ColumnBounds,
    filters: Mapping[Filter, int],
    distinct_counts: Mapping[int, int],
    target_bytes: int,
    partitioned_by: Collection[str],
    with_bloom: Collection[str],
    row_groups: RowGroups | None = None,
) -> Simulation:
    """Return what reads cost now and in other layouts.

    `filters` counts the reads with each filter, by the names of the keys of `found`.
    `distinct_counts` are those of columns by their ids, if statistics have them. `partitioned_by`
    are terms that the table is partitioned by already, `with_bloom` columns with Bloom filters,
    `row_groups` those that files would get.
    Cost: for each layout a sort of the sample, and its files compared with each read.
    """
    usage: dict[str, int] = {}
    for used, count in filters.items():
        for name, _ in used:
            usage[name] = usage.get(name, 0) + count
    keys = sorted(found.keys, key=lambda key: (-usage.get(key.name, 0), key.name))
    columns = {
        key.name: _column(found, key, found.spans[key], distinct_counts.get(key.field_id))
        for key in keys[:_MOST_KEYS]
        if key.name in usage and key in found.spans and found.spans[key].known.any()
    }
    left_out = sorted(set(usage) - set(columns))
    known = _known_filters(filters, columns)
    sample = _sample(found, columns, target_bytes)
    low, high = (
        {name: _ends(column, is_low=is_low) for name, column in columns.items()}
        for is_low in (True, False)
    )
    now = _Files(low, high, found.sizes.astype(np.float64))
    trials = {used: _trials(sample, used, len(found.sizes)) for used in known}
    total = sum(known.values())
    by_filter = {used: _reading(now, used, trials[used]) for used in known}
    shares = [FilterShare(used, count / total, by_filter[used]) for used, count in known.items()]
    layouts = []
    for kind, terms, files in _layouts(columns, known, sample, target_bytes, partitioned_by):
        readings = {used: _reading(files, used, trials[used]) for used in known}
        layouts.append(Advice(kind, terms, len(files.sizes), _mean(readings, known)))
    distinct = {
        name: distinct_counts[column.key.field_id]
        for name, column in columns.items()
        if column.key.field_id in distinct_counts and name not in with_bloom
    }
    for name, count in distinct.items():
        rows = float(found.records.sum()) / max(count, 1)
        readings = {used: _with_bloom(by_filter[used], used, name, rows) for used in known}
        if readings != by_filter:
            layouts.append(Advice("bloom", (name,), len(found.sizes), _mean(readings, known)))
    layouts.sort(key=lambda layout: (layout.reading.cost_bytes, len(layout.terms), layout.kind))
    layouts += _other_sizes(layouts, sample, known, trials, target_bytes, row_groups)
    return Simulation(_mean(by_filter, known), shares, layouts, left_out)


def _mean(readings: Mapping[Filter, Reading], counts: Mapping[Filter, int]) -> Reading:
    total = max(sum(counts.values()), 1)
    files = sum(reading.files * counts[used] for used, reading in readings.items())
    size = sum(reading.bytes * counts[used] for used, reading in readings.items())
    groups = sum(reading.more_groups * counts[used] for used, reading in readings.items())
    return Reading(files / total, size / total, groups / total)


def _known_filters(
    filters: Mapping[Filter, int], columns: Mapping[str, _Column]
) -> dict[Filter, int]:
    """Return the commonest filters, without columns that are not known. Order: by their reads."""
    known: dict[Filter, int] = {}
    for used, count in filters.items():
        conditions = frozenset((name, kind) for name, kind in used if name in columns)
        known[conditions] = known.get(conditions, 0) + count
    commonest = sorted(known.items(), key=lambda item: (-item[1], sorted(item[0])))
    return dict(commonest[:_MOST_FILTERS])


# -- values -----------------------------------------------------------------------------------


def _column(
    found: ColumnBounds, key: ClusteringKey, spans: KeyBounds, distinct: int | None
) -> _Column:
    """Return the values of a key as numbers."""
    lower, upper, step = _numbers(spans)
    least, most = float(lower.min()), float(upper.max())
    if distinct is not None and most > least:
        step = max(step, (most - least) / max(distinct - 1, 1))
    low, high = np.full(len(found.sizes), least), np.full(len(found.sizes), most)
    low[spans.known], high[spans.known] = lower, upper
    return _Column(key, low, high, ~spans.is_empty, least, step)


def _numbers(spans: KeyBounds) -> tuple[Reals, Reals, float]:
    """Return bounds as numbers, and the distance of neighbouring values, 0 if it is not known."""
    if pa.types.is_integer(spans.lower.type):
        lower, upper = (ends.to_numpy().astype(np.float64) for ends in (spans.lower, spans.upper))
        return lower, upper, 1.0
    if pa.types.is_large_binary(spans.lower.type) or pa.types.is_binary(spans.lower.type):
        return _text_numbers(spans)
    places = places_of(spans, np.zeros(len(spans.lower), np.int64))
    at = np.concatenate([np.zeros(1), np.cumsum(places.gaps)])
    return at[places.lower], at[places.upper], 0.0


def _text_numbers(spans: KeyBounds) -> tuple[Reals, Reals, float]:
    """Return bounds of bytes as numbers: their first bytes after those that all begin with."""
    lower, upper = spans.lower.to_pylist(), spans.upper.to_pylist()
    pairs = zip(min(lower), max(upper), strict=False)
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    low, high = (
        np.array(
            [int.from_bytes(end[start : start + 6].ljust(6, b"\0")) for end in side], np.float64
        )
        for side in (lower, upper)
    )
    return low, high, 0.0


def _ends(column: _Column, *, is_low: bool) -> Reals:
    """Return the lower or upper bounds of files; no value is between those of an empty one."""
    ends = column.low if is_low else column.high
    return np.where(column.has_values, ends, np.inf if is_low else -np.inf)


def _sample(found: ColumnBounds, columns: Mapping[str, _Column], target_bytes: int) -> _Sample:
    """Return rows of all files, as many of each as its part of all rows."""
    random = np.random.default_rng(_SEED)
    file_count = max(int(found.sizes.sum()) // max(target_bytes, 1), 1) + len(found.specs)
    count = min(max(_ROWS_OF_FILE * file_count, _FEWEST_ROWS), _MOST_ROWS)
    ends = np.cumsum(np.maximum(found.records, 0))
    at = (np.arange(count) + random.random(count)) * (ends[-1] / count)
    files = np.minimum(np.searchsorted(ends, at, side="right"), len(ends) - 1)
    values = {name: _drawn(column, files, random) for name, column in columns.items()}
    of_file = np.bincount(files, minlength=len(ends))
    sizes = found.sizes[files] / of_file[files]
    sizes *= found.sizes.sum() / max(float(sizes.sum()), 1.0)  # files without a row of the sample
    return _Sample(values, found.partitions[files], files, sizes, max(int(ends[-1]), 1))


def _drawn(column: _Column, files: Integers, random: np.random.Generator) -> Reals:
    """Return a value for each row between the bounds of its file; NaN where the file has none."""
    low, high = column.low[files], column.high[files]
    values = low + random.random(len(files)) * (high - low + column.step)
    if column.step:
        values = column.least + np.floor((values - column.least) / column.step) * column.step
    return np.where(column.has_values[files], np.clip(values, low, high), np.nan)


# -- layouts ----------------------------------------------------------------------------------


def _layouts(
    columns: Mapping[str, _Column],
    filters: Mapping[Filter, int],
    sample: _Sample,
    target_bytes: int,
    partitioned_by: Collection[str],
) -> Iterator[tuple[str, tuple[str, ...], _Files]]:
    """Yield each layout that may help: kind, terms and files."""

    sizes = sizes_of(target_bytes, None, None)
    in_bins = partial(_put_in_files, sample, count_of=sizes.expected_files)
    yield "compact", (), in_bins(sample.files, sample.partitions)
    put = partial(_put_in_files, sample, count_of=sizes.parts)
    used = {name for conditions in filters for name, _ in conditions}
    names = [name for name in columns if name in used]
    for name in names:
        yield "sort", (name,), put(sample.values[name], sample.partitions)
    for pair in combinations(names[:4], 2):
        words = hilbert([_spread(columns[name], sample.values[name]) for name in pair])
        places = bits_in_turn(words)[:, :4].copy().view(">u4")[:, 0]  # of 16 bits each
        yield "hilbert", pair, put(places.astype(np.int64), sample.partitions)
    by_equality = {name for conditions in filters for name, kind in conditions if kind == EQUALITY}
    for name in names:
        for term, parts, buckets in _parts(
            columns[name], sample, target_bytes, has_equality=name in by_equality
        ):
            if term in partitioned_by:
                continue
            groups = _joined(sample.partitions, parts)
            files = put(sample.files, groups, buckets=buckets)
            if files.sizes.mean() >= _LEAST_FILE * target_bytes:
                yield "partition", (term,), files


def _other_sizes(
    layouts: Sequence[Advice],
    sample: _Sample,
    filters: Mapping[Filter, int],
    trials: Mapping[Filter, Sequence[_Intervals]],
    target_bytes: int,
    row_groups: RowGroups | None,
) -> Iterator[Advice]:
    """Yield the best size of files, and of row groups, of the best sort, or without an order.

    A size is worth to be told only if it costs a tenth less than the sizes that the table has.
    """
    base = next(one for kind in ("sort", "compact") for one in layouts if one.kind == kind)
    order = sample.values[base.terms[0]] if base.terms else sample.files

    def put(count_of: Callable[[int], int]) -> _Files:
        return _put_in_files(sample, order, sample.partitions, count_of)

    def reading(groups: _Files, files: _Files) -> Reading:
        return _mean(
            {used: _reading_groups(groups, files, used, trials[used]) for used in filters}, filters
        )

    def best(kind: str, found: Mapping[int, tuple[_Files, Reading]], own: Reading) -> list[Advice]:
        size, (files, least) = min(found.items(), key=lambda item: item[1][1].cost_bytes)
        if least.cost_bytes > _WORTH * own.cost_bytes:
            return []
        return [Advice(kind, base.terms, len(files.sizes), least, size)]

    found = {}
    for size in _powers(target_bytes, _LEAST_TARGET, _LARGEST_TARGET):
        sizes = sizes_of(size, None, None)
        files = put(sizes.parts if base.terms else sizes.expected_files)
        found[size] = files, reading(files, files)
    yield from best("file-size", found, base.reading)
    if row_groups is None or not base.terms:
        return
    part_of_rows = len(sample.bytes) / sample.record_count
    count_of = sizes_of(target_bytes, None, None).parts
    files, found = put(count_of), {}
    for size in _powers(row_groups.size_bytes, _LEAST_GROUP, row_groups.size_bytes):
        group_rows = size / row_groups.row_bytes * part_of_rows
        if found and group_rows < _ROWS_OF_GROUP:
            break
        groups = _put_in_files(sample, order, sample.partitions, count_of, group_rows=group_rows)
        found[size] = files, reading(groups, files)
    yield from best("row-group", found, found[row_groups.size_bytes][1])


def _powers(size: int, least: int, most: int) -> list[int]:
    """Return a size first, then its halves and doubles between others."""
    halves = [size >> bits for bits in range(1, 16) if size >> bits >= least]
    doubles = [size << bits for bits in range(1, 16) if size << bits <= most]
    return [size, *halves, *doubles]


def _put_in_files(
    sample: _Sample,
    order: Reals | Integers,
    groups: Integers,
    count_of: Callable[[int], int],
    buckets: _Buckets | None = None,
    group_rows: float = inf,
) -> _Files:
    """Split the rows of each group into equal files in an order; `count_of` some bytes.

    With `group_rows`, these are the row groups of as many rows in such files.
    """
    rows = np.lexsort((order, groups))
    own = groups[rows]
    starts = np.flatnonzero(np.concatenate([[True], own[1:] != own[:-1]]))
    counts = np.diff(np.append(starts, len(rows)))
    sizes = np.add.reduceat(sample.bytes[rows], starts)
    wanted = np.fromiter((count_of(int(size)) for size in sizes), np.int64, len(sizes))
    files = np.minimum(np.maximum(wanted, 1), counts)
    rank = np.arange(len(rows)) - np.repeat(starts, counts)
    of_group = rank * np.repeat(files, counts) // np.repeat(counts, counts)
    numbers = np.repeat(np.cumsum(files) - files, counts) + of_group
    first = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
    if group_rows < inf:
        in_file = np.arange(len(rows)) - first[numbers]
        at = np.floor(in_file / max(group_rows, 1.0))
        begins = (numbers[1:] != numbers[:-1]) | (at[1:] != at[:-1])
        first = np.flatnonzero(np.concatenate([[True], begins]))
    low, high = {}, {}
    for name, values in sample.values.items():
        of_rows = values[rows]
        is_none = np.isnan(of_rows)
        low[name] = np.minimum.reduceat(np.where(is_none, np.inf, of_rows), first)
        high[name] = np.maximum.reduceat(np.where(is_none, -np.inf, of_rows), first)
    if buckets is not None:
        buckets = replace(buckets, numbers=buckets.numbers[rows][first])
    return _Files(low, high, np.add.reduceat(sample.bytes[rows], first), buckets)


def _parts(
    column: _Column, sample: _Sample, target_bytes: int, *, has_equality: bool
) -> Iterator[tuple[str, Integers, _Buckets | None]]:
    """Yield transforms of a column: term, the part of each row, and parts that are buckets."""
    values, name = sample.values[column.key.name], column.key.name
    kind = column.key.type.name if isinstance(column.key.type, PrimitiveType) else ""
    if day := _DAYS.get(kind):
        days = _whole(values / day)
        yield f"month({name})", days.astype("M8[D]").astype("M8[M]").astype(np.int64), None
        yield f"day({name})", days, None
        if day > 1:
            yield f"hour({name})", _whole(values / (day // 24)), None
    if has_equality and kind not in ("boolean", "float", "double"):
        count = 1
        per_partition = sample.bytes.sum() / max(len(np.unique(sample.partitions)), 1)
        while 2 * count <= min(per_partition / target_bytes, _MOST_BUCKETS):
            count *= 2
        if count > 1:
            numbers = _hashed(values) % count
            yield f"bucket[{count}]({name})", numbers, _Buckets(name, numbers, count)


def _whole(values: Reals) -> Integers:
    return np.floor(np.nan_to_num(values, nan=-1.0)).astype(np.int64)


def _hashed(values: Reals) -> Integers:
    """Return a number for each value, the same for equal ones and else as good as random."""
    bits = np.nan_to_num(values, nan=-1.0).view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray((bits ^ (bits >> np.uint64(31))) >> np.uint64(1), np.int64)


def _joined(groups: Integers, parts: Integers) -> Integers:
    """Number the pairs of groups and parts."""
    _, numbers = np.unique(np.stack([groups, parts]), axis=1, return_inverse=True)
    return np.asarray(numbers, np.int64).reshape(-1)


def _spread(column: _Column, values: Reals) -> npt.NDArray[np.uint64]:
    """Return values as numbers that are spread over 64 bits, of which 16 count."""
    most = max(float(column.high.max()) - column.least, np.finfo(float).tiny)
    places = np.nan_to_num((values - column.least) / most, nan=0.0) * (_PLACES - 1)
    return places.astype(np.uint64) << np.uint64(64 - 16)


# -- reads ------------------------------------------------------------------------------------


def _trials(sample: _Sample, used: Filter, file_count: int) -> Sequence[_Intervals]:
    """Return the intervals that reads with a filter compare columns with, by column."""
    if not used:
        return [{}]
    has_values = ~np.any([np.isnan(sample.values[name]) for name, _ in used], axis=0)
    rows = np.flatnonzero(has_values)
    if not len(rows):
        return [{}]
    count = min(max(_MOST_COMPARED // file_count, _FEWEST_READS), _MOST_READS, len(rows))
    chosen = np.random.default_rng(_SEED).choice(rows, count, replace=False)
    ends = {}
    for name, kind in used:
        first = last = sample.values[name][chosen]
        if kind != EQUALITY:
            ordered = np.sort(sample.values[name][has_values])
            places = np.searchsorted(ordered, first) + int(RANGE_OF_ROWS * len(ordered))
            last = ordered[np.minimum(places, len(ordered) - 1)]
        ends[name] = (first, np.maximum(first, last))
    return [
        {name: (float(low[at]), float(high[at])) for name, (low, high) in ends.items()}
        for at in range(count)
    ]


def _reading(files: _Files, used: Filter, trials: Sequence[_Intervals]) -> Reading:
    """Return how many files, and of how many bytes, reads with a filter open on average."""
    opened = size = 0.0
    equal = {name for name, kind in used if kind == EQUALITY}
    for intervals in trials:
        mask = np.ones(len(files.sizes), np.bool_)
        for name, (first, last) in intervals.items():
            mask &= (files.low[name] <= last) & (files.high[name] >= first)
        buckets = files.buckets
        if buckets is not None and buckets.column in equal & set(intervals):
            value = np.array([intervals[buckets.column][0]])
            mask &= buckets.numbers == _hashed(value)[0] % buckets.count
        opened += np.count_nonzero(mask)
        size += float(files.sizes[mask].sum())
    return Reading(opened / len(trials), size / len(trials))


def _reading_groups(
    groups: _Files, files: _Files, used: Filter, trials: Sequence[_Intervals]
) -> Reading:
    """Return what reads of row groups cost: each but the first of a file is one request more."""
    of_files, of_groups = (_reading(one, used, trials) for one in (files, groups))
    more = max(of_groups.files - of_files.files, 0.0)
    return Reading(of_files.files, of_groups.bytes, more)


def _with_bloom(reading: Reading, used: Filter, column: str, rows_of_value: float) -> Reading:
    """Return what reads with a filter cost if files have Bloom filters for a column."""
    if (column, EQUALITY) not in used or not reading.files:
        return reading
    hits = min(reading.files, max(rows_of_value, 1.0))
    hits += _FALSE_POSITIVES * (reading.files - hits)
    return Reading(reading.files, reading.bytes * hits / reading.files)
