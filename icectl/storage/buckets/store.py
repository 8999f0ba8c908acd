"""Files in buckets of S3, GCS and Azure, by obstore: a native engine for many requests at once.

What it cannot express, such as names with an empty part, an fsspec driver does instead.
"""

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Full, Queue
from threading import Lock, Thread
from typing import IO

import obstore
import pyarrow as pa

from icectl.env import Deadline, Env
from icectl.errors import StorageError
from icectl.storage import location as locations
from icectl.storage.buckets.azure import assembled_by_azure, azure_source, check_account
from icectl.storage.buckets.client import BucketClient, ClientSource, obstore_failures
from icectl.storage.buckets.gcs import composed, gcs_source
from icectl.storage.buckets.listing import KeysBelow
from icectl.storage.buckets.requests import (
    InFlight,
    Requests,
    is_expressed,
    is_throttled,
    key_of,
    put_object,
    read_end,
    read_inside,
    read_part,
)
from icectl.storage.buckets.s3 import s3_source
from icectl.storage.credentials import Renewed
from icectl.storage.failures import error_code, remote_errors
from icectl.storage.hdfs import open_hdfs
from icectl.storage.new_files import PartWriter, Proven, prove_condition, put_once, whole_or_none
from icectl.storage.remote import RemoteStore, open_remote, secrets_of
from icectl.storage.store import (
    Assembly,
    FailedRemoval,
    FileStatus,
    ListingPart,
    ListingSplit,
    Store,
    check_creatable,
    remove_in_batches,
)
from icectl.storage.streams import Tail, range_reader

_TAIL_BYTES = 64 << 10
"""What readers of Parquet files ask for first."""

_TOO_LARGE = {"EntityTooLarge", "InvalidRequest"}
_NO_VERSION = {None, "", "null"}

_PART_BYTES = 8 << 20
"""An object has 10,000 parts at most."""

_PARTS_IN_FLIGHT = 4
_LOOKS_EVERY_SECONDS = 1.0


@dataclass(slots=True, repr=False)
class Driver:
    """The fsspec driver of a bucket, opened when it is needed, and again with other options."""

    location: str
    renewed: Renewed
    env: Env
    concurrency: int
    warn: Callable[[str], None]
    deadline: Deadline
    known: RemoteStore | None = None
    opened_with: Mapping[str, str] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def store(self) -> RemoteStore:
        """Return the store by the options that hold now. Raises: Unsupported, without a driver."""
        options = self.renewed.current()
        with self.lock:
            is_same = self.opened_with is options
            if self.known is None or not (is_same or self.known.renews):
                renewed = self.renewed.current if self.renewed.ends else None
                self.known = open_remote(
                    self.location, options, self.env, self.concurrency, self.warn, renewed
                )
                self.opened_with = options
            return self.known


def check_owner(location: str, options: Mapping[str, str], user_locations: Sequence[str]) -> None:
    """Check that credentials may go where a location says. Raises: Refused."""
    if _SOURCES.get(locations.scheme(location)) is azure_source:
        check_account(location, options, user_locations)


def bucket_store(driver: Driver) -> Callable[[str | None], Store]:
    """Return how to have the store for a location in a bucket, or (None) for all of the bucket.

    Nothing is connected to before it is used.
    Raises: StorageError, where its credentials are not what they should be.
    """
    scheme = locations.scheme(driver.location)
    if scheme == "hdfs":
        options = driver.renewed.current()
        cluster = open_hdfs(driver.location, options, driver.env, driver.concurrency, driver.warn)
        return lambda _: cluster
    find = _SOURCES.get(scheme)
    if find is None:
        return lambda _: driver.store()
    with remote_errors("reach", driver.location, secrets_of(driver.renewed.current())):
        source = find(locations.root(driver.location).partition("//")[2], driver.renewed)
    if source is None:
        return lambda _: driver.store()
    requests = Requests(
        BucketClient(source),
        driver.env,
        InFlight(driver.concurrency, is_throttled),
        lambda: secrets_of(driver.renewed.current()),
        driver.deadline,
    )
    native = NativeStore(requests, driver.concurrency, driver.warn, driver.store)
    return lambda name: native if name is None or is_expressed(name) else driver.store()


_SOURCES: Mapping[str, Callable[[str, Renewed], ClientSource | None]] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), s3_source),
    **dict.fromkeys(("abfs", "abfss", "az", "wasb", "wasbs"), azure_source),
    **dict.fromkeys(("gs", "gcs"), gcs_source),
}


