"""Well-known binary: types, boxes, and what is no shape."""

import math
import struct

import pyarrow as pa
import pytest

from icectl.files.wkb import Shapes
from tests.builders.shapes import (
    COLLECTION,
    LINE,
    MULTI_LINE,
    MULTI_POINT,
    MULTI_POLYGON,
    POINT,
    POLYGON,
    XYM,
    XYZ,
    XYZM,
    point,
    wkb,
)

NAN = math.nan


def shapes_of(*values: bytes | None, is_geography: bool = False) -> Shapes:
    found = Shapes(is_geography)
    found.add(pa.array(values, pa.binary()))
    return found


def ends(found: Shapes) -> list[tuple[float, float]] | None:
    """The ends of each dimension that there is."""
    box = found.box
    if box is None:
        return None
    return [pair for pair in zip(box.lower, box.upper, strict=True) if not math.isnan(pair[0])]


RING, HOLE = [(0, 0), (9, 0), (9, 8), (0, 0)], [(1, 1), (2, 1), (2, 2), (1, 1)]
GOLDEN = [
    # By hand, from the OGC's Simple Feature Access, part 1: what is written in hexadecimal.
    ("0101000000000000000000f03f0000000000000040", {1}, [(1, 1), (2, 2)]),
    ("00000000013ff00000000000004000000000000000", {1}, [(1, 1), (2, 2)]),
    ("01020000000000000000", None, None),  # a byte too many
    ("010200000000000000", {2}, None),
    (
        "01e9030000000000000000f03f00000000000000400000000000000840",
        {1001},
        [(1, 1), (2, 2), (3, 3)],
    ),
]


@pytest.mark.parametrize(("content", "types", "expected"), GOLDEN)
def test_bytes_of_the_standard_are_read(content, types, expected):
    found = shapes_of(bytes.fromhex(content))
    assert found.types == (types or set())
    assert found.invalid_count == (types is None)
    assert ends(found) == expected


SHAPES = [
    (POINT, (1, 2), [(1, 1), (2, 2)]),
    (LINE, [(1, 2), (3, -4), (2, 9)], [(1, 3), (-4, 9)]),
    (POLYGON, [RING], [(0, 9), (0, 8)]),
    (POLYGON, [RING, HOLE], [(0, 9), (0, 8)]),
    (POLYGON, [[], HOLE], [(1, 2), (1, 2)]),
    (MULTI_POINT, [(1, 2)], [(1, 1), (2, 2)]),
    (MULTI_POINT, [(1, 2), (5, 0)], [(1, 5), (0, 2)]),
    (MULTI_LINE, [[(1, 2), (3, 4)]], [(1, 3), (2, 4)]),
    (MULTI_LINE, [[(1, 2), (3, 4)], [], [(0, 0)]], [(0, 3), (0, 4)]),
    (MULTI_POLYGON, [[RING]], [(0, 9), (0, 8)]),
    (MULTI_POLYGON, [[RING, HOLE], [], [HOLE]], [(0, 9), (0, 8)]),
    (COLLECTION, [point(1, 2), wkb(COLLECTION, [wkb(LINE, [(7, 7)])])], [(1, 7), (2, 7)]),
    (COLLECTION, [wkb(MULTI_POINT, [(1, 2), (3, 4)]), point(0, 5)], [(0, 3), (2, 5)]),
    (LINE, [], None),
    (POLYGON, [], None),
    (POLYGON, [[]], None),
    (MULTI_POINT, [], None),
    (MULTI_POLYGON, [], None),
    (COLLECTION, [], None),
    (POINT, (NAN, NAN), None),
]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("kind", "parts", "expected"), SHAPES)
def test_the_box_of_every_kind_in_both_byte_orders(kind, parts, expected, order):
    found = shapes_of(None, wkb(kind, parts, order=order), None)
    assert (found.types, found.invalid_count, found.reason) == ({kind}, 0, "")
    assert ends(found) == expected


@pytest.mark.parametrize(
    ("dimensions", "values", "lower", "upper"),
    [
        (XYZ, [(1, 2, 3), (4, 5, -6)], (1, 2, -6, NAN), (4, 5, 3, NAN)),
        (XYM, [(1, 2, 3), (4, 5, -6)], (1, 2, NAN, -6), (4, 5, NAN, 3)),
        (XYZM, [(1, 2, 3, 9), (4, 5, -6, 8)], (1, 2, -6, 8), (4, 5, 3, 9)),
        (XYZM, [(1, 2, NAN, 9), (4, 5, NAN, NAN)], (1, 2, NAN, 9), (4, 5, NAN, 9)),
    ],
)
@pytest.mark.parametrize("kind", [LINE, MULTI_POINT])
def test_further_dimensions(dimensions, values, lower, upper, kind):
    found = shapes_of(wkb(kind, values, dimensions))
    assert found.types == {1000 * dimensions + kind}
    assert found.box is not None
    assert repr(found.box.lower) == repr(tuple(map(float, lower)))
    assert repr(found.box.upper) == repr(tuple(map(float, upper)))


def test_r093_nan_counts_in_no_dimension_and_without_x_or_y_there_is_no_box():
    one, other = wkb(POINT, (1, NAN)), wkb(POINT, (NAN, 7))
    assert shapes_of(one).box is None
    assert shapes_of(other).box is None
    assert ends(shapes_of(one, other)) == [(1, 1), (7, 7)]
    # A point without z among others tells nothing of it.
    assert ends(shapes_of(wkb(POINT, (0, 0, 5), XYZ), point(9, 9))) == [(0, 9), (0, 9), (5, 5)]


