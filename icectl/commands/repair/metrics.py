"""The metrics that a manifest should state of a data file, as the file's footer proves them."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from icectl.checks.file_identity import is_outside
from icectl.entries.partition_key import PartitionValue, decode_key, sort_key
from icectl.errors import CorruptTable
from icectl.files.data_file import open_data_file
from icectl.files.parquet.metrics import FileMetrics
from icectl.format import single_value
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.schema import Schema
from icectl.format.transforms import Transform, accepts, apply
from icectl.format.types import NestedField
from icectl.table.live_files import name_mapping
from icectl.table.reader import Reader
from icectl.table.reading import read_or_none

COUNTS = ("value_counts", "null_value_counts")
BOUNDS = ("lower_bounds", "upper_bounds")


def restated_metrics(reader: Reader, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Columns of an entry of a Parquet data file as they should be; none where they are right, or
    nothing proves what is.

    `entry` has every column of an entries table. A file whose size or count of rows differs may be
    another file where a bound leaves rows out too, or both differ. So may one where bounds of two
    columns do, and one of another partition: nothing is proved then. From version 3 on row ids hang
    on the count of rows, which is left alone there.
    Raises: StorageError of the store.
    """
    footer = read_or_none(partial(_footer, reader, entry["location"]))
    if footer is None:
        return {}
    size_bytes, metrics = footer
    if _is_of_another_partition(reader.metadata, entry, metrics):
        return {}
    columns: dict[str, Any] = {}
    if entry["record_count"] != metrics.record_count:
        if size_bytes != entry["file_size_in_bytes"] or reader.metadata.format_version > 2:
            return {}
        columns["record_count"] = metrics.record_count
    if size_bytes != entry["file_size_in_bytes"]:
        if not _tells_the_same(entry, metrics):
            return {}
        columns["file_size_in_bytes"] = size_bytes
    offsets = entry["split_offsets"]
    if offsets is not None and sorted(set(offsets)) != list(offsets):
        columns["split_offsets"] = list(metrics.split_offsets)
    columns |= _counts(entry, metrics)
    bounds = _bounds(entry, metrics, reader.metadata.current_schema)
    if bounds and {"file_size_in_bytes", "record_count"} & columns.keys():
        return {}
    if _columns_outside(entry, metrics, reader.metadata.current_schema) > 1:
        return {}
    return {**columns, **bounds}


def _footer(reader: Reader, location: str) -> tuple[int, FileMetrics] | None:
    """Return bytes of a file, and what its footer says; None where there is no file."""
    status = reader.context.store.stat(location)
    if status is None:
        return None
    with reader.context.store.open(location) as file:
        opened = open_data_file(file, "parquet", name_mapping(reader.metadata))
        return status.size_bytes, opened.metrics(reader.metadata.current_schema)


def _is_of_another_partition(
    metadata: TableMetadata, entry: Mapping[str, Any], metrics: FileMetrics
) -> bool:
    """Return whether a footer has only values of other partitions than the entry's."""
    spec, schema = metadata.spec(entry["spec_id"]), metadata.current_schema
    if spec is None:
        return False
    values = decode_key(entry["partition_key"], result_types(spec, metadata.schemas))
    for item, value in zip(spec.fields, values, strict=True):
        column = schema.field(item.source_ids[0]) if len(item.source_ids) == 1 else None
        is_told = column is not None and accepts(item.transform, column.type)
        if column is not None and is_told and _excludes(metrics, item.transform, column, value):
            return True
    return False


def _excludes(
    metrics: FileMetrics, transform: Transform, column: NestedField, value: PartitionValue
) -> bool:
    """Return whether no row of a file, or not every one, can have a partition value."""
    if transform.name == "void":
        return False
    nulls = metrics.null_value_counts.get(column.id)
    if nulls is not None and (nulls < metrics.record_count if value is None else nulls > 0):
        return True
    bounds = [of.get(column.id) for of in (metrics.lower_bounds, metrics.upper_bounds)]
    stored = [bound for bound in bounds if bound is not None]
    if value is None or len(stored) < 2:
        return False
    least, greatest = (
        sort_key(apply(transform, column.type, single_value.decode(column.type, bound)))
        for bound in stored
    )
    if transform.name == "bucket":  # its order is not that of the column
        return stored[0] == stored[1] and least != sort_key(value)
    return not least <= sort_key(value) <= greatest


def _tells_the_same(entry: Mapping[str, Any], metrics: FileMetrics) -> bool:
    """Whether an entry has counts of the footer's columns, and all of them are the footer's."""
    values = dict(entry["value_counts"] or ())
    nulls = dict(entry["null_value_counts"] or ())
    return (
        bool(values)
        and all(metrics.value_counts.get(id_) == count for id_, count in values.items())
        and all(metrics.null_value_counts.get(id_) == count for id_, count in nulls.items())
    )


def _counts(entry: Mapping[str, Any], metrics: FileMetrics) -> Mapping[str, Any]:
    """Counts of values and nulls, where one of them differs; then NaN are not counted."""
    columns: dict[str, Any] = {}
    for name in COUNTS:
        told, found = dict(entry[name] or ()), getattr(metrics, name)
        if any(found.get(id_, count) != count for id_, count in told.items()):
            columns[name] = [(id_, found[id_]) for id_ in told if id_ in found]
    return columns


def _bounds(entry: Mapping[str, Any], metrics: FileMetrics, schema: Schema) -> Mapping[str, Any]:
    """Bounds, where one of them excludes a value or is none of its column's type.

    Those that only are wider than need be stay as they are.
    """
    columns: dict[str, Any] = {}
    for name in BOUNDS:
        told, found = dict(entry[name] or ()), getattr(metrics, name)
        kept = {
            id_: bound
            for id_, bound in told.items()
            if _holds(schema, id_, bound, found.get(id_), is_lower=name == "lower_bounds")
        }
        if len(kept) < len(told):
            exact = {id_: found[id_] for id_ in told if id_ in found and id_ not in kept}
            columns[name] = sorted({**kept, **exact}.items())
    return columns


def _columns_outside(entry: Mapping[str, Any], metrics: FileMetrics, schema: Schema) -> int:
    """Count the columns whose values are outside of the entry's bounds."""
    lower, upper = (dict(entry[name] or ()) for name in BOUNDS)
    stated = FileMetrics(entry["record_count"], lower_bounds=lower, upper_bounds=upper)
    return sum(is_outside(column, stated, metrics) for column in schema.fields)


def _holds(
    schema: Schema, id_: int, bound: bytes, stored_bound: bytes | None, *, is_lower: bool
) -> bool:
    """Return whether a bound can be read, and is no narrower than the footer's."""
    column = schema.field(id_)
    if column is None:
        return True
    try:
        value = single_value.decode(column.type, bound)
        if stored_bound is None:
            return True
        exact = single_value.decode(column.type, stored_bound)
        return bool(value <= exact if is_lower else value >= exact)
    except (CorruptTable, ValueError, TypeError):
        return False
