"""One bucket or container by obstore, made again whenever its credentials are, and its errors.

obstore keeps the answer of a request only in the text of its errors, and that names the request's
address, which may hold a signature. So only code, message and status are taken out of it.
"""

import http.client
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import parsedate_to_datetime
from html import unescape
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeVar

from obstore.exceptions import BaseError, GenericError, UnauthenticatedError

from icectl.errors import UsageError
from icectl.storage.location import redacted

Result = TypeVar("Result")

ANSWER_SECONDS = 60
"""How long a connection may take to be made, and to bring something more."""

ONE_ATTEMPT: Mapping[str, Any] = {"max_retries": 0}
"""icectl repeats requests itself, and a create never."""

_COPY_SECONDS = 300
"""How long the storage may take to say something: it may be copying."""

_LARGEST_BYTES = 16 << 20
"""How long an answer may be."""

SIX_ATTEMPTS: Mapping[str, Any] = {
    "max_retries": 5,
    "retry_timeout": timedelta(minutes=3),
    "backoff": {"init_backoff": timedelta(seconds=0.2), "max_backoff": timedelta(seconds=10)},
}
"""For parts of an upload, which only obstore can repeat."""

_IN_HEADERS = ("access_key_id", "token", "bearer_token")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")
_ADDRESS = re.compile(
    r"https?://(?:[^\s/?#@]*@)?(?:\[[0-9a-f:.]+\]|[\w.~-]+)(?::(?P<port>\d{1,5}))?(?:/[!-~]*)?",
    re.ASCII | re.IGNORECASE,
)
_LAST_PORT = 65535
_STATUS = re.compile(r"status code: (\d{3})[^:]*:? ?(.*?)(?:\n\nDebug source:|\Z)", re.DOTALL)
_CODE = re.compile(r"<Code>(.*?)</Code>", re.DOTALL)
_MESSAGE = re.compile(r"<(?:Message|Details)>(.*?)</(?:Message|Details)>", re.DOTALL)
_KIND = re.compile(r"HttpError \{\s*kind: (\w+)")
_SERVER = re.compile(r"Error performing \w+ (https?://[^/\s?]*)")
_OF_A_KEY = re.compile(r"DeleteObjects request failed for key .*?: (.*) \(code: (\w+)\)", re.DOTALL)
_BEFORE_ALL = "Error performing token request"
"""Tells that credentials were asked for."""

_OF_THE_MACHINE = ("http://169.254.169.254", "http://metadata")
"""Where machines of a cloud ask who they are."""

_PASSING = {429, 500, 502, 503, 504}
_PAST_THE_END = "Wanted range starting at"
_BARE_REDIRECT = "Received redirect without LOCATION"
_MISSING = {"", "NoSuchKey", "NoSuchVersion", "NotFound", "BlobNotFound", "PathNotFound"}
"""Codes of a 404 that speak of the object; with others there may be one."""

_NO_BUCKET = {"ContainerNotFound": "NoSuchBucket", "FilesystemNotFound": "NoSuchBucket"}


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
        """Call obstore. Raises: as obstore_failures; what the credentials' source does."""
        store = self.store()
        return obstore_failures(lambda: action(store))

    def store(self) -> Any:
        with self._lock:
            access = self._found()
            for name in _IN_HEADERS:  # obstore itself panics; what they are is not shown
                if not _HEADER_VALUE.fullmatch(access.keys.get(name) or ""):
                    raise UsageError(
                        f"the credentials for {access.url} have a line break, or another character "
                        f"that a header cannot have, in `{name}`",
                        hint="a secret that was read from a file often ends with a line break",
                    )
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
        return self._source.connect(self._found(), SIX_ATTEMPTS)

    def token(self) -> str | None:
        """Return what requests are signed with that are not obstore's; None for unsigned ones."""
        return self._source.token(self.access)

    def renew(self) -> bool:
        return self._source.renew()

    def move(self) -> bool:
        """Find the region that the bucket is in; whether that is another one."""
        access = self._found()
        region = answered_headers(access).get("x-amz-bucket-region")
        if not region or region == access.region:
            return False
        self._region = region
        return True

    def time_ms(self) -> int | None:
        """Return the time that the server stamps its answers with, in whole seconds, if any."""
        date = answered_headers(self._found()).get("date")
        return None if date is None else round(parsedate_to_datetime(date).timestamp()) * 1000

    def _found(self) -> BucketAccess:
        """Return the access that holds now. Raises: UsageError, of whose address obstore panics."""
        access = self._source.access(self._region)
        address = _ADDRESS.fullmatch(access.endpoint)
        if address is None or int(address["port"] or 0) > _LAST_PORT:
            raise UsageError(
                f"`{redacted(access.endpoint)}` is not the address of a storage",
                hint="write it like https://storage.example.com:9000, in `--storage-option "
                "endpoint_url=...`, AWS_ENDPOINT_URL or the catalog",
            )
        return access


