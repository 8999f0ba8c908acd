"""Blobs of Azure in the making: blocks, which Azure copies from other blobs (Put Block From URL).

Azure reads what it copies by an address that is signed for that. Such addresses are made by the
credentials that the store has, hold for an hour and one blob each, and go to its account alone.
"""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial
from threading import Lock
from typing import Any, Literal
from urllib.parse import quote
from xml.sax.saxutils import escape

from icectl.errors import StorageError
from icectl.storage.assembly import TAIL_BYTES, PartLimits, Source, assembled
from icectl.storage.buckets import calls
from icectl.storage.buckets.calls import key_of
from icectl.storage.buckets.errors import NoCredentials, answered
from icectl.storage.buckets.plain_requests import PlainAnswer, PlainRequest, send
from icectl.storage.buckets.requests import Requests
from icectl.storage.failures import error_status, is_transient
from icectl.storage.store import Assembly, CopyRefused

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
    """Return a new blob to put together, as `assembled` has it."""
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
        """Return what there is to copy, and its last bytes."""
        try:
            found = self._requests.make("read", location, partial(calls.head, key_of(location)))
            source = Source(int(found["size"]), found["e_tag"] or "")
            if not source.etag:
                raise CopyRefused("the storage has no ETag for a file")
            start = max(0, source.size_bytes - TAIL_BYTES)
            tail = self.read(location, source, start, source.size_bytes)
        except StorageError as error:  # another way to read it may work, and tells if not
            raise CopyRefused(error.message) from error
        self._addresses.add(key_of(location))
        return source, tail

    def read(self, location: str, source: Source, start: int, end: int) -> bytes:
        """Return bytes of a source."""
        if start == end:
            return b""
        call = partial(calls.part_of, key_of(location), source.etag, start, end)
        return self._requests.make("read", location, call)

    def begin(self) -> None:
        """Have addresses signed. Raises: CopyRefused."""

        def action(store: Any) -> None:
            """Sign what is used last, too."""
            for method in ("PUT", "GET"):
                self._addresses.of(method, key_of(self._location), store)

        with _refusing("the storage signs no addresses"):
            self._requests.make("write", self._location, action)

    def copy(self, number: int, location: str, source: Source, start: int, end: int) -> str:
        """Have a range copied as a block, and return its id."""
        name = self._name(number)

        def action(store: Any) -> None:
            """Ask for the copy."""
            self._send_block(
                store,
                name,
                {
                    "x-ms-copy-source": self._addresses.of("GET", key_of(location), store),
                    "x-ms-source-range": f"bytes={start}-{end - 1}",
                    "x-ms-source-if-match": source.etag,
                },
            )

        with _refusing("the storage copies no ranges"):
            self._requests.make("write", self._location, action)
        return name

    def send(self, number: int, content: bytes) -> str:
        """Send bytes as a block, and return its id."""
        name = self._name(number)

        def action(store: Any) -> None:
            """Send them."""
            self._send_block(store, name, {}, content)

        with _refusing("the storage takes no blocks by a signed address"):
            self._requests.make("write", self._location, action)
        return name

    def put(self, content: bytes) -> None:
        """Make the blob of bytes alone."""
        put = partial(calls.put, key_of(self._location), content, "overwrite")
        self._requests.make("write", self._location, put)

    def complete(self, names: Sequence[str], size_bytes: int) -> None:  # noqa: ARG002
        """Make the blob of its blocks."""
        listed = "".join(f"<Uncommitted>{escape(name)}</Uncommitted>" for name in names)
        body = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{listed}</BlockList>'.encode()

        def action(store: Any) -> None:
            """Commit the blocks."""
            headers = {"If-None-Match": "*", "Content-Type": "application/xml"}
            self._send(store, "PUT", "comp=blocklist", headers, body)

        try:
            self._requests.make("write", self._location, action)
        except (StorageError, FileNotFoundError):
            # An answer that was lost leaves no blocks to commit again, but the whole blob.
            if self._committed() != list(names):
                raise

    def abandon(self) -> None:
        """Do nothing: Azure has no request for that."""

    def _committed(self) -> list[str]:
        """Return the ids of the blocks that the blob has, which no other blob's have."""

        def action(store: Any) -> PlainAnswer:
            """Ask for them."""
            return self._send(store, "GET", "comp=blocklist&blocklisttype=committed", {})

        try:
            answer = self._requests.make("look up", self._location, action)
        except (StorageError, FileNotFoundError):
            return []
        return [name.decode() for name in _BLOCK.findall(answer.body)]

    def _name(self, number: int) -> str:
        """Return the id of a block; all of a blob's are of one length."""
        return base64.b64encode(f"{self._run}{number:08}".encode()).decode()

    def _send_block(
        self, store: Any, name: str, headers: Mapping[str, str], content: bytes = b""
    ) -> None:
        query = f"comp=block&blockid={quote(name, safe='')}"
        whole = {"Content-Type": "application/octet-stream", **headers}
        self._send(store, "PUT", query, whole, content)

    def _send(
        self, store: Any, method: _Method, query: str, headers: Mapping[str, str], body: bytes = b""
    ) -> PlainAnswer:
        """Make a request about the blob. Raises: Answered; as send."""
        address = self._addresses.of(method, key_of(self._location), store)
        request = PlainRequest(
            method, f"{address}&{query}", {"x-ms-version": _VERSION, **headers}, body
        )
        answer = send(request, self._requests.client.access)
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
        """Note a blob that is to be read: all of these are signed at once."""
        with self._lock:
            self._keys[key] = None

    def of(self, method: _Method, key: str, store: Any) -> str:
        """Return the address of a blob, by the credentials of the store that is given.

        Raises: NoCredentials, where requests are not signed; what obstore does, where it can't.
        """
        now = self._requests.env.monotonic_seconds()
        with self._lock:
            if store is not self._signed_by or now > self._signed_at + _SIGNED_ANEW_SECONDS:
                self._known, self._signed_by, self._signed_at = {}, store, now
            if (method, key) not in self._known:
                keys = [key, *self._keys] if method == "GET" else [key]
                found = self._signed(method, keys, store)
                self._known |= {(method, one): url for one, url in zip(keys, found, strict=True)}
            return self._known[method, key]

    def _signed(self, method: _Method, keys: Sequence[str], store: Any) -> Sequence[str]:
        import obstore

        access = self._requests.client.access
        if access.keys.get("skip_signature"):
            raise NoCredentials("there are none to sign with")
        if "sas_key" in access.keys and "account_key" not in access.keys:
            return [f"{access.url}/{quote(key)}?{access.keys['sas_key']}" for key in keys]
        return obstore.sign(store, method, keys, _SIGNED_FOR)
