"""Committing rewritten files: the groups that are still valid, and deletes that came since.

A rewrite that keeps the order of rows puts each row at its rank among the live ones; one that sorts
them puts it where its row id is. So positions that others have deleted since are known in the new
files, and are deleted by the same commit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from icectl.commit.converted_deletes import DeleteConverter
from icectl.commit.partition_counts import PartitionCounter
from icectl.commit.rewritten_groups import (
    Changes,
    GroupResult,
    LiveHead,
    changes,
    conflict,
    head_of,
    is_changed,
)
from icectl.commit.snapshot import check_same_form, head
from icectl.commit.snapshot_writer import SnapshotWriter
from icectl.commit.transaction import DataOutputs, Proposal
from icectl.entries.rows import EMPTY, Entries, are_deletes, by_row, concat, where
from icectl.errors import CommitConflict, CorruptTable, MissingFile, SelfCheckFailed, Unsupported
from icectl.files.deletion_vectors import Positions
from icectl.files.parquet.schema import NameMapping
from icectl.format.metadata import TableMetadata
from icectl.format.properties import NAME_MAPPING
from icectl.format.schema import Schema
from icectl.format.snapshot import Snapshot
from icectl.format.types import can_promote, is_nested
from icectl.format.updates import AddSnapshot, apply_all
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
from icectl.table.rewrite_tasks import InputFile, MergeDeletesTask, Task, TaskMaker

_MOST_GONE = 0.5
"""The part of a group's rows in missing inputs from which on the group is dropped."""


@dataclass(frozen=True, slots=True)
class DeleteCarrier:
    """Carries deletes over to the new files of groups, for one table."""

    store: Store
    job: MergeJob
    places: DataOutputs
    has_vectors: bool
    names: NameMapping = ()

    def carry(self, result: GroupResult, files: LiveFiles, head: LiveHead) -> tuple[Entries, int]:
        """Write the deletes of a group's new files; `files` are those of the head.

        Returns entries of new delete files, and how many rows were deleted since the plan.
        Raises: NotCarried, if the group is dropped; StorageError; SelfCheckFailed.
        """
        missing = {file.location for file in result.inputs if head.entry(file.location) is None}
        missing_rows = sum(file.record_count for file in result.inputs if file.location in missing)
        if missing_rows >= _MOST_GONE * sum(file.record_count for file in result.inputs):
            raise NotCarried(
                f"`{min(missing)}` was removed by another commit" if missing else "it has no rows"
            )
        positions: dict[str, Positions] = {}
        newest = deleted_count = 0
        try:
            for task, output in zip(result.rewrites, result.outputs, strict=True):
                changed = [file for file in task.inputs if is_changed(task, file, head)]
                touched = task.inputs if output.keeps_deleted else changed
                if not touched:
                    continue
                rows = [head.row(file.location) for file in touched if head.entry(file.location)]
                check_deletes(files, rows)
                maker = TaskMaker(files.data, files.deletes, files.index, rows)
                current = maker.merge(rows, self._blank(task.group))
                vectors = [file.vector for file in current.inputs if file.vector is not None]
                numbers = [vector.sequence_number for vector in vectors]
                numbers += [file.sequence_number for file in current.delete_files]
                newest = max([newest, *numbers])
                after = joined(self._deleted(current), output.by_value) | {
                    file.location: np.arange(file.record_count, dtype=np.uint64)
                    for file in task.inputs
                    if file.location in missing
                }
                before = joined(self._deleted_then(task), output.by_value) if changed else {}
                deleted_count += new_count(changed, before, after)
                if output.by_row_id:
                    positions |= self._sorted_positions(task.inputs, before, after, output.files)
                else:
                    left_out = output.left_out if output.keeps_deleted else before
                    positions |= moved_positions(task.inputs, left_out, after, output.files)
        except MissingFile:  # of the head: lost, or removed since
            raise
        except (CorruptTable, Unsupported) as error:
            raise NotCarried(error.message) from error
        # Deletes apply to the new files from the greatest of their sequence numbers on.
        least = max(task.sequence_number for task in result.rewrites)
        return self._written(result, positions, max(newest, least)), deleted_count

    def _sorted_positions(
        self,
        inputs: Sequence[InputFile],
        before: Mapping[str, Positions],
        after: Mapping[str, Positions],
        new_files: Sequence[tuple[str, int]],
    ) -> Mapping[str, Positions]:
        """Return the same as moved_positions, for rows that are sorted in the new files.

        Cost: the row ids of the new files, and of inputs that have the column.
        """
        added = deleted_since(inputs, before, after, new_files)
        try:
            row_ids = [
                self._row_ids(_source(file))[added[file.location]]
                for file in inputs
                if len(added.get(file.location, ()))
            ]
        except (FileNotFoundError, MissingFile) as error:
            raise NotCarried("files that were sorted are gone with their snapshot") from error
        if not row_ids:
            return {}
        sources = (SourceFile(location, "PARQUET", count, 0) for location, count in new_files)
        ids_by_file = ((source.location, self._row_ids(source)) for source in sources)
        return positions_of_rows(np.concatenate(row_ids), ids_by_file)

    def _row_ids(self, source: SourceFile) -> RowIds:
        """Return the ids of the rows of a file, in their order; -1 for those without one."""
        ids_of_batches = [np.empty(0, np.int64)]
        with self.store.open(source.location) as file, naming(source.location):
            reader = open_source(file, source, Schema(0, LINEAGE[:1]), self.names)
            for rows in reader.stored():
                positions = np.arange(rows.first_row, rows.first_row + rows.batch.num_rows)
                ids = reader.project(rows.batch, positions).column(0)
                ids_of_batches.append(pc.fill_null(ids, -1).to_numpy())
        return np.concatenate(ids_of_batches)

    def _blank(self, group: int) -> MergeDeletesTask:
        return MergeDeletesTask(
            f"{group}-0", group, (), (), "vectors" if self.has_vectors else "positions"
        )

    def _deleted_then(self, task: Task) -> dict[str, Positions]:
        """Return the deleted rows of a task as planned. Raises: NotCarried, if they expired."""
        try:
            return self._deleted(task)
        except MissingFile as error:
            reason = "deletes that the plan was made with have expired with their snapshot"
            raise NotCarried(reason) from error

    def _deleted(self, task: Task) -> dict[str, Positions]:
        """Return the rows of a task's inputs that its deletes by position delete."""
        outputs = FileOutputs.without_places(self.store)
        locations = [file.location for file in task.inputs]
        deletes = deletes_by_position(task, self.job.scheme)
        merged = merged_positions(locations, deletes, outputs)
        none = np.empty(0, np.uint64)
        return {location: merged.get(location, none) for location in locations}

    def _written(
        self, result: GroupResult, vectors: Mapping[str, Positions], sequence_number: int
    ) -> Entries:
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
        # Entries of deletes take only the partition from a data file: that of the new ones.
        template = replace(
            first.inputs[0], spec_id=first.spec_id, partition_key=first.partition_key
        )
        inputs = dict.fromkeys(vectors, template)
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