def answered_headers(access: BucketAccess) -> Mapping[str, str]:
    """Return the headers that an unsigned request gets. Raises: OSError, without an answer."""
    request = urllib.request.Request(access.url, method="HEAD")  # noqa: S310 - of http or https
    try:
        with urllib.request.urlopen(  # noqa: S310 - of http or https
            request, timeout=ANSWER_SECONDS, context=_trusted(access)
        ) as answer:
            headers = answer.headers
    except urllib.error.HTTPError as error:
        headers = error.headers
        error.close()
    return {name.lower(): value for name, value in headers.items()}


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """What a server answered; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Has redirections be answers: no credentials go where they lead."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none."""


def send(
    access: BucketAccess, method: str, url: str, headers: Mapping[str, str], body: bytes
) -> PlainAnswer:
    """Return what the store answers to a request that obstore has no call for, whatever it says.

    It is made once, to the store's own address and no other; address and headers may be secret.
    Raises: NotReached; BrokenOff; Unexpected, where the address is not the store's own; OSError,
    where the certificates cannot be read.
    """
    if not url.startswith(f"{access.endpoint}/"):
        raise Unexpected("a request would have left the store's own address")
    trusted = urllib.request.HTTPSHandler(context=_trusted(access))
    opener = urllib.request.build_opener(_NoRedirects, trusted)
    request = urllib.request.Request(  # noqa: S310 - of http or https
        url, body, dict(headers), method=method
    )
    try:
        try:
            answer: Any = opener.open(request, timeout=_COPY_SECONDS)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            content = answer.read(_LARGEST_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        raise _not_answered(error, access) from None  # its text may hold a signed address
    if len(content) > _LARGEST_BYTES:
        raise Unexpected("the storage's response is too long")
    lower = {name.lower(): value for name, value in answer.headers.items()}
    return PlainAnswer(answer.status, lower, content)


def client_options(access: BucketAccess) -> Any:
    """Return how HTTP is spoken, as long as something comes. Raises: OSError, of certificates."""
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


def _trusted(access: BucketAccess) -> ssl.SSLContext:
    trusted = ssl.create_default_context()
    if access.authorities is not None:
        trusted.load_verify_locations(access.authorities)
    return trusted


def _not_answered(error: Exception, access: BucketAccess) -> Exception:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ConnectionRefusedError | ssl.SSLCertVerificationError) or (
        type(reason).__name__ == "gaierror"
    ):
        return NotReached(f"could not connect to {access.endpoint}")
    return BrokenOff(f"the connection to {access.endpoint} broke off")


class Answered(Exception):
    """The storage has answered with an error; `response` is told as botocore does."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message or code or f"status {status}")
        self.response = {
            "Error": {"Code": code or str(status), "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


class NotReached(Exception):
    """No connection was made: nothing was sent."""


class BrokenOff(Exception):
    """The connection ended, or time was up, before the whole answer was there."""


class NoCredentials(Exception):
    """None were found, or they could not be had."""


class Unexpected(Exception):
    """An answer that could not be understood, or a request that could not be made."""


def obstore_failures(action: Callable[[], Result]) -> Result:
    """Return the result of a call of obstore.

    Raises: Answered, NotReached, BrokenOff; FileNotFoundError; what it raises of its own code.
    """
    try:
        return action()
    except (BaseError, FileNotFoundError) as error:
        raise translation(error) from None  # its text may hold a signed address


def translation(error: Exception) -> Exception:
    """Return what an error of obstore says."""
    text = str(error)
    if _BEFORE_ALL in text:
        return _without_token(text)
    if match := _STATUS.search(text):
        return answered(int(match[1]), "", match[2])
    if match := _OF_A_KEY.search(text):
        return Answered(200, match[2], match[1])
    if _BARE_REDIRECT in text:
        return Answered(301, "PermanentRedirect", "the bucket is elsewhere")
    if _PAST_THE_END in text:
        return Answered(416, "InvalidRange", "the file ends before")
    if kind := _KIND.search(text):
        server = _SERVER.search(text)
        at = server[1] if server else "the storage"
        if kind[1] == "Connect":
            return NotReached(f"could not connect to {at}")
        return BrokenOff(f"the connection to {at} broke off")
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(text)
    first = text.partition("\n")[0]
    if _CODE.search(text):  # of an answer whose status was good
        return answered(200, "", text)
    if isinstance(error, UnauthenticatedError):  # no answer led to it
        return NoCredentials(first)
    return Unexpected(first) if isinstance(error, GenericError) else error


def answered(status: int, name: str, body: str) -> Exception:
    """Return what an answer says that is not good; `name` is its code, if not in the body."""
    code, message = _CODE.search(body), _MESSAGE.search(body)
    name = unescape(code[1]).strip() if code else name
    if status == 404 and name in _MISSING:
        return FileNotFoundError(name)
    text = " ".join(unescape(message[1]).split()) if message else ""
    return Answered(status, _NO_BUCKET.get(name, name), text)


def _without_token(text: str) -> Exception:
    """Return what came of asking for a token, before anything was asked of the storage."""
    server, status = _SERVER.search(text), _STATUS.search(text)
    at = server[1] if server else "the service that gives them"
    if status is not None and int(status[1]) not in _PASSING:
        return NoCredentials(f"{at} gives no token (status {status[1]})")
    if at.startswith(_OF_THE_MACHINE) and status is None:
        return NoCredentials("none are set, and this machine has no identity in the cloud")
    return NotReached(f"could not get a token from {at}")
