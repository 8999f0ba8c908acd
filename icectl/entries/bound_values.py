"""Bounds of columns, stored as single-value bytes of the type at write time, as numbers (R-096).

Bounds that are unknown, malformed or NaN (R-092) are left out.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icectl.entries.columns import Integers, Spans
from icectl.format.moments import DAY_SECONDS
from icectl.format.single_value import PROMOTED_FROM_DATE, UNITS_PER_SECOND
from icectl.format.types import PrimitiveType, Type

Reals = npt.NDArray[np.float64]


def integer_bounds(stored: pa.Array, type_: Type) -> Iterator[tuple[Integers, Integers]]:
    """Yield rows, and their bounds in units of an integer type or boolean, by stored width."""
    packed = _packed(stored)
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    for width, form in ((1, "<i1"), (4, "<i4"), (8, "<i8")):
        at = np.flatnonzero(packed.lengths == width)
        bounds = packed.numbers(at, form).astype(np.int64)
        if width == 1:
            bounds = (bounds != 0).astype(np.int64)
        if width == 4 and name in PROMOTED_FROM_DATE:
            units = DAY_SECONDS * UNITS_PER_SECOND[name]
            known = np.abs(bounds) < 2**63 // units
            at, bounds = at[known], bounds[known] * units
        yield at, bounds


def real_bounds(stored: pa.Array) -> Iterator[tuple[Integers, Reals]]:
    """Yield rows, and their bounds of a float or double column, by stored width."""
    packed = _packed(stored)
    for width, form in ((4, "<f4"), (8, "<f8")):
        at = np.flatnonzero(packed.lengths == width)
        bounds = packed.numbers(at, form).astype(np.float64)
        known = ~np.isnan(bounds)
        yield at[known], bounds[known]


def decimal_bounds(stored: pa.Array) -> tuple[Integers, Integers, npt.NDArray[np.uint64]]:
    """Return rows, and upper and lower half of their unscaled bounds of a decimal column."""
    packed = _packed(stored)
    at = np.flatnonzero((packed.lengths > 0) & (packed.lengths <= 16))
    return at, *packed.decimals(at)


def _packed(stored: pa.Array) -> Spans:
    _, offsets, content = stored.buffers()
    ends = np.frombuffer(offsets, np.int32)[stored.offset : stored.offset + len(stored) + 1]
    octets = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
    return Spans(octets, ends[:-1], np.diff(ends))
