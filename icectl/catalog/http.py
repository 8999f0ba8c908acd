"""HTTP to a catalog: one request, and what came of it."""

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import urllib3

from icectl.catalog.tls import tls_context
from icectl.errors import UsageError

_LOGGER = logging.getLogger(__name__)
_CONNECT_MS, _READ_MS = 20_000, 120_000
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


class Http:
    """Connections to one server, through the proxy and with the certificates that are configured.

    Raises: UsageError, for certificates and numbers that cannot be used.
    """

    def __init__(self, uri: str, properties: Mapping[str, str]) -> None:
        connect_ms, read_ms = (
            _number(properties, name, default)
            for name, default in zip(_TIMEOUTS, (_CONNECT_MS, _READ_MS), strict=True)
        )
        arguments: dict[str, Any] = {
            "timeout": urllib3.Timeout(connect=connect_ms / 1000, read=read_ms / 1000),
            "maxsize": _CONNECTIONS,
        }
        if urlsplit(uri).scheme == "https":
            arguments["ssl_context"] = tls_context(properties)
        proxy = _proxy(uri)
        self._pool = _through(proxy, arguments) if proxy else urllib3.PoolManager(**arguments)

    def send(self, request: Request) -> Answer:
        """Send a request once; redirections are answers.

        Raises: NotReachedError; NoAnswerError.
        """
        try:
            answer = self._pool.request(
                request.method,
                request.url,
                headers=dict(request.headers),
                body=request.body or None,
                retries=False,
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as error:
            reason = _reason(error)
            _LOGGER.debug("%s %s: %s", request.method, shown_url(request.url), reason)
            if _was_not_sent(error):
                raise NotReachedError(reason) from error
            raise NoAnswerError(reason) from error
        _LOGGER.debug("%s %s: %d", request.method, shown_url(request.url), answer.status)
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(answer.status, headers, answer.data)


def shown_url(url: str) -> str:
    """Return a URL without what may be secret: user, password, query."""
    parts = urlsplit(url)
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
    """Say in a line why there is no answer."""
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return "no answer came in time"
    is_new = isinstance(error, urllib3.exceptions.NewConnectionError)
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError) and not is_new:
        return "no connection came about in time"
    cause: BaseException = error
    while inner := cause.__cause__ or cause.__context__:
        cause = inner
    if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
        return "what answers there does not speak TLS (an `http:` address?)"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror[:1].lower() + cause.strerror[1:]
    return (str(cause) or type(cause).__name__).splitlines()[0]


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not int(text):
        raise UsageError(f"catalog property `{name}`: `{text}` is no number of milliseconds")
    return int(text)


def _proxy(uri: str) -> str | None:
    """Return the proxy that the environment names for an address."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(uri)
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    return None if not found or proxy_bypass(parts.netloc.rpartition("@")[2]) else found


def _through(proxy: str, arguments: Mapping[str, Any]) -> urllib3.ProxyManager:
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    user, at, host = parts.netloc.rpartition("@")
    headers = urllib3.make_headers(proxy_basic_auth=user) if at else None
    return urllib3.ProxyManager(f"{parts.scheme}://{host}", proxy_headers=headers, **arguments)
