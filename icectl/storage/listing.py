"""Recursive listings as Arrow batches of (location, size_bytes, modified_ms)."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa

LISTING_SCHEMA = pa.schema(
    [
        pa.field("location", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("modified_ms", pa.int64()),
    ]
)
BATCH_ROWS = 65_536


@dataclass(slots=True)
class Rows:
    """Files found so far, as columns; full batches are set aside."""

    locations: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)
    full: list[pa.RecordBatch] = field(default_factory=list)

    def add(self, location: str, size_bytes: int, modified_ms: int | None) -> None:
        """Append one file."""
        self.locations.append(location)
        self.sizes.append(size_bytes)
        self.times.append(modified_ms)
        if len(self.locations) >= BATCH_ROWS:
            self._set_aside()

    def extend(self, other: "Rows") -> None:
        """Append all files of another listing."""
        self.full += other.full
        self.locations += other.locations
        self.sizes += other.sizes
        self.times += other.times
        if len(self.locations) >= BATCH_ROWS:
            self._set_aside()

    def take_full(self) -> list[pa.RecordBatch]:
        """The full batches, which are then forgotten here."""
        full, self.full = self.full, []
        return full

    def take_all(self) -> list[pa.RecordBatch]:
        """All rows, the last batch being as short as it is."""
        if self.locations:
            self._set_aside()
        return self.take_full()

    def _set_aside(self) -> None:
        columns = [
            pa.array(self.locations, pa.string()),
            pa.array(self.sizes, pa.int64()),
            pa.array(self.times, pa.int64()),
        ]
        self.full.append(pa.RecordBatch.from_arrays(columns, schema=LISTING_SCHEMA))
        self.locations, self.sizes, self.times = [], [], []


Request = TypeVar("Request")


@dataclass(frozen=True, slots=True)
class Step(Generic[Request]):
    """What one request of a listing brought: files, and the requests that follow from it."""

    rows: Rows
    next: tuple[Request, ...] = ()


def run_steps(
    first: Request, step: Callable[[Request], Step[Request]], concurrency: int
) -> Iterator[pa.RecordBatch]:
    """Carry out requests in parallel until none is left, yielding the files on the way.

    Order: none. A request is whatever `step` understands: a directory, a page.
    """
    rows = Rows()
    waiting = [first]
    with ThreadPoolExecutor(concurrency, thread_name_prefix="list") as pool:
        running: set[Future[Step[Request]]] = set()
        while waiting or running:
            while waiting and len(running) < 2 * concurrency:
                running.add(pool.submit(step, waiting.pop()))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                rows.extend(result.rows)
                waiting += result.next
            yield from rows.take_full()
    yield from rows.take_all()
