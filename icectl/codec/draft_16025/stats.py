"""Statistics of the draft's entries: a struct for each column, under ids that follow from its own.

They differ from those of layout sfc-1 in names, in what is stored of lengths, and in the bounds of
geometries, which are structs of coordinates.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isnan

import pyarrow as pa
import pyarrow.compute as pc

from icectl.codec.parquet.schema import FIELD_ID, field_id
from icectl.codec.sfc1.content_stats import aggregate, bound_type, from_maps
from icectl.entries.rows import E
from icectl.entries.stats import flat, of_field
from icectl.spec.metadata import TableMetadata
from icectl.spec.schema import Schema
from icectl.spec.stats_columns import STATS_ID, STATS_STEP, StatsColumn, group_id, stats_columns
from icectl.spec.types import GeographyType, GeometryType, type_text

_HIGHEST_COLUMN = (200_000_000 - STATS_ID) // STATS_STEP - 1
"""The last column that has statistics of its own."""

_LOWER, _UPPER, _TIGHT, _VALUES, _NULLS, _NANS, _SIZE = range(1, 8)
_POINTS = {_LOWER: 10, _UPPER: 14}
"""Where the ids of the coordinates of bounds begin."""


@dataclass(frozen=True)
class DraftStats:
    """What the statistics of a table's entries are, and how they are made of older ones."""

    columns: tuple[StatsColumn, ...]
    schema: Schema

    @cached_property
    def type(self) -> pa.StructType:
        """The type of `content_stats`, with field ids."""
        return pa.struct([self._group(column) for column in self.columns])

    def of(self, entries: E) -> pa.StructArray:
        """Return the statistics that the maps of entries hold.

        Shape: one struct per entry; bounds that do not decode are null; none are told tight.
        Order: kept.
        """
        count = len(entries)
        if not self.columns:
            return pa.array([{}] * count, self.type)
        made = from_maps(entries, self.columns)
        points = {
            offset: flat(entries, name)
            for offset, name in ((_LOWER, "lower_bounds"), (_UPPER, "upper_bounds"))
            if any(map(_is_point, self.columns))
        }
        groups = []
        for column, kind, group in zip(self.columns, self.type, made.flatten(), strict=True):
            found = {}
            if _is_point(column):
                for offset, bounds in points.items():
                    stored = of_field(bounds, column.id, count)
                    found[offset] = _coordinates(kind.type.field(offset - 1).type, stored)
            groups.append(_conformed(group, kind.type, found))
        return pa.StructArray.from_arrays(groups, fields=list(self.type))

    def total(self, entries: E) -> pa.StructArray:
        """The statistics of a leaf's entry, out of those of its live rows; of points no bounds.

        Shape: one struct.
        """
        if not self.columns:
            return pa.array([{}], self.type)
        made = from_maps(entries, self.columns)
        counts = entries.table["record_count"].combine_chunks()
        summed = aggregate(made, self.columns, counts)
        groups = [
            _conformed(group, kind.type, {})
            for kind, group in zip(self.type, summed.flatten(), strict=True)
        ]
        return pa.StructArray.from_arrays(groups, fields=list(self.type))

    def _group(self, column: StatsColumn) -> pa.Field:
        name = self.schema.name_of(column.id) or f"s{column.id}"
        return _field(name, pa.struct(list(_members(column))), group_id(column.id))


def draft_stats(metadata: TableMetadata) -> DraftStats:
    """The statistics of a table's entries: of primitive columns outside of lists and maps."""
    columns = (
        one
        for one in stats_columns(metadata)
        if not one.is_expression and one.id <= _HIGHEST_COLUMN
    )
    return DraftStats(tuple(columns), metadata.current_schema)


def _members(column: StatsColumn) -> Iterator[pa.Field]:
    """Yield the members of one column's statistics."""
    base = group_id(column.id)
    bound = bound_type(column.type)
    if _is_point(column):
        for offset, name in ((_LOWER, "lower_bound"), (_UPPER, "upper_bound")):
            first = base + _POINTS[offset]
            parts = [
                pa.field(axis, pa.float64(), nullable=axis in "zm", metadata=_id(first + at))
                for at, axis in enumerate("xyzm")
            ]
            yield _field(name, pa.struct(parts), base + offset)
    elif bound is not None:
        yield _field("lower_bound", bound, base + _LOWER)
        yield _field("upper_bound", bound, base + _UPPER)
        yield _field("tight_bounds", pa.bool_(), base + _TIGHT)
    yield _field("value_count", pa.int64(), base + _VALUES)
    if not column.is_required:
        yield _field("null_value_count", pa.int64(), base + _NULLS)
    name = type_text(column.type)
    if name in ("float", "double"):
        yield _field("nan_value_count", pa.int64(), base + _NANS)
    if name in ("string", "binary", "variant") or _is_point(column):
        yield _field("avg_value_size_in_bytes", pa.int32(), base + _SIZE)


def _is_point(column: StatsColumn) -> bool:
    return isinstance(column.type, (GeometryType, GeographyType))


def _field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata=_id(number))


def _id(number: int) -> dict[bytes, str]:
    return {FIELD_ID: str(number)}


def _conformed(
    group: pa.StructArray, kind: pa.StructType, found: dict[int, pa.Array]
) -> pa.StructArray:
    """Statistics of one column under the members of the draft, found by their ids."""
    stored = dict(zip(map(field_id, group.type), group.flatten(), strict=True))
    columns = []
    for member in kind:
        number = field_id(member)
        offset = (number or 0) % STATS_STEP
        values = found.get(offset, stored.get(number))
        if values is None:
            values = pa.nulls(len(group), member.type)
        # Iceberg 1.12 reads no null here; what is not known to be tight is not.
        columns.append(pc.fill_null(values, fill_value=False) if offset == _TIGHT else values)
    is_null = group.is_null()
    for values in found.values():
        is_null = pc.and_(is_null, values.is_null())
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=is_null)


def _coordinates(kind: pa.StructType, stored: pa.Array) -> pa.StructArray:
    """Bounds of points as structs; null where they do not decode."""
    points = [_point(value) for value in stored.to_pylist()]
    return pa.array(points, kind)


def _point(stored: bytes | None) -> dict[str, float | None] | None:
    """Return the coordinates of a bound: x and y, z and m where there are such."""
    if stored is None or len(stored) not in (16, 24, 32):
        return None
    numbers = struct.unpack(f"<{len(stored) // 8}d", stored)
    named = dict(zip("xyzm", numbers, strict=False))
    return {axis: None if axis in "zm" and isnan(value) else value for axis, value in named.items()}
