"""Rules of metrics: counts, and bounds, which must decode and include what they bound."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.bound_types import LONGEST, BoundTypes, Kind, top_level_ids
from icectl.checks.objects import Columns, ManifestEntries, Numbers, in_entries, merge_faults
from icectl.checks.rule import rule
from icectl.entries.columns import Places, Spans, not_text
from icectl.format.bounding_box import CORNER_LENGTHS, EAST, NORTH
from icectl.format.manifest import FileFormat, Status
from icectl.format.rule import COMPACT, COMPACT_OWN, NO_ROW, OURS, WRITE_DELETES_AGAIN, Fault
from icectl.format.variant import read_bounds

_ROOM_PER_PAIR = 16
"""How much larger than both maps a table of all rows and fields may be, to look pairs up in."""


@dataclass(frozen=True, slots=True)
class MetricPairs:
    """All keys of a metrics map with their values, one row after the other.

    `ends[row]` is where the pairs of a row end.
    """

    ends: Places
    field_ids: npt.NDArray[np.int32]
    values: pa.Array

    def __len__(self) -> int:
        return len(self.field_ids)

    def rows(self, places: Places) -> Places:
        """Return the rows that these pairs belong to."""
        return np.searchsorted(self.ends, places, side="right").astype(np.int64)

    def keys(self, width: int) -> Places:
        """Row and field of each pair in one number; ids are below `width`."""
        lengths = np.diff(self.ends, prepend=0)
        firsts = np.arange(len(self.ends)) * width
        return np.repeat(firsts, lengths) + self.field_ids.view(np.uint32)


def pairs(columns: Columns, name: str) -> MetricPairs:
    """Return the pairs of a map column that is in one piece. Order: row, then as stored."""
    column = columns.table[name]
    if column.null_count == len(column):
        kind = column.type
        ends = np.zeros(len(column), np.int64)
        return MetricPairs(ends, np.zeros(0, np.int32), pa.array([], kind.item_type))
    maps = column.combine_chunks()
    offsets = maps.offsets.to_numpy()
    start, stop = int(offsets[0]), int(offsets[-1])
    keys, values = maps.keys.slice(start, stop - start), maps.items.slice(start, stop - start)
    lengths = np.diff(offsets)
    if maps.null_count and lengths[columns.absent(name)].any():
        kept = np.repeat(columns.present(name), lengths)
        keys, values = keys.filter(pa.array(kept)), values.filter(pa.array(kept))
        lengths = np.where(columns.present(name), lengths, 0)
    return MetricPairs(np.cumsum(lengths, dtype=np.int64), keys.to_numpy(), values)


def are_aligned(left: MetricPairs, right: MetricPairs) -> bool:
    """Return whether two maps have the same fields in every row, in the same order."""
    return np.array_equal(left.ends, right.ends) and np.array_equal(left.field_ids, right.field_ids)


def common(left: MetricPairs, right: MetricPairs) -> tuple[Places, Places]:
    """Return the places of the pairs that two maps have for the same row and field.

    Cost: some passes where ids are small numbers, as they are but in delete files; else a sort.
    """
    if are_aligned(left, right):
        places = np.arange(len(left))
        return places, places
    if not len(left) or not len(right):
        none = np.zeros(0, np.int64)
        return none, none
    width = 1 + max(int(side.field_ids.view(np.uint32).max()) for side in (left, right))
    of_left, of_right = left.keys(width), right.keys(width)
    if len(left.ends) * width > _ROOM_PER_PAIR * (len(left) + len(right)):
        _, of_left, of_right = np.intersect1d(of_left, of_right, return_indices=True)
        return of_left, of_right
    known = np.full(len(left.ends) * width, -1, np.int64)
    known[of_left] = np.arange(len(left))
    found = known[of_right]
    both = np.flatnonzero(found >= 0)
    return found[both], both


def distinct_rows(pairs: MetricPairs, places: Places) -> Places:
    """Return the rows of some pairs. Order: ascending, each once."""
    return np.unique(pairs.rows(places))


def _live_fault(columns: Columns, rows: Places) -> Fault | None:
    """Return the entries at some rows; no reader uses the metrics of a deleted one."""
    return columns.fault_at(rows[~columns.of("status", Status.DELETED)[rows]])


def impossible_counts(columns: Columns) -> Fault | None:
    """Files with more nulls or NaN in a column than values, or with counts below zero (R-130)."""
    return merge_faults(_impossible_counts(part) for part in columns.parts())


def counts_of_other_rows(columns: Columns, top_level: Collection[int]) -> Fault | None:
    """Return files with more or fewer values than rows in one of the top-level columns (R-134)."""
    faults = []
    for part in columns.parts():
        values = pairs(part, "value_counts")
        places = np.flatnonzero(np.isin(values.field_ids, list(top_level)))
        records = part.numbers("record_count")[values.rows(places)]
        differing = places[_longs(values)[places] != records]
        faults.append(_live_fault(part, distinct_rows(values, differing)))
    return merge_faults(faults)


def avro_with_column_sizes(columns: Columns) -> Fault | None:
    """Avro files with sizes of columns, which have none (R-133)."""
    faults = []
    if columns.of("file_format", FileFormat.AVRO).any():
        for part in columns.parts():
            sizes = np.diff(pairs(part, "column_sizes").ends, prepend=0)
            faults.append(part.fault(part.of("file_format", FileFormat.AVRO) & (sizes > 0)))
    return merge_faults(faults)


def _impossible_counts(columns: Columns) -> Fault | None:
    values = pairs(columns, "value_counts")
    counts = _longs(values)
    wrong = [distinct_rows(values, np.flatnonzero(counts < 0))]
    for name in ("null_value_counts", "nan_value_counts"):
        part = pairs(columns, name)
        if not len(part):
            continue
        parts = _longs(part)
        wrong.append(distinct_rows(part, np.flatnonzero(parts < 0)))
        of_values, of_part = common(values, part)
        above = parts[of_part] > counts[of_values]
        wrong.append(distinct_rows(part, of_part[above]))
    return _live_fault(columns, np.unique(np.concatenate(wrong)))


def _longs(pairs: MetricPairs) -> Numbers:
    """Counts; a null one is 0."""
    values = pairs.values.fill_null(0) if pairs.values.null_count else pairs.values
    return np.asarray(values.to_numpy())


# fmt: off
METRIC_RULES = (
    rule("R-130", "counts of a column agree, and missing metrics mean unknown",
         "Field-level Metrics", "warning", COMPACT,
         in_entries("more nulls or NaN than values in a column, or a negative count,",
                    impossible_counts)),
    rule("R-131", "delete files may be skipped by their metrics", "Scan Planning", "info", OURS,
         not_enforced="icectl applies every delete file that sequence number and partition "
         "select"),
    rule("R-132", "metrics of delete files describe the deleted rows", "Delete File Stats",
         "warning", WRITE_DELETES_AGAIN, not_enforced="the deleted rows may be gone"),
    rule("R-133", "distinct counts are not written, and Avro files have no column sizes",
         "Field-level Metrics", "info",
         f"{NO_ROW}, if the format is right: `icectl validate TABLE --level footers` compares it",
         in_entries("sizes of columns of an Avro file", avro_with_column_sizes)),
    rule("R-134", "a column outside of lists and structs has as many values as rows",
         "Field-level Metrics", "warning", COMPACT,
         in_entries("a count of values of a column that is not the count of rows,",
                    lambda one: counts_of_other_rows(one, top_level_ids(one.metadata)))),
    rule("R-207", "distinct counts are ignored", "Data File Fields", "info", OURS,
         not_enforced="a choice between sources; R-133 enforces it"),
)
# fmt: on


Side = Literal["lower", "upper"]
SIDES: tuple[Side, Side] = ("lower", "upper")


@dataclass(frozen=True, slots=True)
class BoundFaults:
    """Entries whose bounds do not decode or are NaN, by side, or exclude every row (R-092).

    `cornerless` have a bound of shapes that is no corner of a bounding box, or one of variants that
    is no object (R-093).
    """

    undecodable: Mapping[Side, Fault | None]
    not_a_number: Mapping[Side, Fault | None]
    crossed: Fault | None
    cornerless: Mapping[Side, Fault | None]


def bound_faults(columns: Columns, types: BoundTypes) -> BoundFaults:
    """Search the bounds of a manifest.

    Cost: some passes over all bounds, however many columns they are of.
    """
    undecodable: dict[Side, list[Fault | None]] = {side: [] for side in SIDES}
    not_a_number: dict[Side, list[Fault | None]] = {side: [] for side in SIDES}
    cornerless: dict[Side, list[Fault | None]] = {side: [] for side in SIDES}
    crossed = []
    for part in columns.parts():
        sides = {side: _read(part, side, types) for side in SIDES}
        for side, bounds in sides.items():
            undecodable[side].append(_undecodable(part, bounds, types))
            not_a_number[side].append(_not_a_number(part, bounds))
            cornerless[side].append(_cornerless(part, bounds))
        crossed.append(_crossed(part, sides["lower"], sides["upper"]))
    return BoundFaults(
        {side: merge_faults(undecodable[side]) for side in SIDES},
        {side: merge_faults(not_a_number[side]) for side in SIDES},
        merge_faults(crossed),
        {side: merge_faults(cornerless[side]) for side in SIDES},
    )


@dataclass(frozen=True)
class _Bounds:
    """Bounds of one side; `places` are those in `pairs`, and `groups` are as `_group` says."""

    pairs: MetricPairs
    places: Places
    slots: npt.NDArray[Any]
    groups: npt.NDArray[np.uint16]
    packed: Spans

    def at(self, chosen: Places) -> "_Bounds":
        packed = self.packed
        return _Bounds(
            self.pairs,
            self.places[chosen],
            self.slots[chosen],
            self.groups[chosen],
            Spans(packed.content, packed.starts[chosen], packed.lengths[chosen]),
        )

    def of_kind(self, kind: Kind) -> Places:
        """Find which of the bounds compare in a way."""
        return np.flatnonzero(self.groups >> 5 == kind)

    @cached_property
    def texts(self) -> tuple[Places, pa.Array]:
        """The places of the bounds that are text, and these."""
        return self.values(Kind.TEXT)

    def values(self, kind: Kind) -> tuple[Places, pa.Array]:
        chosen = self.of_kind(kind)
        return chosen, self.pairs.values.take(pa.array(self.places[chosen]))


def _group(kind: Kind, length: int) -> int:
    """Kind and length in one number; lengths above 30 are not told apart."""
    return kind << 5 | min(length, 31)


def _read(columns: Columns, side: Side, types: BoundTypes) -> _Bounds:
    found = pairs(columns, f"{side}_bounds")
    _, offsets, content = found.values.buffers()
    ends = np.zeros(1, np.int32)
    if len(found):
        stored = np.frombuffer(offsets, np.int32)
        ends = stored[found.values.offset : found.values.offset + len(found) + 1]
    lengths = np.diff(ends)
    slots = types.slots(found.field_ids)
    return _Bounds(
        found,
        np.arange(len(found)),
        slots,
        (types.kinds.take(slots).astype(np.uint16) << 5 | np.minimum(lengths, 31)).astype(
            np.uint16
        ),
        Spans(
            np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8),
            ends[:-1],
            lengths,
        ),
    )


def _undecodable(columns: Columns, bounds: _Bounds, types: BoundTypes) -> Fault | None:
    """Return entries with a bound whose length, or text, is none of its column's types (R-091)."""
    lengths = bounds.packed.lengths
    wrong = types.widths.take(bounds.slots) >> np.minimum(lengths, LONGEST) & 1 == 0
    if types.has_fixed:
        wrong |= lengths > types.longest.take(bounds.slots)
    texts, values = bounds.texts
    wrong[texts] |= not_text(values)
    return _fault(columns, bounds, np.flatnonzero(wrong))


