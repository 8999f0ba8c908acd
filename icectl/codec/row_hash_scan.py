"""Compiled loops of row_hash.py: each adds what one column is worth to the hash of every row.

`valid` is a bitmap of Arrow, empty where no row is null; rows of the column start at `first` in it
and in the values.
"""

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba import types

from icectl.codec.compiled import compiled

PLAIN, SINGLE, DOUBLE = range(3)
"""What fixed-width values are: bits as they are, or floating-point numbers with one NaN."""

_Array = npt.NDArray[Any]
_Number = Any
"""A 64-bit integer: numba and numpy types for it do not agree."""

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NULL, _STEP = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_30, _27, _31 = (np.uint64(bits) for bits in (30, 27, 31))
_1, _2, _3, _4, _5, _6, _7 = (np.uint64(count) for count in range(1, 8))
_8, _16, _24, _32, _40, _48, _56 = (np.uint64(bits) for bits in range(8, 64, 8))
_SINGLE_SIGNLESS, _SINGLE_INFINITY = np.uint64(0x7FFFFFFF), np.uint64(0x7F800000)
_DOUBLE_SIGNLESS = np.uint64(0x7FFFFFFFFFFFFFFF)
_DOUBLE_INFINITY = np.uint64(0x7FF0000000000000)
_NAN = np.uint64(0x7FF8000000000000)

_HASHES = types.Array(types.uint64, 1, "C")
_OCTETS = types.Array(types.uint8, 1, "C", readonly=True)
_OFFSETS = types.Array(types.int64, 1, "C", readonly=True)
_GIVEN = types.Array(types.uint64, 1, "C", readonly=True)


@numba.njit(nogil=True, forceinline=True)
def _mixed(value: _Number) -> _Number:
    """A number that depends on every bit of the value."""
    value = (value ^ (value >> _30)) * _FIRST
    value = (value ^ (value >> _27)) * _SECOND
    return value ^ (value >> _31)


@numba.njit(nogil=True, forceinline=True)
def _is_null(valid: _Array, place: _Number) -> bool:
    return len(valid) > 0 and not (valid[place >> 3] >> (place & 7)) & 1


@numba.njit(nogil=True, forceinline=True)
def _one_nan(value: _Number, kind: _Number) -> _Number:
    if kind == SINGLE and value & _SINGLE_SIGNLESS > _SINGLE_INFINITY:
        return _NAN
    if kind == DOUBLE and value & _DOUBLE_SIGNLESS > _DOUBLE_INFINITY:
        return _NAN
    return value


@numba.njit(nogil=True, forceinline=True)
def _word(content: _Array, start: _Number) -> _Number:
    """Eight bytes as one number: a single load once it is compiled."""
    at = np.uint64(start)  # numba indexes unsigned positions faster
    return (
        np.uint64(content[at])
        | np.uint64(content[at + _1]) << _8
        | np.uint64(content[at + _2]) << _16
        | np.uint64(content[at + _3]) << _24
        | np.uint64(content[at + _4]) << _32
        | np.uint64(content[at + _5]) << _40
        | np.uint64(content[at + _6]) << _48
        | np.uint64(content[at + _7]) << _56
    )


@numba.njit(nogil=True, forceinline=True)
def _bytes(content: _Array, start: _Number, end: _Number, seed: _Number) -> _Number:
    state = seed ^ (np.uint64(end - start) * _STEP)
    if end - start < 8:
        last = np.uint64(0)
        for at in range(start, end):
            last = (last << _8) | np.uint64(content[np.uint64(at)])
        return _mixed(state ^ last)
    for at in range(start, end - 8, 8):
        state = (state ^ _word(content, at)) * _STEP
        state ^= state >> _32
    return _mixed(state ^ _word(content, end - 8))


_FIXED_32 = types.Array(types.uint32, 1, "C", readonly=True)
_COMMON = (_OCTETS, types.int64, types.uint64)


@compiled(types.void(_HASHES, _FIXED_32, types.int64, *_COMMON))
def add_32(
    hashes: _Array, values: _Array, kind: _Number, valid: _Array, first: _Number, seed: _Number
) -> None:
    """Values of 32 bits."""
    null = _mixed(seed ^ _NULL)
    for row in range(len(hashes)):
        if _is_null(valid, first + row):
            hashes[row] += null
        else:
            value = _one_nan(np.uint64(values[row]), kind)
            hashes[row] += _mixed(value ^ seed)


@compiled(types.void(_HASHES, _GIVEN, types.int64, *_COMMON))
def add_64(
    hashes: _Array, values: _Array, kind: _Number, valid: _Array, first: _Number, seed: _Number
) -> None:
    """Values of 64 bits; hashes of the elements of a column as well."""
    null = _mixed(seed ^ _NULL)
    for row in range(len(hashes)):
        if _is_null(valid, first + row):
            hashes[row] += null
        else:
            hashes[row] += _mixed(_one_nan(values[row], kind) ^ seed)


@compiled(types.void(_HASHES, _OCTETS, _OCTETS, types.int64, types.uint64))
def add_bits(hashes: _Array, values: _Array, valid: _Array, first: _Number, seed: _Number) -> None:
    """Truth values, a bit each."""
    null = _mixed(seed ^ _NULL)
    for row in range(len(hashes)):
        place = first + row
        if _is_null(valid, place):
            hashes[row] += null
        else:
            bit = np.uint64((values[place >> 3] >> (place & 7)) & 1)
            hashes[row] += _mixed(bit ^ seed)


@compiled(types.void(_HASHES, _OCTETS, types.int64, *_COMMON))
def add_fixed(
    hashes: _Array, content: _Array, width: _Number, valid: _Array, first: _Number, seed: _Number
) -> None:
    """Byte strings of one width, those of the rows alone."""
    null = _mixed(seed ^ _NULL)
    for row in range(len(hashes)):
        if _is_null(valid, first + row):
            hashes[row] += null
        else:
            hashes[row] += _bytes(content, row * width, (row + 1) * width, seed)


@compiled(types.void(_HASHES, _OCTETS, _OFFSETS, *_COMMON))
def add_bytes(
    hashes: _Array, content: _Array, offsets: _Array, valid: _Array, first: _Number, seed: _Number
) -> None:
    """Byte strings, each from its offset to the next."""
    null = _mixed(seed ^ _NULL)
    for row in range(len(hashes)):
        if _is_null(valid, first + row):
            hashes[row] += null
        else:
            hashes[row] += _bytes(content, offsets[row], offsets[row + 1], seed)


@compiled(types.void(_HASHES, _GIVEN, _OFFSETS, *_COMMON))
def add_lists(
    hashes: _Array, elements: _Array, offsets: _Array, valid: _Array, first: _Number, seed: _Number
) -> None:
    """Lists of elements that have a hash each, in their order."""
    null = _mixed(seed ^ _NULL)
    for row in range(len(hashes)):
        if _is_null(valid, first + row):
            hashes[row] += null
            continue
        state = seed ^ (np.uint64(offsets[row + 1] - offsets[row]) * _STEP)
        for place in range(offsets[row], offsets[row + 1]):
            state = _mixed(state ^ elements[place])
        hashes[row] += state


@compiled(types.uint64(_GIVEN))
def total(hashes: _Array) -> _Number:
    """The sum of all rows, each mixed, so that no exchange of values between rows keeps it."""
    found = np.uint64(0)
    for row in range(len(hashes)):
        found += _mixed(hashes[row])
    return found
