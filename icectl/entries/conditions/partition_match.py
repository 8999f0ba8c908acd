"""Conditions judged by a file's partition, on the columns that its spec partitions by."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from icectl.entries.conditions.predicates import Compare, IsNan, IsNull, Leaf, StartsWith
from icectl.entries.partition.key import PartitionValue
from icectl.format.single_value import EXACT, Value
from icectl.format.transforms import Transform, apply
from icectl.format.types import DecimalType, PrimitiveType, Type

_DATE_UNITS = ("year", "month", "day", "hour")
_WHOLE = ("int", "long", "date", "time")
_NO_ORDER = (PrimitiveType("uuid"),)
"""Types whose order writers have not agreed on."""


@dataclass(frozen=True, slots=True)
class May:
    """The answer to whether a condition may be true, and whether it may be false, of some row."""

    be_true: bool
    be_false: bool


UNKNOWN = May(be_true=True, be_false=True)


def of_partition(leaf: Leaf, transform: Transform, value: PartitionValue) -> May:
    """Tell what a partition value says of rows, whose column gives it through the transform.

    Spec: R-117, projection is inclusive; an unknown transform and void say nothing.
    """
    if transform.name in ("unknown", "void"):
        return UNKNOWN
    try:
        return _of_known(leaf, transform, value)
    except ValueError:  # the transform does not take the column's type
        return UNKNOWN


def _of_known(leaf: Leaf, transform: Transform, value: PartitionValue) -> May:
    if isinstance(leaf, IsNull):
        return _either(value is None)
    if value is None:
        return May(be_true=False, be_false=isinstance(leaf, IsNan))
    if transform.name == "identity":
        return _of_identity(leaf, value)
    if isinstance(leaf, IsNan):
        return _either(holds=False)
    if transform.name == "bucket":
        return _of_bucket(leaf, transform, value)
    if isinstance(leaf, StartsWith):
        return _of_shortened(leaf.prefix, transform, value)
    may = _of_ordered(leaf, transform, value)
    if transform.name in _DATE_UNITS and isinstance(value, int) and value <= 0:
        # Old writers rounded moments before 1970 up.
        below = _of_ordered(leaf, transform, value - 1)
        return May(may.be_true or below.be_true, may.be_false or below.be_false)
    return may


def _either(holds: bool) -> May:  # noqa: FBT001
    return May(be_true=holds, be_false=not holds)


def _of_identity(leaf: Leaf, value: PartitionValue) -> May:
    is_nan = isinstance(value, float) and math.isnan(value)
    match leaf:
        case IsNan():
            return _either(is_nan)
        case StartsWith(_, prefix):
            return _either(str(value).startswith(prefix))
        case Compare(column, operator, wanted):
            if is_nan:
                return _either(holds=False)
            if operator != "=" and column.type in _NO_ORDER:
                return UNKNOWN
            return _either(_HOLDS[operator](value, wanted))
        case _:
            return UNKNOWN


_HOLDS: dict[str, Callable[[Value, Value], bool]] = {
    "<": lambda value, wanted: bool(value < wanted),
    "<=": lambda value, wanted: bool(value <= wanted),
    "=": lambda value, wanted: bool(value == wanted),
}


def _of_bucket(leaf: Leaf, transform: Transform, value: PartitionValue) -> May:
    if not isinstance(leaf, Compare) or leaf.operator != "=":
        return UNKNOWN
    return May(apply(transform, leaf.column.type, leaf.value) == value, be_false=True)


def _of_shortened(prefix: str, transform: Transform, value: PartitionValue) -> May:
    width = transform.width or 0
    if len(prefix) <= width:
        return _either(str(value).startswith(prefix))
    return May(str(value) == prefix[:width], be_false=True)


def _of_ordered(leaf: Leaf, transform: Transform, value: Value) -> May:
    """Transforms that keep the order: `x < v` may hold where theirs is not above that of `v`."""
    if not isinstance(leaf, Compare):
        return UNKNOWN
    type_, wanted = leaf.column.type, leaf.value

    def applied(to: Value) -> Value:
        """Apply the transform to a value of the column's type."""
        return apply(transform, type_, to)

    if leaf.operator == "=":
        return May(bool(value == applied(wanted)), be_false=True)
    highest = _next_to(type_, wanted, -1) if leaf.operator == "<" else wanted
    lowest = wanted if leaf.operator == "<" else _next_to(type_, wanted, 1)
    return May(bool(value <= applied(highest)), bool(value >= applied(lowest)))


def _next_to(type_: Type, value: Value, step: int) -> Value:
    """Return the next value below or above; the value itself where a type has none."""
    match type_:
        case PrimitiveType(name) if name in _WHOLE or name.startswith("timestamp"):
            return value + step
        case DecimalType(_, scale):
            return EXACT.add(value, Decimal(step).scaleb(-scale, EXACT))
        case _:
            return value
