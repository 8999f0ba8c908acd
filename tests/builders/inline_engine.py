"""An engine that carries tasks out in this process, where starting others would take too long."""

import os
from collections.abc import Iterator, Sequence

from icectl.rows.compact_job import (
    CompactJob,
    ConvertJob,
    FoundDeletes,
    OutputPlaces,
    TaskResult,
    or_missing,
    run_rewrite,
)
from icectl.rows.convert_deletes import run_convert
from icectl.rows.count_distinct import FoundSketches, SketchJob, run_sketches
from icectl.rows.find_job import FindJob, FoundRows, run_find
from icectl.rows.local import LocalEngine
from icectl.rows.write_data import FileOutputs
from icectl.table.reading import in_threads
from icectl.table.rewrite_tasks import ConvertTask, ReadTask, RewriteTask


class InlineEngine(LocalEngine):
    """Stands where LocalEngine does; a reader that crashes ends the tests."""

    def rewrite(
        self, tasks: Sequence[RewriteTask], job: CompactJob, places: OutputPlaces
    ) -> Iterator[TaskResult]:
        """What comes of each task.

        Order: that of the tasks.
        Raises: as run_rewrite; Incomplete, at the time limit. What was written stays.
        """
        self.progress.phase("rewriting data files", total=len(tasks))

        def run(task: RewriteTask) -> TaskResult:
            self.deadline.check()
            outputs = FileOutputs(
                lambda partition: places.next_file_location(task, partition),
                self.store.open_new,
                self.store.open,
            )
            found = or_missing(task, lambda: run_rewrite(task, job, outputs))
            self.progress.advance(1)
            return found

        threads = min(os.cpu_count() or 1, self.concurrency)
        yield from in_threads(run, tasks, [1] * len(tasks), threads=threads)

    def convert(
        self, tasks: Sequence[ConvertTask], job: ConvertJob, places: OutputPlaces
    ) -> Iterator[FoundDeletes]:
        """What tasks have found, in their order. Raises: as run_convert."""
        outputs = FileOutputs.without_places(self.store)
        for task in tasks:
            self.deadline.check()
            yield run_convert(task, job, outputs)

    def sketch(
        self, tasks: Sequence[ReadTask], job: SketchJob, places: OutputPlaces
    ) -> Iterator[FoundSketches]:
        """What tasks have found, in their order. Raises: as run_sketches."""
        outputs = FileOutputs.without_places(self.store)
        for task in tasks:
            self.deadline.check()
            yield run_sketches(task, job, outputs)

    def find(
        self, tasks: Sequence[RewriteTask], job: FindJob, places: OutputPlaces
    ) -> Iterator[FoundRows]:
        """What tasks have found, in their order. Raises: as run_find."""
        outputs = FileOutputs.without_places(self.store)
        for task in tasks:
            self.deadline.check()
            yield from run_find(task, job, outputs)
