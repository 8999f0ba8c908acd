"""The least that metadata of a table says, for tests of something else."""

from typing import Any

from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from icectl.format.sort import SortOrder

NO_FIELDS = Schema(0, ())


def plain_metadata(
    schema: Schema = NO_FIELDS, spec: PartitionSpec | None = None, **members: Any
) -> TableMetadata:
    """A table of version 2 with one schema and one spec, and what else is given."""
    plain: dict[str, Any] = {
        "format_version": 2,
        "table_uuid": None,
        "location": "/t",
        "last_sequence_number": 0,
        "last_updated_ms": 0,
        "last_column_id": max((item.id for item in schema.fields), default=0),
        "schemas": (schema,),
        "current_schema_id": schema.schema_id,
        "partition_specs": (spec or PartitionSpec(0, ()),),
        "default_spec_id": 0,
        "last_partition_id": 1000 if spec else 999,
        "sort_orders": (SortOrder(0, ()),),
        "default_sort_order_id": 0,
    }
    return TableMetadata(**{**plain, **members})


def plain_members(**members: Any) -> dict[str, Any]:
    """The JSON of a table of version 2 with one column, and what else is given, by hand."""
    plain = {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "/t",
        "last-sequence-number": 0,
        "last-updated-ms": 1000,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [
            {
                "type": "struct",
                "schema-id": 0,
                "fields": [{"id": 1, "name": "a", "required": False, "type": "int"}],
            }
        ],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
    }
    return plain | {name.replace("_", "-"): value for name, value in members.items()}
