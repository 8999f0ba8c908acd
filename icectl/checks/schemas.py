"""Rules of schemas, partition specs, sort orders, and the properties about them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from icectl.checks.objects import (
    METADATA,
    CommitBase,
    MetadataFile,
    StoredManifest,
    in_columns,
    in_partition_fields,
)
from icectl.checks.rule import Breach, Check, at_most_once, rule
from icectl.format.json_members import UNUSABLE, parse_json
from icectl.format.manifest import ManifestHeader
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.properties import NAME_MAPPING
from icectl.format.rule import COMPACT, ENGINE, OURS, RESTORE
from icectl.format.schema import children, schema_from_json
from icectl.format.sort import SortField
from icectl.format.types import (
    GeographyType,
    GeometryType,
    NestedField,
    PrimitiveType,
    Type,
    can_promote,
    is_comparable,
    is_nested,
    type_text,
)

BINARY = PrimitiveType("binary")
FIRST_RESERVED_ID = 2_147_483_447
"""Ids above it are kept for metadata columns (R-019)."""


# -- schemas --------------------------------------------------------------------------------------


RESERVED_IDS = in_columns(
    "column `{name}` has the reserved id {one.id}", lambda one: one.id > FIRST_RESERVED_ID
)
"""Ids of metadata columns."""


def other_columns(metadata: TableMetadata, header: ManifestHeader) -> str | None:
    """Return how a schema differs from its copy in the header of a manifest; None if it does not.

    A schema never changes: another id or type of a column would show other values for it, and files
    that are written without it lose its values.
    """
    stored = header.schema
    schema = metadata.schema(stored["schema-id"]) if stored and "schema-id" in stored else None
    if stored is None or schema is None:
        return None
    try:
        copy = schema_from_json(stored)
    except UNUSABLE:
        return None
    for id_, item in copy.all_fields.items():
        name = copy.name_of(id_) or ""
        column = schema.field_named(name)
        if column is None and id_ not in schema.all_fields:
            lacking = f"which schema {schema.schema_id} lacks"
            return f"its header has the column `{name}` with id {id_}, {lacking}"
        if column is None or children(item.type):
            continue
        if item.type == BINARY and isinstance(column.type, GeometryType | GeographyType):
            continue  # some writers know these only by what they are stored as
        if column.id != id_ or column.type != item.type:
            return (
                f"its header has the column `{name}` as {type_text(item.type)} with id {id_}, "
                f"schema {schema.schema_id} as {type_text(column.type)} with id {column.id}"
            )
    return None


def other_fields(header: ManifestHeader, spec: PartitionSpec | None) -> bool:
    """Return whether a header has other sources or transforms of a spec; names may have changed."""
    if header.partition_fields is None or spec is None:
        return False
    fields = [
        (
            item["source-ids"] if "source-ids" in item else [item.get("source-id")],
            str(item.get("transform", "")).lower(),
        )
        for item in header.partition_fields
    ]
    return fields != [
        (list(field.source_ids), field.transform.text.lower()) for field in spec.fields
    ]


def _mismatched_copy(stored: StoredManifest) -> Iterator[Breach]:
    problem = other_columns(stored.metadata, stored.header)
    if problem is not None:
        yield Breach(problem)


def _early_defaults(file: MetadataFile) -> Iterator[Breach]:
    for schema in file.metadata.schemas if file.version < 3 else ():
        names = [
            schema.name_of(id_)
            for id_, field in schema.all_fields.items()
            if field.initial_default is not None or field.write_default is not None
        ]
        if names:
            message = f"{len(names)} columns have defaults before version 3; one is `{names[0]}`"
            yield Breach(message, f"schema {schema.schema_id}")


def _has_default_but_null(field: NestedField) -> bool:
    """Columns of unknown, of variants and of shapes have no default but null."""
    has_none = field.initial_default is None and field.write_default is None
    is_null = field.type == PrimitiveType("unknown") or not is_comparable(field.type)
    return not has_none and is_null and not is_nested(field.type)


def _unfit_identifier_fields(file: MetadataFile) -> Iterator[Breach]:
    for schema in file.metadata.schemas:
        for id_ in schema.identifier_field_ids:
            field, problem = schema.field(id_), None
            if field is None:
                problem = "is not a column of the schema"
            elif not field.required:
                problem = "is optional"
            elif is_nested(field.type):
                problem = "is not primitive"
            elif field.type in (PrimitiveType("float"), PrimitiveType("double")):
                problem = f"is a {type_text(field.type)}"
            if problem is not None:
                yield Breach(f"identifier field {id_} {problem}", f"schema {schema.schema_id}")


SCHEMA_IDS = (
    at_most_once(
        CommitBase,
        "field id {value} is used {times} times",
        lambda base: (
            (f"schema {schema.schema_id}", (field.id for field in _fields(schema.fields)))
            for schema in base.metadata.schemas
        ),
    ),
    Check(MetadataFile, _unfit_identifier_fields),
    at_most_once(
        CommitBase,
        "id {value} is used {times} times",
        lambda base: [("schemas", (schema.schema_id for schema in base.metadata.schemas))],
    ),
)


def _fields(fields: Sequence[NestedField]) -> Iterator[NestedField]:
    """Yield fields and everything in them, repeated ids included."""
    for field in fields:
        yield field
        yield from _fields(children(field.type))


def _promotions(file: MetadataFile) -> Iterator[Breach]:
    """A column has one type in all schemas, or was promoted as the format allows."""
    types: dict[int, tuple[int, Type]] = {}
    for schema in sorted(file.metadata.schemas, key=lambda one: one.schema_id):
        for id_, field in schema.all_fields.items():
            if is_nested(field.type):
                continue
            before = types.get(id_)
            types[id_] = schema.schema_id, field.type
            if before is None or before[1] == field.type:
                continue
            either = can_promote(before[1], field.type, file.version) or can_promote(
                field.type, before[1], file.version
            )
            if not either:
                message = (
                    f"column `{schema.name_of(id_)}` is {type_text(field.type)}, "
                    f"and {type_text(before[1])} in schema {before[0]}"
                )
                yield Breach(message, f"schema {schema.schema_id}")


# -- partition specs and sort orders --------------------------------------------------------------


UNKNOWN_TRANSFORM = "the transform `{one.transform.text}` of `{one.name}` is not known"
REPEATED_SPEC_IDS = at_most_once(
    CommitBase,
    "id {value} is used {times} times",
    lambda base: [("partition specs", (spec.spec_id for spec in base.metadata.partition_specs))],
)
REPEATED_PARTITION_FIELDS = (
    at_most_once(
        MetadataFile,
        "{times} fields are named `{value}`",
        lambda file: (
            (f"partition spec {spec.spec_id}", (field.name for field in spec.fields))
            for spec in file.metadata.partition_specs
        ),
    ),
    at_most_once(
        MetadataFile,
        "{times} fields have the id {value}",
        lambda file: (
            (f"partition spec {spec.spec_id}", (field.field_id for field in spec.fields))
            for spec in file.metadata.partition_specs
        ),
    ),
)


def shared_partition_fields(file: MetadataFile) -> Iterator[Breach]:
    """Find partition field ids that mean several things, which is a fault from version 2 on."""
    meanings: dict[int, dict[tuple[tuple[int, ...], str], int]] = {}
    for spec in file.metadata.partition_specs if file.version > 1 else ():
        for field in spec.fields:
            if field.transform.name != "void":
                meaning = field.source_ids, field.transform.text
                meanings.setdefault(field.field_id, {}).setdefault(meaning, spec.spec_id)
    for field_id, of_specs in meanings.items():
        if len(of_specs) > 1:
            specs = ", ".join(str(spec_id) for spec_id in of_specs.values())
            message = f"id {field_id} means something else in each of the specs {specs}"
            # Tables that come from version 1 keep the ids of their positions.
            yield Breach(message, "partition fields", "info")


def _sources(file: MetadataFile) -> Iterator[Breach]:
    """Source columns exist and are primitive; those of old specs may have been dropped."""
    metadata = file.metadata
    for spec in metadata.partition_specs:
        subject = f"partition spec {spec.spec_id}"
        fields = (field for field in spec.fields if field.transform.name != "void")
        for field, source_id in ((one, id_) for one in fields for id_ in one.source_ids):
            columns = [schema.field(source_id) for schema in metadata.schemas]
            types = [column.type for column in columns if column is not None]
            if not types:
                is_default = spec.spec_id == metadata.default_spec_id
                message = f"source column {source_id} of `{field.name}` is in no schema"
                yield Breach(message, subject, "error" if is_default else "warning")
            elif is_nested(types[-1]):
                message = f"source column {source_id} of `{field.name}` is not primitive"
                yield Breach(message, subject)


def _incomparable_sources(file: MetadataFile) -> Iterator[Breach]:
    """Variants and shapes are compared in no order and make no partitions; void takes them."""
    metadata = file.metadata
    fields: list[tuple[str, PartitionField | SortField]] = []
    for spec in metadata.partition_specs:
        fields += [(f"partition spec {spec.spec_id}", one) for one in spec.fields]
    for order in metadata.sort_orders:
        fields += [(f"sort order {order.order_id}", one) for one in order.fields]
    for subject, field in fields:
        columns = [schema.field(id_) for schema in metadata.schemas for id_ in field.source_ids]
        types = [
            column.type for column in columns if column is not None and not is_nested(column.type)
        ]
        if types and field.transform.name != "void" and not is_comparable(types[-1]):
            yield Breach(f"{field.transform.text} takes no {type_text(types[-1])}", subject)


def faults_of_sort_orders(file: MetadataFile) -> Iterator[Breach]:
    """Find fields without a column, and a default order that is not there."""
    metadata = file.metadata
    columns = {id_ for schema in metadata.schemas for id_ in schema.all_fields}
    for order in metadata.sort_orders:
        subject = f"sort order {order.order_id}"
        if order.order_id == 0 and order.fields:
            yield Breach("order 0 is the unsorted one, but has fields", subject)
        for source_id in (id_ for field in order.fields for id_ in field.source_ids):
            if source_id not in columns:
                yield Breach(f"source column {source_id} is in no schema", subject)
    if metadata.sort_order(metadata.default_sort_order_id) is None:
        message = f"the default sort order {metadata.default_sort_order_id} is not in `sort-orders`"
        yield Breach(message, METADATA)


# -- the name mapping -----------------------------------------------------------------------------


def _name_mapping(file: MetadataFile) -> Iterator[Breach]:
    text = file.metadata.properties.get(NAME_MAPPING.name)
    if not text:
        return
    try:
        problem = mapping_problem(parse_json(text))
    except (ValueError, RecursionError):
        problem = "it is not JSON"
    if problem is not None:
        yield Breach(problem, f"property {NAME_MAPPING.name}")


def mapping_problem(mapping: Any) -> str | None:
    """Tell why some JSON is no name mapping; None where it is one (R-181)."""
    if not isinstance(mapping, list):
        return "it is not a list"
    ids: Counter[int] = Counter()
    names: Counter[str] = Counter()
    for item in mapping:
        if not isinstance(item, Mapping) or not isinstance(item.get("names"), list):
            return "a field of it has no list of names"
        names.update(str(name) for name in item["names"])
        number = item.get("field-id")
        if number is not None:
            if type(number) is not int:
                return f"`{number}` is not a field id"
            ids[number] += 1
        problem = mapping_problem(item["fields"]) if item.get("fields") else None
        if problem is not None:
            return problem
    doubled = [f"id {id_}" for id_, times in ids.items() if times > 1]
    doubled += [f"name `{name}`" for name, times in names.items() if times > 1]
    return f"it has the {doubled[0]} twice at one level" if doubled else None


# fmt: off
SCHEMA_RULES = (
    rule("R-007", "every transform is known", "Partitioning", "warning",
         "maintain partitions of this spec with an engine that knows the transform",
         in_partition_fields(UNKNOWN_TRANSFORM,
                             lambda one, _, __: one.transform.name == "unknown")),
    rule("R-019", "columns do not use reserved field ids", "Reserved Field IDs", "error", ENGINE,
         RESERVED_IDS),
    rule("R-077", "a partition field id means one thing", "Partition Evolution", "error", ENGINE,
         *REPEATED_PARTITION_FIELDS,
         REPEATED_SPEC_IDS,
         Check(MetadataFile, shared_partition_fields)),
    rule("R-078", "partition fields of version 1 are numbered by position", "Partition Evolution",
         "info", OURS),
    rule("R-079", "specs stay while a live file uses them", "Partition Evolution", "error",
         "use a metadata file that still has the spec"),
    rule("R-080", "source columns of partition fields exist and are primitive", "Partitioning",
         "error", ENGINE, Check(MetadataFile, _sources)),
    rule("R-081", "a field has either `source-id` or `source-ids`", "Appendix C", "error", ENGINE),
    rule("R-082", "a partition source is not promoted where its values would change",
         "Schema Evolution", "error", ENGINE, not_enforced="icectl does not change schemas"),
    rule("R-083", "floating-point partition values are equal by their bits", "Scan Planning",
         "info", OURS),
    rule("R-084", "sort orders are complete and their columns exist", "Sorting", "warning", ENGINE,
         Check(MetadataFile, faults_of_sort_orders)),
    rule("R-085", "a spec with nothing but void fields is unpartitioned", "Partitioning", "info",
         OURS),
    rule("R-090", "types of version 3 are written as in the format", "Primitive Types",
         "error", ENGINE),
    rule("R-094", "default values have the JSON form of their type", "Appendix D", "error", ENGINE),
    rule("R-095", "types of data files fit the types of their columns", "Appendix A", "error",
         RESTORE),
    rule("R-097", "columns were promoted only as the format allows", "Schema Evolution", "error",
         ENGINE, Check(MetadataFile, _promotions), Check(StoredManifest, _mismatched_copy)),
    rule("R-099", "a file of rows can be read completely and agrees with its footer",
         "Appendix A", "error", RESTORE),
    rule("R-180", "columns are matched by field id, then by the fallbacks of the format",
         "Column Projection", "error", COMPACT),
    rule("R-181", "the name mapping is valid", "Column Projection", "error",
         "correct the table property `schema.name-mapping.default`",
         Check(MetadataFile, _name_mapping)),
    rule("R-182", "defaults are used as the format allows", "Default values", "error", ENGINE,
         Check(MetadataFile, _early_defaults),
         in_columns("column `{name}`, {type}, has a default", _has_default_but_null)),
    rule("R-208", "truncate takes binary, and no transform but void a variant or a shape",
         "Partition Transforms", "error", ENGINE, Check(MetadataFile, _incomparable_sources)),
    rule("R-183", "rewritten files hold every column, defaults filled in", "Default values",
         "error", OURS),
    rule("R-184", "field ids are unique and identifier fields are fit to identify",
         "Schema Evolution", "error", ENGINE, *SCHEMA_IDS),
)
# fmt: on
