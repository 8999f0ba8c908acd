"""Rows of a DataFrame as rows of a table, and written as new data files."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_types

from icectl.entries.partition_key import encode_key
from icectl.errors import CorruptTable, Refused
from icectl.files.data_rows import child_columns, flat_retyped, retype_array, typed_batch
from icectl.files.parquet.schema import (
    FIELD_ID,
    METADATA,
    VALUE,
    arrow_schema,
    child_fields,
    field_id,
)
from icectl.files.parquet.shredding import check_variants
from icectl.files.wkb import Shapes
from icectl.format.schema import Schema, children, similar_name_hint
from icectl.format.types import (
    DecimalType,
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
from icectl.rows.columns import is_shape
from icectl.rows.compact_job import TypedSpec, data_entries
from icectl.rows.partition_rows import Partition, partitioner
from icectl.rows.read_data import SourceFile, projected
from icectl.rows.rewrite_data import DeletesOfGroup, FileGroup, TableColumns, write_rows
from icectl.rows.sort_rows import Sorting
from icectl.rows.write_data import FileOutputs, WriteOptions

_VARIANT = PrimitiveType("variant")
_OF_VARIANT = {METADATA, VALUE}
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
    "variant": (
        lambda kind: arrow_types.is_struct(kind) and {part.name for part in kind} == _OF_VARIANT,
    ),
}  # fmt: skip
"""What a column of a frame may be, for each type of which it loses nothing."""


_UUID_BYTES = 16
_UUID_TEXT = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


@dataclass(frozen=True, slots=True)
class IncomingRows:
    """How batches of a frame become rows of a table: `frame` is its schema, with field ids."""

    frame: pa.Schema
    table: Schema

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches with the columns of `table`.

        Order: kept.
        Raises: Refused, where a required column has a null, or a value has no place in its column.
        """
        schema = replace(self.table, fields=tuple(map(_as_written, self.table.fields)))
        projection = projected(SourceFile("the DataFrame", "arrow", 0, 0), self.frame, schema)
        for batch in batches:
            columns = []
            for column, field in zip(batch.columns, self.frame, strict=True):
                try:
                    columns.append(retype_array(column, field.type, _fitted_values))
                except ValueError as error:
                    raise Refused(
                        f"a value of the DataFrame's column `{field.name}` does not fit the "
                        f"table's: {error}"
                    ) from None
            rows = typed_batch(columns, self.frame, batch.num_rows)
            for column, field in zip(rows.columns, self.frame, strict=True):
                _check_values(column, field, schema)
            try:
                batch_read = projection.project(rows, np.zeros(batch.num_rows, np.int64))
            except CorruptTable as error:
                raise Refused(error.what) from None
            yield batch_read


def _check_values(column: pa.Array, field: pa.Field, schema: Schema) -> None:
    """Look at shapes, and at variants that Spark did not make, at any depth. Raises: Refused."""
    item = schema.field(field_id(field) or 0)
    kind = "a shape in well-known binary"
    if item is not None and is_shape(item.type):
        shapes = Shapes(isinstance(item.type, GeographyType))
        shapes.add(column)
        wrong = shapes.reason
    elif item is not None and item.type == _VARIANT:
        kind, wrong = "a variant", ""
        # Spark marks a field of what it takes for a variant.
        if not any(b"variant" in (child.metadata or {}) for child in child_fields(field.type)):
            try:
                check_variants(column, field)
            except CorruptTable as error:
                wrong = str(error.__cause__ or error.what)
    else:
        inner = child_fields(field.type)
        for part, child in zip(child_columns(column) if inner else (), inner, strict=True):
            _check_values(part, child, schema)
        return
    if wrong:
        name = schema.name_of(item.id)
        raise Refused(f"a value of the DataFrame's column `{name}` is not {kind}: {wrong}")


