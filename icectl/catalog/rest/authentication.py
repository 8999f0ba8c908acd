"""How requests to a catalog prove who sends them."""

import base64
import hashlib
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import urlencode

from icectl.catalog.aws import Identity, identity_of, signed_headers
from icectl.catalog.http import Http, NoAnswerError, NotReachedError, Request, redacted_url
from icectl.env import Env
from icectl.errors import StorageError, Unsupported, UsageError
from icectl.format.json_members import parse_json
from icectl.units import read_count

_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
_MARGIN_SECONDS = 60.0
_DEFAULT_SCOPE = "catalog"
_TOKEN = re.compile(r"[\x21-\x7e]+")
_LONGEST_LIFE_SECONDS = 1e9
_KINDS = ("none", "noop", "basic", "oauth2", "legacyoauth2", "sigv4")
_ELSEWHERE = {"google": "gcloud auth print-access-token", "entra": "az account get-access-token"}


class Authentication(Protocol):
    """One way to prove it; `named` is how messages call what was shown."""

    @property
    def named(self) -> str:
        """What a server that refuses has refused."""

    def headers(self, request: Request) -> Mapping[str, str]:
        """Return the headers that prove it for one request. Raises: StorageError."""

    def renew(self) -> bool:
        """Forget what a server no longer accepts; whether there is something newer to show."""


@dataclass(frozen=True, slots=True)
class FixedHeader:
    """A header that does not change, or none."""

    named: str
    authorization: str | None = field(default=None, repr=False)

    def headers(self, _: Request) -> Mapping[str, str]:
        return {} if self.authorization is None else {"Authorization": self.authorization}

    def renew(self) -> bool:
        """Say no: there is nothing else."""
        return False


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """What is asked for a token, where; `by_header` shows the client's secret as OAuth advises."""

    url: str
    client_id: str | None
    secret: str = field(repr=False)
    more: Mapping[str, str] = field(default_factory=dict)
    by_header: bool = False

    def request(self) -> Request:
        form = {"grant_type": "client_credentials", **self.more}
        headers = dict(_FORM)
        if self.by_header:
            headers["Authorization"] = _basic(f"{self.client_id}:{self.secret}")
        else:
            if self.client_id is not None:
                form["client_id"] = self.client_id
            form["client_secret"] = self.secret
        return Request("POST", self.url, headers, urlencode(form).encode())


@dataclass(slots=True)
class ClientCredentials:
    """Tokens for a client's credential, fetched again before they end; `hide` takes each."""

    http: Http
    env: Env
    asked: TokenRequest
    hide: Callable[[str], None]
    expires_in_seconds: float | None = None
    _token: str | None = field(default=None, repr=False)
    _ends_at: float = float("inf")
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def named(self) -> str:
        client = f" of client `{self.asked.client_id}`" if self.asked.client_id else ""
        return f"the OAuth2 token{client}"

    def headers(self, _: Request) -> Mapping[str, str]:
        with self._lock:
            if self._token is None or self.env.monotonic_seconds() >= self._ends_at:
                now = self.env.monotonic_seconds()
                token = _fetch_token(self.http, self.asked)
                self._token = token["access_token"]
                self.hide(token["access_token"])
                seconds = token.get("expires_in", self.expires_in_seconds)
                self._ends_at = float("inf")
                if isinstance(seconds, int | float) and 0 < seconds < _LONGEST_LIFE_SECONDS:
                    self._ends_at = now + seconds - min(_MARGIN_SECONDS, seconds / 2)
            return {"Authorization": f"Bearer {self._token}"}

    def renew(self) -> bool:
        with self._lock:
            self._token = None
        return True


@dataclass(frozen=True, slots=True)
class SigV4:
    """Signatures of AWS for each request."""

    service: str
    region: str
    identity: Identity
    env: Env

    @property
    def named(self) -> str:
        return f"the AWS credentials (signed for {self.service} in {self.region})"

    def headers(self, request: Request) -> Mapping[str, str]:
        """Return the signature's headers, over all that the request has. Raises: StorageError."""
        body = hashlib.sha256(request.body).hexdigest()
        whole = replace(request, headers={**request.headers, "x-amz-content-sha256": body})
        keys, now_ms = self.identity.keys(), self.env.now_ms()
        return signed_headers(whole, keys, self.service, self.region, now_ms)

    def renew(self) -> bool:
        """Say no: the credentials renew themselves."""
        return False


