"""The types that bounds of a table's columns may have (R-096)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from icectl.format.metadata import TableMetadata
from icectl.format.types import (
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    PrimitiveType,
    Type,
    is_nested,
)

_WIDTHS: Mapping[str, tuple[int, ...]] = {
    "boolean": (1,),
    "uuid": (16,),
    **dict.fromkeys(("int", "float", "date"), (4,)),
    **dict.fromkeys(("time", "timestamptz", "timestamptz_ns"), (8,)),
    **dict.fromkeys(("long", "double", "timestamp", "timestamp_ns"), (4, 8)),
}
"""Bytes of a bound; narrower ones are of the type before a promotion (R-096)."""

LONGEST = 17
"""Longest width that is told apart, and one more."""

_ANY_LENGTH = (1 << LONGEST + 1) - 1
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
    GEOMETRY = 6
    GEOGRAPHY = 7
    VARIANT = 8


_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("int", "long", "date", "time", "timestamp", "timestamptz"), Kind.SIGNED),
    **dict.fromkeys(("timestamp_ns", "timestamptz_ns"), Kind.SIGNED),
    **dict.fromkeys(("float", "double"), Kind.REAL),
    **dict.fromkeys(("boolean", "binary"), Kind.BYTES),
    "string": Kind.TEXT,
    "variant": Kind.VARIANT,
    # The reference implementation long compared halves of uuids as signed numbers: no order of
    # them can be relied on.
    "uuid": Kind.UNKNOWN,
}


_KINDS_OF_CLASSES: Mapping[type, Kind] = {
    DecimalType: Kind.DECIMAL, FixedType: Kind.BYTES, GeometryType: Kind.GEOMETRY,
    GeographyType: Kind.GEOGRAPHY,
}  # fmt: skip


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


def _widths(type_: Type) -> int:
    if isinstance(type_, DecimalType):
        return _ANY_BUT_NONE
    if isinstance(type_, PrimitiveType) and type_.name in _WIDTHS:
        return sum(1 << width for width in _WIDTHS[type_.name])
    return _ANY_LENGTH


def _kind(type_: Type) -> Kind:
    if isinstance(type_, PrimitiveType):
        return _KINDS.get(type_.name, Kind.UNKNOWN)
    return _KINDS_OF_CLASSES.get(type(type_), Kind.UNKNOWN)


_OF_POSITION_DELETES: Mapping[int, Sequence[Type]] = {
    2_147_483_546: (PrimitiveType("string"),),  # file_path
    2_147_483_545: (PrimitiveType("long"),),  # pos
}
"""Columns of position delete files (R-019), whose bounds tell which data files they are for."""


def types_of_bounds(metadata: TableMetadata) -> BoundTypes:
    """The types that bounds of the table's columns may have: those of every schema (R-096)."""
    types = {id_: list(known) for id_, known in _OF_POSITION_DELETES.items()}
    for schema in metadata.schemas:
        for id_, field in schema.all_fields.items():
            known = types.setdefault(id_, [])
            if not is_nested(field.type) and field.type not in known:
                known.append(field.type)
    return bound_types({id_: known for id_, known in types.items() if known})


def top_level_ids(metadata: TableMetadata) -> frozenset[int]:
    """Return the columns of any schema that are in no other: they have one value for each row."""
    return frozenset(field.id for schema in metadata.schemas for field in schema.fields)
