"""What the readers of all formats share: batches with their place, and columns by field id."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from icectl.codec.parquet_schema import child_fields, field_id

LARGEST_BATCH_ROWS = 131_072
LARGEST_BATCH_BYTES = 32 * 2**20
"""What one batch aims at; rows far wider than the others of their file may exceed it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows of a file; `first_row` is the position of the first one in the file."""

    first_row: int
    batch: pa.RecordBatch


def chosen(schema: pa.Schema, field_ids: Collection[int]) -> list[int]:
    """Positions of the top-level fields that have one of these ids, at any depth."""
    wanted = frozenset(field_ids)
    return [at for at, field in enumerate(schema) if not wanted.isdisjoint(ids_of(field))]


def ids_of(field: pa.Field) -> Iterator[int]:
    """The ids of a field and of all fields inside it."""
    number = field_id(field)
    if number is not None:
        yield number
    for child in child_fields(field.type):
        yield from ids_of(child)


def batch_rows(row_count: int, size_bytes: int) -> int:
    """How many rows a batch may have where `row_count` of them take `size_bytes`."""
    bounded = LARGEST_BATCH_BYTES * row_count // max(size_bytes, 1)
    return max(1, min(LARGEST_BATCH_ROWS, bounded))


def dressed(arrays: list[pa.Array], schema: pa.Schema, row_count: int) -> pa.RecordBatch:
    """The batch of these columns in the types, and with the ids, of a schema."""
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * row_count, pa.struct([])))
    columns = [
        array if array.type.equals(field.type) else array.cast(field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
