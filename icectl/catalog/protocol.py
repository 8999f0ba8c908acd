"""The current metadata of a table, and swapping it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from icectl.spec.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table as one metadata file describes it.

    `metadata_location` is where the file was found, `version` its number for a file-system table.
    `current` says how sure that is: `file-system` (highest `vN`), `newest-of-catalog` (newest by
    name of a catalog-owned directory: reading only), `given` (the caller named the file).
    """

    metadata: TableMetadata
    metadata_location: str
    version: int | None
    current: str


@dataclass(frozen=True, slots=True)
class Committed:
    """The new metadata is current, at `metadata_location`."""

    metadata: TableMetadata
    metadata_location: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another writer committed first, or is about to; nothing of ours is visible."""

    reason: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The store did not answer whether the commit landed (R-156)."""

    metadata_location: str
    reason: str


CommitOutcome = Committed | Conflict | Unknown


class Catalog(Protocol):
    """Where a table's current metadata is found and replaced."""

    def load(self) -> LoadedTable:
        """Read the current metadata; TableNotFound, CorruptTable, StorageError."""

    def check_writable(self, loaded: LoadedTable) -> None:
        """Refused (5), with the way out, where a commit or a clean-up would not be safe.

        CommitConflict where another writer is changing just that.
        """

    def settle(self) -> None:
        """Wait until the commits that are under way have ended; CommitConflict for a long one."""

    def commit(self, base: LoadedTable, updated: TableMetadata) -> CommitOutcome:
        """Make `updated` current if `base` still is; an exception means that nothing was sent.

        Any exception, that is, but for those that end the program: they come at any moment.
        """

    def forget(self, base: LoadedTable, updated: TableMetadata, dropped: Sequence[str]) -> None:
        """Delete metadata files that a commit dropped from the log, where the table wants that.

        Never raises: one that stays is an orphan (R-024).
        """
