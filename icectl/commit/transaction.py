"""One commit to one table, from its first file to the clean-up behind its end.

A commit ends in one of three ways. It has landed: the files that it needs stay, others that were
written for earlier attempts go. It has not: all of its files go. Nobody knows: every file stays,
and so does the journal, from which a later run finds out (R-156).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from icectl.catalog.protocol import LoadedTable, check_same_table
from icectl.commit.attempt import CommitAsked, commit_changes
from icectl.commit.output_journal import NO_DATA, DataPlaces, Leftovers
from icectl.commit.outputs import Outputs, outputs_of
from icectl.errors import (
    CommitConflict,
    IcectlError,
    MissingFile,
    Refused,
    StorageError,
    TableNotFound,
)
from icectl.format.metadata import TableMetadata
from icectl.format.updates import Update
from icectl.storage.location import name
from icectl.table.context import TableContext
from icectl.table.own_places import check_metadata_folder


@dataclass(frozen=True, slots=True)
class Proposal:
    """The changes that one attempt would make, and the files written so far that it needs."""

    updates: Sequence[Update]
    files: frozenset[str] = frozenset()


@dataclass(slots=True)
class Transaction:
    """A commit under way; `table` is the table after it, once it has landed.

    `asked` says whether it may have landed, whatever ends the run.
    """

    context: TableContext
    base: LoadedTable
    outputs: Outputs
    table: LoadedTable | None = None
    asked: CommitAsked = field(default_factory=CommitAsked)
    _needed: frozenset[str] = frozenset()

    def commit(
        self, propose: Callable[[TableMetadata], Proposal], *, is_old: bool = False
    ) -> LoadedTable:
        """Commit what is proposed for the newest metadata, once; the table as it is then.

        A base that `is_old`, since long work came after it, is read again first.
        Raises: as commit_changes; CommitConflict, where another run took this one for dead.
        """

        def changes(metadata: TableMetadata) -> Sequence[Update]:
            proposal = propose(metadata)
            self._needed = proposal.files
            if proposal.updates:
                self._check_own()
            return proposal.updates

        self.table = commit_changes(self.context, self.base, changes, self.asked, is_old=is_old)
        return self.table

    def _check_own(self) -> None:
        """Go on with a commit, its base loaded, where no other run took this one for dead.

        Raises: CommitConflict; TableNotFound, Refused, where the table is not in its place any
        more; StorageError.
        """
        try:
            self.outputs.check()
        except FileNotFoundError:  # with the table, or by itself
            check_same_table(self.base, self.context.catalog.load().metadata)
            raise CommitConflict(
                f"the record of this run, {name(self.outputs.journal.location)}, is gone: another "
                "run took this one for dead, or the table was replaced by a copy"
            ) from None

    def close(self, error: BaseException | None) -> IcectlError | None:
        """Remove what the end of the commit leaves over.

        Returns what to tell in the place of an error of a file: another run has removed what this
        one needs, or the whole table is gone.
        """
        if self.table is not None:
            self.outputs.keep(self._needed)
            return None
        if self.asked.sent:
            return None
        is_of_file = isinstance(error, MissingFile | StorageError | OSError)
        cause = self._cause() if is_of_file else None
        self.outputs.keep(())
        return cause

    def _cause(self) -> IcectlError | None:
        """Tell why files are not there, if that can be told."""
        try:
            self._check_own()
        except (CommitConflict, TableNotFound, Refused) as error:
            return error
        except (IcectlError, OSError):  # nobody can tell
            return None
        return None


@contextmanager
def transaction(
    context: TableContext, base: LoadedTable, command: str, data: DataPlaces = NO_DATA
) -> Iterator[Transaction]:
    """Open a transaction on a table as it was loaded, and close it however the block ends.

    Before it, runs of the command that were killed are given up; once it has landed, what they left
    is removed. `data` is where files lie that are written beside those in the metadata folder.
    """
    check_metadata_folder(context, base)
    with Leftovers(context, (command,)).removed_after(base):
        outputs = outputs_of(context.store, context.env, base, command, data)
        opened = Transaction(context, base, outputs)
        try:
            yield opened
        except BaseException as error:
            instead = opened.close(error)
            if instead is not None:
                raise instead from error
            raise
        opened.close(None)