EXTENDED = struct.pack("<BII2d", 1, 0x2000_0001, 4326, 1, 2)
INVALID = [
    (b"", "it ends early"),
    (b"\x01\x01\x00\x00", "it ends early"),
    (point(1, 2)[:-1], "it counts 1 points, and 15 bytes are left"),
    (point(1, 2) + b"\0", "1 bytes lie behind its end"),
    (b"\x02" + point(1, 2)[1:], "its byte order is 2, neither 0 nor 1"),
    (struct.pack("<BI2d", 1, 8, 1, 2), "its type is 8, which no shape has"),
    (struct.pack("<BI2d", 1, 4001, 1, 2), "its type is 4001, which no shape has"),
    (struct.pack("<BI2d", 1, 0, 1, 2), "its type is 0, which no shape has"),
    (EXTENDED, "it is of the extended variant (EWKB), not of ISO's"),
    (struct.pack("<BII", 1, LINE, 2**32 - 1), "it counts 4,294,967,295 of something, and 0 bytes"),
    (
        struct.pack("<BII", 1, POLYGON, 2**32 - 1) + bytes(99),
        "it counts 4,294,967,295 of something",
    ),
    (struct.pack("<BII", 1, COLLECTION, 10) + point(1, 2) * 2, "it ends early"),
    (
        struct.pack("<BIII", 1, POLYGON, 1, 2) + bytes(16),
        "it counts 2 points, and 16 bytes are left",
    ),
    (
        struct.pack("<BII", 1, MULTI_POINT, 1) + wkb(LINE, []),
        "a shape of type 2 is part of one of type 4",
    ),
    (
        struct.pack("<BII", 1, MULTI_POLYGON, 2) + wkb(MULTI_POLYGON, []) * 2,
        "a shape of type 6 is part of one of type 6",
    ),
]


@pytest.mark.parametrize(("content", "reason"), INVALID)
def test_what_is_no_shape_is_counted_and_leaves_no_box(content, reason):
    found = shapes_of(point(1, 2), content, point(3, 4))
    assert (found.invalid_count, found.types, found.box) == (1, {POINT}, None)
    assert found.reason.startswith(reason)


def test_no_prefix_of_a_shape_is_one():
    parts = [wkb(POLYGON, [RING, HOLE]), wkb(MULTI_LINE, [[(1, 2)], [(3, 4)]], order=">")]
    whole = wkb(COLLECTION, parts)
    assert shapes_of(*(whole[:end] for end in range(len(whole)))).invalid_count == len(whole)
    assert shapes_of(whole).invalid_count == 0


def test_collections_in_collections_are_read_however_deep():
    deep = struct.pack("<BII", 1, COLLECTION, 1) * 200_000 + point(5, 6)
    assert ends(shapes_of(deep)) == [(5, 5), (6, 6)]
    assert shapes_of(deep[:-1]).invalid_count == 1


def test_values_of_a_part_of_a_column_are_read_and_boxes_are_merged():
    column = pa.array([b"no", point(1, 2), None, point(3, 4), b"no"], pa.large_binary())
    found, others = Shapes(is_geography=False), Shapes(is_geography=False)
    found.add(column.slice(1, 2))
    others.add(column.slice(3, 1).dictionary_encode())
    found.merge(others)
    assert ends(found) == [(1, 3), (2, 4)]
    others.add(column.slice(4))
    found.merge(others)
    assert (found.invalid_count, found.box) == (1, None)


def test_more_points_than_are_looked_at_together():
    points = [(at, -at) for at in range(250_000)]
    column = [wkb(LINE, points), *(wkb(LINE, points[at : at + 9]) for at in range(0, 60_000, 2))]
    assert ends(shapes_of(*column)) == [(0, 249_999), (-249_999, 0)]


LONGITUDES = [
    ([10, 20], (10, 20)),
    ([179, -179], (179, -179)),
    ([170, -170, 175], (170, -170)),
    ([-180, 180], (180, -180)),  # the same place
    ([0, 100, -100], (-100, 100)),
    ([0, 179, -179], (0, -179)),
    ([0], (0, 0)),
    ([-90, 90], (-90, 90)),
]


@pytest.mark.parametrize(("longitudes", "expected"), LONGITUDES)
def test_r093_longitudes_of_geography_go_around_the_widest_gap(longitudes, expected):
    found = shapes_of(*(point(x, 1) for x in longitudes), is_geography=True)
    assert ends(found) == [expected, (1, 1)]
    halves = [shapes_of(point(x, 1), is_geography=True) for x in longitudes]
    for other in halves[1:]:
        halves[0].merge(other)
    assert ends(halves[0]) == [expected, (1, 1)]


def test_geography_with_edges_or_beyond_the_globe_has_no_box():
    """An edge along a great circle reaches farther north than both of its ends."""
    edge = wkb(LINE, [(0, 60), (90, 60)])
    assert shapes_of(edge, is_geography=True).box is None
    assert ends(shapes_of(edge)) == [(0, 90), (60, 60)]
    assert ends(shapes_of(wkb(MULTI_POINT, [(0, 60), (90, 60)]), is_geography=True)) is not None
    for beyond in ((180.1, 0), (-181, 0), (0, 91), (0, -90.5)):
        found = shapes_of(point(*beyond), point(1, 1), is_geography=True)
        assert (found.outside_count, found.box) == (1, None)
        assert shapes_of(point(*beyond)).outside_count == 0
