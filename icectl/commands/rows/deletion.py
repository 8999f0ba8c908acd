"""Delete rows in one commit: drop whole files, and delete rows of other files.

A file is dropped if bounds and partitions prove that all its rows match. Other files that may have
matching rows are read. Their rows are deleted by position, or the files are rewritten.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal, Protocol

import numpy as np

from icectl import __version__
from icectl.catalog.protocol import LoadedTable
from icectl.commands.rows.change import OpenChange, whole_files
from icectl.commands.rows.read import blank_task, condition_job
from icectl.commit.rewritten_groups import GroupResult, changes
from icectl.commit.snapshot import head
from icectl.commit.transaction import Proposal
from icectl.entries.columns import Integers
from icectl.entries.conditions import Constant, Predicate
from icectl.entries.deletes import (
    NamedFiles,
    compared_keys,
    equality_delete_counts,
    known_deleted_rows,
)
from icectl.entries.may_match import METRICS, all_match, may_match
from icectl.entries.rows import EMPTY, Entries, data_files, numbers, take
from icectl.errors import CommitConflict, MissingFile
from icectl.files.deletion_vectors import Positions
from icectl.format.file_names import data_location, delete_file_name
from icectl.format.locations import relative_base
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.rows.compact_job import partition_of
from icectl.rows.find_job import FindJob, FoundRows, Keys, run_find
from icectl.rows.jobs import merge_job
from icectl.rows.merge_deletes import (
    MergedDeletes,
    delete_file_entries,
    write_delete_file,
    write_vectors,
)
from icectl.rows.named_files import live_files
from icectl.rows.write_data import FileOutputs
from icectl.table.context import TableContext
from icectl.table.live_files import LiveFiles, check_deletes
from icectl.table.reading import in_threads
from icectl.table.rewrite_tasks import (
    Bin,
    InputFile,
    MergeDeletesTask,
    RewriteTask,
    TaskMaker,
    TaskVector,
)


class Finder(Protocol):
    """What finds rows in data files, wherever it reads them."""

    def find(self, tasks: Sequence[RewriteTask], job: FindJob) -> Sequence[FoundRows]:
        """Find rows in the files of all tasks."""


@dataclass(frozen=True, slots=True)
class ThreadFinder:
    """Finds rows in threads of this process."""

    context: TableContext

    def find(self, tasks: Sequence[RewriteTask], job: FindJob) -> Sequence[FoundRows]:
        """Find rows in the files of all tasks, one each. Raises: MissingFile; as run_find."""
        outputs = FileOutputs.without_places(self.context.store)
        self.context.progress.phase("looking for rows", total=len(tasks))

        def run(task: RewriteTask) -> list[FoundRows]:
            self.context.deadline.check()
            try:
                return run_find(task, job, outputs)
            except FileNotFoundError as error:
                raise MissingFile(task.inputs[0].location) from error
            finally:
                self.context.progress.advance(1)

        sizes = [task.inputs[0].size_bytes for task in tasks]
        threads = self.context.concurrency
        return [rows for found in in_threads(run, tasks, sizes, threads=threads) for rows in found]


@dataclass(frozen=True, slots=True)
class WantedRows:
    """The rows that go: those that a condition is true of, or that have one of some keys.

    `within` holds for all of them.
    """

    rows: Predicate | Keys
    within: Predicate


@dataclass(frozen=True, slots=True)
class SearchedFiles:
    """Live files of a head: data files of which all rows go, and those to read, by their rows."""

    files: LiveFiles
    whole: list[int]
    partial: list[int]


def choose(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    wanted: WantedRows,
    named: NamedFiles,
) -> SearchedFiles:
    """Choose data files by partitions and bounds. Raises: what loading live files raises."""
    files = live_files(context, metadata, snapshot, named, METRICS, wanted.within)
    specs, schemas = metadata.partition_specs, metadata.schemas
    may = may_match(files.data, wanted.within, specs, schemas)
    whole: list[int] = []
    if not isinstance(wanted.rows, Keys):
        all_ = may & all_match(files.data, wanted.rows, specs, schemas)
        whole, may = all_.nonzero()[0].tolist(), may & ~all_
    return SearchedFiles(files, whole, may.nonzero()[0].tolist())


def live_counts(files: LiveFiles) -> Integers:
    """Count the rows of each data file that vectors and position deletes leave."""
    return numbers(files.data, "record_count") - known_deleted_rows(files.matches)


def _known_count(files: LiveFiles) -> int:
    """Count the rows of a snapshot that vectors and position deletes leave, as far as known.

    Those of manifests that were not read are as their list says, without as many as deletes have
    that apply to no file that was read.
    """
    unread = _listed_rows(files.unread)
    if unread:
        deleted = _listed_rows(files.needless) + int(
            numbers(files.deletes, "record_count")[files.unused].sum()
        )
        unread = max(unread - deleted, 0)
    return int(live_counts(files).sum()) + unread


def _listed_rows(manifests: Sequence[ManifestFile]) -> int:
    return sum((item.added_rows_count or 0) + (item.existing_rows_count or 0) for item in manifests)


@dataclass(frozen=True, slots=True)
class FoundDeletion:
    """The rows of a head that go: data files with all rows, by their rows, and rows of others.

    `rows` has the row of each file in `found`. `maker` makes tasks of all of them.
    """

    metadata: TableMetadata
    snapshot: Snapshot | None
    files: LiveFiles
    maker: TaskMaker
    whole: list[int]
    found: list[FoundRows]
    rows: Mapping[str, int]

    @property
    def is_nothing(self) -> bool:
        return not self.whole and not self.found

    @property
    def emptied(self) -> list[int]:
        """Rows of data files without a row that stays."""
        found = (self.rows[found.location] for found in self.found if not found.live_count)
        return sorted([*self.whole, *found])

    @property
    def partly(self) -> list[FoundRows]:
        """What was found in data files of which rows stay."""
        return [found for found in self.found if found.live_count]

    def deleted_rows(self, counted: Mapping[str, int]) -> int:
        """Count live rows that go; of files that were not `counted`, as far as manifests say."""
        return sum(self.whole_counts(counted)) + sum(found.count for found in self.found)

    def whole_counts(self, counted: Mapping[str, int]) -> list[int]:
        """Count the live rows of files with all rows, as deleted_rows."""
        known = live_counts(self.files)[self.whole].tolist()
        locations = take(self.files.data, self.whole).table["location"].to_pylist()
        return [counted.get(place, count) for place, count in zip(locations, known, strict=True)]


@dataclass(slots=True)
class RowSearch:
    """A search for the rows that go; what was found in a file holds while its deletes are the same.

    `restrict` may take files out, and have whole ones read. With `finds_deleted`, files are found
    too of which such rows are deleted, but still there. `known` is what is in files, by location,
    whatever was deleted of them: those without deletes are not read again.
    """

    context: TableContext
    finder: Finder
    wanted: WantedRows
    restrict: Callable[[TableMetadata, SearchedFiles], SearchedFiles] = lambda _, chosen: chosen
    finds_deleted: bool = False
    known: Mapping[str, FoundRows] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    """The live rows of data files that were read for live_count."""

    _named: NamedFiles = field(default_factory=dict)
    _found: dict[object, FoundRows | None] = field(default_factory=dict)

    def look(self, metadata: TableMetadata, snapshot: Snapshot | None) -> FoundDeletion:
        """Find what goes on a head; only files that are new to the search are read.

        Raises: Unsupported, CorruptTable, where it is not known which rows of a file are live; what
        loading live files and finding rows raises.
        """
        chosen = choose(self.context, metadata, snapshot, self.wanted, self._named)
        self._named = chosen.files.named_files
        chosen = self.restrict(metadata, chosen)
        files, read = chosen.files, chosen.partial
        check_deletes(files, [*chosen.whole, *read])
        maker = TaskMaker(files.data, files.deletes, files.index, [*chosen.whole, *read])
        found = self._find(metadata, maker, read)
        places = files.data.table["location"]
        rows = {places[row].as_py(): row for row in read}
        return FoundDeletion(metadata, snapshot, files, maker, chosen.whole, found, rows)

    def live_count(self, looked: FoundDeletion, most: float) -> int:
        """Count the live rows of a head, of which the part `most` may be deleted.

        Rows that deletes may remove whose rows manifests do not count, as equality deletes, count
        as live only where the deletion is no more than that part of rows that surely are.
        Cost: where it takes that, files with such deletes are read, until enough rows are live.
        """
        self.counted.clear()
        known, deleted = _known_count(looked.files), looked.deleted_rows({})
        if not 0 < deleted <= most * known:
            return known
        enough = deleted / most
        sure = self._sure_count(looked, enough)
        return known if sure >= enough else sure

    def _sure_count(self, looked: FoundDeletion, enough: float) -> int:
        """Count rows that surely are live: all of them, or `enough`."""
        files, metadata = looked.files, looked.metadata
        doubtful = _doubtful_files(files)
        counts = live_counts(files)
        clear = int(counts.sum() - counts[doubtful].sum())
        if files.unread and not (files.needless or len(files.deletes)):
            clear += _listed_rows(files.unread)
        elif files.unread and clear < enough:
            whole = live_files(self.context, metadata, looked.snapshot, self._named)
            self._named = whole.named_files
            return self._sure_count(replace(looked, files=whole), enough)
        check_deletes(files, doubtful)
        maker = TaskMaker(files.data, files.deletes, files.index, doubtful.tolist())
        blank, everything = blank_task(metadata), Constant(value=True)
        job = FindJob(condition_job(metadata, everything), everything)
        ends = np.cumsum(counts[doubtful])
        start = stop = 0
        sure = clear
        while sure < enough and start < len(doubtful):
            missing = enough - sure + (ends[start - 1] if start else 0)
            stop = max(2 * stop, int(np.searchsorted(ends, missing)) + 1)
            rows = doubtful[start:stop].tolist()
            tasks = [maker.rewrite(Bin((row,), None, 0), blank) for row in rows]
            self.counted |= {task.inputs[0].location: 0 for task in tasks}
            self.counted |= {one.location: one.count for one in self.finder.find(tasks, job)}
            sure = clear + sum(self.counted.values())
            start = stop
        return sure

    def _find(
        self, metadata: TableMetadata, maker: TaskMaker, file_rows: Sequence[int]
    ) -> list[FoundRows]:
        tasks = [maker.rewrite(Bin((row,), None, 0), blank_task(metadata)) for row in file_rows]
        for task in tasks:
            (file,) = task.inputs
            if file.location in self.known and not task.delete_files and file.vector is None:
                self._found[_key(task)] = self.known[file.location]
        fresh = [task for task in tasks if _key(task) not in self._found]
        if fresh:
            reading = condition_job(metadata, self.wanted.within)
            job = FindJob(reading, self.wanted.rows, self.finds_deleted)
            rows_by_location = {
                rows_of_file.location: rows_of_file for rows_of_file in self.finder.find(fresh, job)
            }
            self._found |= {
                _key(task): rows_by_location.get(task.inputs[0].location) for task in fresh
            }
        known = (self._found[_key(task)] for task in tasks)
        return [rows_of_file for rows_of_file in known if rows_of_file is not None]


def _doubtful_files(files: LiveFiles) -> Integers:
    """Return the data files with deletes whose rows manifests do not count, fewest keys first."""
    is_doubtful = equality_delete_counts(files.matches) > 0
    is_doubtful[files.named.data_rows] = True
    rows = np.flatnonzero(is_doubtful)
    return rows[np.argsort(compared_keys(files.matches)[rows], kind="stable")]


Rewrite = Callable[
    [TableMetadata, Sequence[RewriteTask], Sequence[RewriteTask]], Sequence[GroupResult]
]
"""Rewrites data files without deleted rows: tasks as they are live, and with these rows deleted."""


@dataclass(slots=True)
class RowDeletion:
    """A deletion under way, of what a search finds on each attempt's head.

    `rewrite`, if given, takes the place of deletes by position. `check` is asked before each
    attempt; what it raises ends the deletion.
    """

    search: RowSearch
    change: OpenChange
    rewrite: Rewrite | None = None
    check: Callable[[FoundDeletion], None] = lambda _: None
    _is_nothing: bool = False
    removed_files: int = 0
    added_files: int = 0
    deleted_rows: int = 0
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def commit(self) -> LoadedTable | None:
        """Commit the deletion, and return the table after it; None if no row is left to delete.

        Raises: CommitConflict, where other writers were faster too often; what proposing raises.
        """
        try:
            return self.change.opened.commit(self._propose)
        except CommitConflict:
            if self._is_nothing:
                return None
            raise

    def _propose(self, metadata: TableMetadata) -> Proposal:
        """Propose the deletion on the newest metadata; nothing where no row is left to delete.

        Raises: CommitConflict, where the table's schema or form has changed since then; Refused.
        Spec: R-154; each attempt looks in the newest files, so no row that came is missed.
        """
        self.change.check_form(metadata)  # the condition is about columns of that schema
        looked = self.search.look(metadata, head(metadata, self.change.branch))
        self.deleted_rows, self._is_nothing = 0, looked.is_nothing
        if looked.is_nothing:
            return Proposal(())
        self.check(looked)
        self.deleted_rows = looked.deleted_rows(self.search.counted)
        files, maker = looked.files, looked.maker
        whole = whole_files(metadata, maker, looked.emptied)
        results = [GroupResult(0, (whole,), EMPTY)]
        partly = looked.partly
        rows = [looked.rows[found.location] for found in partly]
        if partly and self.rewrite is not None:
            results += self._rewritten(metadata, maker, rows, partly, self.rewrite)
        elif partly:
            form: Literal["positions", "vectors"] = (
                "vectors" if metadata.format_version >= 3 else "positions"
            )
            merging = maker.merge(rows, MergeDeletesTask("m-0", 1, (), (), form))
            results.append(GroupResult(1, (merging,), self._deletes(metadata, merging, partly)))
        file_changes = changes(files, [result for result in results if result.inputs])
        self.added_files = len(data_files(file_changes.added))
        self.removed_files = len(data_files(file_changes.removed))
        operation = "overwrite" if self.added_files else "delete"
        file_changes = replace(file_changes, operation=operation)
        return self.change.replace_files(metadata, file_changes, files)

    def _outputs(self, metadata: TableMetadata, *, is_vector: bool) -> FileOutputs:
        """Return the outputs of new deletes: each is recorded before it is written."""
        outputs, store = self.change.opened.outputs, self.change.context.store

        def next_location(partition: str) -> str:
            number = next(self._numbers)
            name = delete_file_name(0, 0, outputs.journal.uuid, number, is_vector=is_vector)
            return outputs.add(
                data_location(metadata.location, metadata.properties, partition, name)
            )

        return FileOutputs(next_location, store.open_new, store.open)

    def _vectors(
        self, metadata: TableMetadata, found: Sequence[FoundRows], base: str
    ) -> Sequence[MergedDeletes]:
        merged: dict[str, Positions] = {row.location: row.positions for row in found}
        outputs = self._outputs(metadata, is_vector=True)
        return write_vectors(merged, f"icectl {__version__}", outputs, base)

    def _deletes(
        self, metadata: TableMetadata, merging: MergeDeletesTask, found: Sequence[FoundRows]
    ) -> Entries:
        """Write all deletes by position of files, as entries of the new snapshot."""
        by_location = {file.location: file for file in merging.inputs}
        if merging.form == "vectors":
            written = self._vectors(metadata, found, relative_base(metadata))
        else:
            job, outputs = merge_job(metadata), self._outputs(metadata, is_vector=False)

            def write(row: FoundRows) -> MergedDeletes:
                file = by_location[row.location]
                path = partition_of(file.partition_key, job.specs[file.spec_id]).path
                return write_delete_file(row.location, row.positions, path, job.parquet, outputs)

            written = [write(row) for row in found]
        return Entries(delete_file_entries(by_location, written, lambda _: _next_number(metadata)))

    def _rewritten(
        self,
        metadata: TableMetadata,
        maker: TaskMaker,
        rows: Sequence[int],
        found: Sequence[FoundRows],
        rewrite: Rewrite,
    ) -> Sequence[GroupResult]:
        """Rewrite files: what goes is in vectors that only the rewrite reads."""
        vectors = {
            delete.data_file: TaskVector(
                delete.location,
                delete.content_offset or 0,
                delete.content_size_in_bytes or 0,
                delete.record_count,
                0,
            )
            for delete in self._vectors(metadata, found, "")
        }
        tasks, without = [], []
        for row in rows:
            number = next(self._numbers)  # files of an attempt before have others
            task = maker.rewrite(Bin((row,), None, 0), blank_task(metadata))
            (file,) = task.inputs
            task = replace(
                task,
                task_id=f"{number}-0",
                group=number,
                spec_id=file.spec_id,
                partition_key=file.partition_key,
                sequence_number=_next_number(metadata),
                roll_bytes=max(2 * file.size_bytes, 1),
            )
            tasks.append(task)
            deleted: InputFile = replace(
                file, vector=vectors[file.location], position_deletes=(), equality_deletes=()
            )
            without.append(replace(task, inputs=(deleted,), delete_files=()))
        return rewrite(metadata, tasks, without)


def _next_number(metadata: TableMetadata) -> int:
    """Return the sequence number of the next snapshot, which new files have too."""
    return metadata.last_sequence_number + 1 if metadata.format_version > 1 else 0


def _key(task: RewriteTask) -> object:
    """Return what decides which rows of a file are live."""
    return task.inputs, task.delete_files
