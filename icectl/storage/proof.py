"""New objects by conditional writes, and the test that storage honours the condition.

A conditional write is only as good as the storage: one that ignores the condition overwrites what
another writer committed. So each bucket is put to the test before its first new object (R-162).
"""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from icectl.env import Env
from icectl.errors import Refused, StorageError
from icectl.storage import location as locations
from icectl.storage.failures import AnswerLost, error_code, was_refused
from icectl.storage.store import FailedRemoval
from icectl.storage.temporary import probe_name

_TAKEN = {
    "409",
    "412",
    "BlobAlreadyExists",
    "ConditionNotMet",
    "ConditionalRequestConflict",
    "PreconditionFailed",
    "UnauthorizedBlobOverwrite",
}


def put_once(
    put: Callable[[], object], location: str, translated: Callable[[Exception], Exception]
) -> None:
    """Write a new object by one conditional request, which is never repeated.

    Raises: FileExistsError, when the name is taken; AnswerLost, when no answer came; else the
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
class Proof:
    """The buckets that have shown that they honour conditions; shared by all writers of a run."""

    buckets: set[str] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)


@dataclass(frozen=True, slots=True)
class Prober:
    """How storage is put to the test: by writing what must be new, and removing that."""

    put_new: Callable[[str, bytes], None]
    remove: Callable[[Sequence[str]], Sequence[FailedRemoval]]
    env: Env
    warn: Callable[[str], None]
    condition: str = "If-None-Match: *"

    def prove(self, proof: Proof, location: str) -> None:
        """Put the same object twice under the condition that there is none (decision of R-162).

        Raises: Refused, where the second is taken too; what `put_new` does.
        """
        bucket = locations.root(location)
        with proof.lock:
            if bucket in proof.buckets:
                return
            probe = locations.join(locations.parent(location), probe_name(self.env.new_uuid()))
            self.put_new(probe, b"icectl")
            try:
                self.put_new(probe, b"icectl again")
            except FileExistsError:
                proof.buckets.add(bucket)
            else:
                raise Refused(
                    f"the storage behind {locations.redacted(location)} ignores conditions: a "
                    "second writer would overwrite what the first has committed",
                    hint=f"use storage that honours `{self.condition}`, or a catalog",
                    id="conditional-put-ignored",
                )
            finally:
                self._clear(probe)

    def _clear(self, probe: str) -> None:
        """Remove what the test has written; that it stays is no reason to end the run."""
        try:
            failed = [one.error for one in self.remove([probe])]
        except StorageError as error:
            failed = [error.message]
        for reason in failed:
            self.warn(
                f"{locations.redacted(probe)}, which holds nothing, could not be removed: {reason}"
            )
