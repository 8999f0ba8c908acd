"""Merging the deletes of a compaction's groups, in threads of this process."""

import os
from collections.abc import Sequence
from itertools import count
from threading import Lock

from icectl.commit.access import TableAccess
from icectl.commit.outputs import Outputs as RunOutputs
from icectl.engine.compact_job import TaskResult, typed_specs
from icectl.engine.kernels.write_data import FileOutputs, parquet_options
from icectl.engine.merge_job import MergeJob, run_merge
from icectl.plan.compact.task import MergeDeletesTask
from icectl.spec.data_paths import data_location, delete_file_name
from icectl.spec.locations import relative_base, scheme_of
from icectl.spec.metadata import TableMetadata
from icectl.table.reading import in_threads


def merge_deletes(
    access: TableAccess,
    tasks: Sequence[MergeDeletesTask],
    metadata: TableMetadata,
    outputs: RunOutputs,
) -> Sequence[TaskResult]:
    """Merge the deletes of each task into new files.

    Order: that of the tasks.
    Raises: as run_merge; Incomplete, at the time limit. What was written stays.
    """
    access.progress.phase("merging deletes", total=len(tasks))
    lock = Lock()
    job = MergeJob(
        typed_specs(metadata),
        parquet_options(metadata.properties),
        scheme_of(metadata),
        relative_base(metadata),
    )

    def run(task: MergeDeletesTask) -> TaskResult:
        """Merge the deletes of a task."""
        access.deadline.check()
        counts = count(1)

        def next_location(partition: str) -> str:
            """Put the location of the task's next delete file on record."""
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

        written = FileOutputs(next_location, access.store.open_new, access.store.open)
        found = run_merge(task, job, written)
        access.progress.advance(1)
        return found

    sizes = [sum(file.size_bytes for file in task.delete_files) for task in tasks]
    threads = min(os.cpu_count() or 1, access.concurrency)
    return list(in_threads(run, tasks, sizes, threads=threads))
