"""Deletes by position that came while data files were rewritten, carried over to the new files.

A rewrite that keeps the order of rows has each row where its rank among the kept ones says. So a
position that others have deleted since is known in the new files, and goes into the same commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from icectl import __version__
from icectl.commit.outputs import DataOutputs
from icectl.commit.rewritten_groups import GroupResult, LiveHead, is_changed
from icectl.entries.rows import Entries
from icectl.errors import CorruptTable, Unsupported
from icectl.files.puffin.positions import Positions
from icectl.rows.compact_job import MergeJob, deletes_by_position, partition_of
from icectl.rows.merge_deletes import (
    delete_file_entries,
    merged_positions,
    write_delete_file,
    write_vectors,
)
from icectl.rows.write_data import FileOutputs
from icectl.storage.store import Store
from icectl.table.rewritable_files import LiveFiles, check_deletes
from icectl.table.rewrite_task import InputFile, MergeDeletesTask, RewriteTask, Task
from icectl.table.rewrite_tasks import TaskMaker

_MOST_GONE = 0.5
"""Part of the rows of a group from which on inputs that have gone make it fall away."""


class NotCarried(Exception):
    """Deletes that can't be carried over; says why."""


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
                after = _joined(self._deleted(now), made.by_value) | {
                    file.location: np.arange(file.record_count, dtype=np.uint64)
                    for file in task.inputs
                    if file.location in gone
                }
                before = _joined(self._deleted_then(task), made.by_value) if changed else {}
                came += _new_count(changed, before, after)
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


def moved_positions(
    inputs: Sequence[InputFile],
    before: Mapping[str, Positions],
    after: Mapping[str, Positions],
    runs: Sequence[tuple[str, int]],
) -> Mapping[str, Positions]:
    """Return where the rows are now that `after` deletes and `before` does not, by new file.

    `before` are the positions that the rewrite left out, and `after` has those files alone whose
    deletes have changed. New files have the other rows, in the order of the inputs.
    Raises: NotCarried, where `before` is not what the rewrite left out, or is deleted no more.
    """
    ranks = [np.empty(0, np.int64)]
    kept = 0
    for file in inputs:
        old = _in_file(before, file)
        if file.location in after:
            new = _in_file(after, file)
            if len(np.setdiff1d(old, new, assume_unique=True)):
                raise NotCarried(f"rows of `{file.location}` that were deleted are live again")
            came = np.setdiff1d(new, old, assume_unique=True)
            ranks.append(kept + came - np.searchsorted(old, came))
        kept += file.record_count - len(old)
    ends = np.cumsum([count for _, count in runs], dtype=np.int64)
    if kept != sum(count for _, count in runs):
        raise NotCarried("the rows left out are not those deleted by position")
    places = np.concatenate(ranks)
    at = np.searchsorted(ends, places, "right")
    return {
        location: (places[at == number] - (ends[number] - count)).astype(np.uint64)
        for number, (location, count) in enumerate(runs)
        if (at == number).any()
    }


def _joined(some: Mapping[str, Positions], others: Mapping[str, Positions]) -> dict[str, Positions]:
    """Return the positions of both, by file."""
    none = np.empty(0, np.uint64)
    return {
        location: np.union1d(some.get(location, none), others.get(location, none))
        for location in some.keys() | others.keys()
    }


def _new_count(
    changed: Sequence[InputFile], before: Mapping[str, Positions], after: Mapping[str, Positions]
) -> int:
    """Return how many rows of changed inputs `after` deletes, and `before` does not."""
    return sum(
        len(np.setdiff1d(_in_file(after, file), _in_file(before, file), assume_unique=True))
        for file in changed
    )


def _in_file(
    positions: Mapping[str, Positions], file: InputFile
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return positions of rows that a file has: readers pass over others."""
    row_numbers = positions.get(file.location, np.empty(0, np.uint64)).astype(np.int64)
    return row_numbers[row_numbers < file.record_count]


def _numbers(task: MergeDeletesTask) -> Sequence[int]:
    vectors = [file.vector.sequence_number for file in task.inputs if file.vector is not None]
    return vectors + [file.sequence_number for file in task.delete_files]


def _least_number(result: GroupResult) -> int:
    """Return the number from which on deletes apply to the new files of a group."""
    return max(task.sequence_number for task in result.rewrites)
