"""Requests to AWS Glue, signed as botocore signs them, with the JSON of answers as it is.

botocore's own client drops members that it does not know, and sends again what was not answered: a
table must be given back whole, and a commit must know how often it was sent.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import (
    BotoCoreError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ProxyConnectionError,
)
from botocore.httpsession import URLLib3Session
from botocore.utils import get_environ_proxies

from icectl.env import Env
from icectl.errors import IcectlError, StorageError, UsageError

_LOGGER = logging.getLogger(__name__)
_TARGET = "AWSGlue."
_TRIES = 5
_FIRST_PAUSE_SECONDS = 0.2
_TIMEOUTS_SECONDS = (10, 60)
_THROTTLED = frozenset(
    {"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded"}
)
_OF_CREDENTIALS = frozenset(
    {
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "IncompleteSignature",
        "ExpiredTokenException",
        "ExpiredToken",
        "InvalidClientTokenId",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
    }
)
_UNANSWERED = frozenset({"OperationTimeoutException", "InternalServiceException"})
_NOT_SENT = (EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError)


class Rejected(Exception):
    """Glue answered that it did not do what was asked, by the name of an error of its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class AnswerLost(Exception):
    """A request was sent, and nobody said whether it was carried out; `reason` is why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Glue:
    """The service of one region or endpoint; `origin` tells in words whose credentials are used."""

    endpoint: str
    region: str
    credentials: Any
    origin: str
    catalog_id: str | None
    http: URLLib3Session
    env: Env

    def ask(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask for something that only reads, again where Glue is busy or does not answer.

        Raises: Rejected; StorageError.
        """
        reason = ""
        for number in range(_TRIES):
            try:
                return self.send(action, request)
            except AnswerLost as error:
                reason = error.reason
                self.env.sleep(_FIRST_PAUSE_SECONDS * 2**number)
        raise StorageError(
            f"AWS Glue at {self.endpoint} does not answer {action}: {reason}",
            hint="run the command again",
        )

    def pages(
        self, action: str, member: str, request: Mapping[str, Any]
    ) -> Iterator[Mapping[str, Any]]:
        """What an action lists in a member of its answers, page after page. Raises: as `ask`."""
        token: Mapping[str, Any] = {}
        while True:
            page = self.ask(action, {**request, **token})
            yield from page.get(member) or ()
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}

    def send(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send one request; again only where Glue says that it was too busy to look at it.

        Raises: Rejected; AnswerLost; StorageError, where it was never sent.
        """
        for number in range(_TRIES):
            try:
                return self._sent(action, request)
            except Rejected as error:
                if error.code not in _THROTTLED or number == _TRIES - 1:
                    raise
                self.env.sleep(_FIRST_PAUSE_SECONDS * 2**number)
        raise AssertionError

    def failure(self, error: Rejected, doing: str) -> IcectlError:
        """The error for a rejected request, `doing` being what was tried, in words."""
        what = f"AWS Glue does not let icectl {doing}: {error.message or error.code}"
        if error.code in _OF_CREDENTIALS:
            return StorageError(
                f"AWS Glue does not accept the credentials from {self.origin}: "
                f"{error.message or error.code}",
                hint="renew them, or name others: `glue.profile-name`, or `glue.access-key-id` and "
                "`glue.secret-access-key`",
            )
        if error.code == "AccessDeniedException" and "lake formation" in error.message.lower():
            return StorageError(
                f"AWS Lake Formation does not let icectl {doing}: {error.message}",
                hint="grant the role or user of these credentials SELECT and DESCRIBE on the table "
                "for reading, ALTER for commits, and its data location",
            )
        if error.code == "AccessDeniedException":
            return StorageError(
                f"{what} (credentials from {self.origin})",
                hint="icectl needs glue:GetTable, and glue:UpdateTable for commits; "
                "glue:GetDatabases and glue:GetTables for lists",
            )
        return StorageError(f"{what} ({error.code})")

    def _sent(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"CatalogId": self.catalog_id, **request} if self.catalog_id else request
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"{_TARGET}{action}",
            "User-Agent": "icectl",
        }
        signed = AWSRequest("POST", self.endpoint, headers, json.dumps(body).encode())
        _LOGGER.debug("glue %s: %s", self.endpoint, action)
        try:
            SigV4Auth(self.credentials.get_frozen_credentials(), "glue", self.region).add_auth(
                signed
            )
            prepared = signed.prepare()
        except BotoCoreError as error:
            raise StorageError(f"cannot get credentials from {self.origin}: {error}") from error
        try:
            answer = self.http.send(prepared)
        except _NOT_SENT as error:
            raise StorageError(
                f"cannot reach AWS Glue at {self.endpoint}: {_without_url(error)}",
                hint="check `glue.region`, `glue.endpoint` and the network",
            ) from error
        except (HTTPClientError, BotoCoreError) as error:
            raise AnswerLost(_without_url(error)) from error
        return _answered(self.endpoint, answer.status_code, answer.headers, answer.content)


def glue_of(catalog: str, properties: Mapping[str, str], env: Env) -> Glue:
    """The service that a catalog's properties name, as PyIceberg reads them.

    Raises: UsageError; StorageError, where there are no credentials.
    """
    session = botocore.session.Session(profile=properties.get("glue.profile-name"))
    try:
        region = _region(catalog, properties, session)
        endpoint = _endpoint(catalog, properties, session, region)
        credentials, origin = _credentials(catalog, properties, session)
        verify = session.get_config_variable("ca_bundle") or True
    except BotoCoreError as error:
        raise UsageError(f"catalog `{catalog}`: {error}") from error
    if credentials is None:
        raise StorageError(
            f"there are no credentials for AWS Glue of catalog `{catalog}`",
            hint="set AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the properties "
            "`glue.access-key-id` and `glue.secret-access-key` of the catalog",
        )
    http = URLLib3Session(
        verify=verify, proxies=get_environ_proxies(endpoint), timeout=_TIMEOUTS_SECONDS
    )
    catalog_id = properties.get("glue.id")
    return Glue(endpoint, region, credentials, origin, catalog_id, http, env)


def _region(catalog: str, properties: Mapping[str, str], session: Any) -> str:
    named = _first(properties, "glue.region", "client.region")
    found = named or os.environ.get("AWS_REGION") or session.get_config_variable("region")
    if not found:
        raise UsageError(
            f"catalog `{catalog}` has no region",
            hint="set `glue.region`, or AWS_REGION in the environment",
        )
    return str(found)


def _endpoint(catalog: str, properties: Mapping[str, str], session: Any, region: str) -> str:
    variables = ("AWS_ENDPOINT_URL_GLUE", "AWS_ENDPOINT_URL")
    given = properties.get("glue.endpoint") or _first(os.environ, *variables)
    if given is None:
        found = session.get_component("endpoint_resolver").construct_endpoint("glue", region)
        host = found["hostname"] if found else f"glue.{region}.amazonaws.com"
        return f"https://{host}/"
    if not given.lower().startswith(("http://", "https://")):
        raise UsageError(
            f"catalog `{catalog}`: `glue.endpoint` begins with https://, not `{given}`"
        )
    return given.rstrip("/") + "/"


def _credentials(catalog: str, properties: Mapping[str, str], session: Any) -> tuple[Any, str]:
    for prefix in ("glue", "client"):
        key, secret = (
            properties.get(f"{prefix}.{name}") for name in ("access-key-id", "secret-access-key")
        )
        if key and secret:
            token = properties.get(f"{prefix}.session-token")
            origin = f"`{prefix}.access-key-id` of catalog `{catalog}`"
            return Credentials(key, secret, token), origin
        if key or secret:
            raise UsageError(
                f"catalog `{catalog}` has one of `{prefix}.access-key-id` and "
                f"`{prefix}.secret-access-key`, and both are needed"
            )
    found = session.get_credentials()
    return found, f"botocore's `{found.method}`" if found is not None else ""


def _first(properties: Mapping[str, str], *keys: str) -> str | None:
    return next((properties[key] for key in keys if properties.get(key)), None)


def _answered(
    endpoint: str, status: int, headers: Mapping[str, str], content: bytes
) -> Mapping[str, Any]:
    """The JSON of an answer. Raises: Rejected; AnswerLost; StorageError, where it is not Glue's."""
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        found = None
    told: Mapping[str, Any] = found if isinstance(found, dict) else {}
    named = headers.get("x-amzn-errortype") or told.get("__type") or told.get("code") or ""
    code = str(named).partition(":")[0].rpartition("#")[2]
    message = str(told.get("message") or told.get("Message") or "")
    if status >= 500 or code in _UNANSWERED:
        raise AnswerLost(f"{code or f'HTTP status {status}'}{': ' if message else ''}{message}")
    if status == 200 and isinstance(found, dict):
        return found
    if not code:
        raise StorageError(
            f"what answers at {endpoint} is not AWS Glue: HTTP status {status}",
            hint="check `glue.endpoint`, and proxies in the environment",
        )
    raise Rejected(code, message)


def _without_url(error: Exception) -> str:
    """A failure in words; botocore's texts hold nothing secret, but long addresses."""
    return type(error).__name__ if not str(error) else " ".join(str(error).split())[:300]
