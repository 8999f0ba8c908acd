"""Bounds of geometry and geography in statistics: corners as structs (sfc-1 5.1, R-093)."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import Mask, mask_of
from icectl.files.parquet.schema import FIELD_ID, field_id
from icectl.format.bounding_box import EAST, WEST, decode_corner, encode_corner
from icectl.format.types import GeographyType, GeometryType, Type

SHAPES = (GeometryType, GeographyType)
_AXES = ("x", "y", "z", "m")
CORNER = pa.struct([pa.field(axis, pa.float64()) for axis in _AXES])
"""A corner; null in z and m where the shapes have no such coordinates, or that is not known."""

CORNER_IDS = {1: 10, 2: 14}
"""Where the ids of the coordinates of a bound begin in its group, by the offset of the bound."""

_Longitudes = tuple[float, float]


def corner_type(first_id: int) -> pa.StructType:
    """Return the type of a corner whose coordinates have ids from `first_id`."""
    return pa.struct(
        [field.with_metadata({FIELD_ID: str(first_id + at)}) for at, field in enumerate(CORNER)]
    )


def with_corners_of(values: pa.Array, kind: pa.StructType) -> pa.Array:
    """Return stored corners as `kind`, whose coordinates are found by id; null without x or y."""
    if not pa.types.is_struct(values.type):
        return pa.nulls(len(values), kind)
    stored = dict(zip(map(field_id, values.type), values.flatten(), strict=True))
    axes = [stored.get(field_id(field), pa.nulls(len(values), field.type)) for field in kind]
    if any(axis.type != pa.float64() for axis in axes):
        return pa.nulls(len(values), kind)
    is_known = pc.and_(axes[0].is_valid(), axes[1].is_valid())
    return pa.StructArray.from_arrays(axes, fields=list(kind), mask=pc.invert(is_known))


def corners(stored: pa.Array) -> pa.Array:
    """Return corners out of their single-value bytes; null where they do not decode."""
    encoded = stored.dictionary_encode()
    values: list[dict[str, float | None] | None] = []
    for content in encoded.dictionary.to_pylist():
        try:
            corner = decode_corner(content)
        except ValueError:
            values.append(None)
            continue
        known = [None if math.isnan(value) else value for value in corner]
        values.append(dict(zip(_AXES, known, strict=True)))
    return pa.array(values, CORNER).take(encoded.indices)


def corner_bytes(values: pa.Array) -> pa.Array:
    """Return corners as their single-value bytes; null stays null."""
    x, y, z, m = (axis.to_pylist() for axis in values.flatten())
    content = [
        None
        if one is None or other is None
        else encode_corner((one, other, _or_nan(height), _or_nan(measure)))
        for one, other, height, measure in zip(x, y, z, m, strict=True)
    ]
    return pa.array(content, pa.binary())


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def around(lower: pa.Array, upper: pa.Array, type_: Type) -> tuple[pa.Array, pa.Array]:
    """Return the corners of the box around some boxes, one row each; null if one is not known.

    A coordinate that one of the boxes lacks is unknown. Longitudes of geography may cross 180
    degrees: then the lower one is greater.
    """
    nothing = pa.nulls(1, lower.type)
    if not len(lower) or lower.null_count or upper.null_count:
        return nothing, nothing
    least, most = (_coordinates(corner) for corner in (lower, upper))
    crossed = least > most
    crossed[:, 0] &= not isinstance(type_, GeographyType)
    if crossed.any():  # it is no box
        return nothing, nothing
    ends = [least.min(axis=0), most.max(axis=0)]  # NaN if one is
    if isinstance(type_, GeographyType):
        ends[0][0], ends[1][0] = joined_longitudes(least[:, 0], most[:, 0])
    found = [pa.array([_corner(end)], lower.type) for end in ends]
    return found[0], found[1]


def _coordinates(corner: pa.Array) -> npt.NDArray[np.float64]:
    """Return (corner, axis) coordinates; NaN where there are none."""
    return np.column_stack([pc.fill_null(axis, math.nan).to_numpy() for axis in corner.flatten()])


def _corner(end: Sequence[float]) -> dict[str, float | None]:
    return {
        axis: None if math.isnan(value) else float(value)
        for axis, value in zip(_AXES, end, strict=True)
    }


def joined_longitudes(west: npt.NDArray[np.float64], east: npt.NDArray[np.float64]) -> _Longitudes:
    """Return the shortest range of longitudes that has all ranges, each from west to east.

    Of two as short, the one that does not cross 180 degrees.
    """
    crosses = west > east
    starts = np.concatenate([west, np.full(crosses.sum(), WEST)])
    ends = np.concatenate([np.where(crosses, EAST, east), east[crosses]])
    order = np.argsort(starts, kind="stable")
    starts, reached = starts[order], np.maximum.accumulate(ends[order])
    gaps = starts[1:] - reached[:-1]
    around_back = float(starts[0] - WEST + EAST - reached[-1])
    widest = int(gaps.argmax()) if len(gaps) else -1
    if widest < 0 or gaps[widest] <= around_back:
        return float(starts[0]), float(reached[-1])
    return float(starts[widest + 1]), float(reached[widest])


def crossed(lower: pa.Array, upper: pa.Array, type_: Type) -> Mask:
    """Find where a coordinate of the lower corner is above that of the upper one."""
    wrong = np.zeros(len(lower), bool)
    for at, (least, most) in enumerate(zip(lower.flatten(), upper.flatten(), strict=True)):
        if at or not isinstance(type_, GeographyType):
            wrong |= mask_of(pc.greater(least, most))
        wrong |= mask_of(pc.is_nan(least)) | mask_of(pc.is_nan(most))
    return wrong


def has_outside(
    boxes: tuple[pa.Array, pa.Array], box: tuple[pa.Array, pa.Array], type_: Type
) -> bool:
    """Return whether one of some boxes is not in the box of one row, in a coordinate of both."""
    outer = [_coordinates(corner)[0] for corner in box]
    least, most = (_coordinates(corner) for corner in boxes)
    known = ~np.isnan(least[:, 0]) & ~np.isnan(most[:, 0])
    least, most = least[known], most[known]
    first = 0
    if isinstance(type_, GeographyType):
        first = 1
        if not _has_longitudes(outer[0][0], outer[1][0], least[:, 0], most[:, 0]).all():
            return True
    with np.errstate(invalid="ignore"):
        outside = (least[:, first:] < outer[0][first:]) | (most[:, first:] > outer[1][first:])
    return bool(outside.any())


def _has_longitudes(
    west: float, east: float, first: npt.NDArray[np.float64], last: npt.NDArray[np.float64]
) -> Mask:
    """Find the ranges of longitudes, from first to last, that are in one from west to east."""
    if math.isnan(west) or math.isnan(east):
        return np.ones(len(first), bool)
    if west <= east:
        is_whole = west <= WEST and east >= EAST
        return (first <= last) & (west <= first) & (last <= east) | is_whole
    is_east, is_west = first >= west, last <= east
    return np.where(first <= last, is_east | is_west, is_east & is_west)