def _cornerless(columns: Columns, bounds: _Bounds) -> Fault | None:
    """Return entries with a bound of shapes that is no corner, or one beyond the globe (R-093).

    Those of variants are objects.
    """
    wrong = []
    for kind in (Kind.GEOMETRY, Kind.GEOGRAPHY):
        chosen = bounds.of_kind(kind)
        lengths = bounds.packed.lengths[chosen]
        has_length = np.isin(lengths, CORNER_LENGTHS)
        wrong.append(chosen[~has_length])
        chosen = chosen[has_length]
        corners = _corners(bounds.packed, chosen)
        is_wrong = np.isnan(corners[:, :2]).any(axis=1)
        if kind is Kind.GEOGRAPHY:
            is_wrong |= (np.abs(corners[:, :2]) > (EAST, NORTH)).any(axis=1)
        wrong.append(chosen[is_wrong])
    chosen = bounds.of_kind(Kind.VARIANT)
    for place in chosen:
        try:
            read_bounds(bounds.packed.bytes_at(int(place)))
        except ValueError:
            wrong.append(np.array([place]))
    return _fault(columns, bounds, np.concatenate(wrong))


def _corners(packed: Spans, places: Places) -> npt.NDArray[np.float64]:
    """Return x, y, z and m of bounds; NaN where one is not there."""
    corners = np.full((len(places), 4), np.nan)
    for at in range(4):
        has_one = packed.lengths[places] >= 8 * (at + 1)
        behind = Spans(packed.content, packed.starts + 8 * at, packed.lengths)
        corners[has_one, at] = behind.numbers(places[has_one], "<f8")
    return corners


