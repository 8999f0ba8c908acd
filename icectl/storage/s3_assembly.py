"""Objects of S3 that are put together by S3 itself, out of ranges of other objects of the bucket.

A copied range becomes a part of an upload in parts (UploadPartCopy). S3 takes parts of 5 MiB and
more, but for the last: what is shorter, and what stands between, passes through here.
"""

import hashlib
import io
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import IO, Any, Protocol

from icectl.env import Env
from icectl.errors import StorageError
from icectl.files.random_access import RandomAccessFile
from icectl.storage import location as locations
from icectl.storage.failures import error_code
from icectl.storage.store import Assembly, CopyRefused

LEAST_PART_BYTES, LARGEST_COPY_BYTES, MOST_PARTS = 5 << 20, 5 << 30, 10_000
_SENT_BYTES = 16 << 20
"""Bytes that wait here until they are sent as a part."""

_TAIL_BYTES = 64 << 10
"""What is read of a source with the first request: its footer, most often."""

_BUFFER_BYTES = 8 << 10
_COPIES_AT_ONCE = 16
_PAUSES_SECONDS = (1, 2, 4, 8, 16, 32, 64, 0)
_NOT_OFFERED = {
    "400", "403", "405", "501", "AccessDenied", "InvalidArgument", "InvalidRequest",
    "MethodNotAllowed", "NotImplemented",
}  # fmt: skip
"""Codes of answers of storage that does not copy ranges, or may not."""

_OTHER_OBJECT = {"412", "PreconditionFailed"}
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')


class Calls(Protocol):
    """How requests about objects are made, and the settings that new ones are made with."""

    @property
    def env(self) -> Env:
        """What waits."""

    @property
    def concurrency(self) -> int:
        """How many requests may run at once."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings of new objects, such as their encryption."""

    def call(self, doing: str, location: str, method: str, **arguments: Any) -> Any:
        """Return the answer to a request. Raises: StorageError; FileNotFoundError."""

    def content(self, location: str, **arguments: Any) -> tuple[Mapping[str, Any], bytes]:
        """Return the answer to a GET, and the bytes that came. Raises: as call."""


@dataclass(frozen=True, slots=True)
class _Source:
    """An object to copy from, as it was when it was opened."""

    size_bytes: int
    etag: str


class _SourceFile(RandomAccessFile):
    """A source to read; its last bytes are known, and others are asked for."""

    def __init__(self, size_bytes: int, tail: bytes, read: Callable[[int, int], bytes]) -> None:
        super().__init__(size_bytes)
        self._tail, self._read = tail, read

    def read_at(self, offset: int, length: int) -> bytes:
        known_from = self.size_bytes - len(self._tail)
        if offset >= known_from:
            return self._tail[offset - known_from :][:length]
        return self._read(offset, min(length, known_from - offset))


@contextmanager
def assembled(calls: Calls, location: str) -> Iterator[Assembly]:
    """A new object to put together, which is there, whole, once this is left without an error.

    Raises: CopyRefused; StorageError; then there is no object, and no part of one.
    """
    assembly = _Assembled(calls, location)
    with ThreadPoolExecutor(
        min(calls.concurrency, _COPIES_AT_ONCE), thread_name_prefix="copy"
    ) as pool:
        assembly.pool = pool
        try:
            yield assembly
            assembly.end()
        except BaseException:
            assembly.abandon()
            raise


