"""The default engine of compactions: tasks on Spark, whose workers read and write the files.

Spark carries tasks there and results back, and rows only where several workers sort them together.
Tasks and results are values; what opens the storage travels beside them, inside the pickled kernel,
which Spark never shows.

A task that is too large for one worker is dealt out to many. First the keys of some rows are read,
which give the ranges of keys that make a file each. Then workers read pieces of the task and deal
their rows out by range, and others sort and write the rows of one range each. A key that more rows
have than one range should is that of several. Rows cross as blocks of Arrow, which Spark's shuffle
keeps on disk.

A task may run more than once: Spark tries again what has failed, and what is slow at another place
at the same time. Each attempt names its files for itself, Spark hands over the result of one, and
what the others have left is looked for and removed.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from math import ceil
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.env import Deadline
from icectl.errors import IcectlError
from icectl.files.parquet.schema import arrow_schema
from icectl.format.manifest import FileFormat
from icectl.format.schema import Schema
from icectl.format.sort import SortOrder
from icectl.progress import Progress
from icectl.rows.compact_job import (
    CompactJob,
    ConvertJob,
    FoundDeletes,
    MergeJob,
    OutputPlaces,
    TaskCounts,
    TaskResult,
    entries_of,
    file_group,
    or_missing,
    run_rewrite,
)
from icectl.rows.convert_deletes import run_convert
from icectl.rows.count_distinct import FoundSketches, SketchJob, run_sketches
from icectl.rows.find_job import FindJob, FoundRows, Keys, Tried, run_find, try_find
from icectl.rows.merge_deletes import run_merge
from icectl.rows.partition_rows import partitioner
from icectl.rows.rewrite_data import (
    DeletesOfGroup,
    FileGroup,
    RowsRead,
    counting_rows,
    live_batches,
    write_rows,
)
from icectl.rows.row_totals import RowTotals, check_totals
from icectl.rows.sort_rows import RowKeys, sort_keys
from icectl.rows.spark import Spark, TaskAttempt, batch_payload, payload_batch
from icectl.rows.spark_classic import SparkOptions
from icectl.rows.spark_connect import open_spark
from icectl.rows.worker_context import OutputsOf, T, WorkerContext, bundle_small_tasks
from icectl.rows.write_data import FileOutputs
from icectl.storage.open import StorageOptions
from icectl.table.reading import in_threads
from icectl.table.rewrite_tasks import (
    ConvertTask,
    InputFile,
    MergeDeletesTask,
    ReadTask,
    RewriteTask,
    even_splits,
)

J = TypeVar("J", CompactJob, MergeJob, ConvertJob, SketchJob, FindJob)
Found = TypeVar("Found")
_PIECE_BYTES = 64 << 20
_SEVERAL = 2
_SAMPLES_A_RANGE, _MOST_SAMPLES = 4_000, 1_000_000
_ROOM = 1.15
"""How far the file of a range may grow: ranges are estimates, and a tiny file more is no gain."""

_BUNDLES_A_CORE, _FILES_A_CORE = 4, 4
_WAITING_BYTES = 64 << 20
"""Rows that wait for more of their range."""
_COMPARED_BYTES = 256
"""What is compared of a key: any bytes do as the low end of a range."""


def is_for_ranges(task: RewriteTask, job: CompactJob) -> bool:
    """Whether the rows of a task are ordered or split by partition, and make several files."""
    splits = task.partition_key is None and not job.specs[task.spec_id].spec.is_unpartitioned
    return (job.sorting is not None or splits) and _range_count(task) > 1


def _range_count(task: RewriteTask) -> int:
    return ceil(task.expected_bytes / task.roll_bytes)


_Piece = tuple[int, RewriteTask]
"""A piece of a task, some of its files or part of one, behind its place among the tasks."""

_Written = tuple[pa.Table, RowTotals]
"""The entries of a range's new files, and the totals of their rows."""

_Read = tuple[int, RowTotals]
"""The count of rows that were read of a task, with deleted ones, and the totals of live ones."""


