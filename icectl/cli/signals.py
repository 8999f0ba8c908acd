"""Ctrl-C and SIGTERM: finish a step that must not be interrupted; a second signal stops it.

Runs that wait forever are ended too: drivers of stores and databases may never return.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import TIMEOUT_MAX, Event, Lock, Thread, current_thread, main_thread
from types import FrameType

from icectl.env import Deadline
from icectl.errors import CommitUnknown, IcectlError, Incomplete


class Terminated(BaseException):
    """The arrival of SIGTERM."""


class Interrupts:
    """The signals that end a run, and the steps that they have to wait for."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self.is_shielded = False  # whether a step is under way that must not be cut in two
        self._waiting: BaseException | None = None

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
            signal.signal(number, self._on_signal)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Finish this step before a first signal ends the run; a second ends it at once."""
        self.is_shielded = True
        try:
            yield
        except (KeyboardInterrupt, Terminated):
            self._waiting = None
            raise
        finally:
            self.is_shielded = False
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                raise waiting

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        ending = KeyboardInterrupt() if number == signal.SIGINT else Terminated()
        if not self.is_shielded or self._waiting is not None:
            raise ending
        self._waiting = ending
        with suppress(RuntimeError):  # the signal may have come in the middle of a write
            self._announce("finishing the step in progress; interrupt again to stop at once")


GRACE_SECONDS = 300.0
"""How long a run may go on behind its time limit, and then a step that must not be cut in two."""

_REPORT_SECONDS = 10.0


@contextmanager
def ended_in_time(
    deadline: Deadline,
    interrupts: Interrupts,
    report: Callable[[IcectlError], object],
    grace_seconds: float | None = None,
) -> Iterator[None]:
    """End the process where this still lasts long after the deadline; `report` tells why.

    Files of the run stay, with their journals: the next run removes them. The exit code is that of
    the time limit, or of an unknown commit where a shielded step was under way.
    """
    remaining = deadline.remaining_seconds
    if remaining == float("inf"):
        yield
        return
    grace = GRACE_SECONDS if grace_seconds is None else grace_seconds
    ended, ending = Event(), Lock()

    def watch() -> None:
        """Wait for the end, and make it where it does not come."""
        if ended.wait(min(max(remaining, 0) + grace, TIMEOUT_MAX)):
            return
        if interrupts.is_shielded and ended.wait(grace):
            return
        with ending:
            if not ended.is_set():
                error = _reason(interrupts)
                # The process ends even if reporting hangs.
                reporting = Thread(target=report, args=(error,), daemon=True)
                reporting.start()
                reporting.join(_REPORT_SECONDS)
                os._exit(error.exit_code)

    Thread(target=watch, name="icectl-watchdog", daemon=True).start()
    try:
        yield
    finally:
        with ending:  # while the process is being ended nothing else is reported
            ended.set()


def _reason(interrupts: Interrupts) -> IcectlError:
    if interrupts.is_shielded:
        return CommitUnknown(
            "stopped long after the time limit: a step that cannot be interrupted did not end, "
            "and may have been applied",
            hint="run the command again: it finds applied commits and removes leftover files",
        )
    return Incomplete(
        "stopped long after the time limit: a store or a catalog did not respond",
        hint="run again to continue, or set a longer `--time-limit`",
        id="time-limit",
    )
