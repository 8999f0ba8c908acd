"""Files in buckets of S3, GCS and Azure, by obstore: a native engine for many requests at once.

What it cannot express, such as names with an empty part, an fsspec driver does instead.
"""

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import IO

import pyarrow as pa

from icectl.env import Deadline, Env
from icectl.storage import location as locations
from icectl.storage.buckets import calls
from icectl.storage.buckets.azure import azure_source, check_account
from icectl.storage.buckets.azure_assembly import assembled_by_azure
from icectl.storage.buckets.calls import is_expressed, key_of
from icectl.storage.buckets.client import BucketClient, ClientSource
from icectl.storage.buckets.gcs import gcs_source
from icectl.storage.buckets.gcs_assembly import composed
from icectl.storage.buckets.listing import KeysBelow
from icectl.storage.buckets.requests import InFlight, Requests, is_throttled
from icectl.storage.buckets.s3 import s3_source
from icectl.storage.buckets.write import NativeWriter
from icectl.storage.credentials import Renewed
from icectl.storage.failures import remote_failure
from icectl.storage.hdfs import open_hdfs
from icectl.storage.proof import Proof
from icectl.storage.remote import RemoteStore, open_remote, secrets_of
from icectl.storage.store import (
    Assembly,
    FailedRemoval,
    FileStatus,
    ListingPart,
    ListingSplit,
    Store,
)
from icectl.storage.streams import Tail, range_reader

_TAIL_BYTES = 64 << 10
"""What readers of Parquet files ask for first."""


@dataclass(frozen=True, slots=True, repr=False)
class NativeStore:
    """A Store over one bucket, for names that obstore can express.

    `other` gives the store for the other names, which a listing may meet.
    """

    requests: Requests
    writer: NativeWriter
    concurrency: int
    other: Callable[[], Store]

    def read(self, location: str) -> bytes:
        """Return all bytes of one file, by one request."""
        return self.requests.make("read", location, partial(calls.whole, key_of(location)))

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        if offset < 0:
            tail = self._tail(location, -offset)
            return tail.content[:length]
        if not length:
            return b""
        call = partial(calls.part, key_of(location), offset, length)
        return self.requests.make("read", location, call)

    def open(self, location: str) -> IO[bytes]:
        """Return a seekable reader, which has the end of the file, where a footer is, at once."""

        def read(offset: int, length: int) -> bytes:
            call = partial(calls.inside, key_of(location), offset, length)
            return self.requests.make("read", location, call)

        return range_reader(self._tail(location, _TAIL_BYTES), read)

    def stat(self, location: str) -> FileStatus | None:
        try:
            metadata = self.requests.make(
                "look up", location, partial(calls.head, key_of(location))
            )
        except FileNotFoundError:
            return None
        modified_ms = round(metadata["last_modified"].timestamp() * 1000)
        return FileStatus(location, int(metadata["size"]), modified_ms)

    def list(self, location: str) -> Iterator[pa.RecordBatch]:
        return self._below(location, 4 * self.concurrency).list_all(self.concurrency)

    def split(self, location: str, count: int) -> ListingSplit:
        """Begin to list a location; the parts are ranges of keys."""
        return self._below(location, count).split()

    def list_parts(self, parts: Sequence[ListingPart]) -> Iterator[pa.RecordBatch]:
        below = self._below(parts[0].location, 4 * self.concurrency)
        return below.list_parts(parts, self.concurrency)

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        return self._below(location, 1).directory()

    def create(self, location: str, content: bytes) -> None:
        self.writer.create(location, content)

    def replace(self, location: str, content: bytes) -> None:
        self.writer.replace(location, content)

    @contextmanager
    def open_new(self, location: str) -> Iterator[IO[bytes]]:
        if self.stat(location) is not None:
            raise FileExistsError(errno.EEXIST, "it exists already", location)
        with self.writer.open_new(location) as file:
            yield file

    def assemble(self, location: str) -> AbstractContextManager[Assembly] | None:
        """A new object, to put together of what the storage copies."""
        match self.requests.client.kind:
            case "s3":
                return self.other().assemble(location)
            case "azure":
                return assembled_by_azure(self.requests, self.concurrency, location)
            case "gcs":
                return composed(self.requests, location)

    def copy(self, source: str, target: str) -> None:
        """Copy a file, without its bytes passing through here."""
        if is_expressed(target) and locations.root(source) == locations.root(target):
            self.writer.copy(source, target)
        else:
            self.other().copy(source, target)

    def clock_ms(self, location: str) -> int | None:
        """Return the time of the server; None where it does not tell."""
        return self.requests.time_ms(location)

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        expressed: list[str] = []
        others: list[str] = []
        for location in removed:
            (expressed if is_expressed(location) else others).append(location)
        failed = self.writer.remove(expressed)
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
        return self.requests.make("read", location, partial(calls.end, key_of(location), length))


@dataclass(slots=True, repr=False)
class Driver:
    """The fsspec driver of a bucket, opened when it is needed, and anew with other options."""

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
    try:
        source = find(locations.root(driver.location).partition("//")[2], driver.renewed)
    except Exception as error:  # the seam: botocore raises what it likes
        secrets = secrets_of(driver.renewed.current())
        failure = remote_failure("reach", driver.location, error, secrets=secrets)
        if failure is error:
            raise
        raise failure from error
    if source is None:
        return lambda _: driver.store()
    native = _native(source, driver)
    return lambda name: native if name is None or is_expressed(name) else driver.store()


def _native(source: ClientSource, driver: Driver) -> NativeStore:
    requests = Requests(
        BucketClient(source),
        driver.env,
        InFlight(driver.concurrency, is_throttled),
        lambda: secrets_of(driver.renewed.current()),
        driver.deadline,
    )
    writer = NativeWriter(
        requests, driver.env, driver.concurrency, Proof(), driver.warn, driver.store
    )
    return NativeStore(requests, writer, driver.concurrency, driver.store)


_SOURCES: Mapping[str, Callable[[str, Renewed], ClientSource | None]] = {
    "s3": s3_source,
    "s3a": s3_source,
    "s3n": s3_source,
    "abfs": azure_source,
    "abfss": azure_source,
    "az": azure_source,
    "wasb": azure_source,
    "wasbs": azure_source,
    "gs": gcs_source,
    "gcs": gcs_source,
}
