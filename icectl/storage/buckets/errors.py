"""What obstore raises, as errors that say what the storage answered.

obstore keeps the answer of a request only in the text of its errors, and that names the request's
address, which may hold a signature. So only code, message and status are taken out of it.
"""

import re
from collections.abc import Callable
from html import unescape
from typing import Any, TypeVar

Result = TypeVar("Result")

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


def obstore_failures(action: Callable[[], Result]) -> Result:
    """Return the result of a call of obstore.

    Raises: Answered, NotReached, BrokenOff; FileNotFoundError; what it raises of its own code.
    """
    from obstore.exceptions import BaseError

    try:
        return action()
    except (BaseError, FileNotFoundError) as error:
        raise translation(error) from None  # its text may hold a signed address


def translation(error: Exception) -> Exception:
    """Return what an error of obstore says."""
    text = str(error)
    if _BEFORE_ALL in text:
        return _without_token(text)
    if found := _STATUS.search(text):
        return answered(int(found[1]), "", found[2])
    if found := _OF_A_KEY.search(text):
        return Answered(200, found[2], found[1])
    if _BARE_REDIRECT in text:
        return Answered(301, "PermanentRedirect", "the bucket is elsewhere")
    if _PAST_THE_END in text:
        return Answered(416, "InvalidRange", "the file ends before")
    kind = _KIND.search(text)
    if kind is None:
        return _other(error, text)
    server = _SERVER.search(text)
    at = f" {server[1]}" if server else ""
    if kind[1] == "Connect":
        return NotReached(f"could not connect to{at or ' the storage'}")
    return BrokenOff(f"the connection to{at or ' the storage'} broke off")


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
    is_of_machine = at.startswith(_OF_THE_MACHINE)
    if status is not None and int(status[1]) not in _PASSING:
        return NoCredentials(f"{at} gives no token (status {status[1]})")
    if is_of_machine and status is None:
        return NoCredentials("none are set, and this machine has no identity in the cloud")
    return NotReached(f"no token could be had of {at}")


def _other(error: Exception, text: str) -> Exception:
    """Return an error that no answer led to, such as one of credentials."""
    from obstore.exceptions import GenericError, UnauthenticatedError

    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(text)
    first = text.partition("\n")[0]
    if _CODE.search(text):  # of an answer whose status was good
        return answered(200, "", text)
    if isinstance(error, UnauthenticatedError):
        return NoCredentials(first)
    if isinstance(error, GenericError):
        return Unexpected(first)
    return error


class NoCredentials(Exception):
    """None were found, or they could not be had."""


class Unexpected(Exception):
    """An answer that could not be understood, or a request that could not be made."""


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status behind an error of this module."""
    response: dict[str, Any] = getattr(error, "response", {})
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status if isinstance(status, int) else None
