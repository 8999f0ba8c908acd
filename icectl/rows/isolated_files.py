"""Files of kernels in worker processes: this process has the stores, and opens what they ask for.

A worker reads and writes files of this machine by itself, by the path of what was opened here; the
bytes of all others pass between the two, through memory that both have where the system lets them.
New files are finished here, or undone where a worker has not come to their end.
"""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Any

from icectl.rows.isolated import Ask, Kernel
from icectl.rows.write_data import FileOutputs
from icectl.storage.counting import CountingReader
from icectl.storage.local.scan import regular
from icectl.storage.local.store import write_to
from icectl.storage.memory_file import MemoryFile, memory_file, path_in_memory
from icectl.storage.store import Store

_BUFFER_BYTES = 1 << 20
_KEPT_BYTES = 8 << 20
"""Of shared memory that is kept for the next bytes."""


@dataclass(frozen=True, slots=True)
class _Next:
    partition: str


@dataclass(frozen=True, slots=True)
class _Open:
    location: str


@dataclass(frozen=True, slots=True)
class _Create:
    location: str


@dataclass(frozen=True, slots=True)
class _Read:
    number: int
    offset: int
    size_bytes: int
    by_memory: bool


@dataclass(frozen=True, slots=True)
class _Write:
    """Bytes to write, or how many of those in shared memory."""

    number: int
    content: bytes | int


@dataclass(frozen=True, slots=True)
class _Close:
    number: int


QUESTIONS = (_Next, _Open, _Create, _Read, _Write, _Close)
"""The types of what a worker asks about files."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file that was opened; `path` is where a worker can do so too.

    `content` is memory that has all of its bytes, `shared` memory that they pass through: both may
    be out of a worker's reach.
    """

    number: int
    path: str | None
    size_bytes: int
    content: str | None = None
    shared: str | None = None


@dataclass(frozen=True, slots=True)
class _Kept:
    """A file that is open for a worker; `shared` is memory that its bytes pass through."""

    file: IO[bytes]
    stack: ExitStack
    shared: MemoryFile | None

    def read(self, question: _Read) -> bytes | int:
        """Return the bytes, or how many there are now in shared memory."""
        self.file.seek(question.offset)
        content = self.file.read(question.size_bytes)
        if self.shared is None or not question.by_memory:
            return content
        if self.shared.seek(0, os.SEEK_END) > _KEPT_BYTES:
            self.shared.truncate(0)
        self.shared.fill(content)
        return len(content)

    def write(self, content: bytes | int) -> int:
        """Write bytes, or so many of those in shared memory."""
        if isinstance(content, int):
            assert self.shared is not None
            content = os.pread(self.shared.fileno(), content, 0)
        return self.file.write(content)


@dataclass(slots=True)
class CallFiles:
    """This end: the files of one call. A context; left with an error, new files are undone.

    `read` opens what the store has, and `opened` is told each location that is about to be read.
    """

    store: Store
    read: Callable[[str], IO[bytes]]
    next_location: Callable[[str], str]
    opened: Callable[[str], None]
    reading: str | None = None
    """What was opened last to be read."""
    _open: dict[int, _Kept] = field(default_factory=dict)
    _count: int = 0

    def __enter__(self) -> "CallFiles":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for kept in self._open.values():
            kept.stack.__exit__(kind, error, trace)

    def answer(self, question: Any) -> Any:
        """Do what a worker asks for. Raises: what the store raises."""
        match question:
            case _Next(partition):
                return self.next_location(partition)
            case _Open(location):
                return self._opened(location)
            case _Create(location):
                stack = ExitStack()
                file = stack.enter_context(self.store.open_new(location))
                return self._kept(file, stack, 0)
            case _Read(number):
                return self._open[number].read(question)
            case _Write(number, content):
                return self._open[number].write(content)
            case _Close(number):
                return self._open.pop(number).stack.close()

    def _opened(self, location: str) -> _Opened:
        self.reading = location
        self.opened(location)
        with ExitStack() as stack:
            file = stack.enter_context(self.read(location))
            size_bytes = file.seek(0, os.SEEK_END)
            path = path_of(file)
            if path is not None:
                return _Opened(0, path, size_bytes)
            return self._kept(file, stack.pop_all(), size_bytes)

    def _kept(self, file: IO[bytes], stack: ExitStack, size_bytes: int) -> _Opened:
        self._count += 1
        path, content, shared = path_of(file), path_in_memory(file), None
        if path is None and content is None and (shared := memory_file()) is not None:
            stack.enter_context(shared)
        self._open[self._count] = _Kept(file, stack, shared)
        return _Opened(self._count, path, size_bytes, content, shared.path if shared else None)


