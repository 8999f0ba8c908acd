"""Data frames written as data files where their rows are, and nothing but entries brought here.

A task may run more than once. Each attempt names its files for itself, Spark hands over the result
of one, and what the others have left is looked for and removed.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from icectl.env import Deadline
from icectl.errors import IcectlError, Unsupported
from icectl.progress import Progress
from icectl.rows.compact_job import OutputPlaces
from icectl.rows.spark import TaskAttempt, spark_failures
from icectl.rows.spark_connect import open_beside
from icectl.rows.workplace import Workplace
from icectl.rows.write_job import WriteJob, partition_keys, run_write
from icectl.storage.open import StorageOptions

_PARTITION = "_icectl_partition"


@dataclass(frozen=True, slots=True)
class SparkFrame:
    """A data frame of PySpark; `storage()` is what its workers reach the table's files with."""

    frame: Any
    storage: Callable[[], StorageOptions]
    progress: Progress
    deadline: Deadline

    @property
    def schema(self) -> pa.Schema:
        """The columns of the frame, as workers get them.

        Raises: Unsupported, for types that Arrow lacks; EngineError, for a frame that makes no
        sense, of which Spark Connect tells no earlier.
        """
        from pyspark.errors import PySparkException
        from pyspark.sql.pandas.types import to_arrow_schema

        with spark_failures():
            schema = self.frame.schema
        try:
            found: pa.Schema = to_arrow_schema(schema)
        except PySparkException as error:
            raise Unsupported(f"Spark has no Arrow type for a column: {error}") from error
        return found

    def write(self, job: WriteJob, places: OutputPlaces, *, by_partition: bool) -> pa.Table:
        """Write the rows on the workers, those of a partition by one of them where asked.

        Returns entries of the new files, which are on record from then on.
        Raises: as run_write; Incomplete, at the time limit; EngineError. What was written stays,
        on record.
        """
        at = Workplace.of(self.storage(), places.names)
        self.progress.phase("writing data files on Spark")
        try:
            # Left before files are looked for: no worker goes on writing behind its back.
            session = self.frame.sparkSession
            with open_beside(session, self.progress, self.deadline) as spark:
                frame = self._distributed(job) if by_partition else self.frame
                found, is_clean = spark.on_rows(frame, partial(_write, at, job))
        except BaseException:
            with suppress(IcectlError):
                places.find()
            raise
        entries = pa.concat_tables(found) if found else None
        if not is_clean:
            places.find()
        if entries is None:
            return pa.table({"location": pa.array([], pa.string())})
        places.record(entries["location"].to_pylist())
        return entries

    def _distributed(self, job: WriteJob) -> Any:
        """Return the frame, rows of one partition together."""
        from pyspark.sql.types import BinaryType, StructField, StructType

        with spark_failures():
            fields = [*self.frame.schema.fields, StructField(_PARTITION, BinaryType())]
            keyed = self.frame.mapInArrow(partial(_keyed, job), StructType(fields))
            return keyed.repartition(keyed[_PARTITION])


def collect_small_frame(frame: Any) -> pa.Table:
    """Return the rows of a small frame, brought here.

    Raises: Unsupported, before Spark 4; EngineError.
    """
    if not hasattr(frame, "toArrow"):
        raise Unsupported("keys are read from data frames of Spark 4 or newer")
    with spark_failures():
        found: pa.Table = frame.toArrow()
    return found


def _keyed(job: WriteJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows with the keys of their partitions, on a worker.

    Rows that the table does not take have no key: the worker that is to write them raises why.
    """
    for batch in batches:
        names = [*batch.schema.names, _PARTITION]
        try:
            keys = partition_keys(job, batch).cast(pa.binary())
        except IcectlError:
            keys = pa.nulls(batch.num_rows, pa.binary())
        yield pa.RecordBatch.from_arrays([*batch.columns, keys], names=names)


def _write(at: Workplace, job: WriteJob, batches: Iterator[pa.RecordBatch]) -> pa.Table:
    """Write the rows of one partition of a frame, on a worker."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    width = len(job.rows.given)
    rows = (batch.select(list(range(width))) for batch in batches)
    with at.attempt(TaskAttempt.current().unique_id) as outputs:
        return run_write(rows, job, outputs(context.partitionId()))
