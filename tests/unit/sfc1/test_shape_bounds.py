"""Boxes of geometry and geography in statistics: ids, corners, summed up, across 180 degrees."""

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icectl.entries.rows import CARRIED, RawEntries
from icectl.files.parquet.schema import FIELD_ID, field_id
from icectl.format.types import parse_type
from icectl.sfc1.content_stats import (
    StatsColumn,
    aggregate,
    conform,
    from_maps,
    stats_type,
    to_maps,
)
from icectl.sfc1.shape_bounds import crossed, has_outside, joined_longitudes

GEOMETRY, GEOGRAPHY = parse_type("geometry(srid:0)"), parse_type("geography")
CORNER = pa.struct([(axis, pa.float64()) for axis in "xyzm"])


def bound(*coordinates: float) -> bytes:
    return struct.pack(f"<{len(coordinates)}d", *coordinates)


def entries(*bounds: tuple[bytes | None, bytes | None]) -> RawEntries:
    """Entries of 10 rows with bounds of column 4, whose rows are 10 and none null."""
    rows = [
        {
            "value_counts": [(4, 10)],
            "null_value_counts": [(4, 0)],
            "lower_bounds": [] if lower is None else [(4, lower)],
            "upper_bounds": [] if upper is None else [(4, upper)],
        }
        for lower, upper in bounds
    ]
    table = pa.Table.from_pylist(rows, CARRIED)
    return RawEntries(table.append_column("record_count", pa.array([10] * len(rows), pa.int64())))


def summed(kind, *bounds):
    """The box of a leaf of files with such bounds, (x, y, z, m) of either corner."""
    columns = (StatsColumn(4, kind),)
    stats = from_maps(entries(*bounds), columns)
    (total,) = aggregate(stats, columns, pa.array([10] * len(bounds))).to_pylist()
    corners = (total["s4"]["lower_bound"], total["s4"]["upper_bound"])
    return tuple(None if one is None else tuple(one.values()) for one in corners)


@pytest.mark.parametrize("kind", [GEOMETRY, GEOGRAPHY])
def test_members_have_the_ids_of_the_layout(kind):
    (field,) = stats_type((StatsColumn(4, kind),))
    ids = {member.name: field_id(member) for member in field.type}
    assert ids == {
        "lower_bound": 10_801, "upper_bound": 10_802, "value_count": 10_804, "null_count": 10_805,
        "average_uncompressed_length": 10_807, "max_uncompressed_length": 10_808,
    }  # fmt: skip
    corners = [[(axis.name, field_id(axis)) for axis in field.type.field(at).type] for at in (0, 1)]
    assert corners == [
        [("x", 10_810), ("y", 10_811), ("z", 10_812), ("m", 10_813)],
        [("x", 10_814), ("y", 10_815), ("z", 10_816), ("m", 10_817)],
    ]


@pytest.mark.parametrize(
    ("stored", "corner"),
    [
        (bound(1, 2), (1, 2, None, None)), (bound(1, 2, 3), (1, 2, 3, None)),
        (bound(1, 2, float("nan"), 4), (1, 2, None, 4)), (bound(1, 2, 3, 4), (1, 2, 3, 4)),
        (bound(float("nan"), 2), None), (b"1234567", None),
    ],
)  # fmt: skip
def test_r093_corners_come_and_go_as_manifests_have_them(stored, corner):
    columns = (StatsColumn(4, GEOMETRY),)
    stats = from_maps(entries((stored, stored)), columns)
    (row,) = stats.to_pylist()
    found = row["s4"]["lower_bound"]
    assert (None if found is None else tuple(found.values())) == corner
    maps = to_maps(stats, columns, {"lower_bounds", "upper_bounds"})
    expected = None if corner is None else [(4, stored)]
    assert [maps[name].to_pylist() for name in sorted(maps)] == [[expected], [expected]]


