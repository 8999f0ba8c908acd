"""Which files and row groups can't have any of some keys, by the bounds that are stated of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icectl.errors import CorruptTable
from icectl.files.parquet.metrics import FileMetrics
from icectl.format import single_value
from icectl.format.types import DecimalType, NestedField, PrimitiveType, Type
from icectl.rows.columns import as_values

_ORDERED = frozenset(
    {
        "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz",
        "timestamp_ns", "timestamptz_ns", "string", "binary",
    }
)  # fmt: skip
"""Types of whose values all writers have one order: of uuids they have several."""

_MOST_COMPARED = 2_000_000
"""Values of a column that are compared with bounds one by one; of more only the ends are."""


@dataclass(slots=True)
class _ColumnRange:
    """The values of one column of some keys."""

    column: NestedField
    lower: Any = None
    upper: Any = None
    has_null: bool = False
    has_nan: bool = False
    count: int = 0
    values: list[pa.Array] | None = field(default_factory=list)
    is_known: bool = True

    @staticmethod
    def stated(column: NestedField, metrics: FileMetrics) -> "_ColumnRange":
        """Return what the entry of a delete file states of its values."""
        nulls = metrics.null_value_counts.get(column.id)
        is_real = isinstance(column.type, PrimitiveType) and column.type.name in ("float", "double")
        bounds = bounds_of(column, metrics)
        lower, upper = bounds or (None, None)
        return _ColumnRange(
            column,
            lower,
            upper,
            has_null=nulls != 0,
            has_nan=is_real and metrics.nan_value_counts.get(column.id) != 0,
            values=None,
            is_known=bounds is not None or nulls == metrics.record_count,
        )

    def joined(self, other: "_ColumnRange") -> "_ColumnRange":
        """Return the range of the values of both."""
        ranges = self, other
        lowers = [part.lower for part in ranges if part.lower is not None]
        uppers = [part.upper for part in ranges if part.upper is not None]
        return _ColumnRange(
            self.column,
            min(lowers, default=None),
            max(uppers, default=None),
            has_null=self.has_null or other.has_null,
            has_nan=self.has_nan or other.has_nan,
            values=None,
            is_known=self.is_known and other.is_known,
        )

    def add(self, column: pa.Array) -> None:
        self.has_null |= bool(column.null_count)
        if not is_ordered(self.column.type):
            return
        values = as_values(column, self.column.type).drop_null()
        if pa.types.is_floating(values.type):
            is_nan = pc.is_nan(values)
            self.has_nan |= bool(pc.any(is_nan).as_py())
            values = values.filter(pc.invert(is_nan))
        if not len(values):
            return
        ends = pc.min_max(values).as_py()
        self.lower = ends["min"] if self.lower is None else min(self.lower, ends["min"])
        self.upper = ends["max"] if self.upper is None else max(self.upper, ends["max"])
        self.count += len(values)
        if self.values is not None:
            self.values.append(values)
            if self.count > _MOST_COMPARED:
                self.values = None

    def may_be_in(self, metrics: FileMetrics) -> bool:
        """Return whether the column of a file, or of a part of one, may have any of the values."""
        id_ = self.column.id
        if id_ not in metrics.value_counts and id_ not in metrics.lower_bounds:
            return True  # the file may lack it, and have its default
        if self.has_null and metrics.null_value_counts.get(id_) != 0:
            return True
        bounds = bounds_of(self.column, metrics)
        if bounds is None or self.has_nan or not self.is_known or not is_ordered(self.column.type):
            return True
        if self.lower is None:
            return False  # all keys are null, and none of the rows
        lower, upper = bounds
        if upper < self.lower or lower > self.upper:
            return False
        for values in self.values or ():
            low, high = (pa.scalar(bound, values.type) for bound in bounds)
            is_inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
            if pc.any(is_inside).as_py():
                return True
        return self.values is None


class KeyRanges:
    """The values of each column of some keys."""

    def __init__(self, columns: Sequence[_ColumnRange]) -> None:
        self.columns = columns

    @staticmethod
    def empty(columns: Sequence[NestedField]) -> "KeyRanges":
        """Return the ranges of no keys."""
        return KeyRanges([_ColumnRange(column) for column in columns])

    @staticmethod
    def stated(columns: Sequence[NestedField], metrics: FileMetrics) -> "KeyRanges":
        """Return what the entry of a delete file states of its keys."""
        return KeyRanges([_ColumnRange.stated(column, metrics) for column in columns])

    @staticmethod
    def unknown(columns: Sequence[NestedField]) -> "KeyRanges":
        """Return the ranges of keys of which nothing is known."""
        return KeyRanges.stated(columns, FileMetrics(-1))

    def joined(self, other: "KeyRanges") -> "KeyRanges":
        """Return the ranges of the keys of both."""
        pairs = zip(self.columns, other.columns, strict=True)
        return KeyRanges([left.joined(right) for left, right in pairs])

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Add keys, by their columns."""
        for known, column in zip(self.columns, columns, strict=True):
            known.add(column)

    def may_be_in(self, metrics: FileMetrics) -> bool:
        """Return whether any of the keys may be in a file, or a part of one."""
        return all(column.may_be_in(metrics) for column in self.columns)


def is_ordered(type_: Type) -> bool:
    """Return whether bounds of a column tell something of its values to everybody."""
    is_named = isinstance(type_, PrimitiveType) and type_.name in _ORDERED
    return is_named or isinstance(type_, DecimalType)


def bounds_of(column: NestedField, metrics: FileMetrics) -> tuple[Any, Any] | None:
    """Return the bounds of a column's values that are neither null nor NaN; None if not known."""
    stored = [of.get(column.id) for of in (metrics.lower_bounds, metrics.upper_bounds)]
    try:
        lower, upper = (
            None if bound is None else single_value.decode(column.type, bound) for bound in stored
        )
    except (CorruptTable, ValueError):
        return None
    if lower is None or upper is None or lower != lower or upper != upper:  # noqa: PLR0124 - NaN
        return None
    return lower, upper
