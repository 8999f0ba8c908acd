"""Partition specs: JSON, result types, paths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

from icectl.format.json_members import others
from icectl.format.schema import Schema
from icectl.format.single_value import Value
from icectl.format.transforms import Transform, parse_transform, path_text, result_type
from icectl.format.types import PrimitiveType, Type

FIRST_FIELD_ID = 1000
FIELD_MEMBERS = {"source-id", "source-ids", "field-id", "name", "transform"}


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a spec (R-081); `expr_id` is the expression that it links to in version 4."""

    source_ids: tuple[int, ...]
    field_id: int
    name: str
    transform: Transform
    unknown: Mapping[str, Any] = field(default_factory=dict)
    expr_id: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """One partition spec of a table."""

    spec_id: int
    fields: tuple[PartitionField, ...]
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_unpartitioned(self) -> bool:
        """Whether no field partitions: there are none, or only void ones (R-085)."""
        return all(item.transform.name == "void" for item in self.fields)


def spec_from_json(value: Mapping[str, Any]) -> PartitionSpec:
    """Return a spec from its JSON. Raises: ValueError, KeyError or TypeError, when it is none."""
    unknown = others(value, {"spec-id", "fields"})
    return PartitionSpec(int(value["spec-id"]), fields_from_json(value["fields"]), unknown)


def fields_from_json(value: Sequence[Mapping[str, Any]]) -> tuple[PartitionField, ...]:
    """Return the fields of a spec; without any ids they are 1000 and the position (R-010, R-078).

    Raises: ValueError, when some have an id and others do not; KeyError or TypeError.
    """
    if len({"field-id" in item for item in value}) > 1:
        raise ValueError("some partition fields have a `field-id` and others do not")
    return tuple(
        PartitionField(
            source_ids(item),
            int(item.get("field-id", FIRST_FIELD_ID + position)),
            str(item["name"]),
            parse_transform(str(item["transform"])),
            others(item, FIELD_MEMBERS),
        )
        for position, item in enumerate(value)
    )


def source_ids(value: Mapping[str, Any]) -> tuple[int, ...]:
    """Source columns of a partition or sort field: `source-ids`, else `source-id` (R-081)."""
    if value.get("source-ids"):
        return tuple(int(item) for item in value["source-ids"])
    return (int(value["source-id"]),)


def sources_json(ids: tuple[int, ...]) -> dict[str, Any]:
    """Write `source-id` for one column, `source-ids` for more (R-081)."""
    return {"source-id": ids[0]} if len(ids) == 1 else {"source-ids": list(ids)}


def spec_json(spec: PartitionSpec) -> dict[str, Any]:
    """Return the JSON form of a spec."""
    return {"spec-id": spec.spec_id, "fields": fields_json(spec)} | dict(spec.unknown)


def fields_json(spec: PartitionSpec) -> list[dict[str, Any]]:
    """Return the fields of a spec alone, as v1 metadata and manifests hold them (R-060)."""
    return [
        sources_json(item.source_ids)
        | {"field-id": item.field_id, "name": item.name, "transform": item.transform.text}
        | dict(item.unknown)
        for item in spec.fields
    ]


def result_types(spec: PartitionSpec, schemas: Sequence[Schema]) -> tuple[Type | None, ...]:
    """The type of each partition value; None for an unknown transform or a lost source column.

    The source is looked up in the last schema that has it; a transform with a type of its own
    needs none.
    """
    types: list[Type | None] = []
    for item in spec.fields:
        columns = (schema.field(item.source_ids[0]) for schema in reversed(schemas))
        source = next((column.type for column in columns if column is not None), None)
        if source is None and item.transform.name in ("identity", "truncate"):
            types.append(None)
        else:
            types.append(result_type(item.transform, source or PrimitiveType("int")))
    return tuple(types)


def partition_path(
    spec: PartitionSpec, types: Sequence[Type | None], values: Sequence[Value]
) -> str:
    """Write `category=a/at_day=2024-01-02` as Java does; values without a type as they are."""
    parts = []
    for item, type_, value in zip(spec.fields, types, values, strict=True):
        shown = str(value) if type_ is None else path_text(item.transform, type_, value)
        parts.append(f"{_escape(item.name)}={_escape(shown)}")
    return "/".join(parts)


def _escape(text: str) -> str:
    """URL-encode as Java's URLEncoder, which differs from Python's in two characters."""
    return quote_plus(text, safe="*").replace("~", "%7E")
