"""Conditions on rows, as values. They select files that may hold a row for which they are true.

A condition is true, false or, where a column is null, unknown; `not` keeps unknown. NaN is above
every number and equal to none; null is no NaN.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from icectl.format.single_value import Value
from icectl.format.types import Type


@dataclass(frozen=True, slots=True)
class Column:
    """A column by its field id, or the partition fields of a name where there is no field id."""

    name: str
    type: Type
    field_id: int | None


@dataclass(frozen=True, slots=True)
class Constant:
    """A condition that is true, or false, of every row."""

    value: bool


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of a column with a value of its type, as format/single_value.py has it."""

    column: Column
    operator: Literal["<", "<=", "="]
    value: Value


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The condition that a string begins with another."""

    column: Column
    prefix: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """The condition that a column is null."""

    column: Column


@dataclass(frozen=True, slots=True)
class IsNan:
    """The condition that a float is not a number."""

    column: Column


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    part: "Predicate"


@dataclass(frozen=True, slots=True)
class And:
    """Every part; there is one or more."""

    parts: tuple["Predicate", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One part at least; there is one or more."""

    parts: tuple["Predicate", ...]


Leaf = Compare | StartsWith | IsNull | IsNan
Predicate = Leaf | Constant | Not | And | Or


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """Yield every condition on a single column. Order: as written."""
    match predicate:
        case Not(part):
            yield from leaves(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from leaves(part)
        case Constant():
            return
        case _:
            yield predicate
