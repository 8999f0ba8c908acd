"""Columns of data files as columns of a table, and as single values of the format."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_types

from icectl.entries.orc_seconds import may_be_earlier, second_of
from icectl.entries.partition_transforms import transform_column
from icectl.files.data_rows import retype_array
from icectl.files.parquet.schema import arrow_type, field_id
from icectl.files.wkb import Shapes
from icectl.format.single_value import UNITS_PER_SECOND, Value
from icectl.format.transforms import Transform, result_type
from icectl.format.types import (
    DecimalType,
    GeographyType,
    GeometryType,
    PrimitiveType,
    Type,
    is_comparable,
)

_TEMPORAL = {
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "time": pa.time64("us"),
}
_REAL = (PrimitiveType("float"), PrimitiveType("double"))
Convert = Callable[[pa.Array], pa.Array]
"""May raise pa.ArrowInvalid, for a value that is not of the type."""
_Test = Callable[[pa.DataType], bool]


def path_to(fields: Iterable[pa.Field], id_: int) -> tuple[int, ...] | None:
    """Return the positions through structs to the column with a field id; None inside of lists."""
    for at, field in enumerate(fields):
        if field_id(field) == id_:
            return (at,)
        if pa.types.is_struct(field.type):
            below = path_to(field.type, id_)
            if below is not None:
                return (at, *below)
    return None


def inside(column: pa.Array, path: tuple[int, ...]) -> pa.Array:
    """Return the column below a struct, null where a struct above it is."""
    return pc.struct_field(column, list(path)) if path else column


def as_values(column: pa.Array, type_: Type) -> pa.Array:
    """Return a column as the numbers, texts and bytes of single values (dates as days, and so on).

    Raises: pa.ArrowInvalid, pa.ArrowNotImplementedError, for a column of another type.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    if name == "date":
        return column.cast(pa.date32()).cast(pa.int32())
    if name in _TEMPORAL:
        if pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("ms"))
        arrow = _TEMPORAL[name]
        if pa.types.is_timestamp(column.type):
            # Some readers see no zone, or another, in a column that counts from the same instant.
            plain = column.cast(pa.timestamp(column.type.unit, getattr(arrow, "tz", None)))
            if column.type.unit == "ns":
                plain = retype_array(plain, arrow)  # downward, as footers are read
            return plain.cast(arrow, safe=False).cast(pa.int64())
        return column.cast(arrow, safe=False).cast(pa.int64())
    return column


def has_order(type_: Type) -> bool:
    """Whether bounds of a type are its smallest and largest values."""
    return is_comparable(type_) and type_ != PrimitiveType("unknown")


def is_real(type_: Type | None) -> bool:
    """Whether values of a type may be NaN."""
    return type_ in _REAL


def is_shape(type_: Type) -> bool:
    """Whether values of a type are shapes in well-known binary, whose bounds are a box."""
    return isinstance(type_, GeometryType | GeographyType)


def with_lost_seconds(
    column: pa.Array, field: pa.Field, identities: Mapping[int, Value]
) -> pa.Array:
    """Return a column of an ORC file with the instants of its partition, at any depth.

    `identities` are the values of identity fields by the id of their column. Readers of the
    reference implementation take those; here they only replace values that ORC reads a second late.
    """
    kind, number = field.type, field_id(field)
    value = None if number is None else identities.get(number)
    if pa.types.is_timestamp(kind) and isinstance(value, int):
        second = UNITS_PER_SECOND["timestamp_ns" if kind.unit == "ns" else "timestamp"]
        if not -second < value < 0:
            return column
        counts = column.cast(pa.int64())
        is_late = pc.and_(pc.equal(counts, value + second), may_be_earlier(counts, second))
        return pc.if_else(is_late, pa.scalar(value).cast(kind), column)
    if not pa.types.is_struct(kind):
        return column
    parts = [
        with_lost_seconds(column.field(place), kind.field(place), identities)
        for place in range(kind.num_fields)
    ]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)


def value_of(stored: object, type_: Type) -> Value:
    """Return a value of as_values as a single value."""
    if isinstance(stored, bytes) and type_ == PrimitiveType("uuid"):
        return UUID(bytes=stored)
    return stored


