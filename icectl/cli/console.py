"""Output on the terminal: streams, width, color, questions and progress.

Data go to stdout; progress, warnings, hints, errors and questions go to stderr. Rich is imported
only for a progress bar.
"""

import io
import json
import logging
import os
import re
import shutil
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from textwrap import wrap
from threading import RLock
from typing import TYPE_CHECKING, Literal, TextIO, get_args
from urllib.parse import quote

from icectl.cli.progress_bar import ConsoleProgress
from icectl.cli.signals import Terminated
from icectl.env import Env
from icectl.errors import IcectlError, UsageError
from icectl.units import inert, print_instant, printable, redact

if TYPE_CHECKING:  # few runs have a terminal to page on
    from icectl.cli.pager import PagedText

Color = Literal["auto", "always", "never"]
COLORS: tuple[Color, ...] = get_args(Color)
Style = Literal["bold", "dim", "red", "green", "yellow", "cyan"]

_SGR: Mapping[Style, str] = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"
}  # fmt: skip
_PIPED_WIDTH = 100
"""Columns to wrap prose at where no terminal tells; tables are not cut there at all."""

_CONTINUED = "\n  | "
"""What joins the lines of a traceback: none of them begins as a message or a command of CI does."""


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """The options of a console: `verbosity` is -1 for quiet, 1 for -v, 2 for -vv."""

    color: Color = "auto"
    verbosity: int = 0
    progress: bool = True
    json: bool = False
    pager: bool = False


