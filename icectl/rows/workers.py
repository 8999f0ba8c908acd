"""Worker processes of this machine, for rows, for checks of files, and for steps of `maintain`.

Decoders of Parquet and ORC are native code, which a few wrong bytes can end with a signal. A kernel
in a worker ends its worker only; workers are kept for the next call, and start as they are needed:
forked, where the process has prepared that, else as programs of their own.

`ProcessPoolExecutor` is no way to do this. It unpickles whatever a worker writes, and a decoder
that a hostile file has taken over may write anything. One dead worker also fails all other calls
there, and it is not known by which signal it died. So there is one socket a worker. Calls are
pickled, since this process makes them; answers are read as data of the types that the caller names
(wire.py).
"""

import gc
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
from typing import IO, Any, Protocol

from icectl.entries.without_pandas import leave_pandas_out
from icectl.errors import EngineError
from icectl.files.random_access import RandomAccessFile
from icectl.rows.forked_processes import Starter, fork_starter
from icectl.rows.wire import decode, encode

Ask = Callable[[Any], Any]
"""Answers a question that a kernel asks while it runs."""

Tell = Callable[[Any], object]
"""Takes what a kernel tells while it runs, which does not wait for it."""

Kernel = Callable[..., Iterable[Any]]
"""`kernel([file, ]*arguments[, ask or tell])`: at the top of a module, its values picklable."""

_READ, _SIZE, _ASK, _TELL, _DONE, _FAILED = range(6)
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
class WorkerPool:
    """A context that ends its workers when it is left.

    `types` are the dataclasses that kernels yield, ask with and tell. `check` is called from time
    to time; an error that it raises ends the call and its worker.
    """

    types: Sequence[type] = ()
    check: Callable[[], None] = lambda: None
    _idle: SimpleQueue["_Worker"] = field(default_factory=SimpleQueue)

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        workers = []
        with suppress(Empty):
            while True:
                workers.append(self._idle.get_nowait())
        for worker in workers:  # to free what each has takes a while
            worker.kill()
        for worker in workers:
            worker.process.wait()

    def call(
        self,
        kernel: Kernel,
        file: IO[bytes] | None,
        *arguments: Any,
        ask: Ask | None = None,
        tell: Tell | None = None,
    ) -> tuple[Any, ...]:
        """Run a kernel in a worker, on an open file if there is one; it gets `ask` or `tell` last.

        Raises: KernelCrashed; errors of the kernel that are icectl's, OSError or MemoryError, all
        others as KernelFailed; errors of the file, of `ask`, of `tell` and of `check`.
        """
        with self._worker() as worker:
            says = _ASK if ask is not None else _TELL if tell is not None else None
            worker.send((kernel, arguments, file is not None, says))
            return worker.answer(file, ask, tell)

    @contextmanager
    def _worker(self) -> Iterator["_Worker"]:
        """Lend a worker to one user at a time; after an error it is ended."""
        try:
            worker = self._idle.get_nowait()
        except Empty:
            worker = _Worker.start(self.types, self.check)
        try:
            yield worker
        except BaseException:
            worker.end()
            raise
        self._idle.put(worker)


_starters: list[Starter] = []
"""What forks this process's workers, once it is prepared."""


@contextmanager
def prepared_workers() -> Iterator[None]:
    """Have workers, while this lasts, forked from this process as it is now: with its imports.

    It must be icectl's own, have no other thread yet, and no file open. Where none can be forked
    workers are programs of their own.
    """
    starter = fork_starter(_serve_forked)
    if starter is None:
        yield
        return
    _starters.append(starter)
    try:
        yield
    finally:
        _starters.remove(starter)
        starter.end()


