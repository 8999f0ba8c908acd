"""Positions of deleted rows: blobs of type deletion-vector-v1, and bare bitmaps of manifest DVs.

This module reads the containers itself: pyroaring checks only the end of the buffer, and a damaged
file must raise CorruptTable. pyroaring writes them.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from icectl.errors import CorruptTable, Unsupported
from icectl.files.puffin import NewBlob

BLOB_TYPE = "deletion-vector-v1"
MAGIC = bytes.fromhex("d1d33964")
REFERENCED_DATA_FILE = "referenced-data-file"
CARDINALITY = "cardinality"

_POSITION_FIELD_ID = 2147483645
"""Reserved field id of `_pos` (R-019), as the reference implementation names it in the blob."""
_PLAIN_COOKIE = 12346
_RUN_COOKIE = 12347
_NO_OFFSETS_BELOW = 4
_ARRAY_MAX = 4096
_BITSET_SIZE = 8192

_MOST_POSITIONS = 2**26
"""Positions of one vector, whatever its entry says: half a GiB."""

_AT_ONCE = 1 << 20
"""Positions that pyroaring takes at once: it copies them twice."""

Positions = npt.NDArray[np.uint64]
_Part = tuple[int, npt.NDArray[np.uint16]]
"""The first position that a container may have, and how much further on its positions are."""


def read_dv(blob: bytes, expected: int | None = None) -> Positions:
    """Read the positions of a deletion vector, as many as `expected` where that is known.

    Order: ascending, each once.
    Raises: CorruptTable, when the length, the magic, the checksum or the bitmap is wrong (R-119),
    or there are more positions than expected (R-118); Unsupported, for more than memory holds.
    """
    if len(blob) < 20:
        raise _corrupt("it is shorter than an empty one")
    size = int.from_bytes(blob[:4], "big")
    if size != len(blob) - 8:
        raise _corrupt(f"it says {size} bytes and has {len(blob) - 8}")
    if blob[4:8] != MAGIC:
        raise _corrupt("its magic bytes are wrong")
    if zlib.crc32(blob[4:-4]) != int.from_bytes(blob[-4:], "big"):
        raise _corrupt("its checksum is wrong")
    return read_positions(blob[8:-4], expected)


def check_cardinality(positions: Positions, expected: int) -> None:
    """Check the number of positions by a manifest or footer. Raises: CorruptTable (R-118)."""
    if len(positions) != expected:
        message = f"a deletion vector has {len(positions)} positions where {expected} are stated"
        raise CorruptTable(message, rule="R-118")


def write_dv(positions: npt.ArrayLike) -> bytes:
    """Write positions as a deletion vector; they may come in any order, and more than once."""
    return _counted_dv(positions)[1]


def _counted_dv(positions: npt.ArrayLike) -> tuple[int, bytes]:
    """Return how many positions there are, and a deletion vector of them."""
    from pyroaring import BitMap64

    numbers = np.asarray(positions)
    # Not copied, as there may be millions; a negative one is too large then.
    signless = numbers.view(np.uint64) if numbers.dtype == np.int64 else numbers
    numbers = np.asarray(signless, np.uint64)
    if len(numbers) and int(numbers.max()) >= 1 << 63:
        raise ValueError(int(numbers.max()))
    bitmap = BitMap64()
    for start in range(0, len(numbers), _AT_ONCE):
        bitmap |= BitMap64(numbers[start : start + _AT_ONCE])
    bitmap.run_optimize()
    vector = MAGIC + bitmap.serialize()
    checksum = zlib.crc32(vector).to_bytes(4, "big")
    return len(bitmap), len(vector).to_bytes(4, "big") + vector + checksum


def dv_blob(positions: npt.ArrayLike, data_file: str) -> NewBlob:
    """Return a blob for `write_puffin` that deletes positions of one data file (R-119)."""
    count, content = _counted_dv(positions)
    return NewBlob(
        type=BLOB_TYPE,
        fields=(_POSITION_FIELD_ID,),
        snapshot_id=-1,
        sequence_number=-1,
        content=content,
        properties={REFERENCED_DATA_FILE: data_file, CARDINALITY: str(count)},
    )


def read_positions(bitmap: bytes, expected: int | None = None) -> Positions:
    """Read a portable 64-bit Roaring bitmap; order, errors and `expected` are as of read_dv."""
    reader = _Reader(bitmap, expected)
    parts: list[_Part] = []
    last_key = -1
    for _ in range(reader.number("<Q")):
        key = reader.number("<I")
        if not last_key < key < 1 << 31:
            raise _corrupt("the keys of its bitmaps do not ascend")
        last_key = key
        parts += [(key << 32 | first, low) for first, low in _bitmap32(reader)]
    if reader.offset != len(bitmap):
        raise _corrupt("bytes follow its bitmap")
    return _together(parts)


def read_bitmap(content: bytes, expected: int | None = None) -> Positions:
    """Read a bare 32-bit Roaring bitmap (sfc-1 6.3) as read_dv does; damage is of V4-082."""
    reader = _Reader(content, expected)
    try:
        parts = _bitmap32(reader)
        if reader.offset != len(content):
            raise _corrupt("bytes follow its bitmap")
    except CorruptTable as error:
        message = error.what
        raise CorruptTable(message, rule="V4-082") from error  # V4-082
    return _together(parts)


def write_bitmap(positions: npt.ArrayLike) -> bytes:
    """Write positions as a bare portable 32-bit Roaring bitmap, byte for byte as in sfc-1 6.4."""
    from pyroaring import BitMap

    bitmap = BitMap(np.asarray(positions, dtype=np.uint32))
    bitmap.run_optimize()
    content: bytes = bitmap.serialize()
    return content


class _Reader:
    def __init__(self, content: bytes, expected: int | None) -> None:
        self.content = content
        self.offset = 0
        most = _MOST_POSITIONS if expected is None else min(expected, _MOST_POSITIONS)
        self._most = self._left = most

    def count(self, positions: int) -> None:
        """Count positions that follow. Raises: CorruptTable R-118, Unsupported."""
        self._left -= positions
        if self._left < 0 and self._most < _MOST_POSITIONS:
            message = f"a deletion vector has more positions than are stated, {self._most:,}"
            raise CorruptTable(message, rule="R-118")
        if self._left < 0:
            raise Unsupported(f"a deletion vector has more than {_MOST_POSITIONS:,} positions")

    def take(self, size: int) -> bytes:
        """Take the next bytes. Raises: CorruptTable R-119, where there are not so many."""
        part = self.content[self.offset : self.offset + size]
        if len(part) != size:
            raise _corrupt("its bitmap is cut short")
        self.offset += size
        return part

    def number(self, code: str) -> int:
        """Take a number, by its struct code."""
        value: int = struct.unpack(code, self.take(struct.calcsize(code)))[0]
        return value

    def array(self, kind: str, count: int) -> npt.NDArray[Any]:
        """Take so many numbers of a dtype."""
        dtype = np.dtype(kind)
        return np.frombuffer(self.take(count * dtype.itemsize), dtype)


def _together(parts: Sequence[_Part]) -> Positions:
    positions = np.empty(sum(len(low) for _, low in parts), np.uint64)
    at = 0
    for first, low in parts:
        np.add(low, np.uint64(first), out=positions[at : at + len(low)])
        at += len(low)
    return positions


def _bitmap32(reader: _Reader) -> list[_Part]:
    cookie = reader.number("<I")
    runs: npt.NDArray[np.uint8] | None = None
    if cookie & 0xFFFF == _RUN_COOKIE:
        container_count = (cookie >> 16) + 1
        flags = reader.array("u1", (container_count + 7) // 8)
        runs = np.unpackbits(flags, bitorder="little")
    elif cookie == _PLAIN_COOKIE:
        container_count = reader.number("<I")
    else:
        raise _corrupt("a bitmap of it begins with an unknown cookie")
    header = reader.array("<u2", 2 * container_count).reshape(-1, 2).astype(np.int64)
    if container_count > 1 and (np.diff(header[:, 0]) <= 0).any():
        raise _corrupt("the keys of its containers do not ascend")
    reader.count(int(header[:, 1].sum()) + container_count)
    if runs is None or container_count >= _NO_OFFSETS_BELOW:
        reader.take(4 * container_count)
    return [
        (
            int(key) << 16,
            _container(reader, int(less) + 1, is_run=runs is not None and bool(runs[place])),
        )
        for place, (key, less) in enumerate(header)
    ]


def _container(reader: _Reader, cardinality: int, *, is_run: bool) -> npt.NDArray[np.uint16]:
    if is_run:
        pairs = reader.array("<u2", 2 * reader.number("<H")).astype(np.int64)
        starts, lengths = pairs[0::2], pairs[1::2] + 1
        if int(lengths.sum()) != cardinality:
            raise _corrupt("the runs of a container contradict its header")
        before = np.cumsum(lengths) - lengths
        values = np.repeat(starts - before, lengths) + np.arange(cardinality)
    elif cardinality <= _ARRAY_MAX:
        values = reader.array("<u2", cardinality).astype(np.int64)
    else:
        bits = np.unpackbits(reader.array("u1", _BITSET_SIZE), bitorder="little")
        values = np.flatnonzero(bits)
    if len(values) != cardinality or (np.diff(values) <= 0).any() or values[-1] > 0xFFFF:
        raise _corrupt("a container of it contradicts its header")
    return values.astype(np.uint16)


def _corrupt(reason: str) -> CorruptTable:
    return CorruptTable(f"a deletion vector is damaged: {reason}", rule="R-119")
