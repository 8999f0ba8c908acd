"""The ranges of a manifest's partitions, field by field, and values that do not decode."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.searches.entries import Columns
from icectl.entries.columns.packed import PackedValues, Places, not_text
from icectl.entries.columns.values import Mask
from icectl.entries.partition.key import PartitionValue, decode_key, join_values
from icectl.errors import CorruptTable
from icectl.spec.rule import Fault
from icectl.spec.types import DecimalType, FixedType, PrimitiveType, Type


@dataclass(frozen=True, slots=True)
class FieldRange:
    """The values of one partition field over the entries of a manifest.

    `least` and `greatest` are None where there is no value but nulls and NaN, and where the type is
    unknown; `least_of` and `greatest_of` are the entries that have them.
    """

    has_null: bool
    has_nan: bool = False
    least: PartitionValue = None
    least_of: Fault | None = None
    greatest: PartitionValue = None
    greatest_of: Fault | None = None
    undecodable: Fault | None = None


def field_ranges(columns: Columns, types: Sequence[Type | None]) -> Sequence[FieldRange]:
    """Find what each field of the partitions ranges over; a type of None is unknown.

    Raises: CorruptTable R-068 where the partitions are not of so many fields.
    Cost: some passes over the distinct partitions, whatever their number.
    """
    if not len(columns.table):
        return [FieldRange(has_null=False)] * len(types)
    keys = columns.table["partition_key"].combine_chunks().dictionary_encode()
    codes = keys.indices.to_numpy()
    return [
        FieldRange(not bool(present.all()))
        if type_ is None
        else _range(_Field(columns, codes, type_, present, packed))
        for (present, packed), type_ in zip(
            _fields(keys.dictionary, len(types)), types, strict=True
        )
    ]


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of every distinct key, and the entries' keys as numbers of distinct ones."""

    columns: Columns
    codes: npt.NDArray[Any]
    type: Type
    present: Mask
    packed: PackedValues

    def entries_of(self, keys: Mask) -> Fault | None:
        """Return the entries of some distinct keys."""
        return self.columns.fault(keys[self.codes]) if keys.any() else None

    def value(self, key: int) -> tuple[PartitionValue, Fault | None]:
        """Return the value of a distinct key, and its entries."""
        start, length = int(self.packed.starts[key]), int(self.packed.lengths[key])
        canonical = self.packed.content[start : start + length].tobytes()
        (value,) = decode_key(join_values([canonical]), [self.type])
        return value, self.columns.fault(self.codes == key)


def _fields(keys: pa.Array, field_count: int) -> Sequence[tuple[Mask, PackedValues]]:
    """Presence and canonical values of each field (entries/partition/key.py)."""
    _, offsets, stored = keys.buffers()
    stored_ends = np.frombuffer(offsets, np.int32)[: len(keys) + 1].astype(np.int64)
    at, ends = stored_ends[:-1], stored_ends[1:]
    content = np.zeros(int(stored_ends[-1]) + 8, np.uint8)  # a length may be read past the end
    content[: stored_ends[-1]] = np.frombuffer(stored, np.uint8)[: stored_ends[-1]]
    everywhere = PackedValues(content, np.arange(len(content)), np.full(len(content), 4))
    fields = []
    for _ in range(field_count):
        _check((at < ends).all(), field_count)
        present = content[at] == 1
        lengths = np.where(present, everywhere.numbers(at + 1, "<u4"), 0).astype(np.int64)
        fields.append((present, PackedValues(content, at + 5, lengths)))
        at = at + 1 + np.where(present, lengths + 4, 0)
        _check((at <= ends).all(), field_count)
    _check((at == ends).all(), field_count)
    return fields


def _check(is_right: np.bool_, field_count: int) -> None:
    if not is_right:
        message = f"a partition has not as many values as its spec has fields, {field_count}"
        raise CorruptTable(message, rule="R-068")


def _range(field: _Field) -> FieldRange:
    has_null = not bool(field.present.all())
    right = field.present & _is_of_length(field.packed, field.type)
    if _is(field.type, "string"):
        right &= ~not_text(field.packed.values())
    undecodable = field.entries_of(field.present & ~right)
    places, has_nan = np.flatnonzero(right), False
    if _is(field.type, "float", "double"):
        is_nan = np.isnan(field.packed.numbers(places, "<f8"))
        places, has_nan = places[~is_nan], bool(is_nan.any())
    if not len(places):
        return FieldRange(has_null, has_nan, undecodable=undecodable)
    least, greatest = (field.value(int(places[at])) for at in _extremes(field, places))
    return FieldRange(has_null, has_nan, *least, *greatest, undecodable)


def _is_of_length(packed: PackedValues, type_: Type) -> Mask:
    if isinstance(type_, DecimalType):
        return np.asarray((packed.lengths > 0) & (packed.lengths <= 16))
    if isinstance(type_, FixedType):
        return np.asarray(packed.lengths == type_.length)
    if _is(type_, "string", "binary"):
        return np.ones(len(packed.lengths), np.bool_)
    length = 1 if _is(type_, "boolean") else 16 if _is(type_, "uuid") else 8
    return np.asarray(packed.lengths == length)


def _extremes(field: _Field, places: Places) -> tuple[int, int]:
    """Find which of the places have the least and the greatest value."""
    if len(places) == 1:
        return 0, 0
    if isinstance(field.type, DecimalType):
        high, low = field.packed.decimals(places)
        order = np.lexsort((low, high))
        return int(order[0]), int(order[-1])
    if _is(field.type, "string", "binary", "boolean", "uuid") or isinstance(field.type, FixedType):
        values = field.packed.values().take(pa.array(places))
        ends = pc.min_max(values)
        return values.index(ends["min"]).as_py(), values.index(ends["max"]).as_py()
    numbers = field.packed.numbers(places, "<i8")
    if _is(field.type, "float", "double"):
        # The bits of a real number order like an integer, those of negative ones backwards.
        numbers = np.where(numbers < 0, numbers ^ np.iinfo(np.int64).max, numbers)
    return int(numbers.argmin()), int(numbers.argmax())


def _is(type_: Type, *names: str) -> bool:
    return isinstance(type_, PrimitiveType) and type_.name in names
