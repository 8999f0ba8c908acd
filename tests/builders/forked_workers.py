"""Workers forked from a process that has imported what they need: a tenth of the work of new ones.

That process is started for the first of them. Each worker has the environment, the folder and the
path of modules of its moment, a session of its own, and its streams at /dev/null.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from icectl.entries.without_pandas import leave_pandas_out
from icectl.rows import workers

ROOT = Path(__file__).parents[2]
_REQUEST_BYTES = 1 << 18


@dataclass
class ForkedProcess:
    """A process that another one has forked and waits for: what is used of Popen."""

    pid: int
    told: int
    returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, negative for a signal. Raises: TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self.told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("worker", timeout or 0)
            self.returncode = int(os.read(self.told, 10))
            os.close(self.told)
        return self.returncode

    def kill(self) -> None:
        """End it, if it still runs."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


@dataclass
class Forks:
    """Starts workers; `close` ends the process that forks them."""

    _server: list[tuple[subprocess.Popen[bytes], socket.socket]] = field(default_factory=list)

    def started(self, types: Sequence[type], check: Callable[[], None]) -> "workers._Worker":
        """Stands where `_Worker.start` does."""
        asking = self._asking()
        here, there = socket.socketpair()
        told, telling = os.pipe()
        with there:
            settings = os.environ | workers._settings()
            request = {"settings": settings, "folder": str(Path.cwd()), "path": sys.path}
            socket.send_fds(asking, [json.dumps(request).encode()], [there.fileno(), telling])
        os.close(telling)
        process: Any = ForkedProcess(int(os.read(told, 10)), told)
        return workers._Worker(process, Connection(here.detach()), types, check)

    def _asking(self) -> socket.socket:
        if not self._server:
            here, there = socket.socketpair(type=socket.SOCK_SEQPACKET)
            command = f"from {__name__} import serve; serve({there.fileno()})"
            with there:
                server = subprocess.Popen(
                    [sys.executable, "-c", command],
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[there.fileno()],
                    start_new_session=True,
                )
            self._server.append((server, here))
        return self._server[0][1]

    def close(self) -> None:
        """End it."""
        for server, asking in self._server:
            asking.close()
            server.wait(60)


def serve(descriptor: int) -> None:
    """Fork workers until nobody asks any more."""
    leave_pandas_out()
    import icectl.commands.maintain.workers
    import icectl.commands.validate.data
    import icectl.rows.local  # noqa: F401 - for those that are forked

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    asked = socket.socket(fileno=descriptor)
    while True:
        request, descriptors, _, _ = socket.recv_fds(asked, _REQUEST_BYTES, 2)
        if not request:
            return
        line, telling = descriptors
        if os.fork() == 0:
            asked.close()
            _wait_for_worker(json.loads(request), line, telling)
        os.close(line)
        os.close(telling)


def _wait_for_worker(request: dict[str, Any], line: int, telling: int) -> None:
    """Fork a worker; tell its number, and its end. This process ends then."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        worker = os.fork()
        if worker == 0:
            os.close(telling)
            _work(request, line)
        os.close(line)
        os.write(telling, f"{worker:10}".encode())
        _, status = os.waitpid(worker, 0)
        os.write(telling, f"{os.waitstatus_to_exitcode(status):10}".encode())
    finally:
        os._exit(0)


def _work(request: dict[str, Any], line: int) -> None:
    """Be a worker as `_Worker.start` sets it up."""
    code = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["settings"])
        sys.path[:] = [path for path in request["path"] if Path(path).is_absolute()]
        workers._serve(line)
        code = 0
    finally:
        os._exit(code)
