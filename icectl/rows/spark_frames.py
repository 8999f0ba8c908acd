"""Data frames of Spark: rows of a table read as one, and one written as data files.

A task may run more than once. Each attempt names its files for itself, Spark hands over the result
of one, and what the others have left is looked for and removed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.conditions import Predicate
from icectl.env import Deadline, SystemEnv
from icectl.errors import IcectlError, SelfCheckFailed, Unsupported
from icectl.files.data_rows import retype_array
from icectl.files.parquet.schema import METADATA, VALUE, arrow_type, child_fields
from icectl.format.schema import Schema, children
from icectl.format.types import (
    FixedType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
)
from icectl.progress import Progress
from icectl.rows.compact_job import CompactJob, OutputPlaces, file_group
from icectl.rows.find_job import FindJob, FoundRows, matches, run_find
from icectl.rows.rewrite_data import RowsRead, live_batches
from icectl.rows.spark import TaskAttempt, require_same_version, spark_failures
from icectl.rows.spark_classic import SparkOptions
from icectl.rows.spark_connect import open_beside, open_spark, with_icectl
from icectl.rows.worker_context import WorkerContext, bundle_small_tasks
from icectl.rows.write_data import FileOutputs
from icectl.rows.write_job import WriteJob, partition_keys, run_write
from icectl.storage.open import StorageOptions, open_store
from icectl.table.rewrite_tasks import RewriteTask

_UUID_DIGITS = [at for at in range(36) if at not in (8, 13, 18, 23)]
"""Where the digits of a UUID are in its text; between them are hyphens."""
_TIMES = "spark.sql.timeType.enabled"
_PARTITION = "_icectl_partition"
_SPARK_VARIANT = pa.struct(
    [
        pa.field(VALUE, pa.binary(), nullable=False),
        pa.field(METADATA, pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
"""A variant as Spark gets it in Arrow: it finds the type by that mark, and the fields by place."""


@dataclass(frozen=True, slots=True)
class OutgoingRows:
    """Batches of some columns of a table for a DataFrame: UUIDs as text, fixed as binary.

    Timestamps of nanoseconds are some of microseconds, if nothing is lost. What batches have beyond
    these columns is left out.
    """

    columns: Schema

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of what `of` gives. Raises: Unsupported, for types that Spark lacks."""
        return pa.schema(
            [pa.field(item.name, _kind(item, item.type)) for item in self.columns.fields]
        )

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that begins with the columns of the schema. Order: kept.

        Raises: Unsupported, where a value has no place in the type that Spark has.
        """
        schema = self.schema
        parts = zip(batch.columns[: len(schema)], schema, self.columns.fields, strict=True)
        return pa.RecordBatch.from_arrays([_column(*part) for part in parts], schema=schema)


def _kind(column: NestedField, type_: Type) -> pa.DataType:
    match type_:
        case PrimitiveType("uuid"):
            return pa.string()
        case FixedType():
            return pa.binary()
        case PrimitiveType("time"):
            return pa.time64("ns")
        case PrimitiveType("timestamp_ns"):
            return pa.timestamp("us")
        case PrimitiveType("timestamptz_ns"):
            return pa.timestamp("us", "UTC")
        case PrimitiveType("variant"):
            return _SPARK_VARIANT
        case ListType():
            return pa.list_(_kind(column, type_.element))
        case MapType():
            return pa.map_(_kind(column, type_.key), _kind(column, type_.value))
        case StructType(fields):
            return pa.struct([pa.field(item.name, _kind(column, item.type)) for item in fields])
    return arrow_type(type_)


def _column(values: pa.Array, field: pa.Field, item: NestedField) -> pa.Array:
    if values.offset:
        values = pa.concat_arrays([values])  # no slice, whose nulls retype_array does not take
    if _holds_variant(item.type):
        values = _with_values_first(values, item.type)
    try:
        return retype_array(values, field.type, _given_values)
    except pa.ArrowInvalid as error:
        raise Unsupported(
            f"the column `{field.name}` has timestamps finer than microseconds, which Spark "
            "does not support",
            hint="select other columns with `columns=`",
        ) from error


def _holds_variant(type_: Type) -> bool:
    is_one = type_ == PrimitiveType("variant")
    return is_one or any(_holds_variant(child.type) for child in children(type_))


def _with_values_first(values: pa.Array, type_: Type) -> pa.Array:
    """Return a column with the fields of its variants in the order of Spark, at any depth."""
    mask = values.is_null() if values.null_count else None
    match type_:
        case PrimitiveType("variant"):
            parts = [values.field(name) for name in (VALUE, METADATA)]
            return pa.StructArray.from_arrays(parts, fields=list(_SPARK_VARIANT), mask=mask)
        case StructType(fields) if fields:
            parts = [
                _with_values_first(values.field(at), item.type) for at, item in enumerate(fields)
            ]
            names = [item.name for item in fields]
            return pa.StructArray.from_arrays(parts, names, mask=mask)
        case ListType():
            inner = _with_values_first(values.values, type_.element)
            return pa.ListArray.from_arrays(values.offsets, inner, mask=mask)
        case MapType():
            keys = _with_values_first(values.keys, type_.key)
            inner = _with_values_first(values.items, type_.value)
            return pa.MapArray.from_arrays(values.offsets, keys, inner, mask=mask)
        case _:
            return values


def _given_values(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in what Spark gets of them. Raises: pa.ArrowInvalid, for lost nanoseconds."""
    if not isinstance(values, pa.ExtensionArray):
        return values.cast(kind)
    stored = values.storage.fill_null(bytes(16))
    digits = b"".join(stored.to_pylist()).hex().encode()
    texts = np.full((len(values), 36), b"-", "S1")
    texts[:, _UUID_DIGITS] = np.frombuffer(digits, "S1").reshape(-1, 32)
    ends = np.arange(len(values) + 1, dtype=np.int32) * np.int32(36)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(texts)]
    texts_array = pa.Array.from_buffers(pa.string(), len(values), buffers)
    return pc.if_else(values.is_valid(), texts_array, pa.scalar(None, pa.string()))


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
            rows = spark.each(partial(_find, storage, job), bundles, (FoundRows,))
        return [found for task_rows in rows for found in task_rows]

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
            return numbers.mapInArrow(require_same_version(work), schema)


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
    from pyspark.errors import PySparkException
    from pyspark.sql import types
    from pyspark.sql.pandas.types import from_arrow_schema

    name = next((field.name for field in schema if _holds_time(field.type)), None)
    has_times = hasattr(types, "TimeType")
    if name is not None and has_times:
        with suppress(PySparkException):  # of versions that do without the setting
            has_times = session.conf.get(_TIMES) == "true"
    if name is not None and not has_times:
        raise Unsupported(
            f"the column `{name}` is or has a time, which this Spark session does not support",
            hint=f"set `{_TIMES}` in Spark 4.1, or select other columns with `columns=`",
        )
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _holds_time(kind: pa.DataType) -> bool:
    return pa.types.is_time(kind) or any(_holds_time(child.type) for child in child_fields(kind))


