"""Read members of JSON objects into plain values; an invalid member breaks a rule."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from icectl.errors import CorruptTable
from icectl.units import print_value

T = TypeVar("T")

UNUSABLE = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What reading a value of another shape than expected raises; 1e999 overflows."""


def parse_json(text: str | bytes) -> Any:
    """Parse JSON that somebody else wrote. Raises: ValueError, for one of too many levels too."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it has too many levels") from error


def required(members: Mapping[str, Any], name: str, rule: str) -> Any:
    """Return a member of table metadata. Raises: CorruptTable, where it is absent or null."""
    value = members.get(name)
    if value is None:
        raise CorruptTable(f"`{name}` is absent from the table metadata", rule=rule)
    return value


def number(members: Mapping[str, Any], name: str, rule: str, default: int | None = None) -> int:
    """Return a whole number; required where there is no default. Raises: CorruptTable."""
    value = members.get(name)
    if value is None:
        value = required(members, name, rule) if default is None else default
    return parsed(rule, f"`{name}`", whole_number, value)


def whole_number(value: Any) -> int:
    """Return a whole number of 64 bits, also as text (R-206). Raises: TypeError; ValueError."""
    number = int(value) if isinstance(value, str) else value
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{print_value(value)} is not a whole number")
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{print_value(value)} does not fit 64 bits")
    return number


def parsed(rule: str, what: str, parse: Callable[[Any], T], value: Any) -> T:
    """Parse a value. Raises: CorruptTable by the rule, where it is UNUSABLE."""
    try:
        return parse(value)
    except UNUSABLE as error:
        reason = f"`{error.args[0]}` is absent" if isinstance(error, KeyError) else str(error)
        raise CorruptTable(f"{what} is unusable: {reason}", rule=rule) from error


def each(
    members: Mapping[str, Any], name: str, parse: Callable[[Any], T], rule: str
) -> Iterable[T]:
    """Parse the items of a list, none where it is absent. Raises: CorruptTable by the rule."""
    items = members.get(name) or []
    if not isinstance(items, list):
        raise CorruptTable(f"`{name}` is not a list", rule=rule)
    for position, item in enumerate(items):
        yield parsed(rule, f"`{name}` entry {position}", parse, item)


def json_object(value: Any) -> Mapping[str, Any]:
    """Return the value of a JSON object. Raises: TypeError."""
    if not isinstance(value, dict):
        raise TypeError(f"{print_value(value)} is not an object")
    return value


def texts(value: Mapping[str, Any]) -> dict[str, str]:
    """Return text by name; another writer's numbers and truth values are spelled as JSON."""
    return {
        key: item if isinstance(item, str) else json.dumps(item)
        for key, item in value.items()
        if item is not None
    }


def others(members: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """Return the members that are not known, to be kept (R-018)."""
    return {key: value for key, value in members.items() if key not in known}


def optional_number(value: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number that may be absent. Raises: as whole_number."""
    number = value.get(name)
    return None if number is None else whole_number(number)


def optional_text(value: Mapping[str, Any], name: str) -> str | None:
    """Return a text that may be absent. Raises: TypeError."""
    stored = value.get(name)
    return None if stored is None else text(stored)


def text(value: Any) -> str:
    """Return a text. Raises: TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{print_value(value)} is not text")
    return value


def put(members: dict[str, Any], name: str, value: Any) -> None:
    """Set a member unless there is nothing to say."""
    if value is not None:
        members[name] = value
