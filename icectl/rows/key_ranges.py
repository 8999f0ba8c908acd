"""Which files and row groups can't have any of some keys: by their bounds, then by other means."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.errors import CorruptTable
from icectl.files.parquet.data_file import ParquetDataFile
from icectl.files.parquet.glance import Glance, StoredColumn, glance_at, stored_columns
from icectl.files.parquet.metrics import FileMetrics
from icectl.files.parquet.schema import has_field_ids
from icectl.files.parquet.value_filters import Sought, ValueFilters
from icectl.format import single_value
from icectl.format.schema import Schema
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
"""Keys that are compared with bounds one by one; of more only the ends are."""

_FEW = 8
"""Files by which glances may fail more often than not: those that fail are read again."""

_MOST_KNOWN = 16
"""Ways to store columns that are known at once: files of some writers all differ."""

_NOTHING_STATED = FileMetrics(-1)

Mask = npt.NDArray[np.bool_]
MayHave = Callable[[int, Sought, Mask], Mask]
"""Which of the asked values a part of a file may have in the column of an id."""


@dataclass(slots=True)
class _ColumnRange:
    """The values of one column of some keys."""

    column: NestedField
    lower: Any = None
    upper: Any = None
    has_null: bool = False
    has_nan: bool = False
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
        return bool(upper >= self.lower and lower <= self.upper)

    def inside(self, column: pa.Array, metrics: FileMetrics) -> Mask:
        """Return which values the column of a file, or of a part of one, may have. Order: kept."""
        id_ = self.column.id
        if id_ not in metrics.value_counts and id_ not in metrics.lower_bounds:
            return np.ones(len(column), np.bool_)
        may_be_null = metrics.null_value_counts.get(id_) != 0
        bounds = bounds_of(self.column, metrics)
        if bounds is None or not is_ordered(self.column.type):
            is_inside = column.is_valid()
        else:
            values = as_values(column, self.column.type)
            low, high = (pa.scalar(bound, values.type) for bound in bounds)
            is_inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
            if pa.types.is_floating(values.type):
                is_inside = pc.or_(is_inside, pc.is_nan(values))
        is_inside = pc.if_else(column.is_valid(), is_inside, pa.scalar(may_be_null))
        return np.asarray(is_inside.to_numpy(zero_copy_only=False), np.bool_)


class KeyRanges:
    """The values of each column of some keys, and the keys, by column, as long as they are few."""

    def __init__(
        self, columns: Sequence[_ColumnRange], keys: list[Sequence[Sought]] | None = None
    ) -> None:
        self.columns = columns
        self._keys = keys
        self._count = 0

    @staticmethod
    def empty(columns: Sequence[NestedField]) -> "KeyRanges":
        """Return the ranges of no keys."""
        return KeyRanges([_ColumnRange(column) for column in columns], [])

    @staticmethod
    def stated(columns: Sequence[NestedField], metrics: FileMetrics) -> "KeyRanges":
        """Return what the entry of a delete file states of its keys."""
        return KeyRanges([_ColumnRange.stated(column, metrics) for column in columns])

    @staticmethod
    def unknown(columns: Sequence[NestedField]) -> "KeyRanges":
        """Return the ranges of keys of which nothing is known."""
        return KeyRanges.stated(columns, _NOTHING_STATED)

    def joined(self, other: "KeyRanges") -> "KeyRanges":
        """Return the ranges of the keys of both."""
        pairs = zip(self.columns, other.columns, strict=True)
        return KeyRanges([left.joined(right) for left, right in pairs])

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Add keys, by their columns."""
        for known, column in zip(self.columns, columns, strict=True):
            known.add(column)
        self._count += len(columns[0])
        if self._count > _MOST_COMPARED:
            self._keys = None
        elif self._keys is not None:
            self._keys.append([Sought(column) for column in columns])

    def may_be_in(self, metrics: FileMetrics, may_have: MayHave | None = None) -> bool:
        """Return whether any of the keys may be in a file, or a part of one.

        `may_have` rules out more than bounds, and is asked for keys that these leave.
        """
        if not all(column.may_be_in(metrics) for column in self.columns):
            return False
        return self._keys is None or any(
            self._may_be_in(columns, metrics, may_have) for columns in self._keys
        )

    def _may_be_in(
        self, columns: Sequence[Sought], metrics: FileMetrics, may_have: MayHave | None
    ) -> bool:
        may = np.ones(len(columns[0].values), np.bool_)
        for known, column in zip(self.columns, columns, strict=True):
            may &= known.inside(column.values, metrics)
        if may_have is not None:
            for known, column in zip(self.columns, columns, strict=True):
                if not may.any():
                    break
                may = may_have(known.column.id, column, may)
        return bool(may.any())