LoadFiles = Callable[[TableMetadata, Snapshot | None, LiveFiles], LiveFiles]
"""Loads the live files of a snapshot; the last argument is those of an earlier one."""


@dataclass(frozen=True, slots=True)
class PlannedState:
    """The base of a plan: the table, a snapshot of a branch, and its live files."""

    metadata: TableMetadata
    branch: str
    snapshot_id: int | None
    files: LiveFiles

    def lacks(self, field_id: int) -> bool:
        """Return whether new files lack a column that the files they replace may have.

        New files have the columns of the table as planned; later columns are in neither.
        """
        known = self.metadata.current_schema.all_fields
        return field_id <= self.metadata.last_column_id and field_id not in known

    def unlike(self, metadata: TableMetadata) -> str | None:
        """Return why new files may show other values; None if they don't.

        They lack a column, have it in a type that can't be read, or were read by other names.
        """
        if metadata.properties.get(name := NAME_MAPPING.name) != self.metadata.properties.get(name):
            return f"the property `{name}` has changed"
        version, known = metadata.format_version, self.metadata.current_schema.all_fields
        schema = metadata.current_schema
        for id_, item in schema.all_fields.items():
            is_read = id_ not in known or can_promote(known[id_].type, item.type, version)
            if self.lacks(id_) or not (is_read or is_nested(item.type)):
                return f"the column `{schema.name_of(id_)}` is as in an older schema again"
        return None


