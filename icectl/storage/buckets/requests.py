"""Requests to one bucket: bounded in number, repeated where that helps, told of as icectl does."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from threading import TIMEOUT_MAX, Condition, Thread
from typing import Any, TypeVar

from icectl.env import Deadline, Env
from icectl.errors import StorageError
from icectl.storage import location as locations
from icectl.storage.buckets.client import BucketClient
from icectl.storage.buckets.errors import status_of
from icectl.storage.failures import (
    ENDED_CREDENTIALS,
    OTHER_REGION,
    error_code,
    is_transient,
    remote_failure,
)
from icectl.storage.retry import retry

Result = TypeVar("Result")

_THROTTLED = {429, 503}
_NOT_KNOWN = 401
_ONLY_READS = {"read", "look up", "list"}
_LEAST_SECONDS = 30.0
"""How long an answer is waited for in any case: a commit that was sent has to be looked up."""


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


@dataclass(frozen=True, slots=True, repr=False)
class Requests:
    """How requests to one bucket are made: bounded in number, repeated, told of in icectl's words.

    `secrets` are what no message repeats. What only reads ends soon after the `deadline`, however
    steadily its bytes come.
    """

    client: BucketClient
    env: Env
    in_flight: InFlight
    secrets: Callable[[], Sequence[str]]
    deadline: Deadline

    def once(self, action: Callable[[Any], Result]) -> Result:
        """The result of one call of obstore; again where credentials or region are other ones now.

        Raises: what BucketClient.run does.
        """
        try:
            return self.in_flight.run(partial(self.client.run, action))
        except Exception as error:  # the seam: drivers raise what they like
            code = error_code(error)
            if code in ENDED_CREDENTIALS or self._may_have_ended(error, code):
                mended = self.client.renew()
            else:
                mended = code in OTHER_REGION and self.client.move()
            if not mended:
                raise
        return self.in_flight.run(partial(self.client.run, action))

    def _may_have_ended(self, error: Exception, code: str | None) -> bool:
        """Return whether an answer means credentials that have ended, or some that never held."""
        if self.client.kind == "gcs":
            return status_of(error) == _NOT_KNOWN
        return self.client.kind == "azure" and code == "AuthenticationFailed"

    def make(self, doing: str, location: str, action: Callable[[Any], Result]) -> Result:
        """Return the result of a call that may be repeated.

        Raises: StorageError; FileNotFoundError.
        """
        whole = partial(
            retry,
            partial(self.once, action),
            self.env,
            is_transient=is_transient,
            translated=partial(self.failure, doing, location),
        )
        ends_at = self.deadline.ends_at_seconds
        if doing not in _ONLY_READS or ends_at is None or ends_at == math.inf:
            return whole()
        seconds = max(ends_at - self.env.monotonic_seconds(), _LEAST_SECONDS)
        try:
            return in_time(whole, min(seconds, TIMEOUT_MAX))
        except TimeoutError:
            raise StorageError(
                f"cannot {doing} {locations.redacted(location)}: its storage did not answer as a "
                "whole within the time limit",
                hint="run again to continue, or give a longer `--time-limit`",
                id="time-limit",
            ) from None

    def time_ms(self, location: str) -> int | None:
        """Return the time of the server; None where it does not tell. Raises: StorageError."""
        return retry(
            self.client.time_ms,
            self.env,
            is_transient=is_transient,
            translated=partial(self.failure, "reach", location),
        )

    def failure(self, doing: str, location: str, error: Exception) -> Exception:
        """Return what is told of an error."""
        return remote_failure(doing, location, error, secrets=self.secrets())


def is_throttled(error: Exception) -> bool:
    """Return whether a store asks for fewer requests."""
    return status_of(error) in _THROTTLED


def in_time(work: Callable[[], Result], seconds: float) -> Result:
    """Return the result of work that nobody waits for any longer; it may go on by itself.

    Raises: TimeoutError; what the work raises.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller has it
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future.result(timeout=seconds)
