"""Rows that come from outside, of a data frame, as rows of a table: columns by name, none narrowed.

On the driver the frame's columns get the field ids of the table's (`identified`); on workers its
batches are then read as a data file's are, but for defaults: what a frame lacks is written.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyarrow import types as arrow_types

from icectl.codec.data_rows import dressed
from icectl.codec.parquet.schema import FIELD_ID, child_fields
from icectl.engine.kernels.read_data import SourceFile, projected
from icectl.errors import CorruptTable, Refused
from icectl.plan.column_names import near
from icectl.spec.schema import Schema, children
from icectl.spec.types import (
    DecimalType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    type_text,
)

_Test = Callable[[pa.DataType], bool]
_WHOLE: Mapping[str, tuple[_Test, ...]] = {
    "boolean": (arrow_types.is_boolean,),
    "int": (arrow_types.is_int8, arrow_types.is_int16, arrow_types.is_int32),
    "long": (
        arrow_types.is_int8, arrow_types.is_int16, arrow_types.is_int32, arrow_types.is_int64,
    ),
    "float": (arrow_types.is_float32,),
    "double": (arrow_types.is_float32, arrow_types.is_float64),
    "date": (arrow_types.is_date32,),
    "timestamp": (lambda kind: arrow_types.is_timestamp(kind) and kind.tz is None,),
    "timestamptz": (lambda kind: arrow_types.is_timestamp(kind) and kind.tz is not None,),
    "string": (arrow_types.is_string, arrow_types.is_large_string),
    "binary": (arrow_types.is_binary, arrow_types.is_large_binary),
}  # fmt: skip
"""What a column of a frame may be, for each type of which it loses nothing."""


@dataclass(frozen=True, slots=True)
class IncomingRows:
    """How batches of a frame become rows of a table: `given` is its schema, with field ids."""

    given: pa.Schema
    wanted: Schema

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches with the columns of `wanted`.

        Order: kept.
        Raises: Refused, where a required column has a null; Unsupported, where a value has no
        place in its column's type.
        """
        wanted = replace(self.wanted, fields=tuple(map(_as_written, self.wanted.fields)))
        projection = projected(SourceFile("the data frame", "arrow", 0, 0), self.given, wanted)
        for batch in batches:
            rows = dressed(list(batch.columns), self.given, batch.num_rows)
            try:
                yield projection.project(rows, np.zeros(batch.num_rows, np.int64))
            except CorruptTable as error:
                raise Refused(error.message.removesuffix(f" ({error.rule})")) from None


def identified(given: pa.Schema, wanted: Schema) -> pa.Schema:
    """The schema of a frame, each column with the field id of the table's column of that name.

    Raises: Refused, for columns that the table does not have, that lose something as its columns,
    and for required ones that are missing.
    """
    return pa.schema(_matched(list(given), wanted.fields, ""))


def _matched(
    given: Sequence[pa.Field], wanted: Sequence[NestedField], inside: str
) -> list[pa.Field]:
    names = {item.name: item for item in wanted}
    seen: set[str] = set()
    fields = []
    for one in given:
        shown = f"{inside}{one.name}"
        if one.name in seen:
            raise Refused(f"the data frame has two columns `{shown}`")
        seen.add(one.name)
        item = names.get(one.name)
        if item is None:
            hint = near(one.name, list(names)) or "drop it, or add it to the table's schema"
            raise Refused(f"the table has no column `{shown}`, which the data frame has", hint=hint)
        fields.append(_field(one, item, shown))
    for item in wanted:
        if item.name not in seen and item.required and item.write_default is None:
            raise Refused(
                f"the data frame lacks `{inside}{item.name}`, which the table requires",
                hint="add the column; only optional ones, and those with a default, may be missing",
            )
    return fields


def _field(given: pa.Field, wanted: NestedField, shown: str) -> pa.Field:
    """Return a field with an id, and those inside of it."""
    kind = _kind(given.type, wanted.type, shown)
    return pa.field(given.name, kind, metadata={FIELD_ID: str(wanted.id)})


def _kind(given: pa.DataType, wanted: Type, shown: str) -> pa.DataType:
    match wanted:
        case StructType(fields) if arrow_types.is_struct(given):
            return pa.struct(_matched(child_fields(given), fields, f"{shown}."))
        case ListType() if arrow_types.is_list(given):
            return pa.list_(_inner(child_fields(given)[0], children(wanted)[0], shown))
        case MapType() if arrow_types.is_map(given):
            parts = zip(child_fields(given), children(wanted), strict=True)
            key, value = (_inner(one, item, shown) for one, item in parts)
            return pa.map_(key.with_nullable(nullable=False), value)
    if _is_lossless(given, wanted):
        return given
    raise Refused(
        f"`{shown}` is {given} in the data frame and {type_text(wanted)} in the table",
        hint=f"cast it to {_SPARK.get(type_text(wanted), type_text(wanted))}",
    )


_SPARK = {"long": "bigint", "timestamptz": "timestamp", "timestamp": "timestamp_ntz"}
"""Types by Spark's names for them, where these are others."""


def _inner(given: pa.Field, wanted: NestedField, shown: str) -> pa.Field:
    return _field(given, wanted, f"{shown}.{wanted.name}")


def _is_lossless(given: pa.DataType, wanted: Type) -> bool:
    if arrow_types.is_null(given):
        return True
    match wanted:
        case DecimalType(precision, scale):
            is_decimal = bool(arrow_types.is_decimal(given))
            return is_decimal and given.scale == scale and given.precision <= precision
        case PrimitiveType(name):
            return any(test(given) for test in _WHOLE.get(name, ()))
        case _:
            return False


def _as_written(item: NestedField) -> NestedField:
    """Return a column whose rows have its write default where they have nothing (R-182)."""
    kind = item.type
    if isinstance(kind, StructType):
        kind = StructType(tuple(map(_as_written, kind.fields)))
    return replace(item, type=kind, initial_default=item.write_default)
