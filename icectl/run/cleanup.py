"""Deleting files: old ones after a commit is known to have landed, new ones where it has not."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field

from icectl.catalog.files import FileSystemCatalog, check_same_table
from icectl.catalog.protocol import LoadedTable
from icectl.commit.attempt import Asked, Landed
from icectl.entries.files import FileKind, Files, excluding, of_kind, rows, slices, together
from icectl.env import Deadline, Env
from icectl.errors import CommitConflict, IcectlError, Refused, StorageError, TableNotFound
from icectl.progress import Progress
from icectl.run import output_journal
from icectl.run.means import Changes, Means
from icectl.run.output_journal import NO_DATA, DataPlaces, OutputJournal, new_journal
from icectl.storage.location import check_sum, join, loosest_key, name, parent
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
        yield from slices(of_kind(doomed, kind), BATCH)


@dataclass(slots=True)
class Outputs:
    """Files that a run writes for one commit: each is named in `locations` before it is written.

    Before the first one the run is recorded, where a later run can make use of that. `asked` says
    whether the commit may have landed, whatever ended the run. The table is the one of `loaded`,
    which `catalog` finds as long as it is in its place.
    """

    store: Store
    loaded: LoadedTable
    catalog: FileSystemCatalog
    journal: OutputJournal
    is_journalled: bool
    locations: list[str] = field(default_factory=list)
    asked: Asked = field(default_factory=Asked)
    has_begun: bool = False

    def manifest(self) -> str:
        """Where the next manifest goes. Raises: what writing the journal raises."""
        return self._named(f"{self.journal.uuid}-m{len(self.locations)}.avro")

    def manifest_list(self, snapshot_id: int) -> str:
        """Where the next manifest list goes. Raises: what writing the journal raises."""
        return self._named(f"snap-{snapshot_id}-{len(self.locations)}-{self.journal.uuid}.avro")

    def leaf(self) -> str:
        """Where the next leaf of version 4 goes. Raises: what writing the journal raises."""
        return self._named(f"{self.journal.uuid}-m{len(self.locations)}.parquet")

    def bitmaps(self) -> str:
        """Where large manifest delete vectors go. Raises: what writing the journal raises."""
        return self._named(f"{self.journal.uuid}-{len(self.locations)}-mdv.puffin")

    def root(self, snapshot_id: int) -> str:
        """Where the next root goes. Raises: what writing the journal raises."""
        return self._named(f"root-{snapshot_id}-{len(self.locations)}-{self.journal.uuid}.parquet")

    def begin(self) -> None:
        """Record the run before its first file. Raises: what writing the journal raises."""
        if self.is_journalled and not self.has_begun:
            output_journal.write(self.store, self.journal)
        self.has_begun = True

    def add(self, location: str) -> str:
        """Put a file that will be written on record. Raises: what writing the journal raises."""
        self.begin()
        self.locations.append(location)
        return location

    def find(self) -> None:
        """Put all data files of the run on record, whoever wrote them. Raises: StorageError."""
        self.locations += output_journal.data_outputs(self.store, self.journal)

    def _named(self, file_name: str) -> str:
        return self.add(join(parent(self.loaded.metadata_location), file_name))

    def check(self) -> None:
        """Go on with a commit, its base loaded, where no other run took this one for dead.

        Raises: CommitConflict; TableNotFound, Refused, where the table is not in its place any
        more; StorageError.
        """
        if not self.is_journalled or not self.has_begun:
            return
        try:
            output_journal.check_own(self.store, self.journal)
        except FileNotFoundError:  # with the table, or by itself
            check_same_table(self.loaded, self.catalog.load().metadata)
            raise CommitConflict(
                f"the record of this run, {name(self.journal.location)}, is gone: another run took "
                "this one for dead, or the table was replaced by a copy"
            ) from None

    def commit(self, means: Means, base: LoadedTable, changes: Changes) -> Landed:
        """Commit what refers to the files. Raises: as Means.commit."""
        return means.commit(base, changes, self.asked)

    @contextmanager
    def removed_on_failure(self) -> Iterator[None]:
        """Remove the files where the run ends and its commit can't have landed (R-156).

        Raises: what `check` finds in place of the error of a file: another run has removed what
        this one needs, or the whole table is gone.
        """
        try:
            yield
        except BaseException as error:  # of whatever kind: only whether it was sent counts
            if self.asked.sent:
                raise
            is_of_file = isinstance(error, StorageError | OSError)
            cause = self._cause() if is_of_file else None
            self.keep(())
            if cause is not None:
                raise cause from error
            raise

    def _cause(self) -> IcectlError | None:
        """Why files are not there, if that can be told."""
        try:
            self.check()
        except (CommitConflict, TableNotFound, Refused) as error:
            return error
        except (IcectlError, OSError):  # nobody can tell
            return None
        return None

    def keep(self, used: Collection[str]) -> None:
        """Remove all files but these, and the journal; never raises, what stays is left to a later
        run, or an orphan."""
        keys = {loosest_key(location) for location in used}
        surplus = [item for item in self.locations if loosest_key(item) not in keys]
        with suppress(StorageError):
            if surplus and self.store.remove(surplus):
                return
            if self.is_journalled:
                self.store.remove([self.journal.location])


def outputs_of(
    store: Store, env: Env, loaded: LoadedTable, command: str, data: DataPlaces = NO_DATA
) -> Outputs:
    """The outputs of a run. A journal is of use where the newest version of the table is sure."""
    return Outputs(
        store,
        loaded,
        FileSystemCatalog(store, parent(parent(loaded.metadata_location)), env),
        new_journal(env, loaded.metadata_location, command, data),
        is_journalled=loaded.current == "file-system",
    )