def _find(storage: StorageOptions, job: FindJob, tasks: Sequence[RewriteTask]) -> list[FoundRows]:
    """Find rows in the files of some tasks, on a worker."""
    outputs = _reading(storage)
    return [rows for task in tasks for rows in run_find(task, job, outputs)]


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
                    rows = batch
                    if job.condition is not None:
                        mask = pc.fill_null(matches(job.condition, batch), fill_value=False)
                        rows = batch.filter(mask)
                    yield job.rows.of(rows)
    except IcectlError as error:
        raise error from None  # what it comes from may show secrets in Spark's log


def _reading(storage: StorageOptions) -> FileOutputs:
    """Return the files of a table, to be read alone."""
    store = open_store(storage, SystemEnv())

    def next_location(_: str) -> str:
        raise SelfCheckFailed("a file is written where rows are read")

    return FileOutputs(next_location, store.open_new, store.open)


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
            arrow_schema: pa.Schema = to_arrow_schema(schema)
        except PySparkException as error:
            raise Unsupported(f"Spark has no Arrow type for a column: {error}") from error
        return arrow_schema

    def write(self, job: WriteJob, places: OutputPlaces, *, by_partition: bool) -> pa.Table:
        """Write the rows on Spark workers; with `by_partition`, one worker writes each partition.

        Returns entries of the new files, which are in the journal from then on.
        Raises: as run_write; Incomplete, at the time limit; EngineError. What was written stays,
        in the journal.
        """
        at = WorkerContext.of(self.storage(), places.names)
        self.progress.phase("writing data files on Spark")
        try:
            # Left before files are looked for: no worker goes on writing behind its back.
            session = self.frame.sparkSession
            with open_beside(session, self.progress, self.deadline) as spark:
                frame = self.frame
                if by_partition:
                    from pyspark.sql.types import BinaryType, StructField, StructType

                    with spark_failures():
                        fields = [*frame.schema.fields, StructField(_PARTITION, BinaryType())]
                        keyed = frame.mapInArrow(partial(_keyed, job), StructType(fields))
                        frame = keyed.repartition(keyed[_PARTITION])
                tables, is_clean = spark.on_rows(frame, partial(_write, at, job))
        except BaseException:
            with suppress(IcectlError):
                places.find()
            raise
        if not is_clean:
            places.find()
        if not tables:
            return pa.table({"location": pa.array([], pa.string())})
        entries = pa.concat_tables(tables)
        places.record(entries["location"].to_pylist())
        at.check_here(entries)
        return entries


def collect_small_frame(frame: Any) -> pa.Table:
    """Return the rows of a small frame, brought here.

    Raises: Unsupported, before Spark 4; EngineError.
    """
    if not hasattr(frame, "toArrow"):
        raise Unsupported("keys are read from DataFrames of Spark 4 or newer")
    with spark_failures():
        keys_table: pa.Table = frame.toArrow()
    return keys_table


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


def _write(at: WorkerContext, job: WriteJob, batches: Iterator[pa.RecordBatch]) -> pa.Table:
    """Write the rows of one partition of a frame, on a worker."""
    attempt = TaskAttempt.current()
    width = len(job.rows.frame)
    rows = (batch.select(list(range(width))) for batch in batches)
    with at.attempt(attempt.unique_id) as outputs:
        return run_write(rows, job, outputs(attempt.part))
