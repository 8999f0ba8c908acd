"""A `replace` snapshot of rewritten files: which of them still hold on the newest metadata."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from icectl.commit.carried_positions import NotCarried
from icectl.commit.carry import DeleteCarrier
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
from icectl.commit.transaction import Proposal
from icectl.entries.rows import by_row, concat
from icectl.errors import CommitConflict, SelfCheckFailed
from icectl.format.layout import Layout, layout_of_table
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.table.rewritable_files import LiveFiles

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
