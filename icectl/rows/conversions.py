"""Stored columns as columns of a table: what a stored type becomes, if it can (R-095, R-097)."""

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyarrow import types as arrow_types

from icectl.files.parquet.schema import arrow_type
from icectl.format.types import DecimalType, FixedType, PrimitiveType, Type

Convert = Callable[[pa.Array], pa.Array]
"""May raise pa.ArrowInvalid, where a value is none of the wanted type."""

_Test = Callable[[pa.DataType], bool]


def conversion(stored: pa.DataType, wanted: Type) -> Convert | None:
    """Choose how values of a stored type become those of a type without fields; None for no way.

    Types are those that a column may have been promoted from, and what writers store for one
    another. Nothing is rounded or cut: a value that would be is an error of the conversion.
    """
    kind = arrow_type(wanted)
    if stored.equals(kind):
        return _unchanged
    if arrow_types.is_dictionary(stored):
        return _after(lambda column: column.dictionary_decode(), stored.value_type, wanted)
    if isinstance(stored, pa.BaseExtensionType):
        return _after(lambda column: column.storage, stored.storage_type, wanted)
    if arrow_types.is_null(stored):
        return lambda column: pa.nulls(len(column), kind)
    if isinstance(wanted, PrimitiveType) and wanted.name.startswith("timestamp"):
        return _to_timestamps(stored, kind, wanted.name)
    if wanted == PrimitiveType("uuid"):
        fits = arrow_types.is_fixed_size_binary(stored) and stored.byte_width == 16
        return (lambda column: pa.ExtensionArray.from_storage(kind, column)) if fits else None
    return (lambda column: column.cast(kind)) if _may_cast(stored, wanted) else None


def _after(first: Convert, stored: pa.DataType, wanted: Type) -> Convert | None:
    then = conversion(stored, wanted)
    return None if then is None else lambda column: then(first(column))


def _unchanged(column: pa.Array) -> pa.Array:
    return column


def _may_cast(stored: pa.DataType, wanted: Type) -> bool:
    match wanted:
        case DecimalType(_, scale):
            return bool(arrow_types.is_decimal(stored)) and stored.scale == scale
        case PrimitiveType(name):
            return any(test(stored) for test in _CASTS.get(name, ()))
        case FixedType():
            return False
        case _:
            return False


def _to_timestamps(stored: pa.DataType, kind: pa.DataType, name: str) -> Convert | None:
    if arrow_types.is_date32(stored) and "tz" not in name:
        return lambda column: column.cast(kind)
    if not arrow_types.is_timestamp(stored):
        return None
    # Some readers see no zone, or another, in a column that counts from the same instant.
    return lambda column: column.cast(pa.timestamp(kind.unit, stored.tz)).view(kind)


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
