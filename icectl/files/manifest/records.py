"""Manifest entries through fastavro: for manifests that are small or of an unusual schema."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icectl.entries.partition_key import (
    canonical_decimal,
    canonical_double,
    canonical_integer,
    join_values,
)
from icectl.entries.rows import COLUMNS
from icectl.errors import CorruptTable
from icectl.files.avro.container import Block, decode_records, encode_records, in_batches
from icectl.files.avro.schema import AvroType
from icectl.files.manifest.layout import ManifestLayout, StoredColumn, metrics_positions

Encoded = tuple[bytes, npt.NDArray[np.int64]]
"""Encoded rows and where each ends."""

Order = Sequence[int | None]
"""For each spec field its position in the partition record (partition_order)."""


def decode_columns(
    layout: ManifestLayout, blocks: Iterable[Block], columns: Sequence[str], order: Order
) -> dict[str, pa.ChunkedArray]:
    """Decode columns as stored: integers as int64, formats as text. Raises: CorruptTable."""
    # A batch of Python's objects is gone before the next one is decoded.
    batches = [
        _decode_batch(layout, list(decode_records(layout.schema, batch)), columns, order)
        for batch in in_batches(layout.schema, blocks)
    ]
    return {name: pa.chunked_array([batch[name] for batch in batches]) for name in columns}


def _decode_batch(
    layout: ManifestLayout, entries: Sequence[Any], columns: Sequence[str], order: Order
) -> dict[str, pa.Array]:
    files = [entry[layout.data_file_position] for entry in entries]
    decoded = {}
    for name in columns:
        if name == "partition_key":
            position = str(layout.partition_position)
            records = [file.get(position, {}) for file in files]
            decoded[name] = pa.array(partition_keys(layout.partition, order, records), pa.binary())
            continue
        column = layout.columns[name]
        rows = files if column.in_data_file else entries
        at = str(column.position) if column.in_data_file else column.position
        decoded[name] = _array(column, [row[at] for row in rows])
    return decoded


def partition_keys(
    partition: AvroType, order: Order, records: Iterable[Mapping[str, Any]]
) -> list[bytes]:
    """Canonical keys of decoded records. Raises: CorruptTable R-068, for a type of no partition."""
    fields = [
        None if at is None else (str(at), _canonical(partition.fields[at].type.present))
        for at in order
    ]
    try:
        return [
            join_values(
                None if field is None or record[field[0]] is None else field[1](record[field[0]])
                for field in fields
            )
            for record in records
        ]
    except (ValueError, OverflowError) as error:
        raise CorruptTable("a partition value is not of its type", rule="R-068") from error


def _canonical(type_: AvroType) -> Callable[[Any], bytes]:
    """Choose how a value becomes canonical bytes, by its Avro type."""
    if type_.kind in ("int", "long"):
        return canonical_integer
    if type_.kind in ("float", "double"):
        return canonical_double
    if type_.kind == "boolean":
        return lambda value: b"\x01" if value else b"\x00"
    if type_.kind == "string":
        return (lambda value: UUID(value).bytes) if type_.logical == "uuid" else str.encode
    if type_.kind in ("bytes", "fixed"):
        if type_.logical == "decimal":
            return lambda value: canonical_decimal(int.from_bytes(value, "big", signed=True))

        def sized(value: bytes) -> bytes:
            if type_.size and len(value) != type_.size:
                raise ValueError(value)
            return value

        return sized
    if type_.kind == "null":
        return bytes
    raise CorruptTable(f"a partition field has the type {type_.kind}", rule="R-068")


def decoded_type(name: str) -> pa.DataType:
    """Return the type that a column has before it is checked."""
    type_ = COLUMNS.field(name).type
    if name == "file_format":
        return pa.string()
    return pa.int64() if pa.types.is_integer(type_) else type_


def _array(column: StoredColumn, values: list[Any]) -> pa.Array:
    type_ = decoded_type(column.name)
    if pa.types.is_map(type_):
        values = _pairs(column, values)
    try:
        return pa.array(values, type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError) as error:
        raise CorruptTable(f"a value of {column.name} is out of range", rule="R-063") from error


def _pairs(column: StoredColumn, maps: list[Any]) -> list[Any]:
    """Return metrics maps, stored as arrays of key and value or as Avro maps, as lists of pairs."""
    type_ = column.type.present
    if type_.kind == "map":
        try:
            return [
                None if stored is None else [(int(key), value) for key, value in stored.items()]
                for stored in maps
            ]
        except ValueError as error:
            raise CorruptTable(f"a key of {column.name} is not a number", rule="R-063") from error
    key, value = (str(at) for at in metrics_positions(column.name, type_.parts[0]))
    return [
        None if stored is None else [(item[key], item[value]) for item in stored] for stored in maps
    ]


def encode_rows(
    table: pa.Table, schema: Mapping[str, Any], partitions: Sequence[Any]
) -> Iterator[Encoded]:
    """Encode rows through fastavro, with partitions as Avro records; columns by Avro names."""
    metrics = {
        name for name in table.column_names if pa.types.is_map(table.schema.field(name).type)
    }
    names = [field["name"] for field in schema["fields"]]
    file_names = [field["name"] for field in schema["fields"][-1]["type"]["fields"]]

    def records() -> Iterable[Mapping[str, Any]]:
        rows = (row for batch in table.to_batches() for row in batch.to_pylist())
        for row, partition in zip(rows, partitions, strict=True):
            for name in metrics:
                if row[name] is not None:
                    row[name] = [{"key": key, "value": value} for key, value in row[name]]
            row["partition"] = partition
            row["data_file"] = {name: row[name] for name in file_names}
            yield {name: row[name] for name in names}

    encoded = encode_records(schema, records())
    yield b"".join(encoded), np.cumsum([len(row) for row in encoded], dtype=np.int64)
