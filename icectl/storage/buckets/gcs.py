"""Buckets of Google Cloud Storage by obstore, whose options are spelled as gcsfs spells them."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import IO, Any
from urllib.parse import quote
from xml.sax.saxutils import escape

from obstore.store import GCSStore

from icectl.errors import IcectlError, StorageError, Unsupported
from icectl.format.json_members import parse_json
from icectl.storage import location as locations
from icectl.storage.assembly import BUFFER_BYTES, TAIL_BYTES, Source, other_object, same_object
from icectl.storage.buckets.client import (
    BucketAccess,
    ClientSource,
    PlainAnswer,
    answered,
    client_options,
    send,
)
from icectl.storage.buckets.requests import Requests, key_of, open_object
from icectl.storage.credentials import Renewed
from icectl.storage.failures import error_status, is_transient
from icectl.storage.store import Assembly, CopyRefused
from icectl.storage.streams import Tail, range_reader

_EXPRESSED = {"token", "bearer_token", "anon", "project", "endpoint_url", "requester_pays"}
_ONLY_GCSFS_KNOWS = {"cache", "browser"}
"""Ways to log in that ask a person, or what gcsfs has kept of that."""

_ENDPOINT = "https://storage.googleapis.com"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_UNSIGNED = {"skip_signature": True, "bearer_token": "none"}
"""obstore asks for a token to write with even so, and gets one that says nothing."""

_FILES = {"service_account": "service_account", "authorized_user": "application_credentials"}
"""Kinds of files that obstore reads, and what it calls them."""


def gcs_source(bucket: str, renewed: Renewed) -> ClientSource | None:
    """How obstore reaches a bucket; None where only gcsfs can. Raises: what a refresher does."""
    options = renewed.current()
    if not options.keys() <= _EXPRESSED or options.get("token") in _ONLY_GCSFS_KNOWS or not bucket:
        return None
    logins = _Logins()

    def access(_: str | None) -> BucketAccess:
        current = renewed.current()
        # Emulators are named as for Google's own libraries.
        emulator = os.environ.get("STORAGE_EMULATOR_HOST")
        endpoint = (current.get("endpoint_url") or emulator or _ENDPOINT).rstrip("/")
        endpoint = endpoint if "://" in endpoint else f"http://{endpoint}"
        settings = {"bucket": bucket, "base_url": endpoint, "project": _paying(current)}
        return BucketAccess(
            endpoint, f"{endpoint}/{bucket}", settings, _keys(current, logins.token)
        )

    return ClientSource("gcs", access, _connect, renewed.renew, logins.token_of)


def _paying(options: Mapping[str, str]) -> str | None:
    """Return the project that pays for requests in place of the bucket's owner."""
    value = options.get("requester_pays", "")
    if value.lower() in {"", "false"}:
        return None
    return options.get("project") if value.lower() == "true" else value


def _keys(options: Mapping[str, str], login: Callable[[str], str]) -> Mapping[str, Any]:
    """Credentials for obstore; without, it asks the machine. Raises: StorageError; Unsupported."""
    value = options.get("token", "google_default")
    has_emulator = "endpoint_url" not in options and "STORAGE_EMULATOR_HOST" in os.environ
    if options.get("anon", "").lower() == "true" or value == "anon":
        return _UNSIGNED
    if "bearer_token" in options:
        return {"bearer_token": options["bearer_token"]}
    if value == "cloud":
        return {}
    if value.lstrip().startswith("{"):
        return {"service_account_key": value}
    if value == "google_default":
        if has_emulator:
            return _UNSIGNED
        file = default_credentials()
        return {} if file is None else _from_file(file, login)
    if os.path.exists(value) or value.endswith(".json"):
        return _from_file(value, login)
    return {"bearer_token": value}


def default_credentials() -> str | None:
    """Return the file of application default credentials, where there is one."""
    value = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if value:
        return value
    folder = os.environ.get("CLOUDSDK_CONFIG") or os.path.expanduser("~/.config/gcloud")
    known = os.path.join(folder, "application_default_credentials.json")
    return known if os.path.exists(known) else None


