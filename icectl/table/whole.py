"""The whole parts of a broken table, to go back to: a metadata file, a snapshot.

And what is lost where the broken snapshot stays, without what it misses.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
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
from icectl.entries.rows import (
    PLANNING_COLUMNS,
    Entries,
    RawEntries,
    by_row,
    concat,
    data_files,
    live,
    total,
    with_manifest_number,
)
from icectl.errors import CorruptTable, MissingFile, OtherFile, StorageError, Unsupported
from icectl.files.metadata_file import find_table_uuid
from icectl.format.manifest import Content, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot, ancestors
from icectl.storage.store import Store
from icectl.table.context import TableContext
from icectl.table.losses import Loss, together
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import ManifestRead, try_manifests
from icectl.table.reading import of_one_file, read_or_none
from icectl.table.row_safety import check_live
from icectl.table.stored import Discrepancy, compare_with_store

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

    def loss_of_dropping(self, snapshot: Snapshot) -> Loss | None:
        """Return what is lost at most where all that a snapshot misses is taken from the table.

        Files that are known to be damaged count as missing. None where more than that is wrong with
        it, nothing is missing, or no row would be left; and for version 4, whose roots and leaves
        are not written anew.
        Raises: StorageError of the store; Incomplete.
        """
        if self.metadata.format_version > 3:
            return None
        try:
            lost, parts = [], []
            for manifest, one in self._read_manifests(snapshot):
                if one.rows is not None:
                    parts.append(inherit(with_manifest_number(one.rows, 0), [manifest]))
                elif _is_gone(one.problem):
                    lost.append(_counted(manifest))
                else:
                    return None
            live_entries = live(concat(parts))
            missing = self._missing(live_entries)
        except (FileNotFoundError, CorruptTable, Unsupported):
            return None
        if missing is None or not [*lost, *missing]:
            return None
        loss = together([*lost, *missing])
        rows_found = total(data_files(live_entries), "record_count")
        is_all = rows_found <= sum(one.rows or 0 for one in missing)
        return None if is_all else loss

    def damaged_files(self, snapshot: Snapshot) -> Sequence[str]:
        """Return the live files of a snapshot that are known to be damaged, and there.

        Raises: as loss_of_dropping.
        """
        locations: set[str] = set()
        with suppress(FileNotFoundError, CorruptTable, Unsupported):
            for manifest, one in self._read_manifests(snapshot):
                if one.rows is not None:
                    locations |= _live_locations(one.rows, manifest)
        damaged = sorted(self.broken & locations)
        return [one for one in damaged if self.context.store.stat(one) is not None]

    def not_named(self, snapshot: Snapshot, locations: frozenset[str]) -> frozenset[str]:
        """Return those of some locations that a snapshot does not need.

        None of them where it cannot be read in whole.
        Raises: StorageError of the store; Incomplete.
        """
        try:
            named = self._named(snapshot)
        except (FileNotFoundError, CorruptTable, Unsupported):
            return frozenset()
        return frozenset(one for one in locations - named if "/" in one)

    def _named(self, snapshot: Snapshot) -> frozenset[str]:
        """Return the list, the manifests and the live files of a snapshot.

        Raises: FileNotFoundError, CorruptTable, Unsupported, where one cannot be read.
        """
        named = {snapshot.manifest_list or snapshot.root_manifest or ""}
        for manifest, one in self._read_manifests(snapshot):
            if one.problem is not None:
                raise one.problem
            named.add(manifest.manifest_path)
            _, rows = one.content
            named |= _live_locations(rows, manifest)
        return frozenset(named)

    def _read_manifests(self, snapshot: Snapshot) -> Iterator[tuple[ManifestFile, ManifestRead]]:
        """Yield the manifests of a snapshot as its list has them, damaged ones included."""
        manifests = read_snapshot_manifests(self.context.store, self.metadata, snapshot)
        read = try_manifests(self.context, self.metadata, manifests, PLANNING_COLUMNS)
        with closing(read):
            yield from zip(manifests, read, strict=True)

    def _missing(self, alive: Entries) -> Sequence[Loss] | None:
        """Return the loss of each live file that is not there, as far as the level looks.

        None where the size of one is another than its entry says.
        """
        gone = set(self.broken)
        if self.level == "files":
            named = distinct(content_files(alive, sized_keys(alive)))
            compared = compare_with_store(self.context, named, self.metadata.location)
            gone |= {one.location for one in compared.discrepancies if _is_absent(one)}
            if not {one.location for one in compared.discrepancies} <= gone:
                return None
        columns = ("location", "content", "record_count")
        return [
            Loss(rows) if content == Content.DATA else Loss(rows_back=_deleted(content, rows))
            for location, content, rows in by_row(alive, *columns)
            if location in gone
        ]

    def _entries(self, manifests: Sequence[ManifestFile]) -> Entries | None:
        """Return the entries of manifests, `manifest` being the place there.

        None where one is broken.
        """
        parts = []
        for place, manifest in enumerate(manifests):
            if manifest not in self._read:
                self._read[manifest] = self._try(manifest)
            entries = self._read[manifest]
            if entries is None:
                return None
            parts.append(with_manifest_number(entries, place))
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


def _live_locations(rows: RawEntries, manifest: ManifestFile) -> set[str]:
    alive = live(inherit(with_manifest_number(rows, 0), [manifest]))
    return set(alive.table["location"].to_pylist())


def _is_gone(problem: Exception | None) -> bool:
    """Whether nobody can read a manifest any more: it is missing, another's, or no Avro file."""
    is_other = isinstance(problem, MissingFile | OtherFile)
    return is_other or (isinstance(problem, CorruptTable) and problem.rule == "R-008")


def _is_absent(one: Discrepancy) -> bool:
    return one.found is None and one.problem is None


def _counted(lost: ManifestFile) -> Loss:
    """Return the loss of a manifest, by its row in the list."""
    counts = (lost.added_rows_count, lost.existing_rows_count)
    rows = None if None in counts else sum(count or 0 for count in counts)
    return Loss(rows) if lost.content is ManifestContent.DATA else Loss(rows_back=rows)


def _deleted(content: int, rows: int) -> int | None:
    """Return the rows that a delete file deletes at most; None for one that goes by value."""
    return rows if content == Content.POSITION_DELETES else None
