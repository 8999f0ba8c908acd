"""Table metadata from and to its JSON, by the rules of its own format version (R-005)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from icectl.errors import CorruptTable, Unsupported
from icectl.format.expressions import (
    Expression,
    expression_from_json,
    expression_json,
    linked_spec_from_json,
    linked_spec_json,
)
from icectl.format.json_members import (
    each,
    json_object,
    number,
    others,
    parsed,
    put,
    required,
    texts,
)
from icectl.format.locations import (
    absolute,
    absolute_location,
    relative_base,
    relative_location,
    with_locations,
)
from icectl.format.metadata import TableMetadata
from icectl.format.partition import (
    FIRST_FIELD_ID,
    PartitionSpec,
    fields_from_json,
    fields_json,
    spec_from_json,
    spec_json,
)
from icectl.format.schema import Schema, schema_from_json, schema_json
from icectl.format.snapshot import (
    SnapshotRef,
    item_json,
    metadata_log_from_json,
    metadata_log_json,
    partition_statistics_from_json,
    ref_from_json,
    snapshot_from_json,
    snapshot_json,
    snapshot_log_from_json,
    snapshot_log_json,
    statistics_from_json,
)
from icectl.format.sort import SortOrder, order_from_json, order_json

NEWEST_VERSION = 4
"""The newest format version that is read and written."""

MEMBERS = {
    "format-version", "table-uuid", "location", "last-sequence-number", "last-updated-ms",
    "last-column-id", "schema", "schemas", "current-schema-id", "partition-spec",
    "partition-specs", "default-spec-id", "last-partition-id", "sort-orders",
    "default-sort-order-id", "properties", "current-snapshot-id", "snapshots", "refs",
    "snapshot-log", "metadata-log", "statistics", "partition-statistics", "next-row-id",
    "encryption-keys", "expressions",
}  # fmt: skip


def parse_metadata(members: Mapping[str, Any]) -> TableMetadata:
    """Return the table that a metadata JSON object describes.

    Raises: Unsupported, for a newer format version (R-001); CorruptTable with the rule, when a
    member that reading cannot do without is absent or makes no sense.
    """
    version = _version(members)
    uuid = members.get("table-uuid") if version == 1 else required(members, "table-uuid", "R-011")
    schemas = _schemas(members, version)
    expressions = _expressions(members, version)
    specs = _specs(members, version, expressions, schemas)
    ids = [FIRST_FIELD_ID - 1, *(item.field_id for spec in specs for item in spec.fields)]
    snapshots = tuple(each(members, "snapshots", snapshot_from_json, "R-030"))
    current = number(members, "current-snapshot-id", "R-015", -1)
    current_snapshot_id = None if current == -1 else current
    location = str(required(members, "location", "R-011"))
    while location.endswith("/") and not location.endswith("://"):  # as Java reads it
        location = location[:-1]
    metadata = TableMetadata(
        format_version=version,
        table_uuid=None if uuid is None else str(uuid),
        location=location,
        last_sequence_number=_versioned(members, "last-sequence-number", version, 0),
        last_updated_ms=number(members, "last-updated-ms", "R-011"),
        last_column_id=number(members, "last-column-id", "R-011"),
        schemas=schemas,
        current_schema_id=_current_schema_id(members, version, schemas),
        partition_specs=specs,
        default_spec_id=_default_spec_id(members, version, specs),
        last_partition_id=number(members, "last-partition-id", "R-014", max(ids)),
        sort_orders=_sort_orders(members, version),
        default_sort_order_id=number(members, "default-sort-order-id", "R-084", 0),
        properties=parsed("R-018", "`properties`", texts, members.get("properties") or {}),
        current_snapshot_id=current_snapshot_id,
        snapshots=snapshots,
        refs=_refs(members, current_snapshot_id),
        snapshot_log=tuple(each(members, "snapshot-log", snapshot_log_from_json, "R-025")),
        metadata_log=tuple(each(members, "metadata-log", metadata_log_from_json, "R-024")),
        statistics=tuple(each(members, "statistics", statistics_from_json, "R-140")),
        partition_statistics=tuple(
            each(members, "partition-statistics", partition_statistics_from_json, "R-142")
        ),
        next_row_id=None if version < 3 else number(members, "next-row-id", "R-013"),
        encryption_keys=tuple(each(members, "encryption-keys", json_object, "R-195")),
        expressions=expressions,
        keeps_manifest_lists=version >= 4 and keeps_manifest_lists(members),
        unknown=others(members, MEMBERS),
    )
    if current_snapshot_id is not None and metadata.current_snapshot is None:
        raise CorruptTable(f"current snapshot {current} is not in `snapshots`", rule="R-015")
    if version < 4:
        return metadata
    if metadata.keeps_manifest_lists:
        return with_locations(metadata, partial(absolute, metadata))
    return with_locations(metadata, partial(absolute_location, metadata.location))


def _version(members: Mapping[str, Any]) -> int:
    version = required(members, "format-version", "R-011")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CorruptTable(f"`format-version` is {version!r}", rule="R-011")
    if version > NEWEST_VERSION:
        raise Unsupported(
            f"the table has format version {version}, which is unknown",
            hint="maintain it with the engine that wrote it, or with a newer icectl",
        )
    return version


def _versioned(members: Mapping[str, Any], name: str, version: int, default: int) -> int:
    """Return a number that is required from version 2 on and has a default in version 1 (R-010)."""
    if version == 1:
        return number(members, name, "R-010", default)
    return number(members, name, "R-011")


def _schemas(members: Mapping[str, Any], version: int) -> tuple[Schema, ...]:
    schemas = tuple(each(members, "schemas", schema_from_json, "R-184"))
    if schemas:
        return schemas
    if version > 1:
        raise CorruptTable("`schemas` is absent from the table metadata", rule="R-011")

    def parse(value: Mapping[str, Any]) -> Schema:
        if value.get("type") != "struct":
            raise ValueError("cannot parse a type that is not a struct")
        return schema_from_json(value)

    schema = parsed("R-012", "`schema`", parse, required(members, "schema", "R-012"))
    return (replace(schema, schema_id=0),)


def _current_schema_id(members: Mapping[str, Any], version: int, schemas: Sequence[Schema]) -> int:
    current = _versioned(members, "current-schema-id", version, schemas[0].schema_id)
    if all(schema.schema_id != current for schema in schemas):
        raise CorruptTable(f"current schema {current} is not in `schemas`", rule="R-011")
    return current


def keeps_manifest_lists(members: Mapping[str, Any]) -> bool:
    """Whether a table of version 4 is one of Iceberg 1.12: with manifest lists, as in version 3."""
    snapshots = members.get("snapshots")
    has_root = isinstance(snapshots, list) and any(
        isinstance(item, dict) and "root-manifest" in item for item in snapshots
    )
    return "expressions" not in members and not has_root


def _expressions(members: Mapping[str, Any], version: int) -> tuple[Expression, ...]:
    if version < 4 or keeps_manifest_lists(members):
        return ()
    if members.get("expressions") is None:  # V4-003
        raise Unsupported(
            "the table has version 4 in a layout that icectl does not know: its snapshots have"
            " roots, but it has no `expressions`",
            hint="maintain it with the engine that wrote it; icectl knows the layouts sfc-1 and"
            " iceberg-1.12",
            rule="V4-003",
        )
    return tuple(each(members, "expressions", expression_from_json, "V4-012"))


def _specs(
    members: Mapping[str, Any],
    version: int,
    expressions: Sequence[Expression],
    schemas: Sequence[Schema],
) -> tuple[PartitionSpec, ...]:
    parse, rule = spec_from_json, "R-077"
    if version >= 4 and not keeps_manifest_lists(members):
        by_id = {expression.expr_id: expression for expression in expressions}
        rule = "V4-010"

        def parse(value: Mapping[str, Any]) -> PartitionSpec:
            return linked_spec_from_json(value, by_id, schemas)

    specs = tuple(each(members, "partition-specs", parse, rule))
    if specs:
        return specs
    if version > 1:
        raise CorruptTable("`partition-specs` is absent from the table metadata", rule="R-011")
    fields = parsed(
        "R-012", "`partition-spec`", fields_from_json,
        required(members, "partition-spec", "R-012"),
    )  # fmt: skip
    return (PartitionSpec(0, fields),)


def _default_spec_id(
    members: Mapping[str, Any], version: int, specs: Sequence[PartitionSpec]
) -> int:
    highest = max(spec.spec_id for spec in specs)
    default = _versioned(members, "default-spec-id", version, highest)
    if all(spec.spec_id != default for spec in specs):
        raise CorruptTable(f"default spec {default} is not in `partition-specs`", rule="R-011")
    return default


def _sort_orders(members: Mapping[str, Any], version: int) -> tuple[SortOrder, ...]:
    if version > 1 and members.get("sort-orders") is None:
        raise CorruptTable("`sort-orders` is absent from the table metadata", rule="R-011")
    orders = tuple(each(members, "sort-orders", order_from_json, "R-084"))
    return orders or (SortOrder(0, ()),)


def _refs(members: Mapping[str, Any], current: int | None) -> dict[str, SnapshotRef]:
    stored = parsed("R-027", "`refs`", json_object, members.get("refs") or {})
    refs = {
        name: parsed("R-027", f"ref `{name}`", ref_from_json, value)
        for name, value in stored.items()
    }
    if current is not None and "main" not in refs:
        refs = {"main": SnapshotRef(current, "branch"), **refs}
    return refs


def metadata_json(metadata: TableMetadata) -> dict[str, Any]:
    """Return the JSON object of a table, members in the order of the reference implementation.

    Members that a version must not write are left out (R-011, R-177), unknown ones kept (R-018).
    """
    version = metadata.format_version
    if base := relative_base(metadata):
        metadata = with_locations(metadata, partial(relative_location, base))
    members: dict[str, Any] = {"format-version": version}
    put(members, "table-uuid", metadata.table_uuid)
    members["location"] = metadata.location
    if version > 1:
        members["last-sequence-number"] = metadata.last_sequence_number
    members["last-updated-ms"] = metadata.last_updated_ms
    members["last-column-id"] = metadata.last_column_id
    if version == 1:
        members["schema"] = schema_json(metadata.current_schema)
    members["current-schema-id"] = metadata.current_schema_id
    members["schemas"] = [schema_json(schema) for schema in metadata.schemas]
    if version == 1:
        members["partition-spec"] = fields_json(metadata.default_spec)
    members["default-spec-id"] = metadata.default_spec_id
    is_linked = version >= 4 and not metadata.keeps_manifest_lists
    specs_json = linked_spec_json if is_linked else spec_json
    members["partition-specs"] = [specs_json(spec) for spec in metadata.partition_specs]
    if is_linked:
        members["expressions"] = [expression_json(item) for item in metadata.expressions]
    members["last-partition-id"] = metadata.last_partition_id
    members["default-sort-order-id"] = metadata.default_sort_order_id
    members["sort-orders"] = [order_json(order) for order in metadata.sort_orders]
    members["properties"] = dict(metadata.properties)
    if metadata.current_snapshot_id is not None:
        members["current-snapshot-id"] = metadata.current_snapshot_id
    elif version < 3:
        members["current-snapshot-id"] = -1
    if version >= 3:
        members["next-row-id"] = metadata.next_row_id
        if metadata.encryption_keys:
            members["encryption-keys"] = [dict(key) for key in metadata.encryption_keys]
    members["refs"] = {name: item_json(ref) for name, ref in metadata.refs.items()}
    members["snapshots"] = [snapshot_json(item, version) for item in metadata.snapshots]
    members["statistics"] = [item_json(file) for file in metadata.statistics]
    members["partition-statistics"] = [item_json(file) for file in metadata.partition_statistics]
    members["snapshot-log"] = [snapshot_log_json(entry) for entry in metadata.snapshot_log]
    members["metadata-log"] = [metadata_log_json(entry) for entry in metadata.metadata_log]
    return members | dict(metadata.unknown)
