"""Deleting files: old ones after a commit is known to have landed, new ones where it has not."""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field

from icectl.entries.files import FileKind, Files, excluding, of_kind, rows, slices, together
from icectl.env import Deadline
from icectl.errors import CommitUnknown, IcectlError, StorageError
from icectl.progress import Progress
from icectl.storage.store import FailedRemoval, Store

BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Removal:
    """What was deleted, what was not and why; `stopped` where time ran out before the end."""

    removed: Files
    failed: tuple[FailedRemoval, ...]
    stopped: bool


@dataclass(frozen=True, slots=True)
class Cleaner:
    """The means to delete files of one table; `shield` holds an interrupt back for a step."""

    store: Store
    progress: Progress
    deadline: Deadline
    shield: Callable[[], AbstractContextManager[object]]

    def remove(self, doomed: Files) -> Removal:
        """Delete files in their order; never raises for one that cannot be deleted."""
        self.progress.phase("deleting files", total=len(doomed))
        removed: list[Files] = []
        failed: list[FailedRemoval] = []
        for batch in _batches(doomed):
            if self.deadline.passed:
                return Removal(together(removed), tuple(failed), stopped=True)
            with self.shield():
                missed = self._remove(batch)
            failed += missed
            removed.append(excluding(batch, [item.location for item in missed]))
            self.progress.advance(len(batch))
        return Removal(together(removed), tuple(failed), stopped=False)

    def _remove(self, batch: Files) -> list[FailedRemoval]:
        locations = [location for location, _, _ in rows(batch)]
        try:
            return list(self.store.remove(locations))
        except StorageError as error:
            return [FailedRemoval(location, error.message) for location in locations]


def _batches(doomed: Files) -> Iterator[Files]:
    """Pieces of one kind each: no manifest goes while a file that it describes is still there."""
    for kind in FileKind:
        yield from slices(of_kind(doomed, kind), BATCH)


@dataclass(slots=True)
class Outputs:
    """Files that a run writes for its commit: each is named in `locations` before it is written.

    `sent` is set before the commit is: from then on it may land whatever ends the run.
    """

    store: Store
    locations: list[str] = field(default_factory=list)
    sent: bool = False

    @contextmanager
    def removed_on_failure(self) -> Iterator[None]:
        """Remove the files where the run ends and its commit can't have landed (R-156)."""
        try:
            yield
        except CommitUnknown:
            raise
        except IcectlError:  # raised by a commit only where it has not landed
            self.keep(())
            raise
        except BaseException:  # Ctrl-C, which may have come when the commit had landed
            if not self.sent:
                self.keep(())
            raise

    def keep(self, used: Collection[str]) -> None:
        """Remove all files but these; never raises, what stays is an orphan."""
        surplus = [location for location in self.locations if location not in used]
        if surplus:
            with suppress(StorageError):
                self.store.remove(surplus)
