"""Columns by the names that people give."""

from collections.abc import Sequence
from difflib import get_close_matches

from icectl.format.schema import Schema
from icectl.format.types import StructType, type_text


def near(name: str, names: Sequence[str]) -> str:
    """Return the hint for a name that there is not, by those that there are."""
    by_case = {known.lower(): known for known in names}
    found = [by_case[key] for key in get_close_matches(name.lower(), by_case, n=1)]
    return f"did you mean `{found[0]}`?" if found else "`icectl inspect TABLE schemas` lists them"


def container_of(name: str, schema: Schema) -> str | None:
    """Return the list or map that a column lies in; None for one whose rows have one value each."""
    above = name.split(".")
    for end in range(1, len(above)):
        parent = schema.field_named(".".join(above[:end]))
        if parent is not None and not isinstance(parent.type, StructType):
            return type_text(parent.type).split("<")[0]
    return None
