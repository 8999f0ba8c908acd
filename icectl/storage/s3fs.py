"""S3 by s3fs, for the options, buckets and names that obstore cannot express.

Plain requests only: obstore is what lists and reads many objects at once.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from typing import IO, Any

import pyarrow as pa

from icectl.env import Env
from icectl.errors import StorageError, UsageError
from icectl.storage import location as locations
from icectl.storage.assembly import TAIL_BYTES, PartLimits, Source, assembled
from icectl.storage.failures import error_code, remote_failure, repeated
from icectl.storage.listing import ListingRows
from icectl.storage.new_files import PartWriter, Proven, prove_condition, put_once, whole_or_none
from icectl.storage.store import (
    Assembly,
    CopyRefused,
    FailedRemoval,
    ListingPart,
    ObjectVersion,
    remove_in_batches,
)

Call = Callable[[Callable[[], Any]], Any]
"""Makes a request, again where it fails for a passing reason; raises StorageError."""

_PART_BYTES = 32 << 20
"""An object has 10,000 parts at most."""

_THROTTLED = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "503", "500"}
_TEXT_OPTIONS = {"key", "secret", "token", "username", "password", "profile"}
_CREDENTIALS = {"key", "secret", "token"}
_BOOLEANS = {"true": True, "false": False}

_MOST_KEYS = 1_000
"""What one request deletes at most."""

LEAST_PART_BYTES = 5 << 20
_PAUSES_SECONDS = (1, 2, 4, 8, 16, 32, 64, 0)
_NOT_OFFERED = {
    "400", "403", "405", "501", "AccessDenied", "InvalidArgument", "InvalidRequest",
    "MethodNotAllowed", "NotImplemented",
}  # fmt: skip
"""Codes of answers of storage that does not copy ranges, or may not."""

_MD5 = re.compile(r'"?([0-9a-f]{32})"?')


def s3_options(options: Mapping[str, str], concurrency: int) -> dict[str, Any]:
    """Options of s3fs from texts; dots in names nest. Raises: UsageError, for value and group."""
    defaults: dict[str, Any] = {
        "use_listings_cache": False,
        "max_concurrency": 1,  # more would look up a file's size before reading it
        "config_kwargs": {
            "retries": {"total_max_attempts": 1},
            "max_pool_connections": max(10, 2 * concurrency),
        },
    }
    for name, text in options.items():
        *groups, last = name.split(".")
        place = defaults
        for group in groups:
            place = place.setdefault(group, {})
            if not isinstance(place, dict):
                raise UsageError(f"storage option {name}: {group} has a value already")
        if last in _TEXT_OPTIONS:
            place[last] = text
        else:
            is_number = text.isascii() and text.isdigit()
            place[last] = int(text) if is_number else _BOOLEANS.get(text.lower(), text)
    return defaults


def with_refreshing_credentials(
    arguments: dict[str, Any], renewed: Callable[[], Mapping[str, str]]
) -> dict[str, Any]:
    """Return the arguments of s3fs, with credentials that are asked for at each request."""
    from aiobotocore.credentials import AioCredentials
    from aiobotocore.session import AioSession
    from botocore.credentials import ReadOnlyCredentials

    class Renewed(AioCredentials):  # type: ignore[misc]
        async def get_frozen_credentials(self) -> ReadOnlyCredentials:
            now = renewed()
            return ReadOnlyCredentials(now["key"], now["secret"], now.get("token"))

    session = AioSession()
    session._credentials = Renewed("", "")  # noqa: SLF001 - no public way sets them
    kept = {name: value for name, value in arguments.items() if name not in _CREDENTIALS}
    return {**kept, "session": session}


def list_objects(filesystem: Any, part: ListingPart, call: Call) -> Iterator[pa.RecordBatch]:
    """Yield the objects of a part of a listing, page after page."""
    base = part.location.rstrip("/")
    bucket, prefix = _bucket_and_prefix(base)
    request = {"Bucket": bucket, "Prefix": prefix, **filesystem.req_kw}
    place = {"StartAfter": part.after} if part.after else {}
    rows = ListingRows()
    while True:
        answer = call(partial(filesystem.call_s3, "list_objects_v2", **request, **place))
        for entry in answer.get("Contents", ()):
            key = entry["Key"]
            if part.until is not None and key >= part.until:
                yield from rows.take_all()
                return
            if not key.endswith("/") and key > part.after:  # no marker of a directory
                modified_ms = round(entry["LastModified"].timestamp() * 1000)
                rows.add(f"{base}/{key[len(prefix) :]}", entry["Size"], modified_ms)
        yield from rows.take_full()
        if not answer.get("IsTruncated"):
            yield from rows.take_all()
            return
        following = {"ContinuationToken": answer.get("NextContinuationToken")}
        if following["ContinuationToken"] in (None, place.get("ContinuationToken")):
            raise StorageError(
                f"cannot list {locations.redacted(base)}: the storage does not say where its list "
                "continues",
                hint="run the command again; nothing was changed",
            )
        place = following


def object_versions(filesystem: Any, location: str, call: Call) -> Iterator[ObjectVersion]:
    """Yield every version of the objects below a location, and what marks them as deleted."""
    base = location.rstrip("/")
    bucket, prefix = _bucket_and_prefix(base)
    request = {"Bucket": bucket, "Prefix": prefix, **filesystem.req_kw}
    place: dict[str, str] = {}
    while True:
        answer = call(partial(filesystem.call_s3, "list_object_versions", **request, **place))
        for entry in (*answer.get("Versions", ()), *answer.get("DeleteMarkers", ())):
            yield ObjectVersion(
                f"{base}/{entry['Key'][len(prefix) :]}",
                entry["VersionId"],
                entry.get("Size"),
                is_newest=entry["IsLatest"],
                etag=entry.get("ETag"),
            )
        if not answer.get("IsTruncated"):
            return
        following = {
            "KeyMarker": answer.get("NextKeyMarker") or "",
            "VersionIdMarker": answer.get("NextVersionIdMarker") or "",
        }
        if following == place:
            raise StorageError(
                f"cannot list versions in {locations.redacted(base)}: the storage does not say "
                "where its list continues"
            )
        place = following


def has_objects(filesystem: Any, location: str, call: Call) -> bool:
    """Return whether there is an object below a location."""
    return bool(_shortest_page(filesystem, location, call).get("Contents"))


def server_time_ms(filesystem: Any, location: str, call: Call) -> int | None:
    """Return the time of a server's answers, if any. Units: milliseconds, in whole seconds."""
    answer = _shortest_page(filesystem, location, call)
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return None if date is None else round(parsedate_to_datetime(date).timestamp()) * 1000


