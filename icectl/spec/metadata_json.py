"""Table metadata from and to its JSON, by the rules of its own format version (R-005)."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from icectl.errors import CorruptTable, Unsupported
from icectl.spec.expressions import (
    Expression,
    expression_from_json,
    expression_json,
    linked_spec_from_json,
    linked_spec_json,
)
from icectl.spec.locations import absolute, relative_base, resolved, shortened, with_locations
from icectl.spec.metadata import TableMetadata
from icectl.spec.partition import (
    FIRST_FIELD_ID,
    PartitionSpec,
    fields_from_json,
    fields_json,
    spec_from_json,
    spec_json,
)
from icectl.spec.schema import Schema, schema_from_json, schema_json
from icectl.spec.snapshot import (
    MetadataLogEntry,
    PartitionStatisticsFile,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    StatisticsFile,
)
from icectl.spec.sort import SortOrder, order_from_json, order_json
from icectl.units import print_value

T = TypeVar("T")

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
SNAPSHOT_MEMBERS = {
    "snapshot-id", "parent-snapshot-id", "sequence-number", "timestamp-ms", "manifest-list",
    "manifests", "root-manifest", "summary", "schema-id", "first-row-id", "added-rows", "key-id",
}  # fmt: skip
REF_MEMBERS = {
    "snapshot-id", "type", "min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms",
}  # fmt: skip
STATISTICS_MEMBERS = {
    "snapshot-id", "statistics-path", "file-size-in-bytes", "file-footer-size-in-bytes",
    "blob-metadata",
}  # fmt: skip
PARTITION_STATISTICS_MEMBERS = {"snapshot-id", "statistics-path", "file-size-in-bytes"}
UNUSABLE = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What reading a value of another shape than expected raises; 1e999 overflows."""


def parse_metadata(members: Mapping[str, Any]) -> TableMetadata:
    """Return the table that a metadata JSON object describes.

    Raises: Unsupported, for a newer format version (R-001); CorruptTable with the rule, when a
    member that reading cannot do without is absent or makes no sense.
    """
    version = _version(members)
    schemas = _schemas(members, version)
    expressions = _expressions(members, version)
    specs = _specs(members, version, expressions, schemas)
    snapshots = tuple(_each(members, "snapshots", _snapshot, "R-030"))
    current = _number(members, "current-snapshot-id", "R-015", -1)
    current_snapshot_id = None if current == -1 else current
    metadata = TableMetadata(
        format_version=version,
        table_uuid=_uuid(members, version),
        location=_location(members),
        last_sequence_number=_versioned(members, "last-sequence-number", version, 0),
        last_updated_ms=_number(members, "last-updated-ms", "R-011"),
        last_column_id=_number(members, "last-column-id", "R-011"),
        schemas=schemas,
        current_schema_id=_current_schema_id(members, version, schemas),
        partition_specs=specs,
        default_spec_id=_default_spec_id(members, version, specs),
        last_partition_id=_last_partition_id(members, specs),
        sort_orders=_sort_orders(members, version),
        default_sort_order_id=_number(members, "default-sort-order-id", "R-084", 0),
        properties=_parsed("R-018", "`properties`", _texts, members.get("properties") or {}),
        current_snapshot_id=current_snapshot_id,
        snapshots=snapshots,
        refs=_refs(members, current_snapshot_id),
        snapshot_log=tuple(_each(members, "snapshot-log", _snapshot_log_entry, "R-025")),
        metadata_log=tuple(_each(members, "metadata-log", _metadata_log_entry, "R-024")),
        statistics=tuple(_each(members, "statistics", _statistics_file, "R-140")),
        partition_statistics=tuple(
            _each(members, "partition-statistics", _partition_statistics_file, "R-142")
        ),
        next_row_id=_next_row_id(members, version),
        encryption_keys=tuple(_each(members, "encryption-keys", _object, "R-195")),
        expressions=expressions,
        keeps_manifest_lists=version >= 4 and keeps_manifest_lists(members),
        unknown=_others(members, MEMBERS),
    )
    if current_snapshot_id is not None and metadata.current_snapshot is None:
        raise CorruptTable(f"current snapshot {current} is not in `snapshots`", rule="R-015")
    if version < 4:
        return metadata
    if metadata.keeps_manifest_lists:
        return with_locations(metadata, partial(absolute, metadata))
    return with_locations(metadata, partial(resolved, metadata.location))


