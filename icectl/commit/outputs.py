"""The files that a run writes for one commit: how they are named, and on record."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

from icectl.catalog.protocol import LoadedTable
from icectl.commit import output_journal
from icectl.commit.output_journal import NO_DATA, DataPlaces, OutputJournal, new_journal
from icectl.env import Env
from icectl.errors import StorageError
from icectl.format.data_paths import data_folder
from icectl.format.manifest import FileFormat
from icectl.format.metadata import TableMetadata
from icectl.rows.compact_job import FileNames
from icectl.storage.location import join, loosest_key
from icectl.storage.store import Store
from icectl.table.rewrite_task import Task


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
