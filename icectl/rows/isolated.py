"""Kernels in processes of their own: a reader that crashes on a damaged file ends its process only.

Decoders of Parquet and ORC are native code, which a few wrong bytes can end with a signal. So a
kernel runs in a worker process; the file stays here and the worker asks for its bytes, so that
stores, retries and counts are those of this process. Workers are kept for the next file.

Calls are pickled, since this process makes them. What comes back is never unpickled: it is read as
data of the types that the caller names (wire.py).
"""

import io
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from threading import Lock
from typing import IO, Any

from icectl.entries.without_pandas import leave_pandas_out
from icectl.errors import EngineError
from icectl.rows.wire import decode, encode

Ask = Callable[[Any], Any]
"""Answers a question that a kernel has while it runs."""

Kernel = Callable[..., Iterable[Any]]
"""`kernel([file, ]*arguments[, ask])`: a function at the top of a module, its values picklable."""

_READ, _SIZE, _ASK, _DONE, _FAILED = range(5)
_CRASHES = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP}
)
_GONE = (EOFError, BrokenPipeError, ConnectionResetError)
_ENDS_WITHIN_SECONDS = 10
_BUFFER_BYTES = 1 << 16
_CHECK_SECONDS = 0.2


class KernelCrashed(Exception):
    """Native code ended the worker with a signal; `signal_name` is SIGSEGV or the like."""

    def __init__(self, signal_name: str) -> None:
        super().__init__(f"the reader crashed on it ({signal_name})")
        self.signal_name = signal_name


@dataclass(slots=True)
class WorkerProcesses:
    """Worker processes, started as they are needed; a context that ends them.

    `types` are the dataclasses that kernels yield and ask with. `check` is called from time to
    time; what it raises ends a call and its worker.
    """

    types: Sequence[type] = ()
    check: Callable[[], None] = lambda: None
    _idle: SimpleQueue["_Worker"] = field(default_factory=SimpleQueue)

    def __enter__(self) -> "WorkerProcesses":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Empty):
            while True:
                self._idle.get_nowait().end()

    def call(
        self, kernel: Kernel, file: IO[bytes] | None, *arguments: Any, ask: Ask | None = None
    ) -> tuple[Any, ...]:
        """Run a kernel in a worker, on an open file where there is one; it gets `ask` last.

        Raises: KernelCrashed; what the kernel raises of icectl's errors, OSError and MemoryError,
        all else as KernelFailed; what the file, `ask` and `check` raise here.
        """
        call = _Call(kernel, arguments, reads=file is not None, asks=ask is not None)
        with self._worker() as worker:
            return worker.call(call, file, ask)

    @contextmanager
    def _worker(self) -> Iterator["_Worker"]:
        """One that nobody else uses; after an error its part of the talk is over for good."""
        try:
            worker = self._idle.get_nowait()
        except Empty:
            worker = _Worker.started(self.types, self.check)
        try:
            yield worker
        except BaseException:
            worker.end()
            raise
        self._idle.put(worker)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that goes to a worker; `reads` where a file comes with it, `asks` where it may ask."""

    kernel: Kernel
    arguments: tuple[Any, ...]
    reads: bool
    asks: bool


@dataclass(frozen=True, slots=True)
class _Worker:
    """This end of a worker process."""

    process: subprocess.Popen[bytes]
    line: Connection
    types: Sequence[type]
    check: Callable[[], None]

    @staticmethod
    def started(types: Sequence[type], check: Callable[[], None]) -> "_Worker":
        """Start one. It has its own session: Ctrl-C is for this process alone.

        It imports nothing from the working directory.
        """
        here, there = socket.socketpair()
        with there:
            command = f"from {__name__} import _serve; _serve({there.fileno()})"
            try:
                process = subprocess.Popen(  # noqa: S603 - this very program
                    [sys.executable, "-P", "-c", command],
                    env=os.environ | _settings(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,  # native readers print what they find
                    pass_fds=[there.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                here.close()
                raise EngineError(f"no process can be started: {error}") from error
        return _Worker(process, Connection(here.detach()), types, check)

    def call(self, call: _Call, file: IO[bytes] | None, ask: Ask | None) -> tuple[Any, ...]:
        """Send a call and answer what the kernel asks until it ends."""
        self._send(call)
        while True:
            kind, told = self._heard()
            if kind == _READ and file is not None:
                file.seek(told[0])
                self._send_bytes(file.read(told[1]))
            elif kind == _SIZE and file is not None:
                self._send(file.seek(0, io.SEEK_END))
            elif kind == _ASK and ask is not None:
                self._send(ask(told))
            elif kind == _DONE:
                return tuple(told)
            elif kind == _FAILED and isinstance(told, Exception):
                raise told
            else:
                raise EngineError("the answer of a worker makes no sense")

    def _send(self, value: Any) -> None:
        with self._alive():
            self.line.send(value)

    def _send_bytes(self, content: bytes) -> None:
        with self._alive():
            self.line.send_bytes(content)

    def _heard(self) -> Any:
        while True:
            self.check()
            with self._alive():
                if self.line.poll(_CHECK_SECONDS):
                    return decode(self.line.recv_bytes(), self.types)

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """Raise why the worker is gone if the line itself ends, not if one of a store's does."""
        try:
            yield
        except _GONE as error:
            raise self._death() from error

    def _death(self) -> Exception:
        """Tell why the worker is gone."""
        code = self.process.wait(_ENDS_WITHIN_SECONDS)
        if code < 0 and -code in _CRASHES:
            return KernelCrashed(signal.Signals(-code).name)
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        hint = "memory may have run out; a lower `--concurrency` needs less of it"
        return EngineError(f"a worker process ended ({how})", hint=hint)

    def end(self) -> None:
        """Have it end, whatever it is doing."""
        self.line.close()
        self.process.kill()
        self.process.wait()


