"""Writer schemas of Avro files, as a tree of this package's own.

Columns are found in it by field id (R-008), and both decoders, fastavro and the compiled scan,
start from the same checked description.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from icectl.errors import CorruptTable
from icectl.format.json_members import parse_json

_MAX_DEPTH = 32
_MAX_WEIGHT = 20_000
"""Nodes of a schema with names written out: two thousand partition fields are fine, forty records
that each hold the one before twice are not."""

SCHEMAS = 64
"""Parsed schemas that are remembered: the manifests of a table have few different ones."""

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_SMALLEST = {"null": 0, "float": 4, "double": 8}


@dataclass(frozen=True, slots=True, eq=False)
class AvroType:
    """One node of a writer schema; only the members of its kind are filled. Equals itself only."""

    kind: str
    logical: str | None = None
    size: int = 0
    symbols: tuple[str, ...] = ()
    fields: tuple["AvroField", ...] = ()
    parts: tuple["AvroType", ...] = ()
    """Items of an array, values of a map, branches of a union."""
    weight: int = 1
    """Nodes in all, names written out."""
    height: int = 1

    @property
    def null_branch(self) -> int | None:
        """Position of null in a union of null and one other type (R-098); else None."""
        kinds = [part.kind for part in self.parts]
        if self.kind == "union" and len(kinds) == 2 and kinds.count("null") == 1:
            return kinds.index("null")
        return None

    @property
    def present(self) -> "AvroType":
        """The type of values that are not null."""
        null = self.null_branch
        return self if null is None else self.parts[1 - null]


@dataclass(frozen=True, slots=True)
class AvroField:
    """One field of a record with its Iceberg field id, where it has one."""

    name: str
    field_id: int | None
    type: AvroType


@lru_cache(SCHEMAS)
def parse_text(stored: str) -> AvroType:
    """Parse a writer schema as a file has it. Raises: CorruptTable R-008."""
    try:
        return parse_schema(parse_json(stored))
    except ValueError as error:
        raise damaged("its schema is not JSON") from error


def parse_schema(stored: Any) -> AvroType:
    """Parse a writer schema, named types written out where used. Raises: CorruptTable R-008."""
    try:
        parsed = _parse(stored, {}, 0)
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged("its schema is not an Avro schema") from error
    if parsed.kind != "record":
        raise damaged("its schema is not a record")
    return parsed


_Named = dict[str, tuple[Any, AvroType]]
"""Definitions of named types, as stored and parsed."""


def _parse(stored: Any, named: _Named, depth: int, space: str = "") -> AvroType:
    if depth > _MAX_DEPTH:
        raise damaged("its schema is nested too deeply")
    if isinstance(stored, str):
        return AvroType(stored) if stored in PRIMITIVES else named[_full(stored, space)][1]
    if isinstance(stored, list):
        branches = tuple(_parse(part, named, depth + 1, space) for part in stored)
        kinds = [branch.kind for branch in branches]
        if "union" in kinds or kinds.count("null") > 1:
            raise damaged("its schema has a union in a union, or one with null twice")
        return _nested(AvroType("union", parts=branches))
    kind = stored["type"]
    if not isinstance(kind, str):
        return _parse(kind, named, depth + 1, space)
    if kind in ("array", "map"):
        part = _parse(stored["items" if kind == "array" else "values"], named, depth + 1, space)
        if kind == "array" and _smallest(part) == 0:
            raise damaged("its schema has an array of items without bytes")
        return _nested(AvroType(kind, stored.get("logicalType"), parts=(part,)))
    if kind in PRIMITIVES:
        return AvroType(kind, stored.get("logicalType"))
    full = None
    if "name" in stored:
        full = _full(_text(stored["name"]), str(stored.get("namespace", space) or ""))
        space = full.rpartition(".")[0]
    if kind == "record":
        parsed = _nested(AvroType(kind, fields=_fields(stored["fields"], named, depth, space)))
    elif kind == "enum":
        parsed = AvroType(kind, symbols=tuple(str(symbol) for symbol in stored["symbols"]))
    elif kind == "fixed":
        parsed = AvroType(kind, stored.get("logicalType"), size=_natural(stored["size"]))
    else:
        return named[_full(kind, space)][1]
    if full is not None:  # some writers repeat a definition where they use it again
        earlier, parsed = named.setdefault(full, (stored, parsed))
        if earlier != stored:
            raise damaged(f"its schema has two types named `{full}`")
    return parsed


def _fields(stored: Any, named: _Named, depth: int, space: str) -> tuple[AvroField, ...]:
    fields = tuple(
        AvroField(
            _text(field["name"]),
            None if field.get("field-id") is None else _natural(field["field-id"]),
            _parse(field["type"], named, depth + 1, space),
        )
        for field in stored
    )
    if len({field.name for field in fields}) < len(fields):
        raise damaged("two fields of its schema have one name")
    return fields


def _full(name: str, space: str) -> str:
    """Return a name with its namespace, which one with dots has itself."""
    return name if "." in name or not space else f"{space}.{name}"


def _nested(parsed: AvroType) -> AvroType:
    """Return the type with its weight and height, which are bounded."""
    inner = [*parsed.parts, *(field.type for field in parsed.fields)]
    weight = 1 + sum(part.weight for part in inner)
    height = 1 + max((part.height for part in inner), default=0)
    if weight > _MAX_WEIGHT or height > _MAX_DEPTH:
        raise damaged("its schema is nested too deeply")
    return replace(parsed, weight=weight, height=height)


def _text(stored: Any) -> str:
    if not isinstance(stored, str):
        raise damaged("its schema is not an Avro schema")
    return stored


def _natural(stored: Any) -> int:
    if not isinstance(stored, int) or not 0 <= stored < 2**31:
        raise damaged("its schema is not an Avro schema")
    return stored


def _smallest(part: AvroType) -> int:
    """Fewest bytes that a value can take."""
    if part.kind == "record":
        return sum(_smallest(field.type) for field in part.fields)
    if part.kind == "fixed":
        return part.size
    return _SMALLEST.get(part.kind, 1)


def fields_by_id(
    record: AvroType, ids_by_name: Mapping[str, int], *, to_show: bool = False
) -> Mapping[int, int]:
    """Return positions of a record's fields by field id; by name where the record carries no ids.

    What is only shown may have two fields with one id: the one of the right name counts.
    Raises: CorruptTable R-008 where two fields have one id.
    """
    if any(field.field_id is not None for field in record.fields):
        places = [(field.field_id, at) for at, field in enumerate(record.fields)]
    else:
        places = [(ids_by_name.get(field.name), at) for at, field in enumerate(record.fields)]
    if to_show:
        places.sort(key=lambda pair: ids_by_name.get(record.fields[pair[1]].name) == pair[0])
    positions = {field_id: at for field_id, at in places if field_id is not None}
    if not to_show and len(positions) != sum(field_id is not None for field_id, _ in places):
        raise damaged("two fields of its schema have one id")
    return positions


NO_ID = -1
"""Stands among field ids for a field that has none, and is known by no name."""


def nameless(record: AvroType, ids_by_name: Mapping[str, int]) -> set[int]:
    """Return NO_ID alone if fields_by_id passes over a field without an id; else nothing."""
    has_ids = any(field.field_id is not None for field in record.fields)
    return {
        NO_ID
        for field in record.fields
        if field.field_id is None and (has_ids or field.name not in ids_by_name)
    }


def damaged(what: str) -> CorruptTable:
    """Return the error for bytes that are no valid Avro data."""
    return CorruptTable(f"the Avro file is damaged: {what}", rule="R-008")
