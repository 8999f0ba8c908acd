"""Who asks AWS for something, where, and the signature of what is asked.

botocore takes longer to import than a table to read. It finds credentials and settings where the
catalog's properties and the environment do not say all; requests are signed here.
"""

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

from icectl.catalog.http import Request
from icectl.errors import StorageError, UsageError
from icectl.storage.credentials import AwsKeys, has_aws_settings, keys_in_environment

_ALGORITHM = "AWS4-HMAC-SHA256"
_UNSIGNED = {"user-agent", "expect", "transfer-encoding", "connection"}
"""Headers that may be changed on the way."""

_PORTS = {"http": ":80", "https": ":443"}
"""Ports that requests do not name."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The credentials of a catalog, which may be others with each call; `origin` names them.

    `region` and `authorities`, a file of certificates to trust, are what AWS's settings say.
    """

    keys: Callable[[], AwsKeys] = field(repr=False)
    origin: str
    region: str | None
    authorities: str | None


def identity_of(
    who: str, properties: Mapping[str, str], groups: Sequence[str], profile: str | None
) -> Identity:
    """Find credentials: those of the first group of properties that has some, else AWS's own.

    `who` names the catalog in messages. Raises: UsageError; StorageError, where there are none.
    """
    configured = _configured_keys(who, properties, groups)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    authorities = os.environ.get("AWS_CA_BUNDLE")
    in_environment = None if profile is not None else keys_in_environment()
    known = configured
    if known is None and in_environment is not None:
        known = in_environment, "AWS_ACCESS_KEY_ID"
    if known is not None and not has_aws_settings(profile):
        keys, origin = known
        return Identity(lambda: keys, origin, region, authorities)
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    session = Session(profile=profile)
    try:
        session.get_scoped_config()
    except BotoCoreError as error:
        raise UsageError(f"{who}: {error}") from error
    region = os.environ.get("AWS_REGION") or session.get_config_variable("region")
    authorities = session.get_config_variable("ca_bundle")
    if configured is not None:
        keys, origin = configured
        return Identity(lambda: keys, origin, region, authorities)
    keys_of, origin = _of_session(who, groups[0], session)
    return Identity(keys_of, origin, region, authorities)


def signed_headers(
    request: Request, keys: AwsKeys, service: str, region: str, now_ms: int
) -> Mapping[str, str]:
    """Return the headers of a request with its signature among them, as Signature Version 4 has it.

    All headers are signed that stay as they are. Units: now_ms, milliseconds since 1970.
    """
    at = datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {**request.headers, "X-Amz-Date": at}
    if keys.token:
        headers["X-Amz-Security-Token"] = keys.token
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    names, canonical = _canonical(replace(request, headers=headers))
    text = f"{_ALGORITHM}\n{at}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    mac = f"AWS4{keys.secret}".encode()
    for part in (*scope.split("/"), text):
        mac = hmac.digest(mac, part.encode(), "sha256")
    proof = f"Credential={keys.key}/{scope}, SignedHeaders={names}, Signature={mac.hex()}"
    return {**headers, "Authorization": f"{_ALGORITHM} {proof}"}


def _canonical(request: Request) -> tuple[str, str]:
    """Return the names of the headers that are signed, and the request as it is signed."""
    parts = urlsplit(request.url)
    host = parts.netloc.rpartition("@")[2].lower().removesuffix(_PORTS.get(parts.scheme, ""))
    headers = {
        name.lower(): " ".join(value.split())
        for name, value in {"Host": host, **request.headers}.items()
        if name.lower() not in _UNSIGNED
    }
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
    path = quote(parts.path or "/", safe="/~")  # once more: it is encoded already
    pairs = sorted(pair.partition("=") for pair in parts.query.split("&"))
    query = "&".join("".join(pair) for pair in pairs)
    body = hashlib.sha256(request.body).hexdigest()
    return names, "\n".join((request.method, path, query, *lines, "", names, body))


def _configured_keys(
    who: str, properties: Mapping[str, str], groups: Sequence[str]
) -> tuple[AwsKeys, str] | None:
    for group in groups:
        names = ("access-key-id", "secret-access-key")
        key, secret = (properties.get(f"{group}.{name}") for name in names)
        if key and secret:
            token = properties.get(f"{group}.session-token")
            return AwsKeys(key, secret, token), f"`{group}.access-key-id` of {who}"
        if key or secret:
            raise UsageError(
                f"{who} has one of `{group}.access-key-id` and "
                f"`{group}.secret-access-key`, and both are needed"
            )
    return None


def _of_session(who: str, group: str, session: Any) -> tuple[Callable[[], AwsKeys], str]:
    from botocore.exceptions import BotoCoreError

    try:
        credentials = session.get_credentials()
    except BotoCoreError as error:
        raise UsageError(f"{who}: {error}") from error
    if credentials is None:
        raise StorageError(
            f"there are no AWS credentials for {who}",
            hint="set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the catalog "
            f"properties `{group}.access-key-id` and `{group}.secret-access-key`",
        )
    origin = f"botocore's `{credentials.method}`"

    def keys() -> AwsKeys:
        try:
            now = credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise StorageError(f"cannot get credentials from {origin}: {error}") from error
        return AwsKeys(now.access_key, now.secret_key, now.token)

    return keys, origin
