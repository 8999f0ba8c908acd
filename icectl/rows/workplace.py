"""The workplace of tasks that write data files where they run out of the driver's sight."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from icectl.env import SystemEnv
from icectl.errors import IcectlError
from icectl.rows.compact_job import FileNames, ahead_of
from icectl.rows.write_data import FileOutputs
from icectl.storage.open import StorageOptions, add_root, open_store, requests_at_once
from icectl.table.rewrite_task import Task

OutputsOf = Callable[[Task | int], FileOutputs]
"""Outputs of a task, or of the part of new rows that has a number."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """The storage with what opens it, and the names of new files."""

    storage: StorageOptions
    names: FileNames

    @staticmethod
    def of(storage: StorageOptions, names: FileNames) -> "Workplace":
        """Return one that crosses to other processes: what warns stays here."""
        return Workplace(storage.crossing(), names)

    @contextmanager
    def attempt(self, writer: int, tasks: Sequence[Task] = ()) -> Iterator[OutputsOf]:
        """Outputs for tasks, their files named after a writer that there is only once.

        Files of these tasks are read before they are asked for. Where this is left with an error,
        what was written is removed, as far as that works.
        """
        store = open_store(self.storage, SystemEnv())
        add_root(store, self.names.table_location)
        at_once = requests_at_once(self.storage.concurrency, self.names.table_location)
        written: list[str] = []

        def outputs(of: Task | int) -> FileOutputs:
            """Make outputs that belong to the attempt."""

            def next_location(partition: str) -> str:
                """Name the next file of the attempt."""
                count = len(written) + 1
                written.append(self.names.location(of, writer, partition, count))
                return written[-1]

            return FileOutputs(next_location, store.open_new, ahead.open)

        try:
            with ahead_of(tasks, store, at_once) as ahead:
                yield outputs
        except BaseException:
            with suppress(IcectlError):
                store.remove(written)
            raise
