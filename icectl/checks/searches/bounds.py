"""Searches for bounds that do not decode, or exclude what they should include (R-091, R-092)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.searches.entries import Columns, merge_faults
from icectl.checks.searches.metrics import MetricPairs, are_aligned, common, distinct_rows, pairs
from icectl.entries.columns.packed import PackedValues, Places, not_text
from icectl.format.rule import Fault
from icectl.format.types import DecimalType, FixedType, PrimitiveType, Type

Side = Literal["lower", "upper"]
SIDES: tuple[Side, Side] = ("lower", "upper")

_WIDTHS: Mapping[str, tuple[int, ...]] = {
    "boolean": (1,),
    "int": (4,),
    "long": (4, 8),
    "float": (4,),
    "double": (4, 8),
    "date": (4,),
    "time": (8,),
    "timestamp": (4, 8),
    "timestamptz": (8,),
    "timestamp_ns": (4, 8),
    "timestamptz_ns": (8,),
    "uuid": (16,),
}
"""Bytes of a bound; narrower ones are of the type before a promotion (R-096)."""

_LONGEST = 17
"""Longest width that is told apart, and one more."""

_ANY_LENGTH = (1 << _LONGEST + 1) - 1
_ANY_BUT_NONE = _ANY_LENGTH - 1

_HIGHEST_ID = 1 << 20
"""Ids above it are known by name, or not at all: types are looked up in an array."""


class Kind(IntEnum):
    """The ways in which bounds of a column compare."""

    UNKNOWN = 0
    SIGNED = 1
    REAL = 2
    TEXT = 3
    DECIMAL = 4
    BYTES = 5


_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("int", "long", "date", "time", "timestamp", "timestamptz"), Kind.SIGNED),
    **dict.fromkeys(("timestamp_ns", "timestamptz_ns"), Kind.SIGNED),
    **dict.fromkeys(("float", "double"), Kind.REAL),
    **dict.fromkeys(("boolean", "binary"), Kind.BYTES),
    "string": Kind.TEXT,
    # The reference implementation long compared halves of uuids as signed numbers: no order of
    # them can be relied on.
    "uuid": Kind.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class BoundTypes:
    """The columns that bounds may be of, with what is known of them.

    The arrays are indexed by slots: the field id, or what `slots` says of ids that are larger. Bit
    n of `widths` says that a bound may have n bytes, bit 17 that it may have more. `longest` is the
    most bytes of a fixed.
    """

    size: int
    reserved: Mapping[int, int]
    widths: npt.NDArray[np.int32]
    kinds: npt.NDArray[np.uint8]
    longest: npt.NDArray[np.int32]
    has_fixed: bool

    def slots(self, field_ids: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
        """Find where what is known of each field stands; the last slot knows nothing."""
        if not len(field_ids) or int(field_ids.view(np.uint32).max()) < self.size:
            return field_ids
        known = (field_ids >= 0) & (field_ids < self.size)
        slots = np.where(known, field_ids, len(self.kinds) - 1)
        for field_id, slot in self.reserved.items():
            slots[field_ids == field_id] = slot
        return slots


def bound_types(columns: Mapping[int, Sequence[Type]]) -> BoundTypes:
    """Prepare the types of columns by field id; a promoted column has several (R-097)."""
    size = max((id_ for id_ in columns if 0 <= id_ < _HIGHEST_ID), default=-1) + 1
    large = [id_ for id_ in columns if not 0 <= id_ < _HIGHEST_ID]
    reserved = {id_: size + at for at, id_ in enumerate(large)}
    slot_count = size + len(large) + 1
    widths = np.full(slot_count, _ANY_LENGTH, np.int32)
    kinds = np.full(slot_count, Kind.UNKNOWN, np.uint8)
    longest = np.full(slot_count, np.iinfo(np.int32).max, np.int32)
    for id_, types in columns.items():
        slot = reserved.get(id_, id_)
        widths[slot] = np.bitwise_or.reduce([_widths(type_) for type_ in types])
        of_types = {_kind(type_) for type_ in types}
        kinds[slot] = of_types.pop() if len(of_types) == 1 else Kind.UNKNOWN
        lengths = [type_.length for type_ in types if isinstance(type_, FixedType)]
        if lengths and len(lengths) == len(types):
            longest[slot] = max(lengths)  # truncated ones are shorter
    has_fixed = any(isinstance(type_, FixedType) for types in columns.values() for type_ in types)
    return BoundTypes(size, reserved, widths, kinds, longest, has_fixed)


@dataclass(frozen=True, slots=True)
class BoundFaults:
    """Entries whose bounds do not decode or are NaN, by side, or exclude every row (R-092)."""

    undecodable: Mapping[Side, Fault | None]
    not_a_number: Mapping[Side, Fault | None]
    crossed: Fault | None


def bound_faults(columns: Columns, types: BoundTypes) -> BoundFaults:
    """Search the bounds of a manifest.

    Cost: some passes over all bounds, however many columns they are of.
    """
    undecodable: dict[Side, list[Fault | None]] = {side: [] for side in SIDES}
    not_a_number: dict[Side, list[Fault | None]] = {side: [] for side in SIDES}
    crossed = []
    for part in columns.parts():
        found = {side: _read(part, side, types) for side in SIDES}
        for side, bounds in found.items():
            undecodable[side].append(_undecodable(part, bounds, types))
            not_a_number[side].append(_not_a_number(part, bounds))
        crossed.append(_crossed(part, found["lower"], found["upper"]))
    return BoundFaults(
        {side: merge_faults(undecodable[side]) for side in SIDES},
        {side: merge_faults(not_a_number[side]) for side in SIDES},
        merge_faults(crossed),
    )


@dataclass(frozen=True)
class _Bounds:
    """Bounds of one side; `places` are those in `pairs`, and `groups` are as `_group` says."""

    pairs: MetricPairs
    places: Places
    slots: npt.NDArray[Any]
    groups: npt.NDArray[np.uint8]
    packed: PackedValues

    def at(self, chosen: Places) -> "_Bounds":
        """Return the bounds at some places."""
        packed = self.packed
        return _Bounds(
            self.pairs,
            self.places[chosen],
            self.slots[chosen],
            self.groups[chosen],
            PackedValues(packed.content, packed.starts[chosen], packed.lengths[chosen]),
        )

    def of_kind(self, kind: Kind) -> Places:
        """Find which of the bounds compare in a way."""
        return np.flatnonzero(self.groups >> 5 == kind)

    @cached_property
    def texts(self) -> tuple[Places, pa.Array]:
        """The places of the bounds that are text, and these."""
        return self._values(Kind.TEXT)

    @cached_property
    def strings(self) -> tuple[Places, pa.Array]:
        """The places of the bounds that compare byte by byte, and these."""
        return self._values(Kind.BYTES)

    def _values(self, kind: Kind) -> tuple[Places, pa.Array]:
        chosen = self.of_kind(kind)
        return chosen, self.pairs.values.take(pa.array(self.places[chosen]))


def _group(kind: Kind, length: int) -> int:
    """Kind and length in one byte; lengths above 30 are not told apart."""
    return kind << 5 | min(length, 31)


def _widths(type_: Type) -> int:
    if isinstance(type_, DecimalType):
        return _ANY_BUT_NONE
    if isinstance(type_, PrimitiveType) and type_.name in _WIDTHS:
        return sum(1 << width for width in _WIDTHS[type_.name])
    return _ANY_LENGTH


def _kind(type_: Type) -> Kind:
    if isinstance(type_, DecimalType):
        return Kind.DECIMAL
    if isinstance(type_, FixedType):
        return Kind.BYTES
    return (
        _KINDS.get(type_.name, Kind.UNKNOWN) if isinstance(type_, PrimitiveType) else Kind.UNKNOWN
    )


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
        np.asarray(types.kinds.take(slots) << 5 | np.minimum(lengths, 31), np.uint8),
        PackedValues(
            np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8),
            ends[:-1],
            lengths,
        ),
    )


def _undecodable(columns: Columns, found: _Bounds, types: BoundTypes) -> Fault | None:
    """Return entries with a bound whose length, or text, is none of its column's types (R-091)."""
    lengths = found.packed.lengths
    wrong = types.widths.take(found.slots) >> np.minimum(lengths, _LONGEST) & 1 == 0
    if types.has_fixed:
        wrong |= lengths > types.longest.take(found.slots)
    texts, values = found.texts
    wrong[texts] |= not_text(values)
    return _fault(columns, found, np.flatnonzero(wrong))


