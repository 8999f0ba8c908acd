"""Talking to one REST catalog: its configuration, requests, and refusals in icectl's errors."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from icectl import __version__
from icectl.catalog.configured import is_secret_property
from icectl.catalog.file_io import of_server
from icectl.catalog.http import (
    Answer,
    GivenUpError,
    Http,
    NoAnswerError,
    NotReachedError,
    Request,
    redacted_url,
)
from icectl.catalog.rest import wire
from icectl.catalog.rest.authentication import Authentication, authentication_of
from icectl.catalog.rest.wire import Addresses, endpoints_of
from icectl.env import Deadline, Env, SystemEnv
from icectl.errors import IcectlError, Refused, StorageError, Unsupported, UsageError
from icectl.format.json_members import parse_json
from icectl.storage.failures import retry

_LOGGER = logging.getLogger(__name__)
_PASSING = {408, 429, 500, 502, 503, 504}
_LOGGED_OUT = {401, 419}
_LONGEST_SAID = 400
_HEADER = "header."
_COMMIT_SECONDS = 60.0
"""How long the answer to a commit is waited for at least, whatever the time limit is."""

_MOST_PAGES = 100_000
_MOST_LISTINGS = 1_000_000
_DEEPEST_NAMESPACE = 64
_FROM_SERVER = {"prefix", "warehouse", "namespace-separator", "rest-page-size"}
"""Properties that a server may set, beside those of storage: how one logs in is none of them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A server's words on a request that it refused; `is_told`: the catalog itself has spoken."""

    status: int
    message: str
    type: str = ""
    is_told: bool = False

    @staticmethod
    def of(answer: Answer) -> "Refusal":
        """Read an answer that is none of success."""
        try:
            error = parse_json(answer.body)["error"]
            message, kind = str(error["message"]), str(error.get("type") or "")
        except (ValueError, KeyError, TypeError, AttributeError):
            text = answer.body.decode("utf-8", "replace").strip()
            is_page = text.startswith("<") or not text
            said = f"status {answer.status}" if is_page else text.splitlines()[0][:_LONGEST_SAID]
            return Refusal(answer.status, said)
        return Refusal(answer.status, message[:_LONGEST_SAID], kind, is_told=True)

    def __str__(self) -> str:
        return f"{self.message} ({self.status})" if self.is_told else self.message


@dataclass(frozen=True, slots=True)
class Config:
    """What a server wants of its clients: merged properties, and what it offers.

    `announced` is all that it says, which only tells what product it is; `storage` is what of it
    concerns the storage and is not said by the user.
    """

    uri: str
    properties: Mapping[str, str] = field(repr=False)
    addresses: Addresses
    endpoints: frozenset[str]
    announced: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)


class TableLogin(Protocol):
    """The token of one table, which its server gives with the answer to a load."""

    @property
    def token(self) -> str | None:
        """What requests about the table show; None for what the catalog's others show."""

    def renew_token(self) -> bool:
        """Load the table as the catalog's others do; whether there is something newer to show."""


