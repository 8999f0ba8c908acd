"""The store of one scheme and authority: by obstore where it can, else by an fsspec driver."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from icectl.env import Deadline, Env
from icectl.storage import location as locations
from icectl.storage.buckets.azure import azure_source, check_account
from icectl.storage.buckets.client import BucketClient, ClientSource
from icectl.storage.buckets.gcs import gcs_source
from icectl.storage.buckets.in_flight import InFlight
from icectl.storage.buckets.listing import NativeListing
from icectl.storage.buckets.requests import Requests, is_throttled
from icectl.storage.buckets.s3 import s3_source
from icectl.storage.buckets.store import NativeStore
from icectl.storage.buckets.write import NativeWriter
from icectl.storage.credentials import Renewed
from icectl.storage.failures import remote_failure
from icectl.storage.hdfs.store import open_hdfs
from icectl.storage.proof import Proof
from icectl.storage.remote import RemoteStore, open_remote, secrets_of
from icectl.storage.store import Store


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


def check_owner(location: str, options: Mapping[str, str], own: Sequence[str]) -> None:
    """Check that credentials may go where a location says. Raises: Refused."""
    if _SOURCES.get(locations.scheme(location)) is azure_source:
        check_account(location, options, own)


def bucket_store(driver: Driver) -> Callable[[], Store]:
    """Return how to have the store of a bucket; nothing is connected to before it is used.

    Raises: StorageError, where its credentials are not what they should be.
    """
    scheme = locations.scheme(driver.location)
    if scheme == "hdfs":
        return _cluster(driver)
    find = _SOURCES.get(scheme)
    if find is None:
        return driver.store
    try:
        source = find(locations.root(driver.location).partition("//")[2], driver.renewed)
    except Exception as error:  # the seam: botocore raises what it likes
        secrets = secrets_of(driver.renewed.current())
        failure = remote_failure("reach", driver.location, error, secrets=secrets)
        if failure is error:
            raise
        raise failure from error
    if source is None:
        return driver.store
    store = _native(source, driver)
    return lambda: store


def _cluster(driver: Driver) -> Callable[[], Store]:
    options = driver.renewed.current()
    store = open_hdfs(driver.location, options, driver.env, driver.concurrency, driver.warn)
    return lambda: store


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
    listing = NativeListing(requests, driver.concurrency, driver.store)
    return NativeStore(requests, writer, listing, driver.store)


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