class Console:
    """The streams of one run, and what may be written to them."""

    def __init__(
        self, out: TextIO, err: TextIO, source: TextIO, env: Env, options: ConsoleOptions
    ) -> None:
        self.options = options
        self._out = out
        self._err = err
        self._source = source
        self._env = env
        self._is_log = False
        self._log_header: str | None = None
        self._paged: PagedText | None = None
        self._lock = RLock()
        self._hidden: set[str] = set()
        self._mark = f"\x1b{os.urandom(8).hex()}"  # begins a colour of ours: no name can have it
        self._painted = re.compile(rf"{self._mark}([0-9;]+)m")
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
            write_line=self._stderr,
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
        self.progress.stop()
        self._data.write(self._inert(text) + "\n")

    def write(self, text: str) -> None:
        """Write lines of data to stdout, in which there is no end of line but between them."""
        self.progress.stop()
        self._data.write("\n".join(map(printable, text.split("\n"))))

    @contextmanager
    def paged(self) -> Iterator[None]:
        """Show what is printed inside in a pager if it is longer than the screen.

        Raises: BrokenPipeError, from what prints once the user has left the pager.
        """
        if not (self.options.pager and self.out_is_terminal):
            yield
            return
        from icectl.cli.pager import PagedText

        self._paged = PagedText(self._out, self._err, self.warn)
        is_terminated = False
        try:
            yield
        except Terminated:
            is_terminated = True
            raise
        finally:
            self._paged.end(is_terminated=is_terminated)
            self._paged = None

    @property
    def _data(self) -> "TextIO | PagedText":
        return self._paged or self._out

    def say(self, text: str = "") -> None:
        """Write a sentence to stdout that `--quiet` leaves out; a terminal has it between words."""
        if self.options.verbosity >= 0:
            self.print_sentence(text)

    def print_sentence(self, text: str) -> None:
        """Write a sentence to stdout, whatever the verbosity; a terminal has it between words."""
        for line in _wrap(text, self.width):
            self.print(line)

    def note(self, text: str) -> None:
        """Write a line to stderr that `--quiet` leaves out."""
        if self.options.verbosity >= 0:
            self._sentence(text)

    def detail(self, text: str) -> None:
        """Write a line to stderr for `--verbose`."""
        if self.options.verbosity >= 1:
            self._sentence(text)

    def debug(self, text: str) -> None:
        """Write a line to stderr for `-vv`."""
        if self.options.verbosity >= 2:
            self._stderr(*text.split("\n"))

    def begin_log(self, header: str) -> None:
        """Put the time before each line to stderr from now on, unless that is a terminal.

        The header is the first line; with `--quiet` it waits for another line to write.
        """
        if self.err_is_terminal or self.options.json:
            return
        self._is_log, self._log_header = True, self._inert(self.redact(header))
        if self.options.verbosity >= 0:
            self.show_log_header()

    def show_log_header(self) -> None:
        """Write the header of the log, if it waits for that."""
        if self._log_header is not None:
            self._write_lines([], "")

    def log(self, text: str) -> None:
        """Write a line to the log, if there is one, that `--quiet` leaves out."""
        if self._is_log:
            self.note(text)

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
        self._stderr(*"".join(lines).rstrip().split("\n"))

    def style(self, text: str, *styles: Style) -> str:
        """Colour a piece of text for stdout, where colour is on."""
        return self._paint(text, *styles, on=self._out_color)

    @property
    def asks(self) -> bool:
        """Whether there is somebody to ask."""
        return not self.options.json and self.err_is_terminal and _is_terminal(self._source)

    def ask(self, question: str) -> bool:
        """Ask on the terminal, default no; UsageError if no user can answer."""
        if not self.asks:
            raise UsageError(
                "cannot ask for confirmation without a terminal",
                hint="confirm with `--yes`, or see the plan with `--dry-run`",
                id="confirmation-needed",
            )
        return self._answer(question, "[y/N]").lower() in {"y", "yes"}

    def _answer(self, question: str, choices: str = "") -> str:
        with self.progress.paused(), self._lock:
            text = f"{inert(self.redact(question))} {choices}".rstrip()
            bold = []
            for line in _wrap(text, self._err_width):
                painted = self._paint(line.removesuffix(choices), "bold", on=self._err_color)
                bold.append(painted + (choices if line.endswith(choices) else ""))
            self._err.write("\n".join(map(self._inert, bold)) + " ")
            self._err.flush()
            answer = ""
            try:
                answer = self._source.readline()
            finally:  # Ctrl-C too leaves the line of the question
                if not answer.endswith("\n"):
                    self._err.write("\n")
        return answer.strip()

    def choose(self, question: str, choices: Mapping[str, str]) -> str | None:
        """Ask which of some choices, by number or name; None for any other answer.

        `choices` have a line of explanation each. Somebody must be there to ask.
        """
        names = list(choices)
        longest = max(map(len, names))
        self.note(question)
        for number, (name, description) in enumerate(choices.items(), start=1):
            self.note(f"  {number}  {name.ljust(longest)}  {description}")
        answer = self._answer(f"1 to {len(names)}, or Enter to stop:")
        if answer in names:
            return answer
        if not (answer.isascii() and answer.isdigit() and 0 < int(answer) <= len(names)):
            return None
        return names[int(answer) - 1]

    def hide(self, secret: str) -> None:
        """Hide a value, also as Python, JSON or a URI write it, from stderr and documents."""
        if plain := secret.strip():
            spelled = (
                plain,
                repr(plain)[1:-1],
                json.dumps(plain)[1:-1],
                quote(plain, safe="", errors="surrogatepass"),
            )
            self._hidden.update(spelled)

    def redact(self, text: str) -> str:
        """Replace every hidden value."""
        return redact(text, self._hidden)

    def flush(self) -> None:
        """End the progress display and hand everything to the operating system."""
        self.progress.stop()
        self._out.flush()
        with suppress(OSError):
            self._err.flush()

    def _labelled(self, label: str, style: Style, message: str) -> None:
        text = inert(f"{label}: {self.redact(message)}")
        first, *more = _wrap(text, self._err_width)
        painted = self._paint(f"{label}:", "bold", style, on=self._err_color)
        self._write_lines([f"{painted}{first.removeprefix(f'{label}:')}", *more], "\n")

    @property
    def _err_width(self) -> int | None:
        """Return the columns of the terminal behind stderr, None without one."""
        return shutil.get_terminal_size().columns if self.err_is_terminal else None

    def _sentence(self, text: str) -> None:
        """Write a sentence to stderr, broken between words on a terminal."""
        self._write_lines(_wrap(inert(self.redact(text)), self._err_width), "\n")

    def _stderr(self, *lines: str) -> None:
        self._write_lines(lines, _CONTINUED)

    def _write_lines(self, lines: Sequence[str], between: str) -> None:
        """Write to stderr; a full disk or a terminal that is gone behind it ends no run."""
        texts = [self._log_header] if self._log_header is not None else []
        if lines:
            texts.append(between.join(self._inert(self.redact(line)) for line in lines))
        self._log_header = None
        stamp = f"{print_instant(self._env.now_ms() // 1000 * 1000)} " if self._is_log else ""
        line = "".join(f"{stamp}{text}\n" for text in texts)
        with suppress(OSError), self.progress.paused(), self._lock:
            if self._paged is not None:
                self._paged.write_note(line)
                return
            self._err.write(line)
            self._err.flush()

    def _paint(self, text: str, *styles: Style, on: bool) -> str:
        if not on or not styles:
            return text
        codes = ";".join(_SGR[style] for style in styles)
        return f"{self._mark}{codes}m{text}{self._mark}0m"

    def _inert(self, text: str) -> str:
        """Return an inert text; its colours alone are not escaped."""
        if self._mark not in text:
            return inert(text)
        parts = self._painted.split(text)  # texts and codes in turn
        parts[::2] = map(inert, parts[::2])
        parts[1::2] = [f"\x1b[{code}m" for code in parts[1::2]]
        return "".join(parts)


