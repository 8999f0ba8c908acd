"""Columns of one value in a place of memory that several tables share.

Of millions of entries most columns have one value for many manifests: the snapshot, the sequence
number, the spec, or nothing at all. As Arrow stores them they take a third of a table's memory.
"""

import pyarrow as pa

from icectl.entries.rows import E


class SharedValues:
    """The last single value of each column, as often as a chunk has had it."""

    def __init__(self) -> None:
        self._last: dict[str, pa.Array] = {}

    def shared(self, entries: E) -> E:
        """Return the same rows, whose chunks of one value lie where those of earlier rows do.

        Order: kept.
        Cost: memory for one chunk of each column that has one value.
        """
        table = entries.table
        columns = [
            pa.chunked_array([self._chunk(name, one) for one in column.chunks], column.type)
            for name, column in zip(table.column_names, table.columns, strict=True)
        ]
        return type(entries)(pa.table(columns, schema=table.schema))

    def _chunk(self, name: str, chunk: pa.Array) -> pa.Array:
        count = len(chunk)
        if not count or not chunk.slice(1).equals(chunk.slice(0, count - 1)):
            return chunk
        last = self._last.get(name)
        if last is None or not last.slice(0, 1).equals(chunk.slice(0, 1)):
            last = None
        if last is None or len(last) < count:
            last = self._last[name] = pa.repeat(chunk[0], count)
        return last.slice(0, count)
