"""Merging the deletes of a compaction's groups, in threads of this process."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from threading import Lock

from icectl.engine.compact_job import TaskResult, scheme_of_paths, typed_specs
from icectl.engine.kernels.write_data import Outputs, parquet_options
from icectl.engine.merge_job import MergeJob, run_merge
from icectl.env import Deadline
from icectl.plan.compact_task import MergeDeletesTask
from icectl.progress import Progress
from icectl.run import cleanup
from icectl.spec.data_paths import data_location, delete_file_name
from icectl.spec.metadata import TableMetadata
from icectl.spec.properties import RELATIVE_LOCATIONS, read
from icectl.storage.store import Store
from icectl.table.reading import in_threads


@dataclass(frozen=True, slots=True)
class Merging:
    """The means to merge deletes of one table."""

    store: Store
    progress: Progress
    deadline: Deadline
    concurrency: int

    def merge(
        self,
        tasks: Sequence[MergeDeletesTask],
        metadata: TableMetadata,
        outputs: cleanup.Outputs,
    ) -> Sequence[TaskResult]:
        """What comes of each task.

        Order: that of the tasks.
        Raises: as run_merge; Incomplete, at the time limit. What was written stays.
        """
        self.progress.phase("merging deletes", total=len(tasks))
        lock = Lock()
        is_relative = metadata.format_version >= 4 and read(metadata.properties, RELATIVE_LOCATIONS)
        job = MergeJob(
            typed_specs(metadata),
            parquet_options(metadata.properties),
            scheme_of_paths(metadata),
            metadata.location if is_relative else "",
        )

        def run(task: MergeDeletesTask) -> TaskResult:
            self.deadline.check()
            counts = count(1)

            def next_location(partition: str) -> str:
                writer = int(task.task_id.partition("-")[2])
                name = delete_file_name(
                    task.group,
                    writer,
                    outputs.journal.uuid,
                    next(counts),
                    is_vector=task.form == "vectors",
                )
                place = data_location(metadata.location, metadata.properties, partition, name)
                with lock:
                    return outputs.add(place)

            found = run_merge(
                task, job, Outputs(next_location, self.store.open_new, self.store.open)
            )
            self.progress.advance(1)
            return found

        sizes = [sum(file.size_bytes for file in task.delete_files) for task in tasks]
        threads = min(os.cpu_count() or 1, self.concurrency)
        return list(in_threads(run, tasks, sizes, threads=threads))
