"""Rows of a table as rows of a data frame of Spark, in the types that Spark has."""

from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa
from pyarrow import types as arrow_types

from icectl.codec.data_rows import retyped
from icectl.codec.parquet.schema import arrow_type
from icectl.errors import Unsupported
from icectl.spec.schema import Schema, children
from icectl.spec.types import (
    FixedType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    Type,
    type_text,
)

_ABSENT = {"time", "timestamp_ns", "timestamptz_ns"}


@dataclass(frozen=True, slots=True)
class OutgoingRows:
    """Batches of some columns of a table for a data frame: UUIDs as text, fixed as binary.

    What batches have beyond these columns is left out.
    """

    columns: Schema

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of what `of` gives. Raises: Unsupported, for types that Spark lacks."""
        return pa.schema(
            [pa.field(item.name, _kind(item, item.type)) for item in self.columns.fields]
        )

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that begins with the columns of the schema. Order: kept."""
        schema = self.schema
        parts = zip(batch.columns[: len(schema)], schema.types, strict=True)
        return pa.RecordBatch.from_arrays([_column(*part) for part in parts], schema=schema)


def _kind(column: NestedField, type_: Type) -> pa.DataType:
    match type_:
        case PrimitiveType("uuid"):
            return pa.string()
        case FixedType():
            return pa.binary()
        case PrimitiveType(name) if name in _ABSENT:
            raise _unknown(column, type_)
    inside = [_kind(column, item.type) for item in children(type_)]
    plain = arrow_type(type_)
    if any(of != arrow_type(item.type) for of, item in zip(inside, children(type_), strict=True)):
        raise _unknown(column, type_)
    match type_:
        case ListType():
            return pa.list_(inside[0])
        case MapType():
            return pa.map_(*inside)
        case _ if arrow_types.is_struct(plain):
            names = [item.name for item in children(type_)]
            return pa.struct(list(zip(names, inside, strict=True)))
    return plain


def _unknown(column: NestedField, type_: Type) -> Unsupported:
    return Unsupported(
        f"the column `{column.name}` is or holds {type_text(type_)}, which Spark can't be given",
        hint="`columns=` names the others",
    )


def _column(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        stored = values.storage.to_pylist()
        return pa.array([None if one is None else str(UUID(bytes=one)) for one in stored], kind)
    return retyped(values, kind)
