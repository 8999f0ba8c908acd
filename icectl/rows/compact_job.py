"""Execute one task of a compaction, in any process.

All tasks of a run share a job. Job and task are values that can be sent to workers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from icectl.entries.partition_key import decode_key, encode_key
from icectl.entries.rows import CARRIED, PLANNING, PROVEN
from icectl.errors import CorruptTable, MissingFile, Unsupported
from icectl.files.parquet.merge_columns import NothingToMerge, NotMergeable
from icectl.files.parquet.metrics import FileMetrics
from icectl.files.parquet.schema import NameMapping
from icectl.files.parquet.write import ParquetOptions
from icectl.format.file_names import data_file_name, data_location, delete_file_name
from icectl.format.manifest import Content, FileFormat, Status
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec, partition_path, result_types
from icectl.format.schema import Schema
from icectl.format.sort import SortOrder
from icectl.format.types import Type
from icectl.rows.deleted_positions import DeletionVector, PositionDeletes
from icectl.rows.equality_deletes import EqualityDeletes
from icectl.rows.merge_files import MergeOptions, merge_files
from icectl.rows.partition_rows import Partition
from icectl.rows.read_data import SourceFile
from icectl.rows.rewrite_data import DeletesOfGroup, FileGroup, TableColumns, rewrite_data
from icectl.rows.row_runs import no_rows
from icectl.rows.sort_rows import Sorting
from icectl.rows.write_data import FileOutputs, WriteOptions, WrittenFile
from icectl.storage.store import Store
from icectl.storage.streams import ReadAhead
from icectl.table.rewrite_tasks import (
    ConvertTask,
    DeleteFile,
    InputFile,
    MergeDeletesTask,
    ReadTask,
    RewriteTask,
    Task,
)


@dataclass(frozen=True, slots=True)
class TypedSpec:
    """A partition spec with the types of its values."""

    spec: PartitionSpec
    types: tuple[Type | None, ...]


def typed_specs(metadata: TableMetadata) -> Mapping[int, TypedSpec]:
    """Return every partition spec of a table, by id."""
    return {
        spec.spec_id: TypedSpec(spec, result_types(spec, metadata.schemas))
        for spec in metadata.partition_specs
    }


@dataclass(frozen=True, slots=True)
class CompactJob:
    """The job of all tasks of a run; without `sorting` rows keep their order.

    `scheme` is added to paths in delete files that have none.
    """

    columns: TableColumns
    specs: Mapping[int, TypedSpec]
    options: WriteOptions
    sorting: Sorting | None = None
    scheme: str = ""
    merging: MergeOptions = field(default_factory=MergeOptions)

    @property
    def sort_order_id(self) -> int | None:
        """The id of the sort order of new files, if it is the table's own."""
        order = None if self.sorting is None else self.sorting.order
        return (order.order_id or None) if isinstance(order, SortOrder) else None


@dataclass(frozen=True, slots=True)
class MergeJob:
    """The job of all tasks of a run that merge deletes.

    Locations are stored relative to `base`; if it is empty, they are absolute.
    """

    specs: Mapping[int, TypedSpec]
    parquet: ParquetOptions
    scheme: str = ""
    base: str = ""


MOST_KEYS, MOST_KEY_BYTES = 4_000_000, 128 << 20
"""Keys of equality deletes in memory, which take about 100 bytes each, and their bytes."""


@dataclass(frozen=True, slots=True)
class ConvertJob:
    """The job of all tasks of a run that look rows up in equality deletes.

    `columns` are all that the table ever had. Deletes of `global_spec_ids` apply to all partitions
    (R-112). Beyond `most_keys` and `most_key_bytes` keys go to disk.
    """

    specs: Mapping[int, TypedSpec]
    columns: Schema
    name_mapping: NameMapping
    global_spec_ids: frozenset[int]
    most_keys: int = MOST_KEYS
    most_key_bytes: int = MOST_KEY_BYTES


