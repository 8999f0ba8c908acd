"""Mumbling bitmaps, version 1: positions in a manifest, in containers of 256 bits.

A header, one descriptor byte for each container, packed as pfor.py does, and the containers:
up to 31 positions as sorted bytes, more as 32 bytes of bits, the first the most significant.
"""

import numpy as np
import numpy.typing as npt

from icectl.codec.draft_16025.pfor import decode_bytes, encode_bytes
from icectl.entries.columns.values import Integers, Mask, Octets, Positions
from icectl.errors import CorruptTable

MAX_POSITIONS = 2_097_152
"""The positions that there can be: no leaf has more rows."""

_VERSION = 1
_HEADER = 6
_BITS, _DENSE_SIZE = 256, 32
_DENSE = 0x20
_MOST_CONTAINERS = MAX_POSITIONS // _BITS


def write_mumbling(positions: npt.ArrayLike) -> bytes:
    """Write positions as a bitmap; they may come in any order, and more than once.

    Raises: ValueError, where one is too large for a bitmap.
    """
    numbers = np.asarray(positions, np.int64)
    if (np.diff(numbers) <= 0).any():
        numbers = np.unique(numbers)
    if len(numbers) and not 0 <= numbers[0] <= numbers[-1] < MAX_POSITIONS:
        raise ValueError(int(numbers[-1]))
    container, offset = numbers >> 8, (numbers & 255).astype(np.uint8)
    count = int(container[-1]) + 1 if len(numbers) else 0
    counts = np.bincount(container, minlength=count)
    is_dense = counts >= _DENSE_SIZE
    sizes = np.where(is_dense, _DENSE_SIZE, counts)
    starts = np.cumsum(sizes) - sizes
    body = np.empty(int(sizes.sum()), np.uint8)
    sparse = ~is_dense[container]
    rank = np.arange(len(numbers)) - (np.cumsum(counts) - counts)[container]
    body[(starts[container] + rank)[sparse]] = offset[sparse]
    body[_spans(starts[is_dense])] = _bits(container[~sparse], offset[~sparse], is_dense)
    header = bytes((_VERSION,)) + len(numbers).to_bytes(3, "little") + count.to_bytes(2, "little")
    return header + encode_bytes(np.minimum(counts, _DENSE).astype(np.uint8)) + body.tobytes()


def read_mumbling(content: bytes) -> Positions:
    """Read the positions of a bitmap.

    Order: ascending, each once.
    Raises: CorruptTable, when it is damaged, has bytes left over or is of another version (V4-202).
    """
    if len(content) < _HEADER:
        raise _damaged("it is shorter than an empty one")
    if content[0] != _VERSION:
        raise _damaged(f"it is of version {content[0]}")
    count = int.from_bytes(content[4:6], "little")
    if count > _MOST_CONTAINERS:
        raise _damaged(f"it has {count} containers")
    try:
        descriptors, start = decode_bytes(content, _HEADER, count)
    except ValueError as error:
        raise _damaged(str(error)) from None
    if (descriptors >> 6).any():
        raise _damaged("a container of it is of an unknown type")
    is_dense = descriptors >= _DENSE
    sizes = np.where(is_dense, _DENSE_SIZE, descriptors).astype(np.int64)
    if start + int(sizes.sum()) != len(content):
        raise _damaged("its containers end elsewhere than its bytes")
    body = np.frombuffer(content, np.uint8, offset=start)
    positions = _positions(body, sizes, is_dense)
    if len(positions) != int.from_bytes(content[1:4], "little"):
        raise _damaged(f"it has {len(positions)} positions, and states another number")
    if (np.diff(positions) <= 0).any():
        raise _damaged("the positions of a container do not ascend")
    return positions.astype(np.uint64)


def cardinality(content: bytes) -> int:
    """Return the number of positions that the header of a bitmap states."""
    return int.from_bytes(content[1:4], "little")


def _positions(body: Octets, sizes: Integers, is_dense: Mask) -> Integers:
    """Return positions in the order of the containers."""
    starts = np.cumsum(sizes) - sizes
    container = np.repeat(np.arange(len(sizes)), sizes)
    in_sparse = ~is_dense[container]
    sparse = container[in_sparse] << 8 | body[in_sparse]
    flags = np.unpackbits(body[_spans(starts[is_dense])], axis=1)
    row, offset = np.nonzero(flags)
    dense = np.flatnonzero(is_dense)[row] << 8 | offset
    if not len(dense):
        return sparse
    # Stable: what does not ascend inside of a container must stay so.
    joined = np.concatenate([sparse, dense])
    return joined[np.argsort(joined >> 8, kind="stable")]


def _spans(starts: Integers) -> Integers:
    """Return the places of the bytes of dense containers, one row each."""
    return starts[:, None] + np.arange(_DENSE_SIZE)


def _bits(container: Integers, offset: Octets, is_dense: Mask) -> Octets:
    """Return the bytes of dense containers, one row each."""
    rows = (np.cumsum(is_dense) - 1)[container]
    flags = np.zeros((int(is_dense.sum()), _BITS), np.uint8)
    flags[rows, offset] = 1
    return np.packbits(flags, axis=1)


def _damaged(reason: str) -> CorruptTable:
    return CorruptTable(f"a Mumbling bitmap is damaged: {reason}", rule="V4-202")  # V4-202
