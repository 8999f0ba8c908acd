"""Objects of S3 written while they are made: small ones by one request, large ones in parts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from icectl.errors import StorageError
from icectl.storage.parts import PartWriter, whole_or_none

Call = Callable[[Callable[[], Any]], Any]
"""Makes a request, again where it fails for a passing reason; raises StorageError."""

_PART_BYTES = 32 << 20
"""An object has 10,000 parts at most."""


@dataclass(frozen=True, slots=True, repr=False)
class UploadTarget:
    """An object to write, and the means to do it; `filesystem` is s3fs's."""

    filesystem: Any
    bucket: str
    key: str
    call: Call

    def request(self, method: str, **arguments: Any) -> Any:
        """Return the answer to a request about the object.

        Raises: StorageError; FileNotFoundError.
        """
        places = {"Bucket": self.bucket, "Key": self.key}
        call = partial(self.filesystem.call_s3, method, **places, **arguments)
        return self.call(partial(call, **self.filesystem.req_kw))

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings that new objects are made with, such as their encryption."""
        found: Mapping[str, Any] = self.filesystem.s3_additional_kwargs
        return found


@contextmanager
def upload(target: UploadTarget) -> Iterator[IO[bytes]]:
    """A file to write, whose bytes are an object once this is left without an error.

    Raises: StorageError; then there is no object, and no part of one.
    """
    with whole_or_none(_Uploaded(target)) as uploaded:
        yield uploaded


class _Uploaded(PartWriter):
    """An object in the making, of which each part is sent where it becomes full."""

    def __init__(self, target: UploadTarget) -> None:
        super().__init__(_PART_BYTES)
        self._target = target
        self._upload_id: str | None = None
        self._parts: list[Mapping[str, Any]] = []

    def send_part(self, content: bytes) -> None:
        """Send a part; the first begins the upload."""
        if self._upload_id is None:
            made = self._target.request("create_multipart_upload", **self._target.settings)
            self._upload_id = made["UploadId"]
        number = len(self._parts) + 1
        place = {"UploadId": self._upload_id, "PartNumber": number}
        answer = self._target.request("upload_part", **place, Body=content)
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"]})

    def end(self) -> None:
        """Make the object of what was written. Raises: StorageError."""
        content = self.last_part()
        if self._upload_id is None:
            self._target.request("put_object", Body=content, **self._target.settings)
            return
        if content:
            self.send_part(content)
        place = {"UploadId": self._upload_id, "MultipartUpload": {"Parts": self._parts}}
        try:
            self._target.request("complete_multipart_upload", **place)
        except (StorageError, FileNotFoundError):
            # An answer that was lost leaves no upload to complete again, but the whole object.
            if self._stored_bytes() != self.size_bytes:
                raise

    def _stored_bytes(self) -> int | None:
        try:
            return int(self._target.request("head_object")["ContentLength"])
        except (StorageError, FileNotFoundError):
            return None

    def abandon(self) -> None:
        """Free the parts; the storage forgets them in time where it can't now."""
        if self._upload_id is not None:
            with suppress(StorageError, FileNotFoundError):
                self._target.request("abort_multipart_upload", UploadId=self._upload_id)
