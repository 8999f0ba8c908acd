"""Bounding boxes of geometry and geography, and their corners as bounds of a column (R-093)."""

import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Corner = tuple[float, float, float, float]
"""x, y, z, m; NaN where a dimension has no value."""

CORNER_LENGTHS = (16, 24, 32)
"""Bytes of a corner as a bound."""

WEST, EAST, NORTH = -180.0, 180.0, 90.0
"""The least and the greatest longitude of a geography, in degrees, which are the same place; and
its greatest latitude.
"""

_Longitudes = tuple[float, float]
_POINT = re.compile(r"POINT *(Z|M|ZM)? *\( *([^()]*?) *\)", re.IGNORECASE)
_KINDS = {(False, False): "POINT", (True, False): "POINT Z", (False, True): "POINT M"}


@dataclass(frozen=True, slots=True)
class BoundingBox:
    """The least and the greatest coordinates of some shapes; none of x and y is NaN.

    Units: those of the coordinate reference system; of geography degrees.
    Where `lower` has a greater x than `upper`, longitudes go from it to the east, across 180
    degrees, up to the other: only boxes of geography do.
    """

    lower: Corner
    upper: Corner

    def bounds(self) -> tuple[bytes, bytes]:
        """Return the bounds of a manifest entry, lower and upper."""
        return encode_corner(self.lower), encode_corner(self.upper)

    def joined(self, other: "BoundingBox", *, is_geography: bool) -> "BoundingBox":
        lower = [_present(min, *pair) for pair in zip(self.lower, other.lower, strict=True)]
        upper = [_present(max, *pair) for pair in zip(self.upper, other.upper, strict=True)]
        if is_geography:
            lower[0], upper[0] = _joined(self.longitudes, other.longitudes)
        return BoundingBox(_corner(lower), _corner(upper))

    def contains(self, other: "BoundingBox") -> bool:
        """Whether another box is in this one; a dimension that either lacks tells nothing."""
        return _has(self.longitudes, other.longitudes) and not any(
            other.lower[at] < self.lower[at] or other.upper[at] > self.upper[at] for at in (1, 2, 3)
        )

    def may_bound(self, *, is_geography: bool) -> bool:
        """Whether the corners are in order; those of geography lie on the globe (R-092, R-093)."""
        places = range(1 if is_geography else 0, len(self.lower))
        if any(self.lower[at] > self.upper[at] for at in places):
            return False
        corners = (self.lower, self.upper)
        return not is_geography or all(abs(x) <= EAST and abs(y) <= NORTH for x, y, *_ in corners)

    @property
    def longitudes(self) -> _Longitudes:
        return self.lower[0], self.upper[0]


def decode_box(lower: bytes, upper: bytes) -> BoundingBox:
    """Return the box of two bounds. Raises: ValueError, as decode_corner."""
    return BoundingBox(decode_corner(lower), decode_corner(upper))


def decode_corner(bound: bytes) -> Corner:
    """Return the coordinates of a bound (R-093). Raises: ValueError, where x or y is NaN too."""
    if len(bound) not in CORNER_LENGTHS:
        raise ValueError(f"{len(bound)} bytes for a corner of a bounding box")
    x, y, *others = struct.unpack(f"<{len(bound) // 8}d", bound)
    if math.isnan(x) or math.isnan(y):
        raise ValueError("a corner of a bounding box has no x, or no y")
    z, m = [*others, math.nan, math.nan][:2]
    return x, y, z, m


def encode_corner(corner: Corner) -> bytes:
    """Return the coordinates as a bound: x:y, x:y:z, x:y:NaN:m or x:y:z:m (R-093)."""
    dimensions = 4 if not math.isnan(corner[3]) else 3 if not math.isnan(corner[2]) else 2
    return struct.pack(f"<{dimensions}d", *corner[:dimensions])


def corner_text(corner: Corner) -> str:
    """Return a corner as well-known text, like `POINT Z (30 10 5)`."""
    is_shown = [not math.isnan(value) for value in corner]
    shown = [repr(value).removesuffix(".0") for value in corner if not math.isnan(value)]
    return f"{_KINDS.get((is_shown[2], is_shown[3]), 'POINT ZM')} ({' '.join(shown)})"


def box_text(box: BoundingBox) -> str:
    """Return both corners of a box as well-known text."""
    return f"{corner_text(box.lower)} to {corner_text(box.upper)}"


def corner_from_text(text: str) -> Corner:
    """Return the corner that a point in well-known text is. Raises: ValueError, for other text."""
    match = _POINT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is not a point")
    dimensions = f"xy{(match[1] or '').lower()}"
    values = dict(zip(dimensions, map(float, match[2].split()), strict=True))
    return _corner([values.get(name, math.nan) for name in "xyzm"])


def _corner(values: Sequence[float]) -> Corner:
    x, y, z, m = values
    return x, y, z, m


def _present(choose: Callable[[float, float], float], one: float, other: float) -> float:
    if math.isnan(one) or math.isnan(other):
        return other if math.isnan(one) else one
    return choose(one, other)


def _joined(one: _Longitudes, other: _Longitudes) -> _Longitudes:
    """Return the shortest range of longitudes that has both."""
    ends = sorted({*one, *other})
    ranges = [(west, east) for west in ends for east in ends] + [(WEST, EAST)]
    return min((both for both in ranges if _has(both, one) and _has(both, other)), key=_width)


def _width(longitudes: _Longitudes) -> float:
    west, east = longitudes
    return east - west if west <= east else east - WEST + EAST - west


def _has(outer: _Longitudes, inner: _Longitudes) -> bool:
    (west, east), (first, last) = outer, inner
    if west <= east:
        return (west <= first <= last <= east) or (west <= WEST and east >= EAST)
    if first <= last:
        return first >= west or last <= east
    return first >= west and last <= east
