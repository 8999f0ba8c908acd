"""A `replace` snapshot of rewritten files: which of them still hold on the newest metadata."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from icectl.commit.rewritten_groups import Changes, GroupResult, changes, conflict, head_of
from icectl.commit.snapshot import head
from icectl.commit.snapshot_writer import SnapshotWriter
from icectl.commit.transaction import Proposal
from icectl.entries.deletes.by_file import NamedFiles
from icectl.entries.rows import by_row
from icectl.errors import CommitConflict
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.table.rewritable_files import LiveFiles

LoadFiles = Callable[[TableMetadata, Snapshot | None, NamedFiles], LiveFiles]
"""Loads the live files of a snapshot; the last are position delete files read before."""


@dataclass(frozen=True, slots=True)
class PlannedState:
    """The state that groups were planned on: a snapshot of a branch, and its live files."""

    branch: str
    snapshot_id: int | None
    format_version: int
    files: LiveFiles


@dataclass(slots=True)
class FileRewrite:
    """One commit of some groups, or of none, where deletes are dangling.

    After a try `changes` is what it changes, and `lost` says why groups are not among it.
    """

    load: LoadFiles
    writer: SnapshotWriter
    planned: PlannedState
    results: Sequence[GroupResult]
    snapshot_id: int
    lost: dict[int, str] = field(default_factory=dict)
    changes: Changes | None = None

    def propose(self, metadata: TableMetadata) -> Proposal:
        """Propose the snapshot on the newest metadata, and the files of what of it still holds.

        Nothing is proposed where there is nothing left to change.
        Raises: CommitConflict, where no group holds any more; StorageError; CorruptTable;
        Unsupported for manifests with fields that would be lost.
        """
        if metadata.format_version != self.planned.format_version:
            raise CommitConflict("the table's format version has changed meanwhile")
        files = self._files(metadata)
        results = self._holding(files)
        self.changes = changes(files, results)
        if not len(self.changes.removed) and not len(self.changes.added):
            return Proposal(())
        groups = tuple(result.number for result in results)
        made = self.writer.replace_files(metadata, self.snapshot_id, files, self.changes, groups)
        data = (location for (location,) in by_row(self.changes.added, "location"))
        return replace(made, files=made.files.union(data))

    def _files(self, metadata: TableMetadata) -> LiveFiles:
        """Return the live files of the branch's head, which most often is the one planned on."""
        snapshot = head(metadata, self.planned.branch)
        if snapshot is not None and snapshot.snapshot_id == self.planned.snapshot_id:
            return self.planned.files
        return self.load(metadata, snapshot, self.planned.files.named_files)

    def _holding(self, files: LiveFiles) -> list[GroupResult]:
        """Return the groups that may be committed on a head; why others may not is noted."""
        view = head_of(files, self.results)
        reasons = {result.number: conflict(result, view) for result in self.results}
        self.lost = {number: reason for number, reason in reasons.items() if reason is not None}
        if self.results and len(self.lost) == len(self.results):
            raise CommitConflict(next(iter(self.lost.values())))
        return [result for result in self.results if result.number not in self.lost]
