"""Processes that are forked: they have imported already what this process has.

To start a program and to import Arrow takes longer than a small rewrite. So a copy of this process,
the starter, is made while it has one thread and no file open. The starter only waits and forks.
What it forks serves one line each. All of them have a session of their own, and end with this
process.
"""

import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from threading import Lock
from typing import NoReturn

_NUMBER_BYTES = 4
_STREAMS = 3
_FAILED = -1


@dataclass(frozen=True, slots=True)
class Starter:
    """This end of the process that forks others."""

    pid: int
    asking: socket.socket
    turn: Lock = field(default_factory=Lock)

    def fork(self, line: socket.socket) -> "ForkedProcess":
        """Start a process at a line. Raises: OSError, where there can be none."""
        number = self._ask(0, [line.fileno()])
        if number == _FAILED:
            raise OSError("no process could be forked")
        return ForkedProcess(self, number)

    def end_of(self, number: int, seconds: float | None) -> int:
        """Return the exit code of a process, negative for a signal; it is killed after a time.

        That is the code of a kill, too, where the starter has ended itself.
        """
        try:
            return self._ask(number, (), seconds)
        except OSError:
            return -signal.SIGKILL

    def end(self) -> None:
        """End the starter. What its processes have used counts as used by this one."""
        self.asking.close()
        os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # who ignores the ends of children does not hear of them
            os.waitpid(self.pid, 0)

    def _ask(self, number: int, lines: Sequence[int], seconds: float | None = None) -> int:
        """Ask for a fork with a line, or else how a process has ended. Raises: OSError."""
        with self.turn:
            try:
                socket.send_fds(self.asking, [_bytes(number)], lines)
                if not select([self.asking], [], [], seconds)[0]:
                    os.kill(number, signal.SIGKILL)  # its number is its own until this is answered
                answer = self.asking.recv(_NUMBER_BYTES)
            except BaseException:
                self.asking.close()  # else the next question gets this one's answer
                raise
        if not answer:
            raise BrokenPipeError("the process that forks others has ended")
        return int.from_bytes(answer, signed=True)


@dataclass(slots=True)
class ForkedProcess:
    """What is used of a process of `subprocess`, of one that a starter has forked."""

    starter: Starter
    pid: int
    returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; it is killed after a time."""
        if self.returncode is None:
            self.returncode = self.starter.end_of(self.pid, timeout)
        return self.returncode

    def kill(self) -> None:
        """End it, if it was not waited for yet."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def fork_starter(serve: Callable[[int], None]) -> Starter | None:
    """Fork the process whose forks run `serve` with the number of a line, until that is closed.

    None where it can't be: only Linux forks a process with all of its libraries, and only while it
    has no other thread.
    """
    if sys.platform != "linux" or threading.active_count() > 1:
        return None
    asking, asked = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with asked, warnings.catch_warnings():
        # Arrow brings one thread: an allocator's, which looks after forks itself
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            pid = os.fork()
        except OSError:
            asking.close()
            return None
        if pid == 0:
            _run(lambda: _be_starter(asked, serve))
    return Starter(pid, asking)


def fork_when_asked(asked: socket.socket, serve: Callable[[int], None]) -> None:
    """Fork processes, and wait for them, until the other end is closed."""
    while True:
        request, lines, _, _ = socket.recv_fds(asked, _NUMBER_BYTES, 1)
        if not request:
            return
        if not lines:
            _, status = os.waitpid(int.from_bytes(request), 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = _fork(asked, lines[0], serve)
            os.close(lines[0])
        asked.send(_bytes(answer))


def _fork(asked: socket.socket, line: int, serve: Callable[[int], None]) -> int:
    try:
        number = os.fork()
    except OSError:
        return _FAILED
    if number == 0:
        asked.close()
        _run(lambda: serve(line))
    return number


def _run(work: Callable[[], None]) -> NoReturn:
    """Do the work of a forked process, which never comes back to what forked it."""
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def _be_starter(asked: socket.socket, serve: Callable[[int], None]) -> None:
    """Leave the session and the files of the process that was forked, then fork when asked."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(_STREAMS):
        os.dup2(nothing, stream)  # native readers print what they find
    for name in list(Path("/proc/self/fd").iterdir()):
        number = int(name.name)
        if number >= _STREAMS and number != asked.fileno():
            with suppress(OSError):  # the listing's own
                os.close(number)
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(signal_number) is not signal.SIG_IGN:
            signal.signal(signal_number, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.path[:] = filter(os.path.isabs, sys.path)
    fork_when_asked(asked, serve)


def _bytes(number: int) -> bytes:
    return number.to_bytes(_NUMBER_BYTES, signed=True)
