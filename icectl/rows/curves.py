"""Places of rows along curves through the values of columns: in Z-order, and in Hilbert order."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from icectl.entries.columns import Octets

Words = npt.NDArray[np.uint64]

BYTES = 8
"""Bytes of each column in a place: of text and bytes the beginning."""

_HILBERT_BITS = 20


def hilbert(words: Sequence[Words]) -> list[Words]:
    """Return numbers whose bits in turn, the highest first, are places on a Hilbert curve.

    The curve goes through the highest 20 bits of each. Method: J. Skilling, Programming the Hilbert
    curve, 2004.
    """
    axes = [word.copy() for word in words]
    first, last = axes[0], axes[-1]
    bits = [np.uint64(1 << (63 - level)) for level in range(_HILBERT_BITS)]
    whole = np.uint64(2**64 - (1 << (64 - _HILBERT_BITS)))
    for bit in bits[:-1]:
        below = np.uint64(bit - np.uint64(1)) & whole
        for axis in axes:
            is_set = (axis & bit) != 0
            first ^= np.where(is_set, below, np.uint64(0))
            swapped = np.where(is_set, np.uint64(0), (first ^ axis) & below)
            first ^= swapped
            np.bitwise_xor(axis, swapped, out=axis)
    for before, axis in pairwise(axes):
        np.bitwise_xor(axis, before, out=axis)
    turned = np.zeros_like(first)
    for bit in bits[:-1]:
        turned ^= np.where((last & bit) != 0, np.uint64(bit - np.uint64(1)) & whole, np.uint64(0))
    return [axis ^ turned for axis in axes]


def bits_in_turn(words: Sequence[Words]) -> Octets:
    """Return the bits of all columns in turn, the highest first."""
    count = len(words[0])
    stacked = np.ascontiguousarray(np.stack(words, axis=1), ">u8")
    bits = np.unpackbits(stacked.view(np.uint8).reshape(count, len(words), BYTES), axis=2)
    in_turn = bits.transpose(0, 2, 1).reshape(count, 8 * BYTES * len(words))
    return np.packbits(in_turn, axis=1)
