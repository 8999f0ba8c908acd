"""Deleting orphans, or moving them: each file is looked at once more before it goes."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from icectl.catalog.protocol import LoadedTable
from icectl.commands.remove_orphans.purge import tidy_lists
from icectl.commands.remove_orphans.quarantine import Quarantine, is_same_second
from icectl.commands.remove_orphans.search import PreparedRemoval, check_same_place, open_deletable
from icectl.commit.deletion import BATCH, remove_batch
from icectl.entries.files import ListedFile, ListedFiles, excluding, listed_files, slices, where
from icectl.errors import IcectlError, StorageError
from icectl.storage import location as locations
from icectl.storage.many_files import ManyFiles, each_file
from icectl.storage.store import FailedRemoval
from icectl.table.context import TableContext
from icectl.table.orphan_verdicts import check_sums_last, described_files
from icectl.table.own_places import OtherTables
from icectl.table.reading import in_threads
from icectl.table.removed_files import unless_removed
from icectl.units import print_instant

Spared = Literal["gone", "changed", "referenced", "with_its_file"]
"""Why an orphan of the plan stayed after all, or was gone already."""


@dataclass(slots=True)
class OrphansGone:
    """The result of a run; files of `removed` were moved if there is a `quarantine`.

    `purged` are files of the quarantine that were deleted, `tidied` the lists that named them.
    """

    removed: ManyFiles = field(default_factory=ManyFiles)
    purged: ManyFiles = field(default_factory=ManyFiles)
    tidied: list[str] = field(default_factory=list)
    failed: list[FailedRemoval] = field(default_factory=list)
    spared: Counter[Spared] = field(default_factory=Counter)
    stopped: bool = False
    quarantine: Quarantine | None = None


def execute(context: TableContext, prepared: PreparedRemoval) -> OrphansGone:
    """Delete or move what the plan says, and is still so, a batch at a time; then purge.

    Raises: what looking at files and at the newest metadata raises, as long as nothing is gone;
    later that ends the run early.
    """
    context.deadline.check()
    if context.dropped.uuids:  # one may have been registered again since the plan
        OtherTables(context).check_dropped_everywhere()
    deletion = _Deletion(context, prepared, prepared.loaded)
    purged = ManyFiles() if prepared.purge is None else prepared.purge.files
    total = sum(map(len, prepared.doomed)) + len(purged)
    context.progress.phase("deleting files", total=total)
    batches = (
        (remove, batch)
        for remove, listed in ((deletion.remove, prepared.doomed), (deletion.purge, [purged]))
        for part in check_sums_last(listed)
        for batch in slices(part, BATCH)
    )
    for remove, batch in batches:
        if context.deadline.passed:
            deletion.done.stopped = True
            return deletion.done
        try:
            remove(batch)
        except IcectlError as error:
            if not len(deletion.done.removed) + len(deletion.done.purged):
                raise
            context.progress.warn(f"nothing more is deleted: {error.message}")
            deletion.done.stopped = True
            return deletion.done
        context.progress.advance(len(batch))
    if prepared.purge is not None:
        gone = [file.location for file in each_file(deletion.done.purged)]
        deletion.done.tidied = tidy_lists(context, prepared.purge, gone)
    return deletion.done


class _Deletion:
    """A run; `newest` is the last state of the table whose references are known."""

    def __init__(
        self, context: TableContext, prepared: PreparedRemoval, newest: LoadedTable
    ) -> None:
        self.context = context
        self.prepared = prepared
        self.newest = newest
        self.done = OrphansGone()
        quarantine, table, env = prepared.options.quarantine, prepared.places.table, context.env
        if quarantine is not None:  # in a folder of the run, which no other run uses
            instant = print_instant(env.now_ms() // 1000 * 1000).replace("-", "").replace(":", "")
            name = f"{locations.name(table)}-{instant}-{env.new_uuid()[:8]}"
            folder = locations.join(quarantine, name)
            uuid = prepared.loaded.metadata.table_uuid
            self.done.quarantine = Quarantine(
                context.store, env, folder, table, uuid, context.concurrency, []
            )

    def remove(self, batch: ListedFiles) -> None:
        """Delete what may go of a batch; where there is a quarantine, copy it there before."""
        to_remove = self._unreferenced(self._unchanged(batch))
        if not len(to_remove):
            return
        if self.done.quarantine is not None:
            missing, failed = self.done.quarantine.copy(to_remove)
            self.done.failed += failed
            self.done.spared["gone"] += len(missing)
            to_remove = excluding(to_remove, [*missing, *(item.location for item in failed)])
        failed = remove_batch(self.context, [file.location for file in listed_files(to_remove)])
        self.done.failed += failed
        self.done.removed.add(excluding(to_remove, [item.location for item in failed]))

    def purge(self, batch: ListedFiles) -> None:
        """Delete what may go of a batch of files in the quarantine."""
        to_remove = self._unreferenced(self._unchanged(batch))
        failed = remove_batch(self.context, [file.location for file in listed_files(to_remove)])
        self.done.failed += failed
        self.done.purged.add(excluding(to_remove, [item.location for item in failed]))

    def _unchanged(self, batch: ListedFiles) -> ListedFiles:
        """Return the unchanged files; a checksum only if its own file is missing."""
        locations = batch.table["location"].combine_chunks()
        owners = described_files(locations)
        pairs = list(zip(listed_files(batch), owners.to_pylist(), strict=True))
        statuses = in_threads(
            lambda pair: self._look(*pair),
            pairs,
            [1] * len(pairs),
            threads=self.context.concurrency,
        )
        reasons = list(statuses)
        for (file, _), reason in zip(pairs, reasons, strict=True):
            if isinstance(reason, StorageError):
                self.done.failed.append(FailedRemoval(file.location, reason.reason))
            elif reason is not None:
                self.done.spared[reason] += 1
        return where(batch, [reason is None for reason in reasons])

    def _look(self, file: ListedFile, owner: str) -> Spared | StorageError | None:
        """Return why a file should be kept; None if it should not."""
        try:
            status = self.context.store.stat(file.location)
            if status is None:
                return "gone"
            if status.size_bytes != file.size_bytes or not is_same_second(
                status.modified_ms, file.modified_ms
            ):
                return "changed"
            if owner != file.location and self.context.store.stat(owner) is not None:
                return "with_its_file"
        except StorageError as error:
            return error
        return None

    def _unreferenced(self, batch: ListedFiles) -> ListedFiles:
        """Return the files that the newest metadata does not refer to either (R-157)."""
        self.context.catalog.settle()
        newest = open_deletable(self.context)
        check_same_place(self.newest, newest)
        references = self.prepared.references
        if newest != self.newest:
            with unless_removed(self.context):
                references.add(newest, trusted=self.prepared.options.trusts_lists)
            self.newest = newest
        reached = references.reach(batch.table["location"].combine_chunks()).to_pylist()
        self.done.spared["referenced"] += sum(reached)
        return where(batch, [not flag for flag in reached])
