"""The terminal: where text goes, how wide and in what colour, questions, and progress.

Data go to stdout; progress, warnings, hints, errors and questions to stderr. Rich is imported
only once there is a progress bar to draw.
"""

import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from textwrap import wrap
from threading import RLock
from typing import Literal, TextIO

from icectl.env import Env
from icectl.errors import IcectlError, UsageError
from icectl.report.live import ConsoleProgress

Color = Literal["auto", "always", "never"]
Style = Literal["bold", "dim", "red", "green", "yellow", "cyan"]

_SGR: Mapping[Style, str] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}
_PIPED_WIDTH = 100
"""Columns to wrap prose at where no terminal tells; tables are not cut there at all."""

_CONTROL = re.compile(r"\x1b\[[0-9;]*m|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""A colour sequence, which passes, or a control character, which a table's name may smuggle in."""


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """The options of a console: `verbosity` is -1 for quiet, 1 for -v, 2 for -vv."""

    color: Color = "auto"
    verbosity: int = 0
    progress: bool = True
    json: bool = False


class Console:
    """The streams of one run, and what may be written to them."""

    def __init__(
        self, out: TextIO, err: TextIO, source: TextIO, env: Env, options: ConsoleOptions
    ) -> None:
        self.options = options
        self._out = out
        self._err = err
        self._source = source
        self._lock = RLock()
        self._hidden: set[str] = set()
        self._warnings: list[str] = []
        self.out_is_terminal = _is_terminal(out)
        self.err_is_terminal = _is_terminal(err)
        self._out_color = _has_color(options.color, terminal=self.out_is_terminal)
        self._err_color = _has_color(options.color, terminal=self.err_is_terminal)
        self.progress = ConsoleProgress(
            err=err,
            env=env,
            enabled=options.progress and options.verbosity >= 0,
            terminal=self.err_is_terminal and os.environ.get("TERM") != "dumb",
            tell=self._stderr,
            warn=self.warn,
        )

    @property
    def width(self) -> int | None:
        """Columns of the terminal that stdout goes to; None where it is a pipe or a file."""
        return shutil.get_terminal_size().columns if self.out_is_terminal else None

    @property
    def prose_width(self) -> int:
        """Columns to wrap sentences at."""
        return min(self.width or _PIPED_WIDTH, _PIPED_WIDTH)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Every warning so far, once each, for the JSON document."""
        return tuple(dict.fromkeys(self._warnings))

    def print(self, text: str = "") -> None:
        """Write a line of data to stdout, whatever the verbosity."""
        self.write(f"{text}\n")

    def write(self, text: str) -> None:
        """Write data to stdout as they are, but for control characters."""
        self.progress.stop()
        self._out.write(printable(text))

    def say(self, text: str = "") -> None:
        """Write a sentence to stdout that `--quiet` leaves out; a terminal has it between words."""
        if self.options.verbosity < 0:
            return
        lines = [text]
        if self.width is not None and len(text) > self.width:
            lines = wrap(
                text,
                self.width,
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        for line in lines:
            self.print(line)

    def note(self, text: str) -> None:
        """Write a line to stderr that `--quiet` leaves out."""
        if self.options.verbosity >= 0:
            self._stderr(text)

    def detail(self, text: str) -> None:
        """Write a line to stderr for `--verbose`."""
        if self.options.verbosity >= 1:
            self._stderr(text)

    def debug(self, text: str) -> None:
        """Write a line to stderr for `-vv`."""
        if self.options.verbosity >= 2:
            self._stderr(self._paint(text, "dim", on=self._err_color))

    def warn(self, message: str) -> None:
        """Tell something that does not end the run; it is kept for the JSON document too."""
        message = self.redact(message)
        with self._lock:
            known = message in self._warnings
            self._warnings.append(message)
        if not known:
            self._labelled("warning", "yellow", message)

    def hint(self, message: str) -> None:
        """Name the next step."""
        if self.options.verbosity >= 0:
            self._labelled("hint", "cyan", message)

    def error(self, error: IcectlError) -> None:
        """Say what went wrong, and what to do."""
        self._labelled("error", "red", error.message)
        if error.hint:
            self._labelled("hint", "cyan", error.hint)

    def error_lines(self, lines: Sequence[str]) -> None:
        """Write a traceback."""
        self._stderr("".join(lines).rstrip())

    def style(self, text: str, *styles: Style) -> str:
        """Colour a piece of text for stdout, where colour is on."""
        return self._paint(text, *styles, on=self._out_color)

    @property
    def asks(self) -> bool:
        """Whether there is somebody to ask."""
        return not self.options.json and self.err_is_terminal and _is_terminal(self._source)

    def ask(self, question: str) -> bool:
        """Ask on the terminal, default no; UsageError where there is nobody to ask."""
        if not self.asks:
            raise UsageError(
                "this needs a confirmation, and there is no terminal to ask on",
                hint="`--yes` confirms beforehand, `--dry-run` shows the plan",
                id="confirmation-needed",
            )
        with self.progress.paused(), self._lock:
            self._err.write(printable(f"{self._paint(question, 'bold', on=self._err_color)} "))
            self._err.write("[y/N] ")
            self._err.flush()
            answer = ""
            try:
                answer = self._source.readline()
            finally:  # Ctrl-C too leaves the line of the question
                if not answer.endswith("\n"):
                    self._err.write("\n")
        return answer.strip().lower() in {"y", "yes"}

    def hide(self, secret: str) -> None:
        """Hide a value: it is never written to stderr, nor into a document."""
        if secret:
            self._hidden.add(secret)

    def redact(self, text: str) -> str:
        """Replace every hidden value, longest first."""
        for secret in sorted(self._hidden, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def flush(self) -> None:
        """End the progress display and hand everything to the operating system."""
        self.progress.stop()
        self._out.flush()
        with suppress(OSError):
            self._err.flush()

    def _labelled(self, label: str, style: Style, message: str) -> None:
        painted = self._paint(f"{label}:", "bold", style, on=self._err_color)
        self._stderr(f"{painted} {message}")

    def _stderr(self, text: str) -> None:
        line = printable(self.redact(text)) + "\n"
        with self.progress.paused(), self._lock, suppress(BrokenPipeError):
            self._err.write(line)
            self._err.flush()

    @staticmethod
    def _paint(text: str, *styles: Style, on: bool) -> str:
        if not on or not styles:
            return text
        return f"\x1b[{';'.join(_SGR[style] for style in styles)}m{text}\x1b[0m"


def printable(text: str) -> str:
    """Show control characters, which a name in a table may smuggle in, as escapes."""
    return _CONTROL.sub(lambda match: _visible(match.group()), text)


def _visible(sequence: str) -> str:
    return sequence if len(sequence) > 1 else f"\\x{ord(sequence):02x}"


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def _has_color(color: Color, *, terminal: bool) -> bool:
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return terminal and os.environ.get("TERM") != "dumb"


class _ConsoleHandler(logging.Handler):
    """Debug records on the console, without secrets."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        self._console.debug(f"debug: {record.name}: {record.getMessage()}")


@contextmanager
def debug_log(console: Console) -> Iterator[None]:
    """Show debug records while this lasts, where the console is that verbose."""
    if console.options.verbosity < 2:
        yield
        return
    logger = logging.getLogger("icectl")
    handler = _ConsoleHandler(console)
    before = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
