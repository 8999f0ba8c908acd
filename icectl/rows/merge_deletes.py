"""Merged deletes by position: one delete file or one vector for each data file."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from icectl import __version__
from icectl.entries.rows import CARRIED, PLANNING
from icectl.errors import CorruptTable, SelfCheckFailed
from icectl.files.data_file import open_data_file
from icectl.files.deletion_vectors import Positions, dv_blob
from icectl.files.parquet.metrics import FileMetrics, read_metrics
from icectl.files.parquet.schema import arrow_schema
from icectl.files.parquet.write import ParquetOptions, ParquetWriter
from icectl.files.puffin import read_puffin, write_puffin
from icectl.format.locations import relative_location
from icectl.format.manifest import Content, FileFormat, Status
from icectl.format.schema import POSITION_DELETES
from icectl.rows.compact_job import (
    MergeJob,
    TaskResult,
    carried_metrics,
    deletes_by_position,
    partition_of,
)
from icectl.rows.deleted_positions import named_positions, spelled_otherwise, vector_positions
from icectl.rows.rewrite_data import DeletesOfGroup, positions_of
from icectl.rows.write_data import FileOutputs
from icectl.storage.location import loosest_key
from icectl.table.rewrite_tasks import InputFile, MergeDeletesTask

_ROW_GROUP_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class MergedDeletes:
    """All deletes by position of one data file: a delete file, or a vector at `content_offset`."""

    data_file: str
    location: str
    file_size_in_bytes: int
    record_count: int
    content_offset: int | None = None
    content_size_in_bytes: int | None = None
    metrics: FileMetrics | None = None


def merged_positions(
    locations: Collection[str], deletes: DeletesOfGroup, outputs: FileOutputs
) -> Mapping[str, Positions]:
    """Return the deleted positions of data files, without files that have none (R-115).

    Order: positions ascend, each once.
    Raises: CorruptTable; Unsupported, if deletes spell a data file differently.
    Cost: memory for each deleted position.
    """
    by_file: dict[str, list[Positions]] = {}
    by_key = {loosest_key(location): location for location in locations}
    for vector, positions in positions_of(deletes.vectors, outputs):
        by_file.setdefault(vector.data_file, []).append(positions)
    for delete in deletes.position_deletes:
        with outputs.reading(delete.file.location) as file:
            named = named_positions(
                delete.open(file), delete.applies_to, by_key, deletes.scheme, only=delete.named
            )
            for target, numbers in named:
                if not target.is_exact:
                    raise spelled_otherwise(target.location, len(numbers))
                if len(numbers) and int(numbers.min()) < 0:
                    raise CorruptTable("a position is below 0", rule="R-121")
                by_file.setdefault(target.location, []).append(numbers.astype(np.uint64))
    return {location: np.unique(np.concatenate(parts)) for location, parts in by_file.items()}


def write_delete_file(
    data_file: str, positions: Positions, path: str, options: ParquetOptions, outputs: FileOutputs
) -> MergedDeletes:
    """Write the positions of one data file as a delete file in a partition, and read it again.

    Raises: SelfCheckFailed, if the positions differ.
    """
    location = outputs.next_location(path)
    schema = arrow_schema(POSITION_DELETES)
    with outputs.create(location) as file:
        writer = ParquetWriter(file, schema, options, {"delete-type": "position"})
        try:
            for start in range(0, len(positions), _ROW_GROUP_ROWS):
                part = positions[start : start + _ROW_GROUP_ROWS].astype(np.int64)
                paths = pa.repeat(pa.scalar(data_file, pa.string()), len(part))
                batch = pa.record_batch([paths, pa.array(part)], schema=schema)
                writer.write_row_group([batch])
            writer.close()
        except BaseException:
            writer.abandon()
            raise
        size_bytes = writer.size_bytes
    with outputs.reading(location) as file:
        metrics = read_metrics(file, POSITION_DELETES)
        read = [
            numbers
            for target, numbers in named_positions(
                open_data_file(file, "parquet"), [data_file], {loosest_key(data_file): data_file}
            )
            if target.is_exact
        ]
    _check(location, positions, np.concatenate(read))
    return MergedDeletes(data_file, location, size_bytes, len(positions), metrics=metrics)


def write_vectors(
    merged: Mapping[str, Positions], created_by: str, outputs: FileOutputs, base: str = ""
) -> Sequence[MergedDeletes]:
    """Write the positions of data files as vectors of one Puffin file, and read them again.

    Locations are stored relative to `base`, if there is one (sfc-1 DD5).
    Raises: SelfCheckFailed, if the positions differ.
    Cost: memory for the file.
    """
    if not merged:
        return ()
    blobs = [
        dv_blob(positions, relative_location(base, data_file) if base else data_file)
        for data_file, positions in merged.items()
    ]
    content = write_puffin(blobs, {"created-by": created_by})
    location = outputs.next_location("")
    with outputs.create(location) as file:
        file.write(content)
    places = read_puffin(content).blobs
    with outputs.reading(location) as file:
        for (_, positions), blob in zip(merged.items(), places, strict=True):
            read = vector_positions(file, blob.offset, blob.length, len(positions))
            _check(location, positions, read)
    return tuple(
        MergedDeletes(data_file, location, len(content), len(positions), blob.offset, blob.length)
        for (data_file, positions), blob in zip(merged.items(), places, strict=True)
    )


def _check(location: str, written: Positions, read: Positions) -> None:
    if not np.array_equal(written, read.view(np.uint64)):
        raise SelfCheckFailed(f"{location} deletes other rows than were to be deleted")


def run_merge(task: MergeDeletesTask, job: MergeJob, outputs: FileOutputs) -> TaskResult:
    """Merge the deletes of each data file of a task; new files are compared with the old.

    Raises: as merged_positions, write_delete_file.
    """
    locations = [file.location for file in task.inputs]
    merged = merged_positions(locations, deletes_by_position(task, job.scheme), outputs)
    inputs = {file.location: file for file in task.inputs}
    if task.form == "vectors":
        merged_deletes = write_vectors(merged, f"icectl {__version__}", outputs, job.base)
    else:
        merged_deletes = []
        for location, positions in merged.items():
            file = inputs[location]
            path = partition_of(file.partition_key, job.specs[file.spec_id]).path
            deletes = write_delete_file(location, positions, path, job.parquet, outputs)
            merged_deletes.append(deletes)
    sizes = {deletes.location: deletes.file_size_in_bytes for deletes in merged_deletes}

    def newest(file: InputFile) -> int:
        numbers = [task.delete_files[at].sequence_number for at in file.position_deletes]
        return max(numbers + ([] if file.vector is None else [file.vector.sequence_number]))

    return TaskResult(
        task.task_id,
        delete_file_entries(inputs, merged_deletes, newest),
        read_row_count=0,
        deleted_row_count=sum(deletes.record_count for deletes in merged_deletes),
        written_bytes=sum(sizes.values()),
    )


def delete_file_entries(
    inputs: Mapping[str, InputFile],
    merged: Sequence[MergedDeletes],
    sequence_number: Callable[[InputFile], int],
) -> pa.Table:
    """Return entries of new delete files and vectors, with the partitions of their data files."""
    rows = []
    for at, delete in enumerate(merged):
        file = inputs[delete.data_file]
        row = {
            "content": Content.POSITION_DELETES,
            "status": Status.ADDED,
            "location": delete.location,
            "file_format": FileFormat.PUFFIN if delete.metrics is None else FileFormat.PARQUET,
            "spec_id": file.spec_id,
            "partition_key": file.partition_key,
            "record_count": delete.record_count,
            "file_size_in_bytes": delete.file_size_in_bytes,
            "sequence_number": sequence_number(file),
            "referenced_data_file": delete.data_file,
            "content_offset": delete.content_offset,
            "content_size_in_bytes": delete.content_size_in_bytes,
            "manifest": 0,
            "manifest_pos": at,
        }
        rows.append(row if delete.metrics is None else row | carried_metrics(delete.metrics))
    return pa.Table.from_pylist(rows, schema=pa.schema([*PLANNING, *CARRIED]))