def _not_a_number(columns: Columns, found: _Bounds) -> Fault | None:
    wrong = []
    for width in (4, 8):
        chosen = np.flatnonzero(found.groups == _group(Kind.REAL, width))
        wrong.append(chosen[np.isnan(found.packed.numbers(chosen, f"<f{width}"))])
    return _fault(columns, found, np.concatenate(wrong))


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
    # The same fields on both sides, so the same kinds at the same places.
    for (chosen, values), (_, others) in (
        (lower.texts, upper.texts),
        (lower.strings, upper.strings),
    ):
        above = pc.greater(values, others).to_numpy(zero_copy_only=False)
        wrong.append(chosen[above.astype(np.bool_)])
    return _fault(columns, lower, np.concatenate(wrong))


def _crossed_decimals(lower: _Bounds, upper: _Bounds) -> Places:
    chosen = lower.of_kind(Kind.DECIMAL)
    if not len(chosen):
        return chosen
    lengths = [side.packed.lengths[chosen] for side in (lower, upper)]
    chosen = chosen[(np.minimum(*lengths) > 0) & (np.maximum(*lengths) < _LONGEST)]
    high, low = lower.packed.decimals(chosen)
    other_high, other_low = upper.packed.decimals(chosen)
    above = (high > other_high) | ((high == other_high) & (low > other_low))
    return np.asarray(chosen[above])


def _fault(columns: Columns, found: _Bounds, chosen: Places) -> Fault | None:
    if not len(chosen):
        return None
    return columns.fault_at(distinct_rows(found.pairs, found.places[chosen]))
