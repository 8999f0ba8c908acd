"""Deleting files that nothing reaches any more, once a commit is known to have landed."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from icectl.entries.files import FileKind, Files, excluding, of_kind, rows, slices, together
from icectl.env import Deadline
from icectl.errors import StorageError
from icectl.progress import Progress
from icectl.storage.location import check_sum, loosest_key
from icectl.storage.store import FailedRemoval, Store

BATCH = 1_000
"""What one request of S3 deletes at most."""
STEP = 4 * BATCH
"""Files that go at a time: requests lie side by side, each takes some tenths of a second."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The files that were deleted, and those that were not and why.

    `stopped` where time ran out before the end.
    """

    removed: Files
    failed: tuple[FailedRemoval, ...]
    stopped: bool


@dataclass(frozen=True, slots=True)
class Cleaner:
    """The means to delete files of one table; `shield` holds an interrupt back for a step.

    The check sum `.x.crc` of a file goes with `x`, unless its loosest key is among
    `kept_check_sums`; where that is None, there are no check sums.
    """

    store: Store
    progress: Progress
    deadline: Deadline
    shield: Callable[[], AbstractContextManager[object]]
    kept_check_sums: Collection[str] | None = None

    def remove(self, doomed: Files) -> Removal:
        """Delete files in their order; never raises for one that cannot be deleted."""
        self.progress.phase("deleting files", total=len(doomed))
        removed: list[Files] = []
        failed: list[FailedRemoval] = []
        for batch in _batches(doomed):
            if self.deadline.passed:
                return Removal(together(removed), tuple(failed), stopped=True)
            missed = self.remove_batch([location for location, _, _ in rows(batch)])
            failed += missed
            removed.append(excluding(batch, [item.location for item in missed]))
            self._remove_check_sums(removed[-1])
            self.progress.advance(len(batch))
        return Removal(together(removed), tuple(failed), stopped=False)

    def _remove_check_sums(self, removed: Files) -> None:
        """Delete what told of the bytes of files; one that stays is an orphan."""
        if self.kept_check_sums is None or not len(removed):
            return
        found = [check_sum(location) for location, _, _ in rows(removed)]
        self.remove_batch([each for each in found if loosest_key(each) not in self.kept_check_sums])

    def remove_batch(self, locations: Sequence[str]) -> list[FailedRemoval]:
        """Delete some files in one step; those that are still there, with reasons."""
        try:
            with self.shield():
                return list(self.store.remove(locations))
        except StorageError as error:
            return [FailedRemoval(location, error.message) for location in locations]


def _batches(doomed: Files) -> Iterator[Files]:
    """Pieces of one kind each: no manifest goes while a file that it describes is still there."""
    for kind in FileKind:
        yield from slices(of_kind(doomed, kind), STEP)
