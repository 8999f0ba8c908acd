"""The engine without a JVM: tasks in worker processes of this machine.

Workers open the storage and name their files, as those of Spark do. A reader that crashes on a
damaged file ends its worker, not the main process, which commits.
"""

import os
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import TypeVar

from icectl.env import Deadline
from icectl.errors import CorruptTable, IcectlError, Incomplete
from icectl.files.data_file import open_data_file
from icectl.format.rule import RESTORE
from icectl.progress import Progress
from icectl.rows.compact_job import (
    CompactJob,
    ConvertJob,
    FoundDeletes,
    MergeJob,
    OutputPlaces,
    TaskCounts,
    TaskResult,
    or_missing,
    run_rewrite,
)
from icectl.rows.convert_deletes import run_convert
from icectl.rows.count_distinct import FoundSketches, SketchJob, run_sketches
from icectl.rows.find_job import FindJob, FoundRows, run_find
from icectl.rows.merge_deletes import run_merge
from icectl.rows.rewrite_data import MOST_TOGETHER
from icectl.rows.worker_context import T, WorkerContext, bundle_small_tasks, read_bytes
from icectl.rows.workers import KernelCrashed, Tell, WorkerPool
from icectl.rows.write_data import FileOutputs
from icectl.storage.open import StorageOptions
from icectl.storage.store import Store
from icectl.table.reading import in_threads
from icectl.table.rewrite_tasks import ConvertTask, MergeDeletesTask, ReadTask, RewriteTask, Task

