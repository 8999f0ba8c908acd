"""Rows of several batches in another order, without joining the batches first.

Compiled loops copy flat columns. The others, and all without the loops, are joined by Arrow.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_types

from icectl.files.compiled import address, loops

Places = npt.NDArray[np.int32]
_Take: TypeAlias = Callable[[Places, Places], pa.Array]
"""Takes rows by the numbers of their batches and their places."""

_SPARE_BYTES = 32
"""What the loop for byte strings may write behind the last one."""


class BatchRows:
    """Rows of batches of one schema, at most 2^31 of them; a place counts through all batches."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        counts = [batch.num_rows for batch in batches]
        starts = np.cumsum([0, *counts])[:-1].tolist()
        self._schema = batches[0].schema
        self._numbers = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        self._takes = [
            _taking([batch.column(at) for batch in batches], starts)
            for at in range(len(self._schema))
        ]

    def take(self, places: Places) -> pa.RecordBatch:
        """Return the rows at some places. Order: of `places`."""
        numbers = self._numbers[places]
        columns = [take(numbers, places) for take in self._takes]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _taking(arrays: Sequence[pa.Array], starts: Sequence[int]) -> _Take:
    kind = arrays[0].type
    if isinstance(kind, pa.BaseExtensionType):
        take = _taking([array.storage for array in arrays], starts)
        return lambda numbers, places: pa.ExtensionArray.from_storage(kind, take(numbers, places))
    content = _content(kind, arrays, starts)
    if content is None:
        whole = pa.concat_arrays(arrays)
        return lambda _, places: pc.take(whole, pa.array(places), boundscheck=False)
    valid = _bits(arrays, 0, starts) if any(array.null_count for array in arrays) else None

    def taken(numbers: Places, places: Places) -> pa.Array:
        validity = None if valid is None else valid(numbers, places)
        buffers = [validity, *content(numbers, places)]
        return pa.Array.from_buffers(kind, len(places), buffers)

    return taken


_Buffers: TypeAlias = Callable[[Places, Places], Sequence[pa.Buffer]]


def _content(
    kind: pa.DataType, arrays: Sequence[pa.Array], starts: Sequence[int]
) -> _Buffers | None:
    """Return what takes the buffers behind the validity; None for types without a loop."""
    if loops() is None:
        return None
    if arrow_types.is_boolean(kind):
        bits = _bits(arrays, 1, starts)
        return lambda numbers, places: [bits(numbers, places)]
    if arrow_types.is_string(kind) or arrow_types.is_binary(kind):
        return _byte_strings(arrays, starts, np.int32)
    if arrow_types.is_large_binary(kind):
        return _byte_strings(arrays, starts, np.int64)
    is_fixed = arrow_types.is_primitive(kind) or arrow_types.is_fixed_size_binary(kind)
    if not is_fixed and not arrow_types.is_decimal(kind):
        return None
    width, chunks = kind.bit_width // 8, _chunks(arrays, 1, starts)

    def fixed(numbers: Places, places: Places) -> Sequence[pa.Buffer]:
        taken = pa.allocate_buffer(len(places) * width)
        loops().take_fixed(*_rows(chunks, numbers, places), width, taken.address)
        return [taken]

    return fixed


def _chunks(arrays: Sequence[pa.Array], buffer: int, starts: Sequence[int]) -> Any:
    """Return the addresses and shifts of the loops, beside the arrays that they are of."""
    stored = [array.buffers()[buffer] for array in arrays]
    addresses = [0 if values is None else values.address for values in stored]
    shifts = [array.offset - start for array, start in zip(arrays, starts, strict=True)]
    return np.array([addresses, shifts], np.int64).T.copy(), arrays


def _rows(chunks: Any, numbers: Places, places: Places) -> tuple[int, ...]:
    of_rows = (address(array, np.int32) for array in (numbers, places))
    return (address(chunks[0], np.int64), *of_rows, len(places))


def _bits(arrays: Sequence[pa.Array], buffer: int, starts: Sequence[int]) -> Callable[..., Any]:
    chunks = _chunks(arrays, buffer, starts)

    def bits(numbers: Places, places: Places) -> pa.Buffer:
        taken = np.zeros((len(places) + 7) // 8, np.uint8)
        loops().take_bits(*_rows(chunks, numbers, places), address(taken, np.uint8))
        return pa.py_buffer(taken)

    return bits


def _byte_strings(arrays: Sequence[pa.Array], starts: Sequence[int], offset: Any) -> _Buffers:
    chunks = _chunks(arrays, 1, starts)
    stored = [array.buffers()[2] for array in arrays]
    contents = np.array([0 if octets is None else octets.address for octets in stored], np.int64)
    sizes = np.array([0 if octets is None else octets.size for octets in stored], np.int64)

    def byte_strings(numbers: Places, places: Places) -> Sequence[pa.Buffer]:
        first, ends = np.empty(len(places), np.int64), np.empty(len(places) + 1, np.int64)
        spans = address(first, np.int64), address(ends, np.int64)
        width = np.dtype(offset).itemsize
        loops().take_spans(*_rows(chunks, numbers, places), width, *spans)
        if ends[-1] > np.iinfo(offset).max:
            raise pa.ArrowInvalid("the values of a batch take too many bytes")
        octets = pa.allocate_buffer(int(ends[-1]) + _SPARE_BYTES)
        of_arrays = (address(array, np.int64) for array in (contents, sizes))
        of_rows = address(numbers, np.int32), len(places)
        loops().take_bytes(*of_arrays, *of_rows, *spans, octets.address)
        return [pa.py_buffer(ends.astype(offset)), octets.slice(0, int(ends[-1]))]

    return byte_strings