def frame_schema(frame: pa.Schema, table: Schema) -> pa.Schema:
    """The schema of a frame, each column with the field id of the table's column of that name.

    Raises: Refused, for columns that the table does not have, that lose something as its columns,
    and for required ones that are missing.
    """
    return pa.schema(_matched(list(frame), table.fields, ""))


def _matched(
    frame: Sequence[pa.Field], columns: Sequence[NestedField], inside: str
) -> list[pa.Field]:
    names = {item.name: item for item in columns}
    names_seen: set[str] = set()
    fields = []
    for frame_field in frame:
        shown = f"{inside}{frame_field.name}"
        if frame_field.name in names_seen:
            raise Refused(f"the DataFrame has two columns `{shown}`")
        names_seen.add(frame_field.name)
        item = names.get(frame_field.name)
        if item is None:
            hint = (
                similar_name_hint(frame_field.name, list(names))
                or "drop it, or add it to the table's schema"
            )
            raise Refused(f"the table has no column `{shown}`, which the DataFrame has", hint=hint)
        fields.append(_field(frame_field, item, shown))
    for item in columns:
        if item.name not in names_seen and item.required and item.write_default is None:
            raise Refused(
                f"the DataFrame lacks `{inside}{item.name}`, which the table requires",
                hint="add the column; only optional ones, and those with a default, may be missing",
            )
    return fields


def _field(frame_field: pa.Field, column: NestedField, shown: str) -> pa.Field:
    """Return a field with an id, and those inside of it."""
    kind = _kind(frame_field.type, column.type, shown)
    return pa.field(frame_field.name, kind, metadata={FIELD_ID: str(column.id)})


def _kind(stored: pa.DataType, type_: Type, shown: str) -> pa.DataType:
    match type_:
        case StructType(fields) if arrow_types.is_struct(stored):
            return pa.struct(_matched(child_fields(stored), fields, f"{shown}."))
        case ListType() if arrow_types.is_list(stored):
            element = children(type_)[0]
            return pa.list_(_field(child_fields(stored)[0], element, f"{shown}.{element.name}"))
        case MapType() if arrow_types.is_map(stored):
            parts = zip(child_fields(stored), children(type_), strict=True)
            key, value = (_field(part, item, f"{shown}.{item.name}") for part, item in parts)
            return pa.map_(key.with_nullable(nullable=False), value)
    kind = stored if _is_lossless(stored, type_) else _checked(stored, type_)
    if kind is not None:
        return kind
    is_binary = isinstance(type_, FixedType) or is_shape(type_)
    name = "binary" if is_binary else type_text(type_)
    raise Refused(
        f"`{shown}` is {stored} in the DataFrame and {type_text(type_)} in the table",
        hint=f"cast it to {_SPARK.get(name, name)}",
    )


_SPARK = {
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamp_ns": "timestamp_ntz",
    "timestamptz": "timestamp",
    "timestamptz_ns": "timestamp",
    "uuid": "string",
}
"""Types by Spark's names for them, where these are others."""


def _is_lossless(stored: pa.DataType, type_: Type) -> bool:
    if arrow_types.is_null(stored):
        return True
    match type_:
        case DecimalType(precision, scale):
            is_decimal = bool(arrow_types.is_decimal(stored))
            return is_decimal and stored.scale == scale and stored.precision <= precision
        case PrimitiveType(name):
            return any(test(stored) for test in _WHOLE.get(name, ()))
        case GeometryType() | GeographyType():
            return any(test(stored) for test in _WHOLE["binary"])
        case _:
            return False


