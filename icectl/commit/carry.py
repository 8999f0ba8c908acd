"""Deletes by position that came while data files were rewritten, carried over to the new files.

A rewrite that keeps the order of rows has each row where its rank among the kept ones says; one
that sorts them has it where its row id is. So a position that others have deleted since is known in
the new files, and goes into the same commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow.compute as pc

from icectl import __version__
from icectl.commit.carried_positions import (
    NotCarried,
    RowIds,
    deleted_since,
    joined,
    moved_positions,
    new_count,
    positions_of_rows,
)
from icectl.commit.outputs import DataOutputs
from icectl.commit.rewritten_groups import GroupResult, LiveHead, is_changed
from icectl.entries.rows import Entries
from icectl.errors import CorruptTable, Unsupported
from icectl.files.parquet.schema import NameMapping
from icectl.files.puffin.positions import Positions
from icectl.format.schema import Schema
from icectl.rows.compact_job import MergeJob, deletes_by_position, partition_of
from icectl.rows.merge_deletes import (
    delete_file_entries,
    merged_positions,
    write_delete_file,
    write_vectors,
)
from icectl.rows.read_data import LINEAGE, SourceFile, open_source
from icectl.rows.write_data import FileOutputs
from icectl.storage.store import Store
from icectl.table.reading import naming
from icectl.table.rewritable_files import LiveFiles, check_deletes
from icectl.table.rewrite_task import InputFile, MergeDeletesTask, RewriteTask, Task
from icectl.table.rewrite_tasks import TaskMaker

_MOST_GONE = 0.5
"""Part of the rows of a group from which on inputs that have gone make it fall away."""


@dataclass(frozen=True, slots=True)
class Carried:
    """Entries of new delete files, and how many of their rows were deleted since the plan."""

    entries: Entries
    row_count: int


@dataclass(frozen=True, slots=True)
class DeleteCarrier:
    """What carries deletes over to the new files of groups, for one table."""

    store: Store
    job: MergeJob
    places: DataOutputs
    has_vectors: bool
    names: NameMapping = ()

    def carry(self, result: GroupResult, files: LiveFiles, head: LiveHead) -> Carried:
        """Write the deletes of a group's new files; `files` are those of the head.

        Raises: NotCarried, where the group falls away; StorageError; SelfCheckFailed.
        """
        gone = {file.location for file in result.inputs if head.entry(file.location) is None}
        lost = sum(file.record_count for file in result.inputs if file.location in gone)
        if lost >= _MOST_GONE * sum(file.record_count for file in result.inputs):
            raise NotCarried(f"`{min(gone)}` is not live any more" if gone else "it has no rows")
        positions: dict[str, Positions] = {}
        newest = came = 0
        try:
            for task, made in zip(result.rewrites, result.made, strict=True):
                changed = [file for file in task.inputs if is_changed(task, file, head)]
                touched = task.inputs if made.keeps_deleted else changed
                if not touched:
                    continue
                now = self._now(task, touched, files, head)
                newest = max([newest, *_numbers(now)])
                after = joined(self._deleted(now), made.by_value) | {
                    file.location: np.arange(file.record_count, dtype=np.uint64)
                    for file in task.inputs
                    if file.location in gone
                }
                before = joined(self._deleted_then(task), made.by_value) if changed else {}
                came += new_count(changed, before, after)
                if made.by_row_id:
                    positions |= self._sorted_positions(task.inputs, before, after, made.files)
                else:
                    left_out = made.left_out if made.keeps_deleted else before
                    positions |= moved_positions(task.inputs, left_out, after, made.files)
        except (CorruptTable, Unsupported) as error:
            raise NotCarried(error.message) from error
        entries = self._written(result, positions, max(newest, _least_number(result)))
        return Carried(entries, came)

    def _now(
        self, task: RewriteTask, touched: Sequence[InputFile], files: LiveFiles, head: LiveHead
    ) -> MergeDeletesTask:
        """Return what deletes rows of some inputs of a task by now."""
        rows = [head.row(file.location) for file in touched if head.entry(file.location)]
        check_deletes(files, rows)
        maker = TaskMaker(files.data, files.deletes, files.index, rows)
        return maker.merge(rows, self._blank(task.group))

    def _sorted_positions(
        self,
        inputs: Sequence[InputFile],
        before: Mapping[str, Positions],
        after: Mapping[str, Positions],
        made: Sequence[tuple[str, int]],
    ) -> Mapping[str, Positions]:
        """Return what moved_positions does, of rows that are sorted in the new files.

        Cost: the row ids of the new files, and of the inputs where these have the column.
        """
        came = deleted_since(inputs, before, after, made)
        try:
            wanted = [
                self._row_ids(_source(file))[came[file.location]]
                for file in inputs
                if len(came.get(file.location, ()))
            ]
        except FileNotFoundError as error:
            raise NotCarried("files that were sorted are gone with their snapshot") from error
        if not wanted:
            return {}
        sources = (SourceFile(location, "PARQUET", count, 0) for location, count in made)
        found = ((source.location, self._row_ids(source)) for source in sources)
        return positions_of_rows(np.concatenate(wanted), found)

    def _row_ids(self, source: SourceFile) -> RowIds:
        """Return the ids of the rows of a file; -1 of a row that has none.

        Order: that of the rows.
        """
        found = [np.empty(0, np.int64)]
        with self.store.open(source.location) as file, naming(source.location):
            opened = open_source(file, source, Schema(0, LINEAGE[:1]), self.names)
            for rows in opened.stored():
                positions = np.arange(rows.first_row, rows.first_row + rows.batch.num_rows)
                ids = opened.project(rows.batch, positions).column(0)
                found.append(pc.fill_null(ids, -1).to_numpy())
        return np.concatenate(found)

    def _blank(self, group: int) -> MergeDeletesTask:
        return MergeDeletesTask(
            f"{group}-0", group, (), (), "vectors" if self.has_vectors else "positions"
        )

    def _deleted_then(self, task: Task) -> dict[str, Positions]:
        """Return the deleted rows of a task as planned. Raises: NotCarried, where they expired."""
        try:
            return self._deleted(task)
        except FileNotFoundError as error:
            reason = "deletes that the plan was made with have expired with their snapshot"
            raise NotCarried(reason) from error

    def _deleted(self, task: Task) -> dict[str, Positions]:
        """Return the rows of all inputs of a task that it says are deleted by position."""
        outputs = FileOutputs(lambda _: "", self.store.open_new, self.store.open)
        locations = [file.location for file in task.inputs]
        deletes = deletes_by_position(task, self.job.scheme)
        merged = merged_positions(locations, deletes, outputs)
        none = np.empty(0, np.uint64)
        return {location: merged.get(location, none) for location in locations}

    def _written(
        self, result: GroupResult, vectors: Mapping[str, Positions], sequence_number: int
    ) -> Entries:
        """Write deletes of new files, and return their entries."""
        first = result.rewrites[0]
        assert first.partition_key is not None
        path = partition_of(first.partition_key, self.job.specs[first.spec_id]).path
        blank = self._blank(result.number)
        outputs = FileOutputs(
            lambda _: self.places.next_file_location(blank, path),
            self.store.open_new,
            self.store.open,
        )
        if self.has_vectors:
            files = write_vectors(vectors, f"icectl {__version__}", outputs, self.job.base)
        else:
            write = partial(write_delete_file, path=path, options=self.job.parquet, outputs=outputs)
            files = [write(location, positions) for location, positions in vectors.items()]
        # What the entries take from a data file is the partition, which is that of the new ones.
        own = replace(first.inputs[0], spec_id=first.spec_id, partition_key=first.partition_key)
        inputs = dict.fromkeys(vectors, own)
        return Entries(delete_file_entries(inputs, files, lambda _: sequence_number))


def _source(file: InputFile) -> SourceFile:
    return SourceFile(
        file.location,
        file.file_format.name,
        file.record_count,
        file.sequence_number,
        file.first_row_id,
        size_bytes=file.size_bytes,
    )


def _numbers(task: MergeDeletesTask) -> Sequence[int]:
    vectors = [file.vector.sequence_number for file in task.inputs if file.vector is not None]
    return vectors + [file.sequence_number for file in task.delete_files]


def _least_number(result: GroupResult) -> int:
    """Return the number from which on deletes apply to the new files of a group."""
    return max(task.sequence_number for task in result.rewrites)
