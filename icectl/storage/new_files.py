"""Create new files completely or not at all, by conditional writes that the storage has proved.

Storage that ignores the condition would overwrite another writer's commit. Each bucket is therefore
tested before its first new object (R-162). Temporary files have unique names; only a killed run
leaves them, and no file refers to them. The test object has one name in each folder. If it cannot
be removed, it stays, and later runs use it.
"""

import errno
import io
import os
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import IO, Any, BinaryIO

from icectl.env import Env
from icectl.errors import Refused, StorageError
from icectl.storage import location as locations
from icectl.storage.failures import (
    AnswerLost,
    error_code,
    error_status,
    is_transient,
    retry,
    was_refused,
)
from icectl.storage.store import FailedRemoval, FileStatus, Store, dating_clock_ms

TEMPORARY = r"\.icectl-(?:[0-9]+-[0-9]+-[^/]*|probe(?:-[0-9a-f-]{36})?)$"
"""Matches their names; a location's beginning is for others to match."""

PROBE = ".icectl-probe"
"""The name of a file that only shows what the storage allows; older versions added a uuid."""

_PROBES = 8
"""How often the probe is put: other runs may remove it in between."""

_NAME = re.compile(TEMPORARY)

_TAKEN = {
    "409", "412", "BlobAlreadyExists", "ConditionNotMet", "ConditionalRequestConflict",
    "PreconditionFailed", "UnauthorizedBlobOverwrite",
}  # fmt: skip


class PartWriter(io.RawIOBase, BinaryIO):
    """Bytes on their way into a file of a store, in parts of `part_bytes`, but for the last."""

    def __init__(self, part_bytes: int) -> None:
        super().__init__()
        self._part_bytes = part_bytes
        self._waiting = bytearray()
        self.size_bytes = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size_bytes

    def write(self, content: Any, /) -> int:
        """Take bytes, send the parts that are full, and return how many bytes were taken."""
        octets = memoryview(content).cast("B")
        self._waiting += octets
        self.size_bytes += len(octets)
        while len(self._waiting) >= self._part_bytes:
            self.send_part(bytes(self._waiting[: self._part_bytes]))
            del self._waiting[: self._part_bytes]
        return len(octets)

    def last_part(self) -> bytes:
        """Take what still waits, less than a part."""
        content = bytes(self._waiting)
        self._waiting.clear()
        return content

    @abstractmethod
    def send_part(self, content: bytes) -> None:
        """Send the next part. Raises: StorageError."""

    @abstractmethod
    def end(self) -> None:
        """Make the file of all that was written. Raises: StorageError."""

    @abstractmethod
    def abandon(self) -> None:
        """Have nothing be left of the file; raises nothing."""


@contextmanager
def whole_or_none(file: PartWriter) -> Iterator[IO[bytes]]:
    """Write a file that is there, whole, once this is left without error. Raises: StorageError."""
    try:
        yield file
        file.end()
    except BaseException:
        file.abandon()
        raise


def put_once(
    put: Callable[[], object], location: str, translated: Callable[[Exception], Exception]
) -> None:
    """Write a new object by one conditional request, which is never repeated.

    Raises: FileExistsError, when the name is taken; AnswerLost, when no response came; else the
    translation of the error, when nothing was written.
    """
    try:
        put()
    except Exception as error:  # the seam: drivers raise what they like
        if error_code(error) in _TAKEN:
            raise FileExistsError(errno.EEXIST, "it exists already", location) from error
        failure = translated(error)
        if failure is error:
            raise
        if isinstance(failure, StorageError) and not was_refused(error):
            raise AnswerLost(failure.message, hint=failure.hint) from error
        raise failure from error


@dataclass(slots=True)
class Proven:
    """The buckets that have shown that they honour conditions; shared by all writers of a run."""

    buckets: set[str] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)


def prove_condition(
    proof: Proven,
    location: str,
    put_new: Callable[[str, bytes], None],
    remove: Callable[[Sequence[str]], Sequence[FailedRemoval]],
    env: Env,
    warn: Callable[[str], None],
    condition: str = "If-None-Match: *",
) -> None:
    """Put the same object again and again under the condition that there is none (R-162).

    Raises: Refused, where the storage takes it each time; what `put_new` does.
    """
    bucket = locations.root(location)
    with proof.lock:
        if bucket in proof.buckets:
            return
        probe = locations.join(locations.parent(location), PROBE)
        put = partial(put_new, probe, b"icectl")
        try:
            for _ in range(_PROBES):
                retry(put, env, is_transient=_may_be_asked_again, translated=_unchanged)
        except FileExistsError:
            proof.buckets.add(bucket)
        else:
            raise Refused(
                f"the storage of {locations.redacted(location)} ignores conditional writes: a "
                "second writer would overwrite the first one's commit",
                hint=f"use storage that honours `{condition}`, or a catalog",
                id="conditional-put-ignored",
            )
        finally:
            _remove_probe(probe, remove, warn)


def _remove_probe(
    probe: str,
    remove: Callable[[Sequence[str]], Sequence[FailedRemoval]],
    warn: Callable[[str], None],
) -> None:
    try:
        reasons = [removal.error for removal in remove([probe])]
    except StorageError as error:
        reasons = [error.reason]
    for reason in reasons:  # that it stays is no reason to end the run
        warn(
            f"cannot remove the empty file {locations.redacted(probe)}: {reason}; later runs use it"
        )


def create_own(store: Store, env: Env, location: str, content: bytes) -> None:
    """Create a file under a name that no other run uses, and so again where a failure may pass.

    Raises: FileExistsError, if a file of other bytes is there; as Store.create, after six attempts.
    """

    def create() -> None:
        try:
            store.create(location, content)
        except FileExistsError as error:  # of an earlier attempt, whose answer was lost
            try:
                is_same = store.read(location) == content
            except FileNotFoundError:  # S3 answers so while an earlier request is under way
                shown = locations.redacted(location)
                raise AnswerLost(f"cannot write {shown}: another request is under way") from error
            if not is_same:
                raise

    retry(create, env, is_transient=_may_be_asked_again, translated=_unchanged)


def create_if_none(store: Store, env: Env, location: str) -> None:
    """Create an empty file unless one is there. Raises: as create_own, but FileExistsError."""
    create = partial(store.create, location, b"")
    with suppress(FileExistsError):
        retry(create, env, is_transient=_may_be_asked_again, translated=_unchanged)


def _may_be_asked_again(error: Exception) -> bool:
    is_lost = isinstance(error, AnswerLost) and error_status(error) is None
    return is_lost or is_transient(error)


def _unchanged(error: Exception) -> Exception:
    return error


def temporary_name(number: int, end: str) -> str:
    """Return the name of a file that is being written; `number` is its own in this process."""
    return f".icectl-{os.getpid()}-{number}-{end}"


def old_temporaries(
    store: Store, env: Env, listed: Iterable[FileStatus], age_ms: int
) -> tuple[str, ...]:
    """List those of the listed files that runs made for a moment, longer ago than `age_ms`.

    By the clock that dates them; one without a time is never old. Order: kept.
    Raises: StorageError.
    """
    old = [status for status in listed if _NAME.fullmatch(locations.name(status.location))]
    if not old:
        return ()
    limit_ms = dating_clock_ms(store, env, old[0].location) - age_ms
    return tuple(
        status.location
        for status in old
        if status.modified_ms is not None and status.modified_ms < limit_ms
    )
