"""One commit to one table, from its first file to the clean-up behind its end.

A commit ends in one of three ways. It has landed: the files that it needs stay, others that were
written for earlier attempts go. It has not: all of its files go. Nobody knows: every file stays,
and so does the journal, from which a later run finds out (R-156).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from icectl.catalog.protocol import LoadedTable
from icectl.commit.access import TableAccess
from icectl.commit.attempt import commit_changes
from icectl.commit.output_journal import NO_DATA, DataPlaces, Leftovers
from icectl.commit.outputs import Outputs, outputs_of
from icectl.errors import CommitConflict, CommitUnknown, IcectlError, StorageError
from icectl.spec.metadata import TableMetadata
from icectl.spec.updates import Update


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one attempt would change, and which of the files written so far it needs."""

    updates: Sequence[Update]
    files: frozenset[str] = frozenset()


@dataclass(slots=True)
class Transaction:
    """A commit under way; `table` is the table after it, once it has landed.

    From when a request is sent until it is answered, whatever ends the run, it may have landed.
    """

    access: TableAccess
    base: LoadedTable
    outputs: Outputs
    table: LoadedTable | None = None
    _is_sent: bool = False
    _needed: frozenset[str] = frozenset()

    def commit(self, propose: Callable[[TableMetadata], Proposal]) -> LoadedTable:
        """Commit what is proposed for the newest metadata, once; the table as it is then.

        Raises: as commit_changes; CommitConflict, where another run took this one for dead.
        """

        def changes(metadata: TableMetadata) -> Sequence[Update]:
            self._is_sent = False  # what was sent before has met a conflict
            proposal = propose(metadata)
            self._needed = proposal.files
            if proposal.updates:
                self.outputs.check()
                self._is_sent = True
            return proposal.updates

        self.table = commit_changes(self.access, self.base, changes)
        return self.table

    def close(self, error: BaseException | None) -> CommitConflict | None:
        """Remove what the end of the commit leaves over.

        Returns what to tell in the place of an error: that another run took this one for dead, and
        removed what it needed.
        """
        if self.table is not None:
            self.outputs.keep(self._needed)
            return None
        if isinstance(error, CommitUnknown):
            return None
        # The catalog raises errors of icectl's own only where nothing was sent, or it was refused.
        if self._is_sent and error is not None and not isinstance(error, IcectlError):
            return None
        is_of_file = isinstance(error, StorageError | OSError)
        taken = self._taken_for_dead() if is_of_file else None
        self.outputs.keep(())
        return taken

    def _taken_for_dead(self) -> CommitConflict | None:
        try:
            self.outputs.check()
        except CommitConflict as error:
            return error
        except (StorageError, OSError):  # nobody can tell
            return None
        return None


@contextmanager
def transaction(
    access: TableAccess, base: LoadedTable, command: str, data: DataPlaces = NO_DATA
) -> Iterator[Transaction]:
    """Open a transaction on a table as it was loaded, and close it however the block ends.

    Before it, runs of the command that were killed are given up; once it has landed, what they left
    is removed. `data` is where files lie that are written beside those in the metadata folder.
    """
    with Leftovers(access, (command,)).removed_after(base):
        outputs = outputs_of(access.store, access.env, base, command, data)
        opened = Transaction(access, base, outputs)
        try:
            yield opened
        except BaseException as error:
            instead = opened.close(error)
            if instead is not None:
                raise instead from error
            raise
        opened.close(None)
