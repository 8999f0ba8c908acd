"""Containers of Azure by obstore, whose options are spelled as adlfs spells them."""

import base64
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from threading import Lock
from typing import Any, Literal
from urllib.parse import quote
from xml.sax.saxutils import escape

import obstore
from obstore.store import AzureStore

from icectl.errors import Refused, StorageError
from icectl.storage import location as locations
from icectl.storage.assembly import TAIL_BYTES, PartLimits, Source, assembled
from icectl.storage.buckets.client import (
    BucketAccess,
    ClientSource,
    NoCredentials,
    PlainAnswer,
    answered,
    client_options,
    send,
)
from icectl.storage.buckets.requests import Requests, key_of
from icectl.storage.credentials import Renewed, is_clouds_own
from icectl.storage.failures import error_status, is_transient
from icectl.storage.store import Assembly, CopyRefused

_ACCOUNT = re.compile(r"[A-Za-z0-9-]{1,63}")
_SETTINGS = {
    "account_key": "account_key",
    "sas_token": "sas_key",
    "client_id": "client_id",
    "client_secret": "client_secret",
    "tenant_id": "tenant_id",
}
"""Options, and what obstore calls them."""

_GIVEN = {"account_key": "access_key", "sas_key": "sas_token"}
"""Keys that obstore is handed with each request: else those of the environment go before them."""

_EXPRESSED = {*_SETTINGS, "account_name", "account_host", "anon", "connection_string"}
_IN_CONNECTION_STRINGS = {
    "AccountName": "account_name",
    "AccountKey": "account_key",
    "SharedAccessSignature": "sas_token",
    "BlobEndpoint": "endpoint",
}


def check_account(location: str, options: Mapping[str, str], user_locations: Sequence[str]) -> None:
    """Check the account that a location names, before anything is sent there.

    It is that of the options, or of one of the `user_locations`, which the user named; without
    those, as for tables of catalogs, any of the cloud itself. Raises: Refused.
    """
    host = _host_of(location)
    known = _options(options)
    if not host or known.keys() & {"endpoint", "account_host"}:  # requests go there
        return
    account = known.get("account_name")
    if host in map(_host_of, user_locations):
        return
    is_known = host.partition(".")[0] == account if account else not user_locations
    if not is_known or not is_clouds_own(host):
        raise Refused(
            f"{locations.redacted(location)} names another account than the table's own, and "
            "credentials for storage go to no other",
            hint="if that account is right, name it: `--storage-option account_name=...`, or "
            "`account_host=...` for one that is not in Azure's own domain",
        )


def _host_of(location: str) -> str:
    authority = locations.root(location).partition("//")[2]
    return authority.partition("@")[2].lower().replace(".dfs.", ".blob.", 1)


def azure_source(authority: str, renewed: Renewed) -> ClientSource | None:
    """How obstore reaches a container, of `CONTAINER@ACCOUNT.dfs.DOMAIN` or of `CONTAINER` alone.

    None where only adlfs can, by its options. Raises: what a refresher does.
    """
    options = renewed.current()
    container, _, host = authority.partition("@")
    known = _options(options)
    has_account = bool(host or known.get("account_name") or known.get("endpoint"))
    if not options.keys() <= _EXPRESSED or not container or not has_account:
        return None

    def access(_: str | None) -> BucketAccess:
        current = _options(renewed.current())
        account = host.partition(".")[0] or current.get("account_name", "")
        endpoint = _endpoint(account, host, current)
        settings = {"account_name": account, "container_name": container, "endpoint": endpoint}
        return BucketAccess(endpoint, f"{endpoint}/{container}", settings, _keys(current))

    return ClientSource("azure", access, _connect, renewed.renew)


def _options(options: Mapping[str, str]) -> Mapping[str, str]:
    """The options, with what a connection string holds, and what only the environment says."""
    text = options.get("connection_string")
    if text is None and not options.keys() & {"account_name", *_SETTINGS}:
        text = os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
    pairs = [pair.partition("=") for pair in (text or "").split(";")]
    parts = {
        _IN_CONNECTION_STRINGS[name]: value
        for name, _, value in pairs
        if name in _IN_CONNECTION_STRINGS
    }
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    return {**({"account_name": account} if account else {}), **parts, **options}


