"""Committing rewritten files: groups that still hold, and deletes that came meanwhile.

A rewrite that keeps the order of rows has each row where its rank among the kept ones says; one
that sorts them has it where its row id is. So a position that others have deleted since is known in
the new files, and goes into the same commit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from icectl import __version__
from icectl.commit.rewritten_groups import (
    Changes,
    GroupResult,
    LiveHead,
    changes,
    conflict,
    head_of,
    is_changed,
)
from icectl.commit.snapshot import head
from icectl.commit.snapshot_writer import SnapshotWriter
from icectl.commit.transaction import DataOutputs, Proposal
from icectl.entries.rows import Entries, by_row, concat
from icectl.errors import CommitConflict, CorruptTable, SelfCheckFailed, Unsupported
from icectl.files.deletion_vectors import Positions
from icectl.files.parquet.schema import NameMapping
from icectl.format.layout import Layout, layout_of_table
from icectl.format.metadata import TableMetadata
from icectl.format.schema import Schema
from icectl.format.snapshot import Snapshot
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
from icectl.table.live_files import LiveFiles, check_deletes
from icectl.table.reading import naming
from icectl.table.rewrite_tasks import InputFile, MergeDeletesTask, RewriteTask, Task, TaskMaker

RowIds = npt.NDArray[np.int64]
"""Ids of rows, or their positions."""


class NotCarried(Exception):
    """Deletes that can't be carried over; says why."""


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
    came = deleted_since(inputs, before, after, runs)
    ranks = [np.empty(0, np.int64)]
    kept = 0
    for file in inputs:
        old = _in_file(before, file)
        if file.location in came:
            rows = came[file.location]
            ranks.append(kept + rows - np.searchsorted(old, rows))
        kept += file.record_count - len(old)
    ends = np.cumsum([count for _, count in runs], dtype=np.int64)
    places = np.concatenate(ranks)
    at = np.searchsorted(ends, places, "right")
    return {
        location: (places[at == number] - (ends[number] - count)).astype(np.uint64)
        for number, (location, count) in enumerate(runs)
        if (at == number).any()
    }


def deleted_since(
    inputs: Sequence[InputFile],
    before: Mapping[str, Positions],
    after: Mapping[str, Positions],
    made: Sequence[tuple[str, int]],
) -> Mapping[str, RowIds]:
    """Return the positions that `after` deletes and `before` does not, of files in `after`.

    Raises: as moved_positions.
    """
    came = {}
    for file in inputs:
        if file.location in after:
            old, new = _in_file(before, file), _in_file(after, file)
            if len(np.setdiff1d(old, new)):
                raise NotCarried(f"rows of `{file.location}` that were deleted are live again")
            came[file.location] = np.setdiff1d(new, old)
    kept = sum(file.record_count - len(_in_file(before, file)) for file in inputs)
    if kept != sum(count for _, count in made):
        raise NotCarried("the rows left out are not those deleted by position")
    return came


def positions_of_rows(
    wanted: RowIds, made: Iterable[tuple[str, RowIds]]
) -> Mapping[str, Positions]:
    """Return where rows are, by new file; `made` has the ids of the rows of each, in their order.

    Raises: NotCarried, where a row has no id, or not exactly one row of the new files has it.
    """
    found, seen = {}, [np.empty(0, np.int64)]
    for location, ids in made:
        places = np.flatnonzero(np.isin(ids, wanted))
        if len(places):
            found[location] = places.astype(np.uint64)
            seen.append(ids[places])
    if (wanted < 0).any() or not np.array_equal(np.sort(np.concatenate(seen)), np.sort(wanted)):
        raise NotCarried("rows that were deleted meanwhile can't be found by their `_row_id`")
    return found


def joined(some: Mapping[str, Positions], others: Mapping[str, Positions]) -> dict[str, Positions]:
    """Return the positions of both, by file."""
    none = np.empty(0, np.uint64)
    return {
        location: np.union1d(some.get(location, none), others.get(location, none))
        for location in some.keys() | others.keys()
    }


def new_count(
    changed: Sequence[InputFile], before: Mapping[str, Positions], after: Mapping[str, Positions]
) -> int:
    """Return how many rows of changed inputs `after` deletes, and `before` does not."""
    return sum(len(np.setdiff1d(_in_file(after, file), _in_file(before, file))) for file in changed)


