"""Sketches of the values in columns of data files: one task, in any process.

Only these columns are read. Deleted rows are left out where a task names the deletes of its files.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from icectl.files.theta_sketch import SketchBuilder
from icectl.rows.compact_job import TypedSpec, deletes_of, source_of
from icectl.rows.rewrite_data import FileGroup, RowsRead, TableColumns, live_batches
from icectl.rows.write_data import FileOutputs
from icectl.table.rewrite_tasks import ReadTask


@dataclass(frozen=True, slots=True)
class SketchJob:
    """The job of all tasks of a run: `columns.written` are those to read.

    `scheme` is that of paths in delete files that have none.
    """

    columns: TableColumns
    specs: Mapping[int, TypedSpec]
    scheme: str = ""


@dataclass(frozen=True, slots=True)
class FoundSketches:
    """What a task has found: a sketch of each column by its id, and how many rows it has read."""

    task_id: str
    sketches: Mapping[int, bytes]
    row_count: int


def run_sketches(task: ReadTask, job: SketchJob, outputs: FileOutputs) -> FoundSketches:
    """Read the columns of a task's files, and sketch their values.

    Raises: as stored_rows; Unsupported, for a type that has no sketch. Errors of the files pass.
    Cost: memory for a batch, and a byte per row of files with deletes.
    """
    fields = job.columns.written.fields
    builders = {field.id: SketchBuilder() for field in fields}
    group = FileGroup(
        tuple(source_of(file, job.specs) for file in task.inputs),
        sum(file.size_bytes for file in task.inputs),
        deletes_of(task, job.scheme),
        job.columns,
        job.specs[task.inputs[0].spec_id].spec,
        None,
    )
    read = RowsRead()
    for batch in live_batches(group, outputs, read):
        for field, column in zip(fields, batch.columns, strict=True):
            builders[field.id].add(column)
    sketches = {id_: builder.sketch().to_bytes() for id_, builder in builders.items()}
    return FoundSketches(task.task_id, sketches, read.row_count)