def _from_file(path: str, login: Callable[[str], str]) -> Mapping[str, Any]:
    try:
        kind = parse_json(Path(path).read_bytes()).get("type", "service_account")
    except (OSError, ValueError, AttributeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not such a JSON file"
        raise StorageError(
            f"the credentials of {path} cannot be read: {reason}",
            hint="`--storage-option token=...` or GOOGLE_APPLICATION_CREDENTIALS names the file of "
            "a service account or of `gcloud auth application-default login`",
        ) from error
    if kind in _FILES:
        return {_FILES[kind]: path}
    return {"bearer_token": login(path)}


class _Logins:
    """Tokens by Google's own library, for federated identities and those that stand for others."""

    def __init__(self) -> None:
        self._credentials: dict[str, Any] = {}
        self._lock = Lock()

    def token(self, path: str) -> str:
        """Return the token of a file of credentials. Raises: Unsupported, without that library."""
        return self._token(path, f"the credentials of {path}")

    def token_of(self, access: BucketAccess) -> str | None:
        """Return the token that holds now; None where nothing is signed. Raises: as token."""
        keys = access.keys
        if keys.get("skip_signature"):
            return None
        if "bearer_token" in keys:
            return str(keys["bearer_token"])
        for kind in ("service_account_key", *_FILES.values()):
            if kind in keys:
                return self._token(keys[kind], "these credentials")
        return self._token("", "the credentials of this machine")

    def _token(self, source: str, shown: str) -> str:
        """Return a token by a file of credentials, their text, or of the machine where empty."""
        try:
            import google.auth
            import google.auth.transport.requests
        except ImportError as error:
            raise Unsupported(
                f"{shown} need google-auth ({error})",
                hint="install it with icectl: `pip install 'icectl[gcs]'`",
            ) from error
        with self._lock:
            if source not in self._credentials:
                self._credentials[source] = _loaded(source)
            credentials = self._credentials[source]
            if not credentials.valid:
                credentials.refresh(google.auth.transport.requests.Request())
            token: str = credentials.token
            return token


def _loaded(source: str) -> Any:
    import google.auth.compute_engine

    if not source:
        of_machine: Any = google.auth.compute_engine.Credentials
        return of_machine(scopes=[_SCOPE])
    load: Any = google.auth.load_credentials_from_file
    if source.lstrip().startswith("{"):
        load, source = google.auth.load_credentials_from_dict, parse_json(source.encode())
    with warnings.catch_warnings():  # it warns of files from untrusted sources
        warnings.simplefilter("ignore", DeprecationWarning)
        return load(source, scopes=[_SCOPE])[0]


def _connect(access: BucketAccess, attempts: Any) -> Any:
    settings = dict(access.settings)
    payer = settings.pop("project")
    config: Any = {**settings, **access.keys}
    client: Any = client_options(access)
    if payer is not None:
        client["default_headers"] = {"x-goog-user-project": payer}
    return GCSStore(config=config, client_options=client, retry_config=attempts)


_MOST_COMPONENTS = 32
_BETWEEN_CHANGES_SECONDS = 1.0
"""How often one object may be changed."""

_PRECONDITION_FAILED = 412
_CONDITION, _GENERATION = "x-goog-if-generation-match", "x-goog-generation"
_KEPT = ("retentionExpirationTime", "eventBasedHold", "temporaryHold")
"""What an object has that may not be replaced; a bucket gives it to new ones as well."""


@contextmanager
def composed(requests: Requests, location: str) -> Iterator[Assembly]:
    """A new object to compose, whole or not at all. Raises: CopyRefused; StorageError."""
    assembly = _Composed(requests, location)
    try:
        yield assembly
        assembly.end()
    except BaseException:
        assembly.abandon()
        raise


class _Composed:
    """An object in the making: whole objects, and bytes behind them."""

    copies_whole = True

    def __init__(self, requests: Requests, location: str) -> None:
        self._requests, self._location = requests, location
        self._sources: dict[str, Source] = {}
        self._lock = Lock()
        self._copied: list[str] = []
        self._tail = bytearray()
        self._generation = "0"

    def open(self, location: str) -> IO[bytes]:
        if locations.root(location) != locations.root(self._location):
            raise CopyRefused("a file is in another bucket")
        call = partial(open_object, key_of(location), TAIL_BYTES)
        try:
            size_bytes, etag, generation, tail = self._requests.make("read", location, call)
        except StorageError as error:  # another way to read it may work, and tells if not
            raise CopyRefused(error.message) from error
        if not etag or not generation:
            raise CopyRefused("the storage reports no generation of a file")
        source = Source(size_bytes, etag, generation)
        with self._lock:
            self._sources[location] = source

        def read(offset: int, length: int) -> bytes:
            with same_object(location):
                return self._requests.read_same(location, etag, offset, offset + length)

        return range_reader(Tail(size_bytes, tail), read, BUFFER_BYTES)

    def write(self, content: bytes | memoryview, /) -> int:
        self._tail += content
        return len(content)

    def copy(self, location: str, start: int, end: int) -> None:
        if self._tail or start or end != self._sources[location].size_bytes:
            raise CopyRefused("the storage copies only whole files, one after another")
        self._copied.append(location)

    def end(self) -> None:
        if self._copied:
            self._check_replaceable(self._copied[0])
        try:
            self._put_tail()
            left = self._copied
            size_bytes = len(self._tail)
            while left:
                most = _MOST_COMPONENTS - 1
                count = len(left) % most or most  # the later steps are the larger ones
                left, sources = left[:-count], left[-count:]
                size_bytes += sum(self._sources[source].size_bytes for source in sources)
                self._requests.env.sleep(_BETWEEN_CHANGES_SECONDS)
                self._prepend(sources, size_bytes)
        except StorageError as error:
            if error_status(error) in {None, _PRECONDITION_FAILED} or is_transient(error):
                raise
            raise CopyRefused(f"the storage cannot compose files: {error.message}") from error

    def abandon(self) -> None:
        if self._generation == "0":
            return
        with suppress(IcectlError, FileNotFoundError):
            _, generation = self._stored()
            self._ask("DELETE", "", {_CONDITION: generation})

    def _check_replaceable(self, location: str) -> None:
        """Do nothing where new objects can be replaced at once. Raises: CopyRefused."""
        bucket = locations.root(location).partition("//")[2]
        place = f"storage/v1/b/{bucket}/o/{quote(key_of(location), safe='')}"
        try:
            members = parse_json(self._ask("GET", f"?fields={','.join(_KEPT)}", {}, of=place).body)
            is_kept = any(members.get(name) for name in _KEPT)
        except (IcectlError, FileNotFoundError, ValueError, AttributeError) as error:
            raise CopyRefused(
                "the storage does not say whether files may be replaced at once"
            ) from error
        if is_kept:
            raise CopyRefused("the bucket keeps files from being replaced")

    def _put_tail(self) -> None:
        """Write the last bytes, where there is no such object."""
        content = bytes(self._tail)
        try:
            answer = self._ask("PUT", "", {_CONDITION: "0"}, content)
        except StorageError as error:
            if error_status(error) not in {None, _PRECONDITION_FAILED}:
                raise
            # It may be there: of another, or of a request whose answer was lost.
            with suppress(FileNotFoundError):
                size_bytes, generation = self._stored()
                if size_bytes == len(content) and self._requests.read(self._location) == content:
                    self._generation = generation
            if self._generation == "0":
                raise
        else:
            self._generation = answer.headers.get(_GENERATION) or self._stored()[1]

    def _prepend(self, sources: Sequence[str], size_bytes: int) -> None:
        """Put whole objects before what there is, which has so many bytes then."""
        parts = [(source, self._sources[source].version) for source in sources]
        parts.append((self._location, self._generation))
        listed = "".join(
            f"<Component><Name>{escape(key_of(source))}</Name><IfGenerationMatch>{generation}"
            "</IfGenerationMatch></Component>"
            for source, generation in parts
        )
        body = f"<ComposeRequest>{listed}</ComposeRequest>".encode()
        try:
            self._ask("PUT", "?compose", {_CONDITION: self._generation}, body)
        except (StorageError, FileNotFoundError) as error:
            if error_status(error) not in {None, _PRECONDITION_FAILED}:
                raise
            if self._stored()[1] == self._generation:  # nothing was done
                for source in sources:
                    if self._requests.head(source)["version"] != self._sources[source].version:
                        raise other_object(source) from None
                raise
        # An answer that was lost leaves the object as it should be.
        stored_bytes, generation = self._stored()
        if stored_bytes != size_bytes or generation == self._generation:
            raise StorageError(
                f"the storage assembled {locations.redacted(self._location)} from other bytes "
                "than requested"
            )
        self._generation = generation

    def _stored(self) -> tuple[int, str]:
        """Return how many bytes the new object has, and its generation."""
        metadata = self._requests.head(self._location)
        return int(metadata["size"]), str(metadata["version"])

    def _ask(
        self, method: str, query: str, headers: Mapping[str, str], body: bytes = b"", of: str = ""
    ) -> PlainAnswer:
        """Ask about the object, or `of` another place. Raises: StorageError; FileNotFoundError."""

        def action(_: Any) -> PlainAnswer:
            client = self._requests.client
            access = client.access
            whole = {"Content-Type": "application/octet-stream", **headers}
            if (token := client.token()) is not None:
                whole["Authorization"] = f"Bearer {token}"
            if access.settings["project"] is not None:
                whole["x-goog-user-project"] = access.settings["project"]
            place = f"{access.endpoint}/{of}" if of else f"{access.url}/{quote(key)}"
            answer = send(access, method, f"{place}{query}", whole, body)
            if answer.status >= 300:
                raise answered(answer.status, "", answer.body.decode("utf-8", "replace"))
            return answer

        key = key_of(self._location)
        doing = "look up" if method == "GET" else "write"
        return self._requests.make(doing, self._location, action)
