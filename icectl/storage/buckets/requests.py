"""Requests to one bucket: bounded in number, repeated where that helps, told of as icectl does."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import TIMEOUT_MAX, Condition
from typing import Any, Literal, TypeVar

import obstore

from icectl.env import Deadline, Env
from icectl.errors import StorageError
from icectl.storage import location as locations
from icectl.storage.buckets.client import Answered, BucketClient, Unexpected, obstore_failures
from icectl.storage.failures import (
    ENDED_CREDENTIALS,
    OTHER_REGION,
    error_code,
    error_status,
    in_time,
    is_transient,
    remote_failure,
    repeated,
    retry,
)
from icectl.storage.streams import Tail

Result = TypeVar("Result")

_THROTTLED = {429, 503}
_NOT_KNOWN = 401
_ONLY_READS = {"read", "look up", "list"}
_LEAST_SECONDS = 30.0
"""How long an answer is waited for in any case: a commit that was sent has to be looked up."""
_AT_ONCE_BYTES = 8 << 20
"""Longer ranges are read by several requests at once."""

_PAST_THE_END = {"416", "InvalidRange"}
_INEXPRESSIBLE = re.compile(r"(?:\A|/)(?:\.{0,2})(?:/|\Z)|[\x00-\x1f\x7f]")
"""An empty part, one of dots, a control character: obstore refuses these, or leaves parts out."""


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
        """Call obstore, again with other credentials or region. Raises: as BucketClient.run."""
        try:
            return self.in_flight.run(partial(self.client.run, action))
        except Exception as error:  # the seam: drivers raise what they like
            code = error_code(error)
            if (
                code in ENDED_CREDENTIALS  # or some that never held
                or (self.client.kind == "gcs" and error_status(error) == _NOT_KNOWN)
                or (self.client.kind == "azure" and code == "AuthenticationFailed")
            ):
                mended = self.client.renew()
            else:
                mended = code in OTHER_REGION and self.client.move()
            if not mended:
                raise
        return self.in_flight.run(partial(self.client.run, action))

    def make(self, doing: str, location: str, action: Callable[[Any], Result]) -> Result:
        """Make a call that may be repeated. Raises: StorageError; FileNotFoundError."""
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
                f"cannot {doing} {locations.redacted(location)}: its storage did not respond "
                "completely within the time limit",
                hint="run again to continue, or set a longer `--time-limit`",
                id="time-limit",
            ) from None

    def time_ms(self, location: str) -> int | None:
        """Return the time of the server; None where it does not tell. Raises: StorageError."""
        secrets = self.secrets()
        return repeated("reach", location, self.client.time_ms, self.env, secrets=secrets)

    def failure(self, doing: str, location: str, error: Exception) -> Exception:
        return remote_failure(doing, location, error, secrets=self.secrets())

    def head(self, location: str) -> Mapping[str, Any]:
        """Return size, last_modified, e_tag and version of an object. Raises: as make."""
        return self.make("look up", location, lambda store: obstore.head(store, key_of(location)))

    def read(self, location: str) -> bytes:
        """Return all bytes of an object. Raises: as make."""
        return self.make("read", location, partial(read_object, key_of(location)))

    def read_same(self, location: str, etag: str, start: int, end: int) -> bytes:
        """Return bytes that all lie within the object of that ETag. Raises: as make."""
        key = key_of(location)
        options: Any = {"range": (start, end), "if_match": etag}
        return self.make(
            "read", location, lambda store: bytes(obstore.get(store, key, options=options).bytes())
        )

    def put(self, location: str, content: bytes) -> None:
        """Write or overwrite an object by one request. Raises: StorageError."""
        self.make("write", location, partial(put_object, key_of(location), content, "overwrite"))


def is_throttled(error: Exception) -> bool:
    """Return whether a store asks for fewer requests."""
    return error_status(error) in _THROTTLED


def is_expressed(location: str) -> bool:
    """Return whether obstore would ask for that very object, or list that very prefix."""
    return _INEXPRESSIBLE.search(key_of(location)) is None


def key_of(location: str) -> str:
    """Return the key of an object."""
    return location[len(locations.root(location)) + 1 :]


# Calls of obstore; each takes the store last.


def read_object(key: str, store: Any) -> bytes:
    """Return all bytes of an object."""
    return bytes(obstore.get(store, key).bytes())


def read_part(key: str, offset: int, length: int, store: Any) -> bytes:
    """Return bytes of an object; fewer at its end, none behind that."""
    try:
        return obstore_failures(
            lambda: bytes(obstore.get_range(store, key, start=offset, length=length))
        )
    except Unexpected:  # all of it was sent
        return read_object(key, store)[offset : offset + length]
    except Answered as error:
        if error_code(error) in _PAST_THE_END:
            return b""
        raise


def read_inside(key: str, offset: int, length: int, store: Any) -> bytes:
    """Return bytes that all lie within an object, by several requests where they are many."""
    if length <= _AT_ONCE_BYTES:
        return bytes(obstore.get_range(store, key, start=offset, length=length))
    starts = list(range(offset, offset + length, _AT_ONCE_BYTES))
    ends = [min(start + _AT_ONCE_BYTES, offset + length) for start in starts]
    return b"".join(obstore.get_ranges(store, key, starts=starts, ends=ends, coalesce=0))


def open_object(key: str, length: int, store: Any) -> tuple[int, str | None, str | None, bytes]:
    """Return the size of an object, its ETag and version, and its last bytes."""
    options: Any = {"range": {"suffix": length}}
    answer = obstore_failures(lambda: obstore.get(store, key, options=options))
    content = bytes(obstore_failures(answer.bytes))
    return int(answer.meta["size"]), answer.meta["e_tag"], answer.meta["version"], content


def read_end(key: str, length: int, store: Any) -> Tail:
    """Return the last bytes of an object; all of one that is empty, which has no ranges."""
    try:
        size_bytes, _, _, content = open_object(key, length, store)
        return Tail(size_bytes, content)
    except Unexpected:  # all of it was sent
        content = read_object(key, store)
    except Answered as error:
        if error_code(error) not in _PAST_THE_END:
            raise
        content = read_object(key, store)
    return Tail(len(content), content)


def put_object(key: str, content: bytes, mode: Literal["create", "overwrite"], store: Any) -> None:
    """Write an object by one request."""
    obstore.put(store, key, content, mode=mode, use_multipart=False)