def _not_a_number(columns: Columns, bounds: _Bounds) -> Fault | None:
    wrong = []
    for width in (4, 8):
        chosen = np.flatnonzero(bounds.groups == _group(Kind.REAL, width))
        wrong.append(chosen[np.isnan(bounds.packed.numbers(chosen, f"<f{width}"))])
    return _fault(columns, bounds, np.concatenate(wrong))


def _crossed(columns: Columns, lower: _Bounds, upper: _Bounds) -> Fault | None:
    """Return entries with a lower bound above the upper one, which hides every row."""
    if not are_aligned(lower.pairs, upper.pairs):
        of_lower, of_upper = common(lower.pairs, upper.pairs)
        lower, upper = lower.at(of_lower), upper.at(of_upper)
    wrong = [_crossed_decimals(lower, upper)]
    for kind, letter in ((Kind.SIGNED, "i"), (Kind.REAL, "f")):
        for width in (4, 8):
            group, form = _group(kind, width), f"<{letter}{width}"
            chosen = np.flatnonzero((lower.groups == group) & (upper.groups == group))
            above = lower.packed.numbers(chosen, form) > upper.packed.numbers(chosen, form)
            wrong.append(chosen[above])
    wrong.append(_crossed_corners(lower, upper))
    # The same fields on both sides, so the same kinds at the same places.
    strings = (lower.values(Kind.BYTES), upper.values(Kind.BYTES))
    for (chosen, values), (_, others) in ((lower.texts, upper.texts), strings):
        above = pc.greater(values, others).to_numpy(zero_copy_only=False)
        wrong.append(chosen[above.astype(np.bool_)])
    return _fault(columns, lower, np.concatenate(wrong))


