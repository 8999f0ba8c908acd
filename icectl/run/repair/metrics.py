"""The metrics that a manifest should state of a data file, as the file's footer proves them."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from icectl.codec.data_file import open_data_file
from icectl.codec.parquet.metrics import FileMetrics
from icectl.errors import CorruptTable
from icectl.run.reader import Reader, name_mapping
from icectl.spec import single_value
from icectl.spec.schema import Schema
from icectl.table.reading import read_or_none

COUNTS = ("value_counts", "null_value_counts")
BOUNDS = ("lower_bounds", "upper_bounds")


def restated_metrics(reader: Reader, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Columns of an entry of a Parquet data file as they should be; none where they are right, or
    nothing proves what is.

    `entry` has every column of an entries table. A file whose size and count of rows both differ is
    another file. From version 3 on row ids hang on the count of rows, which is left alone there.
    Raises: StorageError of the store.
    """
    found = read_or_none(partial(_footer, reader, entry["location"]))
    if found is None:
        return {}
    size_bytes, metrics = found
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
    columns |= _bounds(entry, metrics, reader.metadata.current_schema)
    return columns


def _footer(reader: Reader, location: str) -> tuple[int, FileMetrics] | None:
    """Return bytes of a file, and what its footer says; None where there is no file."""
    status = reader.store.stat(location)
    if status is None:
        return None
    with reader.store.open(location) as file:
        opened = open_data_file(file, "parquet", name_mapping(reader.metadata))
        return status.size_bytes, opened.metrics(reader.metadata.current_schema)


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


def _holds(schema: Schema, id_: int, bound: bytes, found: bytes | None, *, is_lower: bool) -> bool:
    """Return whether a bound can be read, and is no narrower than the footer's."""
    column = schema.field(id_)
    if column is None:
        return True
    try:
        value = single_value.decode(column.type, bound)
        if found is None:
            return True
        exact = single_value.decode(column.type, found)
        return bool(value <= exact if is_lower else value >= exact)
    except (CorruptTable, ValueError, TypeError):
        return False