J = TypeVar("J", CompactJob, ConvertJob, SketchJob, FindJob)
R = TypeVar("R", TaskResult, FoundDeletes, FoundSketches, FoundRows)
_WORTH_A_WORKER_BYTES = 48 << 20
"""Bytes that a thread more of a worker rewrites in the time that another worker takes to start."""


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """An engine of this machine, with one task at a time for each processor.

    Workers open `storage`; threads merge deletes with `store`.
    """

    store: Store
    progress: Progress
    deadline: Deadline
    concurrency: int
    storage: StorageOptions = field(default_factory=StorageOptions)
    counts: TaskCounts = field(default_factory=TaskCounts)

    def rewrite(
        self, tasks: Sequence[RewriteTask], job: CompactJob, places: OutputPlaces
    ) -> Iterator[TaskResult]:
        """Run tasks in workers. Raises: also CorruptTable, if a reader crashes on a file.

        Close the iterator to stop early.
        """
        self.counts.tasks += len(tasks)
        try:
            self._begin(tasks, "rewriting data files")
            with closing(self._in_workers(tasks, places, _rewrite, job, TaskResult)) as results:
                for result in results:
                    places.record(result.entries["location"].unique().to_pylist())
                    yield result
        except BaseException:
            with suppress(IcectlError):
                places.find()  # killed workers have removed nothing
            raise

    def convert(
        self, tasks: Sequence[ConvertTask], job: ConvertJob, places: OutputPlaces
    ) -> Iterator[FoundDeletes]:
        """Look rows up in workers. Raises: also CorruptTable, if a reader crashes on a file."""
        self.counts.tasks += len(tasks)
        self._begin(tasks, "reading the columns that deletes compare")
        yield from self._in_workers(tasks, places, _convert, job, FoundDeletes)

    def sketch(
        self, tasks: Sequence[ReadTask], job: SketchJob, places: OutputPlaces
    ) -> Iterator[FoundSketches]:
        """Sketch columns in workers. Raises: also CorruptTable, if a reader crashes on a file."""
        self.counts.tasks += len(tasks)
        self._begin(tasks, "reading columns")
        yield from self._in_workers(tasks, places, _sketch, job, FoundSketches)

    def find(
        self, tasks: Sequence[RewriteTask], job: FindJob, places: OutputPlaces
    ) -> Iterator[FoundRows]:
        """Find rows in workers. Raises: also CorruptTable, if a reader crashes on a file."""
        self.counts.tasks += len(tasks)
        self._begin(tasks, "looking for rows")
        yield from self._in_workers(tasks, places, _find, job, FoundRows)

    def _begin(self, tasks: Sequence[Task], phase: str) -> None:
        self.progress.phase(phase, total=sum(map(read_bytes, tasks)), unit="bytes")

    def _in_workers(
        self,
        tasks: Sequence[T],
        places: OutputPlaces,
        kernel: Callable[[WorkerContext, J, int, Sequence[T], Tell], list[R]],
        job: J,
        kind: type[R],
    ) -> Generator[R, None, None]:
        """Run tasks in workers, and yield their results in order; close it to stop early."""
        total = sum(map(read_bytes, tasks))
        cores = min(self.concurrency, os.cpu_count() or 1)
        count = min(cores, 1 + total // _WORTH_A_WORKER_BYTES)
        share = replace(self.storage, concurrency=max(self.concurrency // count, 1))
        at = WorkerContext.of(share, places.names)
        stopped = Event()

        def check() -> None:
            self.deadline.check()
            if stopped.is_set():
                raise Incomplete("stopped")

        bundles = bundle_small_tasks(tasks, count)
        threads = [cores // count * number for number in threads_of(len(bundles), count)]
        with WorkerPool((kind,), check) as workers, ThreadPoolExecutor(count) as pool:
            running = [
                pool.submit(
                    self._run, workers, of_part, part, partial(kernel, of_part, job, number, part)
                )
                for number, part in enumerate(bundles)
                for of_part in (replace(at, threads=threads[number]),)
            ]
            try:
                for future in running:
                    yield from future.result()
            finally:
                stopped.set()
                pool.shutdown(cancel_futures=True)

    def merge(
        self, tasks: Sequence[MergeDeletesTask], job: MergeJob, places: OutputPlaces
    ) -> Iterator[TaskResult]:
        """Merge the deletes of tasks in threads of this process."""
        self.progress.phase("merging deletes", total=len(tasks))
        self.counts.tasks += len(tasks)

        def run(task: MergeDeletesTask) -> TaskResult:
            self.deadline.check()
            next_location = partial(places.next_file_location, task)
            outputs = FileOutputs(next_location, self.store.open_new, self.store.open)
            return or_missing(task, lambda: run_merge(task, job, outputs))

        sizes = [sum(file.size_bytes for file in task.delete_files) for task in tasks]
        threads = min(os.cpu_count() or 1, self.concurrency)
        for result in in_threads(run, tasks, sizes, threads=threads):
            self.progress.advance(1)
            yield result

    def _run(
        self,
        workers: WorkerPool,
        at: WorkerContext,
        tasks: Sequence[T],
        kernel: Callable[[Tell], list[R]],
    ) -> tuple[R, ...]:
        """Run a bundle in a worker, which names the files that it opens."""
        unread: Counter[str] = Counter()
        for task in tasks:
            share = read_bytes(task) / max(sum(file.read_bytes for file in task.inputs), 1)
            for file in task.inputs:
                unread[file.location] += int(file.read_bytes * share)
        opened: deque[str] = deque(maxlen=MOST_TOGETHER * at.threads)

        def opening(location: str) -> None:
            opened.append(location)
            self.progress.advance(unread.pop(location, 0))

        try:
            return workers.call(kernel, None, tell=opening)
        except KernelCrashed as crash:
            message = f"`{_crashing(workers, at, opened)}`: {crash}"
            raise CorruptTable(message, rule="R-099", hint=RESTORE) from crash


def _crashing(workers: WorkerPool, at: WorkerContext, opened: Sequence[str]) -> str:
    """Return the file that a reader crashes on by itself, of those that were opened last.

    That is the last one, where none is found.
    """
    for location in opened:
        try:
            with suppress(IcectlError):
                workers.call(_read_alone, None, at, location)
        except KernelCrashed:
            return location
    return opened[-1] if opened else ""


def _read_alone(at: WorkerContext, location: str) -> list[TaskResult]:
    with at.attempt(0) as outputs, outputs(0).reading(location) as file:
        for _ in open_data_file(file, "parquet").batches(None):
            pass
    return []


def threads_of(bundle_count: int, core_count: int) -> list[int]:
    """Return the number of threads for each bundle: the last ones share cores that are left."""
    last = bundle_count % core_count
    return [1] * (bundle_count - last) + [core_count // max(last, 1)] * last


def _rewrite(
    at: WorkerContext, job: CompactJob, number: int, tasks: Sequence[RewriteTask], opening: Tell
) -> list[TaskResult]:
    with at.attempt(number, tasks, opening) as outputs:
        return [or_missing(task, partial(run_rewrite, task, job, outputs(task))) for task in tasks]


def _convert(
    at: WorkerContext, job: ConvertJob, number: int, tasks: Sequence[ConvertTask], opening: Tell
) -> list[FoundDeletes]:
    with at.attempt(number, tasks, opening) as outputs:
        return [run_convert(task, job, outputs(task)) for task in tasks]


def _sketch(
    at: WorkerContext, job: SketchJob, number: int, tasks: Sequence[ReadTask], opening: Tell
) -> list[FoundSketches]:
    with at.attempt(number, tasks, opening) as outputs:
        return [run_sketches(task, job, outputs(task)) for task in tasks]


def _find(
    at: WorkerContext, job: FindJob, number: int, tasks: Sequence[RewriteTask], opening: Tell
) -> list[FoundRows]:
    with at.attempt(number, tasks, opening) as outputs:
        return [found for task in tasks for found in run_find(task, job, outputs(task))]
