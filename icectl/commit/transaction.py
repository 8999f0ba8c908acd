"""One commit to one table, from its first file to the clean-up after it.

A commit has one of three outcomes. If it was applied, its files stay, and files of earlier attempts
are removed. If it was not, all its files are removed. If the outcome is unknown, all files and the
journal stay, and a later run resolves the outcome (R-156). File names show which run wrote them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock

from icectl.catalog.protocol import LoadedTable, check_same_table
from icectl.commit import output_journal
from icectl.commit.attempt import CommitRequest, commit_changes
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
from icectl.table.own_places import check_owns_metadata_folder
from icectl.table.rewrite_tasks import Task


@dataclass(slots=True)
class Outputs:
    """Files that a run writes for one commit: `locations` names each before it is written.

    A journal records the run before the first one, if a later run can use it: naming a file raises
    what writing the journal raises.
    """

    store: Store
    env: Env
    folder: str
    journal: OutputJournal
    is_journalled: bool
    locations: list[str] = field(default_factory=list)
    has_begun: bool = False

    def manifest(self, file_format: FileFormat = FileFormat.AVRO) -> str:
        return self._named(f"{self.journal.uuid}-m{len(self.locations)}.{file_format.name.lower()}")

    def manifest_list(self, snapshot_id: int) -> str:
        return self._named(f"snap-{snapshot_id}-{len(self.locations)}-{self.journal.uuid}.avro")

    def leaf(self) -> str:
        """Name the next leaf of version 4."""
        return self.manifest(FileFormat.PARQUET)

    def bitmaps(self) -> str:
        return self._named(f"{self.journal.uuid}-{len(self.locations)}-mdv.puffin")

    def statistics(self, snapshot_id: int) -> str:
        return self._named(f"{snapshot_id}-{len(self.locations)}-{self.journal.uuid}.stats")

    def partition_statistics(self, snapshot_id: int) -> str:
        number = len(self.locations)
        return self._named(f"partition-stats-{snapshot_id}-{number}-{self.journal.uuid}.parquet")

    def root(self, snapshot_id: int) -> str:
        return self._named(f"root-{snapshot_id}-{len(self.locations)}-{self.journal.uuid}.parquet")

    def begin(self) -> None:
        """Record the run before its first file. Raises: what writing the journal raises."""
        if self.is_journalled and not self.has_begun:
            output_journal.write(self.store, self.env, self.journal)
        self.has_begun = True

    def add(self, location: str) -> str:
        self.begin()
        self.locations.append(location)
        return location

    def find(self) -> None:
        """Record all data files of the run, workers' too. Raises: StorageError."""
        self.locations += output_journal.data_outputs(self.store, self.journal)

    def _named(self, file_name: str) -> str:
        return self.add(join(self.folder, file_name))

    def check(self) -> None:
        """Check the record, after the base was loaded. Raises: as check_own."""
        if self.is_journalled and self.has_begun:
            output_journal.check_own(self.store, self.journal)

    def keep(self, used: Collection[str]) -> None:
        """Remove all other files, and the journal; never raises.

        Files that stay are left to a later run, or are orphans.
        """
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
    """Return the outputs of a run, with a journal if an older run's commit can be ruled out."""
    journal = new_journal(env, loaded, command, data)
    is_journalled = loaded.capabilities.rules_out_commits
    return Outputs(store, env, loaded.metadata_folder, journal, is_journalled)


def data_places(metadata: TableMetadata, partitions: Iterable[str | None]) -> DataPlaces:
    """Return the places of new files of some partitions, by their paths; None stands for any."""
    places = {data_folder(metadata.location, metadata.properties, path) for path in set(partitions)}
    exact = tuple(sorted(folder for folder, is_exact in places if is_exact))
    return DataPlaces(exact, tuple(folder for folder, is_exact in places if not is_exact))


