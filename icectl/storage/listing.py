"""Recursive listings as Arrow batches of (location, size_bytes, modified_ms)."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from icectl.errors import StorageError
from icectl.storage.store import ListingPart, ListingSplit

LISTING_SCHEMA = pa.schema(
    [
        pa.field("location", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("modified_ms", pa.int64()),
    ]
)
BATCH_ROWS = 65_536
_MOST_AT_ONCE = 64
"""Requests of one thread in a row: switching between threads costs more than a small directory."""


@dataclass(slots=True)
class ListingRows:
    """Files found so far, as columns; full batches are set aside."""

    locations: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)
    small: list[pa.RecordBatch] = field(default_factory=list)
    full: list[pa.RecordBatch] = field(default_factory=list)
    waiting: int = 0
    """Files that are in no full batch."""

    def add(self, location: str, size_bytes: int, modified_ms: int | None) -> None:
        self.locations.append(location)
        self.sizes.append(size_bytes)
        self.times.append(modified_ms)
        self._count(1)

    def add_batch(self, batch: pa.RecordBatch) -> None:
        if 2 * batch.num_rows >= BATCH_ROWS:
            self.full.append(batch)
        else:
            self.small.append(batch)
            self._count(batch.num_rows)

    def extend(self, other: "ListingRows") -> None:
        self.full += other.full
        self.small += other.small
        self.locations += other.locations
        self.sizes += other.sizes
        self.times += other.times
        self._count(other.waiting)

    def take_full(self) -> list[pa.RecordBatch]:
        """Return the full batches, which are then forgotten here."""
        full, self.full = self.full, []
        return full

    def take_all(self) -> list[pa.RecordBatch]:
        """Return all rows, the last batch being as short as it is."""
        if self.waiting:
            self._set_aside()
        return self.take_full()

    def _count(self, added: int) -> None:
        self.waiting += added
        if self.waiting >= BATCH_ROWS:
            self._set_aside()

    def _set_aside(self) -> None:
        columns = [
            pa.array(self.locations, pa.string()),
            pa.array(self.sizes, pa.int64()),
            pa.array(self.times, pa.int64()),
        ]
        rest = pa.RecordBatch.from_arrays(columns, schema=LISTING_SCHEMA)
        self.full.append(pa.concat_batches([*self.small, rest]))
        self.locations, self.sizes, self.times = [], [], []
        self.small, self.waiting = [], 0


Request = TypeVar("Request")


@dataclass(frozen=True, slots=True)
class ListingStep(Generic[Request]):
    """The answer to one request of a listing: files, and the requests that follow from it."""

    rows: ListingRows
    next: tuple[Request, ...] = ()


def first_directories(
    first: str, step: Callable[[str], ListingStep[str]], concurrency: int, count: int
) -> ListingSplit:
    """List directories level by level until at least `count` are left, or none."""
    rows = ListingRows()
    level: tuple[str, ...] = (first,)
    with ThreadPoolExecutor(concurrency, thread_name_prefix="list") as pool:
        while level and len(level) < count:
            steps = list(pool.map(step, level))
            for done in steps:
                rows.extend(done.rows)
            level = tuple(directory for done in steps for directory in done.next)
    return ListingSplit(rows.take_all(), [ListingPart(directory) for directory in level])


def run_steps(
    first: Iterable[Request], step: Callable[[Request], ListingStep[Request]], concurrency: int
) -> Iterator[pa.RecordBatch]:
    """Carry out requests in parallel until none is left, yielding the files. Order: none."""
    rows = ListingRows()
    waiting = list(first)
    with ThreadPoolExecutor(concurrency, thread_name_prefix="list") as pool:
        running: set[Future[ListingStep[Request]]] = set()
        while waiting or running:
            while waiting and len(running) < 2 * concurrency:
                count = min(1 + len(waiting) // (8 * concurrency), _MOST_AT_ONCE)
                taken = waiting[-count:]  # one while few wait, more when all threads have enough
                del waiting[-count:]
                running.add(pool.submit(_several, step, taken))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                rows.extend(result.rows)
                waiting += result.next
            yield from rows.take_full()
    yield from rows.take_all()


def _several(
    step: Callable[[Request], ListingStep[Request]], requests: list[Request]
) -> ListingStep[Request]:
    """Carry out requests until a batch is full; the rest waits again."""
    rows = ListingRows()
    following: list[Request] = []
    for number, request in enumerate(requests):
        result = step(request)
        rows.extend(result.rows)
        following += result.next
        if rows.full:
            following += requests[number + 1 :]
            break
    return ListingStep(rows, tuple(following))


_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Spool:
    """Batches of a listing in a temporary file, of which no name exists: it ends with the process.

    Order: as appended. Once it has been read, nothing can be appended.
    Raises: StorageError, where the file cannot be written.
    """

    def __init__(self) -> None:
        self.file_count = 0
        self.total_bytes = 0
        with temporary_file():
            # Buffered: a bare file may write less than it is given, which Arrow does not notice.
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._writer = pa.ipc.new_file(self._file, LISTING_SCHEMA, options=_OPTIONS)
        self._reader: pa.RecordBatchFileReader | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # what could not be written is no longer needed
            self._file.close()

    def append(self, batch: pa.RecordBatch) -> None:
        with temporary_file():
            self._writer.write_batch(batch)
        self.file_count += batch.num_rows
        self.total_bytes += pc.sum(batch["size_bytes"]).as_py() or 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._reader is None:
            with temporary_file():
                self._writer.close()
                self._file.flush()
            self._reader = pa.ipc.open_file(self._file)
        for number in range(self._reader.num_record_batches):
            yield self._reader.get_batch(number)


@contextmanager
def temporary_file() -> Iterator[None]:
    """Use the temporary file inside; what fails is one StorageError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        folder = f" in `{tempfile.tempdir}`" if tempfile.tempdir else ""
        raise StorageError(
            f"cannot write a temporary file{folder}: {reason[:1].lower()}{reason[1:]}",
            hint="choose another folder with `--temp-dir`",
        ) from error