@dataclass(frozen=True, slots=True)
class _Ranges:
    """The ranges of all tasks, numbered through; `lows` are the keys where those of each begin."""

    tasks: Sequence[RewriteTask]
    lows: Sequence[Sequence[bytes]]

    @property
    def starts(self) -> Sequence[int]:
        """The number of each task's first range, and behind them how many ranges there are."""
        return list(accumulate(map(len, self.lows), initial=0))

    @property
    def count(self) -> int:
        return self.starts[-1]


def rewriting(tasks: Sequence[RewriteTask]) -> str:
    """Name the phase of tasks, with the rows of their files, which may be split among them."""
    rows = {file.location: file.record_count for task in tasks for file in task.inputs}
    return f"rewriting data files of {sum(rows.values()):,} rows on Spark"


def rewrite_in_ranges(
    spark: Spark, tasks: Sequence[RewriteTask], job: CompactJob, at: WorkerContext
) -> list[TaskResult]:
    """Rewrite tasks in ranges of the keys of their rows, and return what comes of each.

    Order: that of the tasks; of new files that of the keys of their rows.
    Raises: as run_rewrite; EngineError; Incomplete.
    """
    pieces = [(place, piece) for place, task in enumerate(tasks) for piece in pieces_of(task)]
    spark.progress.phase("sampling rows on Spark", total=len(pieces))
    sampled = spark.each(partial(_sample, at, job, tasks), pieces)
    ranges = _Ranges(
        tasks,
        [
            lows_of(
                [key for place, keys in sampled if place == number for key in keys],
                _range_count(task),
            )
            for number, task in enumerate(tasks)
        ],
    )
    spark.progress.phase(rewriting(tasks), total=len(pieces) + ranges.count + 1)
    results: list[Any] = spark.shuffled(
        partial(_deal, at, job, ranges),
        pieces,
        partial(_write, at, job, ranges),
        ranges.count + 1,
        (RowTotals,),
    )
    *written, read = results
    return [_result(number, ranges, written, read[number]) for number in range(len(tasks))]


def pieces_of(task: RewriteTask) -> Iterator[RewriteTask]:
    """Yield files of a task, of some size together, and parts of larger ones."""
    files, size_bytes = [], 0
    parts: list[InputFile] = []
    for file in task.inputs:
        # A large file, of a format that can be read in parts, is cut.
        count = file.size_bytes // _PIECE_BYTES
        is_cut = file.file_format == FileFormat.PARQUET and file.split is None
        splits = even_splits(file.size_bytes, count) if is_cut and count >= _SEVERAL else ()
        parts += [replace(file, split=split) for split in splits] or [file]
    for file in parts:
        files.append(file)
        size_bytes += file.read_bytes
        if size_bytes >= _PIECE_BYTES:
            yield replace(task, inputs=tuple(files))
            files, size_bytes = [], 0
    if files:
        yield replace(task, inputs=tuple(files))