def _in_file(positions: Mapping[str, Positions], file: InputFile) -> RowIds:
    """Return positions of rows that a file has: readers pass over others."""
    row_numbers = positions.get(file.location, np.empty(0, np.uint64)).astype(np.int64)
    return row_numbers[row_numbers < file.record_count]


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


LoadFiles = Callable[[TableMetadata, Snapshot | None, LiveFiles], LiveFiles]
"""Loads the live files of a snapshot; the last are those of an earlier one."""


@dataclass(frozen=True, slots=True)
class PlannedState:
    """The state that groups were planned on: a snapshot of a branch, and its live files."""

    branch: str
    snapshot_id: int | None
    format_version: int
    layout: Layout
    files: LiveFiles


@dataclass(slots=True)
class FileRewrite:
    """One commit of some groups, or of none, where deletes are dangling.

    After a try `changes` is what it changes, `lost` says why groups are not among it, and `carried`
    how many rows of the others were deleted meanwhile.
    """

    load: LoadFiles
    writer: SnapshotWriter
    planned: PlannedState
    results: Sequence[GroupResult]
    snapshot_id: int
    carrier: DeleteCarrier | None = None
    lost: dict[int, str] = field(default_factory=dict)
    changes: Changes | None = None
    carried: dict[int, int] = field(default_factory=dict)
    _newest: LiveFiles | None = None

    def propose(self, metadata: TableMetadata) -> Proposal:
        """Propose the snapshot on the newest metadata, and the files of what of it still holds.

        Nothing is proposed where there is nothing left to change.
        Raises: CommitConflict, where no group holds any more; StorageError; CorruptTable;
        Unsupported for manifests with fields that would be lost.
        """
        if metadata.format_version != self.planned.format_version:
            raise CommitConflict("the table's format version has changed meanwhile")
        if layout_of_table(metadata) is not self.planned.layout:
            raise CommitConflict("the table's layout has changed meanwhile")
        files = self._files(metadata)
        results = self._holding(files)
        self.changes = replace(changes(files, results), carried=sum(self.carried.values()))
        if not len(self.changes.removed) and not len(self.changes.added):
            return Proposal(())
        proposal = self.writer.replace_files(metadata, self.snapshot_id, files, self.changes)
        data = (location for (location,) in by_row(self.changes.added, "location"))
        return replace(proposal, files=proposal.files.union(data))

    def _files(self, metadata: TableMetadata) -> LiveFiles:
        """Return the live files of the branch's head, which most often is the one planned on."""
        snapshot = head(metadata, self.planned.branch)
        if snapshot is not None and snapshot.snapshot_id == self.planned.snapshot_id:
            return self.planned.files
        self._newest = self.load(metadata, snapshot, self._newest or self.planned.files)
        return self._newest

    def _holding(self, files: LiveFiles) -> list[GroupResult]:
        """Return the groups that may be committed on a head; why others may not is noted."""
        view = head_of(files, self.results)
        self.lost, self.carried = {}, {}
        holding = []
        for result in self.results:
            try:
                holding.append(self._held(result, files, view))
            except NotCarried as error:
                self.lost[result.number] = str(error)
        if self.results and not holding:
            raise CommitConflict(next(iter(self.lost.values())))
        return holding

    def _held(self, result: GroupResult, files: LiveFiles, head: LiveHead) -> GroupResult:
        """Return a group with the deletes that came meanwhile. Raises: NotCarried; as propose."""
        carrier = self.carrier
        reason = conflict(result, head, carries=carrier is not None)
        if reason is not None:
            raise NotCarried(reason)
        if carrier is None and result.moves_deletes:
            raise SelfCheckFailed(f"deleted rows of group {result.number} would be live again")
        is_same = not any(
            is_changed(task, file, head) for task in result.tasks for file in task.inputs
        )
        if carrier is None or (is_same and not result.moves_deletes):
            return result
        carried = carrier.carry(result, files, head)
        if not len(carried.entries):
            return result
        self.carried[result.number] = carried.row_count
        return replace(result, added=concat([result.added, carried.entries]))
