"""Names of tables and namespaces in catalogs: `namespace.table`, of any depth, parts in quotes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from shlex import quote

from icectl.errors import TableNotFound, UsageError
from icectl.units import is_text

_PLAIN = re.compile(r"[^\s.\"`/']+")
"""A part that needs no quotes."""

_PART = re.compile(r'"(?:[^"]|"")*"|`(?:[^`]|``)*`|[^."`]+')
_QUOTED_PART = re.compile(r'(?:^|(?<=\.))(?:"(?:[^"]|"")*"|`(?:[^`]|``)*`)(?=\.|$)')
_QUOTES = ('"', "`")


@dataclass(frozen=True, slots=True)
class TableName:
    """A table in one catalog, by its namespace, outermost level first, and its own name."""

    namespace: tuple[str, ...]
    name: str

    def __str__(self) -> str:
        return dotted_name((*self.namespace, self.name))

    def lower(self) -> "TableName":
        """Return it in lower case, as some catalogs have all names."""
        return TableName(tuple(part.lower() for part in self.namespace), self.name.lower())


def parse_name(text: str) -> tuple[str, ...]:
    """The parts of a dotted name; a part with dots stands in quotes or backticks, doubled within.

    Raises: UsageError, for an empty part or quotes that do not fit.
    """
    if not is_text(text):
        raise UsageError(f"`{text}` is not a name: it is not text in UTF-8")
    parts, position = [], 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise _odd(text)
        part = match.group()
        quote = part[0]
        parts.append(part[1:-1].replace(quote * 2, quote) if quote in _QUOTES else part)
        position = match.end()
        if not parts[-1] or (position < len(text) and text[position] != "."):
            raise _odd(text)
        if position == len(text):
            return tuple(parts)
        position += 1


def without_quoted(text: str) -> str:
    """Return a text without the parts that stand in quotes, as those of names may."""
    return _QUOTED_PART.sub("", text)


def dotted_name(parts: tuple[str, ...]) -> str:
    """Return a name of these parts, which `parse_name` reads back."""
    return ".".join(
        part if _PLAIN.fullmatch(part) else ('"' + part.replace('"', '""') + '"') for part in parts
    )


def _odd(text: str) -> UsageError:
    return UsageError(
        f"`{text}` is not a table name: each part between dots is a name, or a name in quotes",
        hint='a name is catalog.namespace.table; quote a part with a dot in it: "my.table"',
    )


def no_table(catalog: str, name: TableName, beside: Sequence[str]) -> TableNotFound:
    """Return the error for a table that is not there; `beside` are the names in its namespace."""
    near = _near(name.name, beside)
    shown = ", ".join(
        f"`{dotted_name((catalog, *name.namespace, near_name))}`" for near_name in near
    )
    listing = dotted_name((catalog, *name.namespace))
    return TableNotFound(
        f"catalog `{catalog}` has no table `{name}`",
        hint=f"did you mean {shown}?"
        if near
        else f"`icectl inspect {quote(listing)}` lists its tables",
    )


def no_namespace(catalog: str, namespace: tuple[str, ...], known: Sequence[str]) -> TableNotFound:
    """Return the error for a namespace that is not there; `known` are those of one level."""
    listed = ", ".join(
        f"`{near_name}`" for near_name in _near(".".join(namespace), known) or known[:5]
    )
    hint = f"it has {listed}" if listed else "it has none at all"
    if namespace[0] == catalog:
        hint = f"the catalog is named twice: leave out `{dotted_name((catalog,))}.`; {hint}"
    return TableNotFound(
        f"catalog `{catalog}` has no namespace `{dotted_name(namespace)}`", hint=hint
    )


def no_iceberg_table(catalog: str, name: TableName, what: str) -> TableNotFound:
    """Return the error for what a catalog has under the name and is another thing, in words."""
    listing = quote(dotted_name((catalog, *name.namespace)))
    return TableNotFound(
        f"`{name}` in catalog `{catalog}` is {what}, not an Iceberg table",
        hint=f"`icectl inspect {listing}` lists the Iceberg tables",
    )


def _near(name: str, known: Sequence[str]) -> list[str]:
    lowered = {known_name.lower(): known_name for known_name in known}
    return [lowered[known_name] for known_name in get_close_matches(name.lower(), lowered, n=3)]