def authentication_of(
    properties: Mapping[str, str], uri: str, http: Http, env: Env, hide: Callable[[str], None]
) -> Authentication:
    """Return the way that the user's properties ask for. Raises: UsageError; Unsupported."""
    kind = (properties.get("auth.type") or properties.get("rest.auth.type") or "").lower()
    if kind in _ELSEWHERE:
        raise Unsupported(
            f"icectl does not log in as `{kind}`",
            hint=f"give a token: `token=env:NAME`, from `{_ELSEWHERE[kind]}` for example",
        )
    if kind and kind not in _KINDS:
        raise Unsupported(
            f"catalog property `auth.type`: `{kind}` is not one of {', '.join(_KINDS)}"
        )
    if kind == "sigv4" or properties.get("rest.sigv4-enabled", "").lower() == "true":
        profile = properties.get("client.profile-name")
        identity = identity_of("the catalog", properties, ("rest", "client"), profile)
        named = properties.get("rest.signing-region") or properties.get("client.region")
        region = named or identity.region
        if not region:
            raise UsageError("signed requests need the catalog property `rest.signing-region`")
        return SigV4(properties.get("rest.signing-name") or "execute-api", region, identity, env)
    if kind == "basic":
        return _password(properties)
    if kind == "oauth2" and _of_group(properties, "client_id"):
        return ClientCredentials(http, env, _own_server(properties), hide, _expires_in(properties))
    if kind in ("none", "noop"):
        return FixedHeader("a request without credentials")
    if "credential" in properties:
        client_id, colon, secret = properties["credential"].partition(":")
        if not colon:
            client_id, secret = "", client_id
        server = properties.get("oauth2-server-uri") or f"{uri}/v1/oauth/tokens"
        if "://" not in server:
            server = f"{uri}/{server.lstrip('/')}"
        more = {"scope": properties.get("scope") or _DEFAULT_SCOPE}
        more |= {
            name: properties[name] for name in ("audience", "resource") if properties.get(name)
        }
        asked = TokenRequest(server, client_id or None, secret, more)
        return ClientCredentials(http, env, asked, hide, _expires_in(properties))
    if "token" in properties:
        return FixedHeader("the catalog property `token`", f"Bearer {properties['token']}")
    return FixedHeader("a request without credentials")


def _own_server(properties: Mapping[str, str]) -> TokenRequest:
    groups = {name: _of_group(properties, name) for name in ("client_id", "client_secret")}
    groups["token_url"] = _of_group(properties, "token_url")
    missing = [name for name, value in groups.items() if not value]
    if missing:
        raise UsageError(f"catalog property `auth.oauth2.{missing[0]}` is missing")
    scope = _of_group(properties, "scope")
    more = {"scope": scope} if scope else {}
    client_id, secret, url = (str(value) for value in groups.values())
    return TokenRequest(url, client_id, secret, more, by_header=True)


def _of_group(properties: Mapping[str, str], name: str) -> str | None:
    """Return one of `auth.oauth2`; environment variables spell its names with hyphens."""
    group = "auth.oauth2."
    return properties.get(group + name) or properties.get(group + name.replace("_", "-"))


def _expires_in(properties: Mapping[str, str]) -> float | None:
    """Return how long tokens are valid whose server does not say. Units: seconds."""
    own, legacy = _of_group(properties, "expires_in"), properties.get("token-expires-in-ms")
    for text, per_second in ((own, 1), (legacy, 1000)):
        if (count := read_count(text)) is not None:
            return count / per_second
    return None


def _password(properties: Mapping[str, str]) -> FixedHeader:
    for group in ("auth.basic", "rest.auth.basic"):
        user, password = (properties.get(f"{group}.{name}") for name in ("username", "password"))
        if user is not None and password is not None:
            return FixedHeader(f"user `{user}` with its password", _basic(f"{user}:{password}"))
    raise UsageError("catalog properties `auth.basic.username` and `auth.basic.password` belong "
                     "to `auth.type=basic`")  # fmt: skip


def _basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _fetch_token(http: Http, asked: TokenRequest) -> Mapping[str, Any]:
    shown = redacted_url(asked.url)
    try:
        answer = http.send(asked.request())
    except (NotReachedError, NoAnswerError) as error:
        raise StorageError(
            f"cannot reach {shown} for an OAuth2 token: {error}",
            hint="check the catalog property `oauth2-server-uri`, the address that issues tokens",
        ) from error
    try:
        members = parse_json(answer.body)
    except ValueError:
        members = None
    token = members.get("access_token") if isinstance(members, dict) else None
    if answer.status == 200 and isinstance(token, str) and _TOKEN.fullmatch(token):
        assert isinstance(members, dict)
        return members
    kind = answer.headers.get("content-type", "").partition(";")[0] or "nothing"
    said = _reason(members) or f"its response is not a token ({kind})"
    client = f"client `{asked.client_id}`" if asked.client_id else "the catalog's `credential`"
    raise StorageError(
        f"{shown} issued no OAuth2 token for {client} ({answer.status}): {said}",
        hint="check the catalog properties `credential` (as ID:SECRET), `scope` and "
        "`oauth2-server-uri`",
        id="access-denied" if answer.status in (400, 401, 403) else None,
    )


def _reason(value: object) -> str | None:
    """Return what a server that gives tokens says of its refusal; never what was shown to it."""
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or error.get("type") or "") or None
    parts = [str(part) for part in (error, value.get("error_description")) if part]
    return ": ".join(parts) or None
