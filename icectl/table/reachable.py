"""The files that snapshots reach, and all files that a table refers to, which are never orphans."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.catalog.protocol import LoadedTable
from icectl.checks.identity import difference
from icectl.checks.live_entries import RowlessFiles
from icectl.entries.columns import Hashes, Integers, Mask, distinct_count, mask_of, whole
from icectl.entries.files import FileKind, Files, content_files, distinct, files, together
from icectl.entries.inherit import inherit
from icectl.entries.locations import are_relative
from icectl.entries.rows import RawEntries, deletion_vectors, index_in, live, where
from icectl.errors import CorruptTable
from icectl.files.row_hash import row_hashes
from icectl.format.file_names import VERSION_HINT
from icectl.format.layout import Layout, layout_of, layout_of_manifest
from icectl.format.manifest import ManifestContent, ManifestFile, ManifestIdentity
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import PartitionStatisticsFile, Snapshot, StatisticsFile
from icectl.storage import location as locations
from icectl.storage.identity import SameStore, linked_files
from icectl.storage.location import is_local, join, loosest_key, loosest_keys
from icectl.storage.spill import Spill
from icectl.table.context import TableContext
from icectl.table.guard import check_lists, check_vector_targets
from icectl.table.known_locations import (
    PARTS,
    KnownFiles,
    KnownLocations,
    LocationHash,
    location_hashes,
    parts_of,
)
from icectl.table.live_file_check import LiveListed, LiveOnce, check_apart, check_spellings
from icectl.table.manifest_lists import distinct_manifests, manifests_by_snapshot
from icectl.table.manifests import scan_manifests

_NAMED = frozenset({"referenced_data_file"})
_ROWS_TO_THIN_OUT = 1_000_000
"""Rows that are gathered before repeated files among them are dropped."""

_WORTH_A_COPY = 0.75
"""Part of the files that may be left, for the others to be dropped: a copy takes memory twice."""


_TARGETS = pa.schema([pa.field("key", pa.string()), pa.field("manifest", pa.int32())])

Targets = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]
"""Numbers of data files that vectors are for, and of manifests that have an entry of each."""


class VectorTargets:
    """Data files that delete vectors of version 4 are for, by the manifests that list them.

    Delete manifests are taken in first: then it is known which data files to look for.
    Cost: memory of 16 bytes for each vector, and 8 for each entry of its data file; keys on disk.
    """

    def __init__(self, hashed: Callable[[pa.ChunkedArray], Hashes] | None = None) -> None:
        self._hashed = hashed or key_hashes
        self._numbers: dict[ManifestIdentity, int] = {}
        self._named, self._present = Spill(_TARGETS, PARTS), Spill(_TARGETS, PARTS)
        self._wanted = KnownLocations()
        self._listed: tuple[Targets, Targets] | None = None

    def add(
        self,
        manifests: Sequence[ManifestFile],
        alive: RawEntries,
        keys: pa.ChunkedArray,
        hashes: Hashes,
    ) -> None:
        """Take in live entries, whose `manifest` is a place in `manifests`.

        `keys` are the loosest ones of their locations, `hashes` those of the keys.
        """
        if "referenced_data_file" in alive.table.column_names:
            vectors = deletion_vectors(alive).table
            vectors = vectors.filter(vectors["referenced_data_file"].is_valid())
            keys = loosest_keys(vectors["referenced_data_file"])
            hashes = self._hashed(keys)
            self._wanted.add_hashes(hashes)
            self._note(self._named, manifests, vectors["manifest"], keys, hashes)
        elif self._numbers:
            places = np.flatnonzero(self._wanted.contains_hashes(hashes))
            numbers = alive.table["manifest"].take(pa.array(places))
            keys = keys.take(pa.array(places))
            self._note(self._present, manifests, numbers, keys, hashes[places])

    def _note(
        self,
        noted: Spill,
        manifests: Sequence[ManifestFile],
        numbers: pa.ChunkedArray,
        keys: pa.ChunkedArray,
        hashes: Hashes,
    ) -> None:
        places, codes = np.unique(numbers.to_numpy(), return_inverse=True)
        known = [
            self._numbers.setdefault(manifests[place].identity, len(self._numbers))
            for place in places.tolist()
        ]
        columns = [whole(keys), pa.array(np.array(known, np.int32)[codes])]
        noted.add(parts_of(hashes), pa.RecordBatch.from_arrays(columns, schema=_TARGETS))
        self._listed = None

    def lost(self, manifests: Iterable[ManifestFile]) -> set[str]:
        """Return the data files of vectors in some manifests that are live in none of these."""
        if not self._numbers:
            return set()
        if self._listed is None:
            self._listed = self._compared()
        chosen = np.zeros(len(self._numbers), np.bool_)
        known = (self._numbers.get(item.identity) for item in manifests)
        chosen[[number for number in known if number is not None]] = True
        (named, of_vectors), (present, of_data) = self._listed
        is_lost = np.zeros(int(named.max(initial=-1)) + 1, np.bool_)
        is_lost[named[chosen[of_vectors]]] = True
        is_lost[present[chosen[of_data]]] = False
        return self._keys(np.flatnonzero(is_lost))

    def _compared(self) -> tuple[Targets, Targets]:
        """Return the targets of vectors and those among data files, by the texts of their keys."""
        named, present = list[Targets](), list[Targets]()
        count = 0
        for number in range(PARTS):
            sought, found = self._part(self._named, number), self._part(self._present, number)
            keys = sought["key"].unique()
            for table, targets in ((sought, named), (found, present)):
                places = index_in(table["key"], keys)
                is_known = places >= 0
                numbers = table["manifest"].to_numpy()[is_known]
                targets.append(((places[is_known] + count).astype(np.int32), numbers))
            count += len(keys)
        return _joined(named), _joined(present)

    def _keys(self, targets: Integers) -> set[str]:
        """Return the keys of some targets, numbered as `_compared` does."""
        texts, count = set[str](), 0
        for number in range(PARTS) if len(targets) else ():
            keys = self._part(self._named, number)["key"].unique()
            here = targets[(targets >= count) & (targets < count + len(keys))] - count
            texts.update(keys.take(pa.array(here)).to_pylist())
            count += len(keys)
        return texts

    @staticmethod
    def _part(noted: Spill, number: int) -> pa.Table:
        return pa.Table.from_batches(noted.read(number), _TARGETS)


def _joined(parts: Sequence[Targets]) -> Targets:
    targets, manifests = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return targets, manifests


AddFiles = Callable[[Files, Hashes], None]
"""Takes in files, with hashes of their keys as key_hashes has them."""


@dataclass(frozen=True, slots=True)
class Live:
    """What live entries of manifests say, and the schemas that those were written with.

    `spec_ids` are those of entries in every state: a root and leaves of version 4 have such of
    several specs. `vector_targets` are the data files of delete vectors; `once` can tell whether a
    snapshot has a file twice. Live files that one of the snapshots `sources` added are given to
    `add_files_of_sources` too.
    """

    context: TableContext
    metadata: TableMetadata
    vector_targets: VectorTargets = field(default_factory=VectorTargets)
    schema_ids: set[int | None] = field(default_factory=set)
    spec_ids: set[int] = field(default_factory=set)
    once: LiveOnce = field(default_factory=lambda: LiveOnce(_hashes))
    sources: frozenset[int] = frozenset()
    add_files_of_sources: AddFiles | None = None

    def read(self, manifests: Sequence[ManifestFile], add_files: AddFiles | None = None) -> "Live":
        """Read manifests, and give files of live entries to `add_files`, some of them repeatedly.

        Raises: StorageError, CorruptTable, when one manifest cannot be read.
        """
        # Delete vectors first: then it is known which data files to look for.
        manifests = sorted(manifests, key=lambda item: not names_files(item))
        usual = LiveOnce.columns
        columns = [usual | _NAMED if names_files(item) else usual for item in manifests]
        for part in scan_manifests(self.context, self.metadata, manifests, columns):
            alive = live(part.rows)
            keys = loosest_keys(alive.table["location"])
            hashes = key_hashes(keys)
            self.vector_targets.add(manifests, alive, keys, hashes)
            self.once.add(manifests, alive, hashes)
            content = content_files(alive, keys)
            if add_files is not None:
                add_files(content, hashes)
            if self.add_files_of_sources is not None and self.sources:
                of_sources = self._are_of_sources(alive, manifests)
                chosen = Files(content.table.filter(pa.array(of_sources)))
                self.add_files_of_sources(chosen, hashes[of_sources])
            self.schema_ids.update(header.schema_id for header in part.headers)
            self.spec_ids.update(part.rows.table["spec_id"].unique().to_pylist())
        return self

    def _are_of_sources(self, alive: RawEntries, manifests: Sequence[ManifestFile]) -> Mask:
        added_by = inherit(alive, manifests).table["snapshot_id"]
        return mask_of(pc.is_in(added_by, pa.array(sorted(self.sources), pa.int64())))

    def check(self, lists: Mapping[int, Sequence[ManifestFile]]) -> None:
        """Check that each file is once in a snapshot, and vectors are of live files alone.

        Manifests that were not read do not count.
        Raises: CorruptTable.
        """
        self.once.check(self.context, self.metadata, lists)
        for snapshot in (self.metadata.snapshots_by_id[id_] for id_ in lists):
            if layout_of(snapshot) is Layout.SFC_1:
                lost = self.vector_targets.lost(lists[snapshot.snapshot_id])
                check_vector_targets(snapshot, lost)


def files_of_live_entries(
    context: TableContext,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    choose: Callable[[Files], Files] | None = None,
) -> Files:
    """Return the files of live entries in the manifests (R-110, R-191), some of them repeatedly.

    `choose` is called with some of them at a time, and returns those that are wanted.
    Raises: StorageError, CorruptTable, when one manifest cannot be read.
    Cost: memory for each wanted file.
    """
    gathered = GatheredFiles()

    def add_chosen(listed: Files, hashes: Hashes) -> None:
        if choose is not None:
            listed = choose(listed)
            hashes = key_hashes(listed.table["key"])
        gathered.add(listed, hashes)

    Live(context, metadata).read(manifests, add_chosen)
    return gathered.files


def key_hashes(keys: pa.ChunkedArray) -> Hashes:
    """Return a hash of each key: other ones than location_hashes makes, sooner. Order: kept."""
    return np.concatenate(
        [np.empty(0, np.uint64), *(row_hashes([chunk], len(chunk)) for chunk in keys.chunks)]
    )


def _hashes(locations: pa.ChunkedArray) -> Hashes:
    return key_hashes(loosest_keys(locations))


class GatheredFiles:
    """Files as they come; those that manifests repeat are dropped where it is worth the copy.

    Cost: memory for each file once.
    """

    def __init__(self) -> None:
        self._parts: list[Files] = []
        self._hashes: list[Hashes] = []
        self._new_rows = 0

    def add(self, part: Files, hashes: Hashes) -> None:
        """Take in files; `hashes` are those of their keys."""
        table = part.table
        if table["key"].equals(table["location"]):  # paths of this machine: one copy will do
            at = table.schema.get_field_index("key")
            part = Files(table.set_column(at, table.schema.field(at), table["location"]))
        self._parts.append(part)
        self._hashes.append(hashes)
        self._new_rows += len(part)
        total = sum(map(len, self._hashes))
        if self._new_rows > max(_ROWS_TO_THIN_OUT, total - self._new_rows):
            self._new_rows = 0
            if distinct_count(np.concatenate(self._hashes)) <= _WORTH_A_COPY * total:
                distinct_files = distinct(self.files)
                self._parts = [distinct_files]
                self._hashes = [key_hashes(distinct_files.table["key"])]

    @property
    def files(self) -> Files:
        """All of them, some more than once."""
        return together(self._parts)


def names_files(manifest: ManifestFile) -> bool:
    """Return whether delete vectors in a manifest have to be those of live files (V4-122)."""
    is_of_root = layout_of_manifest(manifest) is Layout.SFC_1
    return is_of_root and manifest.content is ManifestContent.DELETES


def metadata_files(
    metadata: TableMetadata,
    snapshots: Sequence[Snapshot],
    manifests: Iterable[ManifestFile],
    sizes: Mapping[str, int],
) -> Files:
    """Manifest lists or roots, manifests and statistics files of snapshots.

    `sizes` holds bytes by loosest key; a manifest that it does not name has the length of its list.
    """
    described: dict[str, int | None] = {}
    for item in manifests:
        if not item.in_root:
            described[item.manifest_path] = item.manifest_length
        described |= dict.fromkeys(item.dead_locations)
    lists = (snapshot.root_manifest or snapshot.manifest_list for snapshot in snapshots)
    ids = frozenset(snapshot.snapshot_id for snapshot in snapshots)
    parts = [
        _named(FileKind.MANIFESTS, described, sizes),
        _named(FileKind.MANIFEST_LISTS, dict.fromkeys(filter(None, lists)), sizes),
        statistics_files(metadata, ids),
    ]
    return distinct(together(parts))


def statistics_files(metadata: TableMetadata, snapshot_ids: Collection[int]) -> Files:
    """Return the statistics files of snapshots, there or not (R-141).

    One that entries give several sizes is there once with each: only one can be true.
    """
    named: Sequence[tuple[FileKind, Sequence[StatisticsFile | PartitionStatisticsFile]]] = (
        (FileKind.STATISTICS_FILES, metadata.statistics),
        (FileKind.PARTITION_STATISTICS_FILES, metadata.partition_statistics),
    )
    parts = []
    for kind, items in named:
        chosen = [item for item in items if item.snapshot_id in snapshot_ids]
        stated = sorted({(item.statistics_path, item.file_size_in_bytes) for item in chosen})
        places = [location for location, _ in stated]
        keys = [loosest_key(location) for location in places]
        parts.append(files(places, keys, kind, [size for _, size in stated]))
    return together(parts)


def every_statistics_file(metadata: TableMetadata) -> Files:
    """The statistics files that the metadata names, also those of no snapshot in it (R-141)."""
    return statistics_files(metadata, {item.snapshot_id for item in metadata.every_statistics})


def log_files(metadata: TableMetadata, metadata_location: str) -> Files:
    """The metadata file of the table and those in its log, which stay whatever expires (R-024)."""
    logged = [entry.metadata_file for entry in metadata.metadata_log]
    return _named(FileKind.METADATA_FILES, dict.fromkeys([*logged, metadata_location]), {})


def dropped_files(locations: Sequence[str], sizes: Mapping[str, int]) -> Files:
    """List the metadata files that leave the log; `sizes` in bytes by loosest key (R-024)."""
    return _named(FileKind.METADATA_FILES, dict.fromkeys(locations), sizes)


def _named(
    kind: FileKind, sizes_by_location: Mapping[str, int | None], sizes: Mapping[str, int]
) -> Files:
    keys = [loosest_key(location) for location in sizes_by_location]
    known = [
        sizes.get(key, size) for key, size in zip(keys, sizes_by_location.values(), strict=True)
    ]
    return files(list(sizes_by_location), keys, kind, known)


def all_manifests(
    lists: Mapping[int, Sequence[ManifestFile]], snapshots: Iterable[Snapshot]
) -> tuple[ManifestFile, ...]:
    """Return the manifests of several snapshots, each once.

    Raises: CorruptTable R-051, where lists describe one differently.
    """
    in_order = sorted(snapshots, key=lambda one: (one.sequence_number, one.timestamp_ms))
    chosen = {one.snapshot_id: lists[one.snapshot_id] for one in in_order}

    def compare(one: ManifestFile, other: ManifestFile) -> None:
        stated = difference(one, other)
        if stated is not None:
            raise _described_differently(chosen, (one, other), stated)

    return distinct_manifests(chosen.values(), compare)  # only one row is held against a manifest


_NAMED_SNAPSHOTS = 20
"""Snapshots that a hint names at most; after these are expired, the next one names others."""


def _described_differently(
    lists: Mapping[int, Sequence[ManifestFile]],
    rows: tuple[ManifestFile, ManifestFile],
    stated: tuple[Any, Any],
) -> CorruptTable:
    """Return the error of two rows for one manifest. `lists` are by snapshot, the newest last."""
    owners = [[id_ for id_, listed in lists.items() if row in listed][-1] for row in rows]
    *_, newest = lists
    suspects, is_tie = _outvoted(lists)
    if newest in suspects:
        hint = (
            f"`icectl repair TABLE --dry-run` says whether the list of snapshot {newest} can be "
            "repaired"
        )
    else:
        options = " ".join(f"--snapshot-id {id_}" for id_ in suspects[:_NAMED_SNAPSHOTS])
        hint = (
            f"`icectl expire-snapshots TABLE {options}` removes the snapshots whose lists "
            "contradict " + ("newer ones" if is_tie else "the others")
        )
        if is_tie:
            hint += "; first compare them with a copy: nothing else says that the newer are right"
    return CorruptTable(
        f"{rows[0].manifest_path}: the manifest list of snapshot {owners[0]} says {stated[0]} of "
        f"it, that of snapshot {owners[1]} {stated[1]}",
        rule="R-051",
        hint=hint,
    )


def _outvoted(lists: Mapping[int, Sequence[ManifestFile]]) -> tuple[list[int], bool]:
    """Return snapshots without which all lists describe each manifest alike. Order: of `lists`.

    What most lists say of a manifest counts, else what the newest one says: then it is a tie.
    """
    is_tie = False
    variants: dict[ManifestIdentity, list[tuple[ManifestFile, list[int]]]] = {}
    for id_, listed in lists.items():
        for row in (row for row in listed if row.status is None):
            said = variants.setdefault(row.identity, [])
            same = (ids for known, ids in said if known is row or difference(known, row) is None)
            ids = next(same, None)
            if ids is None:
                said.append((row, [id_]))
            else:
                ids.append(id_)
    votes = [[ids for _, ids in said] for said in variants.values() if len(said) > 1]
    outvoted: set[int] = set()
    for of_manifest in sorted(votes, key=lambda parts: len(set(map(len, parts))) == 1):
        left = [[id_ for id_ in ids if id_ not in outvoted] for ids in of_manifest]
        places = {id_: at for at, id_ in enumerate(lists)}
        winner = max(filter(None, left), key=lambda ids: (len(ids), places[ids[-1]]), default=[])
        outvoted.update(id_ for ids in left if ids is not winner for id_ in ids)
        is_tie |= any(len(ids) == len(winner) for ids in left if ids is not winner)
    return [id_ for id_ in lists if id_ in outvoted], is_tie


class References:
    """The files that a table refers to; `add` takes in each later state of the table too.

    `places` are the listed locations. `doubtful` holds references that name a file below one of
    them, but perhaps in another store: one for each scheme and authority.
    """

    def __init__(
        self,
        context: TableContext,
        places: Sequence[str],
        same_store: SameStore,
        hashed: LocationHash = location_hashes,
    ) -> None:
        self.doubtful: dict[str, str] = {}
        self.resized: dict[str, int] = {}
        self.rewritten: dict[str, int] = {}
        self._context = context
        self._places = tuple(places)
        self._same_store = same_store
        self._aliases = [MountAliases(place) for place in places]
        self._are_local = any(map(is_local, places))
        self._hashed = hashed
        self._files = KnownFiles(local=self._are_local, hashed=hashed)
        self._snapshots_read: set[int] = set()
        self._manifests_read: set[ManifestIdentity] = set()

    def add(
        self,
        loaded: LoadedTable,
        listed_files: KnownLocations | None = None,
        *,
        trusted: bool = False,
    ) -> None:
        """Take in all that the table refers to; what was read before is not read again.

        Metadata files of the log count, what they describe does not. Entries count in every state
        (deleted ones too), and so does every snapshot, referenced or not. Live ones must be among
        `listed_files` (file_hashes), if they lie in the listed places, or be there now; those of
        another size come to `resized` or `rewritten`, as in LiveListed. Lists with fewer files than
        the summaries say are only `trusted` where the caller says so.
        Raises: StorageError, CorruptTable, when anything of it cannot be read (R-192), or hides a
        file; Refused.
        """
        metadata = loaded.metadata
        unread = self.unread(metadata)
        lists = manifests_by_snapshot(self._context, metadata, unread)
        if not trusted:
            check_lists(metadata, lists)
        listed = all_manifests(lists, unread)
        live_once = LiveOnce(self._hashed)
        to_check = listed
        # Rows that delete vectors of version 4 name count like deleted entries.
        listed = distinct_manifests([[replace(item, dead=b"") for item in listed]])
        described = together(
            [
                log_files(metadata, loaded.metadata_location),
                metadata_files(metadata, unread, listed, {}),
                every_statistics_file(metadata),
            ]
        )
        listed_ones, rowless = None, RowlessFiles(metadata, listed)
        without_rows = KnownLocations(self._hashed)
        if listed_files is not None:
            without_rows.add(described.table["location"])
            listed_ones = LiveListed(self._places, to_check, listed_files)
        table = metadata.location
        self._add(described.table["location"].combine_chunks(), table)
        folders = [loaded.metadata_folder, join(metadata.location, "metadata")]
        self._add(pa.array([join(folder, VERSION_HINT) for folder in folders], pa.string()), table)
        manifests = [item for item in listed if item.identity not in self._manifests_read]
        for part in scan_manifests(self._context, metadata, manifests, LiveOnce.columns):
            alive = live(part.rows)
            hashes = self._hashed(alive.table["location"])
            live_once.add(manifests, alive, hashes)
            if listed_ones is not None:
                check_apart(alive, rowless)
                named = where(alive, without_rows.contains_hashes(hashes))
                check_spellings(named.table["location"], described)
                listed_ones.add(manifests, alive)
            for stored in part.rows.table["location"].chunks:
                self._add(stored, table)
        live_once.check(self._context, metadata, lists)
        if listed_ones is not None:
            listed_ones.check(self._context, metadata)
            self.resized |= listed_ones.resized
            self.rewritten |= listed_ones.rewritten
        self._snapshots_read |= {snapshot.snapshot_id for snapshot in unread}
        self._manifests_read |= {item.identity for item in manifests}

    def unread(self, metadata: TableMetadata) -> list[Snapshot]:
        known_ids = self._snapshots_read
        return [
            snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in known_ids
        ]

    def add_files(self, locations: Sequence[str]) -> None:
        """Take in files that the table refers to by way of others."""
        self._add_known(pa.array(locations, pa.string()))

    @property
    def known(self) -> KnownLocations:
        return self._files.locations

    def reach(self, locations: pa.Array) -> pa.BooleanArray:
        """Return whether the table refers to each file, by any name of the folder that it lies in.

        Shape: one flag per location. Order: kept.
        """
        return self._files.contain(locations)

    def _add(self, stored: pa.Array, table: str) -> None:
        self._add_known(stored)
        self.add_files(
            [join(table, location) for location in stored.filter(are_relative(stored)).to_pylist()]
        )
        if self._are_local:
            elsewhere = stored
            for place in self._places:
                is_below = pc.starts_with(elsewhere, place.rstrip("/") + "/")
                elsewhere = elsewhere.filter(pc.invert(is_below))
            self.add_files(linked_files(elsewhere))
        self.doubtful |= self._same_store.doubtful(stored, self._places)

    def _add_known(self, stored: pa.Array) -> None:
        if not len(stored):
            return
        self._files.add(stored)
        for aliases in self._aliases:
            self._files.add(pa.array(aliases.of(stored), pa.string()))


class MountAliases:
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
        others = stored.filter(pc.invert(pc.starts_with(stored, f"{self._base}/")))
        same_name = others.filter(pc.match_substring(others, self._tail))
        candidates = same_name.filter(pc.invert(pc.match_substring_regex(same_name, self._below)))
        ways: list[str] = []
        for location in candidates.to_pylist():
            tails = {location.partition(self._tail)[2], location.rpartition(self._tail)[2]}
            ways += [f"{self._base}/{tail}" for tail in tails]
        return ways
