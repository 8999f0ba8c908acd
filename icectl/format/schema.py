"""A schema: fields by id and by dotted name, and its JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from icectl.format.json_members import others
from icectl.format.types import (
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    field_json,
    parse_field,
    type_text,
)

MEMBERS = {"type", "schema-id", "fields", "identifier-field-ids"}


@dataclass(frozen=True)
class Schema:
    """One schema of a table. Lookups by id and name are built once, on first use."""

    schema_id: int
    fields: tuple[NestedField, ...]
    identifier_field_ids: tuple[int, ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _named(self) -> Mapping[int, tuple[str, NestedField]]:
        return {item.id: (name, item) for name, item in _walk("", self.fields)}

    @cached_property
    def all_fields(self) -> Mapping[int, NestedField]:
        """Every field at any depth by id, parents first; parts of lists and maps too."""
        return {id_: item for id_, (_, item) in self._named.items()}

    @cached_property
    def _by_name(self) -> Mapping[str, NestedField]:
        return dict(self._named.values())

    def field(self, field_id: int) -> NestedField | None:
        return self.all_fields.get(field_id)

    def line_to(self, field_id: int) -> tuple[NestedField, ...]:
        """Return the fields that lead through structs to one, and that one; empty without."""
        return _line(self.fields, field_id)

    def name_of(self, field_id: int) -> str | None:
        name = self._named.get(field_id)
        return name[0] if name else None

    def field_named(self, name: str) -> NestedField | None:
        """Return the field with a dotted name; case counts."""
        return self._by_name.get(name)


FILE_PATH, POSITION = 2_147_483_546, 2_147_483_545
PATH_FIELD = NestedField(FILE_PATH, "file_path", PrimitiveType("string"), required=True)
POSITION_FIELD = NestedField(POSITION, "pos", PrimitiveType("long"), required=True)
POSITION_DELETES = Schema(0, (PATH_FIELD, POSITION_FIELD))
"""What a position delete file says of each row (R-121)."""


def children(type_: Type) -> tuple[NestedField, ...]:
    """Return the fields directly inside a type, parts of lists and maps under their names."""
    match type_:
        case StructType(fields):
            return fields
        case ListType():
            element = type_.element
            return (NestedField(type_.element_id, "element", element, type_.element_required),)
        case MapType():
            return (
                NestedField(type_.key_id, "key", type_.key, required=True),
                NestedField(type_.value_id, "value", type_.value, type_.value_required),
            )
        case _:
            return ()


def _line(fields: tuple[NestedField, ...], wanted: int) -> tuple[NestedField, ...]:
    for item in fields:
        if item.id == wanted:
            return (item,)
        if isinstance(item.type, StructType):
            below = _line(item.type.fields, wanted)
            if below:
                return (item, *below)
    return ()


def _walk(prefix: str, fields: tuple[NestedField, ...]) -> Iterator[tuple[str, NestedField]]:
    for item in fields:
        name = f"{prefix}.{item.name}" if prefix else item.name
        yield name, item
        yield from _walk(name, children(item.type))


def schema_from_json(value: Mapping[str, Any]) -> Schema:
    """Return a schema; without an id it reads as 0 (R-010). Raises: one of UNUSABLE."""
    return Schema(
        int(value.get("schema-id") or 0),
        tuple(parse_field(item) for item in value["fields"]),
        tuple(value.get("identifier-field-ids") or ()),
        others(value, MEMBERS),
    )


def schema_json(schema: Schema) -> dict[str, Any]:
    """Return the JSON form of a schema."""
    known: dict[str, Any] = {"type": "struct", "schema-id": schema.schema_id}
    if schema.identifier_field_ids:
        known["identifier-field-ids"] = list(schema.identifier_field_ids)
    known["fields"] = [field_json(item) for item in schema.fields]
    return known | dict(schema.unknown)


def similar_name_hint(name: str, names: Sequence[str]) -> str:
    """Return the hint for a name that there is not, by those that there are."""
    by_case = {known.lower(): known for known in names}
    similar = [by_case[key] for key in get_close_matches(name.lower(), by_case, n=1)]
    return (
        f"did you mean `{similar[0]}`?" if similar else "`icectl inspect TABLE schemas` lists them"
    )


def container_of(name: str, schema: Schema) -> str | None:
    """Return the list or map that a column lies in; None for one whose rows have one value each."""
    above = name.split(".")
    for end in range(1, len(above)):
        parent = schema.field_named(".".join(above[:end]))
        if parent is not None and not isinstance(parent.type, StructType):
            return type_text(parent.type).split("<")[0]
    return None
