"""Shapes in well-known binary, in its ISO variant: their types, and the box around all of them.

Nothing in a value is trusted: every count is checked against the bytes that are left, and shapes in
collections are read one after the other, however deep they lie.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as arrow_types

from icectl.entries.columns import everywhere
from icectl.format.bounding_box import EAST, NORTH, WEST, BoundingBox

POINT, LINE, POLYGON, MULTI_POINT, MULTI_LINE, MULTI_POLYGON, COLLECTION = range(1, 8)
_MULTI = MULTI_POINT - POINT
"""What the number of a multi type is above that of its parts."""

_DIMENSIONS = ([0, 1], [0, 1, 2], [0, 1, 3], [0, 1, 2, 3])
"""Where x, y, z, m go that points have, by the thousands of their type's number."""

_WIDTHS = np.array([len(places) for places in _DIMENSIONS])
_BIG, _LITTLE = 0, 1
_NUMBERS = {_BIG: ">f8", _LITTLE: "<f8"}
_STRUCTS = {_BIG: struct.Struct(">I"), _LITTLE: struct.Struct("<I")}
_HEADER, _COUNT, _NUMBER = 5, 4, 8
_EXTENDED = 0xE000_0000
"""Bits of a type by which the extended variant, of PostGIS, says dimensions and a system."""

_SECTORS = 4096
"""Parts of the circle of longitudes; of each the first and the last longitude are known."""

_MOST_NUMBERS = 3 << 16
"""Coordinates that are looked at together: those of whole points of two, three or four."""
_MOST_RUNS = 1 << 16

_Array = npt.NDArray[Any]


class InvalidShape(ValueError):
    """A value that is no well-known binary; says why."""


@dataclass(slots=True)
class Shapes:
    """What is known of the shapes of a column; those of geography lie on a globe.

    `types` are theirs as numbers of the ISO variant: 1003 is a polygon with z, for example.
    `invalid_count` values are no shapes, the first of them because of `reason`.
    """

    is_geography: bool
    types: set[int] = field(default_factory=set)
    invalid_count: int = 0
    reason: str = ""
    outside_count: int = 0
    """Points of geography beyond 180 degrees of longitude or 90 of latitude."""
    lower: _Array = field(default_factory=lambda: np.full(4, np.nan))
    upper: _Array = field(default_factory=lambda: np.full(4, np.nan))
    first: _Array = field(default_factory=lambda: np.full(_SECTORS, np.nan))
    last: _Array = field(default_factory=lambda: np.full(_SECTORS, np.nan))
    """The longitudes of geography, by sector of the globe."""

    def add(self, column: pa.Array) -> None:
        """Take a column of values into account, in bounded memory; nulls are none."""
        if arrow_types.is_dictionary(column.type):
            column = column.dictionary_decode()
        values = column.drop_null().cast(pa.large_binary())
        if not len(values):
            return
        _, stored, content = values.buffers()
        offsets = np.frombuffer(stored, np.int64)[values.offset : values.offset + len(values) + 1]
        runs = _Runs(self, np.frombuffer(content or b"", np.uint8))
        is_read = runs.add_simple(offsets[:-1], offsets[1:])
        for place in np.flatnonzero(~is_read).tolist():
            try:
                self.types.add(runs.add_value(int(offsets[place]), int(offsets[place + 1])))
            except InvalidShape as error:
                self.invalid_count += 1
                self.reason = self.reason or str(error)
        runs.flush()

    def merge(self, other: "Shapes") -> None:
        self.types |= other.types
        self.invalid_count += other.invalid_count
        self.reason = self.reason or other.reason
        self.outside_count += other.outside_count
        for bounds, others in ((self.lower, other.lower), (self.first, other.first)):
            np.fmin(bounds, others, out=bounds)
        for bounds, others in ((self.upper, other.upper), (self.last, other.last)):
            np.fmax(bounds, others, out=bounds)

    @property
    def box(self) -> BoundingBox | None:
        """The box around all shapes; None without x or y, or where none can be told.

        None can be told where a value is no shape, where geography is outside of the globe, and
        where it has edges: these bend away from a straight line, by the algorithm of the column.
        """
        if self.invalid_count or np.isnan(self.lower[:2]).any():
            return None
        x, y, z, m = self.lower.tolist()
        last_x, last_y, last_z, last_m = self.upper.tolist()
        if self.is_geography:
            has_edges = any(type_ % 1000 not in (POINT, MULTI_POINT) for type_ in self.types)
            if self.outside_count or has_edges:
                return None
            x, last_x = self._longitudes()
        return BoundingBox((x, y, z, m), (last_x, last_y, last_z, last_m))

    def add_points(self, dimensions: int, points: _Array) -> None:
        """Take points into account, a row of coordinates each; NaN are none (R-093)."""
        places = _DIMENSIONS[dimensions]
        self.lower[places] = np.fmin(self.lower[places], np.fmin.reduce(points, axis=0))
        self.upper[places] = np.fmax(self.upper[places], np.fmax.reduce(points, axis=0))
        if self.is_geography:
            x, y = points[:, 0], points[:, 1]
            self.outside_count += int(((x < WEST) | (x > EAST) | (np.abs(y) > NORTH)).sum())
            x = x[(x >= WEST) & (x <= EAST)]
            sectors = ((x - WEST) * (_SECTORS / (EAST - WEST))).astype(np.int64)
            np.minimum(sectors, _SECTORS - 1, out=sectors)
            np.fmin.at(self.first, sectors, x)
            np.fmax.at(self.last, sectors, x)

    def _longitudes(self) -> tuple[float, float]:
        """Return the first and the last longitude to the east of the widest gap."""
        is_used = ~np.isnan(self.first)
        first, last = self.first[is_used], self.last[is_used]
        gaps = first[1:] - last[:-1]
        around = first[0] - WEST + EAST - last[-1]
        if not len(gaps) or gaps.max() <= around:
            return float(first[0]), float(last[-1])
        widest = int(gaps.argmax())
        return float(first[widest + 1]), float(last[widest])