@dataclass(frozen=True, slots=True)
class FoundDeletes:
    """What a task has found: deleted rows of its files, and how much it has read of them.

    `rows` has, for files with such rows, their place in the task, and a vector of the positions.
    """

    task_id: str
    rows: pa.Table
    key_count: int
    read_files: int
    read_rows: int

    def by_file(self, task: ConvertTask) -> Mapping[str, tuple[int, bytes]]:
        """Return the number of deleted rows of each file that has some, and a vector of them."""
        columns = (self.rows[name].to_pylist() for name in ("input", "count", "positions"))
        return {
            task.inputs[at].location: tuple(of_file) for at, *of_file in zip(*columns, strict=True)
        }


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task: entries of the new files, and counts.

    `entries` has every column; status ADDED, no snapshot id, the task's data sequence number.
    `not_merged` says why files were not merged, `not_assembled` why bytes of merged files passed
    through a worker. `left_out` and `by_value` are those of MergedGroup.
    `missing` names a file that was not there; then there are no new files.
    """

    task_id: str
    entries: pa.Table
    read_row_count: int
    deleted_row_count: int
    written_bytes: int
    is_merged: bool = False
    not_merged: str = ""
    not_assembled: str = ""
    left_out: pa.Table = field(default_factory=no_rows)
    by_value: pa.Table = field(default_factory=no_rows)
    missing: str = ""


@dataclass(frozen=True, slots=True)
class FileNames:
    """The locations of a run's new files, whose names have its `uuid`."""

    table_location: str
    properties: Mapping[str, str]
    uuid: str

    def location(self, of: Task | int, writer: int, partition: str, count: int) -> str:
        """Return the location of file number `count` of a writer.

        Files are those of a task, or of a numbered part of new rows.
        """
        if isinstance(of, MergeDeletesTask):
            is_vector = of.form == "vectors"
            name = delete_file_name(of.group, writer, self.uuid, count, is_vector=is_vector)
        else:
            group = of if isinstance(of, int) else of.group
            mark = of.mark if isinstance(of, RewriteTask) else ""
            name = data_file_name(group, writer, self.uuid, count, mark)
        return data_location(self.table_location, self.properties, partition, name)


class OutputPlaces(Protocol):
    """The locations of new files of a run, and the record for removing them."""

    @property
    def names(self) -> FileNames:
        """The names for engines whose workers name files themselves."""

    def next_file_location(self, task: Task, partition: str) -> str:
        """Return and record the location of a task's next file in the folder of a partition."""

    def record(self, locations: Sequence[str]) -> None:
        """Record files that workers have named."""

    def find(self) -> None:
        """Record all files of the run, by listing their folders."""


@dataclass(slots=True)
class TaskCounts:
    """The numbers of tasks that an engine has run, and of repeated attempts."""

    tasks: int = 0
    repeats: int = 0


class Engine(Protocol):
    """An engine that runs tasks."""

    @property
    def counts(self) -> TaskCounts:
        """The counts so far; on Spark those of its tasks, a repeated stage counts once."""

    def rewrite(
        self, tasks: Sequence[RewriteTask], job: CompactJob, places: OutputPlaces
    ) -> Iterator[TaskResult]:
        """Run tasks, and yield their results.

        Order: that of the tasks.
        Raises: as run_rewrite; Incomplete, at the time limit; EngineError. Files stay, recorded.
        """

    def merge(
        self, tasks: Sequence[MergeDeletesTask], job: MergeJob, places: OutputPlaces
    ) -> Iterator[TaskResult]:
        """Merge the deletes of tasks, in their order.

        Raises: as `rewrite` and run_merge. Files stay, recorded.
        """

    def convert(
        self, tasks: Sequence[ConvertTask], job: ConvertJob, places: OutputPlaces
    ) -> Iterator[FoundDeletes]:
        """Look rows of data files up in equality deletes; nothing is written.

        Raises: as `rewrite` and run_convert.
        """


def ahead_of(tasks: Sequence[Task], store: Store, concurrency: int) -> ReadAhead:
    """Return a reader ahead of the files of tasks, deletes first."""
    files: dict[str, int] = {}
    split: set[str] = set()
    for task in tasks:
        files |= {file.location: file.size_bytes for file in task.delete_files}
        if isinstance(task, ConvertTask | ReadTask):
            split.update(file.location for file in task.inputs)  # of few columns
        if isinstance(task, RewriteTask):
            files |= {file.location: file.size_bytes for file in task.inputs}
            is_merged = task.method != "rewrite"
            # A merge by the storage reads footers, and little else.
            is_assembled = is_merged and store.assemble(task.inputs[0].location) is not None
            split.update(file.location for file in task.inputs if is_assembled or file.split)
    complete = [(location, size) for location, size in files.items() if location not in split]
    return ReadAhead(store, complete, concurrency, split)


