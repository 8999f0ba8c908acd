"""Arrays of bytes in patched frames of reference: most values in few bits, exceptions apart.

Appendix A of the Mumbling bitmap specification. Values go in chunks of 256; of each the minimum is
taken off, the low bits of all are packed, and the high bits of those that have more follow.
"""

import numpy as np

from icectl.entries.columns.values import Octets

CHUNK = 256
_HEADER = 3
_WEIGHTS = 1 << np.arange(8)


def encode_bytes(values: Octets) -> bytes:
    """Encode an array of bytes, each chunk as short as this encoding makes it."""
    chunks = (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))
    return b"".join(map(_encoded, chunks))


def decode_bytes(content: bytes, start: int, count: int) -> tuple[Octets, int]:
    """Decode `count` values from a place on, and say where they end.

    Raises: ValueError, with what is wrong, where these bytes are none of the encoding.
    """
    values = np.empty(count, np.uint8)
    for first in range(0, count, CHUNK):
        part = values[first : first + CHUNK]
        start = _decode_chunk(content, start, part)
    return values, start


def _encoded(chunk: Octets) -> bytes:
    lowest = int(chunk.min())
    normal = chunk - np.uint8(lowest)
    width, rest = _widths(normal)
    if width == 8:
        return bytes((8, 0, 0)) + chunk.tobytes()
    at = np.flatnonzero(normal >> width)
    header = bytes((width | rest << 4, len(at), lowest))
    low = normal & np.uint8((1 << width) - 1)
    places = at.astype(np.uint8).tobytes()
    return header + _packed(low, width) + places + _packed(normal[at] >> np.uint8(width), rest)


def _widths(normal: Octets) -> tuple[int, int]:
    """Choose the bits of every value and those of exceptions; of equal sizes the fewest bits."""
    needed = np.digitize(normal, _WEIGHTS)
    of_width = np.bincount(needed, minlength=9)
    largest = int(needed.max())
    best, best_size = 0, 1 << 30
    for width in range(largest + 1):
        count = int(of_width[width + 1 :].sum())
        size = _size(len(normal), width) + count + _size(count, largest - width)
        if size < best_size:
            best, best_size = width, size
    return best, largest - best


def _size(count: int, width: int) -> int:
    return (count * width + 7) // 8


def _packed(values: Octets, width: int) -> bytes:
    if not width:
        return b""
    bits = np.unpackbits(values[:, None], axis=1)[:, 8 - width :]
    return np.packbits(bits).tobytes()


def _decode_chunk(content: bytes, start: int, values: Octets) -> int:
    """Decode one chunk into its place; say where it ends. Raises: ValueError."""
    header = content[start : start + _HEADER]
    if len(header) < _HEADER:
        raise ValueError("its descriptors are cut short")
    width, rest, count, lowest = header[0] & 15, header[0] >> 4, header[1], header[2]
    if width > 8 or width + rest > 8 or (width == 8 and count) or count > len(values):
        raise ValueError("the header of its descriptors makes no sense")
    start += _HEADER
    low, start = _unpacked(content, start, len(values), width)
    places, start = _unpacked(content, start, count, 8)
    high, start = _unpacked(content, start, count, rest)
    if count:
        if places[-1] >= len(values) or (np.diff(places.astype(np.int64)) <= 0).any():
            raise ValueError("exceptions of its descriptors are not in order")
        low[places] |= high << np.uint8(width)
    if len(low) and int(low.max()) + lowest > 255:
        raise ValueError("one of its descriptors is more than a byte")
    np.add(low, np.uint8(lowest), out=values)
    return start


def _unpacked(content: bytes, start: int, count: int, width: int) -> tuple[Octets, int]:
    """Unpack values of so many bits, and say where they end. Raises: ValueError."""
    end = start + _size(count, width)
    if end > len(content):
        raise ValueError("its descriptors are cut short")
    stored = np.frombuffer(content, np.uint8, end - start, start)
    if width == 8:
        return stored.copy(), end
    bits = np.zeros((count, 8), np.uint8)
    if width:
        flat = np.unpackbits(stored, count=count * width)
        bits[:, 8 - width :] = flat.reshape(count, width)
    return np.packbits(bits, axis=1).reshape(count), end
