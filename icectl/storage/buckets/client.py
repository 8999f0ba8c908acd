"""One bucket or container by obstore, made anew whenever the credentials for it are."""

import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeVar

from icectl.errors import UsageError
from icectl.storage.buckets.errors import obstore_failures

Result = TypeVar("Result")

ANSWER_SECONDS = 60
"""How long a connection may take to be made, and to bring something more."""

ONE_ATTEMPT: Mapping[str, Any] = {"max_retries": 0}
"""icectl repeats requests itself, and a create never."""

SIX_ATTEMPTS: Mapping[str, Any] = {
    "max_retries": 5,
    "retry_timeout": timedelta(minutes=3),
    "backoff": {"init_backoff": timedelta(seconds=0.2), "max_backoff": timedelta(seconds=10)},
}
"""For parts of an upload, which only obstore can repeat."""


@dataclass(frozen=True, slots=True)
class BucketAccess:
    """Where a bucket is and how it is entered; `keys` holds credentials as obstore takes them."""

    endpoint: str
    url: str
    settings: Mapping[str, Any]
    keys: Mapping[str, Any]
    region: str = ""
    authorities: str | None = None
    timeouts: Mapping[str, str] = field(default_factory=dict)


_IN_HEADERS = ("access_key_id", "token", "bearer_token")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


def _check_keys(access: BucketAccess) -> None:
    """Do nothing where credentials can stand in headers: obstore itself panics. Raises: UsageError.

    What they are is not shown.
    """
    for name in _IN_HEADERS:
        if not _HEADER_VALUE.fullmatch(access.keys.get(name) or ""):
            raise UsageError(
                f"the credentials for {access.url} have a line break, or another character that a "
                f"header cannot have, in `{name}`",
                hint="a secret that was read from a file often ends with a line break",
            )


def client_options(access: BucketAccess) -> Any:
    """Return how requests are made over HTTP: of any length, as long as something comes.

    Raises: OSError, where the certificates cannot be read.
    """
    options = {
        "allow_http": access.endpoint.startswith("http://"),
        "connect_timeout": f"{ANSWER_SECONDS}s",
        "read_timeout": f"{ANSWER_SECONDS}s",
        "timeout": "1day",
        "pool_max_idle_per_host": "256",
        **access.timeouts,
    }
    if access.authorities is not None and not options["allow_http"]:
        options["root_certificate"] = Path(access.authorities).read_bytes()
    return options


@dataclass(frozen=True, slots=True, repr=False)
class ClientSource:
    """What a client is made of: the access that holds now, in the region that is given if not in
    the one that is set, and the way in. `renew` says whether credentials may be others now.
    """

    kind: Literal["s3", "gcs", "azure"]
    access: Callable[[str | None], BucketAccess]
    connect: Callable[[BucketAccess, Any], Any]
    renew: Callable[[], bool]
    token: Callable[[BucketAccess], str | None] = lambda _: None
    """Returns what requests are signed with that are not obstore's; None for unsigned ones."""


class BucketClient:
    """obstore's store of a bucket. Any thread may call it."""

    def __init__(self, source: ClientSource) -> None:
        self.kind = source.kind
        self._source = source
        self._lock = Lock()
        self._store: Any = None
        self._access: BucketAccess | None = None
        self._region: str | None = None

    def run(self, action: Callable[[Any], Result]) -> Result:
        """Return the result of a call of obstore on the store, whose credentials hold.

        Raises: what translated does; what the credentials' source does.
        """
        store = self.store()
        return obstore_failures(lambda: action(store))

    def store(self) -> Any:
        """Return the store by the credentials that hold now."""
        with self._lock:
            access = self._source.access(self._region)
            _check_keys(access)
            if self._store is None or access != self._access:
                self._store = self._source.connect(access, ONE_ATTEMPT)
                self._access = access
            return self._store

    @property
    def access(self) -> BucketAccess:
        """The access that the store has, once it was made."""
        with self._lock:
            assert self._access is not None
            return self._access

    def repeating_store(self) -> Any:
        """Return one that repeats requests by itself, for as long as its credentials hold."""
        return self._source.connect(self._source.access(self._region), SIX_ATTEMPTS)

    def token(self) -> str | None:
        """Return what requests are signed with that are not obstore's; None for unsigned ones."""
        return self._source.token(self.access)

    def renew(self) -> bool:
        """Have new credentials; whether there may be some."""
        return self._source.renew()

    def move(self) -> bool:
        """Find the region that the bucket is in; whether that is another one."""
        access = self._source.access(self._region)
        region = answered_headers(access).get("x-amz-bucket-region")
        if not region or region == access.region:
            return False
        self._region = region
        return True

    def time_ms(self) -> int | None:
        """Return the time that the server stamps its answers with, in whole seconds.

        None without one.
        """
        date = answered_headers(self._source.access(self._region)).get("date")
        return None if date is None else round(parsedate_to_datetime(date).timestamp()) * 1000


def answered_headers(access: BucketAccess) -> Mapping[str, str]:
    """Return the headers that a server answers an unsigned request with, whatever it says of it.

    Raises: OSError, where it does not answer.
    """
    trusted = ssl.create_default_context()
    if access.authorities is not None:
        trusted.load_verify_locations(access.authorities)
    request = urllib.request.Request(access.url, method="HEAD")  # noqa: S310 - of http or https
    try:
        with urllib.request.urlopen(  # noqa: S310 - of http or https
            request, timeout=ANSWER_SECONDS, context=trusted
        ) as answer:
            headers = answer.headers
    except urllib.error.HTTPError as error:
        headers = error.headers
        error.close()
    return {name.lower(): value for name, value in headers.items()}