def groups_without(
    opened: ParquetDataFile, keys: Sequence[KeyRanges], filters: ValueFilters | None = None
) -> frozenset[int]:
    """Return the row groups of an open file that can't have any of some keys.

    Bounds of the footer tell, then dictionaries and Bloom filters: the file's `filters`. Groups
    without rows are not among them. Raises: CorruptTable R-099; Unsupported.
    """
    metadata = opened.file.metadata
    compared = {known.column.id: known.column for ranges in keys for known in ranges.columns}
    groups = [at for at in range(metadata.num_row_groups) if metadata.row_group(at).num_rows]
    stated = opened.parts(Schema(0, tuple(compared.values()))) if groups else ()
    filters = filters or ValueFilters(opened)
    return frozenset(
        at
        for at, metrics in zip(groups, stated, strict=True)
        if not any(ranges.may_be_in(metrics, partial(filters.those_of, at)) for ranges in keys)
    )


class KeyGlances:
    """Glances at files for some keys: a file whose Bloom filters rule all out needs no opening.

    How columns are stored is learned of files that were opened, for others that say the same.
    """

    def __init__(self, keys: KeyRanges) -> None:
        self._keys = keys
        self._known: dict[bytes, Mapping[int, StoredColumn]] = {}
        self._hits = self._misses = 0

    @property
    def pay(self) -> bool:
        """Whether something is known, and glances did not fail more often than not."""
        return bool(self._known) and self._misses <= self._hits + _FEW

    def rule_out(self, file: IO[bytes], size_bytes: int, record_count: int) -> bool:
        """Return whether a file of that size and so many rows surely has none of the keys."""
        is_absent = self._is_absent(glance_at(file), size_bytes, record_count)
        self._hits += is_absent
        self._misses += not is_absent
        return is_absent

    def _is_absent(self, glance: Glance | None, size_bytes: int, record_count: int) -> bool:
        if glance is None or (glance.size_bytes, glance.record_count) != (size_bytes, record_count):
            return False
        columns = self._known.get(glance.described)
        return columns is not None and self._are_absent(glance, columns)

    def learn(self, opened: ParquetDataFile) -> None:
        """Learn from an open file with field ids and without the keys, if a glance shows this."""
        if len(self._known) >= _MOST_KNOWN or not has_field_ids(opened.file.schema_arrow):
            return
        columns = stored_columns(opened, {known.column.id for known in self._keys.columns})
        glance = glance_at(opened.stored)
        if glance is not None and self._are_absent(glance, columns):
            self._known[glance.described] = columns

    def _are_absent(self, glance: Glance, columns: Mapping[int, StoredColumn]) -> bool:
        def may_have(group: int, id_: int, sought: Sought, asked: Mask) -> Mask:
            column = columns.get(id_)
            return asked if column is None else glance.those_of(group, column, sought, asked)

        return not any(
            self._keys.may_be_in(_NOTHING_STATED, partial(may_have, group))
            for group in range(glance.group_count)
        )


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
    if isinstance(column.type, DecimalType):
        digits = column.type.scale + 1 + max(lower.adjusted(), upper.adjusted())
        if digits > column.type.precision:
            return None  # no value of the column is like that
    return lower, upper
