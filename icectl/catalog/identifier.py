"""Names of tables and namespaces in catalogs: `namespace.table`, of any depth, parts in quotes."""

import re
from dataclasses import dataclass

from icectl.errors import UsageError

_PLAIN = re.compile(r"[^\s.\"`/']+")
"""A part that needs no quotes."""

_PART = re.compile(r'"(?:[^"]|"")*"|`(?:[^`]|``)*`|[^."`]+')
_QUOTES = ('"', "`")


@dataclass(frozen=True, slots=True)
class TableName:
    """A table in one catalog, by its namespace, outermost level first, and its own name."""

    namespace: tuple[str, ...]
    name: str

    def __str__(self) -> str:
        return dotted_name((*self.namespace, self.name))


def parse_name(text: str) -> tuple[str, ...]:
    """The parts of a dotted name; a part with dots stands in quotes or backticks, doubled within.

    Raises: UsageError, for an empty part or quotes that do not fit.
    """
    parts, position = [], 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise _odd(text)
        parts.append(_unquoted(match.group()))
        position = match.end()
        if not parts[-1] or (position < len(text) and text[position] != "."):
            raise _odd(text)
        if position == len(text):
            return tuple(parts)
        position += 1


def dotted_name(parts: tuple[str, ...]) -> str:
    """Return a name of these parts, which `parse_name` reads back."""
    return ".".join(part if _PLAIN.fullmatch(part) else _quoted(part) for part in parts)


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'


def _unquoted(part: str) -> str:
    quote = part[0]
    return part[1:-1].replace(quote * 2, quote) if quote in _QUOTES else part


def _odd(text: str) -> UsageError:
    return UsageError(
        f"`{text}` is no name of a table: between two dots stands a name, or a name in quotes",
        hint='a name looks like catalog.namespace.table; one with a dot in it like "my.table"',
    )
