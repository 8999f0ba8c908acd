"""Objects of S3 in the making: parts of an upload, which S3 copies from others (UploadPartCopy).

It takes parts of 5 MiB and more, but for the last.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol

from icectl.env import Env
from icectl.errors import StorageError
from icectl.storage import location as locations
from icectl.storage.assembly import TAIL_BYTES, PartLimits, Source, assembled
from icectl.storage.failures import error_code
from icectl.storage.store import Assembly, CopyRefused

LEAST_PART_BYTES = 5 << 20
_LIMITS = PartLimits(LEAST_PART_BYTES, 5 << 30, 10_000)
_PAUSES_SECONDS = (1, 2, 4, 8, 16, 32, 64, 0)
_NOT_OFFERED = {
    "400", "403", "405", "501", "AccessDenied", "InvalidArgument", "InvalidRequest",
    "MethodNotAllowed", "NotImplemented",
}  # fmt: skip
"""Codes of answers of storage that does not copy ranges, or may not."""

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


def assembled_by_s3(calls: Calls, location: str) -> AbstractContextManager[Assembly]:
    """Return a new object to put together, as `assembled` has it."""
    return assembled(_Upload(calls, location), location)


class _Upload:
    """An upload in parts."""

    limits = _LIMITS

    def __init__(self, calls: Calls, location: str) -> None:
        self._calls, self._location = calls, location
        self._upload_id: str | None = None

    @property
    def concurrency(self) -> int:
        """How many requests may run at once."""
        return self._calls.concurrency

    def open(self, location: str) -> tuple[Source, bytes]:
        """Return what there is to copy, and its last bytes, by one request."""
        try:
            answer, tail = self._calls.content(location, Range=f"bytes=-{TAIL_BYTES}")
        except StorageError as error:  # another way to read it may work, and tells if not
            raise CopyRefused(error.message) from error
        size_bytes = int(str(answer.get("ContentRange", f"/{len(tail)}")).rpartition("/")[2])
        if not answer.get("ETag"):
            raise CopyRefused("the storage has no ETag for a file")
        return Source(size_bytes, answer["ETag"]), tail

    def read(self, location: str, source: Source, start: int, end: int) -> bytes:
        """Return bytes of a source."""
        condition = {"Range": f"bytes={start}-{end - 1}", "IfMatch": source.etag}
        _, content = self._calls.content(location, **condition)
        if len(content) == source.size_bytes:  # all of it was sent
            return content[start:end]
        return content

    def begin(self) -> None:
        """Begin the upload."""
        begun = self._call("create_multipart_upload", **self._calls.settings)
        self._upload_id = begun["UploadId"]

    def copy(self, number: int, location: str, source: Source, start: int, end: int) -> str:
        """Have a range copied as a part, and return its ETag."""
        root = locations.root(location)
        try:
            answer = self._request(
                "upload_part_copy",
                PartNumber=number,
                CopySource={
                    "Bucket": root.partition("//")[2],
                    "Key": location[len(root) :].lstrip("/"),
                },
                CopySourceRange=f"bytes={start}-{end - 1}",
                CopySourceIfMatch=source.etag,
            )
        except StorageError as error:
            if error_code(error) in _NOT_OFFERED:
                raise CopyRefused(f"the storage copies no ranges: {error.message}") from error
            raise
        etag = answer.get("CopyPartResult", {}).get("ETag")
        if not etag:
            raise CopyRefused("the storage copies no ranges: it takes them for bytes to store")
        return str(etag)

    def send(self, number: int, content: bytes) -> str:
        """Send bytes as a part, and return its ETag."""
        answer = self._request("upload_part", PartNumber=number, Body=content)
        return str(answer["ETag"])

    def put(self, content: bytes) -> None:
        """Make the object of bytes alone."""
        self._call("put_object", Body=content, **self._calls.settings)

    def complete(self, names: Sequence[str], size_bytes: int) -> None:
        """Make the object of its parts."""
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(names, 1)]
        try:
            self._request(
                "complete_multipart_upload", MultipartUpload={"Parts": parts}, IfNoneMatch="*"
            )
        except (StorageError, FileNotFoundError) as error:
            # An answer that was lost leaves no upload to complete again, but the whole object:
            # at once, or where that takes the storage its time, some time later.
            for pause_seconds in _PAUSES_SECONDS if isinstance(error, FileNotFoundError) else (0,):
                if self._is_stored(names, size_bytes):
                    return
                self._calls.env.sleep(pause_seconds)
            raise

    def _is_stored(self, etags: Sequence[str], size_bytes: int) -> bool:
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
        return int(found["ContentLength"]) == size_bytes and is_same

    def abandon(self) -> None:
        """Free the parts; the storage forgets them in time where it can't now."""
        if self._upload_id is not None:
            with suppress(StorageError, FileNotFoundError):
                self._request("abort_multipart_upload")

    def _request(self, method: str, **arguments: Any) -> Any:
        """Make a request about the upload."""
        return self._call(method, UploadId=self._upload_id, **arguments)

    def _call(self, method: str, **arguments: Any) -> Any:
        return self._calls.call("write", self._location, method, **arguments)
