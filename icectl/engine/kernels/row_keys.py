"""Keys of rows of several partitions: the partition's, and behind it what rows are sorted by."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from icectl.engine.kernels.partition_rows import Partitioner
from icectl.engine.kernels.sort_keys import SortKeys


@dataclass(frozen=True, slots=True)
class RowKeys:
    """A maker of the keys of batches; without a partitioner or a sorting that part is empty."""

    partitioner: Partitioner | None
    sorting: SortKeys | None

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the key of each row.

        Shape: one binary value per row, none of them null.
        Order: kept.
        Raises: Unsupported, where a value has no result of a transform.
        """
        parts: list[pa.Array | pa.Scalar] = []
        if self.partitioner is not None:
            keys = self.partitioner.keys(batch).cast(pa.large_binary())
            lengths = pc.binary_length(keys).to_numpy().astype(">u4")
            buffers = [None, pa.py_buffer(lengths)]
            prefixes = pa.FixedSizeBinaryArray.from_buffers(pa.binary(4), len(keys), buffers)
            parts += [prefixes.cast(pa.large_binary()), keys]
        if self.sorting is not None:
            parts.append(self.sorting.of(batch))
        return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))
