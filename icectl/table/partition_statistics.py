"""The file of partition statistics: counts of each partition, from manifest entries (R-142)."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icectl.entries.partition_key import decode_key, java_sort_key
from icectl.errors import Unsupported
from icectl.files.parquet.schema import arrow_schema
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.schema import Schema
from icectl.format.snapshot import Snapshot
from icectl.format.types import NestedField, PrimitiveType, StructType

_LONG, _INT = PrimitiveType("long"), PrimitiveType("int")
_REQUIRED = 5
"""Fields that every version requires: partition, spec, and the counts of data files."""


def partition_type(metadata: TableMetadata) -> StructType:
    """Return the fields of all specs by id, as the newest spec that has a value for them has them.

    Raises: Unsupported, for a field without a known type, or two with one id.
    """
    fields: dict[int, tuple[NestedField, str, tuple[int, ...]]] = {}
    for spec in sorted(metadata.partition_specs, key=lambda spec: -spec.spec_id):
        for item, type_ in zip(spec.fields, result_types(spec, metadata.schemas), strict=True):
            if type_ is None:
                raise Unsupported(f"the values of partition field `{item.name}` have no known type")
            transform = item.transform.text
            known = fields.get(item.field_id)
            if known is not None and known[2] != item.source_ids:
                raise Unsupported(f"two partition fields have the id {item.field_id}")
            if known is None or (known[1] == "void" != transform):
                named = NestedField(item.field_id, item.name, type_, required=False)
                fields[item.field_id] = named, transform, item.source_ids
    return StructType(tuple(fields[id_][0] for id_ in sorted(fields)))


def statistics_schema(partition: StructType, format_version: int) -> Schema:
    """Return the schema of the file (R-142)."""
    counts = [
        ("data_record_count", _LONG), ("data_file_count", _INT),
        ("total_data_file_size_in_bytes", _LONG), ("position_delete_record_count", _LONG),
        ("position_delete_file_count", _INT), ("equality_delete_record_count", _LONG),
        ("equality_delete_file_count", _INT), ("total_record_count", _LONG),
        ("last_updated_at", _LONG), ("last_updated_snapshot_id", _LONG),
    ]  # fmt: skip
    if format_version >= 3:
        counts.append(("dv_count", _INT))
    optional = {"total_record_count", "last_updated_at", "last_updated_snapshot_id"}
    if format_version < 3:
        optional |= {name for name, _ in counts[_REQUIRED - 2 :]}
    return Schema(
        0,
        (
            NestedField(1, "partition", partition, required=True),
            NestedField(2, "spec_id", _INT, required=True),
            *(
                NestedField(id_, name, type_, required=name not in optional)
                for id_, (name, type_) in enumerate(counts, 3)
            ),
        ),
    )


def partition_file(
    metadata: TableMetadata, counted: Sequence[Mapping[str, Any]], newest_last: Sequence[Snapshot]
) -> bytes:
    """Return the bytes of the file; `counted` are rows of entries/summary.by_partition.

    Their `updated_ms` is the place of a snapshot in `newest_last`.
    Order: by partition, nulls first.
    Raises: Unsupported.
    """
    partition = partition_type(metadata)
    specs = {spec.spec_id: spec for spec in metadata.partition_specs}

    def values(group: Mapping[str, Any]) -> dict[int, Any]:
        spec = specs[group["spec_id"]]
        tuple_ = decode_key(group["partition_key"], result_types(spec, metadata.schemas))
        return {item.field_id: value for item, value in zip(spec.fields, tuple_, strict=True)}

    rows = [(values(group), group) for group in counted]
    ids = [item.id for item in partition.fields]
    rows.sort(key=lambda row: (*(java_sort_key(row[0].get(id_)) for id_ in ids), row[1]["spec_id"]))
    schema = arrow_schema(statistics_schema(partition, metadata.format_version))
    tuples = [_column(kind, [row.get(id_) for row, _ in rows]) for id_, kind in _kinds(ids, schema)]
    columns = [pa.StructArray.from_arrays(tuples, fields=list(schema.field("partition").type))]
    counts = [_counts(group, newest_last, metadata.format_version) for _, group in rows]
    columns += [
        pa.array([row[item.name] for row in counts], item.type) for item in list(schema)[1:]
    ]
    sink = BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), sink, compression="zstd")
    return sink.getvalue()


def _kinds(ids: Sequence[int], schema: pa.Schema) -> list[tuple[int, pa.DataType]]:
    fields = schema.field("partition").type
    return [(id_, fields.field(place).type) for place, id_ in enumerate(ids)]


def _column(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):  # a UUID
        plain = [None if value is None else value.bytes for value in values]
        return pa.ExtensionArray.from_storage(kind, pa.array(plain, kind.storage_type))
    return pa.array(values, kind)


def _counts(
    group: Mapping[str, Any], newest_last: Sequence[Snapshot], format_version: int
) -> dict[str, Any]:
    position_records = group["position_delete_record_count"]
    vector_records = group["deletion_vector_record_count"]
    is_known = not group["equality_delete_file_count"] and not group["position_delete_file_count"]
    rank = group["updated_ms"]
    updated = None if rank is None else newest_last[rank]
    counts = {
        "spec_id": group["spec_id"],
        "data_record_count": group["record_count"],
        "data_file_count": group["file_count"],
        "total_data_file_size_in_bytes": group["size_bytes"],
        "position_delete_record_count": position_records + vector_records,
        "position_delete_file_count": group["position_delete_file_count"],
        "equality_delete_record_count": group["equality_delete_record_count"],
        "equality_delete_file_count": group["equality_delete_file_count"],
        "total_record_count": group["record_count"] - vector_records if is_known else None,
        "last_updated_at": None if updated is None else updated.timestamp_ms,
        "last_updated_snapshot_id": None if updated is None else updated.snapshot_id,
    }
    return counts | ({"dv_count": group["deletion_vector_count"]} if format_version >= 3 else {})
