"""icectl as a process whose every change of the file system is a step that can be its last.

`Processes` runs command lines in children of one process that has imported icectl already. A step
is what the system is asked for below a directory: opening a file to write, flushing it, linking,
renaming, removing, making a directory. Python announces them (audit events), so icectl is run as
it is.

    python -m tests.fault.steps        answers requests, one JSON line each
"""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import pytest

ROOT = Path(__file__).parents[2]
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {"os.link": 2, "os.remove": 1, "os.rename": 2, "os.mkdir": 2}
"""Events, and which argument is the descriptor of the folder that a name is in."""
End = Literal["kill", "full", "none"]


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code (negative for a signal), its document, the steps it made."""

    code: int
    document: dict[str, Any]
    steps: int


class Processes:
    """Runs of icectl in processes of their own, each a moment after it was asked for."""

    def __enter__(self) -> "Processes":
        command = [sys.executable, "-m", "tests.fault.steps"]
        self._server = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.close()
        self._server.wait(timeout=60)
        self._server.stdout.close()

    def run(
        self, lines: Sequence[Sequence[str]], *, directory: Path, end: End = "none", nth: int = 0
    ) -> list[Ended]:
        """Run command lines at the same time; the nth step below the directory is the end.

        `kill`: kill -9 comes before it. `full`: from it on nothing new can be written there.
        """
        request = {"lines": lines, "directory": str(directory), "end": end, "nth": nth}
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return [Ended(**found) for found in json.loads(self._server.stdout.readline())]


class Steps:
    """Counts the steps of this process below a directory, and ends or fails it."""

    def __init__(self, directory: str, end: str, nth: int) -> None:
        self.directory, self.end, self.nth, self.count = directory, end, nth, 0

    def watch(self) -> None:
        """Begin; it lasts as long as the process."""
        sys.addaudithook(self._announced)

        def fsync(descriptor: int) -> None:  # flushes nothing: no power fails here
            self._step(str(Path(f"/proc/self/fd/{descriptor}").readlink()), writes=True)

        os.fsync = fsync
        open_file = os.open

        def open_in(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if dir_fd is not None and flags & WRITING:  # the event does not tell the folder
                self._step(str(Path(f"/proc/self/fd/{dir_fd}").readlink() / path), writes=True)
            return open_file(path, flags, mode, dir_fd=dir_fd)

        os.open = open_in  # type: ignore[assignment]

    def _announced(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if flags & WRITING:
                self._step(path, writes=True)
        elif event in CHANGES:
            path, folder = arguments[0], arguments[CHANGES[event]]
            if isinstance(path, str) and folder >= 0:
                path = str(Path(f"/proc/self/fd/{folder}").readlink() / path)
            self._step(path, writes=event != "os.remove")

    def _step(self, path: object, *, writes: bool) -> None:
        if not isinstance(path, str) or not path.startswith(self.directory):
            return
        self.count += 1
        if self.end == "kill" and self.count == self.nth:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.end == "full" and self.count >= self.nth and writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def _child(number: int, request: dict[str, Any], answer: int, starts: float) -> None:
    """Run one command line, and answer before the process ends.

    Each has a millisecond of its own: with one plan in the same one, two write the same bytes, and
    each may call them its own.
    """
    from icectl.cli import app
    from tests.builders.expiry import NOW_MS, Clock
    from tests.fault.changing import run_inline

    run_inline(pytest.MonkeyPatch())  # steps of other processes would not be seen
    steps = Steps(request["directory"], request["end"], request["nth"])
    steps.watch()
    out = StringIO()
    time.sleep(max(0.0, starts - time.monotonic()))
    with redirect_stdout(out):
        code = app.main(request["lines"][number], env=Clock(NOW_MS + number))
    os.write(answer, json.dumps([code, out.getvalue(), steps.count]).encode())
    os._exit(0)


def _fork(number: int, request: dict[str, Any], starts: float) -> tuple[int, int]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            _child(number, request, writer, starts)
        finally:
            os._exit(1)
    os.close(writer)
    return child, reader


def _answer(child: int, reader: int) -> Ended:
    with os.fdopen(reader, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    if not content:
        return Ended(ended, {}, 0)
    code, out, steps = json.loads(content)
    return Ended(code, json.loads(out), steps)


def main() -> None:
    """Answer requests until there are no more."""
    from tests.fault.changing import CHANGING

    # What a command imports when it is called: once, not in each child.
    for name in {changing.words[0].replace("-", "_") for changing in CHANGING.values()}:
        import_module(f"icectl.commands.{name}.options")
        import_module(f"icectl.commands.{name}.run")
    for name in ("icectl.catalog.commit_file", "numpy.ma", "obstore.store", "pyarrow.dataset"):
        import_module(name)
    os.environ["XDG_CONFIG_HOME"] = "/nonexistent"
    for text in sys.stdin:
        request = json.loads(text)
        count = len(request["lines"])
        starts = time.monotonic() + (0.05 if count > 1 else 0)
        children = [_fork(number, request, starts) for number in range(count)]
        print(json.dumps([_answer(*child).__dict__ for child in children]), flush=True)


if __name__ == "__main__":
    main()