def _endpoint(account: str, host: str, options: Mapping[str, str]) -> str:
    """Return the address of the account's blobs, which ADLS Gen2 has under another name too."""
    if "endpoint" in options:
        return options["endpoint"].rstrip("/")
    blobs = options.get("account_host") or host
    if not blobs and not _ACCOUNT.fullmatch(account):
        raise StorageError(f"`{account}` is not an account name")
    blobs = blobs or f"{account}.blob.core.windows.net"
    return f"https://{blobs.replace('.dfs.', '.blob.', 1)}"


def _keys(options: Mapping[str, str]) -> Mapping[str, Any]:
    if options.get("anon", "").lower() == "true":
        return {"skip_signature": True}
    keys = {ours: options[theirs] for theirs, ours in _SETTINGS.items() if theirs in options}
    if "sas_key" in keys:
        keys["sas_key"] = keys["sas_key"].removeprefix("?")
    return keys


def _connect(access: BucketAccess, attempts: Any) -> Any:
    keys = dict(access.keys)
    credentials = [{name: keys.pop(ours)} for ours, name in _GIVEN.items() if ours in keys]
    provide: Any = (lambda: {**credentials[0], "expires_at": None}) if credentials else None
    config: Any = {**access.settings, **keys}
    return AzureStore(
        config=config,
        client_options=client_options(access),
        retry_config=attempts,
        credential_provider=provide,
    )


_Method = Literal["GET", "PUT"]
_LIMITS = PartLimits(256 << 10, 100 << 20, 50_000)
"""Blocks may be shorter, but each takes a request; longer ones Azure copies less at a time of."""

_VERSION = "2023-11-03"
_SIGNED_FOR = timedelta(hours=1)
_SIGNED_ANEW_SECONDS = 1800
_OTHER_OBJECT = 412
_BLOCK = re.compile(rb"<Name>([A-Za-z0-9+/=]*)</Name>")


def assembled_by_azure(
    requests: Requests, concurrency: int, location: str
) -> AbstractContextManager[Assembly]:
    """Return a new blob to compose, as `assembled` has it."""
    return assembled(_Blocks(requests, concurrency, location), location)


