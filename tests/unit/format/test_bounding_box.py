"""Boxes around shapes, joined and compared, on a plane and on a globe."""

import math
import struct

import pytest

from icectl.format.bounding_box import (
    BoundingBox,
    corner_from_text,
    corner_text,
    decode_box,
    decode_corner,
    encode_corner,
)

NAN = math.nan


def box(*ends: tuple[float, float]) -> BoundingBox:
    """Of the ends of each dimension."""
    lower, upper = zip(*[*ends, (NAN, NAN), (NAN, NAN)][:4], strict=True)
    return BoundingBox(tuple(map(float, lower)), tuple(map(float, upper)))


def same(one: BoundingBox, other: BoundingBox) -> bool:
    return repr(one) == repr(other)


@pytest.mark.parametrize(
    ("values", "corner", "shown"),
    [
        ((30, 10), (30, 10, NAN, NAN), "POINT (30 10)"),
        ((30, 10, 5.5), (30, 10, 5.5, NAN), "POINT Z (30 10 5.5)"),
        ((30, 10, NAN, -1), (30, 10, NAN, -1), "POINT M (30 10 -1)"),
        ((30, 10, 5, -0.0), (30, 10, 5, -0.0), "POINT ZM (30 10 5 -0)"),
    ],
)
def test_r093_a_corner_is_two_to_four_numbers(values, corner, shown):
    content = struct.pack(f"<{len(values)}d", *values)
    assert repr(decode_corner(content)) == repr(tuple(map(float, corner)))
    assert encode_corner(decode_corner(content)) == content
    assert corner_text(decode_corner(content)) == shown
    assert encode_corner(corner_from_text(shown)) == content


def test_r093_what_has_no_x_or_y_is_no_corner():
    for values in ((NAN, 1), (1, NAN, 3), (1,), (1, 2, 3, 4, 5), ()):
        with pytest.raises(ValueError, match="corner of a bounding box"):
            decode_corner(struct.pack(f"<{len(values)}d", *values))


def test_bounds_are_read_back():
    one = box((1, 2), (3, 4), (NAN, NAN), (7, 8))
    assert same(decode_box(*one.bounds()), one)
    assert [len(bound) for bound in one.bounds()] == [32, 32]


JOINED = [
    # of a plane, and of a globe where that differs
    (((0, 10), (0, 1)), ((20, 30), (-1, 0)), ((0, 30), (-1, 1)), None),
    (((170, 175), (0, 1)), ((-175, -170), (0, 1)), ((-175, 175), (0, 1)), ((170, -170), (0, 1))),
    (((-180, 180), (0, 1)), ((5, 6), (0, 1)), ((-180, 180), (0, 1)), None),
    (((0, 1), (0, 1), (5, 6)), ((0, 1), (0, 1)), ((0, 1), (0, 1), (5, 6)), None),
    (((0, 1), (0, 1), (5, 6)), ((0, 1), (0, 1), (1, 9)), ((0, 1), (0, 1), (1, 9)), None),
    (
        ((0, 1), (0, 1), (NAN, NAN), (5, 6)),
        ((0, 1), (0, 1), (1, 2), (8, 9)),
        ((0, 1), (0, 1), (1, 2), (5, 9)),
        None,
    ),
    (
        ((170, 175), (0, 1), (5, 6), (7, 7)),
        ((-175, -170), (0, 1), (4, 5), (8, 9)),
        ((-175, 175), (0, 1), (4, 6), (7, 9)),
        ((170, -170), (0, 1), (4, 6), (7, 9)),
    ),
]


@pytest.mark.parametrize(("one", "other", "plane", "globe"), JOINED)
def test_a_joined_box_is_the_smallest_around_both(one, other, plane, globe):
    for is_geography, expected in ((False, plane), (True, globe or plane)):
        for first, second in ((one, other), (other, one)):
            joined = box(*first).joined(box(*second), is_geography=is_geography)
            assert same(joined, box(*expected))
            assert joined.contains(box(*first))
            assert joined.contains(box(*second))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((170, -170), (-175, -172), (170, -170)),
        ((170, -170), (160, 175), (160, -170)),
        ((170, -170), (-160, -150), (170, -150)),
        ((170, -170), (100, -179), (100, -170)),
        ((10, -10), (-20, 20), (-180, 180)),  # all around
    ],
)
def test_boxes_across_the_line_are_joined(one, other, expected):
    for first, second in ((one, other), (other, one)):
        joined = box(first, (0, 1)).joined(box(second, (0, 1)), is_geography=True)
        assert (joined.lower[0], joined.upper[0]) == expected


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ((0, 10), (0, 10), True), ((0, 10), (-1, 5), False), ((170, -170), (175, 180), True),
        ((170, -170), (-180, -170), True), ((170, -170), (-180, -169), False),
        ((170, -170), (175, -175), True), ((170, -170), (165, -175), False),
        ((170, -170), (0, 1), False), ((-170, 170), (175, -175), False),
        ((-180, 180), (175, -175), True),
    ],
)  # fmt: skip
def test_what_lies_in_a_box(outer, inner, expected):
    assert box(outer, (0, 1)).contains(box(inner, (0, 1))) is expected


def test_every_dimension_that_both_have_counts():
    outer = box((0, 9), (0, 9), (0, 9))
    assert outer.contains(box((0, 9), (0, 9), (NAN, NAN), (5, 5)))
    assert not outer.contains(box((0, 9), (-1, 9)))
    assert not outer.contains(box((0, 9), (0, 9), (0, 10)))
    of_m = box((170, -170), (0, 9), (NAN, NAN), (5, 6))
    assert of_m.contains(box((175, -175), (0, 9), (1, 2), (5, 6)))
    assert not of_m.contains(box((175, -175), (0, 9), (NAN, NAN), (5, 7)))


@pytest.mark.parametrize(
    ("ends", "of_geometry", "of_geography"),
    [
        (((0, 1), (2, 3), (4, 5), (6, 7)), True, True),
        (((1, 1), (2, 2), (NAN, NAN), (7, 7)), True, True),
        (((170, -170), (0, 1)), False, True),
        (((180, -180), (-90, 90)), False, True),
        (((0, 1), (3, 2)), False, False),
        (((0, 1), (2, 3), (5, 4)), False, False),
        (((0, 1), (2, 3), (NAN, NAN), (7, 6)), False, False),
        (((0, 181), (2, 3)), True, False),
        (((190, -170), (2, 3)), False, False),
        (((0, 1), (-91, 3)), True, False),
    ],
)
def test_r093_boxes_of_geography_alone_go_across_the_line_and_lie_on_the_globe(
    ends, of_geometry, of_geography
):
    found = [box(*ends).may_bound(is_geography=is_one) for is_one in (False, True)]
    assert found == [of_geometry, of_geography]
