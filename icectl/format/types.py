"""The type tree of Iceberg columns: shapes, JSON, promotion, the version a type needs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icectl.format.json_members import others


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without parameters, variant too; `name` is one of PRIMITIVES."""

    name: str


@dataclass(frozen=True, slots=True)
class DecimalType:
    """The type decimal(precision, scale)."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class FixedType:
    """The type fixed[length]: exactly `length` bytes."""

    length: int


@dataclass(frozen=True, slots=True)
class GeometryType:
    """geometry(crs); None is the default coordinate system (R-090)."""

    crs: str | None = None


@dataclass(frozen=True, slots=True)
class GeographyType:
    """geography(crs, algorithm); None is the default of either (R-090)."""

    crs: str | None = None
    algorithm: str | None = None


@dataclass(frozen=True, slots=True)
class NestedField:
    """One field of a struct; its defaults are JSON single values (R-094, R-182)."""

    id: int
    name: str
    type: "Type"
    required: bool
    doc: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)
    initial_default: Any = None
    write_default: Any = None


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct; the schema's root is one too."""

    fields: tuple[NestedField, ...]
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class ListType:
    """A list with the id of its element."""

    element_id: int
    element: "Type"
    element_required: bool
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class MapType:
    """A map with the ids of its key and value."""

    key_id: int
    key: "Type"
    value_id: int
    value: "Type"
    value_required: bool
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False)


Type = (
    PrimitiveType
    | DecimalType
    | FixedType
    | GeometryType
    | GeographyType
    | StructType
    | ListType
    | MapType
)
"""Any type of versions 1 to 3."""

PRIMITIVES = {
    "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz",
    "timestamp_ns", "timestamptz_ns", "string", "uuid", "binary", "unknown", "variant",
}  # fmt: skip
VERSION_3_PRIMITIVES = {"unknown", "variant", "timestamp_ns", "timestamptz_ns"}
PROMOTIONS = {("int", "long"), ("float", "double")}
VERSION_3_PROMOTIONS = {("date", "timestamp"), ("date", "timestamp_ns")}
FIELD_MEMBERS = {"id", "name", "required", "type", "doc", "initial-default", "write-default"}
_MEMBERS = {
    "struct": {"type", "fields"},
    "list": {"type", "element-id", "element", "element-required"},
    "map": {"type", "key-id", "key", "value-id", "value", "value-required"},
}

_DEEPEST = 64
DEFAULT_CRS, DEFAULT_ALGORITHM = "OGC:CRS84", "spherical"

_DECIMAL = re.compile(r"decimal\s*\(\s*([0-9]+)\s*,\s*([0-9]+)\s*\)", re.IGNORECASE)
_FIXED = re.compile(r"fixed\s*\[\s*([0-9]+)\s*\]", re.IGNORECASE)
_GEOMETRY = re.compile(r"geometry\s*(?:\(\s*([^()]+?)\s*\))?", re.IGNORECASE)
_GEOGRAPHY = re.compile(
    r"geography\s*(?:\(\s*([^,()]+?)\s*(?:,\s*([^,()]+?)\s*)?\))?", re.IGNORECASE
)


def parse_type(value: object, depth: int = 0) -> Type:
    """Return a type from its JSON: a string for primitives, an object for struct, list and map.

    `depth` is the number of types that it lies in; unknown members are kept (R-018).
    Raises: ValueError, when it is no type of any known version, or nests too deep for readers of
        its files; KeyError or TypeError, when a member of a nested type is absent or malformed.
    """
    if depth > _DEEPEST:
        raise ValueError(f"a type nests deeper than {_DEEPEST} levels")
    if isinstance(value, str):
        return _parse_primitive(value)
    if not isinstance(value, Mapping):
        raise ValueError(f"cannot parse a type from {value!r}")  # noqa: TRY004
    match value.get("type"):
        case "struct":
            fields = tuple(parse_field(item, depth + 1) for item in value["fields"])
            return StructType(fields, others(value, _MEMBERS["struct"]))
        case "list":
            element = parse_type(value["element"], depth + 1)
            id_, is_required = int(value["element-id"]), bool(value["element-required"])
            return ListType(id_, element, is_required, others(value, _MEMBERS["list"]))
        case "map":
            key = parse_type(value["key"], depth + 1)
            item = parse_type(value["value"], depth + 1)
            ids = int(value["key-id"]), int(value["value-id"])
            unknown, is_required = others(value, _MEMBERS["map"]), bool(value["value-required"])
            return MapType(ids[0], key, ids[1], item, is_required, unknown)
        case other:
            raise ValueError(f"cannot parse a type from {other!r}")