class _Process(Protocol):
    """What is used of a process: `wait` returns its exit code, negative for a signal."""

    def wait(self, timeout: float | None = None) -> int: ...
    def kill(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Worker:
    """This end of a worker process."""

    process: _Process
    line: Connection
    types: Sequence[type]
    check: Callable[[], None]

    @staticmethod
    def start(types: Sequence[type], check: Callable[[], None]) -> "_Worker":
        """Start one. It has its own session: Ctrl-C is for this process alone.

        It imports nothing from the working directory, and collects garbage as rarely as this one.
        """
        own_end, worker_end = socket.socketpair()
        line = Connection(own_end.detach())
        with worker_end:
            try:
                process = _forked(worker_end, line) or _started(worker_end)
            except OSError as error:
                line.close()
                raise EngineError(f"no process can be started: {error}") from error
        return _Worker(process, line, types, check)

    def send(self, value: Any) -> None:
        with self._alive():
            self.line.send(value)

    def answer(self, file: IO[bytes] | None, ask: Ask | None, tell: Tell | None) -> tuple[Any, ...]:
        """Answer a kernel, and hear what it tells, until it ends; return what it yielded."""
        while True:
            self.check()
            with self._alive():
                if not self.line.poll(_CHECK_SECONDS):
                    continue
                kind, value = decode(self.line.recv_bytes(), self.types)
            if kind == _READ and file is not None:
                file.seek(value[0])
                content = file.read(value[1])
                with self._alive():
                    self.line.send_bytes(content)
            elif kind == _SIZE and file is not None:
                self.send(file.seek(0, io.SEEK_END))
            elif kind == _ASK and ask is not None:
                self.send(ask(value))
            elif kind == _TELL and tell is not None:
                tell(value)
            elif kind == _DONE:
                return tuple(value)
            elif kind == _FAILED and isinstance(value, Exception):
                raise value
            else:
                raise EngineError("a worker sent an invalid response")

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """Raise the cause of death if the line itself ends, not if a connection of a store does."""
        try:
            yield
        except _GONE as error:
            code = self.process.wait(_ENDS_WITHIN_SECONDS)
            if code < 0 and -code in _CRASHES:
                raise KernelCrashed(signal.Signals(-code).name) from error
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            hint = "memory may have run out; a lower `--concurrency` needs less memory"
            raise EngineError(f"a worker process ended ({how})", hint=hint) from error

    def kill(self) -> None:
        """Kill the process, whatever it is doing."""
        self.line.close()
        self.process.kill()

    def end(self) -> None:
        """Kill the process, and wait until it has ended."""
        self.kill()
        self.process.wait()


def _forked(worker_end: socket.socket, line: Connection) -> _Process | None:
    """Fork a worker; None where that is not prepared, or is no more."""
    for starter in _starters:
        with suppress(OSError):
            process = starter.fork(worker_end)
            line.send(tempfile.gettempdir())
            return process
    return None


def _started(worker_end: socket.socket) -> _Process:
    """Start a worker as a program. Raises: OSError."""
    command = (
        f"import gc; gc.set_threshold{gc.get_threshold()}; "
        f"from {__name__} import _serve; _serve({worker_end.fileno()})"
    )
    return subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-P", "-c", command],
        env=os.environ | _settings(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # native readers print what they find
        pass_fds=[worker_end.fileno()],
        start_new_session=True,
    )


def _settings() -> dict[str, str]:
    """Let workers find the modules that this process finds, but none by a relative path.

    Arrow takes no huge pages there: to clear each as a whole took a fifth of a rewrite's time.
    """
    return {
        "MIMALLOC_ALLOW_THP": "0",
        "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path)),
        "PYTHONSAFEPATH": "1",
        "TMPDIR": tempfile.gettempdir(),
    }


class _AskedFile(RandomAccessFile):
    """A file whose bytes are with the process at the other end of a line."""

    def __init__(self, line: Connection, turn: Lock) -> None:
        line.send_bytes(encode((_SIZE, None)))
        super().__init__(line.recv())
        self._line = line
        self._turn = turn

    def read_at(self, offset: int, length: int) -> bytes:
        with self._turn:
            self._line.send_bytes(encode((_READ, (offset, length))))
            return self._line.recv_bytes()


def _serve(descriptor: int) -> None:
    """Be a worker that is a program of its own."""
    leave_pandas_out()
    _run_calls(Connection(descriptor))


def _serve_forked(descriptor: int) -> None:
    """Be a worker that was forked: what has changed since comes first."""
    line = Connection(descriptor)
    tempfile.tempdir = line.recv()
    _run_calls(line)


def _run_calls(line: Connection) -> None:
    """Run the kernels that are called over a line, until it is closed."""
    with suppress(*_GONE):
        while True:
            kernel, arguments, reads, says = line.recv()
            line.send_bytes(_answer(line, kernel, arguments, says, reads=reads))


def _answer(
    line: Connection, kernel: Kernel, arguments: Sequence[Any], says: int | None, *, reads: bool
) -> bytes:
    """Return the answer to a call; `reads` if it comes with a file, `says` if it asks or tells."""
    turn = Lock()  # a kernel may read in one thread while it asks or tells in another

    def say(what: Any) -> Any:
        with turn:
            line.send_bytes(encode((says, what)))
            return line.recv() if says == _ASK else None

    files = [io.BufferedReader(_AskedFile(line, turn), _BUFFER_BYTES)] if reads else []
    try:
        return encode((_DONE, list(kernel(*files, *arguments, *([] if says is None else [say])))))
    except Exception as error:  # noqa: BLE001 - it is raised at the other end
        error.add_note(traceback.format_exc())
        return encode((_FAILED, error))
