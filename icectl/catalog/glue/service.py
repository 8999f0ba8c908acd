"""Requests to AWS Glue, with the JSON of answers as it is.

botocore's own client drops members that it does not know, and sends again what was not answered: a
table must be given back whole, and a commit must know how often it was sent.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from icectl.catalog.aws import Identity, endpoint_of, identity_of, signed_headers
from icectl.catalog.http import Answer, Http, NoAnswerError, NotReachedError, Request
from icectl.env import Deadline, Env
from icectl.errors import IcectlError, StorageError, UsageError
from icectl.format.json_members import parse_json

_LOGGER = logging.getLogger(__name__)
_TARGET = "AWSGlue."
_TRIES = 5
_MOST_PAGES = 100_000
COMMIT_SECONDS = 60.0
"""How long the answer to a commit is waited for at least, whatever the time limit is."""

_FIRST_PAUSE_SECONDS = 0.2
_TIMEOUTS = {
    "rest.client.connection-timeout-ms": "10000",
    "rest.client.socket-timeout-ms": "60000",
}
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


class GlueRejection(Exception):
    """Glue answered that it did not do what was asked, by the name of an error of its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class GlueAnswerLost(Exception):
    """A request was sent, and nobody said whether it was carried out; `reason` is why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Glue:
    """The service of one region or endpoint."""

    endpoint: str
    region: str
    identity: Identity
    catalog_id: str | None
    http: Http
    env: Env

    def ask(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask for something that only reads, again where Glue is busy or does not answer.

        Raises: GlueRejection; StorageError.
        """
        reason = ""
        for number in range(_TRIES):
            try:
                return self.send(action, request)
            except GlueAnswerLost as error:
                reason = error.reason
                self.env.sleep(_FIRST_PAUSE_SECONDS * 2**number)
        raise StorageError(
            f"AWS Glue at {self.endpoint} does not answer {action}: {reason}",
            hint="run the command again",
        )

    def pages(
        self, action: str, member: str, request: Mapping[str, Any]
    ) -> Iterator[Mapping[str, Any]]:
        """Yield what an action lists in a member of its answers, page after page.

        Raises: as `ask`.
        """
        token: Mapping[str, Any] = {}
        for _ in range(_MOST_PAGES):
            page = self.ask(action, {**request, **token})
            yield from page.get(member) or ()
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}
        raise StorageError(f"AWS Glue at {self.endpoint} answers {action} with pages without end")

    def send(
        self, action: str, request: Mapping[str, Any], at_least_seconds: float = 0.0
    ) -> Mapping[str, Any]:
        """Send one request; again only where Glue says that it was too busy to look at it.

        `at_least_seconds`: as in Http. Raises: GlueRejection; GlueAnswerLost; StorageError, where
        it was never sent.
        """
        for number in range(_TRIES):
            try:
                return self._sent(action, request, at_least_seconds)
            except GlueRejection as error:
                if error.code not in _THROTTLED or number == _TRIES - 1:
                    raise
                self.env.sleep(_FIRST_PAUSE_SECONDS * 2**number)
        raise AssertionError

    def failure(self, error: GlueRejection, doing: str) -> IcectlError:
        """Return the error for a rejected request, `doing` being what was tried, in words."""
        what = f"AWS Glue does not let icectl {doing}: {error.message or error.code}"
        if error.code in _OF_CREDENTIALS:
            return StorageError(
                f"AWS Glue does not accept the credentials from {self.identity.origin}: "
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
                f"{what} (credentials from {self.identity.origin})",
                hint="icectl needs glue:GetTable, and glue:UpdateTable for commits; "
                "glue:GetDatabases and glue:GetTables for lists",
            )
        return StorageError(f"{what} ({error.code})")

    def _sent(
        self, action: str, request: Mapping[str, Any], at_least_seconds: float
    ) -> Mapping[str, Any]:
        content = {"CatalogId": self.catalog_id, **request} if self.catalog_id else request
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"{_TARGET}{action}",
            "User-Agent": "icectl",
        }
        unsigned = Request("POST", self.endpoint, headers, json.dumps(content).encode())
        _LOGGER.debug("glue %s: %s", self.endpoint, action)
        keys, now_ms = self.identity.keys(), self.env.now_ms()
        proved = signed_headers(unsigned, keys, "glue", self.region, now_ms)
        try:
            answer = self.http.send(replace(unsigned, headers=proved), at_least_seconds)
        except NotReachedError as error:
            raise StorageError(
                f"cannot reach AWS Glue at {self.endpoint}: {error}",
                hint="check `glue.region`, `glue.endpoint` and the network",
            ) from error
        except NoAnswerError as error:
            raise GlueAnswerLost(str(error)) from error
        return _answered(self.endpoint, answer)


def glue_of(catalog: str, properties: Mapping[str, str], env: Env, deadline: Deadline) -> Glue:
    """Return the service that a catalog's properties name, as PyIceberg reads them.

    Raises: UsageError; StorageError, where there are no credentials.
    """
    who, profile = f"catalog `{catalog}`", properties.get("glue.profile-name")
    identity = identity_of(who, properties, ("glue", "client"), profile)
    region = _first(properties, "glue.region", "client.region") or identity.region
    if not region:
        raise UsageError(
            f"{who} has no region", hint="set `glue.region`, or AWS_REGION in the environment"
        )
    endpoint = _endpoint(catalog, properties, region)
    trusted = {"ssl.cabundle": identity.authorities} if identity.authorities else {}
    http = Http(endpoint, {**_TIMEOUTS, **trusted}, deadline)
    return Glue(endpoint, region, identity, properties.get("glue.id"), http, env)


def _endpoint(catalog: str, properties: Mapping[str, str], region: str) -> str:
    variables = ("AWS_ENDPOINT_URL_GLUE", "AWS_ENDPOINT_URL")
    given = properties.get("glue.endpoint") or _first(os.environ, *variables)
    if given is None:
        return endpoint_of("glue", region)
    if not given.lower().startswith(("http://", "https://")):
        raise UsageError(
            f"catalog `{catalog}`: `glue.endpoint` begins with https://, not `{given}`"
        )
    return given.rstrip("/") + "/"


def _first(properties: Mapping[str, str], *keys: str) -> str | None:
    return next((properties[key] for key in keys if properties.get(key)), None)


def _answered(endpoint: str, answer: Answer) -> Mapping[str, Any]:
    """Return the JSON of an answer.

    Raises: GlueRejection; GlueAnswerLost; StorageError, where it is not Glue's.
    """
    status = answer.status
    try:
        found = parse_json(answer.body or b"{}")
    except ValueError:
        found = None
    told: Mapping[str, Any] = found if isinstance(found, dict) else {}
    named = answer.headers.get("x-amzn-errortype") or told.get("__type") or told.get("code") or ""
    code = str(named).partition(":")[0].rpartition("#")[2]
    message = str(told.get("message") or told.get("Message") or "")
    if status >= 500 or code in _UNANSWERED:
        raise GlueAnswerLost(f"{code or f'HTTP status {status}'}{': ' if message else ''}{message}")
    if status == 200 and isinstance(found, dict):
        return found
    if not code:
        raise StorageError(
            f"what answers at {endpoint} is not AWS Glue: HTTP status {status}",
            hint="check `glue.endpoint`, and proxies in the environment",
        )
    raise GlueRejection(code, message)
