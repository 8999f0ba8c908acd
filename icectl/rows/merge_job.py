"""One task that merges deletes, carried out by the kernels wherever it runs."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from icectl import __version__
from icectl.entries.schema import CARRIED, PLANNING
from icectl.format.manifest import Content, FileFormat, Status
from icectl.rows.compact_job import (
    MergeJob,
    TaskResult,
    carried_metrics,
    deletes_by_position,
    partition_of,
)
from icectl.rows.merge_deletes import (
    MergedDeletes,
    merged_positions,
    write_delete_file,
    write_vectors,
)
from icectl.rows.write_data import FileOutputs
from icectl.table.reading import in_threads
from icectl.table.rewrite_task import InputFile, MergeDeletesTask


def run_merge(task: MergeDeletesTask, job: MergeJob, outputs: FileOutputs) -> TaskResult:
    """Merge the deletes of each data file of a task; what was written is compared with it.

    Raises: as merged_positions, write_delete_file.
    """
    locations = [file.location for file in task.inputs]
    merged = merged_positions(locations, deletes_by_position(task, job.scheme), outputs)
    inputs = {file.location: file for file in task.inputs}
    if task.form == "vectors":
        found = write_vectors(merged, f"icectl {__version__}", outputs, job.base)
    else:
        found = [
            write_delete_file(
                location, positions, _path(inputs[location], job), job.parquet, outputs
            )
            for location, positions in merged.items()
        ]
    sizes = {one.location: one.file_size_in_bytes for one in found}
    return TaskResult(
        task.task_id,
        delete_file_entries(inputs, found, lambda file: _newest(task, file)),
        read_row_count=0,
        deleted_row_count=sum(one.record_count for one in found),
        written_row_count=0,
        written_bytes=sum(sizes.values()),
    )


def merge_in_threads(
    tasks: Sequence[MergeDeletesTask],
    job: MergeJob,
    outputs_of: Callable[[MergeDeletesTask], FileOutputs],
    check: Callable[[], None],
    concurrency: int,
) -> Iterator[TaskResult]:
    """Merge the deletes of tasks in threads of this process; `check` is called before each.

    Order: that of the tasks.
    Raises: as run_merge and `check`.
    """

    def run(task: MergeDeletesTask) -> TaskResult:
        """Merge the deletes of a task."""
        check()
        return run_merge(task, job, outputs_of(task))

    sizes = [sum(file.size_bytes for file in task.delete_files) for task in tasks]
    return in_threads(run, tasks, sizes, threads=min(os.cpu_count() or 1, concurrency))


def _path(file: InputFile, job: MergeJob) -> str:
    return partition_of(file.partition_key, job.specs[file.spec_id]).path


def delete_file_entries(
    inputs: Mapping[str, InputFile],
    found: Sequence[MergedDeletes],
    sequence_number: Callable[[InputFile], int],
) -> pa.Table:
    """Entries of new delete files and vectors, of the spec and partition of their data files."""
    rows = []
    for at, one in enumerate(found):
        file = inputs[one.data_file]
        row = {
            "content": Content.POSITION_DELETES,
            "status": Status.ADDED,
            "location": one.location,
            "file_format": FileFormat.PUFFIN if one.metrics is None else FileFormat.PARQUET,
            "spec_id": file.spec_id,
            "partition_key": file.partition_key,
            "record_count": one.record_count,
            "file_size_in_bytes": one.file_size_in_bytes,
            "sequence_number": sequence_number(file),
            "referenced_data_file": one.data_file,
            "content_offset": one.content_offset,
            "content_size_in_bytes": one.content_size_in_bytes,
            "manifest": 0,
            "manifest_pos": at,
        }
        rows.append(row if one.metrics is None else row | carried_metrics(one.metrics))
    return pa.Table.from_pylist(rows, schema=pa.schema([*PLANNING, *CARRIED]))


def _newest(task: MergeDeletesTask, file: InputFile) -> int:
    """The highest sequence number of the deletes of a data file, so that it applies as they did."""
    numbers = [task.delete_files[at].sequence_number for at in file.position_deletes]
    return max(numbers + ([] if file.vector is None else [file.vector.sequence_number]))
