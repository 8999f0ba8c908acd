"""Everything that a table's metadata refers to, in whatever state: what is never an orphan."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from icectl.catalog.protocol import LoadedTable
from icectl.entries.files import together
from icectl.format.manifest import ManifestFile, ManifestIdentity
from icectl.format.metadata import TableMetadata
from icectl.format.names import VERSION_HINT
from icectl.format.snapshot import Snapshot
from icectl.storage import location as locations
from icectl.storage.location import is_local, join, relative_ones
from icectl.storage.real_paths import linked_files
from icectl.storage.same_store import SameStore
from icectl.table.context import TableContext
from icectl.table.known_locations import KnownFiles, KnownLocations
from icectl.table.manifest_lists import distinct_manifests, manifests_by_snapshot
from icectl.table.manifests import scan_manifests
from icectl.table.reachable import (
    all_manifests,
    every_statistics_file,
    log_files,
    metadata_files,
)

_LOCATION = frozenset({"location"})


class References:
    """The files that a table refers to; `add` takes in each later state of the table too.

    `places` are the listed locations. `doubtful` holds references that name a file below one of
    them, but perhaps in another store: one for each scheme and authority.
    """

    def __init__(self, context: TableContext, places: Sequence[str], same_store: SameStore) -> None:
        self.doubtful: dict[str, str] = {}
        self._context = context
        self._places = tuple(places)
        self._same_store = same_store
        self._other_ways = [OtherWays(place) for place in places]
        self._are_local = any(map(is_local, places))
        self._files = KnownFiles(local=self._are_local)
        self._snapshots_read: set[int] = set()
        self._manifests_read: set[ManifestIdentity] = set()

    def add(self, loaded: LoadedTable) -> None:
        """Take in all that the table refers to; what was read before is not read again.

        Metadata files of the log count, what they describe does not. Entries count in every state
        (deleted ones too), and so does every snapshot, referenced or not.
        Raises: StorageError, CorruptTable, when anything of it cannot be read (R-192).
        """
        metadata = loaded.metadata
        unread = self.unread(metadata)
        listed = all_manifests(manifests_by_snapshot(self._context, metadata, unread), unread)
        # Rows that delete vectors of version 4 name count like deleted entries.
        listed = distinct_manifests([[replace(item, dead=b"") for item in listed]])
        described = together(
            [
                log_files(metadata, loaded.metadata_location),
                metadata_files(metadata, unread, listed, {}),
                every_statistics_file(metadata),
            ]
        )
        table = metadata.location
        self._add(described.table["location"].combine_chunks(), table)
        folders = [loaded.metadata_folder, join(metadata.location, "metadata")]
        self._add(pa.array([join(folder, VERSION_HINT) for folder in folders], pa.string()), table)
        manifests = [item for item in listed if item.identity not in self._manifests_read]
        for stored in self._entries(loaded, manifests):
            self._add(stored, table)
        self._snapshots_read |= {snapshot.snapshot_id for snapshot in unread}
        self._manifests_read |= {item.identity for item in manifests}

    def unread(self, metadata: TableMetadata) -> list[Snapshot]:
        """Return the snapshots that `add` would read."""
        read = self._snapshots_read
        return [each for each in metadata.snapshots if each.snapshot_id not in read]

    def _entries(
        self, loaded: LoadedTable, manifests: Sequence[ManifestFile]
    ) -> Iterator[pa.Array]:
        scanned = scan_manifests(self._context, loaded.metadata, manifests, _LOCATION)
        for part in scanned:
            yield from part.rows.table["location"].chunks

    def add_files(self, locations: Sequence[str]) -> None:
        """Take in files that the table refers to by way of others."""
        self._add_known(pa.array(locations, pa.string()))

    @property
    def known(self) -> KnownLocations:
        """The locations of the files, in every spelling."""
        return self._files.locations

    def reach(self, locations: pa.Array) -> pa.BooleanArray:
        """Return whether the table refers to each file, by any name of the folder that it lies in.

        Shape: one flag per location. Order: kept.
        """
        return self._files.contain(locations)

    def _add(self, stored: pa.Array, table: str) -> None:
        self._add_known(stored)
        self.add_files([join(table, location) for location in relative_ones(stored).to_pylist()])
        if self._are_local:
            self.add_files(linked_files(self._elsewhere(stored)))
        self.doubtful |= self._same_store.doubtful(stored, self._places)

    def _elsewhere(self, stored: pa.Array) -> pa.Array:
        """Return the locations that do not begin as one of the places does."""
        for place in self._places:
            stored = stored.filter(pc.invert(pc.starts_with(stored, place.rstrip("/") + "/")))
        return stored

    def _add_known(self, stored: pa.Array) -> None:
        if not len(stored):
            return
        self._files.add(stored)
        for ways in self._other_ways:
            self._files.add(pa.array(ways.of(stored), pa.string()))


class OtherWays:
    """Locations below `base` that stored ones elsewhere may mean.

    One that goes on as the base ends, with its name and a path below it, may be the same file by
    way of a mount or a gateway: `dbfs:/mnt/lake/t/a` and `s3://lake/t/a`.
    """

    def __init__(self, base: str) -> None:
        self._base = base.rstrip("/")
        path = self._base[len(locations.before_path(self._base)) :]
        self._below = f"{locations.UP_TO_PATH}{re.escape(path)}/" if path else locations.UP_TO_PATH
        self._tail = f"/{locations.name(self._base)}/"

    def of(self, stored: pa.Array) -> list[str]:
        """Return the locations that some of the stored ones may have too. Order: none."""
        import pyarrow.compute as pc

        others = stored.filter(pc.invert(pc.starts_with(stored, f"{self._base}/")))
        alike = others.filter(pc.match_substring(others, self._tail))
        elsewhere = alike.filter(pc.invert(pc.match_substring_regex(alike, self._below)))
        ways: list[str] = []
        for location in elsewhere.to_pylist():
            tails = {location.partition(self._tail)[2], location.rpartition(self._tail)[2]}
            ways += [f"{self._base}/{tail}" for tail in tails]
        return ways
