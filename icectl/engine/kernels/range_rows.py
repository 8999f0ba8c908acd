"""Rows of a group dealt out by ranges of a key, so that several workers sort and write them.

The key of a row is the partition that it goes to, where a group has more than one, and behind that
what rows are sorted by.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.codec.parquet.schema import arrow_schema
from icectl.engine.kernels.partition_rows import partitioner
from icectl.engine.kernels.rewrite_data import (
    DeletesOfGroup,
    FileGroup,
    RowsRead,
    live_batches,
)
from icectl.engine.kernels.row_keys import RowKeys
from icectl.engine.kernels.sort_keys import sort_keys
from icectl.engine.kernels.write_data import FileOutputs
from icectl.spec.schema import Schema
from icectl.spec.sort import SortOrder

_WAITING_BYTES = 64 << 20
"""Rows that wait for more of their range."""
_SAMPLED_BYTES = 256
"""What a sampled key keeps: any bytes do as a bound of a range."""


def range_keys(group: FileGroup) -> RowKeys:
    """Prepare to make the keys of a group's rows. Raises: Unsupported."""
    columns = group.columns.written
    batches = arrow_schema(columns)
    is_whole = group.partition is not None or group.spec.is_unpartitioned
    splitting = None if is_whole else partitioner(group.spec, columns, batches)
    sorting = None if group.sorting is None else sort_keys(group.sorting.order, columns, batches)
    return RowKeys(splitting, sorting)


def sampled_keys(group: FileGroup, outputs: FileOutputs, step: int) -> list[bytes]:
    """Return the beginning of the key of every `step`th row, deleted or not.

    Only the columns that make it are read.

    Raises: as live_batches.
    """
    columns = replace(group.columns, written=_key_columns(group))
    bare = replace(group, columns=columns, deletes=DeletesOfGroup())
    keys, read = range_keys(bare), RowsRead()
    found: list[bytes] = []
    for batch in live_batches(bare, outputs, read):
        first = -(read.row_count - batch.num_rows) % step
        rows = batch.take(pa.array(np.arange(first, batch.num_rows, step)))
        found += pc.binary_slice(keys.of(rows), 0, _SAMPLED_BYTES).to_pylist()
    return found


def _key_columns(group: FileGroup) -> Schema:
    needed = {id_ for item in group.spec.fields for id_ in item.source_ids}
    order = None if group.sorting is None else group.sorting.order
    if isinstance(order, SortOrder):
        needed |= {id_ for item in order.fields for id_ in item.source_ids}
    elif order is not None:
        needed |= set(order.column_ids)
    fields = group.columns.written.fields
    return Schema(
        0, tuple(item for item in fields if not needed.isdisjoint(Schema(0, (item,)).all_fields))
    )


def bounds_of(sample: Sequence[bytes], count: int) -> list[bytes]:
    """Return keys between which about as many rows of a sample are, in up to `count` ranges."""
    if not sample:
        return []
    ordered = sorted(sample)
    found = {ordered[len(ordered) * number // count] for number in range(1, count)}
    return sorted(found - {ordered[0]})


def dealt(
    batches: Iterator[pa.RecordBatch], keys: RowKeys, bounds: Sequence[bytes]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows with the number of their range, which is that of the bounds up to their key.

    Cost: memory for _WAITING_BYTES and a batch.
    """
    waiting: dict[int, list[pa.RecordBatch]] = {}
    size_bytes = 0
    for batch in batches:
        for number, rows in _split(batch, keys.of(batch), bounds):
            waiting.setdefault(number, []).append(rows)
            size_bytes += rows.nbytes
        if size_bytes >= _WAITING_BYTES:
            yield from _joined(waiting)
            waiting, size_bytes = {}, 0
    yield from _joined(waiting)


def _split(
    batch: pa.RecordBatch, keys: pa.Array, bounds: Sequence[bytes]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    order = pc.sort_indices(keys)
    ordered, rows = keys.take(order), batch.take(order)
    places = range(len(keys))
    cuts = [bisect_left(places, bound, key=lambda at: ordered[at].as_py()) for bound in bounds]
    for number, (start, stop) in enumerate(pairwise([0, *cuts, len(keys)])):
        if start < stop:
            yield number, rows.slice(start, stop - start)


def _joined(waiting: dict[int, list[pa.RecordBatch]]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for number, parts in waiting.items():
        yield number, pa.concat_batches(parts)
