"""The common part of readers of all formats: batches with their place, and columns by field id."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_types

from icectl.files.arrow_failures import reading_data_file
from icectl.files.parquet.schema import child_fields, field_id, remembered

LARGEST_BATCH_ROWS = 131_072
LARGEST_BATCH_BYTES = 32 * 2**20
"""What one batch aims at, decoded; a row that is wider is a batch of its own."""
_WIDE_ROW_BYTES = 1024

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class FileRows:
    """Consecutive rows of a file; `first_row` is the position of the first one in the file."""

    first_row: int
    batch: pa.RecordBatch

    def check(self) -> None:
        """Look at each text and decimal, as reading does not. Raises: CorruptTable R-099."""
        for column in self.batch.columns:
            check_values(column)


def check_values(column: pa.Array) -> None:
    """Look at each value of a column. Raises: CorruptTable R-099, as FileRows.check."""
    with reading_data_file("data"):
        column.validate(full=not _is_ascii(column))


def _is_ascii(column: pa.Array) -> bool:
    """Whether a text column has nothing but ASCII, which takes a tenth of the look at each text."""
    if column.type != pa.string():
        return False
    _, offsets, text = column.buffers()
    if offsets is None or text is None:
        return False
    first, last = (
        np.frombuffer(offsets, np.int32)[at] for at in (column.offset, column.offset + len(column))
    )
    octets = np.frombuffer(text, np.int8, count=last - first, offset=first)
    return not len(octets) or bool(octets.min() >= 0)


def chosen(schema: pa.Schema, field_ids: Collection[int] | None) -> list[int]:
    """Return positions of top-level fields with one of these ids at any depth; None is all."""
    if field_ids is None:
        return list(range(len(schema)))
    wanted = frozenset(field_ids)
    return [at for at, ids in enumerate(ids_by_place(schema)) if not wanted.isdisjoint(ids)]


@remembered
def ids_by_place(schema: pa.Schema) -> tuple[tuple[int, ...], ...]:
    """Return the ids of each top-level field and of all fields inside it."""
    return tuple(tuple(ids_of(field)) for field in schema)


def ids_of(field: pa.Field) -> Iterator[int]:
    """Yield the ids of a field and of all fields inside it."""
    number = field_id(field)
    if number is not None:
        yield number
    for child in child_fields(field.type):
        yield from ids_of(child)


def child_columns(column: pa.Array) -> list[pa.Array]:
    """Return the columns directly inside one, as child_fields; null or none below a null."""
    if arrow_types.is_struct(column.type):
        return [pc.struct_field(column, [at]) for at in range(column.type.num_fields)]
    if arrow_types.is_map(column.type):
        first, last = (column.offsets[place].as_py() for place in (0, -1))
        return [part.slice(first, last - first) for part in (column.keys, column.items)]
    return [elements_of(column)]


def elements_of(lists: pa.Array) -> pa.Array:
    """Return what lists hold, nothing below a null; Arrow makes no empty array with UUIDs."""
    is_empty = not pc.sum(pc.list_value_length(lists)).as_py()
    return lists.values.slice(0, 0) if is_empty else lists.flatten()


def batch_rows(row_count: int, size_bytes: int) -> int:
    """Return how many rows a batch may have where `row_count` of them take `size_bytes`."""
    bounded = LARGEST_BATCH_BYTES * row_count // max(size_bytes, 1)
    return max(1, min(LARGEST_BATCH_ROWS, bounded))


def joined(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield consecutive batches together: of about a size, or of about LARGEST_BATCH_ROWS."""
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = waiting_rows = 0
    for batch in batches:
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        waiting_rows += batch.num_rows
        if waiting_bytes >= size_bytes or waiting_rows >= LARGEST_BATCH_ROWS:
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            release_memory(batch.num_rows, batch.nbytes)
            waiting, waiting_bytes, waiting_rows = [], 0, 0
    if waiting:
        yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)


def release_memory(row_count: int, size_bytes: int) -> None:
    """Give back what this thread took for rows, if they are wide; Arrow keeps some of it for later.

    Narrow rows need about as much again each time.
    """
    if size_bytes > _WIDE_ROW_BYTES * row_count:
        pa.default_memory_pool().release_unused()


def typed_batch(columns: list[pa.Array], schema: pa.Schema, row_count: int) -> pa.RecordBatch:
    """Return the batch of these columns in the types, and with the ids, of a schema."""
    if not columns:
        rows = pa.Array.from_buffers(pa.struct([]), row_count, [None])
        return pa.RecordBatch.from_struct_array(rows)
    kinds = zip(columns, schema.types, strict=True)
    return pa.RecordBatch.from_arrays([retype_array(*pair) for pair in kinds], schema=schema)


def flat_retyped(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array of values that hold no others in another type, as retype_array does."""
    if arrow_types.is_decimal(kind) and not arrow_types.is_decimal(array.type):
        counts = (int.from_bytes(value or b"", "big", signed=True) for value in array.to_pylist())
        words = b"".join(count.to_bytes(16, "little", signed=True) for count in counts)
        values = pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(words)])
    elif arrow_types.is_timestamp(kind) and arrow_types.is_timestamp(array.type):
        stored = array.cast(pa.int64()).fill_null(0).to_numpy()
        factor = _PER_SECOND[array.type.unit] // _PER_SECOND[kind.unit]
        values = pa.array(stored // factor).cast(kind)
    else:
        return array.cast(kind)
    return pc.if_else(array.is_valid(), values, pa.scalar(None, kind))


Flat = Callable[[pa.Array, pa.DataType], pa.Array]
"""Makes values that hold no others those of another type."""


def retype_array(array: pa.Array, kind: pa.DataType, flat: Flat = flat_retyped) -> pa.Array:
    """Return the array in another type that holds the same values, at any depth.

    A list of records of a key and a value becomes a map. By `flat_retyped` bytes become decimals;
    what timestamps have beyond their unit is cut off, downward.
    """
    if array.type.equals(kind):
        return array
    if arrow_types.is_struct(kind):
        children = [
            retype_array(child, field.type, flat)
            for child, field in zip(array.flatten(), kind, strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=_mask(array))
    if arrow_types.is_map(kind):
        is_map = arrow_types.is_map(array.type)
        parts = [array.keys, array.items] if is_map else array.values.flatten()
        pairs = zip(parts, (kind.key_type, kind.item_type), strict=True)
        keys, items = (retype_array(part, inner, flat) for part, inner in pairs)
        return pa.MapArray.from_arrays(array.offsets, keys, items, kind, mask=_mask(array))
    if arrow_types.is_list(kind):
        values = retype_array(array.values, kind.value_type, flat)
        return pa.ListArray.from_arrays(array.offsets, values, kind, mask=_mask(array))
    return flat(array, kind)


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
