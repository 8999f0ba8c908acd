"""Reading snapshots up to version 3: manifest lists, or embedded locations, and Avro manifests."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from icectl.checks.identity import check_own_list
from icectl.entries.locations import listed_with_scheme, with_schemes
from icectl.entries.rows import Entries, RawEntries
from icectl.errors import CorruptTable, OtherFile, StorageError, Unsupported
from icectl.files.manifest.manifest import read_manifest, read_manifests
from icectl.files.manifest.manifest_list import (
    ManifestListReader,
    read_list_properties,
    read_manifest_list,
)
from icectl.format.manifest import ManifestContent, ManifestFile, ManifestHeader
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.storage.store import Store
from icectl.table.manifest_lists import ManifestListRead, MarkedManifest, SnapshotReader
from icectl.table.reading import Problem, decode_file, of_one_file, read_file, try_file

if TYPE_CHECKING:  # which signatures name
    from icectl.checks.rule import Finding
    from icectl.entries.conditions import Predicate

_MANY_LISTS = 16
"""From so many on it pays to load the compiled scan for manifest lists."""


def reader(metadata: TableMetadata, snapshots: int) -> SnapshotReader:
    """Return a reader for so many snapshots: the compiled scan takes its time to load."""
    many = snapshots >= _MANY_LISTS
    return ListReader(metadata, ManifestListReader().read if many else read_manifest_list)


@dataclass(frozen=True, slots=True)
class ListReader:
    """Reads snapshots of one table; `read_list` decodes a manifest list."""

    metadata: TableMetadata
    read_list: Callable[[bytes], tuple[ManifestFile, ...]] = read_manifest_list

    def manifests(
        self, store: Store, snapshot: Snapshot, *, sound: bool = True
    ) -> tuple[ManifestFile, ...]:
        """Read what a manifest list lists, or a version 1 snapshot embeds (R-030)."""
        location = snapshot.manifest_list
        if location is not None:
            content = read_file(store, location)
            manifests = decode_file(location, lambda: self._decoded(snapshot, content, sound=sound))
            return tuple(listed_with_scheme(self.metadata, item) for item in manifests)
        return tuple(self._embedded(store, location) for location in snapshot.manifests or ())

    def manifests_of(
        self, store: Store, snapshot: Snapshot, within: "Predicate"
    ) -> tuple[tuple[ManifestFile, ...], bool]:
        """Read the same: nothing is left out."""
        del within
        return self.manifests(store, snapshot), False

    def try_manifests(self, store: Store, snapshot: Snapshot) -> ManifestListRead:
        """Read the same, damaged and missing files included."""
        location = snapshot.manifest_list
        if location is None:
            return self._try_embedded(store, snapshot)
        content = try_file(store, location)
        if not isinstance(content, bytes):
            return ManifestListRead(snapshot, problems=((location, content),))
        try:
            manifests = decode_file(location, partial(self._decoded, snapshot, content))
        except OtherFile as error:
            return ManifestListRead(
                snapshot, size_bytes=len(content), problems=((location, error),)
            )
        except (CorruptTable, Unsupported) as error:
            problems = ((location, error),)
            read = ManifestListRead(snapshot, size_bytes=len(content), problems=problems)
            return read if isinstance(error, Unsupported) else _shown(read, content)
        return ManifestListRead(snapshot, manifests, read_list_properties(content), len(content))

    def _decoded(
        self, snapshot: Snapshot, content: bytes, *, sound: bool = True
    ) -> tuple[ManifestFile, ...]:
        """Return the rows of a list, which is that of the snapshot where they have to be `sound`.

        Raises: CorruptTable R-008, R-050, R-053; OtherFile R-054; Unsupported.
        """
        manifests = self.read_list(content)
        if sound:
            check_own_list(self.metadata, snapshot, read_list_properties(content), manifests)
        return manifests

    def described(
        self, store: Store, snapshot: Snapshot, manifests: Sequence[ManifestFile]
    ) -> tuple[ManifestFile, ...]:
        """A manifest list says all that there is to say."""
        del store, snapshot
        return tuple(manifests)

    def root(self, store: Store, snapshot: Snapshot) -> None:
        """There is none."""
        del store, snapshot

    def marked(self, store: Store, snapshot: Snapshot) -> Sequence[MarkedManifest]:
        """Manifest lists do not tell."""
        del store, snapshot
        return ()

    def deleted_only(self, manifest: ManifestFile) -> ManifestFile:
        """Nothing is dead in any."""
        return manifest

    def decode(
        self,
        contents: Sequence[bytes],
        manifest: ManifestFile,
        *,
        columns: frozenset[str],
        indices: Sequence[int],
        threads: int = 1,
    ) -> tuple[Sequence[ManifestHeader], RawEntries]:
        """Decode manifests of one spec, a large one by several threads."""
        spec = self.metadata.spec(manifest.partition_spec_id)
        headers, rows = read_manifests(
            contents, columns=columns, manifests=indices, spec=spec, threads=threads
        )
        return headers, with_schemes(self.metadata, rows)

    def risks(
        self, snapshot: Snapshot, manifests: Sequence[ManifestFile], entries: Entries
    ) -> Iterator["Finding"]:
        """Find what would change the meaning of rows."""
        from icectl.checks.row_risks import LiveRows
        from icectl.checks.rules import RULES

        del manifests
        return RULES.findings(LiveRows(entries, self.metadata, snapshot))

    def _try_embedded(self, store: Store, snapshot: Snapshot) -> ManifestListRead:
        manifests: list[ManifestFile] = []
        problems: list[tuple[str, Problem]] = []
        for location in snapshot.manifests or ():
            try:
                manifests.append(self._embedded(store, location))
            except (CorruptTable, Unsupported, StorageError) as error:
                problems.append((location, of_one_file(error)))
        return ManifestListRead(snapshot, tuple(manifests), problems=tuple(problems))

    def _embedded(self, store: Store, location: str) -> ManifestFile:
        """Describe a manifest that a version 1 snapshot embeds; its counts are unknown (R-051)."""
        content = read_file(store, location)
        spec = self.metadata.default_spec
        header, _ = decode_file(
            location,
            lambda: read_manifest(content, columns=frozenset(), manifest=0, spec=spec),
        )
        return ManifestFile(
            manifest_path=location,
            manifest_length=len(content),
            partition_spec_id=header.spec_id or 0,
            content=ManifestContent.DATA,
            sequence_number=0,
            min_sequence_number=0,
            added_snapshot_id=None,
        )


def _shown(read: ManifestListRead, content: bytes) -> ManifestListRead:
    """Return a damaged list with its manifests, where it is good enough to be shown."""
    try:
        manifests = read_manifest_list(content, to_show=True)
    except CorruptTable:
        return read
    properties = read_list_properties(content)
    return replace(read, manifests=manifests, properties=properties, is_odd=True)
