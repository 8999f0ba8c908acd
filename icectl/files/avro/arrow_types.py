"""Avro writer schemas in the terms of Arrow: as stored, and as Iceberg means them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from icectl.files.arrow_failures import beyond
from icectl.files.avro.schema import AvroField, AvroType
from icectl.files.parquet.schema import FIELD_ID
from icectl.format.json_members import parse_json

_PRIMITIVES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms"),
    ("long", "timestamp-micros"): pa.timestamp("us"),
    ("long", "timestamp-nanos"): pa.timestamp("ns"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}


def maps_as_lists(part: AvroType) -> AvroType:
    """The type with each map as an array of records of key and value, which are stored alike."""
    parts = tuple(maps_as_lists(each) for each in part.parts)
    fields = tuple(replace(field, type=maps_as_lists(field.type)) for field in part.fields)
    if part.kind == "map":
        pair = (AvroField("key", None, AvroType("string")), AvroField("value", None, parts[0]))
        return AvroType("array", parts=(AvroType("record", fields=pair),))
    return replace(part, parts=parts, fields=fields)


def stored_type(part: AvroType) -> pa.DataType:
    """Return the Arrow type of decoded values, fields of records named for their positions.

    Unions are of null and one type, or of one: arrow_fields tells of others.
    """
    part = part.present
    if part.kind == "union" and len(part.parts) == 1:
        part = part.parts[0]
    if part.kind == "record":
        places = enumerate(part.fields)
        return pa.struct([(str(place), stored_type(field.type)) for place, field in places])
    if part.kind == "array":
        return pa.list_(stored_type(part.parts[0]))
    if part.kind == "fixed":
        return pa.binary(part.size)
    return _PRIMITIVES[part.kind]


def arrow_fields(schema: str) -> list[pa.Field]:
    """The columns that the JSON of a writer schema means, with the ids of all fields (R-095).

    Raises: KeyError, TypeError or ValueError, where it is no schema; Unsupported, for a union of
    more than null and one type.
    """
    kind = _type(parse_json(schema), {})
    return [kind.field(place) for place in range(kind.num_fields)]


def _type(stored: Any, named: dict[str, pa.DataType]) -> pa.DataType:
    if isinstance(stored, str):
        return _PRIMITIVES[stored] if stored in _PRIMITIVES else named[stored]
    if isinstance(stored, list):
        branches = [branch for branch in stored if branch != "null"]
        if len(branches) > 1:
            raise beyond("Avro", "a column is a union of several types")
        return _type(branches[0], named) if branches else pa.null()
    kind = stored["type"]
    if not isinstance(kind, str):
        return _type(kind, named)
    if kind not in _KINDS:
        return _plain(kind, stored) if kind in _PRIMITIVES else named[kind]
    parsed = _KINDS[kind](stored, named)
    if "name" in stored:
        named[str(stored["name"])] = parsed
    return parsed


def _record(stored: Mapping[str, Any], named: dict[str, pa.DataType]) -> pa.DataType:
    return pa.struct([_field(field, named) for field in stored["fields"]])


def _map(stored: Mapping[str, Any], named: dict[str, pa.DataType]) -> pa.DataType:
    key = _part("key", pa.string(), stored.get("key-id"), nullable=False)
    value = _type(stored["values"], named)
    return pa.map_(key, _part("value", value, stored.get("value-id"), nullable=True))


def _list(stored: Mapping[str, Any], named: dict[str, pa.DataType]) -> pa.DataType:
    element = _type(stored["items"], named)
    if stored.get("logicalType") == "map":  # a map whose keys are no strings
        key, value = (element.field(place) for place in (0, 1))
        return pa.map_(key.with_name("key").with_nullable(nullable=False), value.with_name("value"))
    return pa.list_(_part("element", element, stored.get("element-id"), nullable=True))


def _field(stored: Mapping[str, Any], named: dict[str, pa.DataType]) -> pa.Field:
    name = str(stored.get("iceberg-field-name", stored["name"]))
    nullable = isinstance(stored["type"], list) and "null" in stored["type"]
    kind = _type(stored["type"], named)
    return _part(name, kind, stored.get("field-id"), nullable=nullable or kind == pa.null())


def _part(name: str, kind: pa.DataType, number: Any, *, nullable: bool) -> pa.Field:
    return pa.field(name, kind, nullable, None if number is None else {FIELD_ID: str(int(number))})


def _plain(kind: str, stored: Mapping[str, Any]) -> pa.DataType:
    logical = stored.get("logicalType")
    if kind == "bytes":
        return _bytes(stored, pa.binary())
    meant = _LOGICAL.get((kind, str(logical)), _PRIMITIVES[kind])
    if pa.types.is_timestamp(meant) and stored.get("adjust-to-utc"):
        return pa.timestamp(meant.unit, "UTC")
    return meant


def _bytes(stored: Mapping[str, Any], plain: pa.DataType) -> pa.DataType:
    if stored.get("logicalType") == "decimal":
        return pa.decimal128(int(stored["precision"]), int(stored.get("scale", 0)))
    is_uuid = stored.get("logicalType") == "uuid" and plain == pa.binary(16)
    return pa.uuid() if is_uuid else plain


_KINDS: Mapping[str, Callable[[Mapping[str, Any], dict[str, pa.DataType]], pa.DataType]] = {
    "record": _record,
    "array": _list,
    "map": _map,
    "enum": lambda _, __: pa.string(),
    "fixed": lambda stored, _: _bytes(stored, pa.binary(stored["size"])),
}
