"""Hashes of whole rows, made of the values of their columns.

Equal rows have equal hashes whatever batch, file or order they are in: nulls are values, all NaN
are one, -0.0 and 0.0 are two. Columns count by position, so that names and field ids do not matter.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as arrow_types

from icectl.codec import row_hash_scan as scan

Hashes = npt.NDArray[np.uint64]

_NO_BITS = np.empty(0, np.uint8)
_GOLDEN = 0x9E3779B97F4A7C15


def row_hashes(columns: Sequence[pa.Array], row_count: int) -> Hashes:
    """Return the hash of each row of some columns.

    Order: kept.
    """
    hashes = np.zeros(row_count, np.uint64)
    for place, column in enumerate(columns):
        _add(hashes, column, _seed(place))
    return hashes


def sum_of(hashes: Hashes) -> int:
    """Return one number for a set of rows, whatever their order.

    Those of parts add up modulo 2**64.
    """
    return scan.total(hashes)


def _seed(place: int) -> np.uint64:
    return np.uint64((place + 1) * _GOLDEN & (2**64 - 1))


def _add(hashes: Hashes, column: pa.Array, seed: np.uint64) -> None:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind, valid, first = column.type, _valid(column), column.offset
    if arrow_types.is_null(kind):
        return
    if arrow_types.is_struct(kind):
        inner = row_hashes([column.field(place) for place in range(kind.num_fields)], len(column))
        scan.add_64(hashes, inner, scan.PLAIN, valid, first, seed)
    elif arrow_types.is_list(kind) or arrow_types.is_map(kind):
        scan.add_lists(hashes, _elements(column), _offsets(column), valid, first, seed)
    elif arrow_types.is_boolean(kind):
        scan.add_bits(hashes, _octets(column.buffers()[1]), valid, first, seed)
    elif arrow_types.is_fixed_size_binary(kind) or arrow_types.is_decimal(kind):
        width = kind.bit_width // 8
        content = _octets(column.buffers()[1])[first * width : (first + len(column)) * width]
        scan.add_fixed(hashes, content, width, valid, first, seed)
    elif arrow_types.is_string(kind) or arrow_types.is_binary(kind):
        scan.add_bytes(hashes, _octets(column.buffers()[2]), _offsets(column), valid, first, seed)
    else:
        width = kind.bit_width // 8
        add, dtype = (scan.add_32, "<u4") if width == 4 else (scan.add_64, "<u8")
        # A buffer may be longer than its values by any number of bytes.
        content = _octets(column.buffers()[1])[first * width : (first + len(column)) * width]
        values = content.view(dtype)
        reals = {pa.float32(): scan.SINGLE, pa.float64(): scan.DOUBLE}
        add(hashes, values, reals.get(kind, scan.PLAIN), valid, first, seed)


def _elements(column: pa.Array) -> Hashes:
    """The hash of each element of lists, or of each entry of maps, from the first stored one on."""
    if arrow_types.is_map(column.type):
        return row_hashes([column.keys, column.items], len(column.keys))
    return row_hashes([column.values], len(column.values))


def _offsets(column: pa.Array) -> npt.NDArray[np.int64]:
    stored = np.frombuffer(column.buffers()[1] or b"\0" * 4, np.int32)
    return stored[column.offset : column.offset + len(column) + 1].astype(np.int64)


def _valid(column: pa.Array) -> npt.NDArray[np.uint8]:
    return _octets(column.buffers()[0]) if column.null_count else _NO_BITS


def _octets(buffer: Any) -> npt.NDArray[np.uint8]:
    return np.frombuffer(buffer or b"", np.uint8)