def read_by_path(
    kernel: Kernel, path: str, *arguments: Any
) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Run a kernel over a file of this machine; what it makes, and the bytes that it read."""
    with CountingReader(open(path, "rb", opener=regular)) as file:
        yield tuple(kernel(file, *arguments)), file.bytes_read


def path_of(file: IO[bytes]) -> str | None:
    """Return where a file is on this machine; None for those of other stores."""
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else None


def outputs_through(ask: Ask) -> FileOutputs:
    """Yield the worker's end: `Files.answer` does at the other one what is asked."""

    @contextmanager
    def create(location: str) -> Iterator[IO[bytes]]:
        """Create a file: here where it has a path, else through the other end."""
        made: _Opened = ask(_Create(location))
        if made.path is None:
            with io.BufferedWriter(_SentFile(ask, made), _BUFFER_BYTES) as file:
                yield file
        else:
            with write_to(made.path, location) as file:
                yield file
        ask(_Close(made.number))

    def read(location: str) -> IO[bytes]:
        """Open a file: here where it has a path, else through the other end."""
        opened: _Opened = ask(_Open(location))
        if opened.path is not None:
            return open(opened.path, "rb", opener=regular)
        content = _reached(opened.content)
        if content is not None:
            return io.BufferedReader(_HeldFile(ask, opened, content), _BUFFER_BYTES)
        return io.BufferedReader(_AskedFile(ask, opened), _BUFFER_BYTES)

    return FileOutputs(lambda partition: str(ask(_Next(partition))), create, read)


def _reached(path: str | None) -> int | None:
    """Return a descriptor of the other process's memory; None where it is out of reach."""
    if path is None:
        return None
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # some systems keep processes apart
        return None


class _HeldFile(io.FileIO):
    """A file all of whose bytes are in memory that both processes have."""

    def __init__(self, ask: Ask, opened: _Opened, descriptor: int) -> None:
        super().__init__(descriptor, "rb")
        self._ask = ask
        self._file = opened

    def close(self) -> None:
        """Close the file, at the other end too."""
        if not self.closed:
            self._ask(_Close(self._file.number))
        super().close()


class _SentFile(io.RawIOBase):
    """A new file whose bytes go to the other process."""

    def __init__(self, ask: Ask, opened: _Opened) -> None:
        super().__init__()
        self._ask = ask
        self._number = opened.number
        self._shared = _reached(opened.shared)
        self._at = 0

    def writable(self) -> bool:
        """Return True: the file can be written."""
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._at

    def write(self, content: Any, /) -> int:
        """Send bytes to the other end, and return how many."""
        octets = memoryview(content).cast("B")
        if self._shared is None:
            self._ask(_Write(self._number, bytes(octets)))
            count = len(octets)
        else:
            count = os.pwrite(self._shared, octets, 0)
            self._ask(_Write(self._number, count))
        self._at += count
        return count

    def close(self) -> None:
        """Let go of the memory; the other end learns of the end by itself."""
        if not self.closed and self._shared is not None:
            os.close(self._shared)
        super().close()


class _AskedFile(io.RawIOBase):
    """A file whose bytes come from the other process."""

    def __init__(self, ask: Ask, opened: _Opened) -> None:
        super().__init__()
        self._ask = ask
        self._file = opened
        self._shared = _reached(opened.shared)
        self._at = 0

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: reading may start anywhere."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Ask for the next bytes, and return how many came."""
        octets = memoryview(buffer).cast("B")
        wanted = min(octets.nbytes, max(self._file.size_bytes - self._at, 0))
        if wanted == 0:
            return 0
        by_memory = self._shared is not None
        told = self._ask(_Read(self._file.number, self._at, wanted, by_memory))
        if self._shared is not None:
            count = os.preadv(self._shared, [octets[:told]], 0)
        else:
            count = len(told)
            octets[:count] = told
        self._at += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a place, and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size_bytes}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Return the place in the file."""
        return self._at

    def close(self) -> None:
        """Close the file, at the other end too."""
        if not self.closed:
            if self._shared is not None:
                os.close(self._shared)
            self._ask(_Close(self._file.number))
        super().close()
