"""Writing to S3 by s3fs: new objects by one conditional PUT, and removal in batches."""

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from icectl.env import Env
from icectl.errors import StorageError
from icectl.storage import location as locations
from icectl.storage.failures import (
    AnswerLost,
    error_code,
    is_transient,
    remote_failure,
    was_refused,
)
from icectl.storage.proof import Prober, Proof
from icectl.storage.retry import retry
from icectl.storage.store import FailedRemoval
from icectl.storage.streams import PartWriter, whole_or_none

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


_TAKEN = {"412", "PreconditionFailed", "409", "ConditionalRequestConflict"}
_BATCH = 1000


@dataclass(frozen=True, slots=True, repr=False)
class S3Writer:
    """The means to change objects; `filesystem` is s3fs's, which repeats nothing by itself."""

    filesystem: Any
    env: Env
    concurrency: int
    secrets: tuple[str, ...]
    proof: Proof
    warn: Callable[[str], None]

    def create(self, location: str, content: bytes) -> None:
        """Write a new object, by one request that is never repeated.

        Raises: FileExistsError, when the name is taken; Refused, where the endpoint ignores
        conditions; AnswerLost, when no answer came; StorageError, when nothing was written.
        """
        prober = Prober(self._put_new, self.remove, self.env, self.warn)
        prober.prove(self.proof, location)
        self._put_new(location, content)

    def replace(self, location: str, content: bytes) -> None:
        """Write or overwrite an object. Raises: StorageError."""
        self._call("write", location, partial(self._put, location, content))

    def open_new(self, location: str) -> AbstractContextManager[IO[bytes]]:
        """Return an object to write that is not there yet, in parts where it is large.

        Raises: StorageError, when the object is not there; its parts are gone then.
        Cost: memory for one part.
        """
        bucket, key = _split(location)
        return upload(
            UploadTarget(self.filesystem, bucket, key, partial(self._call, "write", location))
        )

    def remove(self, removed: Sequence[str]) -> Sequence[FailedRemoval]:
        """Delete objects, a thousand a request; those already gone count as removed.

        Raises: StorageError, when a whole request fails.
        """
        batches = [removed[start : start + _BATCH] for start in range(0, len(removed), _BATCH)]
        if len(batches) < 2:
            return [failed for batch in batches for failed in self._remove(batch)]
        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="remove") as pool:
            return [failed for found in pool.map(self._remove, batches) for failed in found]

    def _put_new(self, location: str, content: bytes) -> None:
        try:
            self._put(location, content, IfNoneMatch="*")
        except Exception as error:  # the seam: drivers raise what they like
            if error_code(error) in _TAKEN:
                raise FileExistsError(errno.EEXIST, "it is there already", location) from error
            failure = remote_failure("write", location, error, secrets=self.secrets)
            if failure is error:
                raise
            if isinstance(failure, StorageError) and not was_refused(error):
                raise AnswerLost(failure.message, hint=failure.hint) from error
            raise failure from error

    def _put(self, location: str, content: bytes, **condition: str) -> None:
        bucket, key = _split(location)
        self.filesystem.call_s3(
            "put_object",
            Bucket=bucket,
            Key=key,
            Body=content,
            **condition,
            **self.filesystem.s3_additional_kwargs,
            **self.filesystem.req_kw,
        )

    def _remove(self, batch: Sequence[str]) -> Sequence[FailedRemoval]:
        """Delete one batch; keys that were throttled are tried again with pauses."""
        by_bucket: dict[str, dict[str, str]] = {}
        for location in batch:
            bucket, key = _split(location)
            by_bucket.setdefault(bucket, {})[key] = location
        failed: list[FailedRemoval] = []
        for bucket, keys in by_bucket.items():
            failed += self._remove_keys(bucket, keys)
        return failed

    def _remove_keys(self, bucket: str, keys: dict[str, str]) -> Iterator[FailedRemoval]:
        left = dict(keys)
        reasons: dict[str, str] = {}
        for pause_seconds in (0.2, 0.8, 3.2, 0.0):
            first = next(iter(left.values()))
            answer = self._call("delete", first, partial(self._delete_objects, bucket, tuple(left)))
            if any(item.get("DeleteMarker") for item in answer.get("Deleted", ())):
                self.warn(
                    f"bucket {bucket} keeps old versions: deleting frees no bytes before they "
                    "expire too"
                )
            errors = [item for item in answer.get("Errors", ()) if item["Code"] != "NoSuchKey"]
            reasons = {
                item["Key"]: f"{item.get('Message', '')} ({item['Code']})" for item in errors
            }
            throttled = {item["Key"] for item in errors if item["Code"] in _THROTTLED}
            for key in reasons.keys() - throttled:
                yield FailedRemoval(keys[key], reasons[key])
            left = {key: place for key, place in left.items() if key in throttled}
            if not left:
                return
            self.env.sleep(pause_seconds)
        for key, place in left.items():
            yield FailedRemoval(place, reasons[key])

    def _delete_objects(self, bucket: str, keys: Sequence[str]) -> Any:
        return self.filesystem.call_s3(
            "delete_objects",
            Bucket=bucket,
            Delete={"Objects": [{"Key": key} for key in keys]},
            **self.filesystem.req_kw,
        )

    def _call(self, doing: str, location: str, action: Callable[[], Any]) -> Any:
        return retry(
            action,
            self.env,
            is_transient=is_transient,
            translated=partial(remote_failure, doing, location, secrets=self.secrets),
        )


_THROTTLED = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "503", "500"}


def _split(location: str) -> tuple[str, str]:
    """Split a location into bucket and key."""
    root = locations.root(location)
    return root.partition("//")[2], location[len(root) :].lstrip("/")
