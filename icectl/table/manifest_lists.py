"""Read the manifests of snapshots: one interface with a reader for each layout.

In any layout, a snapshot is a list of manifests with their deleted positions, and a manifest is
a table of entries with the same columns.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from icectl.checks.identity import DoubtfulLists, check_own_list
from icectl.entries.locations import listed_with_scheme, with_schemes
from icectl.entries.rows import Entries, RawEntries
from icectl.errors import CorruptTable, OtherFile, StorageError, Unsupported
from icectl.files.manifest.manifest import read_manifest, read_manifests
from icectl.files.manifest.manifest_list import (
    ManifestListReader,
    read_list_properties,
    read_manifest_list,
)
from icectl.format.layout import Layout, layout_of
from icectl.format.manifest import (
    ManifestContent,
    ManifestFile,
    ManifestHeader,
    ManifestIdentity,
    RootManifest,
    Status,
)
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.storage.store import Store
from icectl.table.context import TableContext
from icectl.table.reading import (
    Problem,
    decode_file,
    of_one_file,
    read_file,
    read_in_threads,
    try_file,
)

if TYPE_CHECKING:  # a start without findings and conditions does not load these
    from icectl.checks.live_entries import RowlessFiles
    from icectl.checks.rule import Finding, RuleSet
    from icectl.entries.conditions import Predicate

_OTHER_READERS: Mapping[Layout, str] = {Layout.SFC_1: "icectl.sfc1.reader"}
"""Modules with a function `reader`, by layout: loaded only for tables that need them."""


@dataclass(frozen=True, slots=True)
class ManifestListRead:
    """The manifests that a snapshot lists, and the problems with them, by location.

    `properties` is the key-value metadata of a manifest list (R-054); None without a list. With
    `is_odd` all manifests could be read in spite of the problems, and may be shown.
    """

    snapshot: Snapshot
    manifests: tuple[ManifestFile, ...] = ()
    properties: Mapping[str, str] | None = None
    size_bytes: int = 0
    problems: tuple[tuple[str, Problem], ...] = ()
    is_odd: bool = False


@dataclass(frozen=True, slots=True)
class MarkedManifest:
    """A manifest whose entries with these statuses a snapshot added or removed.

    Other entries are deleted in `manifest`. With `unless_live`, files count as removed only if they
    are not live elsewhere in the snapshot.
    """

    manifest: ManifestFile
    added: frozenset[Status] = frozenset()
    removed: frozenset[Status] = frozenset()
    unless_live: bool = False


class SnapshotReader(Protocol):
    """Reads the snapshots of one layout of one table; what only some layouts have has defaults."""

    metadata: TableMetadata

    def manifests(
        self, store: Store, snapshot: Snapshot, *, sound: bool = True
    ) -> tuple[ManifestFile, ...]:
        """Read the manifests of a snapshot; it need not be `sound` to be shown.

        Order: as listed.
        Raises: MissingFile; CorruptTable; Unsupported; StorageError.
        """

    def manifests_of(
        self, store: Store, snapshot: Snapshot, within: "Predicate"
    ) -> tuple[tuple[ManifestFile, ...], tuple[ManifestFile, ...]]:
        """Read the same as two: those that rows matching a condition are read by, and the others.

        The others list data files without such a row, or deletes for these alone.
        Order, errors: as `manifests`.
        """

    def try_manifests(self, store: Store, snapshot: Snapshot) -> ManifestListRead:
        """Read the manifests of a snapshot, with damaged and missing files as problems.

        Raises: StorageError, if the store itself fails.
        """

    def described(
        self, store: Store, snapshot: Snapshot, manifests: Sequence[ManifestFile]
    ) -> tuple[ManifestFile, ...]:
        """Fill in the members of manifests that only views show.

        Order: kept.
        Raises: as `manifests`.
        """
        del store, snapshot
        return tuple(manifests)

    def manifest_target(self, target_size_bytes: int) -> int:
        """Return the size that new manifests are cut to if another one is asked for."""
        return target_size_bytes

    def root(self, store: Store, snapshot: Snapshot) -> RootManifest | None:
        """Read the members of a root beside its manifests; None for a layout without roots.

        Raises: as `manifests`.
        """
        del store, snapshot
        return None

    def marked(self, store: Store, snapshot: Snapshot) -> Sequence[MarkedManifest]:
        """Return the manifests with a snapshot's changes; none if its layout does not record them.

        Order: as listed.
        Raises: as `manifests`.
        """
        del store, snapshot
        return ()

    def deleted_only(self, manifest: ManifestFile) -> ManifestFile:
        """Return the same manifest with live and deleted positions swapped, where it has such."""
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
        """Decode manifests like `manifest`, the first of them, with their deleted positions.

        Shape: `columns`; `manifest` is the index in `indices`. So many `threads` may share it.
        Order: as stored.
        Raises: CorruptTable; Unsupported.
        """

    def doubts(
        self, manifest: ManifestFile, header: ManifestHeader, size_bytes: int, rows: RawEntries
    ) -> Sequence["Finding"]:
        """Find what speaks against a manifest that a list or root describes, as it is stored.

        Raises: OtherFile, where it is another one.
        """
        from icectl.checks.rules import doubts_of_manifest

        return doubts_of_manifest(self.metadata, manifest, header, size_bytes, rows)

    @property
    def rules(self) -> "RuleSet":
        """The rules of what its snapshots hold."""
        from icectl.checks.rules import RULES

        return RULES

    def risks(
        self,
        snapshot: Snapshot,
        manifests: Sequence[ManifestFile],
        entries: Entries,
        *,
        beside_deletes: bool = False,
        rowless: "RowlessFiles | None" = None,
    ) -> Iterator["Finding"]:
        """Find doubts about the live entries of a snapshot, or their rows.

        Without `manifests` they are a part of them, perhaps `beside_deletes`. They must name none
        of the `rowless` files, which are those of the table and the manifests unless given.
        """


def divided(
    manifests: Sequence[ManifestFile], chosen: Sequence[bool]
) -> tuple[tuple[ManifestFile, ...], tuple[ManifestFile, ...]]:
    """Return the chosen manifests, and the others. Order: kept."""
    pairs = list(zip(manifests, chosen, strict=True))
    return (
        tuple(manifest for manifest, is_chosen in pairs if is_chosen),
        tuple(manifest for manifest, is_chosen in pairs if not is_chosen),
    )


def reader_of(metadata: TableMetadata, layout: Layout, *, snapshots: int = 1) -> SnapshotReader:
    """Return the reader of a table's snapshots of one layout, for so many of them."""
    if layout in _OTHER_READERS:
        reader: SnapshotReader = import_module(_OTHER_READERS[layout]).reader(metadata, snapshots)
        return reader
    many = snapshots >= _MANY_LISTS  # else loading the compiled scan takes longer than it saves
    return ListReader(metadata, ManifestListReader().read if many else read_manifest_list)