def silent_console(env: Env) -> Console:
    """Return the console of a run within a run: nothing is printed or asked, warnings are kept."""
    streams = io.StringIO(), io.StringIO(), io.StringIO()
    options = ConsoleOptions(color="never", verbosity=-1, progress=False, json=True)
    return Console(*streams, env, options)


def _wrap(text: str, width: int | None) -> list[str]:
    """Return a sentence in lines of a terminal, broken between words."""
    if width is None or len(text) <= width:
        return [text]
    return wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def _has_color(color: Color, *, terminal: bool) -> bool:
    if color != "auto" or os.environ.get("NO_COLOR"):
        return color == "always"
    is_forced = bool(os.environ.get("FORCE_COLOR"))
    return is_forced or (terminal and os.environ.get("TERM") != "dumb")


class _ConsoleHandler(logging.Handler):
    """Records on the console, without secrets, and escaped as all that it shows."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__()
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(f"{record.levelname.lower()}: {record.name}: {record.getMessage()}")


@contextmanager
def messages_of_libraries(console: Console) -> Iterator[None]:
    """Show on the console what libraries would write to stderr by themselves, while this lasts.

    That is warnings, log records that have no handler, and errors that end a thread. Debug records
    of icectl are shown where the console is that verbose.
    """
    handler = _ConsoleHandler(lambda text: console.error_lines([text]))
    last_resort, ended = logging.lastResort, threading.excepthook
    python_warnings, icectl_logger = logging.getLogger("py.warnings"), logging.getLogger("icectl")
    debug, level = _ConsoleHandler(console.debug), icectl_logger.level
    handler.setLevel(logging.WARNING)
    logging.lastResort = handler
    threading.excepthook = lambda error: console.error_lines(
        traceback.format_exception(error.exc_type, error.exc_value, error.exc_traceback)
    )
    python_warnings.addHandler(handler)
    logging.captureWarnings(capture=True)
    if console.options.verbosity >= 2:
        icectl_logger.setLevel(logging.DEBUG)
        icectl_logger.addHandler(debug)
    try:
        yield
    finally:
        logging.captureWarnings(capture=False)
        python_warnings.removeHandler(handler)
        icectl_logger.removeHandler(debug)
        icectl_logger.setLevel(level)
        logging.lastResort, threading.excepthook = last_resort, ended