def or_missing(task: Task, run: Callable[[], TaskResult]) -> TaskResult:
    """Run a task; if a file is missing, return a result that names it: others can still land."""
    try:
        return run()
    except MissingFile as error:
        nothing = data_entries((), 0, None, None)
        return TaskResult(task.task_id, nothing, 0, 0, 0, missing=error.location)


def run_rewrite(task: RewriteTask, job: CompactJob, outputs: FileOutputs) -> TaskResult:
    """Rewrite or merge the files of a task, and compare its rows with those of the new files.

    If a merge is impossible, method `merge` does nothing, but for files that have no live row.
    Raises: as rewrite_data, merge_files.
    """
    options = replace(job.options, target_size_bytes=task.roll_bytes)
    group = file_group(task, job)
    not_merged = ""
    if task.method != "rewrite":
        try:
            merged = merge_files(group, options, outputs, job.merging)
        except NothingToMerge:
            pass  # nor is there anything to write
        except (NotMergeable, CorruptTable) as error:
            not_merged = str(error)
            if task.method == "merge":
                if isinstance(error, CorruptTable):
                    raise
                nothing = data_entries((), task.spec_id, None, None)
                return TaskResult(task.task_id, nothing, 0, 0, 0, not_merged=not_merged)
        else:
            read = sum(file.record_count for file in task.inputs)
            return TaskResult(
                task.task_id,
                entries_of((merged.file,), task, job),
                read,
                read - merged.file.metrics.record_count,
                merged.file.file_size_in_bytes,
                is_merged=True,
                left_out=merged.left_out,
                by_value=merged.by_value,
                not_assembled=merged.file.not_assembled,
            )
    rewritten = rewrite_data(group, options, outputs)
    return TaskResult(
        task.task_id,
        entries_of(rewritten.files, task, job),
        rewritten.totals.row_count + rewritten.deleted_row_count,
        rewritten.deleted_row_count,
        sum(file.file_size_in_bytes for file in rewritten.files),
        not_merged=not_merged,
    )


def file_group(task: RewriteTask, job: CompactJob) -> FileGroup:
    """Return the files of a task, with deletes and options, for rewrite_data."""
    typed = job.specs[task.spec_id]
    return FileGroup(
        tuple(source_of(file, job.specs) for file in task.inputs),
        sum(file.size_bytes for file in task.inputs),
        deletes_of(task, job.scheme),
        job.columns,
        typed.spec,
        None if task.partition_key is None else partition_of(task.partition_key, typed),
        job.sorting,
    )


def deletes_of(task: Task, scheme: str) -> DeletesOfGroup:
    """Return all deletes of a task."""
    equality: dict[int, set[str]] = {}
    for file in task.inputs:
        for at in file.equality_deletes:
            equality.setdefault(at, set()).add(file.location)
    files = task.delete_files
    by_value = tuple(
        EqualityDeletes(delete_source(files[at]), files[at].equality_ids, frozenset(named))
        for at, named in equality.items()
    )
    return replace(deletes_by_position(task, scheme), equality_deletes=by_value)


def source_of(file: InputFile, specs: Mapping[int, TypedSpec]) -> SourceFile:
    """Return a data file to read, with the values of its identity partition fields."""
    typed = specs[file.spec_id]
    values = decode_key(file.partition_key, typed.types)
    return SourceFile(
        file.location,
        file.file_format.name,
        file.record_count,
        file.sequence_number,
        file.first_row_id,
        {
            item.source_ids[0]: value
            for item, value in zip(typed.spec.fields, values, strict=True)
            if item.transform.name == "identity"
        },
        file.split,
        file.size_bytes,
        file.stated,
    )


