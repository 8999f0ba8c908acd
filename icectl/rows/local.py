"""The engine without a JVM: tasks in worker processes of this machine.

A reader that crashes on a damaged file ends its worker, not the run's own process, which has the
stores, the journal and the commit.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import IO

from icectl.env import Deadline
from icectl.errors import CorruptTable, Incomplete
from icectl.format.rule import RESTORE
from icectl.progress import Progress
from icectl.rows.compact_job import (
    CompactJob,
    MergeJob,
    OutputPlaces,
    TaskCounts,
    TaskResult,
    ahead_of,
    run_rewrite,
)
from icectl.rows.isolated import Ask, KernelCrashed, WorkerProcesses
from icectl.rows.isolated_files import QUESTIONS, CallFiles, outputs_through
from icectl.rows.merge_job import merge_in_threads
from icectl.rows.write_data import FileOutputs
from icectl.storage.store import Store
from icectl.table.rewrite_task import MergeDeletesTask, RewriteTask

_WORTH_A_WORKER_BYTES = 16 << 20
"""What is rewritten in the time that a worker takes to start."""


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """An engine that carries tasks out here, as many at a time as there are processors."""

    store: Store
    progress: Progress
    deadline: Deadline
    concurrency: int
    counts: TaskCounts = field(default_factory=TaskCounts)

    def rewrite(
        self, tasks: Sequence[RewriteTask], job: CompactJob, places: OutputPlaces
    ) -> Iterator[TaskResult]:
        """Carry out tasks, and yield what comes of each. Close the iterator to stop early.

        Order: that of the tasks.
        Raises: as run_rewrite; CorruptTable, where a reader crashes on a file; EngineError;
        Incomplete, at the time limit. What was written stays.
        """
        total = sum(file.read_bytes for task in tasks for file in task.inputs)
        self.progress.phase("rewriting data files", total=total, unit="bytes")
        stopped = Event()

        def check() -> None:
            """Check the time limit, and whether the run was stopped. Raises: Incomplete."""
            self.deadline.check()
            if stopped.is_set():
                raise Incomplete("stopped")

        count = min(self.concurrency, os.cpu_count() or 1, 1 + total // _WORTH_A_WORKER_BYTES)
        with (
            ahead_of(tasks, self.store, self.concurrency) as ahead,
            WorkerProcesses((TaskResult, *QUESTIONS), check) as workers,
            ThreadPoolExecutor(count) as pool,
        ):
            here = _Here(ahead.open, workers)
            running = [pool.submit(self._run, task, job, places, here) for task in tasks]
            self.counts.tasks += len(tasks)
            try:
                for one in running:
                    yield one.result()
            finally:
                stopped.set()
                pool.shutdown(cancel_futures=True)

    def merge(
        self, tasks: Sequence[MergeDeletesTask], job: MergeJob, places: OutputPlaces
    ) -> Iterator[TaskResult]:
        """Merge the deletes of tasks in threads of this process.

        Order: that of the tasks.
        Raises: as run_merge; Incomplete, at the time limit. What was written stays.
        """
        self.progress.phase("merging deletes", total=len(tasks))
        self.counts.tasks += len(tasks)

        def outputs(task: MergeDeletesTask) -> FileOutputs:
            """Make the outputs of a task."""
            return FileOutputs(partial(places.next, task), self.store.open_new, self.store.open)

        check = self.deadline.check
        for result in merge_in_threads(tasks, job, outputs, check, self.concurrency):
            self.progress.advance(1)
            yield result

    def _run(
        self, task: RewriteTask, job: CompactJob, places: OutputPlaces, here: "_Here"
    ) -> TaskResult:
        unread: Counter[str] = Counter()
        for file in task.inputs:
            unread[file.location] += file.read_bytes

        def opened(location: str) -> None:
            """Count the bytes of a file as read, once it is opened."""
            self.progress.advance(unread.pop(location, 0))

        with CallFiles(self.store, here.read, partial(places.next, task), opened) as files:
            try:
                (result,) = here.workers.call(_rewrite, None, task, job, ask=files.answer)
            except KernelCrashed as crash:
                message = f"`{files.reading}`: {crash}"
                raise CorruptTable(message, rule="R-099", hint=RESTORE) from crash
        found: TaskResult = result
        return found


@dataclass(frozen=True, slots=True)
class _Here:
    """What the tasks of a run share in this process."""

    read: Callable[[str], IO[bytes]]
    workers: WorkerProcesses


def _rewrite(task: RewriteTask, job: CompactJob, ask: Ask) -> tuple[TaskResult]:
    """Carry a task out, in a worker."""
    return (run_rewrite(task, job, outputs_through(ask)),)