@dataclass(slots=True)
class ColumnFacts:
    """The facts of a column: rows, nulls, NaN, and the range of the other values."""

    row_count: int = 0
    null_count: int = 0
    nan_count: int = 0
    lower: Value | None = None
    upper: Value | None = None
    shapes: Shapes | None = None
    """Instead of the range, for a column of geometry or geography."""

    def add(self, values: pa.Array, type_: Type) -> None:
        """Add the values of a batch, as as_values returns them."""
        self.row_count += len(values)
        self.null_count += values.null_count
        if is_shape(type_):
            shapes = Shapes(isinstance(type_, GeographyType))
            shapes.add(values)
            self.merge(ColumnFacts(shapes=shapes))
            return
        if is_real(type_):
            is_nan = pc.fill_null(pc.is_nan(values), fill_value=False)
            nans = pc.sum(is_nan).as_py() or 0
            self.nan_count += nans
            values = values.filter(pc.invert(is_nan)) if nans else values
        if values.null_count < len(values):
            shapes = pc.min_max(values).as_py()
            self._widen(value_of(shapes["min"], type_), value_of(shapes["max"], type_))

    def merge(self, other: "ColumnFacts") -> None:
        self.row_count += other.row_count
        self.null_count += other.null_count
        self.nan_count += other.nan_count
        if other.lower is not None:
            self._widen(other.lower, other.upper)
        if self.shapes is None:
            self.shapes = other.shapes
        elif other.shapes is not None:
            self.shapes.merge(other.shapes)

    def clear(self) -> None:
        self.row_count = self.null_count = self.nan_count = 0
        self.lower = self.upper = self.shapes = None

    def _widen(self, lower: Value, upper: Value) -> None:
        self.lower = lower if self.lower is None else min(self.lower, lower)
        self.upper = upper if self.upper is None else max(self.upper, upper)


def differing(values: pa.Array, type_: Type, transform: Transform, expected: Value) -> Value | None:
    """Return a result of a transform that is not the expected one, as (value,), or None.

    Raises: ValueError, if the transform does not take the type, or a value has no result.
    """
    kind = result_type(transform, type_) or type_
    results = pc.unique(transform_column(transform, type_, values))
    for stored in as_values(results, kind).to_pylist():
        value = value_of(stored, kind)
        both_nan = value != value and expected != expected  # noqa: PLR0124 - only NaN differs
        if not both_nan and value != expected:
            return (value,)
    return None


def not_earlier(values: pa.Array, type_: Type, transform: Transform, expected: Value) -> pa.Array:
    """Return values of an ORC file without those that have the expected result a second before.

    Raises: as differing.
    """
    second = second_of(type_)
    if second is None or expected is None:
        return values
    late = may_be_earlier(values, second)
    if not pc.any(late).as_py():
        return values
    kind = result_type(transform, type_) or type_
    moved = transform_column(transform, type_, pc.subtract(values.filter(late), second))
    is_expected = pc.equal(as_values(moved, kind), pa.scalar(expected))
    return pa.concat_arrays(
        [values.filter(pc.invert(late)), values.filter(late).filter(pc.invert(is_expected))]
    )


def conversion(stored: pa.DataType, type_: Type) -> Convert | None:
    """Return the conversion of a stored type to a type without fields; None if there is none.

    Stored types are those that a column may have been promoted from, and equivalent ones of other
    writers. A value that would be rounded or cut is an error of the conversion.
    """
    kind = arrow_type(type_)
    if stored.equals(kind):
        return lambda column: column
    if arrow_types.is_dictionary(stored):
        return _after(lambda column: column.dictionary_decode(), stored.value_type, type_)
    if isinstance(stored, pa.BaseExtensionType):
        return _after(lambda column: column.storage, stored.storage_type, type_)
    if arrow_types.is_null(stored):
        return lambda column: pa.nulls(len(column), kind)
    if isinstance(type_, PrimitiveType) and type_.name.startswith("timestamp"):
        if arrow_types.is_date32(stored) and "tz" not in type_.name:
            return lambda column: column.cast(kind)
        if not arrow_types.is_timestamp(stored):
            return None
        # Some readers see no zone, or another, in a column that counts from the same instant.
        return lambda column: column.cast(pa.timestamp(kind.unit, stored.tz)).view(kind)
    if type_ == PrimitiveType("uuid"):
        fits = arrow_types.is_fixed_size_binary(stored) and stored.byte_width == 16
        return (lambda column: pa.ExtensionArray.from_storage(kind, column)) if fits else None
    return (lambda column: column.cast(kind)) if _may_cast(stored, type_) else None


def _after(first: Convert, stored: pa.DataType, type_: Type) -> Convert | None:
    then = conversion(stored, type_)
    return None if then is None else lambda column: then(first(column))


def _may_cast(stored: pa.DataType, type_: Type) -> bool:
    match type_:
        case DecimalType(_, scale):
            return bool(arrow_types.is_decimal(stored)) and stored.scale == scale
        case PrimitiveType(name):
            return any(test(stored) for test in _CASTS.get(name, ()))
        case GeometryType() | GeographyType():
            return any(test(stored) for test in _CASTS["binary"])
        case _:
            return False


_CASTS: Mapping[str, tuple[_Test, ...]] = {
    "int": (arrow_types.is_integer,),
    "long": (arrow_types.is_integer,),
    "float": (arrow_types.is_float16,),
    "double": (arrow_types.is_float16, arrow_types.is_float32),
    "time": (arrow_types.is_time,),
    **dict.fromkeys(
        ("string", "binary"),
        (
            arrow_types.is_string,
            arrow_types.is_large_string,
            arrow_types.is_string_view,
            arrow_types.is_binary,
            arrow_types.is_large_binary,
            arrow_types.is_binary_view,
        ),
    ),
}
"""Casts of Arrow that keep each value, or raise."""
