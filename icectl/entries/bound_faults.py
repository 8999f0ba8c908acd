"""Searches for bounds that do not decode, or exclude what they should include (R-091, R-092)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.faults import Columns, Fault, merged
from icectl.entries.metric_faults import Pairs, common, distinct_rows, pairs
from icectl.entries.packed import Packed, Places, not_text
from icectl.spec.types import DecimalType, FixedType, PrimitiveType, Type

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
    """How bounds of a column compare."""

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
    """What is known of the columns that bounds may be of.

    The arrays are indexed by slots: the field id, or what `slots` says of ids that are larger. Bit
    n of `widths` says that a bound may have n bytes, bit 17 that it may have more. `longest` is the
    most bytes of a fixed.
    """

    size: int
    reserved: Mapping[int, int]
    widths: npt.NDArray[np.int32]
    kinds: npt.NDArray[np.uint8]
    longest: npt.NDArray[np.int32]

    def slots(self, field_ids: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
        """Where what is known of each field stands; the last slot knows nothing."""
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
    return BoundTypes(size, reserved, widths, kinds, longest)


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
        {side: merged(undecodable[side]) for side in SIDES},
        {side: merged(not_a_number[side]) for side in SIDES},
        merged(crossed),
    )


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The bounds of one side."""

    pairs: Pairs
    slots: npt.NDArray[Any]
    kinds: npt.NDArray[np.uint8]
    packed: Packed

    def values(self, places: Places) -> pa.Array:
        """The bounds at some places."""
        return self.pairs.values.take(pa.array(places))


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
    slots = types.slots(found.field_ids)
    return _Bounds(
        found,
        slots,
        types.kinds[slots],
        Packed(
            np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8),
            ends[:-1],
            np.diff(ends),
        ),
    )


def _undecodable(columns: Columns, found: _Bounds, types: BoundTypes) -> Fault | None:
    """Entries with a bound whose length, or text, is none of its column's types (R-091)."""
    allowed = types.widths[found.slots] >> np.minimum(found.packed.lengths, _LONGEST)
    wrong = (allowed & 1) == 0
    wrong |= found.packed.lengths > types.longest[found.slots]
    texts = np.flatnonzero(found.kinds == Kind.TEXT)
    wrong[texts] |= not_text(found.values(texts))
    return _fault(columns, found, np.flatnonzero(wrong))


def _not_a_number(columns: Columns, found: _Bounds) -> Fault | None:
    reals = found.kinds == Kind.REAL
    wrong = []
    for width in (4, 8):
        places = np.flatnonzero(reals & (found.packed.lengths == width))
        wrong.append(places[np.isnan(found.packed.numbers(places, f"<f{width}"))])
    return _fault(columns, found, np.concatenate(wrong))


def _crossed(columns: Columns, lower: _Bounds, upper: _Bounds) -> Fault | None:
    """Entries with a lower bound above the upper one, which hides every row."""
    left, right = common(lower.pairs, upper.pairs)
    kinds = lower.kinds[left]
    same = lower.packed.lengths[left] == upper.packed.lengths[right]
    wrong = []
    for kind, letter in ((Kind.SIGNED, "i"), (Kind.REAL, "f")):
        for width in (4, 8):
            at = np.flatnonzero((kinds == kind) & same & (lower.packed.lengths[left] == width))
            form = f"<{letter}{width}"
            above = lower.packed.numbers(left[at], form) > upper.packed.numbers(right[at], form)
            wrong.append(left[at[above]])
    at = np.flatnonzero((kinds == Kind.TEXT) | (kinds == Kind.BYTES))
    above = pc.greater(lower.values(left[at]), upper.values(right[at]))
    wrong.append(left[at[above.fill_null(False).to_numpy(zero_copy_only=False)]])  # noqa: FBT003
    wrong.append(_crossed_decimals(lower, upper, left, right))
    return _fault(columns, lower, np.concatenate(wrong))


def _crossed_decimals(lower: _Bounds, upper: _Bounds, left: Places, right: Places) -> Places:
    longer = np.maximum(lower.packed.lengths[left], upper.packed.lengths[right])
    shorter = np.minimum(lower.packed.lengths[left], upper.packed.lengths[right])
    decimals = lower.kinds[left] == Kind.DECIMAL
    at = np.flatnonzero(decimals & (shorter > 0) & (longer < _LONGEST))
    if not len(at):
        return at
    high, low = lower.packed.decimals(left[at])
    other_high, other_low = upper.packed.decimals(right[at])
    above = (high > other_high) | ((high == other_high) & (low > other_low))
    crossed: Places = left[at[above]]
    return crossed


def _fault(columns: Columns, found: _Bounds, places: Places) -> Fault | None:
    if not len(places):
        return None
    return columns.fault_at(distinct_rows(found.pairs, places))
