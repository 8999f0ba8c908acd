"""Talking to one REST catalog: its configuration, requests, and refusals in icectl's errors."""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlencode

from icectl import __version__
from icectl.catalog.http import Answer, Http, NoAnswerError, NotReachedError, Request, shown_url
from icectl.catalog.rest import addresses
from icectl.catalog.rest.addresses import Addresses, endpoints_of
from icectl.catalog.rest.authentication import Authentication, authentication_of
from icectl.env import Env, SystemEnv
from icectl.errors import IcectlError, StorageError, Unsupported, UsageError
from icectl.storage.retry import retry

_LOGGER = logging.getLogger(__name__)
_PASSING = {408, 429, 500, 502, 503, 504}
_LOGGED_OUT = {401, 419}
_LONGEST_SAID = 400
_HEADER = "header."


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a server says of a request that it did not carry out; `is_told` in the protocol's way,
    so that the catalog itself has spoken, and nothing in front of it.
    """

    status: int
    message: str
    type: str = ""
    is_told: bool = False

    @staticmethod
    def of(answer: Answer) -> "Refusal":
        """Read an answer that is none of success."""
        try:
            error = json.loads(answer.body)["error"]
            message, kind = str(error["message"]), str(error.get("type") or "")
        except (ValueError, KeyError, TypeError, AttributeError):
            text = answer.body.decode("utf-8", "replace").strip()
            is_page = text.startswith("<") or not text
            said = f"status {answer.status}" if is_page else text.splitlines()[0][:_LONGEST_SAID]
            return Refusal(answer.status, said)
        return Refusal(answer.status, message[:_LONGEST_SAID], kind, is_told=True)

    def __str__(self) -> str:
        """Return the server's words."""
        return f"{self.message} ({self.status})" if self.is_told else self.message


@dataclass(frozen=True, slots=True)
class Config:
    """What a server wants of its clients: merged properties, and what it offers."""

    uri: str
    properties: Mapping[str, str] = field(repr=False)
    addresses: Addresses
    endpoints: frozenset[str]