def _version(members: Mapping[str, Any]) -> int:
    version = _required(members, "format-version", "R-011")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CorruptTable(f"`format-version` is {version!r}", rule="R-011")
    if version > NEWEST_VERSION:
        raise Unsupported(
            f"the table has format version {version}, which is unknown",
            hint="maintain it with the engine that wrote it, or with a newer icectl",
        )
    return version


def _required(members: Mapping[str, Any], name: str, rule: str) -> Any:
    value = members.get(name)
    if value is None:
        raise CorruptTable(f"`{name}` is absent from the table metadata", rule=rule)
    return value


def _number(members: Mapping[str, Any], name: str, rule: str, default: int | None = None) -> int:
    """Return a whole number; required where there is no default."""
    value = members.get(name)
    if value is None:
        value = _required(members, name, rule) if default is None else default
    return _parsed(rule, f"`{name}`", _whole, value)


def _whole(value: Any) -> int:
    """Return a whole number, also as text (R-206), of at most 64 bits."""
    number = int(value) if isinstance(value, str) else value
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{print_value(value)} is no whole number")
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{print_value(value)} does not fit 64 bits")
    return number


def _versioned(members: Mapping[str, Any], name: str, version: int, default: int) -> int:
    """Return a number that is required from version 2 on and has a default in version 1 (R-010)."""
    if version == 1:
        return _number(members, name, "R-010", default)
    return _number(members, name, "R-011")


def _location(members: Mapping[str, Any]) -> str:
    """The table's location without its trailing slashes, as the reference implementation reads."""
    location = str(_required(members, "location", "R-011"))
    while location.endswith("/") and not location.endswith("://"):
        location = location[:-1]
    return location


def _uuid(members: Mapping[str, Any], version: int) -> str | None:
    uuid = members.get("table-uuid") if version == 1 else _required(members, "table-uuid", "R-011")
    return None if uuid is None else str(uuid)


def _parsed(rule: str, what: str, parse: Callable[[Any], T], value: Any) -> T:
    try:
        return parse(value)
    except UNUSABLE as error:
        reason = f"`{error.args[0]}` is absent" if isinstance(error, KeyError) else str(error)
        raise CorruptTable(f"{what} is unusable: {reason}", rule=rule) from error


def _each(
    members: Mapping[str, Any], name: str, parse: Callable[[Any], T], rule: str
) -> Iterable[T]:
    items = members.get(name) or []
    if not isinstance(items, list):
        raise CorruptTable(f"`{name}` is no list", rule=rule)
    for position, item in enumerate(items):
        yield _parsed(rule, f"`{name}` entry {position}", parse, item)


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{print_value(value)} is no object")
    return value


def _texts(value: Mapping[str, Any]) -> dict[str, str]:
    """Return text by name.

    What another writer left as a number or a truth value is spelled as JSON.
    """
    return {
        key: item if isinstance(item, str) else json.dumps(item)
        for key, item in value.items()
        if item is not None
    }


def _others(members: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key not in known}


def _schemas(members: Mapping[str, Any], version: int) -> tuple[Schema, ...]:
    schemas = tuple(_each(members, "schemas", schema_from_json, "R-184"))
    if schemas:
        return schemas
    if version > 1:
        raise CorruptTable("`schemas` is absent from the table metadata", rule="R-011")
    schema = _parsed("R-012", "`schema`", _struct_schema, _required(members, "schema", "R-012"))
    return (replace(schema, schema_id=0),)


