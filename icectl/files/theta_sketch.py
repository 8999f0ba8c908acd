"""Theta sketches: how many different values a column has, about, in the form of DataSketches.

A sketch holds the hashes below a limit, `theta`, of all values that it has seen. So sketches of
parts are one sketch of the whole, and a value that is seen twice counts once. What is stored is the
compact form that Java's DataSketches reads (R-140). Hashes are of values as Iceberg stores single
ones, so that sketches of all writers of a table can be united.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as arrow_types

from icectl.errors import CorruptTable, Unsupported
from icectl.files.compiled import address, loops

BLOB_TYPE = "apache-datasketches-theta-v1"
MOST_HASHES = 4096
"""Hashes of a sketch, which tell the number of values within 3 % in 19 of 20 cases."""

_MAX_THETA = 2**63 - 1
_SEED = 9001
_SEED_HASH = 0x93CC
_COMPACT_FAMILY, _VERSION = 3, 3
_BIG_ENDIAN, _READ_ONLY, _EMPTY, _COMPACT, _ORDERED, _SINGLE = (1 << bit for bit in range(6))
_HEAD = struct.Struct("<BBBBBBH")
_COUNTS = struct.Struct("<if")
_NO_HASHES = np.empty(0, np.uint64)
_CHUNK_ROWS = 1 << 15
"""Values that are hashed at once: their words stay in the cache of a processor."""

_WAITING_HASHES = 16 * MOST_HASHES

Hashes = npt.NDArray[np.uint64]
Octets = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ThetaSketch:
    """The hashes of values below `theta`, each once, ascending; with theta at its most, all."""

    hashes: Hashes
    theta: int = _MAX_THETA

    @property
    def estimate(self) -> float:
        """The number of different values; exact where all hashes are kept."""
        return len(self.hashes) / (self.theta / _MAX_THETA)

    @property
    def is_exact(self) -> bool:
        return self.theta == _MAX_THETA

    def to_bytes(self) -> bytes:
        """Return the compact form, ordered."""
        count = len(self.hashes)
        is_empty, is_single = self.is_exact and not count, self.is_exact and count == 1
        flags = _READ_ONLY | _COMPACT | _ORDERED
        flags |= (_EMPTY if is_empty else 0) | (_SINGLE if is_single else 0)
        words = 1 if is_empty or is_single else 2 if self.is_exact else 3
        parts = [_HEAD.pack(words, _VERSION, _COMPACT_FAMILY, 0, 0, flags, _SEED_HASH)]
        if words > 1:
            parts.append(_COUNTS.pack(count, 1.0))
        if words > 2:
            parts.append(struct.pack("<q", self.theta))
        return b"".join([*parts, self.hashes.astype("<u8").tobytes()])


NO_VALUES = ThetaSketch(_NO_HASHES)


def read_sketch(content: bytes) -> ThetaSketch:
    """Read a compact sketch. Raises: CorruptTable R-140; Unsupported, for another form or seed."""
    if len(content) < _HEAD.size:
        raise _damaged("it is cut short")
    words, version, family, _, _, flags, seed_hash = _HEAD.unpack_from(content)
    words &= 0x3F
    if family != _COMPACT_FAMILY or version != _VERSION or flags & _BIG_ENDIAN:
        raise Unsupported(f"a theta sketch has the unknown form {content[:6].hex()}")
    if flags & _EMPTY:
        return NO_VALUES
    if seed_hash != _SEED_HASH:
        raise Unsupported("a theta sketch is of hashes with another seed")
    count, theta = 1, _MAX_THETA
    if words > 1 and len(content) >= 8 * words:
        count, _ = _COUNTS.unpack_from(content, 8)
    if words > 2 and len(content) >= 8 * words:
        (theta,) = struct.unpack_from("<q", content, 16)
    stored = content[8 * words :]
    if not 1 <= words <= 3 or count < 0 or len(stored) != 8 * count:
        raise _damaged("its hashes are not as many as it says")
    hashes = np.unique(np.frombuffer(stored, "<u8").astype(np.uint64))
    if len(hashes) != count or theta <= 0 or (count and not 0 < hashes[0] <= hashes[-1] < theta):
        raise _damaged("a hash occurs twice, or is outside of its limits")
    return ThetaSketch(hashes, theta)


def union(sketches: Iterable[ThetaSketch], most: int = MOST_HASHES) -> ThetaSketch:
    """Return the sketch of all values that any of the sketches has seen."""
    builder = SketchBuilder(most)
    for sketch in sketches:
        builder.add_sketch(sketch)
    return builder.sketch()


class SketchBuilder:
    """A sketch that grows: at most `most` hashes, once it is asked for."""

    def __init__(self, most: int = MOST_HASHES) -> None:
        self._most = most
        self._theta = _MAX_THETA
        self._parts: list[Hashes] = []
        self._waiting = 0

    def add(self, column: pa.Array) -> None:
        """Add the values of a column in the table's type; nulls and empty texts are none.

        Raises: Unsupported, for a type that has no sketch.
        """
        content, starts, ends = _octets_of(column)
        for first in range(0, len(starts), _CHUNK_ROWS):
            part = slice(first, first + _CHUNK_ROWS)
            self._add(_hashes(content, starts[part], ends[part], self._theta))

    def add_sketch(self, sketch: ThetaSketch) -> None:
        """Add all values that another sketch has seen."""
        self._theta = min(self._theta, sketch.theta)
        self._add(sketch.hashes)

    def _add(self, hashes: Hashes) -> None:
        self._parts.append(hashes)
        self._waiting += len(hashes)
        if self._waiting > _WAITING_HASHES:
            self._settle()

    def _settle(self) -> None:
        hashes = np.unique(np.concatenate([_NO_HASHES, *self._parts]))
        hashes = hashes[hashes < self._theta]
        if len(hashes) > self._most:
            self._theta = int(hashes[self._most])
            hashes = hashes[: self._most]
        self._parts, self._waiting = [hashes], len(hashes)

    def sketch(self) -> ThetaSketch:
        """Return the sketch of all values so far."""
        self._settle()
        return ThetaSketch(self._parts[0], self._theta)


def _octets_of(column: pa.Array) -> tuple[Octets, Offsets, Offsets]:
    """Return bytes, and where each value begins and ends in them, as Iceberg stores single values.

    Order: kept, without nulls.
    """
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    column = column.drop_null() if column.null_count else column
    kind, count = column.type, len(column)
    if arrow_types.is_boolean(kind):
        column, width = column.cast(pa.uint8()), 1
    elif arrow_types.is_string(kind) or arrow_types.is_binary(kind):
        stored = np.frombuffer(column.buffers()[1] or bytes(4), np.int32)
        offsets = stored[column.offset : column.offset + count + 1].astype(np.int64)
        return _octets(column.buffers()[2]), offsets[:-1].copy(), offsets[1:].copy()
    elif any(
        is_of(kind)
        for is_of in (
            arrow_types.is_primitive,
            arrow_types.is_decimal,
            arrow_types.is_fixed_size_binary,
        )
    ):
        width = kind.bit_width // 8
    else:
        raise Unsupported(f"values of {kind} have no sketch")
    starts = np.arange(column.offset, column.offset + count, dtype=np.int64) * width
    content = _octets(column.buffers()[1])
    if arrow_types.is_decimal(kind):
        numbers = content.reshape(-1, width)[:, ::-1]
        own = numbers[column.offset : column.offset + count]
        return np.ascontiguousarray(numbers).reshape(-1), starts + _surplus(own), starts + width
    return content, starts, starts + width


def _octets(buffer: pa.Buffer | None) -> Octets:
    return np.frombuffer(buffer or b"", np.uint8)


def _surplus(numbers: Octets) -> Offsets:
    """Return how many bytes of each number, the highest first, say no more than its sign."""
    signs = np.where(numbers[:, 0] >= 128, 255, 0).astype(np.uint8)
    count = np.zeros(len(numbers), np.int64)
    is_surplus = np.ones(len(numbers), np.bool_)
    for byte, following in pairwise(numbers.T):
        is_surplus &= (byte == signs) & ((following ^ signs) < 128)
        count += is_surplus
    return count


def _hashes(content: Octets, starts: Offsets, ends: Offsets, theta: int) -> Hashes:
    """Return the upper 63 bits of the first half of MurmurHash3_x64_128 of values, below theta."""
    if loops() is not None:
        hashes = np.empty(len(starts), np.uint64)
        places = (address(of, np.int64) for of in (starts, ends))
        arrays = address(hashes, np.uint64), address(content, np.uint8), *places
        return hashes[: loops().sketch(*arrays, len(starts), _SEED, theta)]
    parts = [_NO_HASHES]
    lengths = ends - starts
    for length in np.unique(lengths[lengths > 0]).tolist():
        places = starts[lengths == length][:, None] + np.arange(length)
        hashes = _murmur(content[places])
        parts.append(hashes[(hashes > 0) & (hashes < theta)])
    return np.concatenate(parts)


def _murmur(octets: Octets) -> Hashes:
    count, length = octets.shape
    padded = np.zeros((count, -length % 16 + length), np.uint8)
    padded[:, :length] = octets
    words = np.ascontiguousarray(padded.view("<u8").T)
    first = np.full(count, _SEED, np.uint64)
    second = first.copy()
    for at in range(0, len(words), 2):
        first ^= _rotated(words[at] * _C1, 31) * _C2
        is_whole = 8 * at + 16 <= length
        if is_whole:
            first = (_rotated(first, 27) + second) * np.uint64(5) + np.uint64(0x52DCE729)
        second ^= _rotated(words[at + 1] * _C2, 33) * _C1
        if is_whole:
            second = (_rotated(second, 31) + first) * np.uint64(5) + np.uint64(0x38495AB5)
    first, second = first ^ np.uint64(length), second ^ np.uint64(length)
    first = first + second
    return (_final(first) + _final(second + first)) >> np.uint64(1)


_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_F1, _F2, _33 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53), np.uint64(33)


def _rotated(words: Hashes, bits: int) -> Hashes:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _final(words: Hashes) -> Hashes:
    words = (words ^ (words >> _33)) * _F1
    words = (words ^ (words >> _33)) * _F2
    return words ^ (words >> _33)


def _damaged(reason: str) -> CorruptTable:
    return CorruptTable(f"a theta sketch is damaged: {reason}", rule="R-140")