@dataclass(slots=True)
class _Runs:
    """Points that lie one behind the other in some bytes: where each run starts, and how many."""

    shapes: Shapes
    octets: _Array
    starts: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    forms: list[int] = field(default_factory=list)
    """Of each run the dimensions of its points, and 4 more where numbers are little-endian."""

    def add_simple(self, starts: _Array, ends: _Array) -> npt.NDArray[np.bool_]:
        """Read values of one run, or of none, all at once; which ones are."""
        is_read = np.zeros(len(starts), np.bool_)
        whole = self._headers(np.arange(len(starts)), starts, ends)
        single = whole.is_multi & (whole.count == 1)
        inner = self._headers(
            whole.values[single], whole.start[single] + _HEADER + _COUNT, whole.end[single]
        )
        types = np.zeros(len(starts), np.int64)
        types[whole.values] = whole.type
        fits = inner.base == types[inner.values] % 1000 - _MULTI
        for headers, chosen in ((whole, whole.is_run), (inner, inner.is_run & fits)):
            self._look(headers.first[chosen], headers.count[chosen], headers.form[chosen])
            is_read[headers.values[chosen]] = True
        self.shapes.types.update(np.unique(types[is_read]).tolist())
        return is_read

    def _headers(self, values: _Array, starts: _Array, ends: _Array) -> "_Headers":
        has_room = ends - starts >= _HEADER + _COUNT
        values, starts, ends = values[has_room], starts[has_room], ends[has_room]
        orders = self.octets[starts].astype(np.int64)
        types = self._counts(starts + 1, orders)
        base = types % 1000
        is_known = (orders <= 1) & (types < 4000) & (base >= POINT) & (base <= COLLECTION)
        values, starts, ends = values[is_known], starts[is_known], ends[is_known]
        orders, types, base = orders[is_known], types[is_known], base[is_known]
        count = np.where(base == POINT, 1, self._counts(starts + _HEADER, orders))
        first = starts + np.where(base == POINT, _HEADER, _HEADER + _COUNT)
        # Of a polygon with one ring the run is that ring.
        ring = np.flatnonzero((base == POLYGON) & (count == 1) & (ends - first >= _COUNT))
        count[ring] = self._counts(first[ring], orders[ring])
        first[ring] += _COUNT
        is_other = (base == POLYGON) & (count > 0)
        is_other[ring] = False
        forms = orders * len(_DIMENSIONS) + types // 1000
        return _Headers(values, starts, ends, types, first, count, forms, is_other)

    def _counts(self, at: _Array, orders: _Array) -> _Array:
        octets = self.octets[at[:, None] + np.arange(_COUNT)].astype(np.int64)
        little = octets @ (1 << np.arange(0, 32, 8))
        return np.where(orders == _LITTLE, little, octets @ (1 << np.arange(24, -1, -8)))

    def add_value(self, start: int, end: int) -> int:
        """Read one value, part by part; its type. Raises: InvalidShape."""
        content = self.octets[start:end].tobytes()
        at, size = 0, len(content)
        left, parts, part_type, whole_type = 1, 0, 0, 0
        while left or parts:
            order, type_, at = _header(content, at)
            base, dimensions = type_ % 1000, type_ // 1000
            whole_type = whole_type or type_
            if not parts:
                left -= 1
            elif base == part_type:
                parts -= 1
            else:
                whole = part_type + _MULTI
                raise InvalidShape(f"a shape of type {base} is part of one of type {whole}")
            form = order * len(_DIMENSIONS) + dimensions
            count = 1
            if base != POINT:
                count, at = _count(content, at, order)
            if base <= LINE:
                at = self._add_run(start, at, count, form, size)
            elif base == POLYGON:
                for _ in range(count):
                    points, at = _count(content, at, order)
                    at = self._add_run(start, at, points, form, size)
            elif base == COLLECTION:
                left += count
            else:
                parts, part_type = count, base - _MULTI
        if at != size:
            raise InvalidShape(f"{size - at:,} bytes lie behind its end")
        return whole_type

    def _add_run(self, start: int, at: int, count: int, form: int, size: int) -> int:
        """Take points at a place of a value into account; where they end."""
        end = at + count * _NUMBER * len(_DIMENSIONS[form % len(_DIMENSIONS)])
        if end > size:
            raise InvalidShape(f"it counts {count:,} points, and {size - at:,} bytes are left")
        if count:
            self.starts.append(start + at)
            self.counts.append(count)
            self.forms.append(form)
            if len(self.starts) >= _MOST_RUNS:
                self.flush()
        return end

    def flush(self) -> None:
        """Look at the points of the runs that were added."""
        runs = (np.array(values, np.int64) for values in (self.starts, self.counts, self.forms))
        self._look(*runs)
        self.starts, self.counts, self.forms = [], [], []

    def _look(self, starts: _Array, counts: _Array, forms: _Array) -> None:
        """Look at the points of runs, some of those that have one form at a time."""
        for form in np.unique(forms[counts > 0]).tolist():
            chosen = (forms == form) & (counts > 0)
            order, dimensions = divmod(form, len(_DIMENSIONS))
            width = len(_DIMENSIONS[dimensions])
            numbers = counts[chosen] * width
            for at, length in _sliced(starts[chosen], numbers):
                points = self._numbers(at, length, order).reshape(-1, width)
                self.shapes.add_points(dimensions, points)

    def _numbers(self, starts: _Array, lengths: _Array, order: int) -> _Array:
        """Return the numbers of runs, one run behind the other."""
        places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        numbers: _Array = everywhere(self.octets, _NUMBERS[order])[
            np.repeat(starts, lengths) + _NUMBER * places
        ].astype(np.float64)
        return numbers


