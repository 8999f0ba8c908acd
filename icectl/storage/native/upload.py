"""Objects written by obstore while they are made: small ones by one request, long ones in parts."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from queue import Full, Queue
from threading import Thread
from typing import IO

from icectl.errors import StorageError
from icectl.storage.native import calls
from icectl.storage.native.errors import obstore_failures
from icectl.storage.native.requests import Requests
from icectl.storage.parts import PartWriter, whole_or_none

_PART_BYTES = 8 << 20
"""An object has 10,000 parts at most."""

_PARTS_IN_FLIGHT = 4
_LOOKS_EVERY_SECONDS = 1.0


@contextmanager
def upload(requests: Requests, location: str, key: str) -> Iterator[IO[bytes]]:
    """A file to write, whose bytes are an object once this is left without an error.

    Raises: StorageError; then there is no object, and no part of one.
    Cost: memory for some seven parts.
    """
    with whole_or_none(_Uploaded(requests, location, key)) as uploaded:
        yield uploaded


class _Abandoned(Exception):
    """Has obstore give an upload up, and free its parts."""


class _Uploaded(PartWriter):
    """An object in the making, whose parts a thread of its own sends."""

    def __init__(self, requests: Requests, location: str, key: str) -> None:
        super().__init__(_PART_BYTES)
        self._requests, self._location, self._key = requests, location, key
        self._parts: Queue[bytes | None] = Queue(1)
        self._sender: Thread | None = None
        self._is_abandoned = False
        self._failure: Exception | None = None

    def send_part(self, content: bytes) -> None:
        """Hand a part to the thread that sends them."""
        self._send(content)

    def _send(self, part: bytes | None) -> None:
        """Hand a part to the thread that sends them; None is the end."""
        if self._sender is None:
            self._sender = Thread(target=self._run, name="upload", daemon=True)
            self._sender.start()
        while self._sender.is_alive():
            try:
                self._parts.put(part, timeout=_LOOKS_EVERY_SECONDS)
            except Full:
                continue
            return
        self._raise_failure()

    def _run(self) -> None:
        """Send the parts, in a thread of its own."""
        import obstore

        try:
            store = self._requests.client.repeating_store()
            obstore_failures(
                lambda: obstore.put(
                    store,
                    self._key,
                    self._content(),
                    use_multipart=True,
                    chunk_size=_PART_BYTES,
                    max_concurrency=_PARTS_IN_FLIGHT,
                )
            )
        except Exception as error:  # noqa: BLE001 - told of by the thread that writes
            self._failure = error

    def _content(self) -> Iterator[bytes]:
        while (part := self._parts.get()) is not None:
            yield part
        if self._is_abandoned:
            raise _Abandoned

    def end(self) -> None:
        """Make the object of what was written. Raises: StorageError."""
        content = self.last_part()
        if self._sender is None:
            put = partial(calls.put, self._key, content, "overwrite")
            self._requests.make("write", self._location, put)
            return
        if content:
            self._send(content)
        self._send(None)
        self._sender.join()
        # An answer that was lost leaves no upload to complete again, but the whole object.
        if self._failure is not None and self._stored_bytes() != self.size_bytes:
            self._raise_failure()

    def _raise_failure(self) -> None:
        assert self._failure is not None
        raise self._requests.failure("write", self._location, self._failure) from self._failure

    def _stored_bytes(self) -> int | None:
        try:
            found = self._requests.make("look up", self._location, partial(calls.head, self._key))
        except (StorageError, FileNotFoundError):
            return None
        return int(found["size"])

    def abandon(self) -> None:
        """Have the parts freed; the storage forgets them in time where it can't now."""
        if self._sender is None:
            return
        self._is_abandoned = True
        while self._sender.is_alive():
            try:
                self._parts.put(None, timeout=_LOOKS_EVERY_SECONDS)
            except Full:
                continue
            break
        self._sender.join()