@dataclass(frozen=True, slots=True, repr=False)
class NativeStore:
    """A Store over one bucket; `other` gives one for names that obstore cannot express."""

    requests: Requests
    concurrency: int
    warn: Callable[[str], None]
    other: Callable[[], Store]
    proof: Proven = field(default_factory=Proven)
    warned: set[str] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)

    def read(self, location: str) -> bytes:
        return self.requests.read(location)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        if offset < 0:
            return self._tail(location, -offset).content[:length]
        if not length:
            return b""
        call = partial(read_part, key_of(location), offset, length)
        return self.requests.make("read", location, call)

    def open(self, location: str) -> IO[bytes]:
        """Return a seekable reader, which has the end of the file, where a footer is, at once."""

        def read(offset: int, length: int) -> bytes:
            call = partial(read_inside, key_of(location), offset, length)
            return self.requests.make("read", location, call)

        return range_reader(self._tail(location, _TAIL_BYTES), read)

    def stat(self, location: str) -> FileStatus | None:
        try:
            metadata = self.requests.head(location)
        except FileNotFoundError:
            return None
        modified_ms = round(metadata["last_modified"].timestamp() * 1000)
        size_bytes, version = int(metadata["size"]), metadata["version"]
        return FileStatus(location, size_bytes, modified_ms, metadata["e_tag"], version)

    def list(self, location: str) -> Iterator[pa.RecordBatch]:
        return self.list_parts([ListingPart(location)])

    def split(self, location: str, count: int) -> ListingSplit:
        return self._below(location, count).split()

    def list_parts(self, parts: Sequence[ListingPart]) -> Iterator[pa.RecordBatch]:
        below = self._below(parts[0].location, 4 * self.concurrency)
        return below.list_parts(parts, self.concurrency)

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        return self._below(location, 1).directory()

    def create(self, location: str, content: bytes) -> None:
        check_creatable(location)
        of_gcs = self.requests.client.kind == "gcs"
        condition = "x-goog-if-generation-match: 0" if of_gcs else "If-None-Match: *"
        env = self.requests.env
        put, remove = self._put_new, self._remove_expressed
        prove_condition(self.proof, location, put, remove, env, self.warn, condition)
        self._put_new(location, content)

    def replace(self, location: str, content: bytes) -> None:
        check_creatable(location)
        self.requests.put(location, content)

    @contextmanager
    def open_new(self, location: str) -> Iterator[IO[bytes]]:
        """Write an object, in parts where it is large. Cost: memory for some seven parts."""
        if self.stat(location) is not None:
            raise FileExistsError(errno.EEXIST, "it exists already", location)
        check_creatable(location)
        with whole_or_none(_Uploaded(self.requests, location)) as file:
            yield file

    def assemble(self, location: str) -> AbstractContextManager[Assembly] | None:
        match self.requests.client.kind:
            case "s3":
                return self.other().assemble(location)
            case "azure":
                return assembled_by_azure(self.requests, self.concurrency, location)
            case "gcs":
                return composed(self.requests, location)

    def copy(self, source: str, target: str) -> None:
        if not is_expressed(target) or locations.root(source) != locations.root(target):
            self.other().copy(source, target)
            return
        check_creatable(target)
        try:
            self.requests.make(
                "copy", source, lambda store: obstore.copy(store, key_of(source), key_of(target))
            )
        except StorageError as error:
            if error_code(error) not in _TOO_LARGE:
                raise
            self.other().copy(source, target)  # in parts

    def clock_ms(self, location: str) -> int | None:
        return self.requests.time_ms(location)

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        expressed: list[str] = []
        others: list[str] = []
        for location in removed:
            (expressed if is_expressed(location) else others).append(location)
        failed = self._remove_expressed(expressed)
        return [*failed, *(self.other().remove(others) if others else ())]

    def _below(self, location: str, ranges: int) -> KeysBelow:
        return KeysBelow(self.requests, location.rstrip("/"), ranges, self.other)

    def _tail(self, location: str, length: int) -> Tail:
        """The size of a file and its last bytes, by one request where the storage has that."""
        if self.requests.client.kind == "azure":  # it serves no ranges from the end
            status = self.stat(location)
            if status is None:
                raise FileNotFoundError(location)
            start = max(0, status.size_bytes - length)
            return Tail(status.size_bytes, self.read_range(location, start, length))
        return self.requests.make("read", location, partial(read_end, key_of(location), length))

    def _remove_expressed(self, removed: Sequence[str]) -> Sequence[FailedRemoval]:
        """Delete, a thousand a request, on GCS one. Raises: StorageError, where one fails whole."""
        for location in removed:
            check_creatable(location)
        if self.requests.client.kind == "gcs":  # it has no requests for many
            return self._remove_each(removed)
        if removed:
            self._warn_of_versions(removed[0])
        return remove_in_batches(removed, self._remove, self.concurrency)

    def _put_new(self, location: str, content: bytes) -> None:
        put = partial(put_object, key_of(location), content, "create")
        failure = partial(self.requests.failure, "write", location)
        put_once(partial(self.requests.once, put), location, failure)

    def _remove(self, batch: Sequence[str]) -> Sequence[FailedRemoval]:
        """Delete one batch. Where something of it fails, what tells which ones does it again."""
        try:
            keys = [key_of(location) for location in batch]
            self.requests.once(lambda store: obstore.delete(store, keys))
        except Exception:  # noqa: BLE001 - whatever it is, it comes again, and is told of then
            is_s3 = self.requests.client.kind == "s3"
            return self.other().remove(batch) if is_s3 else self._remove_each(batch)
        return ()

    def _remove_each(self, batch: Sequence[str]) -> Sequence[FailedRemoval]:
        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="remove") as pool:
            return [failed for failed in pool.map(self._remove_one, batch) if failed is not None]

    def _remove_one(self, location: str) -> FailedRemoval | None:
        """Delete an object. Raises: StorageError, where it could not be asked to."""
        try:
            self.requests.make(
                "delete", location, lambda store: obstore.delete(store, [key_of(location)])
            )
        except FileNotFoundError:
            return None
        except StorageError as error:
            if error_code(error) is None:
                raise
            return FailedRemoval(location, error.reason)
        return None

    def _warn_of_versions(self, location: str) -> None:
        """Tell once of each bucket that keeps what is deleted, as its objects show."""
        bucket = locations.root(location)
        with self.lock:
            if bucket in self.warned:
                return
            try:
                metadata = self.requests.once(lambda store: obstore.head(store, key_of(location)))
            except Exception:  # noqa: BLE001 - one that may not be looked up may be deleted
                return
            self.warned.add(bucket)
            if metadata.get("version") not in _NO_VERSION:
                self.warn(
                    f"bucket {bucket.partition('//')[2]} keeps old versions: deleted files use "
                    "storage until these expire too"
                )


