"""Shapes as well-known binary, written by hand: geometry, dimensions and byte order as wanted."""

import struct
from collections.abc import Sequence
from typing import Any

POINT, LINE, POLYGON, MULTI_POINT, MULTI_LINE, MULTI_POLYGON, COLLECTION = range(1, 8)
XY, XYZ, XYM, XYZM = range(4)


def wkb(kind: int, parts: Any, dimensions: int = XY, order: str = "<") -> bytes:
    """A shape of a kind.

    `parts` are the numbers of a point, the points of a line, the rings of a polygon, `parts` of a
    multi shape, and of a collection shapes as bytes.
    """
    header = bytes([order == "<"]) + struct.pack(f"{order}I", 1000 * dimensions + kind)
    if kind == POINT:
        return header + _numbers(parts, order)
    header += struct.pack(f"{order}I", len(parts))
    if kind == LINE:
        return header + b"".join(_numbers(one, order) for one in parts)
    if kind == POLYGON:
        return header + b"".join(
            struct.pack(f"{order}I", len(ring)) + b"".join(_numbers(one, order) for one in ring)
            for ring in parts
        )
    if kind == COLLECTION:
        return header + b"".join(parts)
    return header + b"".join(wkb(kind - 3, one, dimensions, order) for one in parts)


def point(x: float, y: float) -> bytes:
    """A point."""
    return wkb(POINT, (x, y))


def line(*points: Sequence[float]) -> bytes:
    """A line through points."""
    return wkb(LINE, points)


def _numbers(values: Sequence[float], order: str) -> bytes:
    return struct.pack(f"{order}{len(values)}d", *values)
