"""Rows deleted: whole files where that is provable, deletion vectors for the rows of others."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from icectl import __version__
from icectl.commands.compact.run import live_files
from icectl.commands.rows.change import (
    OpenChange,
    RowChange,
    changing,
    open_for_rows,
    row_change,
    whole_files,
)
from icectl.commands.rows.read import blank_task, condition_ids, condition_job
from icectl.commit.rewritten_groups import GroupResult, changes
from icectl.commit.snapshot import head
from icectl.commit.transaction import Proposal, data_places
from icectl.entries.conditions import Predicate, parse_where
from icectl.entries.deletes import NamedFiles, known_deleted_rows
from icectl.entries.may_match import METRICS, all_match, may_match
from icectl.entries.rows import EMPTY, Entries, data_files, numbers
from icectl.errors import CommitConflict
from icectl.files.deletion_vectors import Positions
from icectl.format.file_names import data_location, delete_file_name
from icectl.format.locations import relative_base
from icectl.format.metadata import TableMetadata
from icectl.rows.find_job import FindJob, FoundRows, Keys
from icectl.rows.merge_deletes import delete_file_entries, write_vectors
from icectl.rows.write_data import FileOutputs
from icectl.table.context import TableContext
from icectl.table.rewrite_tasks import (
    Bin,
    InputFile,
    MergeDeletesTask,
    RewriteTask,
    TaskMaker,
)


class Finder(Protocol):
    """What finds rows in data files, wherever it reads them."""

    def find(self, tasks: Sequence[RewriteTask], job: FindJob) -> Sequence[FoundRows]:
        """Find rows in the files of all tasks."""


@dataclass(frozen=True, slots=True)
class WantedRows:
    """The rows that go: those that a condition is true of, or that have one of some keys.

    `within` holds for all of them.
    """

    rows: Predicate | Keys
    within: Predicate


def where(text: str) -> Callable[[TableMetadata], WantedRows]:
    """Return the rows that a text in the language of `--where` is true of, for a table."""

    def of(metadata: TableMetadata) -> WantedRows:
        predicate = parse_where(text, metadata)
        condition_ids(predicate)
        return WantedRows(predicate, predicate)

    return of


def delete(
    context: TableContext,
    finder: Finder,
    wanted: Callable[[TableMetadata], WantedRows],
    branch: str,
) -> RowChange:
    """Delete rows of a branch. Nothing is committed where there are none.

    After another writer's commit only the files that it brought are looked at anew.
    Raises: UsageError, Refused, Unsupported, before anything is written; CommitConflict, where
    other writers were faster too often; CommitUnknown; EngineError; StorageError; CorruptTable.
    """
    loaded = open_for_rows(context, branch)
    condition = wanted(loaded.metadata)
    with changing(context, loaded, branch, data_places(loaded.metadata, [""])) as change:
        deletion = _Deletion(context, finder, condition, change)
        landed = None
        try:
            landed = change.opened.commit(deletion.propose)
        except CommitConflict:
            if not deletion.is_nothing:
                raise
        if landed is None:
            return RowChange(None, loaded.metadata_location)
    return RowChange(
        change.snapshot_id,
        landed.metadata_location,
        removed_data_files=deletion.removed_files,
        deleted_rows=deletion.deleted_rows,
    )


@dataclass(slots=True)
class _Deletion:
    """A deletion under way; what was found in a file holds as long as its deletes are the same."""

    context: TableContext
    finder: Finder
    wanted: WantedRows
    change: OpenChange
    is_nothing: bool = False
    removed_files: int = 0
    deleted_rows: int = 0
    _named: NamedFiles = field(default_factory=dict)
    _found: dict[object, FoundRows | None] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def propose(self, metadata: TableMetadata) -> Proposal:
        """Propose the deletion on the newest metadata; nothing where no row is left to delete."""
        snapshot = head(metadata, self.change.branch)
        files = live_files(
            self.context, metadata, snapshot, self._named, METRICS, self.wanted.within
        )
        self._named = files.named_files
        specs, schemas = metadata.partition_specs, metadata.schemas
        may = may_match(files.data, self.wanted.within, specs, schemas)
        whole: list[int] = []  # data files that go, by their rows
        if not isinstance(self.wanted.rows, Keys):
            all_ = may & all_match(files.data, self.wanted.rows, specs, schemas)
            whole, may = all_.nonzero()[0].tolist(), may & ~all_
        partial: list[int] = may.nonzero()[0].tolist()  # those to look at
        maker = TaskMaker(files.data, files.deletes, files.index, [*whole, *partial])
        found_rows = self._find_rows(metadata, maker, partial)
        emptied = {row.location for row in found_rows if not row.live_count}
        live = numbers(files.data, "record_count") - known_deleted_rows(files.matches)
        of_whole = int(live[whole].sum()) if whole else 0
        self.deleted_rows = of_whole + sum(row.count for row in found_rows)
        if not whole and not found_rows:
            self.is_nothing = True
            return Proposal(())
        places = files.data.table["location"]
        rows = {places[row].as_py(): row for row in partial}
        removed_rows = sorted([*whole, *(row for place, row in rows.items() if place in emptied)])
        partly_deleted = [row for row in found_rows if row.live_count]
        blank = MergeDeletesTask("m-0", 1, (), (), "vectors")
        merging = maker.merge([rows[rewritten.location] for rewritten in partly_deleted], blank)
        vectors = self._vectors(metadata, merging.inputs, partly_deleted)
        results = [
            GroupResult(0, (whole_files(metadata, maker, removed_rows),), EMPTY),
            GroupResult(1, (merging,), vectors),
        ]
        file_changes = changes(files, [result for result in results if result.inputs])
        self.removed_files = len(data_files(file_changes.removed))
        return self.change.propose(
            metadata, lambda facts, _: row_change(facts, file_changes, files), file_changes.added
        )

    def _find_rows(
        self, metadata: TableMetadata, maker: TaskMaker, file_rows: Sequence[int]
    ) -> list[FoundRows]:
        """Find rows in files; only new files are read."""
        tasks = [maker.rewrite(Bin((row,), None, 0), blank_task(metadata)) for row in file_rows]
        fresh = [task for task in tasks if _key(task) not in self._found]
        if fresh:
            job = FindJob(condition_job(metadata, self.wanted.within), self.wanted.rows)
            rows_by_location = {
                rows_of_file.location: rows_of_file for rows_of_file in self.finder.find(fresh, job)
            }
            self._found |= {
                _key(task): rows_by_location.get(task.inputs[0].location) for task in fresh
            }
        known = (self._found[_key(task)] for task in tasks)
        return [rows_of_file for rows_of_file in known if rows_of_file is not None]

    def _vectors(
        self, metadata: TableMetadata, inputs: Sequence[InputFile], rows: Sequence[FoundRows]
    ) -> Entries:
        """Write deletion vectors of files, as entries of the new snapshot."""
        outputs = self.change.opened.outputs

        def next_location(partition: str) -> str:
            number = next(self._numbers)
            name = delete_file_name(0, 0, outputs.journal.uuid, number, is_vector=True)
            return outputs.add(
                data_location(metadata.location, metadata.properties, partition, name)
            )

        merged: dict[str, Positions] = {row.location: row.positions for row in rows}
        written = FileOutputs(next_location, self.context.store.open_new, self.context.store.open)
        base = relative_base(metadata)
        vectors = write_vectors(merged, f"icectl {__version__}", written, base)
        by_location = {file.location: file for file in inputs}
        number = metadata.last_sequence_number + 1
        return Entries(delete_file_entries(by_location, vectors, lambda _: number))


def _key(task: RewriteTask) -> object:
    """Return what decides which rows of a file are live."""
    return task.inputs, task.delete_files
