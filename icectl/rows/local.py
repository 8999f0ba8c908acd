"""The engine without a JVM: tasks in worker processes of this machine.

Workers open the storage and name their files, as those of Spark do. A reader that crashes on a
damaged file ends its worker, not the main process, which commits.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event

from icectl.env import Deadline
from icectl.errors import CorruptTable, IcectlError, Incomplete
from icectl.format.rule import RESTORE
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
from icectl.rows.worker_context import WorkerContext, bundle_small_tasks, read_bytes
from icectl.rows.workers import Ask, KernelCrashed, WorkerPool
from icectl.rows.write_data import FileOutputs
from icectl.storage.open import StorageOptions
from icectl.storage.store import Store
from icectl.table.reading import in_threads
from icectl.table.rewrite_tasks import MergeDeletesTask, RewriteTask

_WORTH_A_WORKER_BYTES = 16 << 20
"""Bytes that are rewritten in the time that a worker takes to start."""


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
        total = sum(map(read_bytes, tasks))
        self.progress.phase("rewriting data files", total=total, unit="bytes")
        self.counts.tasks += len(tasks)
        count = min(self.concurrency, os.cpu_count() or 1, 1 + total // _WORTH_A_WORKER_BYTES)
        share = replace(self.storage, concurrency=max(self.concurrency // count, 1))
        at = WorkerContext.of(share, places.names)
        stopped = Event()

        def check() -> None:
            self.deadline.check()
            if stopped.is_set():
                raise Incomplete("stopped")

        try:
            with WorkerPool((TaskResult,), check) as workers, ThreadPoolExecutor(count) as pool:
                running = [
                    pool.submit(self._run, workers, part, partial(_rewrite, at, job, number, part))
                    for number, part in enumerate(bundle_small_tasks(tasks, count))
                ]
                try:
                    for result in (result for future in running for result in future.result()):
                        places.record(result.entries["location"].unique().to_pylist())
                        yield result
                finally:
                    stopped.set()
                    pool.shutdown(cancel_futures=True)
        except BaseException:
            with suppress(IcectlError):
                places.find()  # killed workers have removed nothing
            raise

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
            return run_merge(task, job, outputs)

        sizes = [sum(file.size_bytes for file in task.delete_files) for task in tasks]
        threads = min(os.cpu_count() or 1, self.concurrency)
        for result in in_threads(run, tasks, sizes, threads=threads):
            self.progress.advance(1)
            yield result

    def _run(
        self,
        workers: WorkerPool,
        tasks: Sequence[RewriteTask],
        kernel: Callable[[Ask], list[TaskResult]],
    ) -> tuple[TaskResult, ...]:
        """Rewrite a bundle in a worker, which names the files that it opens."""
        unread: Counter[str] = Counter()
        for file in (file for task in tasks for file in task.inputs):
            unread[file.location] += file.read_bytes
        opened = ""

        def opening(location: str) -> None:
            nonlocal opened
            opened = location
            self.progress.advance(unread.pop(location, 0))

        try:
            return workers.call(kernel, None, ask=opening)
        except KernelCrashed as crash:
            message = f"`{opened}`: {crash}"
            raise CorruptTable(message, rule="R-099", hint=RESTORE) from crash


def _rewrite(
    at: WorkerContext, job: CompactJob, number: int, tasks: Sequence[RewriteTask], opening: Ask
) -> list[TaskResult]:
    with at.attempt(number, tasks, opening) as outputs:
        return [run_rewrite(task, job, outputs(task)) for task in tasks]
