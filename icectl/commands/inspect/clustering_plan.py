"""The clustering view: how many files hold a value of each key, in all and by partition."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icectl.commands.inspect.views import Row
from icectl.entries.clustering import (
    ClusteringKey,
    Depths,
    KeyBounds,
    depths,
    joined,
    keys_of_order,
    metrics_of,
    spans_of,
)
from icectl.entries.columns import Integers
from icectl.entries.partition_records import partitions_of
from icectl.entries.rows import GROUP_KEYS, Entries, data_files, live
from icectl.entries.summary import Totals, summarise
from icectl.errors import UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.metrics_modes import metrics_modes
from icectl.format.schema import similar_name_hint
from icectl.format.sort import SortOrder, order_text
from icectl.format.transforms import Transform
from icectl.format.types import is_comparable

DEPTH_BANDS = (2, 4, 8, 16, 32, 64, 128)
"""Bounds of the histogram of depths."""

_SIZES = ("record_count", "file_size_in_bytes")


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """The keys that files are compared by, with the bounds of all files, and what files there are.

    `partitions` numbers the partition of each file: its place in `specs` and `partition_keys`.
    `records` and `sizes` are the rows and bytes of each.
    """

    keys: Sequence[ClusteringKey]
    order: SortOrder | None
    spans: Mapping[ClusteringKey, KeyBounds]
    partitions: Integers
    specs: Integers
    partition_keys: pa.Array
    records: Integers
    sizes: Integers
    totals: Totals


def keys_of(
    metadata: TableMetadata, columns: Sequence[str] | None
) -> tuple[list[ClusteringKey], SortOrder | None]:
    """Return the named columns, or the keys of the sort order, which is second, or all columns.

    Raises: UsageError for a column that there is not, or that has no columns of bounds.
    """
    schema = metadata.current_schema
    identity = Transform("identity", "identity")
    if columns is not None:
        keys = []
        for name in columns:
            item = schema.field_named(name)
            if item is None:
                names = [schema.name_of(id_) or "" for id_ in schema.all_fields]
                message = f"`--columns`: the table has no column `{name}`"
                raise UsageError(message, hint=similar_name_hint(name, names))
            if not schema.line_to(item.id) or not is_comparable(item.type):
                raise UsageError(f"`--columns`: values of `{name}` have no order")
            keys.append(ClusteringKey(name, item.id, item.type, identity))
        return keys, None
    order = metadata.sort_order(metadata.default_sort_order_id)
    if order is not None and order.fields:
        return keys_of_order(order, schema), order
    leaves = ((id_, item) for id_, item in schema.all_fields.items() if schema.line_to(id_))
    every = [
        ClusteringKey(schema.name_of(id_) or item.name, id_, item.type, identity)
        for id_, item in leaves
        if is_comparable(item.type)
    ]
    return every, None


def read_clustering(
    batches: Iterable[Entries], keys: Sequence[ClusteringKey], order: SortOrder | None
) -> ColumnBounds:
    """Return the bounds of keys in all live data files; `batches` have CLUSTERING_SOURCES."""
    totals, tables = Totals(), []
    parts: dict[ClusteringKey, list[KeyBounds]] = {key: [] for key in keys}
    for batch in batches:
        alive = live(batch)
        totals += summarise(alive)
        data = data_files(alive)
        if len(data):
            metrics = metrics_of(data)
            tables.append(data.table.select([*GROUP_KEYS, *_SIZES]))
            for key in keys:
                if key.why_unordered is None:
                    parts[key].append(spans_of(data, metrics, key))
    found_keys = [key for key, found in parts.items() if found]
    spans = {key: joined(parts.pop(key)) for key in found_keys}  # one copy at a time is doubled
    if not tables:
        none = np.zeros(0, np.int64)
        no_keys = pa.array([], pa.binary())
        return ColumnBounds(keys, order, spans, none, none, no_keys, none, none, totals)
    table = pa.concat_tables(tables)
    records, sizes = (table[name].to_numpy().astype(np.int64) for name in _SIZES)
    encoded = table["partition_key"].combine_chunks().dictionary_encode()
    count = max(len(encoded.dictionary), 1)
    codes = table["spec_id"].to_numpy().astype(np.int64) * count + encoded.indices.to_numpy()
    distinct, partitions = np.unique(codes, return_inverse=True)
    return ColumnBounds(
        keys,
        order,
        spans,
        partitions.astype(np.int64),
        distinct // count,
        encoded.dictionary.take(pa.array(distinct % count)),
        records,
        sizes,
        totals,
    )


def clustering(found: ColumnBounds, metadata: TableMetadata, limit: int | None) -> Row:
    """Return the depth of each key, as JSON; at most `limit` partitions each, the worst first.

    Depths are of rows before deletes. Columns without any bounds are left out unless one key alone
    is asked for.
    """
    schema, totals = metadata.current_schema, found.totals
    columns = [_of_key(found, key, metadata, limit) for key in found.keys]
    return {
        "sort_order": None if found.order is None else order_text(found.order, schema),
        "data_file_count": totals.data_file_count,
        "record_count": totals.record_count,
        "deleted_record_count": totals.position_delete_record_count
        + totals.deletion_vector_record_count,
        "equality_delete_file_count": totals.equality_delete_file_count,
        "partition_count": len(found.specs),
        "columns": columns,
    }


_NOTHING: Row = {
    "average_depth": None, "max_depth": None, "average_depth_in_partitions": None,
    "max_depth_in_partitions": None, "point_lookup_file_count": None,
    "point_lookup_file_ratio": None, "range_file_count": None, "range_file_ratio": None,
    "depths": [], "partitions": [],
}  # fmt: skip


def _of_key(
    found: ColumnBounds, key: ClusteringKey, metadata: TableMetadata, limit: int | None
) -> Row:
    spans, count = found.spans.get(key), len(found.partitions)
    known = 0 if spans is None else int(np.count_nonzero(spans.known))
    empty = 0 if spans is None else int(np.count_nonzero(spans.is_empty))
    facts: dict[str, object] = {
        "column": key.name,
        "field_id": key.field_id,
        "unknown_file_count": count - known - empty,
        "file_without_values_count": empty,
        "note": _note(key, spans, metadata),
    }
    if spans is None or not known:
        return {**facts, **_NOTHING}
    one = np.zeros(known, np.int64)
    own = found.partitions[spans.known]
    in_all = depths(spans, one, 1)
    is_one = len(found.specs) == 1
    in_partitions = in_all if is_one else depths(spans, own, len(found.specs))
    rows = spans.rows[spans.known]
    average = float(np.average(in_all.of_files, weights=rows))
    unknown = count - known - empty
    look_up, ranged = average + unknown, float(in_all.opened.sum()) + unknown
    return facts | {
        "average_depth": average,
        "max_depth": int(in_all.most[0]),
        "average_depth_in_partitions": float(np.average(in_partitions.of_files, weights=rows)),
        "max_depth_in_partitions": int(in_partitions.most.max()),
        "point_lookup_file_count": look_up,
        "point_lookup_file_ratio": look_up / count,
        "range_file_count": ranged,
        "range_file_ratio": ranged / count,
        "depths": _bands(in_partitions.of_files, rows),
        "partitions": _partitions(found, spans, in_partitions, metadata, limit),
    }


def _note(key: ClusteringKey, spans: KeyBounds | None, metadata: TableMetadata) -> str | None:
    if key.why_unordered is not None:
        return key.why_unordered
    modes = metrics_modes(metadata.properties, metadata.current_schema, [key.field_id])
    mode = modes.get(key.field_id)
    if spans is not None and spans.is_text and mode and spans.longest >= mode.longest_bound > 0:
        return f"bounds are cut at {mode.longest_bound}, so depths may be smaller"
    return None


def _bands(depths: npt.NDArray[np.float64], rows: Integers) -> list[Row]:
    """Count files and their rows by depth."""
    places = np.searchsorted(DEPTH_BANDS, depths, side="right")
    files, records = (
        np.bincount(places, weights, len(DEPTH_BANDS) + 1).astype(np.int64).tolist()
        for weights in (None, rows)
    )
    ends: list[int | None] = [1, *DEPTH_BANDS, None]
    bands = zip(ends[:-1], ends[1:], files, records, strict=True)
    return [
        {"from_depth": low, "below_depth": high, "file_count": count, "record_count": records}
        for low, high, count, records in bands
    ]


def _partitions(
    found: ColumnBounds, spans: KeyBounds, of: Depths, metadata: TableMetadata, limit: int | None
) -> list[Row]:
    count = len(found.specs)
    own, rows = found.partitions[spans.known], spans.rows[spans.known]
    records = np.bincount(own, rows, count)
    weighed = np.bincount(own, rows * of.of_files, count)
    files = np.bincount(found.partitions, minlength=count)
    unknown = np.bincount(found.partitions[~spans.known & ~spans.is_empty], minlength=count)
    average = np.divide(weighed, records, out=np.zeros(count), where=records > 0)
    named = partitions_of(metadata)
    shown: list[Row] = []
    for at in np.lexsort((-files, -average))[:limit].tolist():
        place: tuple[int, Any] = int(found.specs[at]), found.partition_keys[at].as_py()
        has_depth = bool(records[at])
        shown.append(
            {
                "partition": named.record(*place),
                "partition_path": named.path(*place),
                "spec_id": place[0],
                "file_count": int(files[at]),
                "unknown_file_count": int(unknown[at]),
                "average_depth": float(average[at]) if has_depth else None,
                "max_depth": int(of.most[at]) if has_depth else None,
            }
        )
    return shown