def _checked(stored: pa.DataType, type_: Type) -> pa.DataType | None:
    """Return what values of a frame become that may fit a column or not, each for itself.

    None where none would.
    """
    is_binary = arrow_types.is_binary(stored) or arrow_types.is_large_binary(stored)
    is_text = arrow_types.is_string(stored) or arrow_types.is_large_string(stored)
    match type_:
        case PrimitiveType("uuid") if is_text or is_binary or stored == pa.binary(_UUID_BYTES):
            return pa.binary(_UUID_BYTES)
        case FixedType(length) if is_binary or stored == pa.binary(length):
            return pa.binary(length)
        case PrimitiveType("time") if arrow_types.is_time64(stored):
            return pa.time64("us")
        case PrimitiveType("timestamp_ns" | "timestamptz_ns" as name):
            has_zone = name == "timestamptz_ns"
            if arrow_types.is_timestamp(stored) and (stored.tz is not None) == has_zone:
                return pa.timestamp("ns", stored.tz)
    return None


def _fitted_values(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values of _checked in what they become. Raises: ValueError, where one does not fit."""
    if arrow_types.is_fixed_size_binary(kind):
        is_binary = arrow_types.is_binary(values.type) or arrow_types.is_large_binary(values.type)
        return values.cast(kind) if is_binary else _uuids(values)
    is_finer = arrow_types.is_timestamp(kind) and kind.unit == "ns"
    return values.cast(kind) if is_finer else flat_retyped(values, kind)


def _uuids(texts: pa.Array) -> pa.Array:
    """Return UUIDs as their bytes. Raises: ValueError, where a text is none."""
    is_one = pc.match_substring_regex(texts, _UUID_TEXT)
    if not pc.all(is_one, min_count=0).as_py():
        raise ValueError(f"`{texts.filter(pc.invert(is_one))[0]}` is not a UUID")
    is_there = texts.is_valid()
    digits = "".join(pc.replace_substring(texts.drop_null(), "-", "").to_pylist())
    stored = np.zeros((len(texts), _UUID_BYTES), np.uint8)
    octets = np.frombuffer(bytes.fromhex(digits), np.uint8).reshape(-1, _UUID_BYTES)
    stored[is_there.to_numpy(zero_copy_only=False)] = octets
    kind = pa.binary(_UUID_BYTES)
    uuids = pa.Array.from_buffers(kind, len(texts), [None, pa.py_buffer(stored)])
    return pc.if_else(is_there, uuids, pa.scalar(None, kind))


def _as_written(item: NestedField) -> NestedField:
    """Return a column whose rows have its write default where they have nothing (R-182)."""
    kind = item.type
    if isinstance(kind, StructType):
        kind = StructType(tuple(map(_as_written, kind.fields)))
    return replace(item, type=kind, initial_default=item.write_default)


@dataclass(frozen=True, slots=True)
class WriteJob:
    """What all tasks have in common that write a frame's rows.

    `sort_order_id` is the table's sort order that new files are sorted by, where there is one.
    """

    rows: IncomingRows
    spec: TypedSpec
    options: WriteOptions
    sorting: Sorting | None = None
    sort_order_id: int | None = None


def run_write(batches: Iterator[pa.RecordBatch], job: WriteJob, outputs: FileOutputs) -> pa.Table:
    """Write the rows of one task; entries of the new files, without a sequence number.

    Rows are compared with those of the new files.
    Raises: as write_rows; Refused, for rows that the table does not take.
    """
    typed = job.spec
    partition = None
    if typed.spec.is_unpartitioned:
        partition = Partition(encode_key(typed.types, [None] * len(typed.types)), "")
    group = FileGroup(
        (),
        0,
        DeletesOfGroup(),
        TableColumns(job.rows.table, job.rows.table),
        typed.spec,
        partition,
        job.sorting,
    )
    files, _ = write_rows(group, job.rows.of(batches), job.options, outputs)
    return data_entries(files, typed.spec.spec_id, None, job.sort_order_id)


def partition_keys(job: WriteJob, batch: pa.RecordBatch) -> pa.Array:
    """Return the partition of each row of a frame, as its canonical key. Raises: as run_write."""
    schema = job.rows.table
    (rows,) = job.rows.of([batch])
    return partitioner(job.spec.spec, schema, arrow_schema(schema)).keys(rows)