@pytest.mark.parametrize(
    ("kind", "bounds", "box"),
    [
        (GEOMETRY, [(bound(1, 2), bound(3, 4)), (bound(-1, 3), bound(2, 9))],
         ((-1, 2, None, None), (3, 9, None, None))),
        (GEOMETRY, [(bound(1, 2, 5), bound(3, 4, 6)), (bound(0, 0, 1, 2), bound(9, 9, 9, 9))],
         ((0, 0, 1, None), (9, 9, 9, None))),
        (GEOMETRY, [(bound(1, 2, 5), bound(3, 4, 6)), (bound(0, 0), bound(9, 9))],
         ((0, 0, None, None), (9, 9, None, None))),
        (GEOMETRY, [(bound(1, 2), bound(3, 4)), (None, bound(9, 9))], (None, None)),
        (GEOMETRY, [(bound(170, 0), bound(-170, 1)), (bound(0, 0), bound(9, 9))], (None, None)),
        (GEOGRAPHY, [(bound(1, 5), bound(2, 4)), (bound(0, 0), bound(9, 9))], (None, None)),
        (GEOGRAPHY, [(bound(170, 1), bound(-170, 2)), (bound(160, 0), bound(165, 9))],
         ((160, 0, None, None), (-170, 9, None, None))),
        (GEOGRAPHY, [(bound(179, 0), bound(179, 0)), (bound(-179, 1), bound(-179, 1))],
         ((179, 0, None, None), (-179, 1, None, None))),
        (GEOMETRY, [(bound(179, 0), bound(179, 0)), (bound(-179, 1), bound(-179, 1))],
         ((-179, 0, None, None), (179, 1, None, None))),
    ],
    ids=["two boxes", "a file without M", "a file without Z", "a file without a corner",
         "a box of geometry that wraps", "a box of latitudes that wraps",
         "across 180 degrees", "the shorter way round", "geometry goes no way round"],
)  # fmt: skip
def test_the_box_of_a_leaf_has_those_of_its_files(kind, bounds, box):
    assert summed(kind, *bounds) == box


longitudes = st.integers(-180, 180).map(float)


def degrees(west: float, east: float) -> set[int]:
    """The whole degrees of a range, from 0 to 359."""
    stop = east if west <= east else east + 360
    return {degree % 360 for degree in range(int(west), int(stop) + 1)}


@given(st.lists(st.tuples(longitudes, longitudes), min_size=1, max_size=6))
def test_no_range_of_longitudes_that_has_all_is_shorter(ranges):
    west, east = np.array(ranges).T
    found = joined_longitudes(west, east)
    needed = set().union(*(degrees(*one) for one in ranges))
    assert needed <= degrees(*found)
    ends = {end for one in ranges for end in one}
    enough = [(a, b) for a in ends for b in ends if needed <= degrees(a, b)]
    assert len(degrees(*found)) <= min((len(degrees(*one)) for one in enough), default=360)


def corner(*coordinates: float | None) -> pa.Array:
    return pa.array([dict(zip("xyzm", coordinates, strict=True))], CORNER)


def test_corners_are_crossed_by_each_coordinate_but_the_longitude_of_geography():
    low, high = corner(170, 0, 0, 0), corner(-170, 0, 0, 0)
    assert crossed(low, high, GEOMETRY).all()
    assert not crossed(low, high, GEOGRAPHY).any()
    assert crossed(corner(0, 0, 5, None), corner(0, 0, 4, None), GEOGRAPHY).all()
    assert not crossed(corner(0, 0, 5, None), corner(0, 0, None, None), GEOMETRY).any()


@pytest.mark.parametrize(
    ("kind", "outer", "inner", "outside"),
    [
        (GEOMETRY, (0, 5), (1, 5), False),
        (GEOMETRY, (0, 5), (1, 6), True),
        (GEOGRAPHY, (170, -170), (175, -175), False),
        (GEOGRAPHY, (170, -170), (-175, -172), False),
        (GEOGRAPHY, (170, -170), (-175, 0), True),
        (GEOGRAPHY, (-180, 180), (170, -170), False),
        (GEOGRAPHY, (-10, 10), (170, -170), True),
    ],
)
def test_boxes_are_in_one_another(kind, outer, inner, outside):
    boxes, box = (tuple(corner(end, 0, None, None) for end in ends) for ends in (inner, outer))
    assert has_outside(boxes, box, kind) is outside


def test_coordinates_are_found_by_their_ids_whatever_their_names():
    columns = (StatsColumn(4, GEOMETRY),)
    kind = stats_type(columns)
    axes = [pa.field(f"c{number}", pa.float64(), metadata={FIELD_ID: str(number)})
            for number in (10_811, 10_810)]  # fmt: skip
    inner = pa.field("low", pa.struct(axes), metadata={FIELD_ID: "10801"})
    group = pa.field("group", pa.struct([inner]), metadata={FIELD_ID: str(field_id(kind.field(0)))})
    stored = pa.array([{"group": {"low": {"c10811": 2.0, "c10810": 1.0}}}], pa.struct([group]))
    (row,) = conform(stored, columns, 1).to_pylist()
    assert row["s4"]["lower_bound"] == {"x": 1.0, "y": 2.0, "z": None, "m": None}
    assert row["s4"]["upper_bound"] is None