class _Abandoned(Exception):
    """Has obstore give an upload up, and free its parts."""


class _Uploaded(PartWriter):
    """An object in the making, whose parts a thread of its own sends."""

    def __init__(self, requests: Requests, location: str) -> None:
        super().__init__(_PART_BYTES)
        self._requests, self._location = requests, location
        self._parts: Queue[bytes | None] = Queue(1)
        self._sender: Thread | None = None
        self._is_abandoned = False
        self._failure: Exception | None = None

    def send_part(self, content: bytes | None) -> None:
        """Hand a part to the thread that sends them; None is the end."""
        if self._sender is None:
            self._sender = Thread(target=self._run, name="upload", daemon=True)
            self._sender.start()
        if not self._put_in_queue(self._sender, content):
            self._raise_failure()

    def _put_in_queue(self, sender: Thread, part: bytes | None) -> bool:
        """Wait until the thread has room for a part; whether it did not end before that."""
        while sender.is_alive():
            with suppress(Full):
                self._parts.put(part, timeout=_LOOKS_EVERY_SECONDS)
                return True
        return False

    def _run(self) -> None:
        try:
            store = self._requests.client.repeating_store()
            obstore_failures(
                lambda: obstore.put(
                    store,
                    key_of(self._location),
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
        content = self.last_part()
        if self._sender is None:
            self._requests.put(self._location, content)
            return
        if content:
            self.send_part(content)
        self.send_part(None)
        self._sender.join()
        # An answer that was lost leaves no upload to complete again, but the whole object.
        if self._failure is not None:
            stored = None
            with suppress(StorageError, FileNotFoundError):
                stored = int(self._requests.head(self._location)["size"])
            if stored != self.size_bytes:
                self._raise_failure()

    def _raise_failure(self) -> None:
        assert self._failure is not None
        raise self._requests.failure("write", self._location, self._failure) from self._failure

    def abandon(self) -> None:
        """Have the parts freed; the storage forgets them in time where it can't now."""
        if self._sender is None:
            return
        self._is_abandoned = True
        self._put_in_queue(self._sender, None)
        self._sender.join()