class _Assembled:
    """An object in the making.

    Bytes wait until they are a part. A copied range waits too: the next may go on where it ends.
    """

    pool: ThreadPoolExecutor

    def __init__(self, calls: Calls, location: str) -> None:
        self._calls, self._location = calls, location
        self._sources: dict[str, _Source] = {}
        self._lock = Lock()
        self._upload_id: str | None = None
        self._waiting = bytearray()
        self._range: tuple[str, int, int] | None = None
        self._parts: list[Future[str]] = []
        self.size_bytes = 0

    def open(self, location: str) -> IO[bytes]:
        if locations.root(location) != locations.root(self._location):
            raise CopyRefused("a file lies in another bucket")
        try:
            answer, tail = self._calls.content(location, Range=f"bytes=-{_TAIL_BYTES}")
        except StorageError as error:  # another way to read it may work, and tells if not
            raise CopyRefused(error.message) from error
        size_bytes = int(str(answer.get("ContentRange", f"/{len(tail)}")).rpartition("/")[2])
        if not answer.get("ETag"):
            raise CopyRefused("the storage has no ETag for a file")
        source = _Source(size_bytes, answer["ETag"])
        with self._lock:
            self._sources[location] = source

        def read(offset: int, length: int) -> bytes:
            """Read bytes of the object that was opened."""
            return self._read(location, offset, offset + length)

        return io.BufferedReader(_SourceFile(size_bytes, tail, read), _BUFFER_BYTES)

    def _read(self, location: str, start: int, end: int) -> bytes:
        source = self._sources[location]
        condition = {"Range": f"bytes={start}-{end - 1}", "IfMatch": source.etag}
        with _same_object(location):
            _, content = self._calls.content(location, **condition)
        if len(content) == source.size_bytes:  # all of it was sent
            return content[start:end]
        return content

    def write(self, content: bytes | memoryview, /) -> int:
        """Append bytes."""
        self._end_range()
        self._append(content)
        return len(content)

    def copy(self, location: str, start: int, end: int) -> None:
        """Append a range of an opened file."""
        if self._range is not None and self._range[0] == location and self._range[2] == start:
            self._range = location, self._range[1], end
            return
        self._end_range()
        self._range = location, start, end

    def _append(self, content: bytes | memoryview) -> None:
        self.size_bytes += len(content)
        self._waiting += content
        while len(self._waiting) >= _SENT_BYTES + LEAST_PART_BYTES:
            self._send(bytes(self._waiting[:_SENT_BYTES]))
            del self._waiting[:_SENT_BYTES]

    def _end_range(self) -> None:
        """Copy the range that waits: as parts, or through here where it is too short for one."""
        if self._range is None:
            return
        (location, start, end), self._range = self._range, None
        if self._waiting and len(self._waiting) < LEAST_PART_BYTES:
            filling = min(end, start + LEAST_PART_BYTES - len(self._waiting))
            self._append(self._read(location, start, filling))
            start = filling
        if end - start < LEAST_PART_BYTES:
            if end > start:
                self._append(self._read(location, start, end))
            return
        if self._waiting:
            self._send(bytes(self._waiting))
            self._waiting.clear()
        self.size_bytes += end - start
        count = -(-(end - start) // LARGEST_COPY_BYTES)
        step = -(-(end - start) // count)
        for first in range(start, end, step):
            self._add_part(self._copied, location, first, min(first + step, end))
        if len(self._parts) == 1:
            self._parts[0].result()  # where ranges are not copied, no more is asked for

    def _copied(self, number: int, location: str, start: int, end: int) -> str:
        """Have a range copied as a part, and return its ETag."""
        root = locations.root(location)
        source = {"Bucket": root.partition("//")[2], "Key": location[len(root) :].lstrip("/")}
        try:
            with _same_object(location):
                answer = self._request(
                    "upload_part_copy",
                    PartNumber=number,
                    CopySource=source,
                    CopySourceRange=f"bytes={start}-{end - 1}",
                    CopySourceIfMatch=self._sources[location].etag,
                )
        except StorageError as error:
            if error_code(error) in _NOT_OFFERED:
                raise CopyRefused(f"the storage copies no ranges: {error.message}") from error
            raise
        etag = answer.get("CopyPartResult", {}).get("ETag")
        if not etag:
            raise CopyRefused("the storage copies no ranges: it takes them for bytes to store")
        return str(etag)

    def _send(self, content: bytes) -> None:
        """Send bytes as a part."""
        self._add_part(self._sent, content)
        self._parts[-1].result()

    def _sent(self, number: int, content: bytes) -> str:
        answer = self._request("upload_part", PartNumber=number, Body=content)
        return str(answer["ETag"])

    def _add_part(self, make: Callable[..., str], *arguments: Any) -> None:
        if self._upload_id is None:
            begun = self._call("create_multipart_upload", **self._calls.settings)
            self._upload_id = begun["UploadId"]
        if len(self._parts) == MOST_PARTS:
            raise CopyRefused(f"the file would have more than {MOST_PARTS:,} parts")
        self._parts.append(self.pool.submit(make, len(self._parts) + 1, *arguments))

    def end(self) -> None:
        """Make the object of all that was appended. Raises: StorageError; CopyRefused."""
        self._end_range()
        if self._upload_id is None:
            self._call("put_object", Body=bytes(self._waiting), **self._calls.settings)
            return
        if self._waiting:
            self._send(bytes(self._waiting))
        etags = [part.result() for part in self._parts]
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
        try:
            self._request(
                "complete_multipart_upload", MultipartUpload={"Parts": parts}, IfNoneMatch="*"
            )
        except (StorageError, FileNotFoundError) as error:
            # An answer that was lost leaves no upload to complete again, but the whole object:
            # at once, or where that takes the storage its time, some time later.
            for pause_seconds in _PAUSES_SECONDS if isinstance(error, FileNotFoundError) else (0,):
                if self._is_stored(etags):
                    return
                self._calls.env.sleep(pause_seconds)
            raise

    def _is_stored(self, etags: list[str]) -> bool:
        """Return whether the object has the size and, as far as that is known, the ETag expected.

        S3 makes the ETag of an upload in parts of those of its parts, where these are digests.
        """
        try:
            found = self._call("head_object")
        except (StorageError, FileNotFoundError):
            return False
        digests = [_MD5.fullmatch(etag) for etag in etags]
        known = [bytes.fromhex(digest[1]) for digest in digests if digest]
        whole = hashlib.md5(b"".join(known), usedforsecurity=False).hexdigest()
        expected = f"{whole}-{len(etags)}"
        etag = str(found["ETag"]).strip('"')
        is_same = etag == expected or len(known) < len(etags) or not _MD5.match(etag)
        return int(found["ContentLength"]) == self.size_bytes and is_same

    def abandon(self) -> None:
        """Free the parts; the storage forgets them in time where it can't now."""
        for part in self._parts:
            part.cancel()
        for part in self._parts:
            if not part.cancelled():
                part.exception()  # it is under way: a part that comes later would stay
        if self._upload_id is not None:
            with suppress(StorageError, FileNotFoundError):
                self._request("abort_multipart_upload")

    def _request(self, method: str, **arguments: Any) -> Any:
        """Make a request about the upload."""
        return self._call(method, UploadId=self._upload_id, **arguments)

    def _call(self, method: str, **arguments: Any) -> Any:
        return self._calls.call("write", self._location, method, **arguments)


@contextmanager
def _same_object(location: str) -> Iterator[None]:
    """Tell that an object is no longer the one that was opened. Raises: StorageError."""
    try:
        yield
    except StorageError as error:
        if error_code(error) not in _OTHER_OBJECT:
            raise
        raise StorageError(
            f"{locations.redacted(location)} is another file than it was a moment ago",
            hint="data files never change: find out what writes over them",
        ) from error