@dataclass(frozen=True, slots=True)
class _Headers:
    """The headers of some values, by their places; of simple ones the run of points."""

    values: _Array
    start: _Array
    end: _Array
    type: _Array
    first: _Array
    count: _Array
    form: _Array
    has_rings: npt.NDArray[np.bool_]
    """Polygons of several rings, or of a damaged one."""

    @property
    def base(self) -> _Array:
        return self.type % 1000

    @property
    def is_multi(self) -> npt.NDArray[np.bool_]:
        return (self.base >= MULTI_POINT) & (self.base <= MULTI_POLYGON)

    @property
    def is_run(self) -> npt.NDArray[np.bool_]:
        """Values that are one run of points to their end, or none."""
        widths = np.where(self.base > POLYGON, 0, _WIDTHS[self.type // 1000] * _NUMBER)
        is_one = (self.base <= POLYGON) & ~self.has_rings | (self.count == 0)
        is_run: npt.NDArray[np.bool_] = is_one & (self.first + self.count * widths == self.end)
        return is_run


def _sliced(starts: _Array, lengths: _Array) -> Iterator[tuple[_Array, _Array]]:
    """Yield runs, some of them at a time; a very long one in slices that hold whole points."""
    is_long = lengths > _MOST_NUMBERS
    parts = np.cumsum(lengths[~is_long]) // _MOST_NUMBERS
    edges = np.flatnonzero(np.diff(parts)) + 1
    yield from zip(
        *(np.split(values[~is_long], edges) for values in (starts, lengths)), strict=True
    )
    for start, length in zip(starts[is_long].tolist(), lengths[is_long].tolist(), strict=True):
        for at in range(0, length, _MOST_NUMBERS):
            count = min(_MOST_NUMBERS, length - at)
            yield np.array([start + at * _NUMBER]), np.array([count])


def _header(content: bytes, at: int) -> tuple[int, int, int]:
    """Return byte order and type of the shape that begins here, and where they end."""
    if len(content) - at < _HEADER:
        raise InvalidShape("it ends early")
    order = content[at]
    if order not in _STRUCTS:
        raise InvalidShape(f"its byte order is {order}, neither 0 nor 1")
    (type_,) = _STRUCTS[order].unpack_from(content, at + 1)
    if type_ & _EXTENDED:
        raise InvalidShape("it is of the extended variant (EWKB), not of ISO's")
    if type_ >= 1000 * len(_DIMENSIONS) or not POINT <= type_ % 1000 <= COLLECTION:
        raise InvalidShape(f"its type is {type_}, which no shape has")
    return order, type_, at + _HEADER


def _count(content: bytes, at: int, order: int) -> tuple[int, int]:
    """Return a count and where it ends; what is counted has four bytes or more each."""
    left = len(content) - at - _COUNT
    if left < 0:
        raise InvalidShape("it ends early")
    (count,) = _STRUCTS[order].unpack_from(content, at)
    if count * _COUNT > left:
        raise InvalidShape(f"it counts {count:,} of something, and {left:,} bytes are left")
    return count, at + _COUNT
