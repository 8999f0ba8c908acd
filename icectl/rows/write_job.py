"""Rows of a data frame written as new data files, by the kernels of compactions."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from icectl.entries.partition.key import encode_key
from icectl.files.parquet.schema import arrow_schema
from icectl.rows.compact_job import TypedSpec, data_entries
from icectl.rows.incoming_rows import IncomingRows
from icectl.rows.partition_rows import Partition, partitioner
from icectl.rows.rewrite_data import DeletesOfGroup, FileGroup, TableColumns, write_rows
from icectl.rows.sort_rows import Sorting
from icectl.rows.write_data import FileOutputs, WriteOptions


@dataclass(frozen=True, slots=True)
class WriteJob:
    """What all tasks have in common that write a frame's rows.

    `sort_order_id` is the table's sort order that new files are sorted by, where there is one.
    """

    rows: IncomingRows
    spec: TypedSpec
    options: WriteOptions
    sorting: Sorting | None = None
    sort_order_id: int | None = None


def run_write(batches: Iterator[pa.RecordBatch], job: WriteJob, outputs: FileOutputs) -> pa.Table:
    """Write the rows of one task; entries of the new files, without a sequence number.

    Rows are compared with those of the new files.
    Raises: as write_rows; Refused, for rows that the table does not take.
    """
    typed = job.spec
    alone = None
    if typed.spec.is_unpartitioned:
        alone = Partition(encode_key(typed.types, [None] * len(typed.types)), "")
    group = FileGroup(
        (),
        0,
        DeletesOfGroup(),
        TableColumns(job.rows.wanted, job.rows.wanted),
        typed.spec,
        alone,
        job.sorting,
    )
    files, _ = write_rows(group, job.rows.of(batches), job.options, outputs)
    return data_entries(files, typed.spec.spec_id, None, job.sort_order_id)


def partition_keys(job: WriteJob, batch: pa.RecordBatch) -> pa.Array:
    """Return the partition of each row of a frame, as its canonical key. Raises: as run_write."""
    wanted = job.rows.wanted
    (rows,) = job.rows.of([batch])
    return partitioner(job.spec.spec, wanted, arrow_schema(wanted)).keys(rows)
