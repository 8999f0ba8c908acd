"""The file of partition statistics: counts of each partition, from manifest entries (R-142)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icectl.entries.columns import whole
from icectl.entries.partition_key import decode_key, encode_keys, java_sort_key
from icectl.entries.rows import Entries, live, of_status
from icectl.entries.summary import PARTITION_SOURCES, by_partition, merge_partitions
from icectl.errors import CorruptTable, MissingFile, Unsupported
from icectl.files.arrow_failures import reading_data_file
from icectl.files.manifest.parquet_columns import ColumnsById, ParquetColumns
from icectl.files.parquet.schema import arrow_schema, child_fields, flat_type
from icectl.format.layout import layout_of
from icectl.format.manifest import ManifestContent, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec, result_types
from icectl.format.schema import Schema
from icectl.format.snapshot import PartitionStatisticsFile, Snapshot, ancestors
from icectl.format.types import NestedField, PrimitiveType, StructType
from icectl.table.context import TableContext
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries
from icectl.table.reading import naming, present

_LONG, _INT = PrimitiveType("long"), PrimitiveType("int")
_REQUIRED = 5
"""Fields that every version requires: partition, spec, and the counts of data files."""
_FILES = (
    "file_count", "position_delete_file_count", "equality_delete_file_count",
    "deletion_vector_count",
)  # fmt: skip
_STORED_COUNTS = {
    "record_count": 3, "file_count": 4, "size_bytes": 5, "position_delete_record_count": 6,
    "position_delete_file_count": 7, "equality_delete_record_count": 8,
    "equality_delete_file_count": 9, "deletion_vector_count": 13,
}  # fmt: skip
"""The field ids of counts, by their names in by_partition (R-142)."""
_PARTITION, _SPEC_ID, _UPDATED_MS, _UPDATED_BY, _VECTORS = 1, 2, 11, 12, 13
_VECTOR_RECORDS = "deletion_vector_record_count"
_ARROW_TYPES: Mapping[int, pa.DataType] = {id_: pa.int64() for id_ in (3, 5, 6, 8, 11, 12)} | {
    id_: pa.int32() for id_ in (_SPEC_ID, 4, 7, 9, _VECTORS)
}


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """Counts of partitions as by_partition has them, where `updated_ms` is a place in `instants`.

    `instants` are times of snapshots in ms with their ids, in the order in which they came.
    Deleted rows that vectors name may be among those of position delete files, as in the file.
    """

    table: pa.Table
    instants: Sequence[tuple[int, int]]

    @property
    def _ranks(self) -> Mapping[int, int]:
        return {snapshot_id: rank for rank, (_, snapshot_id) in enumerate(self.instants)}

    def moved(self, come: Entries, gone: Entries, removals: Entries) -> "PartitionCounts | None":
        """Return the counts once files came and went; None if they were untrue before.

        `removals` are entries that say which snapshots removed files.
        """
        parts = [
            self.table,
            by_partition(come, self._ranks),
            _times(by_partition(gone, {}), -1),
            _times(by_partition(removals, self._ranks), 0),
        ]
        counts = merge_partitions(parts)
        deleted = "position_delete_record_count"
        both = pc.add(counts[deleted], counts[_VECTOR_RECORDS])
        counts = _with(_with(counts, deleted, both), _VECTOR_RECORDS, pc.multiply(both, 0))
        numbers = [counts[name].to_numpy() for name in counts.column_names[2:-1]]
        if any((column < 0).any() for column in numbers):
            return None
        has_files = sum((counts[name].to_numpy() for name in _FILES), np.int64(0)) > 0
        return PartitionCounts(counts.filter(pa.array(has_files)), self.instants)


def _times(counts: pa.Table, factor: int) -> pa.Table:
    """Return counts of by_partition, each multiplied."""
    for name in counts.column_names[2:-1]:
        counts = _with(counts, name, pc.multiply(counts[name], factor))
    return counts


def _with(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, values)


def count_partitions(metadata: TableMetadata, entries: Entries) -> PartitionCounts:
    """Count all entries of a snapshot; removed ones say when their partition changed last."""
    none = Entries(entries.table.slice(0, 0))
    nothing = PartitionCounts(by_partition(none, {}), _instants(metadata, ()))
    counted = nothing.moved(live(entries), none, of_status(entries, Status.DELETED))
    assert counted is not None
    return counted


def _instants(
    metadata: TableMetadata, others: Iterable[tuple[int, int]]
) -> Sequence[tuple[int, int]]:
    """Return the times of snapshots with their ids, `others` too, in the order they came in."""
    known = {
        item.snapshot_id: (item.timestamp_ms, item.sequence_number) for item in metadata.snapshots
    }
    expired = {snapshot_id: (time_ms, 0) for time_ms, snapshot_id in others}
    ordered = sorted((expired | known).items(), key=lambda item: item[1])
    return [(time_ms, snapshot_id) for snapshot_id, (time_ms, _) in ordered]


def counts_since(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot,
    manifests: Sequence[ManifestFile],
) -> PartitionCounts | None:
    """Return the counts of a snapshot, from those of the newest one before it that has some.

    None if that cannot be proved: their file is missing, damaged or of another layout, or manifests
    do not list as many files. Manifests that both snapshots list are not read.
    Raises: StorageError.
    """
    files = {file.snapshot_id: file for file in metadata.partition_statistics}
    before = next(
        (
            item
            for item in ancestors(metadata.snapshots_by_id, snapshot.snapshot_id)
            if item.snapshot_id in files
        ),
        None,
    )
    if before is None or layout_of(before) is not layout_of(snapshot):
        return None
    known = read_counts(context, metadata, files[before.snapshot_id])
    if known is None:
        return None
    try:
        earlier = read_snapshot_manifests(context.store, metadata, before)
        common = {item.identity for item in earlier} & {item.identity for item in manifests}
        lists = (
            [item for item in listed if item.identity not in common]
            for listed in (earlier, manifests)
        )
        old, new = (load_entries(context, metadata, some, PARTITION_SOURCES) for some in lists)
    except (CorruptTable, MissingFile):  # manifests of now are read again
        return None
    counts = known.moved(live(new), live(old), of_status(new, Status.DELETED))
    return counts if counts is not None and are_as_listed(counts, manifests) else None


def are_as_listed(counts: PartitionCounts, manifests: Sequence[ManifestFile]) -> bool:
    """Return whether there are as many files of data and of deletes as the snapshot lists."""
    of_deletes = [name for name in _FILES if name != "file_count"]
    for content, names in (
        (ManifestContent.DATA, ["file_count"]),
        (ManifestContent.DELETES, of_deletes),
    ):
        listed = [item.live_files for item in manifests if item.content is content]
        if None in listed:
            return False
        counted = sum(pc.sum(counts.table[name]).as_py() or 0 for name in names)
        if counted != sum(number or 0 for number in listed):
            return False
    return True


def read_counts(
    context: TableContext, metadata: TableMetadata, file: PartitionStatisticsFile
) -> PartitionCounts | None:
    """Read a file of partition statistics; None if it is missing, damaged, or lacks counts.

    Raises: StorageError.
    """
    try:
        with present(file.statistics_path), naming(file.statistics_path):
            content = context.store.read(file.statistics_path)
            if len(content) != file.file_size_in_bytes:
                return None
            return _counts_in(metadata, ParquetColumns(content, "R-142"))
    except (CorruptTable, MissingFile, Unsupported):
        return None


def named_partitions(
    context: TableContext, metadata: TableMetadata, file: PartitionStatisticsFile
) -> Entries:
    """Return the partitions that a file of statistics names: `spec_id` and `partition_key`.

    Raises: CorruptTable R-142; Unsupported; FileNotFoundError; StorageError.
    """
    location = file.statistics_path
    with naming(location):
        stored = ParquetColumns(context.store.read(location), "R-142")
    columns = stored.read()
    spec_ids = columns.get((None, _SPEC_ID))
    parts = []
    for spec in metadata.partition_specs:
        keys = _keys(metadata, spec, stored, columns)
        if keys is not None and spec_ids is not None:
            part = pa.table({"spec_id": spec_ids.cast(pa.int32()), "partition_key": keys})
            parts.append(part.filter(pc.equal(part["spec_id"], spec.spec_id)))
    if not parts or sum(map(len, parts)) != columns.row_count:
        raise CorruptTable(f"{location} has partitions of no known spec", rule="R-142")
    return Entries(pa.concat_tables(parts))


def _counts_in(metadata: TableMetadata, stored: ParquetColumns) -> PartitionCounts | None:
    columns = stored.read()
    specs = {spec.spec_id: spec for spec in metadata.partition_specs}
    none = pa.array(np.zeros(columns.row_count, np.int64))
    needed = [*_STORED_COUNTS.values(), _SPEC_ID, _UPDATED_MS, _UPDATED_BY]
    found = {id_: values for id_ in needed if (values := columns.get((None, id_))) is not None}
    if metadata.format_version < 3:
        found.setdefault(_VECTORS, none.cast(pa.int32()))
    if len(found) < len(needed) or any(of.type != _ARROW_TYPES[id_] for id_, of in found.items()):
        return None
    if any(found[id_].null_count for id_ in needed[:-2]):
        return None
    rows = {name: found[id_].cast(pa.int64()) for name, id_ in _STORED_COUNTS.items()}
    spec_ids = found[_SPEC_ID].cast(pa.int32())
    if not set(spec_ids.unique().to_pylist()) <= specs.keys():
        return None
    updates = (found[id_].to_pylist() for id_ in (_UPDATED_MS, _UPDATED_BY))
    updated = list(zip(*updates, strict=True))
    instants = _instants(metadata, [pair for pair in updated if None not in pair])
    ranks = {snapshot_id: rank for rank, (_, snapshot_id) in enumerate(instants)}
    parts = []
    for spec_id in spec_ids.unique().to_pylist():
        keys = _keys(metadata, specs[spec_id], stored, columns)
        if keys is None:
            return None
        part = pa.table({
            "spec_id": spec_ids, "partition_key": keys,
            **rows, _VECTOR_RECORDS: none,
            "updated_ms": pa.array([ranks.get(by) for _, by in updated], pa.int64()),
        })  # fmt: skip
        parts.append(part.filter(pc.equal(part["spec_id"], spec_id)))
    if not parts:
        return None
    counts = merge_partitions(parts)
    # a partition counted twice would be read as one
    return PartitionCounts(counts, instants) if len(counts) == columns.row_count else None


def _keys(
    metadata: TableMetadata, spec: PartitionSpec, stored: ParquetColumns, columns: ColumnsById
) -> pa.Array | None:
    """Return the keys of all rows as if they were of one spec; None if a field has another type.

    Raises: CorruptTable R-142, for values that are none of its type.
    """
    types, values = [], []
    for item, type_ in zip(spec.fields, result_types(spec, metadata.schemas), strict=True):
        place = (_PARTITION, item.field_id)
        field = stored.find(place)
        if field is None or type_ is None or flat_type(field.type) != type_:
            return None
        column = columns.get(place)
        assert column is not None
        with reading_data_file("statistics", "R-142"):
            column.validate(full=True)
        types.append(type_)
        values.append(column)
    if not types:
        return pa.repeat(pa.scalar(b"", pa.binary()), columns.row_count)
    return encode_keys(types, values)


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
            if known is not None and (
                known[2] != item.source_ids
                or (known[0].type != type_ and "void" not in (known[1], transform))
            ):  # in version 1 ids were given again
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


def partition_file(metadata: TableMetadata, counts: PartitionCounts) -> bytes:
    """Return the bytes of the file.

    Order: by partition, nulls first.
    Raises: Unsupported.
    """
    partition = partition_type(metadata)
    specs = {
        spec.spec_id: (
            [item.field_id for item in spec.fields],
            result_types(spec, metadata.schemas),
        )
        for spec in metadata.partition_specs
    }
    ids = [item.id for item in partition.fields]

    def row_of(spec_id: int, key: bytes) -> tuple[list[Any], int]:
        fields, types = specs[spec_id]
        values = dict(zip(fields, decode_key(key, types), strict=True))
        return [values.get(id_) for id_ in ids], spec_id

    keys = (counts.table[name].to_pylist() for name in ("spec_id", "partition_key"))
    rows = list(map(row_of, *keys))
    order = sorted(range(len(rows)), key=lambda at: (*map(java_sort_key, rows[at][0]), rows[at][1]))
    schema = arrow_schema(statistics_schema(partition, metadata.format_version))
    kinds = [item.type for item in child_fields(schema.field("partition").type)]
    tuples = [
        _column(kind, [rows[at][0][place] for at in order]) for place, kind in enumerate(kinds)
    ]
    stored = _stored(counts.table.take(pa.array(order, pa.int64())), counts.instants)
    columns = [pa.StructArray.from_arrays(tuples, fields=list(schema.field("partition").type))]
    columns += [whole(stored[item.name]).cast(item.type) for item in list(schema)[1:]]
    sink = BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), sink, compression="zstd")
    return sink.getvalue()


def _column(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):  # a UUID
        plain = [None if value is None else value.bytes for value in values]
        return pa.ExtensionArray.from_storage(kind, pa.array(plain, kind.storage_type))
    return pa.array(values, kind)


def _stored(counts: pa.Table, instants: Sequence[tuple[int, int]]) -> Mapping[str, pa.ChunkedArray]:
    """Return the columns of the file besides the partition, by name, dv_count for every version."""
    deleted = pc.add(counts["position_delete_record_count"], counts[_VECTOR_RECORDS])
    files = pc.add(counts["equality_delete_file_count"], counts["position_delete_file_count"])
    total = pc.subtract(counts["record_count"], deleted)
    times, snapshot_ids = (pa.array([of[at] for of in instants], pa.int64()) for at in (0, 1))
    return {
        "spec_id": counts["spec_id"],
        "data_record_count": counts["record_count"],
        "data_file_count": counts["file_count"],
        "total_data_file_size_in_bytes": counts["size_bytes"],
        "position_delete_record_count": deleted,
        "position_delete_file_count": counts["position_delete_file_count"],
        "equality_delete_record_count": counts["equality_delete_record_count"],
        "equality_delete_file_count": counts["equality_delete_file_count"],
        "total_record_count": pc.if_else(pc.equal(files, 0), total, None),
        "last_updated_at": times.take(whole(counts["updated_ms"])),
        "last_updated_snapshot_id": snapshot_ids.take(whole(counts["updated_ms"])),
        "dv_count": counts["deletion_vector_count"],
    }
