"""Rows of a table as rows of a data frame of Spark, in the types that Spark has."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.errors import Unsupported
from icectl.files.data_rows import retype_array
from icectl.files.parquet.schema import arrow_type
from icectl.format.schema import Schema
from icectl.format.types import (
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    type_text,
)

_UUID_DIGITS = [at for at in range(36) if at not in (8, 13, 18, 23)]
"""Where the digits of a UUID are in its text; between them are hyphens."""


@dataclass(frozen=True, slots=True)
class OutgoingRows:
    """Batches of some columns of a table for a data frame: UUIDs as text, fixed as binary.

    Timestamps of nanoseconds are some of microseconds, if nothing is lost. What batches have beyond
    these columns is left out.
    """

    columns: Schema

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of what `of` gives. Raises: Unsupported, for types that Spark lacks."""
        return pa.schema(
            [pa.field(item.name, _kind(item, item.type)) for item in self.columns.fields]
        )

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that begins with the columns of the schema. Order: kept.

        Raises: Unsupported, where a value has no place in the type that Spark has.
        """
        schema = self.schema
        parts = zip(batch.columns[: len(schema)], schema, strict=True)
        return pa.RecordBatch.from_arrays([_column(*part) for part in parts], schema=schema)


def _kind(column: NestedField, type_: Type) -> pa.DataType:
    match type_:
        case PrimitiveType("uuid"):
            return pa.string()
        case FixedType():
            return pa.binary()
        case PrimitiveType("time"):
            return pa.time64("ns")
        case PrimitiveType("timestamp_ns"):
            return pa.timestamp("us")
        case PrimitiveType("timestamptz_ns"):
            return pa.timestamp("us", "UTC")
        case PrimitiveType("variant") | GeometryType() | GeographyType():
            raise _not_given(column.name, f"is or holds {type_text(type_)}")
        case ListType():
            return pa.list_(_kind(column, type_.element))
        case MapType():
            return pa.map_(_kind(column, type_.key), _kind(column, type_.value))
        case StructType(fields):
            return pa.struct([pa.field(item.name, _kind(column, item.type)) for item in fields])
    return arrow_type(type_)


def _not_given(column: str, why: str) -> Unsupported:
    return Unsupported(
        f"the column `{column}` {why}, which Spark can't be given",
        hint="`columns=` names the others",
    )


def _column(values: pa.Array, field: pa.Field) -> pa.Array:
    if values.offset:
        values = pa.concat_arrays([values])  # no slice, whose nulls retype_array does not take
    try:
        return retype_array(values, field.type, _given_values)
    except pa.ArrowInvalid:
        raise _not_given(field.name, "has moments between two microseconds") from None


def _given_values(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in what Spark gets of them. Raises: pa.ArrowInvalid, for lost nanoseconds."""
    return _texts(values) if isinstance(values, pa.ExtensionArray) else values.cast(kind)


def _texts(uuids: pa.ExtensionArray) -> pa.Array:
    """Return UUIDs as their text."""
    stored = uuids.storage.fill_null(bytes(16))
    digits = b"".join(stored.to_pylist()).hex().encode()
    texts = np.full((len(uuids), 36), b"-", "S1")
    texts[:, _UUID_DIGITS] = np.frombuffer(digits, "S1").reshape(-1, 32)
    ends = np.arange(len(uuids) + 1, dtype=np.int32) * np.int32(36)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(texts)]
    made = pa.Array.from_buffers(pa.string(), len(uuids), buffers)
    return pc.if_else(uuids.is_valid(), made, pa.scalar(None, pa.string()))
