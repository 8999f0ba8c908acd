"""A loaded table and the means to read its files: what commands that only read start from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from icectl.catalog.protocol import LoadedTable
from icectl.entries.rows import Entries
from icectl.env import Deadline, Env
from icectl.progress import Progress
from icectl.spec.manifest import ManifestFile
from icectl.spec.metadata import TableMetadata
from icectl.spec.snapshot import Snapshot
from icectl.storage.store import Store
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries, load_entries_to_match, scan_entries


@dataclass(frozen=True, slots=True)
class Reader:
    """A loaded table and the means to read its files."""

    store: Store
    loaded: LoadedTable
    env: Env
    progress: Progress
    deadline: Deadline
    concurrency: int

    @property
    def metadata(self) -> TableMetadata:
        """The table's metadata."""
        return self.loaded.metadata

    def manifests(self, snapshot: Snapshot | None) -> tuple[ManifestFile, ...]:
        """The manifests of a snapshot, to be shown; none without one."""
        self.deadline.check()
        if snapshot is None:
            return ()
        return read_snapshot_manifests(self.store, self.metadata, snapshot, sound=False)

    def scan(self, manifests: Sequence[ManifestFile], columns: frozenset[str]) -> Iterator[Entries]:
        """The entries of manifests, one manifest at a time."""
        scanned = scan_entries(
            self.store,
            self.metadata,
            manifests,
            columns=columns,
            concurrency=self.concurrency,
            progress=self.progress,
        )
        for _, entries in scanned:
            self.deadline.check()
            yield entries

    def load(self, manifests: Sequence[ManifestFile], columns: frozenset[str]) -> Entries:
        """The entries of manifests in one table."""
        self.deadline.check()
        return load_entries(
            self.store,
            self.metadata,
            manifests,
            columns=columns,
            concurrency=self.concurrency,
            progress=self.progress,
        )

    def load_to_match(self, manifests: Sequence[ManifestFile], columns: frozenset[str]) -> Entries:
        """The entries of manifests in one table, ready for matching deletes with data files."""
        self.deadline.check()
        return load_entries_to_match(
            self.store,
            self.metadata,
            manifests,
            columns=columns,
            concurrency=self.concurrency,
            progress=self.progress,
        )
