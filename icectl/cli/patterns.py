"""Patterns of names and locations, part by part: `prod.sales.*`, `prod.**`, `/wh/*/*`: pure.

`*`, `?` and `[...]` stand for characters within one part, a part that is `**` for any number of
parts.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import takewhile

_WILD = frozenset("*?[")
ANY_DEPTH = "**"


def is_pattern(text: str) -> bool:
    """Return whether a text may stand for other texts than itself."""
    return not _WILD.isdisjoint(text)


def fixed_part(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the parts in front of the first that is a pattern."""
    return tuple(takewhile(lambda part: not is_pattern(part), parts))


def matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether a pattern stands for these parts, all of them."""
    # What is left of the pattern may begin at each of these places.
    places = {0}
    for part in pattern:
        if part == ANY_DEPTH:
            places = set(range(min(places), len(parts) + 1))
        else:
            places = {at + 1 for at in places if at < len(parts) and fnmatchcase(parts[at], part)}
        if not places:
            return False
    return len(parts) in places


def covers(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether a pattern stands for these parts, or names a namespace or folder of them."""
    return matches(pattern, parts) or tuple(parts[: len(pattern)]) == tuple(pattern)
