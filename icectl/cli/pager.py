"""The pager: shows output on a terminal that is longer than the screen, as git's does.

Its command comes from ICECTL_PAGER or PAGER alone: no table and no file has a say in it.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from tempfile import SpooledTemporaryFile
from typing import TextIO

from icectl.env import find_program

_USUAL = "less"
_SETTINGS = {"LESS": "FRX", "LV": "-c"}
"""What pagers go by where the user has set nothing: leave a short text, show colours, keep it."""

_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_KEPT_BYTES = 16 * 1024 * 1024
"""How much of the output is kept in memory, in case the pager fails."""

_ENDED_WELL = (0, -signal.SIGINT, 128 + signal.SIGINT)


def pager_command(warn: Callable[[str], None]) -> Sequence[str]:
    """Return the words of the pager's command, none where the output goes to the terminal itself.

    ICECTL_PAGER is asked, then PAGER, then `less` is taken; `cat` and the empty text ask for none.
    A program that is named and not found is warned of.
    """
    name = next((key for key in ("ICECTL_PAGER", "PAGER") if key in os.environ), None)
    text = _USUAL if name is None else os.environ[name]
    try:
        words = shlex.split(text)
    except ValueError:
        words = [text]
    if words in ([], ["cat"]) or os.environ.get("TERM", "dumb") == "dumb":
        return ()
    program = find_program(words[0])
    if program is None:
        if name is not None:
            warn(f"{name}: the pager `{words[0]}` is not installed")
        return ()
    return (program, *words[1:])


class PagedText:
    """Output of one run: held until it is longer than the screen, and from then on in the pager.

    What is written to stderr waits until the pager has ended.
    """

    def __init__(self, out: TextIO, err: TextIO, warn: Callable[[str], None]) -> None:
        self._out = out
        self._err = err
        self._warn = warn
        self._columns, self._lines = shutil.get_terminal_size()
        self._used = 0
        self._held: list[tuple[TextIO, str]] = []
        self._pager: _Pager | None = None
        self._is_direct = False

    def write(self, text: str) -> None:
        """Write data. Raises: BrokenPipeError, once the user has left the pager."""
        if self._pager is not None:
            pager = self._pager
            try:
                pager.write(text)
            except BrokenPipeError:
                self._wait_for(pager)
                if not self._is_direct:
                    raise
        elif self._is_direct:
            self._out.write(text)
        else:
            self._held.append((self._out, text))
            plain = _COLOR.sub("", text)
            self._used += plain.count("\n")
            self._used += sum(max(len(line) - 1, 0) // self._columns for line in plain.split("\n"))
            if self._used >= self._lines:
                self._start()

    def write_note(self, text: str) -> None:
        """Write a line for stderr."""
        if self._is_direct:
            self._err.write(text)
            self._err.flush()
        else:
            self._held.append((self._err, text))

    def end(self, *, is_terminated: bool = False) -> None:
        """Write what is held, and wait until the user has left the pager."""
        if self._pager is not None:
            if is_terminated:
                self._pager.process.terminate()
            self._wait_for(self._pager)
        self._write_held()

    def _start(self) -> None:
        command = pager_command(self._warn)
        try:
            self._pager = _Pager(command, self._out.encoding or "utf-8") if command else None
        except OSError as error:
            self._warn(f"the pager `{command[0]}` cannot be started: {error.strerror}")
        if self._pager is None:
            self._write_held()
            return
        texts = self._held
        self._held = [(stream, text) for stream, text in texts if stream is self._err]
        for stream, text in texts:
            if stream is self._out:
                self.write(text)

    def _wait_for(self, pager: "_Pager") -> None:
        """Wait for the end of the pager; if it failed, print the whole output."""
        self._pager = None
        try:
            if not pager.ended_well():
                self._is_direct = True
                pager.texts.seek(0)
                shutil.copyfileobj(pager.texts, self._out)
        finally:
            pager.texts.close()

    def _write_held(self) -> None:
        self._is_direct = True
        texts, self._held = self._held, []
        for stream, text in texts:
            stream.write(text)
            stream.flush()


class _Pager:
    """A pager that runs, and all the `texts` that went to it."""

    def __init__(self, command: Sequence[str], encoding: str) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - the user's own command
            command, stdin=subprocess.PIPE, env={**_SETTINGS, **os.environ}
        )
        assert self.process.stdin is not None
        self._input = TextIOWrapper(self.process.stdin, encoding, "backslashreplace", newline="")
        self.texts = SpooledTemporaryFile(  # noqa: SIM115 - who waits for the end closes it
            _KEPT_BYTES, "w+", encoding="utf-8", errors="surrogatepass", newline=""
        )

    def write(self, text: str) -> None:
        """Hand a text over. Raises: BrokenPipeError."""
        self.texts.write(text)
        self._input.write(text)

    def ended_well(self) -> bool:
        """Wait until the program ends; return whether it did as it should.

        Ctrl-C is for the pager, which may go on; SIGTERM ends it too.
        """
        process = self.process
        try:
            while process.returncode is None:
                with suppress(KeyboardInterrupt):
                    with suppress(BrokenPipeError):
                        self._input.close()
                    process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                process.wait()
        return process.returncode in _ENDED_WELL