def _parse_primitive(text: str) -> Type:
    text = text.strip()
    if text.lower() in PRIMITIVES:
        return PrimitiveType(text.lower())
    if match := _DECIMAL.fullmatch(text):
        return DecimalType(int(match[1]), int(match[2]))
    if match := _FIXED.fullmatch(text):
        return FixedType(int(match[1]))
    if match := _GEOMETRY.fullmatch(text):
        return GeometryType(match[1])
    if match := _GEOGRAPHY.fullmatch(text):
        return GeographyType(match[1], match[2])
    raise ValueError(f"cannot parse a type from {text!r}")


def parse_field(value: Mapping[str, Any], depth: int = 0) -> NestedField:
    """Return a struct field, `depth` types deep; unknown members are kept (R-018)."""
    return NestedField(
        int(value["id"]),
        str(value["name"]),
        parse_type(value["type"], depth),
        bool(value["required"]),
        value.get("doc"),
        others(value, FIELD_MEMBERS),
        value.get("initial-default"),
        value.get("write-default"),
    )


def type_json(type_: Type) -> str | dict[str, Any]:
    """Return the JSON form of a type, as the reference implementation spells it."""
    match type_:
        case StructType(fields):
            known: dict[str, Any] = {
                "type": "struct",
                "fields": [field_json(item) for item in fields],
            }
            return known | dict(type_.unknown)
        case ListType():
            known = {
                "type": "list",
                "element-id": type_.element_id,
                "element": type_json(type_.element),
                "element-required": type_.element_required,
            }
            return known | dict(type_.unknown)
        case MapType():
            known = {
                "type": "map",
                "key-id": type_.key_id,
                "key": type_json(type_.key),
                "value-id": type_.value_id,
                "value": type_json(type_.value),
                "value-required": type_.value_required,
            }
            return known | dict(type_.unknown)
        case _:
            return type_text(type_)


def field_json(item: NestedField) -> dict[str, Any]:
    """Return the JSON form of a struct field."""
    known: dict[str, Any] = {
        "id": item.id,
        "name": item.name,
        "required": item.required,
        "type": type_json(item.type),
    }
    optional = {
        "doc": item.doc,
        "initial-default": item.initial_default,
        "write-default": item.write_default,
    }
    known |= {key: value for key, value in optional.items() if value is not None}
    return known | dict(item.unknown)


def type_text(type_: Type) -> str:
    """Return a type in one line, for people: `decimal(9, 2)`, `struct<1: a: optional int>`."""
    match type_:
        case PrimitiveType(name):
            return name
        case DecimalType(precision, scale):
            return f"decimal({precision}, {scale})"
        case FixedType(length):
            return f"fixed[{length}]"
        case GeometryType(crs):
            return f"geometry({crs})" if crs else "geometry"
        case GeographyType(crs, str(algorithm)):
            return f"geography({crs or DEFAULT_CRS}, {algorithm})"
        case GeographyType(crs):
            return f"geography({crs})" if crs else "geography"
        case ListType():
            return f"list<{type_text(type_.element)}>"
        case MapType():
            return f"map<{type_text(type_.key)}, {type_text(type_.value)}>"
        case _:
            inner = ", ".join(
                f"{item.id}: {item.name}: {'required' if item.required else 'optional'} "
                f"{type_text(item.type)}"
                for item in type_.fields
            )
            return f"struct<{inner}>"


def is_nested(type_: Type) -> bool:
    """Return whether a type has fields of its own."""
    return isinstance(type_, StructType | ListType | MapType)


def is_comparable(type_: Type) -> bool:
    """Return whether values of a type compare with one another, as those of no shape do.

    The others have no transform but void, and no order, and no condition but for nulls names them.
    """
    if isinstance(type_, GeometryType | GeographyType) or type_ == PrimitiveType("variant"):
        return False
    return not is_nested(type_)


def min_version(type_: Type) -> int:
    """Return the first format version that may use a type itself, nested fields aside (R-177)."""
    if isinstance(type_, GeometryType | GeographyType):
        return 3
    return 3 if isinstance(type_, PrimitiveType) and type_.name in VERSION_3_PRIMITIVES else 1


def can_promote(old: Type, new: Type, format_version: int) -> bool:
    """Whether a column may change from one type to another without rewriting data (R-097)."""
    if old == new:
        return True
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return new.scale == old.scale and new.precision >= old.precision
    if old == PrimitiveType("unknown"):
        return format_version >= 3
    if not (isinstance(old, PrimitiveType) and isinstance(new, PrimitiveType)):
        return False
    step = (old.name, new.name)
    return step in PROMOTIONS or (format_version >= 3 and step in VERSION_3_PROMOTIONS)