def _crossed_decimals(lower: _Bounds, upper: _Bounds) -> Places:
    chosen = lower.of_kind(Kind.DECIMAL)
    if not len(chosen):
        return chosen
    lengths = [side.packed.lengths[chosen] for side in (lower, upper)]
    chosen = chosen[(np.minimum(*lengths) > 0) & (np.maximum(*lengths) < LONGEST)]
    high, low = lower.packed.decimals(chosen)
    other_high, other_low = upper.packed.decimals(chosen)
    above = (high > other_high) | ((high == other_high) & (low > other_low))
    return np.asarray(chosen[above])


def _crossed_corners(lower: _Bounds, upper: _Bounds) -> Places:
    """Return places of shapes; boxes of geography may go from the east on to the west (R-093)."""
    is_corner = np.isin(lower.packed.lengths, CORNER_LENGTHS)
    is_corner &= np.isin(upper.packed.lengths, CORNER_LENGTHS)
    wrong = []
    for kind, first in ((Kind.GEOMETRY, 0), (Kind.GEOGRAPHY, 1)):
        chosen = lower.of_kind(kind)
        chosen = chosen[is_corner[chosen]]
        corners = [_corners(side.packed, chosen)[:, first:] for side in (lower, upper)]
        wrong.append(chosen[(corners[0] > corners[1]).any(axis=1)])
    return np.concatenate(wrong)


def _fault(columns: Columns, bounds: _Bounds, chosen: Places) -> Fault | None:
    return _live_fault(columns, distinct_rows(bounds.pairs, bounds.places[chosen]))


def _bounds(entries: ManifestEntries) -> BoundFaults:
    return bound_faults(entries, entries.bound_types)


# fmt: off
BOUND_RULES = (
    rule("R-091", "single values have the binary form of their type", "Appendix D", "error",
         COMPACT,
         in_entries("a lower bound that does not decode",
                    lambda one: one.once(_bounds).undecodable["lower"]),
         in_entries("an upper bound that does not decode",
                    lambda one: one.once(_bounds).undecodable["upper"])),
    rule("R-092", "a lower bound is not above the upper one, and NaN is not a bound", "Manifests",
         "error", COMPACT_OWN,
         in_entries("NaN as a lower bound", lambda one: one.once(_bounds).not_a_number["lower"]),
         in_entries("NaN as an upper bound", lambda one: one.once(_bounds).not_a_number["upper"]),
         in_entries("a lower bound above the upper one", lambda one: one.once(_bounds).crossed)),
    rule("R-093", "bounds of shapes are corners of a box, those of variants objects",
         "Bound serialization", "error", COMPACT_OWN,
         in_entries("a lower bound that is not a corner of a box, or not an object",
                    lambda one: one.once(_bounds).cornerless["lower"]),
         in_entries("an upper bound that is not a corner of a box, or not an object",
                    lambda one: one.once(_bounds).cornerless["upper"])),
    rule("R-096", "bounds are read by the type they were written with", "Schema Evolution", "error",
         OURS),
)
# fmt: on