class DataOutputs:
    """The locations of a run's new data files; they, or the run, are recorded beforehand."""

    def __init__(self, metadata: TableMetadata, outputs: Outputs) -> None:
        uuid = outputs.journal.uuid
        self.names = FileNames(metadata.location, metadata.properties, uuid)
        self._outputs = outputs
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def next_file_location(self, task: Task, partition: str) -> str:
        with self._lock:
            self._counts[task.task_id] += 1
            number = int(task.task_id.partition("-")[2])
            count = self._counts[task.task_id]
            return self._outputs.add(self.names.location(task, number, partition, count))

    def record(self, locations: Sequence[str]) -> None:
        for location in locations:
            self._outputs.add(location)

    def find(self) -> None:
        self._outputs.find()


@dataclass(frozen=True, slots=True)
class Proposal:
    """The changes of one attempt, and the files that it needs."""

    updates: Sequence[Update]
    files: frozenset[str] = frozenset()


@dataclass(slots=True)
class Transaction:
    """A commit under way; `table` is the table after it, once it has landed.

    `request` says whether it may have landed, also after an error.
    """

    context: TableContext
    base: LoadedTable
    outputs: Outputs
    table: LoadedTable | None = None
    request: CommitRequest = field(default_factory=CommitRequest)
    _proposed: list[frozenset[str]] = field(default_factory=list)

    def commit(
        self, propose: Callable[[TableMetadata], Proposal], *, reloads_base: bool = False
    ) -> LoadedTable:
        """Commit the proposal for the newest metadata, once; returns the table after it.

        An old base (`reloads_base`) is read again first.
        Raises: as commit_changes; CommitConflict, where another run considered this one dead.
        """

        def changes(metadata: TableMetadata) -> Sequence[Update]:
            proposal = propose(metadata)
            self._proposed.append(proposal.files)
            if proposal.updates:
                self._check_own()
            return proposal.updates

        self.table = commit_changes(
            self.context, self.base, changes, self.request, reloads_base=reloads_base
        )
        return self.table

    def _check_own(self) -> None:
        """Check, after the base was loaded, that no other run considered this one dead.

        Raises: CommitConflict; TableNotFound, Refused, if the table was moved; StorageError.
        """
        try:
            self.outputs.check()
        except FileNotFoundError:  # with the table, or by itself
            check_same_table(self.base, self.context.catalog.load().metadata)
            raise CommitConflict(
                f"the journal of this run, {name(self.outputs.journal.location)}, is gone: "
                "another run considered this one dead, or a copy replaced the table"
            ) from None

    def _landed_files(self, metadata: TableMetadata) -> frozenset[str]:
        """Return the files of the attempt that the table has, which need not be the last one."""
        known = self.base.metadata.snapshots_by_id
        new = [item for item in metadata.snapshots if item.snapshot_id not in known]
        lists = [item.root_manifest or item.manifest_list for item in new]
        named = {loosest_key(location) for location in lists if location is not None}
        landed = [
            files for files in self._proposed if not named.isdisjoint(map(loosest_key, files))
        ]
        return frozenset[str]().union(*(landed or self._proposed))

    def close(self, error: BaseException | None) -> IcectlError | None:
        """Remove surplus files after the end of the commit.

        Returns the cause of a file's error: another run has removed this one's files, or the whole
        table is gone.
        """
        if self.table is not None and self.request.doubtful:
            self.context.progress.warn(
                "an earlier attempt of this commit may have landed too: all files stay until a "
                "later run removes those that the table does not need"
            )
            return None
        if self.table is not None:
            self.outputs.keep(self._landed_files(self.table.metadata))
            return None
        if self.request.sent:
            return None
        cause: IcectlError | None = None
        if isinstance(error, MissingFile | StorageError | OSError):
            try:
                self._check_own()
            except (CommitConflict, TableNotFound, Refused) as known_cause:
                cause = known_cause
            except (IcectlError, OSError):  # the cause is not known
                cause = None
        self.outputs.keep(())
        return cause


@contextmanager
def transaction(
    context: TableContext, base: LoadedTable, command: str, data: DataPlaces = NO_DATA
) -> Iterator[Transaction]:
    """Open a transaction on a table as it was loaded, and close it however the block ends.

    Killed runs of the command are abandoned before it, and their files removed after the commit.
    `data` has the places of files outside of the metadata folder.
    """
    check_owns_metadata_folder(context, base)
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
        finally:
            output_journal.end(outputs.journal)
        opened.close(None)
