"""Writing by obstore: new objects by one conditional request, long ones in parts, and removal."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from queue import Full, Queue
from threading import Lock, Thread
from typing import IO

from icectl.env import Env
from icectl.errors import StorageError
from icectl.storage import location as locations
from icectl.storage.buckets import calls
from icectl.storage.buckets.calls import key_of
from icectl.storage.buckets.errors import obstore_failures
from icectl.storage.buckets.requests import Requests
from icectl.storage.failures import error_code
from icectl.storage.proof import Prober, Proof, put_once
from icectl.storage.store import FailedRemoval, Store, check_creatable, remove_in_batches
from icectl.storage.streams import PartWriter, whole_or_none

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
            metadata = self._requests.make(
                "look up", self._location, partial(calls.head, self._key)
            )
        except (StorageError, FileNotFoundError):
            return None
        return int(metadata["size"])

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


_TOO_LARGE = {"EntityTooLarge", "InvalidRequest"}
_NO_VERSION = {None, "", "null"}


@dataclass(frozen=True, slots=True, repr=False)
class NativeWriter:
    """The means to change objects; `other` gives a store that tells what obstore leaves out."""

    requests: Requests
    env: Env
    concurrency: int
    proof: Proof
    warn: Callable[[str], None]
    other: Callable[[], Store]
    warned: set[str] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)

    def create(self, location: str, content: bytes) -> None:
        """Write a new object, by one request that is never repeated.

        Raises: FileExistsError, when the name is taken; Refused, where the storage ignores
        conditions; AnswerLost, when no answer came; StorageError, when nothing was written.
        """
        check_creatable(location)
        prober = Prober(self._put_new, self.remove, self.env, self.warn, self._condition)
        prober.prove(self.proof, location)
        self._put_new(location, content)

    def replace(self, location: str, content: bytes) -> None:
        """Write or overwrite an object. Raises: StorageError."""
        check_creatable(location)
        put = partial(calls.put, key_of(location), content, "overwrite")
        self.requests.make("write", location, put)

    @contextmanager
    def open_new(self, location: str) -> Iterator[IO[bytes]]:
        """An object to write that is not there yet, in parts where it is large.

        Raises: StorageError, when the object is not there; its parts are gone then.
        """
        check_creatable(location)
        with upload(self.requests, location, key_of(location)) as file:
            yield file

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the bucket. Raises: StorageError; FileNotFoundError."""
        check_creatable(target)
        try:
            self.requests.make("copy", source, partial(calls.copy, key_of(source), key_of(target)))
        except StorageError as error:
            if error_code(error) not in _TOO_LARGE:
                raise
            self.other().copy(source, target)  # in parts

    def remove(self, removed: Sequence[str]) -> Sequence[FailedRemoval]:
        """Delete objects, a thousand a request, on GCS one; those already gone count as removed.

        Raises: StorageError, when a whole request fails.
        """
        for location in removed:
            check_creatable(location)
        if removed:
            self._warn_of_versions(removed[0])
        if self.requests.client.kind == "gcs":  # it has no requests for many
            return self._remove_each(removed)
        return remove_in_batches(removed, self._remove, self.concurrency)

    @property
    def _condition(self) -> str:
        """How a request says that there must be no such object yet."""
        of_gcs = self.requests.client.kind == "gcs"
        return "x-goog-if-generation-match: 0" if of_gcs else "If-None-Match: *"

    def _put_new(self, location: str, content: bytes) -> None:
        put = partial(calls.put, key_of(location), content, "create")
        failure = partial(self.requests.failure, "write", location)
        put_once(partial(self.requests.once, put), location, failure)

    def _remove(self, batch: Sequence[str]) -> Sequence[FailedRemoval]:
        """Delete one batch. Where something of it fails, what tells which ones does it again."""
        try:
            self.requests.once(partial(calls.delete, [key_of(location) for location in batch]))
        except Exception:  # noqa: BLE001 - whatever it is, it comes again, and is told of then
            is_s3 = self.requests.client.kind == "s3"
            return self.other().remove(batch) if is_s3 else self._remove_each(batch)
        return ()

    def _remove_each(self, batch: Sequence[str]) -> Sequence[FailedRemoval]:
        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="remove") as pool:
            return [one for one in pool.map(self._remove_one, batch) if one is not None]

    def _remove_one(self, location: str) -> FailedRemoval | None:
        """Delete an object. Raises: StorageError, where it could not be asked to."""
        try:
            self.requests.make("delete", location, partial(calls.delete, [key_of(location)]))
        except FileNotFoundError:
            return None
        except StorageError as error:
            if error_code(error) is None:
                raise
            return FailedRemoval(location, error.message)
        return None

    def _warn_of_versions(self, location: str) -> None:
        """Tell once of each bucket that keeps what is deleted, as its objects show."""
        bucket = locations.root(location)
        with self.lock:
            if bucket in self.warned or self.requests.client.kind == "gcs":
                return
            try:
                found = self.requests.once(partial(calls.head, key_of(location)))
            except Exception:  # noqa: BLE001 - one that may not be looked up may be deleted
                return
            self.warned.add(bucket)
            if found.get("version") not in _NO_VERSION:
                self.warn(
                    f"bucket {bucket.partition('//')[2]} keeps old versions: deleting frees no "
                    "bytes before they expire too"
                )