def _sample(
    worker: WorkerContext, job: CompactJob, tasks: Sequence[RewriteTask], piece: _Piece
) -> tuple[int, list[bytes]]:
    """Sample the keys of rows of a piece, on a worker."""
    at, task = piece[0], tasks[piece[0]]
    row_count = sum(file.record_count for file in task.inputs)
    sample_count = min(_SAMPLES_A_RANGE * _range_count(task), _MOST_SAMPLES)
    step = max(row_count // sample_count, 1)
    with worker.attempt(TaskAttempt.current().unique_id) as outputs:
        return at, sampled_keys(file_group(piece[1], job), outputs(piece[1]), step)


def _deal(
    worker: WorkerContext, job: CompactJob, ranges: _Ranges, piece: _Piece
) -> Iterator[tuple[int, object]]:
    """Deal out the rows of a piece by range, on a worker; behind the last comes their sum."""
    at, task = piece
    group = file_group(task, job)
    read, totals = RowsRead(), RowTotals()
    first = ranges.starts[at]
    with worker.attempt(TaskAttempt.current().unique_id, [task]) as outputs:
        batches = counting_rows(live_batches(group, outputs(task), read), totals)
        for number, rows in dealt(batches, range_keys(group), ranges.lows[at]):
            yield first + number, batch_payload(rows)
    yield ranges.count, (at, read.row_count, totals)


def _write(
    worker: WorkerContext, job: CompactJob, ranges: _Ranges, number: int, dealt: Iterator[Any]
) -> _Written | dict[int, _Read]:
    """Write the new files of a range, on a worker; of the last number, sum up what was read."""
    if number == ranges.count:
        sums: dict[int, _Read] = {}
        for at, count, live in dealt:
            row_count, totals = sums.setdefault(at, (0, RowTotals()))
            totals.add_totals(live)
            sums[at] = row_count + count, totals
        return sums
    task = ranges.tasks[bisect_right(ranges.starts, number) - 1]
    group = file_group(task, job)
    options = replace(job.options, target_size_bytes=int(_ROOM * task.roll_bytes))
    with worker.attempt(TaskAttempt.current().unique_id) as outputs:
        files, rows = write_rows(group, map(payload_batch, dealt), options, outputs(task))
    return entries_of(files, task, job), rows


def _result(at: int, ranges: _Ranges, written: Sequence[_Written], read: _Read) -> TaskResult:
    """Sum up the ranges of a task. Raises: SelfCheckFailed, where rows were lost on the way."""
    outputs = written[slice(*ranges.starts[at : at + 2])]
    read_row_count, live = read
    rows = RowTotals()
    for _, of_range in outputs:
        rows.add_totals(of_range)
    check_totals(live, rows)
    entries = pa.concat_tables(new_entries for new_entries, _ in outputs)
    return TaskResult(
        ranges.tasks[at].task_id,
        entries,
        read_row_count,
        read_row_count - rows.row_count,
        sum(entries["file_size_in_bytes"].to_pylist()),
    )


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

    Only the columns that make it are read. Raises: as live_batches.
    """
    needed = {id_ for item in group.spec.fields for id_ in item.source_ids}
    order = None if group.sorting is None else group.sorting.order
    if isinstance(order, SortOrder):
        needed |= {id_ for item in order.fields for id_ in item.source_ids}
    elif order is not None:
        needed |= set(order.column_ids)
    key_columns = tuple(
        item
        for item in group.columns.written.fields
        if not needed.isdisjoint(Schema(0, (item,)).all_fields)
    )
    columns = replace(group.columns, written=Schema(0, key_columns))
    bare = replace(group, columns=columns, deletes=DeletesOfGroup())
    keys, row_count = range_keys(bare), 0
    sampled: list[bytes] = []
    for batch in live_batches(bare, outputs, RowsRead()):
        first = -row_count % step
        row_count += batch.num_rows
        rows = batch.take(pa.array(np.arange(first, batch.num_rows, step)))
        sampled += pc.binary_slice(keys.of(rows), 0, _COMPARED_BYTES).to_pylist()
    return sampled


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
    counts = Counter(lows)
    ranges = _KeyRanges(list(counts), list(accumulate(counts.values(), initial=0)))
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
class _KeyRanges:
    """Ranges by the different keys where they begin, and how many begin at each.

    `firsts` are the numbers of the first ones, and behind them how many ranges there are; `turns`
    count the rows that were dealt out in shares.
    """

    lows: Sequence[bytes]
    firsts: Sequence[int]
    turns: Counter[int] = field(default_factory=Counter)

    def split(self, batch: pa.RecordBatch, keys: pa.Array) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of a batch with the number of their range."""
        order = pc.sort_indices(keys)
        rows, ordered = batch.take(order), pc.binary_slice(keys.take(order), 0, _COMPARED_BYTES)

        def place(low: bytes, find: Callable[..., int]) -> int:
            return find(range(len(ordered)), low, key=lambda at: ordered[at].as_py())

        cuts = [place(low, bisect_left) for low in self.lows[1:]]
        for at, (start, stop) in enumerate(pairwise([0, *cuts, len(ordered)])):
            first, last = self.firsts[at], self.firsts[at + 1] - 1
            equal = start, start
            if first < last:
                equal = place(self.lows[at], bisect_left), place(self.lows[at], bisect_right)
            yield first, rows.slice(start, equal[0] - start)
            yield from self._shares(at, rows.slice(equal[0], equal[1] - equal[0]))
            yield last, rows.slice(equal[1], stop - equal[1])

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


_Done = tuple[list[TaskResult], bool]


@dataclass(slots=True)
class SparkEngine:
    """An engine on Spark, which starts with the first of its tasks; a context that stops it."""

    options: SparkOptions
    storage: StorageOptions
    progress: Progress
    deadline: Deadline
    counts: TaskCounts = field(default_factory=TaskCounts)
    _stack: ExitStack = field(default_factory=ExitStack)
    _spark: Spark | None = None

    def __enter__(self) -> "SparkEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def rewrite(
        self, tasks: Sequence[RewriteTask], job: CompactJob, places: OutputPlaces
    ) -> Iterator[TaskResult]:
        in_ranges = [task for task in tasks if is_for_ranges(task, job)]
        single = [task for task in tasks if not is_for_ranges(task, job)]

        def work(spark: Spark, at: WorkerContext) -> _Done:
            kernel = partial(_results, at, job, run_rewrite)
            results, is_clean = _on_workers(spark, kernel, single, rewriting(single))
            if in_ranges:
                results += rewrite_in_ranges(spark, in_ranges, job, at)
            return results, is_clean and not in_ranges

        if tasks:
            yield from self._carry_out(work, places)

    def merge(
        self, tasks: Sequence[MergeDeletesTask], job: MergeJob, places: OutputPlaces
    ) -> Iterator[TaskResult]:
        def work(spark: Spark, at: WorkerContext) -> _Done:
            kernel = partial(_results, at, job, run_merge)
            return _on_workers(spark, kernel, tasks, "merging deletes on Spark")

        if tasks:
            yield from self._carry_out(work, places)

    def convert(
        self, tasks: Sequence[ConvertTask], job: ConvertJob, places: OutputPlaces
    ) -> Iterator[FoundDeletes]:
        phase = "looking deleted rows up on Spark"
        yield from self._only_read(tasks, places, phase, partial(_found, run_convert, job))

    def sketch(
        self, tasks: Sequence[ReadTask], job: SketchJob, places: OutputPlaces
    ) -> Iterator[FoundSketches]:
        """Sketch columns on workers."""
        phase = "reading columns on Spark"
        yield from self._only_read(tasks, places, phase, partial(_found, run_sketches, job))

    def find(
        self, tasks: Sequence[RewriteTask], job: FindJob, places: OutputPlaces
    ) -> Iterator[FoundRows]:
        """Find rows on workers."""
        phase, kernel = "looking for rows on Spark", partial(_found, run_find, _sent(job))
        for found in self._only_read(tasks, places, phase, kernel):
            yield from found

    def search(
        self, tasks: Sequence[RewriteTask], job: FindJob, places: OutputPlaces
    ) -> Iterator[Tried]:
        """Find rows in the file of each task on workers, or say why it can't be read."""
        phase, kernel = "reading data files on Spark", partial(_tried, _sent(job))
        yield from self._only_read(tasks, places, phase, kernel, bundled=_even_bundles)

    def _only_read(
        self,
        tasks: Sequence[T],
        places: OutputPlaces,
        phase: str,
        kernel: Callable[[WorkerContext, Sequence[T]], list[Found]],
        *,
        bundled: Callable[[Sequence[T], int], Sequence[Sequence[T]]] = bundle_small_tasks,
    ) -> Iterator[Found]:
        """Run tasks that write nothing, and yield their results in order."""
        if not tasks:
            return
        spark, at = self._opened(), WorkerContext.of(self.storage, places.names)
        bundles = bundled(tasks, spark.core_count)
        spark.progress.phase(phase, total=len(bundles))
        types = FoundDeletes, FoundSketches, FoundRows
        try:
            answers = spark.each(partial(kernel, at), bundles, types)
        except BaseException:
            self._stop()
            raise
        self.counts.tasks, self.counts.repeats = spark.task_counts()
        for found in answers:
            yield from found

    def _opened(self) -> Spark:
        if self._spark is None:
            self._spark = self._stack.enter_context(
                open_spark(self.options, self.progress, self.deadline)
            )
        return self._spark

    def _carry_out(
        self, work: Callable[[Spark, WorkerContext], _Done], places: OutputPlaces
    ) -> Iterator[TaskResult]:
        """Do some work on Spark, and record what it has written, whatever happens to it."""
        spark, at = self._opened(), WorkerContext.of(self.storage, places.names)
        try:
            results, is_clean = work(spark, at)
        except BaseException:
            self._stop()  # workers that still write must not do so behind the back of the search
            with suppress(IcectlError):
                places.find()
            raise
        self.counts.tasks, self.counts.repeats = spark.task_counts()
        if spark.speculates or not is_clean:
            places.find()
        entries = pa.concat_tables(result.entries for result in results)
        places.record(entries["location"].unique().to_pylist())
        at.check_here(entries)
        yield from results

    def _stop(self) -> None:
        self._spark = None
        self._stack.close()


