"""Rows of a group dealt out by ranges of a key, so that several workers sort and write them.

The key of a row is the partition that it goes to, where a group has more than one, and behind that
what rows are sorted by.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.files.parquet.schema import arrow_schema
from icectl.format.schema import Schema
from icectl.format.sort import SortOrder
from icectl.rows.partition_rows import partitioner
from icectl.rows.rewrite_data import DeletesOfGroup, FileGroup, RowsRead, live_batches
from icectl.rows.sort_keys import RowKeys, sort_keys
from icectl.rows.write_data import FileOutputs

_WAITING_BYTES = 64 << 20
"""Rows that wait for more of their range."""
_COMPARED_BYTES = 256
"""What is compared of a key: any bytes do as the low end of a range."""


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
        found += pc.binary_slice(keys.of(rows), 0, _COMPARED_BYTES).to_pylist()
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


def lows_of(sample: Sequence[bytes], count: int) -> list[bytes]:
    """Return the keys where `count` ranges begin in which about as many rows of a sample are.

    A key that more rows have than one range should is there as often as it fills one.
    """
    ordered = sorted(sample) or [b""]
    return [ordered[len(ordered) * number // count] for number in range(count)]


def dealt(
    batches: Iterator[pa.RecordBatch], keys: RowKeys, lows: Sequence[bytes]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows with the number of their range: the last that begins at or below their key.

    Of ranges that begin at the same key each gets its share of the rows that have it.
    Cost: memory for _WAITING_BYTES and a batch.
    """
    ranges = _Ranges.of(lows)
    waiting: dict[int, list[pa.RecordBatch]] = {}
    size_bytes = 0
    for batch in batches:
        for number, rows in ranges.split(batch, keys.of(batch)):
            if not rows.num_rows:
                continue
            waiting.setdefault(number, []).append(rows)
            size_bytes += rows.nbytes
        if size_bytes >= _WAITING_BYTES:
            yield from _joined(waiting)
            waiting, size_bytes = {}, 0
    yield from _joined(waiting)


@dataclass(slots=True)
class _Ranges:
    """Ranges by the different keys where they begin, and how many begin at each.

    `firsts` are the numbers of the first ones, and behind them how many ranges there are; `turns`
    count the rows that were dealt out in shares.
    """

    lows: Sequence[bytes]
    firsts: Sequence[int]
    turns: Counter[int] = field(default_factory=Counter)

    @staticmethod
    def of(lows: Sequence[bytes]) -> "_Ranges":
        """Return the ranges that begin at some keys, in their order."""
        counts = Counter(lows)
        return _Ranges(list(counts), list(accumulate(counts.values(), initial=0)))

    def split(self, batch: pa.RecordBatch, keys: pa.Array) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of a batch with the number of their range."""
        order = pc.sort_indices(keys)
        rows, ordered = batch.take(order), pc.binary_slice(keys.take(order), 0, _COMPARED_BYTES)

        def place(low: bytes, find: Callable[..., int]) -> int:
            """Find a key among those of the rows."""
            return find(range(len(ordered)), low, key=lambda at: ordered[at].as_py())

        cuts = [place(low, bisect_left) for low in self.lows[1:]]
        for at, (start, stop) in enumerate(pairwise([0, *cuts, len(ordered)])):
            first, last = self.firsts[at], self.firsts[at + 1] - 1
            same = start, start
            if first < last:
                same = place(self.lows[at], bisect_left), place(self.lows[at], bisect_right)
            yield first, rows.slice(start, same[0] - start)
            yield from self._shares(at, rows.slice(same[0], same[1] - same[0]))
            yield last, rows.slice(same[1], stop - same[1])

    def _shares(self, at: int, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield rows of one key in as many parts as ranges begin there; few go to each in turn."""
        count = self.firsts[at + 1] - self.firsts[at]
        for part, (start, stop) in enumerate(
            pairwise(rows.num_rows * part // count for part in range(count + 1))
        ):
            number = self.firsts[at] + (part + self.turns[at]) % count
            yield number, rows.slice(start, stop - start)
        self.turns[at] += rows.num_rows


def _joined(waiting: dict[int, list[pa.RecordBatch]]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for number, parts in waiting.items():
        yield number, pa.concat_batches(parts)
