"""How many requests are under way at once: as many as asked for, fewer while a store throttles."""

from collections.abc import Callable
from threading import Condition
from typing import TypeVar

Result = TypeVar("Result")


class InFlight:
    """Lets up to `most` requests run; each wave of throttling halves that, successes restore it.

    As many successes as requests are let through allow one more.
    """

    def __init__(self, most: int, is_throttled: Callable[[Exception], bool]) -> None:
        self.allowed = most
        self._most = most
        self._is_throttled = is_throttled
        self._free = Condition()
        self._running = 0
        self._wave = 0
        self._successes = 0

    def run(self, action: Callable[[], Result]) -> Result:
        """Return the result of a request, made once there is room for it."""
        with self._free:
            while self._running >= self.allowed:
                self._free.wait()
            self._running += 1
            wave = self._wave
        try:
            result = action()
        except Exception as error:
            self._done(wave, throttled=self._is_throttled(error))
            raise
        except BaseException:
            self._done(wave)
            raise
        self._done(wave, success=True)
        return result

    def _done(self, wave: int, *, throttled: bool = False, success: bool = False) -> None:
        with self._free:
            self._running -= 1
            if throttled and wave == self._wave:  # others of this wave are throttled with it
                self._wave += 1
                self._successes = 0
                self.allowed = max(1, self.allowed // 2)
            elif success and self.allowed < self._most:
                self._successes += 1
                if self._successes >= self.allowed:
                    self._successes = 0
                    self.allowed += 1
            self._free.notify_all()
