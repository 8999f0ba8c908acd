"""Ctrl-C and SIGTERM: a step that must not be cut in two is finished first; the second stops it."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from types import FrameType


class Terminated(BaseException):
    """The arrival of SIGTERM."""


class Interrupts:
    """The signals that end a run, and the steps that they have to wait for."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._shielded = False
        self._waiting: BaseException | None = None

    @property
    def is_shielded(self) -> bool:
        """Whether a step is under way that must not be cut in two."""
        return self._shielded

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Let both signals end the run while this lasts; one that is ignored stays ignored."""
        if current_thread() is not main_thread():
            yield
            return
        before = {
            number: signal.getsignal(number)
            for number in (signal.SIGINT, signal.SIGTERM)
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        for number in before:
            signal.signal(number, self._arrived)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Finish this step before a first signal ends the run; a second ends it at once."""
        self._shielded = True
        try:
            yield
        except (KeyboardInterrupt, Terminated):
            self._waiting = None
            raise
        finally:
            self._shielded = False
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                raise waiting

    def _arrived(self, number: int, _frame: FrameType | None) -> None:
        ending = KeyboardInterrupt() if number == signal.SIGINT else Terminated()
        if not self._shielded or self._waiting is not None:
            raise ending
        self._waiting = ending
        with suppress(RuntimeError):  # the signal may have come in the middle of a write
            self._tell("finishing the step in progress; interrupt again to stop at once")
