"""Rows of a table read on Spark: to find some of them, or as a data frame."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.conditions.predicates import Predicate
from icectl.env import Deadline, SystemEnv
from icectl.errors import IcectlError, SelfCheckFailed, Unsupported
from icectl.files.parquet.schema import child_fields
from icectl.progress import Progress
from icectl.rows.compact_job import CompactJob, file_group
from icectl.rows.find_job import FindJob, FoundRows, run_find
from icectl.rows.matching_rows import matches
from icectl.rows.outgoing_rows import OutgoingRows
from icectl.rows.rewrite_data import RowsRead, live_batches
from icectl.rows.spark import spark_failures
from icectl.rows.spark_classic import SparkOptions
from icectl.rows.spark_connect import open_spark, with_icectl
from icectl.rows.workplace import bundle_small_tasks
from icectl.rows.write_data import FileOutputs
from icectl.storage.open import StorageOptions, open_store
from icectl.table.rewrite_task import RewriteTask

_TIMES = "spark.sql.timeType.enabled"


@dataclass(frozen=True, slots=True)
class SparkReader:
    """A session of Spark that reads data files; `storage()` is what its workers do it with."""

    session: Any
    storage: Callable[[], StorageOptions]
    progress: Progress
    deadline: Deadline

    def find(self, tasks: Sequence[RewriteTask], job: FindJob) -> list[FoundRows]:
        """Find rows in the files of all tasks.

        Raises: as run_find; Incomplete, at the time limit; EngineError.
        """
        if not tasks:
            return []
        self.progress.phase("looking for rows on Spark", total=len(tasks))
        storage = self.storage().crossing()
        options = SparkOptions(session=self.session)
        with open_spark(options, self.progress, self.deadline) as spark:
            bundles = bundle_small_tasks(tasks, spark.core_count)
            found = spark.each(partial(_find, storage, job), bundles, (FoundRows,))
        return [one for some in found for one in some]

    def load(self, tasks: Sequence[RewriteTask], job: "LoadJob") -> Any:
        """Return a frame of the rows of all tasks, which workers read once it is asked for them.

        Raises: Unsupported, for types that Spark lacks or has not switched on.
        """
        with spark_failures():
            schema = _spark_schema(self.session, job.rows.schema)
            if not tasks:
                return self.session.createDataFrame([], schema)
            if SparkOptions(session=self.session).is_connect:
                with_icectl(self.session)
            numbers = self.session.range(0, len(tasks), 1, len(tasks))
            work = partial(_load, self.storage().crossing(), job, tuple(tasks))
            return numbers.mapInArrow(work, schema)


@dataclass(frozen=True, slots=True)
class LoadJob:
    """How tasks read rows: of which columns, those that a condition is true of, and as what."""

    reading: CompactJob
    condition: Predicate | None
    rows: OutgoingRows


def _spark_schema(session: Any, schema: pa.Schema) -> Any:
    """Return the columns of a frame by Spark's types: what has no zone in Arrow has none there.

    Raises: Unsupported, for times in a session that has none.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    found = next((field.name for field in schema if _holds_time(field.type)), None)
    if found is not None and not _has_times(session):
        raise Unsupported(
            f"the column `{found}` is or holds a time, which this session of Spark does not have",
            hint=f"`{_TIMES}` of Spark 4.1 lets it; `columns=` names the others",
        )
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _has_times(session: Any) -> bool:
    from pyspark.errors import PySparkException
    from pyspark.sql import types

    if not hasattr(types, "TimeType"):
        return False
    with suppress(PySparkException):  # of versions that do without the setting
        return bool(session.conf.get(_TIMES) == "true")
    return True


def _holds_time(kind: pa.DataType) -> bool:
    return pa.types.is_time(kind) or any(_holds_time(one.type) for one in child_fields(kind))


def _find(storage: StorageOptions, job: FindJob, tasks: Sequence[RewriteTask]) -> list[FoundRows]:
    """Find rows in the files of some tasks, on a worker."""
    outputs = _reading(storage)
    return [found for task in tasks for found in run_find(task, job, outputs)]


def _load(
    storage: StorageOptions,
    job: LoadJob,
    tasks: Sequence[RewriteTask],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Read the rows of the tasks whose numbers come in, on a worker."""
    outputs = _reading(storage)
    try:
        for numbers in batches:
            for number in numbers["id"].to_pylist():
                group = file_group(tasks[number], job.reading)
                for batch in live_batches(group, outputs, RowsRead()):
                    kept = batch
                    if job.condition is not None:
                        found = pc.fill_null(matches(job.condition, batch), fill_value=False)
                        kept = batch.filter(found)
                    yield job.rows.of(kept)
    except IcectlError as error:
        raise error from None  # what it comes from may show secrets in Spark's log


def _reading(storage: StorageOptions) -> FileOutputs:
    """Return the files of a table, to be read alone."""
    store = open_store(storage, SystemEnv())

    def next_location(_: str) -> str:
        """Write nothing."""
        raise SelfCheckFailed("a file is written where rows are read")

    return FileOutputs(next_location, store.open_new, store.open)