@dataclass(slots=True)
class RestClient:
    """One catalog's server, whose configuration is read with the first request.

    `given` are the catalog's properties as its user has them.
    """

    name: str
    given: Mapping[str, str] = field(repr=False)
    env: Env
    _config: Config | None = None
    _http: Http | None = None
    _authentication: Authentication | None = None

    @property
    def config(self) -> Config:
        """The server's configuration.

        Raises: StorageError; UsageError; Unsupported.
        """
        if self._config is None:
            self._config = self._configure()
        return self._config

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross to another process without the connections of this one."""
        return type(self), (self.name, self.given, SystemEnv(), self._config)

    def offers(self, endpoint: str) -> bool:
        """Return whether the server says that it has an endpoint."""
        return endpoint in self.config.endpoints

    def check_offers(self, endpoint: str, purpose: str) -> None:
        """Raises: Unsupported, where the server does not have what a purpose needs."""
        if not self.offers(endpoint):
            raise Unsupported(
                f"the server of catalog `{self.name}` does not offer `{endpoint}`, which {purpose} "
                "needs",
                hint="use what the server offers for that",
            )

    def get(
        self, path: str, query: Mapping[str, str] | None = None, *, token: str | None = None
    ) -> Any:
        """Return the JSON object at a path, asked for again where that may help.

        Raises: NotThere; StorageError.
        """
        uri = self.config.uri
        answer = self._ask(f"{uri}/{path}", query or {}, token)
        return self.parsed(answer, f"{uri}/{path}")

    def pages(self, path: str, query: Mapping[str, str], member: str) -> Iterator[Any]:
        """Yield what is listed at a path, page after page. Raises: as get."""
        token, seen = "", {""}
        size = self.config.properties.get("rest-page-size")
        while True:
            more = {"pageToken": token} | ({"pageSize": size} if size else {})
            found = self.get(path, {**query, **more})
            items = found.get(member)
            if not isinstance(items, list):
                raise self.odd(f"{self.config.uri}/{path}", f"its answer has no `{member}`")
            yield from items
            token = str(found.get("next-page-token") or "")
            if token in seen:
                return
            seen.add(token)

    def namespaces(self, parent: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Yield the namespaces right below one.

        Raises: NotThereError; Unsupported; StorageError.
        """
        self.check_offers(addresses.NAMESPACES, "listing namespaces")
        at = self.config.addresses
        query = {"parent": at.joined(parent)} if parent else {}
        for levels in self.pages(at.namespaces(), query, "namespaces"):
            if not isinstance(levels, list):
                raise self.nameless(at.namespaces())
            found = tuple(str(level) for level in levels)
            if found[:-1] == parent:  # some servers leave out to ask for what is below
                yield found

    def post(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str], token: str | None
    ) -> Answer:
        """Send a change, once; where the login has run out, once more after a new one.

        Raises: NotReachedError; NoAnswerError; StorageError, for the login.
        """
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        url = f"{self.config.uri}/{path}"
        all_headers = {**self._headers, "Content-Type": "application/json", **headers}
        return self._send(Request("POST", url, all_headers, content), token)

    def denied(self, refusal: Refusal, url: str) -> StorageError:
        """Return the error for an answer of 401, 403 or 419."""
        shown = "the request" if self._authentication is None else self._authentication.named
        does_not = "accept" if refusal.status in _LOGGED_OUT else "allow this to"
        return StorageError(
            f"catalog `{self.name}` at {shown_url(url)} does not {does_not} {shown}: {refusal}",
            hint="the catalog's properties `token`, `credential` and `auth.*` say who asks; "
            "`-v` shows where each comes from",
            id="access-denied",
        )

    def odd(self, url: str, what: str) -> StorageError:
        """Return the error for an answer that is none of the protocol."""
        return StorageError(
            f"catalog `{self.name}`: {shown_url(url)} does not answer as an Iceberg REST catalog "
            f"does: {what}",
            hint="the catalog property `uri` is what stands before `/v1` in the server's addresses",
        )

    def nameless(self, path: str) -> StorageError:
        """Return the error for a list of names that has something else in it."""
        return self.odd(f"{self.config.uri}/{path}", "an entry of its list has no name")

    def failed(self, refusal: Refusal, url: str) -> IcectlError:
        """Return the error for an answer that is neither of success nor said of a missing thing."""
        if refusal.status in {401, 403, 419}:
            return self.denied(refusal, url)
        if not refusal.is_told and refusal.status < 500:
            return self.odd(url, f"it says {refusal}")
        return StorageError(
            f"catalog `{self.name}` at {shown_url(url)} failed: {refusal}",
            hint="look at the server, then run the command again",
        )

    def unreachable(self, url: str, error: Exception) -> StorageError:
        """Return the error where no answer came."""
        return StorageError(
            f"cannot reach catalog `{self.name}` at {shown_url(url)}: {error}",
            hint="the catalog property `uri` is its address; proxies come from HTTPS_PROXY and "
            "NO_PROXY",
        )

    def parsed(self, answer: Answer, url: str) -> Any:
        """Return the JSON object of an answer. Raises: NotThere; StorageError."""
        if answer.status == 404:
            refusal = Refusal.of(answer)
            if refusal.is_told:
                raise NotThereError(refusal)
        if answer.status != 200:
            raise self.failed(Refusal.of(answer), url)
        try:
            found = json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            kind = answer.headers.get("content-type", "of no kind that it names").partition(";")[0]
            raise self.odd(url, f"what it sends is no JSON ({kind})") from error
        if not isinstance(found, dict):
            raise self.odd(url, "what it sends is no JSON object")
        return found

    @property
    def _headers(self) -> dict[str, str]:
        properties = self._config.properties if self._config else self.given
        own = {
            "Accept": "application/json",
            "User-Agent": f"icectl/{__version__}",
            "X-Iceberg-Access-Delegation": "vended-credentials",
        }
        given = {
            name.removeprefix(_HEADER): value
            for name, value in properties.items()
            if name.startswith(_HEADER)
        }
        replaced = {name.lower() for name in given}
        kept = {name: one for name, one in own.items() if name.lower() not in replaced}
        return kept | {name: value for name, value in given.items() if value}

    def _ask(self, url: str, query: Mapping[str, str], token: str | None) -> Answer:
        """Return the answer to a reading request, tried again while the reason may pass."""
        whole = f"{url}?{urlencode(query)}" if query else url
        last: list[Answer] = []

        def ask() -> Answer:
            last[:] = [self._send(Request("GET", whole, self._headers), token)]
            if last[0].status in _PASSING:
                raise _PassingError
            return last[0]

        try:
            return retry(
                ask,
                self.env,
                is_transient=lambda error: isinstance(error, NoAnswerError | _PassingError),
                translated=lambda error: error,
            )
        except _PassingError:
            return last[0]
        except (NotReachedError, NoAnswerError) as error:
            raise self.unreachable(url, error) from error

    def _send(self, request: Request, token: str | None = None) -> Answer:
        if self._config is not None and self._http is None:
            self._connect(self._config.uri, self._config.properties)
        assert self._http is not None
        assert self._authentication is not None
        send = partial(self._once, self._http, self._authentication, token)
        answer = send(request)
        if answer.status in _LOGGED_OUT and token is None and self._authentication.renew():
            answer = send(request)
        return answer

    @staticmethod
    def _once(
        http: Http, authentication: Authentication, token: str | None, request: Request
    ) -> Answer:
        own = {"Authorization": f"Bearer {token}"} if token else authentication.headers(request)
        headers = {**request.headers, **own}
        return http.send(Request(request.method, request.url, headers, request.body))

    def _configure(self) -> Config:
        uri = self.given.get("uri", "").rstrip("/")
        if not uri.startswith(("http://", "https://")):
            raise UsageError(
                f"catalog `{self.name}`: its property `uri` is `{shown_url(uri)}`, which is no "
                "address of a REST catalog",
                hint="it is like https://catalog.example.com",
            )
        self._connect(uri, self.given)
        query = {"warehouse": self.given["warehouse"]} if self.given.get("warehouse") else {}
        url = f"{uri}/v1/config"
        try:
            found = self.parsed(self._ask(url, query, None), url)
        except NotThereError as error:
            raise self.odd(url, f"it says {error.refusal}") from error
        properties = {**_texts(found.get("defaults")), **self.given}
        properties |= _texts(found.get("overrides"))
        now_uri = properties.get("uri", uri).rstrip("/")
        if now_uri != uri or _access(properties) != _access(self.given):
            self._connect(now_uri, properties)
        return Config(
            now_uri,
            properties,
            Addresses.of(properties),
            endpoints_of(found.get("endpoints")),
        )

    def _connect(self, uri: str, properties: Mapping[str, str]) -> None:
        self._http = Http(uri, properties)
        self._authentication = authentication_of(properties, uri, self._http, self.env)


class NotThereError(Exception):
    """The server knows nothing of that name."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class _PassingError(Exception):
    """An answer that may be another one in a moment."""


def _texts(found: object) -> dict[str, str]:
    """Properties as a server sends them; without those that are null."""
    if not isinstance(found, dict):
        return {}
    return {
        str(key): value if isinstance(value, str) else json.dumps(value)
        for key, value in found.items()
        if value is not None
    }


def _access(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Return the properties that decide how the server is reached."""
    groups = ("auth.", "rest.", "ssl.", "oauth2-", "client.")
    names = {"token", "credential", "scope", "audience", "resource", "token-expires-in-ms"}
    return {
        name: value
        for name, value in properties.items()
        if name in names or name.startswith(groups)
    }