def _settings() -> dict[str, str]:
    """Return the environment that workers have from this process, whatever it was started with.

    Python finds there what it finds here, but nothing by a path that depends on where it runs.
    """
    return {
        "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path)),
        "PYTHONSAFEPATH": "1",
        "TMPDIR": tempfile.gettempdir(),
    }


class _AskedFile(io.RawIOBase):
    """A file whose bytes are with the process at the other end of a line."""

    def __init__(self, line: Connection, turn: Lock) -> None:
        super().__init__()
        self._line = line
        self._turn = turn
        self._at = 0
        line.send_bytes(encode((_SIZE, None)))
        self._size = line.recv()

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: reading may start anywhere."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Ask for the next bytes, and return how many came."""
        wanted = min(memoryview(buffer).nbytes, max(self._size - self._at, 0))
        if wanted == 0:
            return 0
        with self._turn:
            self._line.send_bytes(encode((_READ, (self._at, wanted))))
            count = self._line.recv_bytes_into(buffer)
        self._at += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a place, and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Return the place in the file."""
        return self._at


def _serve(descriptor: int) -> None:
    """Run the kernels that come over a line, until it is closed."""
    leave_pandas_out()
    line = Connection(descriptor)
    with suppress(*_GONE):
        while True:
            line.send_bytes(_answer(line, line.recv()))


def _answer(line: Connection, call: _Call) -> bytes:
    turn = Lock()  # a kernel may read in one thread while it asks in another

    def ask(question: Any) -> Any:
        """Ask a question at the other end, and return the answer."""
        with turn:
            line.send_bytes(encode((_ASK, question)))
            return line.recv()

    files = [io.BufferedReader(_AskedFile(line, turn), _BUFFER_BYTES)] if call.reads else []
    try:
        made = call.kernel(*files, *call.arguments, *([ask] if call.asks else []))
        return encode((_DONE, list(made)))
    except Exception as error:  # noqa: BLE001 - it is raised at the other end
        error.add_note(traceback.format_exc())
        return encode((_FAILED, error))