def _shortest_page(filesystem: Any, location: str, call: Call) -> Any:
    bucket, prefix = _bucket_and_prefix(location.rstrip("/"))
    arguments = {"Bucket": bucket, "Prefix": prefix, "MaxKeys": 1, **filesystem.req_kw}
    return call(partial(filesystem.call_s3, "list_objects_v2", **arguments))


def _bucket_and_prefix(base: str) -> tuple[str, str]:
    """Split a location into bucket and prefix of all keys below."""
    root = locations.root(base)
    key = base[len(root) :].strip("/")
    return root.partition("//")[2], f"{key}/" if key else ""


@dataclass(frozen=True, slots=True, repr=False)
class S3Writer:
    """The means to change objects; `filesystem` is s3fs's, which repeats nothing by itself."""

    filesystem: Any
    env: Env
    concurrency: int
    secrets: tuple[str, ...]
    proof: Proven
    warn: Callable[[str], None]

    def create(self, location: str, content: bytes) -> None:
        prove_condition(self.proof, location, self._put_new, self.remove, self.env, self.warn)
        self._put_new(location, content)

    def replace(self, location: str, content: bytes) -> None:
        self.call("write", location, "put_object", Body=content, **self.settings)

    def open_new(self, location: str) -> AbstractContextManager[IO[bytes]]:
        return whole_or_none(_Uploaded(self, location))

    def assemble(self, location: str) -> AbstractContextManager[Assembly] | None:
        """Return an object to compose; None where each request needs a key of its own."""
        if any(name.startswith("SSECustomer") for name in self.settings):
            return None
        return assembled(_CopiedUpload(self, location), location)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings that new objects are made with, such as their encryption."""
        settings: Mapping[str, Any] = self.filesystem.s3_additional_kwargs
        return settings

    def call(self, doing: str, location: str, method: str, **arguments: Any) -> Any:
        """Make a request that may be repeated. Raises: StorageError; FileNotFoundError."""
        action = partial(self._request, method, location, **arguments)
        return repeated(doing, location, action, self.env, secrets=self.secrets)

    def content(self, location: str, **arguments: Any) -> tuple[Mapping[str, Any], bytes]:
        """Return the answer to a GET, and the bytes that came. Raises: as call."""
        from fsspec.asyn import sync

        bucket, key = _bucket_and_key(location)
        place = {"Bucket": bucket, "Key": key, **self.filesystem.req_kw}

        async def get() -> tuple[Mapping[str, Any], bytes]:
            answer = await self.filesystem._call_s3("get_object", **place, **arguments)  # noqa: SLF001
            async with answer["Body"] as body:
                return answer, await body.read()

        action: Any = partial(sync, self.filesystem.loop, get)
        return repeated("read", location, action, self.env, secrets=self.secrets)  # type: ignore[no-any-return]

    def remove(self, removed: Sequence[str]) -> Sequence[FailedRemoval]:
        """Delete objects, a thousand a request. Raises: StorageError, where one fails whole."""
        return remove_in_batches(removed, self._remove, self.concurrency)

    def remove_versions(self, versions: Sequence[ObjectVersion]) -> Sequence[FailedRemoval]:
        """Delete versions, a thousand a request. Raises: StorageError, where one fails whole."""
        failed: list[FailedRemoval] = []
        for start in range(0, len(versions), _MOST_KEYS):
            batch = versions[start : start + _MOST_KEYS]
            bucket = _bucket_and_key(batch[0].location)[0]
            places = {_bucket_and_key(it.location)[1]: it.location for it in batch}
            objects = [{"Key": _bucket_and_key(it.location)[1], "VersionId": it.id} for it in batch]
            request = {"Bucket": bucket, "Delete": {"Objects": objects}, **self.filesystem.req_kw}
            action = partial(self.filesystem.call_s3, "delete_objects", **request)
            first = batch[0].location
            answer = repeated("delete", first, action, self.env, secrets=self.secrets)
            failed += [
                FailedRemoval(places[it["Key"]], f"{it.get('Message', '')} ({it['Code']})")
                for it in answer.get("Errors", ())
                if it["Code"] not in ("NoSuchKey", "NoSuchVersion")
            ]
        return failed

    def _put_new(self, location: str, content: bytes) -> None:
        condition = {"IfNoneMatch": "*", **self.settings}
        put = partial(self._request, "put_object", location, Body=content, **condition)
        put_once(put, location, partial(remote_failure, "write", location, secrets=self.secrets))

    def _request(self, method: str, location: str, **arguments: Any) -> Any:
        bucket, key = _bucket_and_key(location)
        place = {"Bucket": bucket, "Key": key, **self.filesystem.req_kw}
        return self.filesystem.call_s3(method, **place, **arguments)

    def _remove(self, batch: Sequence[str]) -> Sequence[FailedRemoval]:
        """Delete one batch; keys that were throttled are tried again with pauses."""
        bucket = _bucket_and_key(batch[0])[0]
        keys = {_bucket_and_key(place)[1]: place for place in batch}
        failed: list[FailedRemoval] = []
        for pause_seconds in (0.2, 0.8, 3.2, 0.0):
            objects = {"Objects": [{"Key": key} for key in keys]}
            place = {"Bucket": bucket, "Delete": objects, **self.filesystem.req_kw}
            action = partial(self.filesystem.call_s3, "delete_objects", **place)
            first = next(iter(keys.values()))
            answer = repeated("delete", first, action, self.env, secrets=self.secrets)
            if any(item.get("DeleteMarker") for item in answer.get("Deleted", ())):
                self.warn(
                    f"bucket {bucket} keeps old versions: deleted files use storage until these "
                    "expire too"
                )
            errors = [item for item in answer.get("Errors", ()) if item["Code"] != "NoSuchKey"]
            reasons = {
                item["Key"]: f"{item.get('Message', '')} ({item['Code']})" for item in errors
            }
            throttled = {item["Key"] for item in errors if item["Code"] in _THROTTLED}
            failed += [FailedRemoval(keys[key], reasons[key]) for key in reasons.keys() - throttled]
            keys = {key: location for key, location in keys.items() if key in throttled}
            if not keys:
                return failed
            self.env.sleep(pause_seconds)
        return failed + [FailedRemoval(location, reasons[key]) for key, location in keys.items()]


class _CopiedUpload:
    """An upload of parts of 5 MiB and more, but for the last, which S3 copies (UploadPartCopy)."""

    limits = PartLimits(LEAST_PART_BYTES, 5 << 30, 10_000)

    def __init__(self, calls: S3Writer, location: str) -> None:
        self._calls, self._location = calls, location
        self.id: str | None = None

    @property
    def concurrency(self) -> int:
        return self._calls.concurrency

    def open(self, location: str) -> tuple[Source, bytes]:
        try:
            answer, tail = self._calls.content(location, Range=f"bytes=-{TAIL_BYTES}")
        except StorageError as error:  # another way to read it may work, and tells if not
            raise CopyRefused(error.message) from error
        size_bytes = int(str(answer.get("ContentRange", f"/{len(tail)}")).rpartition("/")[2])
        if not answer.get("ETag"):
            raise CopyRefused("the storage has no ETag for a file")
        return Source(size_bytes, answer["ETag"]), tail

    def read(self, location: str, source: Source, start: int, end: int) -> bytes:
        condition = {"Range": f"bytes={start}-{end - 1}", "IfMatch": source.etag}
        _, content = self._calls.content(location, **condition)
        if len(content) == source.size_bytes:  # all of it was sent
            return content[start:end]
        return content

    def begin(self) -> None:
        self.id = self.ask("create_multipart_upload", **self._calls.settings)["UploadId"]

    def copy(self, number: int, location: str, source: Source, start: int, end: int) -> str:
        bucket, key = _bucket_and_key(location)
        try:
            answer = self.request(
                "upload_part_copy",
                PartNumber=number,
                CopySource={"Bucket": bucket, "Key": key},
                CopySourceRange=f"bytes={start}-{end - 1}",
                CopySourceIfMatch=source.etag,
            )
        except StorageError as error:
            if error_code(error) in _NOT_OFFERED:
                raise CopyRefused(f"the storage copies no ranges: {error.message}") from error
            raise
        etag = answer.get("CopyPartResult", {}).get("ETag")
        if not etag:
            raise CopyRefused("the storage copies no ranges: it would store the request itself")
        return str(etag)

    def send(self, number: int, content: bytes) -> str:
        return str(self.request("upload_part", PartNumber=number, Body=content)["ETag"])

    def put(self, content: bytes) -> None:
        self.ask("put_object", Body=content, **self._calls.settings)

    def complete(self, names: Sequence[str], size_bytes: int) -> None:
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(names, 1)]
        try:
            self.request(
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
            metadata = self.ask("head_object")
        except (StorageError, FileNotFoundError):
            return False
        digests = [_MD5.fullmatch(etag) for etag in etags]
        known = [bytes.fromhex(digest[1]) for digest in digests if digest]
        whole = hashlib.md5(b"".join(known), usedforsecurity=False).hexdigest()
        expected = f"{whole}-{len(etags)}"
        etag = str(metadata["ETag"]).strip('"')
        is_same = etag == expected or len(known) < len(etags) or not _MD5.match(etag)
        return int(metadata["ContentLength"]) == size_bytes and is_same

    def abandon(self) -> None:
        if self.id is not None:
            with suppress(StorageError, FileNotFoundError):
                self.request("abort_multipart_upload")

    def request(self, method: str, **arguments: Any) -> Any:
        """Return the answer to a request about the upload. Raises: as S3Writer.call."""
        return self.ask(method, UploadId=self.id, **arguments)

    def ask(self, method: str, **arguments: Any) -> Any:
        """Return the answer to a request about the object. Raises: as S3Writer.call."""
        return self._calls.call("write", self._location, method, **arguments)


class _Uploaded(PartWriter):
    """An object in the making, of which each part is sent where it becomes full."""

    def __init__(self, writer: S3Writer, location: str) -> None:
        super().__init__(_PART_BYTES)
        self._upload = _CopiedUpload(writer, location)
        self._parts: list[Mapping[str, Any]] = []

    def send_part(self, content: bytes) -> None:
        """Send a part; the first begins the upload."""
        if self._upload.id is None:
            self._upload.begin()
        number = len(self._parts) + 1
        self._parts.append({"PartNumber": number, "ETag": self._upload.send(number, content)})

    def end(self) -> None:
        content = self.last_part()
        if self._upload.id is None:
            self._upload.put(content)
            return
        if content:
            self.send_part(content)
        try:
            self._upload.request(
                "complete_multipart_upload", MultipartUpload={"Parts": self._parts}
            )
        except (StorageError, FileNotFoundError):
            # An answer that was lost leaves no upload to complete again, but the whole object.
            stored = None
            with suppress(StorageError, FileNotFoundError):
                stored = int(self._upload.ask("head_object")["ContentLength"])
            if stored != self.size_bytes:
                raise

    def abandon(self) -> None:
        self._upload.abandon()


def _bucket_and_key(location: str) -> tuple[str, str]:
    root = locations.root(location)
    return root.partition("//")[2], location[len(root) :].lstrip("/")