class _Blocks:
    """A blob whose blocks are not committed yet. Azure drops them after a week."""

    limits = _LIMITS

    def __init__(self, requests: Requests, concurrency: int, location: str) -> None:
        self.concurrency = concurrency
        self._requests, self._location = requests, location
        self._run = requests.env.new_uuid()
        self._addresses = _Addresses(requests)

    def open(self, location: str) -> tuple[Source, bytes]:
        try:
            metadata = self._requests.head(location)
            source = Source(int(metadata["size"]), metadata["e_tag"] or "")
            if not source.etag:
                raise CopyRefused("the storage has no ETag for a file")
            start = max(0, source.size_bytes - TAIL_BYTES)
            tail = self.read(location, source, start, source.size_bytes)
        except StorageError as error:  # another way to read it may work, and tells if not
            raise CopyRefused(error.message) from error
        self._addresses.add(key_of(location))
        return source, tail

    def read(self, location: str, source: Source, start: int, end: int) -> bytes:
        if start == end:
            return b""
        return self._requests.read_same(location, source.etag, start, end)

    def begin(self) -> None:
        """Have addresses signed. Raises: CopyRefused."""

        def action(store: Any) -> None:  # what is used last is signed too
            for method in ("PUT", "GET"):
                self._addresses.of(method, key_of(self._location), store)

        with _refusing("the storage signs no addresses"):
            self._requests.make("write", self._location, action)

    def copy(self, number: int, location: str, source: Source, start: int, end: int) -> str:
        def headers(store: Any) -> Mapping[str, str]:
            return {
                "x-ms-copy-source": self._addresses.of("GET", key_of(location), store),
                "x-ms-source-range": f"bytes={start}-{end - 1}",
                "x-ms-source-if-match": source.etag,
            }

        return self._block(number, headers, b"", "the storage copies no ranges")

    def send(self, number: int, content: bytes) -> str:
        refusal = "the storage takes no blocks by a signed address"
        return self._block(number, lambda _: {}, content, refusal)

    def _block(
        self, number: int, headers: Callable[[Any], Mapping[str, str]], content: bytes, refusal: str
    ) -> str:
        """Have a block made, and return its id; all of a blob's are of one length."""
        name = base64.b64encode(f"{self._run}{number:08}".encode()).decode()

        def action(store: Any) -> None:
            whole = {"Content-Type": "application/octet-stream", **headers(store)}
            query = f"comp=block&blockid={quote(name, safe='')}"
            self._send(store, "PUT", query, whole, content)

        with _refusing(refusal):
            self._requests.make("write", self._location, action)
        return name

    def put(self, content: bytes) -> None:
        self._requests.put(self._location, content)

    def complete(self, names: Sequence[str], size_bytes: int) -> None:  # noqa: ARG002
        listed = "".join(f"<Uncommitted>{escape(name)}</Uncommitted>" for name in names)
        body = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{listed}</BlockList>'.encode()
        headers = {"If-None-Match": "*", "Content-Type": "application/xml"}
        try:
            self._requests.make(
                "write",
                self._location,
                lambda store: self._send(store, "PUT", "comp=blocklist", headers, body),
            )
        except (StorageError, FileNotFoundError):
            # An answer that was lost leaves no blocks to commit again, but the whole blob.
            committed: list[str] = []
            with suppress(StorageError, FileNotFoundError):
                query = "comp=blocklist&blocklisttype=committed"
                answer = self._requests.make(
                    "look up", self._location, lambda store: self._send(store, "GET", query, {})
                )
                committed = [name.decode() for name in _BLOCK.findall(answer.body)]
            if committed != list(names):  # ids that no other blob's blocks have
                raise

    def abandon(self) -> None:
        """Do nothing: Azure has no request for that."""

    def _send(
        self, store: Any, method: _Method, query: str, headers: Mapping[str, str], body: bytes = b""
    ) -> PlainAnswer:
        """Make a request about the blob. Raises: Answered; as send."""
        address = self._addresses.of(method, key_of(self._location), store)
        whole = {"x-ms-version": _VERSION, **headers}
        access = self._requests.client.access
        answer = send(access, method, f"{address}&{query}", whole, body)
        if answer.status >= 300:
            code = answer.headers.get("x-ms-error-code", "")
            raise answered(answer.status, code, answer.body.decode("utf-8", "replace"))
        return answer


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Say that there is no way here, where an error will not pass. Raises: CopyRefused."""
    try:
        yield
    except StorageError as error:
        if error_status(error) == _OTHER_OBJECT or is_transient(error):
            raise
        raise CopyRefused(f"{what}: {error.message}") from error


class _Addresses:
    """Signed addresses of blobs, for one way to use each."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._lock = Lock()
        self._keys: dict[str, None] = {}
        self._known: dict[tuple[str, str], str] = {}
        self._signed_by: Any = None
        self._signed_at = 0.0

    def add(self, key: str) -> None:
        with self._lock:
            self._keys[key] = None

    def of(self, method: _Method, key: str, store: Any) -> str:
        """Return a blob's address by the store's credentials. Raises: NoCredentials; obstore's."""
        now = self._requests.env.monotonic_seconds()
        with self._lock:
            if store is not self._signed_by or now > self._signed_at + _SIGNED_ANEW_SECONDS:
                self._known, self._signed_by, self._signed_at = {}, store, now
            if (method, key) not in self._known:
                keys = [key, *self._keys] if method == "GET" else [key]
                urls = self._signed(method, keys, store)
                self._known |= {(method, name): url for name, url in zip(keys, urls, strict=True)}
            return self._known[method, key]

    def _signed(self, method: _Method, keys: Sequence[str], store: Any) -> Sequence[str]:
        access = self._requests.client.access
        if access.keys.get("skip_signature"):
            raise NoCredentials("there are none to sign with")
        if "sas_key" in access.keys and "account_key" not in access.keys:
            return [f"{access.url}/{quote(key)}?{access.keys['sas_key']}" for key in keys]
        return obstore.sign(store, method, keys, _SIGNED_FOR)
