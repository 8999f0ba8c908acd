"""The whole parts of a broken table, to go back to: a metadata file, a snapshot."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from icectl.catalog.metadata_files import check_own_version, read_file
from icectl.catalog.versions import MetadataVersion, metadata_version
from icectl.entries.files import (
    content_files,
    distinct,
    excluding,
    including,
    sized_keys,
    without,
)
from icectl.entries.inherit import inherit
from icectl.entries.rows import Entries, concat, live, with_manifest_number
from icectl.entries.schema import PLANNING_COLUMNS
from icectl.errors import CorruptTable, StorageError, Unsupported
from icectl.files.metadata_file import find_table_uuid
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot, ancestors
from icectl.storage.store import Store
from icectl.table.context import TableContext
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import try_manifests
from icectl.table.reading import of_one_file, read_or_none
from icectl.table.row_safety import check_live
from icectl.table.stored import compare_with_store

WholeLevel = Literal["metadata", "files"]
"""`metadata`: every manifest can be read; `files`: its files are there too, with their sizes."""


@dataclass(frozen=True, slots=True)
class WholeMetadata:
    """A metadata file that can be read, and what it says."""

    version: MetadataVersion
    metadata: TableMetadata


def newest_whole_metadata(
    store: Store, versions: Sequence[MetadataVersion], broken: str
) -> WholeMetadata | None:
    """Return the newest metadata file with a lower number than a broken one that can be read.

    `versions` are the files in its directory. Files without a number are passed over, and so are
    those of another table than the broken one, as far as its beginning still says which it is of.
    Raises: StorageError of the store.
    Cost: reads files from the newest on until one is whole.
    """
    number = metadata_version(broken).version
    if number is None:
        return None
    uuid = read_or_none(lambda: find_table_uuid(store.read(broken)))
    older = [
        version
        for version in versions
        if version.version is not None
        and version.version < number
        and version.kind != "uncommitted"
    ]
    for version in sorted(older, key=_newest_first, reverse=True):
        try:
            metadata = read_file(store, version.location)
            check_own_version(metadata, version.location)
        except (CorruptTable, Unsupported, FileNotFoundError):
            continue
        if uuid is None or metadata.table_uuid == uuid:
            return WholeMetadata(version, metadata)
    return None


def _newest_first(version: MetadataVersion) -> tuple[int, bool, int]:
    """Make the key that versions sort by in reverse, the newest first.

    By number; names of a convention go before others, and of these the one written last.
    """
    return version.version or 0, version.kind != "other", version.modified_ms or 0


@dataclass(slots=True)
class WholeSnapshots:
    """A search for the snapshots of a table that are whole; what several share is read once.

    `broken` are locations of files that are there and known to be damaged.
    """

    context: TableContext
    metadata: TableMetadata
    level: WholeLevel
    broken: frozenset[str] = frozenset()
    _read: dict[ManifestFile, Entries | None] = field(default_factory=dict)
    _there: set[str] = field(default_factory=set)
    _lost: set[str] = field(default_factory=set)

    def newest(self, branch: str) -> Snapshot | None:
        """Return the newest snapshot of a branch that is whole: its head, or an ancestor of it.

        None where there is none, and no such branch. Raises: StorageError of the store; Incomplete.
        """
        ref = self.metadata.refs.get(branch)
        if ref is None:
            return None
        line = ancestors(self.metadata.snapshots_by_id, ref.snapshot_id)
        return next((snapshot for snapshot in line if self.is_whole(snapshot)), None)

    def is_whole(self, snapshot: Snapshot) -> bool:
        """Return whether all that a snapshot lists can be read, and its live entries agree.

        Raises: StorageError of the store; Incomplete.
        """
        self.context.deadline.check()
        try:
            manifests = read_snapshot_manifests(self.context.store, self.metadata, snapshot)
            entries = self._entries(manifests)
            if entries is None:
                return False
            check_live(self.metadata, snapshot, manifests, entries)
        except FileNotFoundError:
            return False
        except (CorruptTable, Unsupported, StorageError) as error:
            of_one_file(error)
            return False
        return self.level == "metadata" or self._are_there(entries)

    def _entries(self, manifests: Sequence[ManifestFile]) -> Entries | None:
        """Return the entries of manifests, `manifest` being the place there.

        None where one is broken.
        """
        parts = []
        for place, manifest in enumerate(manifests):
            if manifest not in self._read:
                self._read[manifest] = self._try(manifest)
            found = self._read[manifest]
            if found is None:
                return None
            parts.append(with_manifest_number(found, place))
        return concat(parts)

    def _try(self, manifest: ManifestFile) -> Entries | None:
        (found,) = try_manifests(self.context, self.metadata, [manifest], PLANNING_COLUMNS)
        return (
            None if found.rows is None else inherit(with_manifest_number(found.rows, 0), [manifest])
        )

    def _are_there(self, entries: Entries) -> bool:
        """Whether the files of live entries are in the store, none of them known to be damaged.

        Each is looked for once.
        """
        alive = live(entries)
        if not self.broken.isdisjoint(alive.table["location"].to_pylist()):
            return False
        named = distinct(content_files(alive, sized_keys(alive)))
        if not self._lost.isdisjoint(named.table["key"].to_pylist()):
            return False
        unknown = without(named, pa.array(self._there, pa.string()))
        compared = compare_with_store(self.context, unknown, self.metadata.location)
        lost = [found.location for found in compared.discrepancies]
        self._lost.update(including(unknown, lost).table["key"].to_pylist())
        self._there.update(excluding(unknown, lost).table["key"].to_pylist())
        return not lost
