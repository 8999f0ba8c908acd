"""The box around random shapes has every point in it, and each side touches one."""

import math
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from icectl.files.wkb import Shapes
from tests.builders.shapes import COLLECTION, LINE, MULTI_POINT, POINT, POLYGON, wkb

Point = tuple[float, ...]
WIDTHS = {0: (0, 1), 1: (0, 1, 2), 2: (0, 1, 3), 3: (0, 1, 2, 3)}

numbers = st.floats(-1e9, 1e9) | st.sampled_from([math.nan, math.inf, -0.0])


@st.composite
def shapes(draw: st.DrawFn, depth: int = 0) -> tuple[bytes, list[tuple[int, Point]]]:
    """A shape, and its points with their dimensions."""
    dimensions = draw(st.integers(0, 3))
    points = st.lists(st.tuples(*[numbers] * len(WIDTHS[dimensions])), max_size=5)
    order = draw(st.sampled_from("<>"))
    kind = draw(st.integers(POINT, COLLECTION if depth < 3 else COLLECTION - 1))
    if kind == COLLECTION:
        inner = draw(st.lists(shapes(depth + 1), max_size=3))
        content = wkb(kind, [one for one, _ in inner], dimensions, order)
        return content, [point for _, some in inner for point in some]
    if kind == POINT:
        parts: list = draw(st.tuples(*[numbers] * len(WIDTHS[dimensions])))
        found = [parts]
    elif kind in (LINE, MULTI_POINT):
        parts = found = draw(points)
    elif kind in (POLYGON, MULTI_POINT + 1):
        parts = draw(st.lists(points, max_size=3))
        found = [one for some in parts for one in some]
    else:
        parts = draw(st.lists(st.lists(points, max_size=3), max_size=3))
        found = [one for some in parts for ring in some for one in ring]
    return wkb(kind, parts, dimensions, order), [(dimensions, one) for one in found]


@given(st.lists(st.none() | shapes(), max_size=12))
def test_a_box_has_all_points_and_touches_them(column):
    found = Shapes(is_geography=False)
    values = [None if one is None else one[0] for one in column]
    found.add(pa.array([b"", *values], pa.binary()).slice(1))
    assert (found.invalid_count, found.reason) == (0, "")
    kept = [point for one in column if one is not None for point in one[1]]
    for place in range(4):
        coordinates = [
            point[WIDTHS[dimensions].index(place)]
            for dimensions, point in kept
            if place in WIDTHS[dimensions]
        ]
        known = [value for value in coordinates if not math.isnan(value)]
        if known:
            assert (found.lower[place], found.upper[place]) == (min(known), max(known))
        else:
            assert math.isnan(found.lower[place])
            assert math.isnan(found.upper[place])


@given(st.lists(st.tuples(st.floats(-180, 180), st.floats(-90, 90)), min_size=1, max_size=30))
def test_a_box_on_a_globe_has_all_points_and_is_no_wider_than_on_a_plane(points):
    found = Shapes(is_geography=True)
    found.add(pa.array([wkb(POINT, one) for one in points], pa.binary()))
    box = found.box
    assert box is not None
    (west, south, *_), (east, north, *_) = box.lower, box.upper
    longitudes = sorted({x for x, _ in points})
    assert west in longitudes
    assert east in longitudes
    width = east - west if west <= east else east - west + 360
    for x in longitudes:
        assert (west <= x <= east) if west <= east else (x >= west or x <= east)
    # The widest gap between neighbours, around the globe, computed one by one.
    gaps = [other - one for one, other in pairwise([*longitudes, longitudes[0] + 360])]
    assert 360 - max(gaps) - 1e-9 <= width <= 360 - max(gaps) + 360 / 4096
    assert (south, north) == (min(y for _, y in points), max(y for _, y in points))


@given(shapes(), st.data())
def test_flipped_bits_never_raise(shape, data):
    content = bytearray(shape[0])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, 8 * len(content) - 1))
        content[at // 8] ^= 1 << at % 8
    found = Shapes(is_geography=data.draw(st.booleans()))
    found.add(pa.array([bytes(content)], pa.binary()))
    assert found.invalid_count in (0, 1)
    assert bool(found.reason) == bool(found.invalid_count)
