"""How well files are clustered by a column: how many hold a value, by their bounds alone.

The depth of a file is the expected number of files whose bounds hold the value of one of its rows.
The rows of a file are taken to be spread evenly between its bounds. Where a type has no distance
they are spread evenly over the gaps between neighbouring bounds of all files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.bound_values import Reals, decimal_bounds, integer_bounds, real_bounds
from icectl.entries.columns import INTEGER_TYPES, Integers, Mask, integers
from icectl.entries.partition_transforms import transform_column
from icectl.entries.rows import Entries, numbers
from icectl.entries.stats import flat, of_field
from icectl.format.schema import Schema
from icectl.format.sort import SortOrder
from icectl.format.transforms import Transform, result_type
from icectl.format.types import DecimalType, FixedType, PrimitiveType, Type

RANGE_OF_ROWS = 0.01
"""The part of the rows that a range holds whose files are counted."""

_METRICS = ("null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
CLUSTERING_SOURCES = frozenset({
    "content", "status", "file_format", "spec_id", "partition_key", "record_count",
    "file_size_in_bytes", "content_size_in_bytes", *_METRICS,
})  # fmt: skip
"""Columns of entries that depths and the counts beside them are computed from."""

_REALS = ("float", "double")
_HAS_TEXT = ("string", "binary")
Words = tuple[npt.NDArray[Any], ...]
"""Values as numbers that sort as they do; the last of several comes first."""


@dataclass(frozen=True, slots=True)
class ClusteringKey:
    """What files may be clustered by: a column, or an order-keeping transform of it."""

    name: str
    field_id: int
    type: Type
    transform: Transform

    @property
    def why_unordered(self) -> str | None:
        """Why bounds say nothing of the order of values; None where they do."""
        if self.transform.name in ("bucket", "void", "unknown"):
            return f"bounds do not show the order of {self.transform.text}"
        if self.type == PrimitiveType("uuid"):
            return "writers order uuids in different ways"
        name = self.type.name if isinstance(self.type, PrimitiveType) else ""
        known = isinstance(self.type, DecimalType | FixedType)
        if known or name in (*INTEGER_TYPES, *_REALS, *_HAS_TEXT, "boolean"):
            return None
        return "values of this type have no order"


def keys_of_order(order: SortOrder, schema: Schema) -> list[ClusteringKey]:
    """Return the keys of a sort order whose columns the schema has."""
    keys = []
    for field in order.fields:
        source, transform = schema.field(field.source_ids[0]), field.transform
        if source is not None:
            name = schema.name_of(source.id) or source.name
            shown = name if transform.name == "identity" else f"{transform.text}({name})"
            keys.append(ClusteringKey(shown, source.id, source.type, transform))
    return keys


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """The bounds of a key in some files; `known` where a file has usable ones.

    `rows` are those with a value, as far as nulls and NaN are counted; `is_empty` are files that
    have none. `lower` and `upper` are as long as the files that are known; `longest` is the most
    bytes that one of them has.
    """

    known: Mask
    is_empty: Mask
    rows: Integers
    lower: pa.Array
    upper: pa.Array
    longest: int
    is_text: bool = False


def metrics_of(data: Entries) -> Mapping[str, pa.Table]:
    """Return the metrics maps that spans are read from, of entries with CLUSTERING_SOURCES."""
    return {name: flat(data, name) for name in _METRICS}


def spans_of(data: Entries, metrics: Mapping[str, pa.Table], key: ClusteringKey) -> KeyBounds:
    """Return the bounds of a key in data files. Order: kept."""
    values = {name: of_field(metrics[name], key.field_id, len(data)) for name in _METRICS}
    records = numbers(data, "record_count")
    nulls, nans = (
        np.asarray(pc.fill_null(values[name], 0).to_numpy(zero_copy_only=False), np.int64)
        for name in _METRICS[:2]
    )
    is_real = isinstance(key.type, PrimitiveType) and key.type.name in _REALS
    rows = records - nulls - (nans if is_real else 0)
    stored = [values[name] for name in _METRICS[2:]]
    lower, upper = (_values(key, bounds) for bounds in stored)
    known = np.asarray(pc.and_(lower.is_valid(), upper.is_valid()).to_numpy(zero_copy_only=False))
    in_order = pc.fill_null(pc.less_equal(lower, upper), fill_value=False)
    is_empty = rows <= 0
    known = known & in_order.to_numpy(zero_copy_only=False) & ~is_empty
    mask = pa.array(known)
    of_known = pa.chunked_array([bounds.filter(mask) for bounds in stored])
    longest = pc.max(pc.binary_length(of_known)).as_py() or 0
    is_text = isinstance(key.type, PrimitiveType) and key.type.name in _HAS_TEXT
    found = (lower.filter(mask), upper.filter(mask))
    return KeyBounds(known, is_empty, rows, *found, longest, is_text)


def joined(parts: Sequence[KeyBounds]) -> KeyBounds:
    """Return the spans of all parts, one after the other."""
    known, is_empty, rows = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("known", "is_empty", "rows")
    )
    lower, upper = (
        pa.concat_arrays([getattr(part, name) for part in parts]) for name in ("lower", "upper")
    )
    longest = max(part.longest for part in parts)
    return KeyBounds(known, is_empty, rows, lower, upper, longest, parts[0].is_text)


def _values(key: ClusteringKey, stored: pa.Array) -> pa.Array:
    """Return bounds as int64, float64, decimal256 or binary; null where they are not known."""
    values = _plain_values(key.type, stored)
    if key.transform.name == "identity" or isinstance(key.type, DecimalType | FixedType):
        return values
    name = key.type.name if isinstance(key.type, PrimitiveType) else ""
    try:
        if name not in INTEGER_TYPES:
            typed = values.cast(pa.string()) if name == "string" else values
            return transform_column(key.transform, key.type, typed).cast(values.type)
        wanted = INTEGER_TYPES[name]
        typed = values.cast(pa.int32()) if wanted == pa.date32() else values
        result = transform_column(key.transform, key.type, typed.view(wanted))
    except ValueError:  # of values that no writer has: none is known
        return pa.nulls(len(stored), values.type)
    of_type = result_type(key.transform, key.type)
    assert isinstance(of_type, PrimitiveType)
    mask = ~result.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(integers(of_type.name, result), mask=mask)


def _plain_values(type_: Type, stored: pa.Array) -> pa.Array:
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    missing = np.ones(len(stored), np.bool_)
    if name in _HAS_TEXT or isinstance(type_, FixedType):
        return stored
    if isinstance(type_, DecimalType):
        at, high, low = decimal_bounds(stored)
        words = np.zeros((len(stored), 4), np.int64)
        words[at, 0], words[at, 1] = low.view(np.int64), high
        words[:, 2:] = words[:, 1:2] >> 63
        missing[at] = False
        valid = pa.array(~missing).buffers()[1]
        return pa.Array.from_buffers(
            pa.decimal256(39, 0), len(stored), [valid, pa.py_buffer(words)]
        )
    values = np.zeros(len(stored), np.float64 if name in _REALS else np.int64)
    found: Iterator[tuple[Integers, npt.NDArray[Any]]] = (
        real_bounds(stored) if name in _REALS else integer_bounds(stored, type_)
    )
    for at, bounds in found:
        values[at] = bounds
        missing[at] = False
    return pa.array(values, mask=missing)


@dataclass(frozen=True, slots=True)
class Depths:
    """Depths of files among those of their group.

    `of_files` is per file: the expected number of files that hold the value of one of its rows.
    `most` is per group: the most files that hold one value. `opened` is per file the chance that a
    range of RANGE_OF_ROWS opens it; empty for several groups.
    """

    of_files: Reals
    most: Integers
    opened: Reals


@dataclass(frozen=True, slots=True)
class Places:
    """Bounds as places among the distinct bounds, which those of a group share.

    `lower` and `upper` are per file whose bounds are known. `gaps` are the distances between
    neighbouring places, and `groups` the group of each place; groups lie apart.
    """

    lower: Integers
    upper: Integers
    gaps: Reals
    groups: Integers


def places_of(spans: KeyBounds, groups: Integers) -> Places:
    """Return the places of bounds; `groups` numbers the group of each file that has known ones."""
    words = (*_words(pa.concat_arrays([spans.lower, spans.upper])), np.tile(groups, 2))
    order = np.lexsort(words)
    differs = np.zeros(max(len(order) - 1, 0), np.bool_)
    for word in words:
        differs |= word[order[1:]] != word[order[:-1]]
    is_first = np.concatenate([np.ones(min(len(order), 1), np.bool_), differs])
    places = np.empty(len(order), np.int64)
    places[order] = np.cumsum(is_first) - 1
    ends = order[is_first]  # one row for each distinct bound
    count = len(groups)
    return Places(places[:count], places[count:], _gaps(words, ends), np.tile(groups, 2)[ends])


def depths(spans: KeyBounds, groups: Integers, group_count: int) -> Depths:
    """Return the depth of each file whose bounds are known, among the files of its group.

    `groups` numbers the group of each of them, from 0.
    Cost: a sort, and some passes for each doubling of the number of files.
    """
    rows = spans.rows[spans.known]
    found = places_of(spans, groups)
    lower, upper, gaps = found.lower, found.upper, found.gaps
    end_count = len(found.groups)

    begun = np.cumsum(np.bincount(lower, minlength=end_count))
    ended = np.cumsum(np.bincount(upper, minlength=end_count))
    at_ends = begun - ended + np.bincount(upper, minlength=end_count)
    between = (begun - ended)[:-1]
    widths, weighed = _sums(np.stack([gaps, gaps * between]), lower, upper)
    is_point = lower == upper
    of_files = np.where(is_point, at_ends[lower], weighed / np.where(is_point, 1, widths))
    most = np.zeros(group_count, np.int64)
    np.maximum.at(most, found.groups, at_ends)
    one = group_count == 1
    opened = _opened(rows, lower, upper, gaps, widths, end_count) if one else np.zeros(0)
    return Depths(of_files, most, opened)


_ROUNDS, _LEAST = 4, 1e-30


def shares(weights: Reals, lower: Integers, upper: Integers, gaps: Reals) -> tuple[Reals, Reals]:
    """Return the part that each file has of the rows between its bounds, and the rows of each gap.

    `weights` are the files' own rows or bytes. The rows of a gap are those that files spread evenly
    have there. For the parts, each file's rows are spread as those of all files are, which some
    rounds find. No file has equal ends.
    """
    between, evenly = np.maximum(gaps, _LEAST), gaps
    for at in range(_ROUNDS):
        (widths,) = _sums(between[None], lower, upper)
        between = between * _spread(weights / widths, lower, upper, len(gaps))
        evenly = between if at == 0 else evenly
        between = np.maximum(between, _LEAST)
    (widths,) = _sums(between[None], lower, upper)
    return np.minimum(weights / widths, 1.0), evenly


def _opened(
    rows: Integers, lower: Integers, upper: Integers, gaps: Reals, widths: Reals, end_count: int
) -> Reals:
    """Return for each file the chance that a range of RANGE_OF_ROWS opens it."""
    total = rows.sum()
    is_point = lower == upper
    at_ends = np.bincount(lower, np.where(is_point, rows, 0), end_count)
    density = np.where(is_point, 0, rows / np.where(is_point, 1, widths))
    in_gaps = _spread(density, lower, upper, len(gaps)) * gaps
    below = np.cumsum(at_ends) - at_ends + np.concatenate([np.zeros(1), np.cumsum(in_gaps)])
    first = np.maximum(below[lower] / total - RANGE_OF_ROWS, 0)
    last = np.minimum((below[upper] + at_ends[upper]) / total, 1 - RANGE_OF_ROWS)
    return np.asarray(np.maximum(last - first, 0) / (1 - RANGE_OF_ROWS), np.float64)


def _words(values: pa.Array) -> Words:
    if pa.types.is_decimal(values.type):
        words = np.frombuffer(values.buffers()[1] or b"", np.int64).reshape(-1, 4)
        words = words[values.offset : values.offset + len(values)]
        return words[:, 0].view(np.uint64), words[:, 1]
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return (values.to_numpy(zero_copy_only=False),)
    # Ranks: these have no distance.
    return (pc.rank(values, tiebreaker="dense").to_numpy(),)


def _gaps(words: Words, ends: Integers) -> Reals:
    """Return the distances between neighbouring ends, as parts of the largest, none of them 0.

    An infinite end lies as far beyond the others as these lie apart in all.
    """
    first, second = ends[:-1], ends[1:]
    *values, groups = words
    if len(values) == 2:
        low, high = values
        lows = low[second] - low[first]
        borrowed = low[second] < low[first]
        highs = high[second].view(np.uint64) - high[first].view(np.uint64) - borrowed
        gaps = highs.astype(np.float64) * 2.0**64 + lows
    elif values[0].dtype == np.float64:
        gaps = values[0][second] / 2 - values[0][first] / 2
    elif values[0].dtype == np.int64:
        gaps = (values[0][second].view(np.uint64) - values[0][first].view(np.uint64)).astype(float)
    else:
        gaps = np.ones(len(first))
    gaps = np.where(groups[first] == groups[second], gaps, 0.0)
    is_finite = np.isfinite(gaps)
    gaps /= max(gaps[is_finite].max(initial=0.0), np.finfo(float).tiny)
    gaps[~is_finite] = max(gaps[is_finite].sum(), 1.0)
    return np.asarray(np.maximum(gaps, np.finfo(float).tiny), np.float64)


def _sums(values: Reals, starts: Integers, stops: Integers) -> Reals:
    """Sum `values[:, start:stop]` of each pair by halves: no difference of sums is rounded."""
    sums = np.zeros((len(values), len(starts)))
    for is_next, rows, nodes in _halves(starts, stops):
        if is_next:
            values = np.add.reduceat(values, np.arange(0, values.shape[1], 2), axis=1)
        sums[:, rows] += values[:, nodes]
    return sums


def _spread(values: Reals, starts: Integers, stops: Integers, count: int) -> Reals:
    """Add each value to all of `start:stop`, and return the `count` sums: the reverse of _sums."""
    levels = [np.zeros(count)]
    for is_next, rows, nodes in _halves(starts, stops):
        if is_next:
            levels.append(np.zeros(-(-len(levels[-1]) // 2)))
        levels[-1] += np.bincount(nodes, values[rows], len(levels[-1]))
    sums = levels.pop()
    while levels:
        below = levels.pop()
        sums = np.repeat(sums, 2)[: len(below)] + below
    return sums


def _halves(starts: Integers, stops: Integers) -> Iterator[tuple[bool, Integers, Integers]]:
    """Cut ranges into nodes of a tree: whether of the next level up, ranges, and their nodes."""
    is_next, rows = False, np.arange(len(starts))
    while len(rows):
        for bits, nodes in ((starts, starts), (stops, stops - 1)):
            chosen = np.flatnonzero((bits & 1) & (starts < stops))
            yield is_next, rows[chosen], nodes[chosen]
            is_next = False
        starts, stops, is_next = (starts + 1) >> 1, stops >> 1, True
        left = starts < stops
        rows, starts, stops = rows[left], starts[left], stops[left]
