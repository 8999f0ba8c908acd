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

from icectl.files.compiled import address, loops

PLAIN, SINGLE, DOUBLE = range(3)
"""What fixed-width values are: bits as they are, or floating-point numbers with one NaN."""

_Array = npt.NDArray[Any]
Hashes = npt.NDArray[np.uint64]
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NULL, _STEP = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_30, _27, _31, _32 = (np.uint64(bits) for bits in (30, 27, 31, 32))
_SIGNLESS = {SINGLE: np.uint64(0x7FFFFFFF), DOUBLE: np.uint64(0x7FFFFFFFFFFFFFFF)}
_INFINITY = {SINGLE: np.uint64(0x7F800000), DOUBLE: np.uint64(0x7FF0000000000000)}
_NAN = np.uint64(0x7FF8000000000000)
_WORD = 8
_NO_BITS = np.empty(0, np.uint8)
_NARROW = (pa.int8(), pa.int16())
"""Types that only shredded variants have."""

_GOLDEN = 0x9E3779B97F4A7C15


def row_hashes(columns: Sequence[pa.Array], row_count: int) -> Hashes:
    """Return the hash of each row of some columns. Order: kept."""
    hashes = np.zeros(row_count, np.uint64)
    for place, column in enumerate(columns):
        _add(hashes, column, np.uint64((place + 1) * _GOLDEN & (2**64 - 1)))
    return hashes


def sum_of(hashes: Hashes) -> int:
    """Return one number for a set of rows, whatever their order: that of all hashes, each mixed.

    No exchange of values between rows keeps it. Those of parts add up modulo 2**64.
    """
    if loops() is None:
        return int(_mixed(hashes).sum(dtype=np.uint64))
    return int(loops().total(*_sized(hashes)))


def _add(hashes: Hashes, column: pa.Array, seed: np.uint64) -> None:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if column.type in _NARROW:
        column = column.cast(pa.int32())
    kind, first = column.type, column.offset
    valid = _octets(column.buffers()[0]) if column.null_count else _NO_BITS
    if arrow_types.is_null(kind):
        return
    if arrow_types.is_struct(kind):
        inner = row_hashes([column.field(place) for place in range(kind.num_fields)], len(column))
        add_64(hashes, inner, PLAIN, valid, first, seed)
    elif arrow_types.is_list(kind) or arrow_types.is_map(kind):
        # Of each element of lists, or each entry of maps, from the first stored one on.
        is_map = arrow_types.is_map(kind)
        parts = [column.keys, column.items] if is_map else [column.values]
        elements = row_hashes(parts, len(parts[0]))
        add_lists(hashes, elements, _offsets(column), valid, first, seed)
    elif arrow_types.is_boolean(kind):
        add_bits(hashes, _octets(column.buffers()[1]), valid, first, seed)
    elif arrow_types.is_fixed_size_binary(kind) or arrow_types.is_decimal(kind):
        width = kind.bit_width // 8
        content = _octets(column.buffers()[1])[first * width : (first + len(column)) * width]
        add_fixed(hashes, content, width, valid, first, seed)
    elif arrow_types.is_string(kind) or arrow_types.is_binary(kind):
        add_bytes(hashes, _octets(column.buffers()[2]), _offsets(column), valid, first, seed)
    else:
        width = kind.bit_width // 8
        add, dtype = (add_32, "<u4") if width == 4 else (add_64, "<u8")
        # A buffer may be longer than its values by any number of bytes.
        content = _octets(column.buffers()[1])[first * width : (first + len(column)) * width]
        values = content.view(dtype)
        reals = {pa.float32(): SINGLE, pa.float64(): DOUBLE}
        add(hashes, values, reals.get(kind, PLAIN), valid, first, seed)


def _offsets(column: pa.Array) -> npt.NDArray[np.int64]:
    stored = np.frombuffer(column.buffers()[1] or b"\0" * 4, np.int32)
    return stored[column.offset : column.offset + len(column) + 1].astype(np.int64)


def _octets(buffer: Any) -> npt.NDArray[np.uint8]:
    return np.frombuffer(buffer or b"", np.uint8)


def add_32(
    hashes: Hashes, values: _Array, kind: int, valid: _Array, first: int, seed: np.uint64
) -> None:
    """Add values of 32 bits."""
    if loops() is None:
        _add_values(hashes, _one_nan(values.astype(np.uint64), kind) ^ seed, valid, first, seed)
        return
    loops().add_32(*_sized(hashes), address(values, np.uint32), kind, *_last(valid, first, seed))


def add_64(
    hashes: Hashes, values: _Array, kind: int, valid: _Array, first: int, seed: np.uint64
) -> None:
    """Add values of 64 bits; hashes of the elements of a column as well."""
    if loops() is None:
        _add_values(hashes, _one_nan(values, kind) ^ seed, valid, first, seed)
        return
    loops().add_64(*_sized(hashes), address(values, np.uint64), kind, *_last(valid, first, seed))


