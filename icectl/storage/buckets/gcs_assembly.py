"""Objects of Google's storage that it composes of whole other objects; it copies no ranges.

The new object begins as its own last bytes. Step by step those before it are put in front, up to 31
objects at a time, each on condition of the generation that the step before has made: there is
nothing under any other name, and what is there belongs to the run.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import IO, Any
from urllib.parse import quote
from xml.sax.saxutils import escape

from icectl.errors import IcectlError, StorageError
from icectl.format.json_members import parse_json
from icectl.storage import location as locations
from icectl.storage.assembly import TAIL_BYTES, Source, SourceFile, other_object, same_object
from icectl.storage.buckets import calls
from icectl.storage.buckets.calls import key_of
from icectl.storage.buckets.errors import answered
from icectl.storage.buckets.plain_requests import PlainAnswer, PlainRequest, send
from icectl.storage.buckets.requests import Requests
from icectl.storage.failures import error_status, is_transient
from icectl.storage.store import Assembly, CopyRefused

_MOST_COMPONENTS = 32
_BETWEEN_CHANGES_SECONDS = 1.0
"""How often one object may be changed."""

_BUFFER_BYTES = 8 << 10
_PRECONDITION_FAILED = 412
_CONDITION, _GENERATION = "x-goog-if-generation-match", "x-goog-generation"
_KEPT = ("retentionExpirationTime", "eventBasedHold", "temporaryHold")
"""What an object has that may not be replaced; a bucket gives it to new ones as well."""


@contextmanager
def composed(requests: Requests, location: str) -> Iterator[Assembly]:
    """A new object to put together, which is there, whole, once this is left without an error.

    Raises: CopyRefused; StorageError; then there is no object.
    """
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
            raise CopyRefused("a file lies in another bucket")
        call = partial(calls.opened, key_of(location), TAIL_BYTES)
        try:
            size_bytes, etag, generation, tail = self._requests.make("read", location, call)
        except StorageError as error:  # another way to read it may work, and tells if not
            raise CopyRefused(error.message) from error
        if not etag or not generation:
            raise CopyRefused("the storage shows no generation of a file")
        source = Source(size_bytes, etag, generation)
        with self._lock:
            self._sources[location] = source

        def read(offset: int, length: int) -> bytes:
            """Read bytes of the object that was opened."""
            call = partial(calls.part_of, key_of(location), etag, offset, offset + length)
            with same_object(location):
                return self._requests.make("read", location, call)

        return io.BufferedReader(SourceFile(size_bytes, tail, read), _BUFFER_BYTES)

    def write(self, content: bytes | memoryview, /) -> int:
        """Append bytes."""
        self._tail += content
        return len(content)

    def copy(self, location: str, start: int, end: int) -> None:
        """Append an opened file, all of it."""
        if self._tail or start or end != self._sources[location].size_bytes:
            raise CopyRefused("the storage copies whole files only, one behind the other")
        self._copied.append(location)

    def end(self) -> None:
        """Make the object of all that was appended. Raises: StorageError; CopyRefused."""
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
                size_bytes += sum(self._sources[one].size_bytes for one in sources)
                self._requests.env.sleep(_BETWEEN_CHANGES_SECONDS)
                self._prepend(sources, size_bytes)
        except StorageError as error:
            if error_status(error) in {None, _PRECONDITION_FAILED} or is_transient(error):
                raise
            raise CopyRefused(f"the storage composes no files: {error.message}") from error

    def abandon(self) -> None:
        """Remove what there is of the object."""
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
            found = parse_json(self._ask("GET", f"?fields={','.join(_KEPT)}", {}, of=place).body)
            is_kept = any(found.get(name) for name in _KEPT)
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
                if size_bytes == len(content) and self._whole() == content:
                    self._generation = generation
            if self._generation == "0":
                raise
        else:
            self._generation = answer.headers.get(_GENERATION) or self._stored()[1]

    def _prepend(self, sources: Sequence[str], size_bytes: int) -> None:
        """Put whole objects before what there is, which has so many bytes then."""
        parts = [(one, self._sources[one].version) for one in sources]
        parts.append((self._location, self._generation))
        listed = "".join(
            f"<Component><Name>{escape(key_of(one))}</Name><IfGenerationMatch>{generation}"
            "</IfGenerationMatch></Component>"
            for one, generation in parts
        )
        body = f"<ComposeRequest>{listed}</ComposeRequest>".encode()
        try:
            self._ask("PUT", "?compose", {_CONDITION: self._generation}, body)
        except (StorageError, FileNotFoundError) as error:
            if error_status(error) not in {None, _PRECONDITION_FAILED}:
                raise
            if self._stored()[1] == self._generation:  # nothing was done
                self._check_sources(sources)
                raise
        # An answer that was lost leaves the object as it should be.
        stored_bytes, generation = self._stored()
        if stored_bytes != size_bytes or generation == self._generation:
            raise StorageError(
                f"the storage made {locations.redacted(self._location)} of other bytes than it was "
                "asked to"
            )
        self._generation = generation

    def _check_sources(self, sources: Sequence[str]) -> None:
        """Check that sources are the objects that were opened. Raises: StorageError."""
        for one in sources:
            found = self._requests.make("look up", one, partial(calls.head, key_of(one)))
            if found["version"] != self._sources[one].version:
                raise other_object(one)

    def _stored(self) -> tuple[int, str]:
        """Return how many bytes the new object has, and its generation."""
        call = partial(calls.head, key_of(self._location))
        found = self._requests.make("look up", self._location, call)
        return int(found["size"]), str(found["version"])

    def _whole(self) -> bytes:
        call = partial(calls.whole, key_of(self._location))
        return self._requests.make("read", self._location, call)

    def _ask(
        self, method: str, query: str, headers: Mapping[str, str], body: bytes = b"", of: str = ""
    ) -> PlainAnswer:
        """Make a request about the new object, or `of` another place of the storage.

        Raises: StorageError; FileNotFoundError.
        """

        def action(_: Any) -> PlainAnswer:
            """Make it once."""
            client = self._requests.client
            access = client.access
            given = {"Content-Type": "application/octet-stream", **headers}
            if (token := client.token()) is not None:
                given["Authorization"] = f"Bearer {token}"
            if access.settings["project"] is not None:
                given["x-goog-user-project"] = access.settings["project"]
            place = f"{access.endpoint}/{of}" if of else f"{access.url}/{quote(key)}"
            answer = send(PlainRequest(method, f"{place}{query}", given, body), access)
            if answer.status >= 300:
                raise answered(answer.status, "", answer.body.decode("utf-8", "replace"))
            return answer

        key = key_of(self._location)
        doing = "look up" if method == "GET" else "write"
        return self._requests.make(doing, self._location, action)
