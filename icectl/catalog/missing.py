"""Errors for names that a catalog does not have, with those that are near."""

from collections.abc import Sequence
from difflib import get_close_matches

from icectl.catalog.identifier import TableName, dotted_name
from icectl.errors import TableNotFound


def no_table(catalog: str, name: TableName, beside: Sequence[str]) -> TableNotFound:
    """Return the error for a table that is not there; `beside` are the names in its namespace."""
    near = _near(name.name, beside)
    shown = ", ".join(f"`{dotted_name((catalog, *name.namespace, each))}`" for each in near)
    listing = dotted_name((catalog, *name.namespace))
    return TableNotFound(
        f"catalog `{catalog}` has no table `{name}`",
        hint=f"did you mean {shown}?" if near else f"`icectl inspect {listing}` lists its tables",
    )


def no_namespace(catalog: str, namespace: tuple[str, ...], known: Sequence[str]) -> TableNotFound:
    """Return the error for a namespace that is not there; `known` are those of one level."""
    listed = ", ".join(f"`{each}`" for each in _near(".".join(namespace), known) or known[:5])
    return TableNotFound(
        f"catalog `{catalog}` has no namespace `{dotted_name(namespace)}`",
        hint=f"it has {listed}" if listed else "it has none at all",
    )


def no_iceberg_table(catalog: str, name: TableName, what: str) -> TableNotFound:
    """Return the error for what a catalog has under the name and is another thing, in words."""
    return TableNotFound(
        f"`{name}` in catalog `{catalog}` is {what}, no Iceberg table",
        hint=f"`icectl inspect {dotted_name((catalog, *name.namespace))}` lists the Iceberg tables",
    )


def _near(name: str, known: Sequence[str]) -> list[str]:
    lowered = {each.lower(): each for each in known}
    return [lowered[each] for each in get_close_matches(name.lower(), lowered, n=3)]
