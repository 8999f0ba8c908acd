"""Requests to one bucket: bounded in number, repeated where that helps, told of as icectl does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from icectl.env import Env
from icectl.storage.failures import (
    ENDED_CREDENTIALS,
    OTHER_REGION,
    error_code,
    is_transient,
    remote_failure,
)
from icectl.storage.native.client import BucketClient
from icectl.storage.native.errors import status_of
from icectl.storage.native.in_flight import InFlight
from icectl.storage.retry import retry

Result = TypeVar("Result")

_THROTTLED = {429, 503}
_NOT_KNOWN = 401


@dataclass(frozen=True, slots=True, repr=False)
class Requests:
    """How requests to one bucket are made: bounded in number, repeated, told of in icectl's words.

    `secrets` are what no message repeats.
    """

    client: BucketClient
    env: Env
    in_flight: InFlight
    secrets: Callable[[], Sequence[str]]

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
        return retry(
            partial(self.once, action),
            self.env,
            is_transient=is_transient,
            translated=partial(self.failure, doing, location),
        )

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