def snapshot_reader(metadata: TableMetadata, snapshot: Snapshot) -> SnapshotReader:
    """Return the reader of one snapshot."""
    return reader_of(metadata, layout_of(snapshot))


def read_snapshot_manifests(
    store: Store, metadata: TableMetadata, snapshot: Snapshot, *, sound: bool = True
) -> tuple[ManifestFile, ...]:
    """Read the manifests that a snapshot lists; it need not be `sound` to be shown.

    Order: as listed.
    Raises: MissingFile; CorruptTable; Unsupported; StorageError.
    """
    return snapshot_reader(metadata, snapshot).manifests(store, snapshot, sound=sound)


def try_manifest_lists(
    context: TableContext, metadata: TableMetadata, snapshots: Sequence[Snapshot]
) -> Generator[ManifestListRead, None, None]:
    """Read the manifests of snapshots, with damaged and missing files as problems.

    Order: that of `snapshots`.
    Raises: StorageError, if the store itself fails.
    """
    context.progress.phase("reading manifest lists", total=len(snapshots))
    reader = _readers(metadata, snapshots)

    def read(snapshot: Snapshot) -> ManifestListRead:
        read = reader(layout_of(snapshot)).try_manifests(context.store, snapshot)
        context.progress.advance(1)
        return read

    yield from read_in_threads(read, snapshots, [1] * len(snapshots), threads=context.concurrency)