def _struct_schema(value: Mapping[str, Any]) -> Schema:
    if value.get("type") != "struct":
        raise ValueError("cannot parse a type that is no struct")
    return schema_from_json(value)


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
            "the table is of version 4 in a layout that icectl does not know: its snapshots have"
            " roots, but it has no `expressions`",
            hint="maintain it with the engine that wrote it; icectl knows the layouts sfc-1 and"
            " iceberg-1.12",
            rule="V4-003",
        )
    return tuple(_each(members, "expressions", expression_from_json, "V4-012"))


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
            """Read a spec whose fields link to expressions."""
            return linked_spec_from_json(value, by_id, schemas)

    specs = tuple(_each(members, "partition-specs", parse, rule))
    if specs:
        return specs
    if version > 1:
        raise CorruptTable("`partition-specs` is absent from the table metadata", rule="R-011")
    fields = _parsed(
        "R-012", "`partition-spec`", fields_from_json,
        _required(members, "partition-spec", "R-012"),
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


def _last_partition_id(members: Mapping[str, Any], specs: Sequence[PartitionSpec]) -> int:
    ids = (field.field_id for spec in specs for field in spec.fields)
    highest = max(ids, default=FIRST_FIELD_ID - 1)
    return _number(members, "last-partition-id", "R-014", highest)


def _sort_orders(members: Mapping[str, Any], version: int) -> tuple[SortOrder, ...]:
    if version > 1 and members.get("sort-orders") is None:
        raise CorruptTable("`sort-orders` is absent from the table metadata", rule="R-011")
    orders = tuple(_each(members, "sort-orders", order_from_json, "R-084"))
    return orders or (SortOrder(0, ()),)


def _next_row_id(members: Mapping[str, Any], version: int) -> int | None:
    if version < 3:
        return None
    return _number(members, "next-row-id", "R-013")


def _optional_int(value: Mapping[str, Any], name: str) -> int | None:
    found = value.get(name)
    return None if found is None else _whole(found)


def _optional_text(value: Mapping[str, Any], name: str) -> str | None:
    found = value.get(name)
    return None if found is None else _text(found)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{print_value(value)} is no text")
    return value


def _snapshot(value: Mapping[str, Any]) -> Snapshot:
    summary = value.get("summary")
    return Snapshot(
        snapshot_id=_whole(value["snapshot-id"]),
        timestamp_ms=_whole(value["timestamp-ms"]),
        parent_snapshot_id=_optional_int(value, "parent-snapshot-id"),
        sequence_number=_whole(value.get("sequence-number") or 0),
        manifest_list=_optional_text(value, "manifest-list"),
        manifests=_embedded_manifests(value),
        root_manifest=_optional_text(value, "root-manifest"),
        summary=None if summary is None else _texts(summary),
        schema_id=_optional_int(value, "schema-id"),
        first_row_id=_optional_int(value, "first-row-id"),
        added_rows=_optional_int(value, "added-rows"),
        key_id=_optional_text(value, "key-id"),
        unknown=_others(value, SNAPSHOT_MEMBERS),
    )


def _embedded_manifests(value: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the manifests that a version 1 snapshot lists itself (R-030)."""
    if value.get("manifests") is None:
        return None
    return tuple(_each(value, "manifests", _text, "R-030"))


def _refs(members: Mapping[str, Any], current: int | None) -> dict[str, SnapshotRef]:
    stored = _parsed("R-027", "`refs`", _object, members.get("refs") or {})
    refs = {name: _parsed("R-027", f"ref `{name}`", _ref, value) for name, value in stored.items()}
    if current is not None and "main" not in refs:
        refs = {"main": SnapshotRef(current, "branch"), **refs}
    return refs


def _ref(value: Mapping[str, Any]) -> SnapshotRef:
    return SnapshotRef(
        _whole(value["snapshot-id"]),
        _text(value["type"]).lower(),
        _optional_int(value, "min-snapshots-to-keep"),
        _optional_int(value, "max-snapshot-age-ms"),
        _optional_int(value, "max-ref-age-ms"),
        _others(value, REF_MEMBERS),
    )


def _snapshot_log_entry(value: Mapping[str, Any]) -> SnapshotLogEntry:
    unknown = _others(value, {"timestamp-ms", "snapshot-id"})
    return SnapshotLogEntry(_whole(value["timestamp-ms"]), _whole(value["snapshot-id"]), unknown)


def _metadata_log_entry(value: Mapping[str, Any]) -> MetadataLogEntry:
    unknown = _others(value, {"timestamp-ms", "metadata-file"})
    return MetadataLogEntry(_whole(value["timestamp-ms"]), str(value["metadata-file"]), unknown)


def _statistics_file(value: Mapping[str, Any]) -> StatisticsFile:
    return StatisticsFile(
        _whole(value["snapshot-id"]),
        str(value["statistics-path"]),
        _whole(value["file-size-in-bytes"]),
        _whole(value["file-footer-size-in-bytes"]),
        tuple(_each(value, "blob-metadata", _object, "R-140")),
        _others(value, STATISTICS_MEMBERS),
    )


def _partition_statistics_file(value: Mapping[str, Any]) -> PartitionStatisticsFile:
    return PartitionStatisticsFile(
        _whole(value["snapshot-id"]),
        str(value["statistics-path"]),
        _whole(value["file-size-in-bytes"]),
        _others(value, PARTITION_STATISTICS_MEMBERS),
    )


def _specs_json(metadata: TableMetadata) -> dict[str, Any]:
    """Return the partition specs (R-173), and in layout sfc-1 what their fields compute."""
    if metadata.format_version < 4 or metadata.keeps_manifest_lists:
        return {"partition-specs": [spec_json(spec) for spec in metadata.partition_specs]}
    return {
        "partition-specs": [linked_spec_json(spec) for spec in metadata.partition_specs],
        "expressions": [expression_json(one) for one in metadata.expressions],
    }


def metadata_json(metadata: TableMetadata) -> dict[str, Any]:
    """Return the JSON object of a table, members in the order of the reference implementation.

    Members that a version must not write are left out (R-011, R-177), unknown ones kept (R-018).
    """
    version = metadata.format_version
    if base := relative_base(metadata):
        metadata = with_locations(metadata, partial(shortened, base))
    members: dict[str, Any] = {"format-version": version}
    _put(members, "table-uuid", metadata.table_uuid)
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
    members |= _specs_json(metadata)
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
    members["refs"] = {name: ref_json(ref) for name, ref in metadata.refs.items()}
    members["snapshots"] = [snapshot_json(item, version) for item in metadata.snapshots]
    members["statistics"] = [_statistics_json(item) for item in metadata.statistics]
    members["partition-statistics"] = [
        _partition_statistics_json(item) for item in metadata.partition_statistics
    ]
    members["snapshot-log"] = [
        {"timestamp-ms": entry.timestamp_ms, "snapshot-id": entry.snapshot_id} | dict(entry.unknown)
        for entry in metadata.snapshot_log
    ]
    members["metadata-log"] = [
        {"timestamp-ms": entry.timestamp_ms, "metadata-file": entry.metadata_file}
        | dict(entry.unknown)
        for entry in metadata.metadata_log
    ]
    return members | dict(metadata.unknown)


def _put(members: dict[str, Any], name: str, value: Any) -> None:
    """Set a member unless there is nothing to say."""
    if value is not None:
        members[name] = value


def snapshot_json(snapshot: Snapshot, version: int) -> dict[str, Any]:
    """Return the JSON object of a snapshot in a table of a format version."""
    members: dict[str, Any] = {}
    if version > 1 or snapshot.sequence_number:
        members["sequence-number"] = snapshot.sequence_number
    members["snapshot-id"] = snapshot.snapshot_id
    _put(members, "parent-snapshot-id", snapshot.parent_snapshot_id)
    members["timestamp-ms"] = snapshot.timestamp_ms
    _put(members, "summary", None if snapshot.summary is None else dict(snapshot.summary))
    _put(members, "manifest-list", snapshot.manifest_list)
    _put(members, "manifests", None if snapshot.manifests is None else list(snapshot.manifests))
    _put(members, "root-manifest", snapshot.root_manifest)
    _put(members, "schema-id", snapshot.schema_id)
    _put(members, "first-row-id", snapshot.first_row_id)
    _put(members, "added-rows", snapshot.added_rows)
    _put(members, "key-id", snapshot.key_id)
    return members | dict(snapshot.unknown)


def ref_json(ref: SnapshotRef) -> dict[str, Any]:
    """Return the JSON object of a branch or tag."""
    members: dict[str, Any] = {"snapshot-id": ref.snapshot_id, "type": ref.type}
    _put(members, "min-snapshots-to-keep", ref.min_snapshots_to_keep)
    _put(members, "max-snapshot-age-ms", ref.max_snapshot_age_ms)
    _put(members, "max-ref-age-ms", ref.max_ref_age_ms)
    return members | dict(ref.unknown)


def _statistics_json(file: StatisticsFile) -> dict[str, Any]:
    return {
        "snapshot-id": file.snapshot_id,
        "statistics-path": file.statistics_path,
        "file-size-in-bytes": file.file_size_in_bytes,
        "file-footer-size-in-bytes": file.file_footer_size_in_bytes,
        "blob-metadata": [dict(blob) for blob in file.blob_metadata],
    } | dict(file.unknown)


def _partition_statistics_json(file: PartitionStatisticsFile) -> dict[str, Any]:
    return {
        "snapshot-id": file.snapshot_id,
        "statistics-path": file.statistics_path,
        "file-size-in-bytes": file.file_size_in_bytes,
    } | dict(file.unknown)
