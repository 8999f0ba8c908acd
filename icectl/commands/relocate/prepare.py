"""Everything that a relocation writes, made beforehand: new files wait in a temporary folder.

So a dry run has done all that could fail but the writing, and the plan is what is written.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.live_entries import RowlessFiles
from icectl.commands.relocate import rewrite
from icectl.commands.relocate.plan import (
    ADDED_SIZE,
    REMOVED_SIZE,
    TOTAL_SIZE,
    Move,
    Renames,
    Rewritten,
)
from icectl.entries import rows as entry_rows
from icectl.entries.files import FileKind, Files, distinct, of_other_kinds, rows, together
from icectl.entries.inherit import inherit
from icectl.errors import CorruptTable, MissingFile, SelfCheckFailed
from icectl.format.manifest import Content, ManifestContent, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.storage import location as locations
from icectl.table.context import TableContext
from icectl.table.dangling import check_footers
from icectl.table.guard import ENTRY_COLUMNS, check_entries, check_lists
from icectl.table.manifest_lists import distinct_manifests, manifests_by_snapshot
from icectl.table.manifests import scan_manifests
from icectl.table.reachable import GatheredFiles, Live, all_manifests, every_statistics_file
from icectl.table.reading import in_threads, naming, read_file

DELETES = (FileKind.POSITION_DELETE_FILES, FileKind.DELETION_VECTOR_FILES)
_LEAVES = (Content.DATA_MANIFEST, Content.DELETE_MANIFEST)
_SIZES = frozenset({"location", "status", "file_size_in_bytes"})
_COUNTED = ["manifest", "status", "location", "file_size_in_bytes"]
_SIZE_UNKNOWN = 2**20


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """A new file that is not written yet: where it goes, and where its bytes wait."""

    location: str
    waiting: Path
    size_bytes: int
    kind: FileKind


@dataclass(frozen=True, slots=True)
class Prepared:
    """All new files but the metadata file, and the files that the table keeps.

    `lists` are new locations of manifest lists, roots and embedded manifests by the old ones.
    `kept` have their old locations. `folders` are those of new delete files. `size_changes` are
    what counters of bytes in snapshots' summaries change by, by snapshot id.
    """

    files: Sequence[WaitingFile]
    lists: dict[str, str]
    kept: Files
    folders: tuple[str, ...]
    size_changes: Mapping[int, Mapping[str, int]]

    @property
    def counts(self) -> dict[str, int]:
        """Count the new files by kind."""
        counts = Counter(file.kind for file in self.files)
        return {kind.name.lower(): counts[kind] for kind in FileKind if counts[kind]}


@dataclass(slots=True)
class Preparation:
    """Makes the new files of one relocation.

    `context` reads files of the table by the locations in its metadata; `folder` is where new
    metadata go, `uuid` is in each new name, `temporary` is where bytes wait. Unless it
    `trusts_summaries`, snapshots may list fewer files than their summaries say.
    """

    context: TableContext
    move: Move
    metadata: TableMetadata
    folder: str
    uuid: str
    temporary: Path
    trusts_summaries: bool
    names: Renames = field(init=False)
    _made: list[WaitingFile] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = Renames(self.move, self.metadata)

    def run(self) -> Prepared:
        """Make all new files.

        Raises: Refused, for a location that is not to be moved; MissingFile; CorruptTable;
        Unsupported; StorageError; Incomplete.
        Cost: each manifest list, manifest and delete file is read and written once; the disk holds
        the new ones.
        """
        metadata = self.metadata
        statistics = every_statistics_file(metadata)
        self._check_moved(location for location, _, _ in rows(statistics))
        self._check_moved(place for place, _, _ in self._lists())
        lists = manifests_by_snapshot(self.context, metadata, metadata.snapshots)
        manifests = all_manifests(lists, metadata.snapshots)
        self._check_moved(item.manifest_path for item in manifests)
        gathered = GatheredFiles()
        Live(self.context, metadata).read(manifests, gathered.add).check(lists)
        live = distinct(gathered.files)
        if self.trusts_summaries:
            check_lists(metadata, lists)
        self._check_moved(location for location, _, _ in rows(live))
        has_deletes = any(one.content is ManifestContent.DELETES for one in manifests)
        rowless = RowlessFiles(metadata, manifests)
        for part in scan_manifests(self.context, metadata, manifests, ENTRY_COLUMNS):
            alive = entry_rows.live(inherit(part.rows, manifests))
            check_entries(metadata, alive, rowless, beside_deletes=has_deletes)
            check_footers(self.context, entry_rows.deletion_vectors(alive))
        described = pa.array([*map(locations.loosest_key, rowless.names)], pa.string())
        for location in live.table.filter(pc.is_in(live.table["key"], described))["location"]:
            message = f"an entry names `{location}`, which is a file without rows"
            raise CorruptTable(message, rule="R-063")  # what it means would stay behind
        if any(FileKind(kind) is FileKind.POSITION_DELETE_FILES for _, kind, _ in rows(live)):
            self.names.data_files = frozenset(
                locations.name(place)
                for place, kind, _ in rows(live)
                if kind == FileKind.DATA_FILES
            )
        deletes = [row for row in rows(live) if FileKind(row[1]) in DELETES]
        self._write("rewriting delete files", deletes, self._delete_file)
        by_location = {
            self.names.key(item.manifest_path): (item.manifest_path, item.manifest_length)
            for item in manifests
            if not item.in_root
        }
        for location, size in self._of_roots(_LEAVES):
            by_location.setdefault(self.names.key(location), (location, size))
        manifests_written = [
            (location, int(FileKind.MANIFESTS), size) for location, size in by_location.values()
        ]
        self._write("rewriting manifests", manifests_written, self._manifest)
        self._write("rewriting vectors of manifests", self._bitmaps(), self._bitmap)
        self._write("rewriting manifest lists", self._lists(), self._list)
        kept_files = of_other_kinds(together([live, statistics]), DELETES)
        folders = {locations.parent(file.location) for file in self._made if file.kind in DELETES}
        changes = self._size_changes(lists)
        named = [place for place, _, _ in self._lists()]
        for snapshot in self.metadata.snapshots:
            named += snapshot.manifests or ()
        return Prepared(
            self._made,
            {place: self.names.of(place) for place in named},
            kept_files,
            tuple(sorted(folders)),
            changes,
        )

    def _size_changes(
        self, lists: Mapping[int, Sequence[ManifestFile]]
    ) -> Mapping[int, Mapping[str, int]]:
        """Count the growth of position delete files by snapshot (R-031)."""
        if not any(file.kind is FileKind.POSITION_DELETE_FILES for file in self._made):
            return {}
        of_deletes = [
            item
            for item in distinct_manifests(lists.values())
            if item.content is ManifestContent.DELETES and not item.in_root
        ]
        grown = [Counter[Status]() for _ in of_deletes]
        for part in scan_manifests(self.context, self.metadata, of_deletes, _SIZES):
            for row in part.rows.table.select(_COUNTED).to_pylist():
                new = self.names.file(row["location"])
                if new is not None and new.file_format is not None:
                    size = new.size_bytes - row["file_size_in_bytes"]
                    grown[row["manifest"]][Status(row["status"])] += size
        by_path = {
            item.manifest_path: totals for item, totals in zip(of_deletes, grown, strict=True)
        }
        changes = {}
        for snapshot_id, listed in lists.items():
            totals = Counter[str]()
            for item in listed:
                sizes = by_path.get(item.manifest_path, Counter[Status]())
                totals[TOTAL_SIZE] += sizes[Status.ADDED] + sizes[Status.EXISTING]
                if item.added_snapshot_id == snapshot_id:
                    totals[ADDED_SIZE] += sizes[Status.ADDED]
                    totals[REMOVED_SIZE] += sizes[Status.DELETED]
            changes[snapshot_id] = totals
        return changes

    def _check_moved(self, locations_read: Iterator[str] | Sequence[str]) -> None:
        for location in locations_read:
            self.names.of(location)

    def _write(
        self,
        phase: str,
        items: Sequence[tuple[str, int, int | None]],
        make: Callable[[str, int, int], Rewritten | None],
    ) -> None:
        """Write new files for old ones; `make` gets location, kind and a unique number."""
        self.context.progress.phase(phase, total=len(items))
        start = len(self._made)

        def work(numbered: tuple[int, tuple[str, int, int | None]]) -> Rewritten | None:
            self.context.deadline.check()
            number, (location, kind, _) = numbered
            with naming(location):
                return make(location, kind, start + number)

        sizes = [size or _SIZE_UNKNOWN for _, _, size in items]
        results = in_threads(work, enumerate(items), sizes, threads=self.context.concurrency)
        with closing(results):
            for (location, kind, _), new in zip(items, results, strict=True):
                self.context.progress.advance(1)
                if new is not None:
                    self.names.add(location, new)
                    self._made.append(
                        WaitingFile(
                            new.location,
                            self._waiting(new.location),
                            new.size_bytes,
                            FileKind(kind),
                        )
                    )

    def _waiting(self, location: str) -> Path:
        return self.temporary / locations.name(location)

    def _wait(self, location: str, content: bytes, **details: object) -> Rewritten:
        path = self._waiting(location)
        if path.exists():
            raise SelfCheckFailed(f"two new files have the name {path.name}")
        path.write_bytes(content)
        return Rewritten(location, len(content), **details)  # type: ignore[arg-type]

    # -- delete files -----------------------------------------------------------------------------

    def _delete_file(self, location: str, kind: int, number: int) -> Rewritten:
        content = read_file(self.context.store, location)
        moved = self.move.of(self.names.whole(location))
        stem = locations.name(moved).rpartition(".")[0] or locations.name(moved)
        name = f"{stem}-{number}-{self.uuid}"
        folder = locations.parent(moved)
        if FileKind(kind) is FileKind.DELETION_VECTOR_FILES:
            written = rewrite.vectors(content, self.names)
            return self._wait(locations.join(folder, f"{name}.puffin"), written)
        written, paths = rewrite.position_deletes(content, self.names)
        place = locations.join(folder, f"{name}.parquet")
        return self._wait(place, written, file_format="parquet", paths=paths)

    # -- manifests and leaves ---------------------------------------------------------------------

    def _of_roots(self, contents: Collection[Content]) -> Iterator[tuple[str, int]]:
        """Yield location and size of the contents that all roots list (R-192)."""
        for snapshot in self.metadata.snapshots:
            if snapshot.root_manifest is not None:
                content = read_file(self.context.store, snapshot.root_manifest)
                with naming(snapshot.root_manifest):
                    listed = rewrite.listed_in_root(content, contents)
                for location, size in listed:
                    yield self.names.whole(location), size

    def _manifest(self, location: str, _: int, number: int) -> Rewritten:
        content = read_file(self.context.store, location)
        ending = "parquet" if rewrite.is_parquet(content) else "avro"
        place = locations.join(self.folder, f"{self.uuid}-m{number}.{ending}")
        return self._wait(place, rewrite.manifest(content, self.names))

    # -- vectors of leaves ------------------------------------------------------------------------

    def _bitmaps(self) -> Sequence[tuple[str, int, int | None]]:
        """List the Puffin files of vectors of leaves."""
        by_location = {
            self.names.key(location): location
            for location, _ in self._of_roots((Content.MANIFEST_DV,))
        }
        kind = int(FileKind.MANIFESTS)
        return [(location, kind, None) for location in by_location.values()]

    def _bitmap(self, location: str, _: int, number: int) -> Rewritten | None:
        place = locations.join(self.folder, f"{self.uuid}-{number}-mdv.puffin")
        with suppress(MissingFile):  # of a vector that is no more
            written = rewrite.vectors(read_file(self.context.store, location), self.names)
            return self._wait(place, written)
        return None

    # -- manifest lists and roots -----------------------------------------------------------------

    def _lists(self) -> Sequence[tuple[str, int, int | None]]:
        """List the manifest lists and roots, each once."""
        lists = [
            snapshot.root_manifest or snapshot.manifest_list for snapshot in self.metadata.snapshots
        ]
        kind = int(FileKind.MANIFEST_LISTS)
        return [(place, kind, None) for place in dict.fromkeys(lists) if place is not None]

    def _list(self, location: str, _: int, number: int) -> Rewritten:
        snapshot = next(
            one
            for one in self.metadata.snapshots
            if location in (one.root_manifest, one.manifest_list)
        )
        content = read_file(self.context.store, location)
        if snapshot.root_manifest is not None:
            written = rewrite.manifest(content, self.names)
            name = f"root-{snapshot.snapshot_id}-{number}-{self.uuid}.parquet"
        else:
            written = rewrite.manifest_list(content, self.names)
            name = f"snap-{snapshot.snapshot_id}-{number}-{self.uuid}.avro"
        return self._wait(locations.join(self.folder, name), written)
