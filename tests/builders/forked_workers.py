"""Workers forked from a process that has imported what they need: a tenth of the work of new ones.

The process of a test has threads, so another one is started for the first of them. Each worker has
the environment, the folder and the path of modules of its moment.
"""

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icectl.entries.without_pandas import leave_pandas_out
from icectl.rows import workers
from icectl.rows.forked_processes import ForkedProcess, Starter, fork_when_asked

ROOT = Path(__file__).parents[2]
_REQUEST_BYTES = 1 << 18


@dataclass
class Forks:
    """Forks workers; `close` ends the process that does."""

    _starters: list[tuple[subprocess.Popen[bytes], Starter]] = field(default_factory=list)

    def fork(self, line: socket.socket) -> ForkedProcess:
        """Stands where `Starter.fork` does."""
        here, there = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with here, there:
            process = self._starter().fork(there)
            folder = str(Path.cwd())
            settings = {"environment": dict(os.environ), "folder": folder, "path": sys.path}
            socket.send_fds(here, [json.dumps(settings).encode()], [line.fileno()])
        return process

    def _starter(self) -> Starter:
        if not self._starters:
            here, there = socket.socketpair(type=socket.SOCK_SEQPACKET)
            command = f"from {__name__} import serve; serve({there.fileno()})"
            with there:
                server = subprocess.Popen(
                    [sys.executable, "-c", command],
                    cwd=ROOT,
                    env=os.environ | workers._settings(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[there.fileno()],
                    start_new_session=True,
                )
            self._starters.append((server, Starter(server.pid, here)))
        return self._starters[0][1]

    def close(self) -> None:
        """End it."""
        for server, starter in self._starters:
            starter.asking.close()
            server.wait(60)


def serve(descriptor: int) -> None:
    """Fork workers until nobody asks any more."""
    leave_pandas_out()
    import icectl.commands.maintain.workers
    import icectl.commands.validate.data
    import icectl.rows.local  # noqa: F401 - for those that are forked

    fork_when_asked(socket.socket(fileno=descriptor), _work)


def _work(descriptor: int) -> None:
    """Be a worker with the settings of its moment."""
    with socket.socket(fileno=descriptor) as asked:
        settings, lines, _, _ = socket.recv_fds(asked, _REQUEST_BYTES, 1)
    chosen: dict[str, Any] = json.loads(settings)
    os.chdir(chosen["folder"])
    os.environ.clear()
    os.environ.update(chosen["environment"])
    sys.path[:] = [path for path in chosen["path"] if Path(path).is_absolute()]
    workers._serve_forked(lines[0])
