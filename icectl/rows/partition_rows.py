"""Rows split by the partitions of a spec."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from icectl.entries.partition_key import decode_key
from icectl.entries.partition_transforms import partition_keys
from icectl.errors import Unsupported
from icectl.format.partition import PartitionField, PartitionSpec, partition_path, result_types
from icectl.format.schema import Schema
from icectl.format.types import PrimitiveType, Type, is_comparable, is_nested, type_text
from icectl.rows.columns import inside, path_to

_ANY = PrimitiveType("int")


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition by its canonical key; `path` is that of its folder, empty without fields."""

    key: bytes
    path: str


@dataclass(frozen=True, slots=True)
class Partitioner:
    """A splitter of batches of a schema by a spec."""

    spec: PartitionSpec
    sources: Sequence[Type]
    results: Sequence[Type | None]
    columns: Sequence[tuple[int, ...] | None]
    """The path to the source of each field in a batch; None for a void field."""
    known: dict[bytes, Partition] = field(default_factory=dict)

    def split(
        self, batch: pa.RecordBatch, row_keys: pa.Array
    ) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """Yield the rows of each partition; `row_keys` are the keys of the batch.

        Order: kept within a partition; partitions are in the order of their first rows.
        """
        encoded = row_keys.dictionary_encode()
        keys = encoded.dictionary.to_pylist()
        if len(keys) <= 1:
            yield from ((self.partition(key), batch) for key in keys)
            return
        codes = encoded.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes))
        # Copies: slices would keep the whole batch in memory while any of them waits.
        for key, rows in zip(keys, np.split(order, ends[:-1]), strict=True):
            yield self.partition(key), batch.take(pa.array(rows))

    def partition(self, key: bytes) -> Partition:
        """Return the partition of a key."""
        partition = self.known.get(key)
        if partition is None:
            values = decode_key(key, self.results)
            path = partition_path(self.spec, self.results, values)
            partition = Partition(key, "" if self.spec.is_unpartitioned else path)
            self.known[key] = partition
        return partition

    def keys(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the canonical key of each row's partition.

        Raises: Unsupported, if a value has no result of its transform.
        """
        if not self.spec.fields:
            return pa.repeat(pa.scalar(b"", pa.binary()), batch.num_rows)
        nothing = pa.nulls(batch.num_rows, pa.int32())
        columns = [
            nothing if path is None else inside(batch.column(path[0]), path[1:])
            for path in self.columns
        ]
        try:
            return partition_keys(self.spec, self.sources, columns)
        except ValueError as error:
            raise Unsupported(
                f"a row has no partition of spec {self.spec.spec_id}: {error}",
                hint="--output-spec-id with a spec that has room for the row writes it where its"
                " filters find it",
            ) from error


def partitioner(spec: PartitionSpec, schema: Schema, batches: pa.Schema) -> Partitioner:
    """Return the splitter of batches of an Arrow schema, whose columns are those of `schema`.

    Raises: Unsupported, if the spec has an unknown transform, one of several columns (R-007), or a
    missing column.
    """
    sources = [_source(item, schema, batches) for item in spec.fields]
    types = [type_ for type_, _ in sources]
    return Partitioner(spec, types, result_types(spec, [schema]), [path for _, path in sources])


def _source(
    item: PartitionField, schema: Schema, batches: pa.Schema
) -> tuple[Type, tuple[int, ...] | None]:
    if item.transform.name == "void":
        return _ANY, None
    if item.transform.name == "unknown" or len(item.source_ids) != 1:
        raise Unsupported(
            f"rows can't be partitioned by `{item.name}`: {item.transform.text}"
        )
    column = schema.field(item.source_ids[0])
    path = path_to(batches, item.source_ids[0])
    if column is None or path is None or is_nested(column.type):
        raise Unsupported(
            f"rows can't be partitioned by `{item.name}`, whose column is missing",
            hint="choose another spec with `--output-spec-id`",
        )
    if not is_comparable(column.type):
        shown = f"{item.transform.text} of `{column.name}`, of type {type_text(column.type)}"
        raise Unsupported(f"rows can't be partitioned by {shown}")
    return column.type, path
