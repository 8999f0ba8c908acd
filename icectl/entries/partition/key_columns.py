"""Partition keys of whole columns: `encode_key` of entries/partition/key.py, row by row."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns.values import (
    Octets,
    byte_strings,
    decimal_bytes,
    integers,
    is_integer,
    packed,
    plain,
)
from icectl.spec.types import DecimalType, PrimitiveType, Type

_ABSENT = pa.scalar(b"\x00", pa.large_binary())
_NOTHING = pa.scalar(b"", pa.large_binary())


def encode_keys(types: Sequence[Type], columns: Sequence[pa.Array]) -> pa.Array:
    """Return the key of each row of these columns, of which there is one or more.

    Shape: one binary value per row, none of them null.
    Order: kept.
    Raises: ValueError, when a column is not of its type.
    """
    parts = [_parts(type_, column) for type_, column in zip(types, columns, strict=True)]
    joined = pc.binary_join_element_wise(*parts, _NOTHING) if len(parts) > 1 else parts[0]
    return joined.cast(pa.binary())


def _parts(type_: Type, column: pa.Array) -> pa.Array:
    """Encode what one field adds to the key of each row."""
    present = _present(type_, column)
    return pc.if_else(column.is_valid(), present, _ABSENT) if column.null_count else present


def _present(type_: Type, column: pa.Array) -> pa.Array:
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    if is_integer(type_):
        return _of_width(integers(name, column).astype("<i8").view(np.uint8).reshape(-1, 8))
    if name in ("float", "double"):
        values = plain(column).cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
        one_nan = np.where(np.isnan(values), np.nan, values)
        return _of_width(one_nan.astype("<f8").view(np.uint8).reshape(-1, 8))
    if name == "boolean":
        flags = pc.fill_null(plain(column), fill_value=False).to_numpy(zero_copy_only=False)
        return _of_width(flags.astype(np.uint8).reshape(-1, 1))
    spans = decimal_bytes(type_, column) if isinstance(type_, DecimalType) else byte_strings(column)
    prefixes = np.empty((len(column), 5), np.uint8)
    prefixes[:, 0] = 1
    prefixes[:, 1:] = spans.lengths.astype("<u4").view(np.uint8).reshape(-1, 4)
    return pc.binary_join_element_wise(_rows(prefixes), packed(spans), _NOTHING)


def _of_width(values: Octets) -> pa.Array:
    """Presence, length and value, where all values have one length."""
    count, width = values.shape
    rows = np.empty((count, 5 + width), np.uint8)
    rows[:, :5] = (1, width, 0, 0, 0)
    rows[:, 5:] = values
    return _rows(rows)


def _rows(octets: Octets) -> pa.Array:
    count, width = octets.shape
    offsets = np.arange(count + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(octets))]
    return pa.Array.from_buffers(pa.large_binary(), count, buffers)