def check_identities(tasks: Sequence[RewriteTask], keys: set[bytes], typed: TypedSpec) -> None:
    """Check that rows of a partition keep its values of columns that a spec has as they are.

    `keys` are the partitions that the rows came to. Readers disagree about a row with another value
    of such a column: some take the partition's value, some the file's.
    Raises: Unsupported R-071.
    """
    files = [file for task in tasks for file in task.inputs]
    fields = enumerate(typed.spec.fields)
    places = [at for at, item in fields if item.transform.name == "identity"]
    if not places or any(file.spec_id != typed.spec.spec_id for file in files):
        return  # rows of other specs move by all fields

    def identities(keys: set[bytes]) -> set[bytes]:
        types = [typed.types[at] for at in places]
        values = (decode_key(key, typed.types) for key in keys)
        return {encode_key(types, [row[at] for at in places]) for row in values}

    if not identities(keys) <= identities({file.partition_key for file in files}):
        names = ", ".join(f"`{typed.spec.fields[at].name}`" for at in places)
        raise Unsupported(
            f"`{files[0].location}`, or another file of its group, has a row whose {names} "
            "differs from its partition (R-071)",
            hint="write these rows again with the engine; nothing was committed",
            rule="R-071",
        )


def partition_of(key: bytes, typed: TypedSpec) -> Partition:
    """Return a partition with the path of its files."""
    if typed.spec.is_unpartitioned:
        return Partition(key, "")
    return Partition(key, partition_path(typed.spec, typed.types, decode_key(key, typed.types)))


def deletes_by_position(task: Task, scheme: str) -> DeletesOfGroup:
    """Return the position delete files and vectors of a task."""
    positions: dict[int, set[str]] = {}
    vectors = []
    for file in task.inputs:
        for at in file.position_deletes:
            positions.setdefault(at, set()).add(file.location)
        if file.vector is not None:
            vector = file.vector
            place = vector.location, vector.content_offset, vector.size_bytes
            vectors.append(DeletionVector(*place, vector.record_count, file.location))
    files = task.delete_files
    return DeletesOfGroup(
        tuple(
            PositionDeletes(delete_source(file), frozenset(named), file.referenced_data_file)
            for file, named in ((files[at], named) for at, named in positions.items())
        ),
        tuple(vectors),
        scheme=scheme,
    )


def delete_source(file: DeleteFile) -> SourceFile:
    """Return a delete file to read: readers take nothing of deletes from the partition."""
    return SourceFile(
        file.location,
        file.file_format.name,
        file.record_count,
        file.sequence_number,
        size_bytes=file.size_bytes,
        stated=file.stated,
    )


def entries_of(files: tuple[WrittenFile, ...], task: RewriteTask, job: CompactJob) -> pa.Table:
    """Return the entries of new files of a task."""
    return data_entries(files, task.spec_id, task.sequence_number, job.sort_order_id)


def data_entries(
    files: Sequence[WrittenFile],
    spec_id: int,
    sequence_number: int | None,
    sort_order_id: int | None,
) -> pa.Table:
    """Return entries of new data files: ADDED, without a snapshot id, with every column."""
    rows = [
        {
            "content": Content.DATA,
            "status": Status.ADDED,
            "location": file.location,
            "file_format": FileFormat.PARQUET,
            "spec_id": spec_id,
            "partition_key": file.partition_key,
            "record_count": file.metrics.record_count,
            "file_size_in_bytes": file.file_size_in_bytes,
            "sequence_number": sequence_number,
            "sort_order_id": sort_order_id,
            "manifest": 0,
            "manifest_pos": at,
            **carried_metrics(file.metrics),
        }
        for at, file in enumerate(files)
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema([*PLANNING, *CARRIED, *PROVEN]))


def carried_metrics(metrics: FileMetrics) -> dict[str, object]:
    """Return the metrics of an entry, without empty maps."""
    maps = {
        "column_sizes": metrics.column_sizes,
        "value_counts": metrics.value_counts,
        "null_value_counts": metrics.null_value_counts,
        "nan_value_counts": metrics.nan_value_counts,
        "lower_bounds": metrics.lower_bounds,
        "upper_bounds": metrics.upper_bounds,
        "tight_bounds": metrics.tight_bounds,
        "average_lengths": metrics.average_lengths,
        "max_lengths": metrics.max_lengths,
    }
    carried: dict[str, object] = {
        name: sorted(values.items()) for name, values in maps.items() if values
    }
    return carried | {"split_offsets": list(metrics.split_offsets) or None}
