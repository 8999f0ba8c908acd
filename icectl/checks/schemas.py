"""Checks of schemas, partition specs, sort orders, and the properties about them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from icectl.checks.finding import Finding, Severity, finding
from icectl.format.json_members import parse_json
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.properties import NAME_MAPPING
from icectl.format.schema import Schema, children
from icectl.format.types import (
    NestedField,
    PrimitiveType,
    Type,
    can_promote,
    is_nested,
    min_version,
    type_text,
)

FIRST_RESERVED_ID = 2_147_483_447
"""Ids above it are kept for metadata columns (R-019)."""


def check_schemas(metadata: TableMetadata) -> Iterator[Finding]:
    """Check schemas, specs and sort orders.

    Spec: R-007, R-019, R-077, R-080, R-084, R-097, R-177, R-181, R-182, R-184.
    """
    for schema in metadata.schemas:
        yield from _schema(metadata, schema)
    yield from _same_ids("schemas", [schema.schema_id for schema in metadata.schemas], "R-184")
    yield from _promotions(metadata)
    for spec in metadata.partition_specs:
        yield from _spec(metadata, spec)
    yield from _same_ids("partition specs", [s.spec_id for s in metadata.partition_specs], "R-077")
    yield from _shared_field_ids(metadata)
    yield from _sort_orders(metadata)
    yield from _name_mapping(metadata)


def _same_ids(subject: str, ids: Sequence[int], rule: str) -> Iterator[Finding]:
    for id_, times in Counter(ids).items():
        if times > 1:
            yield finding(rule, subject, f"id {id_} is used {times} times")


def _schema(metadata: TableMetadata, schema: Schema) -> Iterator[Finding]:
    subject = f"schema {schema.schema_id}"
    for id_, field in schema.all_fields.items():
        name = schema.name_of(id_)
        if id_ > FIRST_RESERVED_ID:
            yield finding("R-019", subject, f"column `{name}` has the reserved id {id_}")
        needed = 1 if is_nested(field.type) else min_version(field.type)
        if needed > metadata.format_version:
            message = f"column `{name}` is of a type of version {needed}: {type_text(field.type)}"
            yield finding("R-177", subject, message)
    defaulted = [
        schema.name_of(id_)
        for id_, field in schema.all_fields.items()
        if field.initial_default is not None or field.write_default is not None
    ]
    if defaulted and metadata.format_version < 3:
        message = (
            f"{len(defaulted)} columns have defaults before version 3; one is `{defaulted[0]}`"
        )
        yield finding("R-182", subject, message)
    for id_, times in Counter(field.id for field in _fields(schema.fields)).items():
        if times > 1:
            yield finding("R-184", subject, f"field id {id_} is used {times} times")
    for id_ in schema.identifier_field_ids:
        problem = _unfit(schema, id_)
        if problem is not None:
            yield finding("R-184", subject, f"identifier field {id_} {problem}")


def _fields(fields: Sequence[NestedField]) -> Iterator[NestedField]:
    """Yield fields and everything in them, repeated ids included."""
    for field in fields:
        yield field
        yield from _fields(children(field.type))


def _unfit(schema: Schema, field_id: int) -> str | None:
    """Tell why a field cannot identify rows; None where it can."""
    field = schema.field(field_id)
    if field is None:
        return "is no column of the schema"
    if not field.required:
        return "is optional"
    if is_nested(field.type):
        return "is not primitive"
    if isinstance(field.type, PrimitiveType) and field.type.name in ("float", "double"):
        return f"is a {field.type.name}"
    return None


def _promotions(metadata: TableMetadata) -> Iterator[Finding]:
    """A column has one type in all schemas, or was promoted as the format allows (R-097)."""
    types: dict[int, tuple[int, Type]] = {}
    for schema in sorted(metadata.schemas, key=lambda item: item.schema_id):
        for id_, field in schema.all_fields.items():
            if is_nested(field.type):
                continue
            before = types.get(id_)
            types[id_] = schema.schema_id, field.type
            if before is None or before[1] == field.type:
                continue
            version = metadata.format_version
            either = can_promote(before[1], field.type, version) or can_promote(
                field.type, before[1], version
            )
            if not either:
                message = (
                    f"column `{schema.name_of(id_)}` is {type_text(field.type)}, "
                    f"and {type_text(before[1])} in schema {before[0]}"
                )
                yield finding("R-097", f"schema {schema.schema_id}", message)


def _spec(metadata: TableMetadata, spec: PartitionSpec) -> Iterator[Finding]:
    subject = f"partition spec {spec.spec_id}"
    for name, times in Counter(field.name for field in spec.fields).items():
        if times > 1:
            yield finding("R-077", subject, f"{times} fields are named `{name}`")
    for id_, times in Counter(field.field_id for field in spec.fields).items():
        if times > 1:
            yield finding("R-077", subject, f"{times} fields have the id {id_}")
    for field in spec.fields:
        if field.transform.name == "unknown":
            message = f"the transform `{field.transform.text}` of `{field.name}` is not known"
            yield finding("R-007", subject, message)
        if field.transform.name != "void":
            yield from _source(metadata, spec, field)


def _source(
    metadata: TableMetadata, spec: PartitionSpec, field: PartitionField
) -> Iterator[Finding]:
    """Source columns exist and are primitive (R-080); those of old specs may have been dropped."""
    subject = f"partition spec {spec.spec_id}"
    for source_id in field.source_ids:
        found = [schema.field(source_id) for schema in metadata.schemas]
        types = [source.type for source in found if source is not None]
        if not types:
            is_default = spec.spec_id == metadata.default_spec_id
            message = f"source column {source_id} of `{field.name}` is in no schema"
            severity: Severity = "error" if is_default else "warning"
            yield finding("R-080", subject, message, severity=severity)
        elif is_nested(types[-1]):
            message = f"source column {source_id} of `{field.name}` is not primitive"
            yield finding("R-080", subject, message)


def _shared_field_ids(metadata: TableMetadata) -> Iterator[Finding]:
    """Check that from version 2 on a partition field id means one source and transform (R-077)."""
    if metadata.format_version == 1:
        return
    meanings: dict[int, dict[tuple[tuple[int, ...], str], int]] = {}
    for spec in metadata.partition_specs:
        for field in spec.fields:
            if field.transform.name != "void":
                meaning = field.source_ids, field.transform.text
                meanings.setdefault(field.field_id, {}).setdefault(meaning, spec.spec_id)
    for field_id, found in meanings.items():
        if len(found) > 1:
            specs = ", ".join(str(spec_id) for spec_id in found.values())
            message = f"id {field_id} means something else in each of the specs {specs}"
            # Tables that come from version 1 keep the ids of their positions.
            yield finding("R-077", "partition fields", message, severity="info")


def _sort_orders(metadata: TableMetadata) -> Iterator[Finding]:
    columns = {id_ for schema in metadata.schemas for id_ in schema.all_fields}
    for order in metadata.sort_orders:
        subject = f"sort order {order.order_id}"
        if order.order_id == 0 and order.fields:
            yield finding("R-084", subject, "order 0 is the unsorted one, but has fields")
        for field in order.fields:
            for source_id in field.source_ids:
                if source_id not in columns:
                    yield finding("R-084", subject, f"source column {source_id} is in no schema")
    if metadata.sort_order(metadata.default_sort_order_id) is None:
        message = f"the default sort order {metadata.default_sort_order_id} is not in `sort-orders`"
        yield finding("R-084", "metadata", message)


def _name_mapping(metadata: TableMetadata) -> Iterator[Finding]:
    text = metadata.properties.get(NAME_MAPPING.name)
    if not text:
        return
    try:
        problem = mapping_problem(parse_json(text))
    except (ValueError, RecursionError):
        problem = "it is no JSON"
    if problem is not None:
        yield finding("R-181", f"property {NAME_MAPPING.name}", problem)


def mapping_problem(mapping: Any) -> str | None:
    """Tell why some JSON is no name mapping; None where it is one (R-181)."""
    if not isinstance(mapping, list):
        return "it is no list"
    ids: Counter[int] = Counter()
    names: Counter[str] = Counter()
    for item in mapping:
        if not isinstance(item, Mapping) or not isinstance(item.get("names"), list):
            return "a field of it has no list of names"
        names.update(str(name) for name in item["names"])
        number = item.get("field-id")
        if number is not None:
            if type(number) is not int:
                return f"`{number}` is no field id"
            ids[number] += 1
        problem = mapping_problem(item["fields"]) if item.get("fields") else None
        if problem is not None:
            return problem
    doubled = [f"id {id_}" for id_, times in ids.items() if times > 1]
    doubled += [f"name `{name}`" for name, times in names.items() if times > 1]
    return f"it has the {doubled[0]} twice at one level" if doubled else None