def add_bits(hashes: Hashes, values: _Array, valid: _Array, first: int, seed: np.uint64) -> None:
    """Add truth values, a bit each."""
    if loops() is None:
        _add_values(hashes, _bits(values, first, len(hashes)) ^ seed, valid, first, seed)
        return
    loops().add_bits(*_sized(hashes), address(values, np.uint8), *_last(valid, first, seed))


def add_fixed(
    hashes: Hashes, content: _Array, width: int, valid: _Array, first: int, seed: np.uint64
) -> None:
    """Add byte strings of one width, those of the rows alone."""
    if loops() is None:
        offsets = np.arange(len(hashes) + 1, dtype=np.int64) * width
        _add_values(hashes, _bytes(content, offsets, seed), valid, first, seed)
        return
    loops().add_fixed(
        *_sized(hashes), address(content, np.uint8), width, *_last(valid, first, seed)
    )


def add_bytes(
    hashes: Hashes, content: _Array, offsets: _Array, valid: _Array, first: int, seed: np.uint64
) -> None:
    """Add byte strings, each from its offset to the next."""
    if loops() is None:
        _add_values(hashes, _bytes(content, offsets, seed), valid, first, seed)
        return
    arrays = address(content, np.uint8), address(offsets, np.int64)
    loops().add_bytes(*_sized(hashes), *arrays, *_last(valid, first, seed))


def add_lists(
    hashes: Hashes, elements: Hashes, offsets: _Array, valid: _Array, first: int, seed: np.uint64
) -> None:
    """Add lists of elements that have a hash each, in their order."""
    if loops() is None:
        starts, lengths = offsets[:-1], np.diff(offsets)
        states: Hashes = seed ^ (lengths.astype(np.uint64) * _STEP)
        for place in range(int(lengths.max(initial=0))):
            rows = np.flatnonzero(lengths > place)
            states[rows] = _mixed(states[rows] ^ elements[starts[rows] + place])
        _add_states(hashes, states, valid, first, seed)
        return
    arrays = address(elements, np.uint64), address(offsets, np.int64)
    loops().add_lists(*_sized(hashes), *arrays, *_last(valid, first, seed))


def _sized(hashes: Hashes) -> tuple[int, int]:
    return address(hashes, np.uint64), len(hashes)


def _last(valid: _Array, first: int, seed: np.uint64) -> tuple[int | None, int, int]:
    return address(valid, np.uint8) if len(valid) else None, first, int(seed)


def _mixed(values: Hashes) -> Hashes:
    """Return numbers that depend on every bit of the values."""
    values = (values ^ (values >> _30)) * _FIRST
    values = (values ^ (values >> _27)) * _SECOND
    return values ^ (values >> _31)


def _add_values(hashes: Hashes, values: Hashes, valid: _Array, first: int, seed: np.uint64) -> None:
    _add_states(hashes, _mixed(values), valid, first, seed)


def _add_states(hashes: Hashes, states: Hashes, valid: _Array, first: int, seed: np.uint64) -> None:
    if len(valid):
        is_valid = _bits(valid, first, len(hashes)) == 1
        states = np.where(is_valid, states, _mixed(np.array([seed ^ _NULL])))
    hashes += states


def _bits(packed: _Array, first: int, count: int) -> Hashes:
    unpacked = np.unpackbits(packed, count=first + count, bitorder="little")
    return unpacked[first:].astype(np.uint64)


def _one_nan(values: Hashes, kind: int) -> Hashes:
    if kind == PLAIN:
        return values
    return np.where(values & _SIGNLESS[kind] > _INFINITY[kind], _NAN, values)


def _bytes(content: _Array, offsets: _Array, seed: np.uint64) -> Hashes:
    """Return what is mixed to make the hash of each byte string."""
    starts, lengths = offsets[:-1], np.diff(offsets)
    states: Hashes = seed ^ (lengths.astype(np.uint64) * _STEP)
    for at in range(0, int(lengths.max(initial=0)) - _WORD, _WORD):
        rows = np.flatnonzero(lengths - _WORD > at)
        state = (states[rows] ^ _words(content, starts[rows] + at)) * _STEP
        states[rows] = state ^ (state >> _32)
    long = np.flatnonzero(lengths >= _WORD)
    states[long] ^= _words(content, starts[long] + lengths[long] - _WORD)
    last = np.zeros(len(starts), np.uint64)
    for at in range(_WORD - 1):
        rows = np.flatnonzero((lengths < _WORD) & (lengths > at))
        last[rows] = (last[rows] << np.uint64(8)) | content[starts[rows] + at]
    return states ^ last


def _words(content: _Array, starts: _Array) -> Hashes:
    """Eight bytes from each start as one number."""
    words = np.zeros(len(starts), np.uint64)
    for byte in range(_WORD):
        words |= content[starts + byte].astype(np.uint64) << np.uint64(8 * byte)
    return words