@dataclass(slots=True)
class RestClient:
    """One catalog's server, whose configuration is read with the first request.

    `configured` are the catalog's properties as its user has them. They alone say how to log in,
    and never the server. `hide` takes secrets that came to light later.
    """

    name: str
    configured: Mapping[str, str] = field(repr=False)
    env: Env
    deadline: Deadline
    hide: Callable[[str], None]
    _listings: int = 0
    _config: Config | None = None
    _http: Http | None = None
    _authentication: Authentication | None = None

    @property
    def config(self) -> Config:
        """The server's configuration. Raises: StorageError; UsageError; Unsupported."""
        if self._config is None:
            self._config = self._configure()
        return self._config

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross to another process without the connections of this one."""
        env = SystemEnv()
        known = self.name, self.configured, env, Deadline(env), hide_nothing, 0, self._config
        return type(self), known

    def offers(self, endpoint: str) -> bool:
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
        self, path: str, query: Mapping[str, str] | None = None, *, table: TableLogin | None = None
    ) -> Any:
        """Return the JSON object at a path, asked for again. Raises: NotThere; StorageError."""
        uri = self.config.uri
        answer = self._ask(f"{uri}/{path}", query or {}, table)
        return self.parsed(answer, f"{uri}/{path}")

    def pages(self, path: str, query: Mapping[str, str], member: str) -> Iterator[Any]:
        """Yield what is listed at a path, page after page. Raises: as get."""
        token, seen = "", {""}
        size = self.config.properties.get("rest-page-size")
        for _ in range(_MOST_PAGES):
            more = {"pageToken": token} | ({"pageSize": size} if size else {})
            page = self.get(path, {**query, **more})
            items = page.get(member)
            if not isinstance(items, list):
                raise self.odd(f"{self.config.uri}/{path}", f"its response has no `{member}`")
            yield from items
            token = str(page.get("next-page-token") or "")
            if token in seen:
                return
            seen.add(token)
        raise self.odd(
            f"{self.config.uri}/{path}", f"its list continues after {_MOST_PAGES:,} pages"
        )

    def namespaces(self, parent: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Yield the namespaces below one. Raises: NotThereError; Unsupported; StorageError."""
        self.check_offers(wire.NAMESPACES, "listing namespaces")
        at = self.config.addresses
        self._listings += 1
        if len(parent) >= _DEEPEST_NAMESPACE or self._listings > _MOST_LISTINGS:
            raise self.odd(
                f"{self.config.uri}/{at.namespaces()}", ("its list of namespaces never ends")
            )
        query = {"parent": at.joined(parent)} if parent else {}
        for levels in self.pages(at.namespaces(), query, "namespaces"):
            if not isinstance(levels, list):
                raise self.nameless(at.namespaces())
            names = tuple(str(level) for level in levels)
            if names[:-1] == parent:  # some servers leave out to ask for what is below
                yield names

    def post(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str], table: TableLogin
    ) -> Answer:
        """Send a change, once; where the login has run out, once more after a new one.

        Raises: NotReachedError; NoAnswerError; StorageError, for the login.
        """
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        url = f"{self.config.uri}/{path}"
        all_headers = {**self._headers, "Content-Type": "application/json", **headers}
        return self._send(Request("POST", url, all_headers, content), table, _COMMIT_SECONDS)

    def denied(self, refusal: Refusal, url: str) -> StorageError:
        shown = "the request" if self._authentication is None else self._authentication.named
        does_not = "accept" if refusal.status in _LOGGED_OUT else "allow this to"
        return StorageError(
            f"catalog `{self.name}` at {redacted_url(url)} does not {does_not} {shown}: {refusal}",
            hint="check the properties `token`, `credential` and `auth.*`; `-v` shows where each "
            "comes from",
            id="access-denied",
        )

    def odd(self, url: str, what: str) -> StorageError:
        """Return the error for an answer that is none of the protocol."""
        return StorageError(
            f"catalog `{self.name}`: {redacted_url(url)} does not respond like an Iceberg REST "
            f"catalog: {what}",
            hint="set the catalog property `uri` to the part of the server's addresses before "
            "`/v1`",
        )

    def nameless(self, path: str) -> StorageError:
        return self.odd(f"{self.config.uri}/{path}", "an entry of its list has no name")

    def failed(self, refusal: Refusal, url: str) -> IcectlError:
        """Return the error for an answer that is neither of success nor said of a missing thing."""
        if refusal.status in {401, 403, 419}:
            return self.denied(refusal, url)
        if not refusal.is_told and refusal.status < 500:
            return self.odd(url, f"it says {refusal}")
        return StorageError(
            f"catalog `{self.name}` at {redacted_url(url)} failed: {refusal}",
            hint="check the server, then run the command again",
        )

    def unreachable(self, url: str, error: Exception) -> StorageError:
        return StorageError(
            f"cannot reach catalog `{self.name}` at {redacted_url(url)}: {error}",
            hint="check the catalog property `uri`, and proxies in HTTPS_PROXY and NO_PROXY",
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
            parsed = parse_json(answer.body)
        except ValueError as error:
            kind = answer.headers.get("content-type", "of an unnamed kind").partition(";")[0]
            raise self.odd(url, f"its response is not JSON ({kind})") from error
        if not isinstance(parsed, dict):
            raise self.odd(url, "its response is not a JSON object")
        return parsed

    @property
    def _headers(self) -> dict[str, str]:
        defaults = {
            "Accept": "application/json",
            "User-Agent": f"icectl/{__version__}",
            "X-Iceberg-Access-Delegation": "vended-credentials",
        }
        headers = {
            name.removeprefix(_HEADER): value
            for name, value in self.configured.items()
            if name.startswith(_HEADER)
        }
        replaced = {name.lower() for name in headers}
        kept = {name: value for name, value in defaults.items() if name.lower() not in replaced}
        return kept | {name: value for name, value in headers.items() if value}

    def _ask(self, url: str, query: Mapping[str, str], table: TableLogin | None) -> Answer:
        """Return the answer to a reading request, tried again while the reason may pass."""
        whole = f"{url}?{urlencode(query)}" if query else url
        last: list[Answer] = []

        def ask() -> Answer:
            last[:] = [self._send(Request("GET", whole, self._headers), table)]
            if last[0].status in _PASSING:
                raise _PassingError
            return last[0]

        try:
            return retry(
                ask,
                self.env,
                is_transient=lambda error: (
                    isinstance(error, NoAnswerError | _PassingError)
                    and not isinstance(error, GivenUpError)
                ),
                translated=lambda error: error,
            )
        except _PassingError:
            return last[0]
        except (NotReachedError, NoAnswerError) as error:
            self.deadline.check()
            raise self.unreachable(url, error) from error

    def _send(
        self, request: Request, table: TableLogin | None = None, at_least_seconds: float = 0.0
    ) -> Answer:
        if self._http is None or self._authentication is None:
            uri = self._own_uri()
            self._http = Http(uri, self.configured, self.deadline)
            self._authentication = authentication_of(
                self.configured, uri, self._http, self.env, self.hide
            )
        authentication = self._authentication

        def send() -> Answer:
            token = None if table is None else table.token
            login = (
                {"Authorization": f"Bearer {token}"} if token else authentication.headers(request)
            )
            whole = replace(request, headers={**request.headers, **login})
            return http.send(whole, at_least_seconds)

        http = self._http
        answer = send()
        if answer.status in _LOGGED_OUT:
            shows_token = table is not None and table.token is not None
            renew = table.renew_token if table is not None and shows_token else authentication.renew
            if renew():
                answer = send()
        return answer

    def _own_uri(self) -> str:
        uri = self.configured.get("uri", "").rstrip("/")
        if _origin(uri) is None:
            raise UsageError(
                f"catalog `{self.name}`: its property `uri` is `{redacted_url(uri)}`, which is not "
                "the address of a REST catalog",
                hint="write it like https://catalog.example.com",
            )
        return uri

    def _configure(self) -> Config:
        uri = self._own_uri()
        query = (
            {"warehouse": self.configured["warehouse"]} if self.configured.get("warehouse") else {}
        )
        url = f"{uri}/v1/config"
        try:
            members = self.parsed(self._ask(url, query, None), url)
        except NotThereError as error:
            raise self.odd(url, f"it says {error.refusal}") from error
        defaults, overrides = texts(members.get("defaults")), texts(members.get("overrides"))
        announced = {**defaults, **overrides}
        unset = {name: value for name, value in defaults.items() if name not in self.configured}
        said = {**unset, **overrides}
        storage = of_server(said)
        for name, value in storage.items():
            if is_secret_property(name, value):
                self.hide(value)
        taken = {name: value for name, value in said.items() if name in _FROM_SERVER}
        left = sorted(said.keys() - storage.keys() - taken.keys() - {"uri"})
        _LOGGER.debug("ignored from the server of catalog `%s`: %s", self.name, ", ".join(left))
        properties = {**self.configured, **taken}
        now_uri = overrides.get("uri", uri).rstrip("/")
        if now_uri != uri and (
            _origin(now_uri) != _origin(uri)
            or not (now_uri.isprintable() and not set("?#@\\ ") & set(now_uri))
        ):
            raise Refused(
                f"the server of catalog `{self.name}` redirects its clients to "
                f"{redacted_url(now_uri)}; icectl sends the credentials for "
                f"{redacted_url(uri)} to no other address",
                hint="if that address is right, set it as the catalog's property `uri`",
            )
        return Config(
            now_uri,
            properties,
            Addresses.of(properties),
            endpoints_of(members.get("endpoints")),
            announced,
            storage,
        )


class NotThereError(Exception):
    """The server knows nothing of that name."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class _PassingError(Exception):
    """An answer that may be another one in a moment."""


def texts(members: object) -> dict[str, str]:
    """Return properties as a server sends them; without those that are null."""
    if not isinstance(members, dict):
        return {}
    return {
        str(key): value if isinstance(value, str) else json.dumps(value)
        for key, value in members.items()
        if value is not None
    }


def _origin(uri: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of an address; None for what is none of HTTP."""
    try:
        parts = urlsplit(uri)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None


def hide_nothing(_: str) -> None:
    """Take a secret where nothing is shown: in another process."""
