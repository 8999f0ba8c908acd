"""Requests that obstore has no call for: made once, to the store's own address and no other."""

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icectl.storage.buckets.client import BucketAccess
from icectl.storage.buckets.errors import BrokenOff, NotReached, Unexpected

_ANSWER_SECONDS = 300
"""How long the storage may take to say something: it may be copying."""

_LARGEST_BYTES = 16 << 20
"""How long an answer may be."""


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """One request; what is in it may be secret."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


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


def send(request: PlainRequest, access: BucketAccess) -> PlainAnswer:
    """Return what the store answers, whatever it says.

    Raises: NotReached; BrokenOff; Unexpected, where the address is not the store's own; OSError,
    where the certificates cannot be read.
    """
    if not request.url.startswith(f"{access.endpoint}/"):
        raise Unexpected("a request would have left the store's own address")
    trusted = ssl.create_default_context()
    if access.authorities is not None:
        trusted.load_verify_locations(access.authorities)
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=trusted))
    plain = urllib.request.Request(  # noqa: S310 - of http or https
        request.url, request.body, dict(request.headers), method=request.method
    )
    try:
        try:
            answer: Any = opener.open(plain, timeout=_ANSWER_SECONDS)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            body = answer.read(_LARGEST_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        raise _failure(error, access) from None  # its text may hold a signed address
    if len(body) > _LARGEST_BYTES:
        raise Unexpected("the storage's answer is longer than it should be")
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return PlainAnswer(answer.status, headers, body)


def _failure(error: Exception, access: BucketAccess) -> Exception:
    """Return what is told where no answer came."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, ConnectionRefusedError | ssl.SSLCertVerificationError) or (
        type(reason).__name__ == "gaierror"
    ):
        return NotReached(f"could not connect to {access.endpoint}")
    return BrokenOff(f"the connection to {access.endpoint} broke off")
