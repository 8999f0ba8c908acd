"""The default engine of compactions: tasks on Spark, whose workers read and write the files.

Spark carries tasks there and results back, and rows only where several workers sort them together.
Tasks and results are values; what opens the storage travels beside them, inside the pickled kernel,
which Spark never shows.

A task may run more than once: Spark tries again what has failed, and what is slow at another place
at the same time. Each attempt names its files for itself, Spark hands over the result of one, and
what the others have left is looked for and removed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial

from icectl.env import Deadline
from icectl.errors import IcectlError
from icectl.progress import Progress
from icectl.rows.compact_job import (
    CompactJob,
    MergeJob,
    OutputPlaces,
    TaskCounts,
    TaskResult,
    run_rewrite,
)
from icectl.rows.merge_deletes import run_merge
from icectl.rows.spark import Spark, TaskAttempt
from icectl.rows.spark_classic import SparkOptions
from icectl.rows.spark_connect import open_spark
from icectl.rows.spark_ranges import is_for_ranges, rewrite_in_ranges, rewriting
from icectl.rows.worker_context import T, WorkerContext, bundle_small_tasks
from icectl.storage.open import StorageOptions
from icectl.table.rewrite_tasks import MergeDeletesTask, RewriteTask

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
        """Carry out tasks, and yield what comes of each.

        Raises: as run_rewrite; Incomplete, at the time limit; EngineError. What was written stays,
        on record.
        """
        together = [task for task in tasks if is_for_ranges(task, job)]
        alone = [task for task in tasks if not is_for_ranges(task, job)]

        def work(spark: Spark, at: WorkerContext) -> _Done:
            found, is_clean = _on_workers(
                spark, partial(_rewrite, at, job), alone, rewriting(alone)
            )
            if together:
                found += rewrite_in_ranges(spark, together, job, at)
            return found, is_clean and not together

        if tasks:
            yield from self._carried_out(work, places)

    def merge(
        self, tasks: Sequence[MergeDeletesTask], job: MergeJob, places: OutputPlaces
    ) -> Iterator[TaskResult]:
        """Merge the deletes of the data files of tasks, and yield what comes of each.

        Raises: as run_merge; Incomplete, at the time limit; EngineError. What was written stays,
        on record.
        """

        def work(spark: Spark, at: WorkerContext) -> _Done:
            return _on_workers(spark, partial(_merge, at, job), tasks, "merging deletes on Spark")

        if tasks:
            yield from self._carried_out(work, places)

    def _carried_out(
        self, work: Callable[[Spark, WorkerContext], _Done], places: OutputPlaces
    ) -> Iterator[TaskResult]:
        """Do some work on Spark, and put on record what it has written, whatever becomes of it."""
        spark = self._started()
        try:
            found, is_clean = work(spark, WorkerContext.of(self.storage, places.names))
        except BaseException:
            self._stop()  # workers that still write must not do so behind the back of the search
            with suppress(IcectlError):
                places.find()
            raise
        self.counts.tasks, self.counts.repeats = spark.task_counts()
        if spark.speculates or not is_clean:
            places.find()
        for result in found:
            places.record(result.entries["location"].unique().to_pylist())
            yield result

    def _started(self) -> Spark:
        if self._spark is None:
            self._spark = self._stack.enter_context(
                open_spark(self.options, self.progress, self.deadline)
            )
        return self._spark

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
    results = [result for some, _ in answers for result in some]
    return results, all(is_first for _, is_first in answers)


def _rewrite(at: WorkerContext, job: CompactJob, tasks: Sequence[RewriteTask]) -> _Done:
    """Rewrite the files of tasks, on a worker; second: whether this is the first attempt at it."""
    attempt = TaskAttempt.current()
    with at.attempt(attempt.unique_id, tasks) as outputs:
        return [run_rewrite(task, job, outputs(task)) for task in tasks], attempt.is_first


def _merge(at: WorkerContext, job: MergeJob, tasks: Sequence[MergeDeletesTask]) -> _Done:
    """Merge the deletes of tasks, on a worker; second: whether this is the first attempt at it."""
    attempt = TaskAttempt.current()
    with at.attempt(attempt.unique_id, tasks) as outputs:
        return [run_merge(task, job, outputs(task)) for task in tasks], attempt.is_first