def _on_workers(
    spark: Spark, kernel: Callable[[list[T]], _Done], tasks: Sequence[T], phase: str
) -> _Done:
    """Run a kernel on tasks by themselves; second: whether each worked at once."""
    bundles = bundle_small_tasks(tasks, spark.core_count)
    if not bundles:
        return [], True
    spark.progress.phase(phase, total=len(bundles))
    answers = spark.each(kernel, bundles, (TaskResult,))
    results = [result for task_results, _ in answers for result in task_results]
    return results, all(is_first for _, is_first in answers)


def _results(
    at: WorkerContext, job: J, run: Callable[[T, J, FileOutputs], TaskResult], tasks: Sequence[T]
) -> _Done:
    """Run tasks, on a worker; second: whether this is the first attempt at them."""
    attempt = TaskAttempt.current()
    with at.attempt(attempt.unique_id, tasks) as outputs:
        results = [or_missing(task, partial(run, task, job, outputs(task))) for task in tasks]
        return results, attempt.is_first


def _found(
    run: Callable[[T, J, FileOutputs], Found], job: J, at: WorkerContext, tasks: Sequence[T]
) -> list[Found]:
    """Run tasks that write nothing, on a worker."""
    with at.attempt(TaskAttempt.current().unique_id, tasks) as outputs:
        return [run(task, job, outputs(task)) for task in tasks]


def _sent(job: FindJob) -> FindJob:
    """Return a search for workers, which have no folder of this machine."""
    return replace(job, rows=job.rows.in_memory()) if isinstance(job.rows, Keys) else job


def _even_bundles(tasks: Sequence[T], core_count: int) -> Sequence[Sequence[T]]:
    """Return tasks that read little of each file together, as many in each bundle."""
    count = min(_BUNDLES_A_CORE * core_count, len(tasks))
    ends = (len(tasks) * number // count for number in range(count + 1))
    return [tasks[start:stop] for start, stop in pairwise(ends)]


def _tried(job: FindJob, at: WorkerContext, tasks: Sequence[RewriteTask]) -> list[Tried]:
    """Look into files on a worker, some at a time: it mostly waits for the storage."""
    with at.attempt(TaskAttempt.current().unique_id) as outputs:
        first = try_find(tasks[0], job, outputs(tasks[0]))  # sorts the keys, for all of them
        find = partial(_try_in, outputs, job)
        others = in_threads(find, tasks[1:], [0] * (len(tasks) - 1), threads=_FILES_A_CORE)
        return [first, *others]


def _try_in(outputs: OutputsOf, job: FindJob, task: RewriteTask) -> Tried:
    return try_find(task, job, outputs(task))
