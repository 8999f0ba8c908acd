"""One commit to one table, from its first file to the clean-up behind its end.

A commit ends in one of three ways. It has landed: the files that it needs stay, others that were
written for earlier attempts go. It has not: all of its files go. Nobody knows: every file stays,
and so does the journal, from which a later run finds out (R-156). The names of files say which run
wrote them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock

from icectl.catalog.protocol import LoadedTable, check_same_table
from icectl.commit import output_journal
from icectl.commit.attempt import CommitAsked, commit_changes
from icectl.commit.output_journal import NO_DATA, DataPlaces, Leftovers, OutputJournal, new_journal
from icectl.env import Env
from icectl.errors import (
    CommitConflict,
    IcectlError,
    MissingFile,
    Refused,
    StorageError,
    TableNotFound,
)
from icectl.format.file_names import data_folder
from icectl.format.manifest import FileFormat
from icectl.format.metadata import TableMetadata
from icectl.format.updates import Update
from icectl.rows.compact_job import FileNames
from icectl.storage.location import join, loosest_key, name
from icectl.storage.store import Store
from icectl.table.context import TableContext
from icectl.table.own_places import check_metadata_folder
from icectl.table.rewrite_tasks import Task


@dataclass(slots=True)
class Outputs:
    """Files that a run writes for one commit: each is named in `locations` before it is written.

    Before the first one the run is recorded, where a later run can make use of that.
    """

    store: Store
    folder: str
    journal: OutputJournal
    is_journalled: bool
    locations: list[str] = field(default_factory=list)
    has_begun: bool = False

    def manifest(self, file_format: FileFormat = FileFormat.AVRO) -> str:
        """Name the next manifest. Raises: what writing the journal raises."""
        return self._named(f"{self.journal.uuid}-m{len(self.locations)}.{file_format.name.lower()}")

    def manifest_list(self, snapshot_id: int) -> str:
        """Name the next manifest list. Raises: what writing the journal raises."""
        return self._named(f"snap-{snapshot_id}-{len(self.locations)}-{self.journal.uuid}.avro")

    def leaf(self) -> str:
        """Name the next leaf of version 4. Raises: what writing the journal raises."""
        return self.manifest(FileFormat.PARQUET)

    def bitmaps(self) -> str:
        """Name the next Puffin file of vectors. Raises: what writing the journal raises."""
        return self._named(f"{self.journal.uuid}-{len(self.locations)}-mdv.puffin")

    def root(self, snapshot_id: int) -> str:
        """Name the next root. Raises: what writing the journal raises."""
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
        return self.add(join(self.folder, file_name))

    def check(self) -> None:
        """Go on with a commit, its base loaded, where no other run took this one for dead.

        Raises: CommitConflict; FileNotFoundError, where the record is gone; StorageError.
        """
        if self.is_journalled and self.has_begun:
            output_journal.check_own(self.store, self.journal)

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
    """Begin the outputs of a run; nothing is written yet.

    A journal is of use where an older run's commit can be ruled out.
    """
    folder = loaded.metadata_folder
    journal = new_journal(env, loaded, command, data)
    is_journalled = loaded.capabilities.rules_out_commits
    return Outputs(store, folder, journal, is_journalled)


def data_places(metadata: TableMetadata, partitions: Iterable[str | None]) -> DataPlaces:
    """Find where files of some partitions, by their paths, will lie; None stands for any."""
    places = {data_folder(metadata.location, metadata.properties, path) for path in set(partitions)}
    exact = tuple(sorted(folder for folder, is_exact in places if is_exact))
    return DataPlaces(exact, tuple(folder for folder, is_exact in places if not is_exact))


class DataOutputs:
    """The places where new data files of a run go; they, or the run, are on record beforehand."""

    def __init__(self, metadata: TableMetadata, outputs: Outputs, mark: str = "") -> None:
        uuid = outputs.journal.uuid
        self.names = FileNames(metadata.location, metadata.properties, uuid, mark)
        self._outputs = outputs
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def next_file_location(self, task: Task, partition: str) -> str:
        """Return the location of a task's next file in the folder of a partition."""
        with self._lock:
            self._counts[task.task_id] += 1
            number = int(task.task_id.partition("-")[2])
            count = self._counts[task.task_id]
            return self._outputs.add(self.names.location(task, number, partition, count))

    def record(self, locations: Sequence[str]) -> None:
        """Put files on record that workers have named."""
        for location in locations:
            self._outputs.add(location)

    def find(self) -> None:
        """Put on record whatever the run has written, by a look into the folders of its files."""
        self._outputs.find()


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
