"""The hash of bucket transforms over whole columns: 32-bit murmur3 with seed 0 (R-073)."""

import numpy as np
import numpy.typing as npt

from icectl.entries.columns.values import Integers, Octets, Spans
from icectl.spec.transforms import bucket_hash
from icectl.spec.types import PrimitiveType

Words = npt.NDArray[np.uint32]

_FIRST, _SECOND = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_FIVE, _ADDED = np.uint32(5), np.uint32(0xE6546B64)
_LAST = ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1))
_LONG_STRING = 4096
"""Bytes from which one value at a time is faster than one step over all values per 4 bytes."""


def hash_longs(values: Integers) -> Words:
    """Return the hash of each value as 8 bytes, little-endian (R-075)."""
    words = np.ascontiguousarray(values, "<i8").view("<u4").reshape(-1, 2)
    state = np.zeros(len(words), np.uint32)
    for column in (0, 1):
        state = _stirred(state, words[:, column])
    return _finished(state, np.full(len(words), 8, np.uint32))


def hash_bytes(spans: Spans) -> Words:
    """Return the hash of each byte string."""
    long = np.flatnonzero(spans.lengths > _LONG_STRING)
    lengths = spans.lengths.copy()
    lengths[long] = 0
    order = np.argsort(-lengths, kind="stable")
    state = np.empty(len(order), np.uint32)
    state[order] = _hash_falling(spans.content, spans.starts[order], lengths[order])
    for row in long:
        start, length = int(spans.starts[row]), int(spans.lengths[row])
        content = spans.content[start : start + length].tobytes()
        state[row] = bucket_hash(PrimitiveType("binary"), content) & 0xFFFFFFFF
    return state


def _hash_falling(content: Octets, starts: Integers, lengths: Integers) -> Words:
    """Return the hash of byte strings, the longest first."""
    state = np.zeros(len(starts), np.uint32)
    words = _words(content)
    block_counts = lengths // 4
    for block in range(int(block_counts[0]) if len(starts) else 0):
        active = int(np.searchsorted(-block_counts, -block))  # those that have this block
        state[:active] = _stirred(state[:active], words[starts[:active] + 4 * block])
    tail = np.zeros(len(starts), np.uint32)
    for place in range(3):
        rows = np.flatnonzero(lengths % 4 > place)
        octets = content[starts[rows] + 4 * block_counts[rows] + place]
        tail[rows] |= octets.astype(np.uint32) << np.uint32(8 * place)
    return _finished(state ^ _mixed(tail), lengths.astype(np.uint32))


def _words(content: Octets) -> Words:
    """Return the four bytes from every position on, as one number."""
    return np.ndarray(max(len(content) - 3, 0), "<u4", content.data, strides=(1,))


def _mixed(words: Words) -> Words:
    return _rotated(words * _FIRST, 15) * _SECOND


def _stirred(state: Words, words: Words) -> Words:
    return _rotated(state ^ _mixed(words), 13) * _FIVE + _ADDED


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _finished(state: Words, lengths: Words) -> Words:
    state = state ^ lengths
    for shift, factor in _LAST:
        state = (state ^ (state >> np.uint32(shift))) * np.uint32(factor)
    return state
