"""New data files of a run: where they lie, and the record by which they are removed again."""

from collections import Counter
from collections.abc import Iterable, Sequence
from threading import Lock

from icectl.commit.output_journal import DataPlaces
from icectl.commit.outputs import Outputs
from icectl.format.data_paths import data_folder
from icectl.format.metadata import TableMetadata
from icectl.rows.compact_job import FileNames
from icectl.table.rewrite_task import Task


def data_places(metadata: TableMetadata, partitions: Iterable[str | None]) -> DataPlaces:
    """Find where files of some partitions, by their paths, will lie; None stands for any."""
    found = {data_folder(metadata.location, metadata.properties, path) for path in set(partitions)}
    exact = tuple(sorted(folder for folder, is_exact in found if is_exact))
    return DataPlaces(exact, tuple(folder for folder, is_exact in found if not is_exact))


class DataOutputs:
    """The places where new data files of a run go; they, or the run, are on record beforehand."""

    def __init__(self, metadata: TableMetadata, outputs: Outputs, mark: str = "") -> None:
        uuid = outputs.journal.uuid
        self.names = FileNames(metadata.location, metadata.properties, uuid, mark)
        self._outputs = outputs
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def next(self, task: Task, partition: str) -> str:
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
