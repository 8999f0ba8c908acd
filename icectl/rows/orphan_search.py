"""The search of a listing for files that a table does not reach: the interface, and the local one.

A listing is taken before the table's metadata is loaded, so later commits are reached. It waits on
disk until the metadata has been read.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from icectl.env import Deadline
from icectl.progress import Progress
from icectl.storage.listing import Spool
from icectl.table.known_locations import KnownLocations, file_hashes
from icectl.table.orphan_verdicts import OrphanRule, listed_metadata, symbolic_links, unreached


class Listing(Protocol):
    """Files below some locations as they were at one time."""

    @property
    def file_count(self) -> int:
        """The number of files, with hidden ones."""

    @property
    def total_bytes(self) -> int:
        """The bytes of all files."""

    @property
    def metadata_files(self) -> Sequence[str]:
        """The locations of metadata JSON files of any table."""

    @property
    def links(self) -> Sequence[str]:
        """Symbolic links to files: the table may reach their targets."""

    def files(self) -> KnownLocations:
        """Return the listed files as a set of file_hashes."""

    def unreached(self, known: KnownLocations, rule: OrphanRule) -> Iterator[pa.RecordBatch]:
        """Yield the files that are not known, with verdicts, as `unreached` does.

        Shape: UNREACHED_SCHEMA. Order: none.
        """


class OrphanSearch(Protocol):
    """Lists and compares files, in this process or on a cluster."""

    def list(self, locations: Sequence[str]) -> AbstractContextManager[Listing]:
        """List all files below some locations, none of which is below another.

        The listing has ended when this returns. Locations of files begin with one of `locations`,
        spelled in the same way.
        Raises: StorageError; Incomplete, at the time limit.
        """


@dataclass(slots=True)
class LocalListing:
    """A listing in a temporary file."""

    spool: Spool
    metadata_files: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        self.spool.append(batch)
        self.metadata_files += listed_metadata(batch)
        self.links += symbolic_links(batch)

    @property
    def file_count(self) -> int:
        return self.spool.file_count

    @property
    def total_bytes(self) -> int:
        return self.spool.total_bytes

    def files(self) -> KnownLocations:
        listed = KnownLocations()
        for batch in self.spool:
            listed.add_hashes(file_hashes(batch["location"], batch["size_bytes"]))
        return listed

    def unreached(self, known: KnownLocations, rule: OrphanRule) -> Iterator[pa.RecordBatch]:
        for batch in self.spool:
            yield unreached(batch, known, rule)


@dataclass(frozen=True, slots=True)
class LocalOrphanSearch:
    """The search in this process; `files_below` lists one location."""

    files_below: Callable[[str], Iterator[pa.RecordBatch]]
    progress: Progress
    deadline: Deadline

    @contextmanager
    def list(self, locations: Sequence[str]) -> Iterator[Listing]:
        """List all files below some locations, and keep them on disk."""
        self.progress.phase("listing files")
        with Spool() as spool:
            listing = LocalListing(spool)
            for location in locations:
                for batch in self.files_below(location):
                    self.deadline.check()
                    listing.add(batch)
                    self.progress.advance(batch.num_rows)
            yield listing
