"""The columns that data files of a table may have, and the mapping for files without field ids."""

from collections.abc import Sequence
from dataclasses import replace

from icectl.checks.schemas import mapping_problem
from icectl.files.parquet.schema import NameMapping
from icectl.format.json_members import parse_json
from icectl.format.metadata import TableMetadata
from icectl.format.properties import NAME_MAPPING
from icectl.format.schema import Schema
from icectl.format.types import NestedField, StructType


def every_column(metadata: TableMetadata) -> Schema:
    """The current schema, with the fields that only older schemas have, those of structs too."""
    current = metadata.current_schema
    fields = current.fields
    for schema in reversed(metadata.schemas):
        fields = _with_dropped(fields, schema.fields)
    return Schema(current.schema_id, fields)


def _with_dropped(
    fields: Sequence[NestedField], older: Sequence[NestedField]
) -> tuple[NestedField, ...]:
    left = {item.id: item for item in older}
    dropped = []
    for item in fields:
        before = left.pop(item.id, item)
        if isinstance(item.type, StructType) and isinstance(before.type, StructType):
            inner = _with_dropped(item.type.fields, before.type.fields)
            dropped.append(replace(item, type=StructType(inner)))
        else:
            dropped.append(item)
    return (*dropped, *left.values())


def name_mapping(metadata: TableMetadata) -> NameMapping:
    """Return the table's mapping of names to ids; empty without a valid one (R-181)."""
    text = metadata.properties.get(NAME_MAPPING.name)
    try:
        parsed: NameMapping = parse_json(text) if text else ()
        is_valid = not text or mapping_problem(parsed) is None
    except (ValueError, RecursionError):
        return ()  # level metadata reports it
    return parsed if is_valid else ()
