"""Progress on a console: a bar on a terminal after a second, a line a minute elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, TextIO

from icectl.env import Env
from icectl.progress import Unit
from icectl.units import print_duration, print_size, printable

if TYPE_CHECKING:  # few runs have a bar to draw
    from rich.live import Live

_BAR_AFTER_SECONDS = 1.0
_REFRESH_SECONDS = 0.2
_LINE_EVERY_SECONDS = 60.0
_BAR_COLUMNS = 20


@dataclass(slots=True)
class _Phase:
    """A phase of a run: how far it is, and since when."""

    name: str
    total: int | None
    unit: Unit
    started_seconds: float
    done: int = 0

    def amount(self) -> str:
        """Print how much is done, and of how much if that is known and was not too low."""
        shown = print_size if self.unit == "bytes" else str
        if self.total is None or self.done > self.total:
            return shown(self.done) if self.done else ""
        return f"{shown(self.done)} of {shown(self.total)}"

    def time(self, now_seconds: float) -> str:
        """Print the time taken, and what is left of it once there is something to go by."""
        elapsed = now_seconds - self.started_seconds
        if elapsed < _BAR_AFTER_SECONDS:
            return ""
        taken = print_duration(1000 * int(elapsed))
        if not self.total or not 0 < self.done < self.total:
            return taken
        seconds = round(elapsed * (self.total - self.done) / self.done)
        return f"{taken}, {print_duration(1000 * seconds)} left" if seconds else taken

    def bar(self) -> str:
        """Draw the share that is done, in ASCII."""
        if not self.total or self.done > self.total:
            return ""
        filled = _BAR_COLUMNS * self.done // self.total
        return f"[{'#' * filled}{'.' * (_BAR_COLUMNS - filled)}]"


class ConsoleProgress:
    """The Progress of a console; safe from any thread."""

    def __init__(
        self,
        *,
        err: TextIO,
        env: Env,
        enabled: bool,
        terminal: bool,
        write_line: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self._err = err
        self._env = env
        self._enabled = enabled
        self._terminal = terminal
        self._write_line = write_line
        self._warn = warn
        self._lock = RLock()
        self._phase: _Phase | None = None
        self._display: Live | None = None
        self._ended: Event | None = None

    def phase(self, name: str, *, total: int | None = None, unit: Unit = "count") -> None:
        """Begin a phase; the one before it is over."""
        if not self._enabled:
            return
        with self._lock:
            self._phase = _Phase(name, total, unit, self._env.monotonic_seconds())
            if self._ended is None:
                self._ended = Event()
                Thread(target=self._tick, args=(self._ended,), daemon=True).start()

    def advance(self, amount: int) -> None:
        """Count `amount` more of the phase's unit as done."""
        with self._lock:
            if self._phase is not None:
                self._phase.done += amount

    def rename(self, name: str) -> None:
        """Call the phase otherwise, without beginning it again."""
        with self._lock:
            if self._phase is not None:
                self._phase.name = name

    def warn(self, message: str) -> None:
        """Tell the user something that does not end the run."""
        self._warn(message)

    def stop(self) -> None:
        """Take the display away; the next phase starts it again."""
        with self._lock:
            if self._ended is not None:
                self._ended.set()
                self._ended = None
            self._phase = None
            if self._display is not None:
                with suppress(OSError):  # the terminal is gone
                    self._display.stop()
                self._display = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Take the display away while something else is written to the terminal."""
        with self._lock:
            shown = self._display
            if shown is not None:
                shown.stop()
            try:
                yield
            finally:
                if shown is not None and shown is self._display:
                    shown.start()

    def _tick(self, ended: Event) -> None:
        every = _REFRESH_SECONDS if self._terminal else _LINE_EVERY_SECONDS
        while not ended.wait(every):
            with self._lock:
                if ended.is_set() or self._phase is None:
                    return
                if self._terminal:
                    self._refresh(self._phase)
                else:
                    now = self._env.monotonic_seconds()
                    parts = (self._phase.name, self._phase.amount(), self._phase.time(now))
                    self._write_line("progress: " + ", ".join(part for part in parts if part))

    def _refresh(self, phase: _Phase) -> None:
        now = self._env.monotonic_seconds()
        if self._display is None and now - phase.started_seconds < _BAR_AFTER_SECONDS:
            return
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        if self._display is None:
            self._display = Live(
                console=Console(file=self._err, highlight=False, markup=False),
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._display.start()
        parts = (phase.name, phase.bar(), phase.amount(), phase.time(now))
        text = printable(" ".join(part for part in parts if part))
        self._display.update(Text(text, no_wrap=True, overflow="crop"), refresh=True)
