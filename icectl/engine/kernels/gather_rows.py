"""Rows of many partitions, brought to where few files are open at a time."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from icectl.engine.kernels.partition_rows import Partition, Partitioner
from icectl.engine.kernels.row_keys import RowKeys
from icectl.engine.kernels.sort_rows import RowSorter
from icectl.engine.kernels.write_data import MOST_OPEN_FILES

_MEMORY_BYTES = 64 << 20


def gathered(
    batches: Iterable[pa.RecordBatch], splitting: Partitioner
) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """The rows with their partitions: those of the first ones as they come, then one by one.

    Order: kept in each partition.
    Raises: as Partitioner.keys.
    Cost: rows that do not come at once, beyond twice _MEMORY_BYTES, wait on disk.
    """
    at_once: set[bytes] = set()
    with RowSorter(RowKeys(splitting, None), _MEMORY_BYTES) as later:
        for batch in batches:
            keys = splitting.keys(batch)
            for key in pc.unique(keys).to_pylist():
                if len(at_once) < MOST_OPEN_FILES:
                    at_once.add(key)
            is_now = pc.is_in(keys, value_set=pa.array(sorted(at_once), keys.type))
            if pc.all(is_now).as_py():
                yield from splitting.split(batch, keys)
            else:
                later.add(batch.filter(pc.invert(is_now)))
                yield from splitting.split(batch.filter(is_now), keys.filter(is_now))
        for batch in later.batches():
            yield from splitting.split(batch, splitting.keys(batch))
