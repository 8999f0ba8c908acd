"""Committing metadata updates: build on the newest version, write, try again after a conflict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from icectl.catalog.protocol import Catalog, Committed, Conflict, LoadedTable, Unknown
from icectl.env import Env
from icectl.errors import CommitConflict, CommitUnknown
from icectl.progress import Progress
from icectl.spec.metadata import TableMetadata
from icectl.spec.properties import (
    COMMIT_MAX_WAIT_MS,
    COMMIT_MIN_WAIT_MS,
    COMMIT_RETRIES,
    COMMIT_TOTAL_TIMEOUT_MS,
    read,
)
from icectl.spec.requirements import Requirement, check
from icectl.spec.updates import Update, apply_all, with_log
from icectl.table.row_safety import check_metadata


@dataclass(frozen=True, slots=True)
class Landed:
    """The table after the commit."""

    metadata: TableMetadata
    metadata_location: str


@dataclass(frozen=True, slots=True)
class Committer:
    """The means to commit to one table.

    `forgets` is false where the caller itself deletes the metadata files that a commit drops.
    """

    catalog: Catalog
    env: Env
    progress: Progress
    forgets: bool = True

    def commit(
        self,
        base: LoadedTable,
        requirements: Sequence[Requirement],
        updates: Callable[[TableMetadata], Sequence[Update]],
    ) -> Landed:
        """Commit what `updates` makes of the newest metadata; after a conflict, on a fresh base.

        Raises: CommitConflict, when the retries or the time that the table allows are used up, a
        requirement does not hold (R-002) or nothing is left to change; CorruptTable, where the base
        can't be built on; CommitUnknown; Refused and StorageError, before anything was written.
        Spec: R-150, R-156.
        """
        retries = read(base.metadata.properties, COMMIT_RETRIES)
        ends_at = self.env.monotonic_seconds() + (
            read(base.metadata.properties, COMMIT_TOTAL_TIMEOUT_MS) / 1000
        )
        attempt = 0
        while True:
            self._require(base.metadata, requirements)
            check_metadata(base.metadata)
            changes = updates(base.metadata)
            if not changes:
                raise CommitConflict("another writer has made these changes already")
            updated, dropped = with_log(
                apply_all(base.metadata, changes), base.metadata_location, self._now_ms(base)
            )
            outcome = self.catalog.commit(base, updated)
            if isinstance(outcome, Committed):
                if self.forgets and dropped:
                    self.catalog.forget(base, updated, dropped)
                return Landed(updated, outcome.metadata_location)
            if isinstance(outcome, Unknown):
                raise _unknown(outcome)
            if attempt == retries or self.env.monotonic_seconds() >= ends_at:
                raise CommitConflict(outcome.reason)
            self._wait(base.metadata, attempt, outcome)
            attempt += 1
            base = self.catalog.load()

    def _now_ms(self, base: LoadedTable) -> int:
        """The time of the commit: never before that of the file it replaces (R-017)."""
        return max(self.env.now_ms(), base.metadata.last_updated_ms)

    @staticmethod
    def _require(metadata: TableMetadata, requirements: Sequence[Requirement]) -> None:
        for requirement in requirements:
            reason = check(metadata, requirement)
            if reason is not None:
                raise CommitConflict(reason)

    def _wait(self, metadata: TableMetadata, attempt: int, conflict: Conflict) -> None:
        shortest = read(metadata.properties, COMMIT_MIN_WAIT_MS)
        longest = read(metadata.properties, COMMIT_MAX_WAIT_MS)
        wait_ms = min(shortest * 2**attempt, longest)
        self.progress.warn(f"{conflict.reason}; the plan is made anew on it")
        self.env.sleep(wait_ms / 1000)


def _unknown(outcome: Unknown) -> CommitUnknown:
    return CommitUnknown(
        f"whether {outcome.metadata_location} was written is not known: {outcome.reason}",
        hint="look whether that file exists: if it does, the commit has landed, and running the "
        "command again finishes it; if not, nothing has changed",
    )