@dataclass(slots=True)
class FileRewrite:
    """One commit of some groups, or of none, if deletes are dangling.

    `counter` brings the statistics of partitions up to date that the head has.
    `converter` has equality deletes to convert beside the groups of `results`. If they delete rows,
    the commit adds two snapshots: a first one that has the new deletes beside them, and is not
    a replacement to others.

    After an attempt `changes` is its changes, `lost` the reasons of dropped groups, and `carried`
    how many rows of the others were deleted since.
    """

    load: LoadFiles
    writer: SnapshotWriter
    planned: PlannedState
    results: Sequence[GroupResult]
    snapshot_id: int
    carrier: DeleteCarrier | None = None
    counter: PartitionCounter | None = None
    converter: DeleteConverter | None = None
    lost: dict[int, str] = field(default_factory=dict)
    changes: Changes | None = None
    carried: dict[int, int] = field(default_factory=dict)
    converted: GroupResult | None = None
    _newest: LiveFiles | None = None

    def propose(self, metadata: TableMetadata) -> Proposal:
        """Propose the snapshot on the newest metadata, with the groups that are still valid.

        Proposes nothing if nothing is left to change.
        Raises: CommitConflict, if no group is still valid; StorageError; CorruptTable;
        Unsupported for manifests with fields that would be lost.
        """
        check_same_form(self.planned.metadata, metadata)
        # The head is most often that of the plan.
        snapshot, files = head(metadata, self.planned.branch), self.planned.files
        if snapshot is None or snapshot.snapshot_id != self.planned.snapshot_id:
            files = self._newest = self.load(metadata, snapshot, self._newest or files)
        results = self._valid(files, self.planned.unlike(metadata))
        if self.converter is not None:
            self.converted = self.converter.result(files)
            results.append(self.converted)
        self.changes = replace(changes(files, results), carried=sum(self.carried.values()))
        if not len(self.changes.removed) and not len(self.changes.added):
            return Proposal(())
        if self.converter is not None and self.converter.has_found:
            proposal = self._in_two_steps(metadata, files, results, self.converter)
        else:
            proposal = self.writer.replace_files(metadata, self.snapshot_id, files, self.changes)
        if self.counter is not None:
            moved = files.listed, self.changes.added, self.changes.removed
            proposal = self.counter.counted(metadata, snapshot, proposal, self.snapshot_id, *moved)
        data = (location for (location,) in by_row(self.changes.added, "location"))
        return replace(proposal, files=proposal.files.union(data))

    def _in_two_steps(
        self,
        metadata: TableMetadata,
        files: LiveFiles,
        results: Sequence[GroupResult],
        converter: DeleteConverter,
    ) -> Proposal:
        """Propose a snapshot with new deletes, and one without those that they stand for.

        Rewrites of Iceberg's Java library look for new deletes in snapshots that add some by their
        own account, and pass over replacements. One that began before an equality delete came must
        find it in one form or the other, else its rows are live again. So the first snapshot has
        the operation of those that brought the equality deletes.
        """
        added = [replace(result, converted=frozenset()) for result in results]
        first_changes = replace(changes(files, added), operation=self._operation(metadata, files))
        first = self.writer.replace_files(metadata, converter.snapshot_id, files, first_changes)
        between = apply_all(metadata, first.updates)
        now = self.load(between, head(between, self.planned.branch), files)
        converted = [
            GroupResult(result.number, (), EMPTY, converted=result.converted) for result in results
        ]
        last = self.writer.replace_files(between, self.snapshot_id, now, changes(now, converted))
        new = [update for update in first.updates if isinstance(update, AddSnapshot)]
        return Proposal((*new, *last.updates), first.files | last.files)

    def _operation(self, metadata: TableMetadata, files: LiveFiles) -> str:
        """Return the operation that brought equality deletes: readers who skip these skip more."""
        assert self.converted is not None
        keys = frozenset((location, None) for location in self.converted.converted)
        brought = where(files.deletes, are_deletes(files.deletes, keys))
        snapshots = (metadata.snapshot(id_) for (id_,) in by_row(brought, "snapshot_id"))
        operations = {item and (item.summary or {}).get("operation") for item in snapshots}
        return "delete" if operations == {"delete"} else "overwrite"

    def _valid(self, files: LiveFiles, unlike: str | None) -> list[GroupResult]:
        """Return the groups that may be committed on a head; notes the reasons of others.

        No data file is replaced if new ones are `unlike` it, as that says.
        """
        view = head_of(files, self.results)
        self.lost, self.carried = {}, {}
        valid = []
        for result in self.results:
            if unlike is not None and result.rewrites:
                self.lost[result.number] = unlike
                continue
            try:
                valid.append(self._with_deletes(result, files, view))
            except NotCarried as error:
                self.lost[result.number] = str(error)
        if self.results and not valid and self.converter is None:
            raise CommitConflict(next(iter(self.lost.values())))
        return valid

    def _with_deletes(self, result: GroupResult, files: LiveFiles, head: LiveHead) -> GroupResult:
        """Add the deletes that came since the plan to a group. Raises: NotCarried; as propose."""
        carrier = self.carrier
        reason = conflict(result, head, carries=carrier is not None, lacks=self.planned.lacks)
        if reason is not None:
            raise NotCarried(reason)
        if carrier is None and result.moves_deletes:
            raise SelfCheckFailed(f"deleted rows of group {result.number} would be live again")
        is_same = not any(
            is_changed(task, file, head) for task in result.tasks for file in task.inputs
        )
        if carrier is None or (is_same and not result.moves_deletes):
            return result
        entries, row_count = carrier.carry(result, files, head)
        if not len(entries):
            return result
        self.carried[result.number] = row_count
        return replace(result, added=concat([result.added, entries]))
