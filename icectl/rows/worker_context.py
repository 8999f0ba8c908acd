"""What a task has on a worker: the storage, names for its new files, and its files read ahead."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TypeVar

import pyarrow as pa

from icectl.env import SystemEnv
from icectl.errors import EngineError, IcectlError
from icectl.rows.compact_job import FileNames, ahead_of
from icectl.rows.write_data import FileOutputs
from icectl.storage.location import redacted
from icectl.storage.open import (
    SHARE_STORAGE,
    StorageOptions,
    add_root,
    open_store,
    requests_at_once,
)
from icectl.storage.store import Assembly
from icectl.table.reading import in_threads
from icectl.table.rewrite_tasks import ConvertTask, MergeDeletesTask, ReadTask, RewriteTask, Task

OutputsOf = Callable[[Task | int], FileOutputs]
"""Outputs of a task, or of the part of new rows that has a number."""

T = TypeVar("T", RewriteTask, MergeDeletesTask, ConvertTask, ReadTask)
_BUNDLE_BYTES, _BUNDLES_PER_CORE = 64 << 20, 4


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The storage with what opens it, and the names of new files."""

    storage: StorageOptions
    names: FileNames
    threads: int = 1
    """Threads that a task may have."""

    @staticmethod
    def of(storage: StorageOptions, names: FileNames) -> "WorkerContext":
        """Return one that crosses to other processes: what warns stays here."""
        return WorkerContext(storage.crossing(), names)

    @contextmanager
    def attempt(
        self,
        writer: int,
        tasks: Sequence[Task] = (),
        opening: Callable[[str], object] = lambda _: None,
    ) -> Iterator[OutputsOf]:
        """Outputs for tasks, their files named after a writer that there is only once.

        Files of these tasks are read before they are asked for; `opening` is called with each
        location that is about to be read. Where this is left with an error, what was written is
        removed, as far as that works.
        """
        store = open_store(self.storage, SystemEnv())
        add_root(store, self.names.table_location)
        at_once = requests_at_once(self.storage.concurrency, self.names.table_location)
        written: list[str] = []

        def outputs(of: Task | int) -> FileOutputs:
            def next_location(partition: str) -> str:
                count = len(written) + 1
                written.append(self.names.location(of, writer, partition, count))
                return written[-1]

            return FileOutputs(next_location, store.open_new, read, assemble, self.threads)

        def assemble(location: str) -> AbstractContextManager[Assembly] | None:
            assembly = store.assemble(location)
            return None if assembly is None else _noted(assembly, opening)

        def read(location: str) -> IO[bytes]:
            opening(location)
            return ahead.open(location)

        try:
            with ahead_of(tasks, store, at_once) as ahead:
                yield outputs
        except BaseException:
            with suppress(IcectlError):
                store.remove(written)
            raise

    def check_here(self, entries: pa.Table) -> None:
        """Check that this process, which commits them, has the new files that workers have written.

        Raises: EngineError, where one is not here, as on a disk of a worker's own; StorageError.
        """
        columns = (entries[name].to_pylist() for name in ("location", "file_size_in_bytes"))
        sizes = dict(zip(*columns, strict=True))
        store = open_store(self.storage, SystemEnv())
        at_once = requests_at_once(self.storage.concurrency, self.names.table_location)
        found = in_threads(store.stat, sizes, [0] * len(sizes), threads=at_once)
        for (location, size), status in zip(sizes.items(), found, strict=True):
            if status is None or status.size_bytes != size:
                raise EngineError(
                    f"a worker has written {redacted(location)}, which is not here",
                    hint=SHARE_STORAGE,
                )


@dataclass(frozen=True, slots=True)
class _Noted:
    """An assembly that calls `opening` with each location that is about to be read."""

    assembly: Assembly
    opening: Callable[[str], object]

    @property
    def copies_whole(self) -> bool:
        return self.assembly.copies_whole

    def open(self, location: str) -> IO[bytes]:
        self.opening(location)
        return self.assembly.open(location)

    def write(self, content: bytes | memoryview, /) -> int:
        return self.assembly.write(content)

    def copy(self, location: str, start: int, end: int) -> None:
        self.assembly.copy(location, start, end)


@contextmanager
def _noted(
    assembly: AbstractContextManager[Assembly], opening: Callable[[str], object]
) -> Iterator[Assembly]:
    with assembly as opened:
        yield _Noted(opened, opening)


def bundle_small_tasks(tasks: Sequence[T], core_count: int) -> list[list[T]]:
    """Return small tasks together, so that starting tasks is not what takes the time."""
    sizes = [read_bytes(task) for task in tasks]
    enough = min(_BUNDLE_BYTES, sum(sizes) // (_BUNDLES_PER_CORE * core_count))
    bundles: list[list[T]] = []
    size_bytes = enough
    for task, size in zip(tasks, sizes, strict=True):
        if size_bytes >= enough:
            bundles.append([])
            size_bytes = 0
        bundles[-1].append(task)
        size_bytes += size
    return bundles


def read_bytes(task: Task) -> int:
    """Return the bytes of the files that a task reads: data files, columns of them, or deletes."""
    if isinstance(task, ConvertTask | ReadTask):
        return task.read_bytes
    if isinstance(task, RewriteTask):
        return sum(file.read_bytes for file in task.inputs)
    vectors = [file.vector.size_bytes for file in task.inputs if file.vector is not None]
    return sum(file.size_bytes for file in task.delete_files) + sum(vectors)