def manifests_by_snapshot(
    context: TableContext, metadata: TableMetadata, snapshots: Sequence[Snapshot]
) -> Mapping[int, tuple[ManifestFile, ...]]:
    """Read the manifests of several snapshots, by snapshot id.

    Order: that of `snapshots`.
    Raises: as read_snapshot_manifests.
    """
    context.progress.phase("reading manifest lists", total=len(snapshots))
    reader = _readers(metadata, snapshots)

    def read(snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        manifests = reader(layout_of(snapshot)).manifests(context.store, snapshot)
        context.progress.advance(1)
        return manifests

    lists = read_in_threads(read, snapshots, [1] * len(snapshots), threads=context.concurrency)
    return {
        snapshot.snapshot_id: manifests
        for snapshot, manifests in zip(snapshots, lists, strict=True)
    }


def _readers(
    metadata: TableMetadata, snapshots: Sequence[Snapshot]
) -> Callable[[Layout], SnapshotReader]:
    readers = {
        layout: reader_of(metadata, layout, snapshots=len(snapshots))
        for layout in dict.fromkeys(map(layout_of, snapshots))
    }
    return readers.__getitem__


def distinct_manifests(
    lists: Iterable[Sequence[ManifestFile]],
    compare: Callable[[ManifestFile, ManifestFile], None] = lambda _, __: None,
) -> tuple[ManifestFile, ...]:
    """Return every manifest of several manifest lists once, by location.

    One of version 4 has the files of vectors of all its rows. Otherwise `compare` gets the first
    row of a manifest and each that another list has.
    Order: first appearance.
    """
    # Lists that were read together share their rows; comparing values takes longer.
    rows = {id(manifest): manifest for manifests in lists for manifest in manifests}
    distinct: dict[ManifestIdentity, ManifestFile] = {}
    vectors: dict[ManifestIdentity, dict[str, None]] = {}
    for manifest in rows.values():
        known = distinct.setdefault(manifest.identity, manifest)
        if known is not manifest and manifest.status is None:
            compare(known, manifest)
        if known.dead_locations != manifest.dead_locations:
            places = vectors.setdefault(manifest.identity, dict.fromkeys(known.dead_locations))
            places.update(dict.fromkeys(manifest.dead_locations))
    for identity, places in vectors.items():
        distinct[identity] = replace(distinct[identity], dead_locations=tuple(places))
    return tuple(distinct.values())


_COUNTED = ("status", "record_count", "snapshot_id")
_COUNTS = tuple(f"{one.name.lower()}_{what}_count" for one in Status for what in ("files", "rows"))


def with_counts(
    store: Store, metadata: TableMetadata, manifest: ManifestFile, snapshot_id: int
) -> ManifestFile:
    """Return a manifest with what version 1 may leave out of its row, by reading it (R-171).

    One that no row is said to live in is read too. Without a word on who added it, the snapshot of
    its added files counts, if there is only one, else `snapshot_id`, which lists it.
    Raises: MissingFile; CorruptTable; Unsupported; StorageError.
    """
    is_empty = manifest.added_files_count == manifest.existing_files_count == 0
    known = (getattr(manifest, name) is not None for name in (*_COUNTS, "added_snapshot_id"))
    if not is_empty and all(known):
        return manifest
    content = read_file(store, manifest.manifest_path)
    spec = metadata.spec(manifest.partition_spec_id)
    _, raw = decode_file(
        manifest.manifest_path,
        lambda: read_manifest(content, columns=frozenset(_COUNTED), manifest=0, spec=spec),
    )
    counts: dict[str, Any] = dict.fromkeys(_COUNTS, 0)
    writers = set()
    columns = (raw.table[name].to_pylist() for name in _COUNTED)
    for status, record_count, added_by in zip(*columns, strict=True):
        name = Status(status).name.lower()
        counts[f"{name}_files_count"] += 1
        counts[f"{name}_rows_count"] += record_count
        if status == Status.ADDED:
            writers.add(added_by)
    adders = (manifest.added_snapshot_id, writers.pop() if len(writers) == 1 else None, snapshot_id)
    added = next(adder for adder in adders if adder is not None)
    return replace(manifest, added_snapshot_id=added, **counts)


_MANY_LISTS = 16
"""Manifest lists from which on the compiled scan pays."""


@dataclass(frozen=True, slots=True)
class ListReader(SnapshotReader):
    """Reads snapshots of one table; `read_list` decodes a manifest list."""

    metadata: TableMetadata
    read_list: Callable[[bytes], tuple[ManifestFile, ...]] = read_manifest_list
    doubtful: DoubtfulLists = field(default_factory=DoubtfulLists, compare=False)

    def manifests(
        self, store: Store, snapshot: Snapshot, *, sound: bool = True
    ) -> tuple[ManifestFile, ...]:
        """Read a manifest list, or the manifests that a version 1 snapshot embeds (R-030)."""
        location = snapshot.manifest_list
        if location is not None:
            content = read_file(store, location)
            manifests = decode_file(location, lambda: self._decoded(snapshot, content, sound=sound))
            if sound:
                self._check_doubts(snapshot, content, manifests)
            return tuple(listed_with_scheme(self.metadata, item) for item in manifests)
        return tuple(self._embedded(store, location) for location in snapshot.manifests or ())

    def manifests_of(
        self, store: Store, snapshot: Snapshot, within: "Predicate"
    ) -> tuple[tuple[ManifestFile, ...], tuple[ManifestFile, ...]]:
        from icectl.entries.may_match import manifests_may_match

        listed, metadata = self.manifests(store, snapshot), self.metadata
        may = manifests_may_match(listed, within, metadata.partition_specs, metadata.schemas)
        of_deletes = [manifest.content is ManifestContent.DELETES for manifest in listed]
        return divided(listed, (may | of_deletes).tolist())

    def try_manifests(self, store: Store, snapshot: Snapshot) -> ManifestListRead:
        location = snapshot.manifest_list
        if location is None:
            embedded: list[ManifestFile] = []
            problems: list[tuple[str, Problem]] = []
            for place in snapshot.manifests or ():
                try:
                    embedded.append(self._embedded(store, place))
                except (CorruptTable, Unsupported, StorageError) as error:
                    problems.append((place, of_one_file(error)))
            return ManifestListRead(snapshot, tuple(embedded), problems=tuple(problems))
        content = try_file(store, location)
        if not isinstance(content, bytes):
            return ManifestListRead(snapshot, problems=((location, content),))
        try:
            manifests = decode_file(location, partial(self._decoded, snapshot, content))
        except (CorruptTable, Unsupported) as error:
            problem = ((location, error),)
            read = ManifestListRead(snapshot, size_bytes=len(content), problems=problem)
            if isinstance(error, OtherFile | Unsupported):
                return read
            try:
                manifests = read_manifest_list(content, to_show=True)
            except CorruptTable:
                return read
            properties = read_list_properties(content)
            return replace(read, manifests=manifests, properties=properties, is_odd=True)
        return ManifestListRead(snapshot, manifests, read_list_properties(content), len(content))

    def _decoded(
        self, snapshot: Snapshot, content: bytes, *, sound: bool = True
    ) -> tuple[ManifestFile, ...]:
        """Return the rows of a list; `sound` ones must be the snapshot's own.

        Raises: CorruptTable R-008, R-050, R-053; OtherFile R-054; Unsupported.
        """
        manifests = self.read_list(content)
        if sound:
            check_own_list(self.metadata, snapshot, read_list_properties(content), manifests)
        return manifests

    def _check_doubts(
        self, snapshot: Snapshot, content: bytes, manifests: tuple[ManifestFile, ...]
    ) -> None:
        if self.doubtful.is_doubtful(self.metadata, snapshot, manifests):
            from icectl.checks.objects import ManifestList
            from icectl.checks.rule import refuse
            from icectl.checks.rules import RULES

            properties = read_list_properties(content)
            refuse(RULES.findings(ManifestList(self.metadata, snapshot, properties, manifests)))

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
        self,
        snapshot: Snapshot,
        manifests: Sequence[ManifestFile],
        entries: Entries,
        *,
        beside_deletes: bool = False,
        rowless: "RowlessFiles | None" = None,
    ) -> Iterator["Finding"]:
        from icectl.checks.live_entries import LiveRows, RowlessFiles

        rows = LiveRows(
            entries,
            self.metadata,
            snapshot,
            beside_deletes=beside_deletes,
            rowless=rowless or RowlessFiles(self.metadata, manifests),
        )
        return self.rules.findings(rows)

    def _embedded(self, store: Store, location: str) -> ManifestFile:
        """Describe a manifest that a version 1 snapshot embeds; its counts are unknown (R-051)."""
        content = read_file(store, location)
        spec = self.metadata.default_spec
        header, _ = decode_file(
            location, lambda: read_manifest(content, columns=frozenset(), manifest=0, spec=spec)
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
