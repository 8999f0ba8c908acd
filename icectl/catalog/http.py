"""HTTP to a catalog: one request, and what came of it."""

import logging
import re
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import urllib3

from icectl.catalog.tls import tls_context
from icectl.env import Deadline
from icectl.errors import UsageError
from icectl.storage.failures import in_time
from icectl.units import read_count

_LOGGER = logging.getLogger(__name__)
_CONNECT_MS, _READ_MS = 20_000, 120_000
_LONGEST_MS = 86_400_000
_ANSWER_SECONDS = 600.0
"""How long one answer may take as a whole, however steadily its bytes come."""

_LARGEST_BYTES = 512 << 20
_LARGEST_ERROR_BYTES = 4 << 20
"""How long the body of an answer may be: one of success, and any other."""

_UNPACKED_BYTES, _UNPACKED_TIMES = 32 << 20, 100
"""What a packed body may unpack to: as many bytes, or as many times what was sent."""

_CHUNK_BYTES = 1 << 16
_PACKED = {"gzip", "x-gzip"}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_CONNECTIONS = 4
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST")
_TIMEOUTS = ("rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms")


@dataclass(frozen=True, slots=True)
class Request:
    """One request; what is in it may be secret."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class NotReachedError(Exception):
    """No connection came about: nothing was sent."""


class NoAnswerError(Exception):
    """The request may have been sent, and no whole answer came."""


class GivenUpError(NoAnswerError):
    """An answer that was too long or too slow to be read to its end: asking again will not help."""


class Http:
    """Connections to one server, through the proxy and with the certificates that are configured.

    No answer is waited for behind the deadline. Raises: UsageError, for an address, certificates
    and numbers that cannot be used.
    """

    def __init__(self, uri: str, properties: Mapping[str, str], deadline: Deadline) -> None:
        connect_ms, read_ms = (
            _number(properties, name, default)
            for name, default in zip(_TIMEOUTS, (_CONNECT_MS, _READ_MS), strict=True)
        )
        arguments: dict[str, Any] = {
            "timeout": urllib3.Timeout(connect=connect_ms / 1000, read=read_ms / 1000),
            "maxsize": _CONNECTIONS,
        }
        from urllib.request import getproxies, proxy_bypass

        self._deadline = deadline
        try:
            parts = urlsplit(uri)
            proxies = getproxies()
            proxy = proxies.get(parts.scheme) or proxies.get("all")
            if proxy and proxy_bypass(parts.netloc.rpartition("@")[2]):
                proxy = None
        except ValueError:
            raise UsageError("the address of the catalog cannot be read") from None
        if parts.scheme == "https":
            arguments["ssl_context"] = tls_context(properties)
        if not proxy:
            self._pool = urllib3.PoolManager(**arguments)
            return
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        user, at, host = parts.netloc.rpartition("@")
        arguments["proxy_headers"] = urllib3.make_headers(proxy_basic_auth=user) if at else None
        self._pool = urllib3.ProxyManager(f"{parts.scheme}://{host}", **arguments)

    def send(self, request: Request, at_least_seconds: float = 0.0) -> Answer:
        """Send a request once; redirections are answers.

        `at_least_seconds` is how long the answer to a change is waited for in any case. Raises:
        NotReachedError; NoAnswerError; Incomplete, where the time is over before it is sent;
        UsageError, for headers that no request can have.
        """
        for name, value in request.headers.items():
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                # No value is shown.
                shown = name if _HEADER_NAME.fullmatch(name) else "header.*"
                raise UsageError(
                    f"the header `{shown}` of requests to the catalog contains a line break, or "
                    "another character that headers cannot have",
                    hint="a secret that was read from a file often ends with a line break",
                )
        if not at_least_seconds:
            self._deadline.check()
        left = max(self._deadline.remaining_seconds, at_least_seconds)
        seconds = min(left, _ANSWER_SECONDS)
        given_up = Event()
        try:
            return in_time(lambda: self._answer(request, given_up), seconds)
        except TimeoutError:
            raise GivenUpError(f"no complete response within {seconds:.0f} seconds") from None
        finally:
            given_up.set()

    def _answer(self, request: Request, given_up: Event) -> Answer:
        shown = redacted_url(request.url)
        try:
            answer = self._pool.request(
                request.method,
                request.url,
                headers=dict(request.headers),
                body=request.body or None,
                retries=False,
                redirect=False,
                preload_content=False,
            )
            body = _body(answer, given_up)
        except (urllib3.exceptions.HTTPError, zlib.error) as error:
            reason = _reason(error)
            _LOGGER.debug("%s %s: %s", request.method, shown, reason)
            if _was_not_sent(error):
                raise NotReachedError(reason) from error
            raise NoAnswerError(reason) from error
        _LOGGER.debug("%s %s: %d", request.method, shown, answer.status)
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(answer.status, headers, body)


def _body(answer: urllib3.BaseHTTPResponse, given_up: Event) -> bytes:
    """Read a body up to what it may be at most. Raises: NoAnswerError; zlib.error; HTTPError."""
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", *_PACKED}:
        answer.close()
        raise GivenUpError("it is compressed in a way that was not requested")
    unpacker = zlib.decompressobj(31) if encoding in _PACKED else None
    largest = _LARGEST_BYTES if answer.status == 200 else _LARGEST_ERROR_BYTES
    parts: list[bytes] = []
    sent = size = 0
    while not given_up.is_set():
        chunk = answer.read1(_CHUNK_BYTES, decode_content=False)
        if not chunk:
            if unpacker is not None and sent and not unpacker.eof:
                raise NoAnswerError("the compressed response is incomplete")
            return b"".join(parts)
        sent += len(chunk)
        most = largest
        if unpacker is not None:
            most = min(largest, max(_UNPACKED_BYTES, _UNPACKED_TIMES * sent))
            chunk = unpacker.decompress(chunk, most - size + 1)
        parts.append(chunk)
        size += len(chunk)
        if size > most:
            answer.close()
            raise GivenUpError(f"its response is longer than {most >> 20} MiB")
    answer.close()
    raise GivenUpError("no caller waits for it")


def redacted_url(url: str) -> str:
    """Return a URL without what may be secret: user, password, query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme else parts.path


def _was_not_sent(error: Exception) -> bool:
    """Return whether an error can only come before the first byte of a request."""
    before = (
        urllib3.exceptions.NewConnectionError,
        urllib3.exceptions.ConnectTimeoutError,
        urllib3.exceptions.ProxyError,
        urllib3.exceptions.LocationValueError,
    )
    verified = isinstance(error.__cause__ or error.__context__, ssl.SSLCertVerificationError)
    return isinstance(error, before) or verified


def _reason(error: Exception) -> str:
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return "no response in time"
    is_new = isinstance(error, urllib3.exceptions.NewConnectionError)
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError) and not is_new:
        return "no connection in time"
    cause: BaseException = error
    while inner := cause.__cause__ or cause.__context__:
        cause = inner
    if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
        return "the server does not speak TLS (an `http:` address?)"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror[:1].lower() + cause.strerror[1:]
    return (str(cause) or type(cause).__name__).splitlines()[0]


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name)
    if text is None:
        return default
    number = read_count(text)
    if number is None or not 0 < number <= _LONGEST_MS:
        raise UsageError(
            f"catalog property `{name}`: `{text}` is not a number of milliseconds up to a day"
        )
    return number
