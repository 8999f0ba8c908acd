"""Snapshots of layout sfc-1 as manifest lists, and those of older versions as roots (sfc-1 7.9).

Leaves and files of roots become manifests; rows that a manifest delete vector names are left out,
and stand as DELETED in the snapshot that killed them. Data and delete files are not touched.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.commit.manifests import ManifestWriter, form_for
from icectl.commit.transaction import Outputs
from icectl.entries.columns import NONE, Positions, whole
from icectl.entries.locations import without_scheme
from icectl.entries.rows import (
    ALL_COLUMNS,
    CARRIED,
    PLANNING,
    Entries,
    as_existing,
    by_spec,
    concat,
    data_files,
    delete_files,
    live,
    numbers,
    of_status,
    where,
    with_some_deleted,
)
from icectl.entries.summary import field_summaries
from icectl.errors import MissingFile, SelfCheckFailed, Unsupported
from icectl.files.manifest.manifest import read_manifest
from icectl.files.manifest.manifest_list import write_manifest_list
from icectl.files.manifest.schema import PARQUET_MAGIC, check_known, check_list_known
from icectl.format.locations import with_scheme
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.properties import TARGET_MANIFEST_SIZE_BYTES, read
from icectl.format.snapshot import Snapshot
from icectl.sfc1.content_stats import (
    StatsColumn,
    aggregate,
    by_field_id,
    conform,
    group_id,
    stats_group,
    typed_bounds,
)
from icectl.sfc1.manifest_file import STATS, ListedRow
from icectl.sfc1.manifests import (
    FILES,
    FOR_STATS,
    TreeSchema,
    entry_stats,
    leaf_rows,
    of_contents,
    read_leaf,
)
from icectl.sfc1.reader import RootReader, leaf_manifest, raw_entries
from icectl.sfc1.rules import sound_root
from icectl.storage.location import comparison_key
from icectl.storage.new_files import create_own
from icectl.storage.store import Store
from icectl.table.context import TableContext
from icectl.table.manifest_lists import read_snapshot_manifests, with_counts
from icectl.table.manifests import scan_manifests, without_dead
from icectl.table.reading import naming, read_file

_COLUMNS = [*PLANNING.names, *CARRIED.names]
_LIVE = frozenset({Status.ADDED, Status.EXISTING})
_STATUSES = ("added", "existing", "deleted")


# -- roots as manifest lists ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewList:
    """The manifest list of a snapshot, and the manifests that were written for it."""

    location: str
    files: frozenset[str]


@dataclass(slots=True)
class ListsOfRoots:
    """Writes manifest lists for snapshots with roots; what several of them list is written once."""

    context: TableContext
    outputs: Outputs
    _lists: dict[str, NewList] = field(default_factory=dict)
    _written: dict[tuple[str, bytes, bool], tuple[ManifestFile, ...]] = field(default_factory=dict)

    def lists(self, metadata: TableMetadata) -> Mapping[int, NewList]:
        """Write a manifest list for each snapshot that has a root; those written before stay.

        Order: by sequence number, as manifests are of the first snapshot that lists them.
        Raises: CorruptTable, Unsupported, StorageError, Incomplete; SelfCheckFailed.
        """
        facts = TreeSchema(metadata)
        rooted = rooted_snapshots(metadata)
        self.context.progress.phase("writing manifest lists", total=len(rooted))
        for snapshot in rooted:
            root = snapshot.root_manifest or ""
            if root not in self._lists:
                self.context.deadline.check()
                self._lists[root] = self._list_of(facts, snapshot)
            self.context.progress.advance(1)
        return {one.snapshot_id: self._lists[one.root_manifest or ""] for one in rooted}

    def _list_of(self, facts: TreeSchema, snapshot: Snapshot) -> NewList:
        root, dead = sound_root(self.context.store, facts, snapshot, carried=True)
        manifests = self._own(facts, snapshot, root)
        for leaf in leaf_rows(root):
            if leaf.status != Status.DELETED:  # by foreign writers: nothing of it lives
                positions = dead.get(comparison_key(leaf.name), NONE)
                manifests += self._of_leaf(facts, snapshot, leaf, positions)
        location = self._whole(facts, self.outputs.manifest_list(snapshot.snapshot_id))
        content = write_manifest_list(
            manifests,
            format_version=facts.metadata.format_version,
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            first_row_id=snapshot.first_row_id,
            sync_marker=bytes.fromhex(self.context.env.new_uuid().replace("-", "")),
        )
        create_own(self.context.store, self.context.env, location, content)
        paths = {manifest.manifest_path for manifest in manifests}
        return NewList(location, frozenset({location, *paths}))

    def _own(self, facts: TreeSchema, snapshot: Snapshot, root: pa.Table) -> list[ManifestFile]:
        """Write the files that a root lists itself, with what the snapshot removed from leaves."""
        listed = of_contents(root, *FILES)
        entries = Entries(raw_entries(facts, listed, ALL_COLUMNS, 0).table)
        gone = pc.equal(entries.table["status"], int(Status.DELETED))
        parts = [where(entries, pc.invert(gone)), _deleted(where(entries, gone), snapshot)]
        for mark in RootReader(facts.metadata).marked(self.context.store, snapshot):
            of_leaf = not mark.manifest.in_root and not mark.unless_live
            if of_leaf and mark.removed & _LIVE:
                removed_rows = of_status(self._load(facts, mark.manifest), *mark.removed)
                parts.append(_deleted(removed_rows, snapshot))
        whole = concat(Entries(part.table.select(_COLUMNS)) for part in parts)
        written = self._write(facts, whole, snapshot.sequence_number)
        return [_of_snapshot(manifest, snapshot) for manifest in written]

    def _of_leaf(
        self, facts: TreeSchema, snapshot: Snapshot, leaf: ListedRow, deleted: Positions
    ) -> tuple[ManifestFile, ...]:
        """Return manifests of what lives in a leaf: as its writer left it where all of it does."""
        is_new = leaf.status == Status.ADDED
        digest = sha256(deleted.tobytes()).digest() if len(deleted) else b""
        key = (comparison_key(leaf.name), digest, is_new and bool(len(deleted)))
        if key not in self._written:
            manifests = self._untouched(facts, leaf)
            if len(deleted):
                manifests = self._with_deletes(facts, snapshot, leaf, deleted)
            self._written[key] = tuple(manifests)
        return self._written[key]

    def _untouched(self, facts: TreeSchema, leaf: ListedRow) -> Iterator[ManifestFile]:
        """Yield manifests of a leaf's rows, each with its status.

        One of an older version stays as it is, unless its locations lack a scheme: those of its
        deletes and data files in other leaves have one, and engines compare them to the letter.
        """
        manifest = leaf_manifest(leaf, NONE)
        if leaf.file_format == FileFormat.AVRO and not self._lacks_schemes(facts, leaf):
            spec = facts.metadata.spec(manifest.partition_spec_id)
            types = () if spec is None else result_types(spec, facts.metadata.schemas)
            summaries = field_summaries(self._load(facts, manifest), types)
            yield replace(manifest, partitions=summaries, status=None, affiliated_to=None)
            return
        for one in self._write(facts, self._entries(facts, leaf, NONE), manifest.sequence_number):
            yield replace(one, added_snapshot_id=manifest.added_snapshot_id)

    def _lacks_schemes(self, facts: TreeSchema, leaf: ListedRow) -> bool:
        content = read_file(self.context.store, leaf.name)
        spec = facts.metadata.spec(leaf.spec_id)
        names = frozenset({"location", "referenced_data_file"})
        with naming(leaf.name):
            _, raw = read_manifest(content, columns=names, manifest=0, spec=spec)
        bare = (pc.any(without_scheme(raw.table[name]), min_count=0).as_py() for name in names)
        return any(bare)

    def _with_deletes(
        self, facts: TreeSchema, snapshot: Snapshot, leaf: ListedRow, deleted: Positions
    ) -> Iterator[ManifestFile]:
        """Yield manifests of the rows that live, which the snapshot found there or added."""
        entries = live(self._entries(facts, leaf, deleted))
        if not leaf.deleted_files_count and len(entries) != leaf.live_count - len(deleted):
            message = f"{len(entries)} entries of `{leaf.name}` live, its root says otherwise"
            raise SelfCheckFailed(message, rule="V4-160")
        kept = entries if leaf.status == Status.ADDED else as_existing(entries)
        for one in self._write(facts, kept, snapshot.sequence_number):
            yield _of_snapshot(one, snapshot)

    def _entries(self, facts: TreeSchema, leaf: ListedRow, deleted: Positions) -> Entries:
        """Return the entries of a leaf but for dead ones.

        Raises: Unsupported for unknown columns.
        """
        if leaf.file_format == FileFormat.AVRO:
            return self._load(facts, leaf_manifest(leaf, deleted))
        rows = read_leaf(self.context.store, facts, leaf, carried=True)
        return without_dead(Entries(raw_entries(facts, rows, ALL_COLUMNS, 0).table), deleted)

    def _load(self, facts: TreeSchema, manifest: ManifestFile) -> Entries:
        (read,) = scan_manifests(self.context, facts.metadata, [manifest], ALL_COLUMNS)
        check_known(read.headers[0].unknown_field_ids)
        return read.entries()

    def _write(
        self, facts: TreeSchema, entries: Entries, sequence_number: int
    ) -> Iterator[ManifestFile]:
        """Write entries into manifests of one spec and content each, with row ids or without."""
        for content, of_content in (
            (ManifestContent.DATA, data_files(entries)),
            (ManifestContent.DELETES, delete_files(entries)),
        ):
            for spec_id, of_spec in by_spec(of_content):
                metadata = facts.metadata
                writer = ManifestWriter(
                    context=self.context,
                    form=form_for(metadata, spec_id, content),
                    target_size_bytes=read(metadata.properties, TARGET_MANIFEST_SIZE_BYTES),
                    new_location=lambda kind: self._whole(facts, self.outputs.manifest(kind)),
                )
                for part in _by_row_ids(of_spec):
                    for written in writer.add(part, CARRIED.names):
                        yield replace(written.manifest, sequence_number=sequence_number)

    def _whole(self, facts: TreeSchema, location: str) -> str:
        return with_scheme(facts.metadata.location, location)


def rooted_snapshots(metadata: TableMetadata) -> Sequence[Snapshot]:
    """Return the snapshots that have roots. Order: by sequence number."""
    rooted = (snapshot for snapshot in metadata.snapshots if snapshot.root_manifest is not None)
    return sorted(rooted, key=lambda one: one.sequence_number)


def _of_snapshot(manifest: ManifestFile, snapshot: Snapshot) -> ManifestFile:
    """Return a manifest as its snapshot lists it, which gives no row an id again (R-102)."""
    first_row_id = manifest.first_row_id
    is_of_data = manifest.content is ManifestContent.DATA
    if is_of_data and not (manifest.added_files_count or manifest.existing_files_count):
        first_row_id = snapshot.first_row_id
    return replace(manifest, added_snapshot_id=snapshot.snapshot_id, first_row_id=first_row_id)


def _deleted(entries: Entries, snapshot: Snapshot) -> Entries:
    return with_some_deleted(entries, np.ones(len(entries), bool), snapshot.snapshot_id)


def _by_row_ids(entries: Entries) -> Iterator[Entries]:
    """Entries that have row ids, then those without: a manifest gives ids to all or to none."""
    is_data = pc.equal(entries.table["content"], int(Content.DATA))
    is_live = pc.not_equal(entries.table["status"], int(Status.DELETED))
    lacks = pc.and_(pc.and_(entries.table["first_row_id"].is_null(), is_data), is_live)
    for part in (where(entries, pc.invert(lacks)), where(entries, lacks)):
        if len(part):
            yield part


def check_roots(context: TableContext, metadata: TableMetadata) -> int:
    """Read all roots, and tell how many leaves they list; whatever has no other form ends it.

    Raises: Unsupported, for encrypted leaves and columns that are not known; CorruptTable;
    StorageError.
    """
    facts = TreeSchema(metadata)
    rooted = rooted_snapshots(metadata)
    context.progress.phase("reading roots", total=len(rooted))
    leaves: dict[str, ListedRow] = {}
    for snapshot in rooted:
        root, _ = sound_root(context.store, facts, snapshot, carried=True)
        leaves |= {comparison_key(leaf.name): leaf for leaf in leaf_rows(root)}
        context.progress.advance(1)
    for leaf in leaves.values():
        if leaf.key_metadata is not None:
            raise Unsupported(f"`{leaf.name}` is encrypted (U-02)")
    return len(leaves)


# -- manifest lists as roots ----------------------------------------------------------------------


def legacy_root(store: Store, facts: TreeSchema, snapshot: Snapshot) -> pa.Table:
    """Return the rows of a root that lists the manifests of an older version's snapshot.

    Shape: all EXISTING; manifests without live entries are left out (sfc-1 C-36).
    Order: of the manifest list.
    Raises: StorageError; CorruptTable; Unsupported.
    """
    manifests = read_snapshot_manifests(store, facts.metadata, snapshot)
    check_list_known(manifests)
    rows = [facts.empty()]
    for manifest in manifests:
        counted = with_counts(store, facts.metadata, manifest, snapshot.snapshot_id)
        if (counted.added_files_count or 0) + (counted.existing_files_count or 0):
            rows.append(_row(facts, counted))
    return pa.concat_tables(rows)


@dataclass(slots=True)
class LegacyStatistics:
    """Statistics of leaves of older versions, each read once however often a commit is tried."""

    context: TableContext
    _columns: Sequence[StatsColumn] = ()
    _known: dict[str, pa.StructArray] = field(default_factory=dict)

    def of(self, facts: TreeSchema, leaves: Sequence[ListedRow]) -> Mapping[str, pa.StructArray]:
        """Return them by key. Shape, errors: as legacy_statistics."""
        if facts.columns != self._columns:  # another writer's
            self._columns, self._known = facts.columns, {}
        by_key = {comparison_key(leaf.name): leaf for leaf in leaves}
        new = [leaf for key, leaf in by_key.items() if key not in self._known]
        self._known |= legacy_statistics(self.context, facts, new)
        return {key: self._known[key] for key in by_key if key in self._known}


def legacy_statistics(
    context: TableContext, facts: TreeSchema, leaves: Sequence[ListedRow]
) -> Mapping[str, pa.StructArray]:
    """Read the statistics of leaves of older versions, by key, from their live entries (sfc-1 5.7).

    Shape: one struct each, as `aggregate` has them.
    Raises: as scan_manifests.
    """
    manifests = [leaf_manifest(leaf, NONE) for leaf in leaves]
    found: dict[str, pa.StructArray] = {}
    wanted = FOR_STATS - {"column_sizes"} | {"status", "spec_id", "record_count"}
    for part in scan_manifests(context, facts.metadata, manifests, wanted, trust="own"):
        for spec_id, entries in by_spec(live(part.rows)):
            stats = entry_stats(facts, entries, spec_id, facts.columns, known=True)
            counts = whole(entries.table["record_count"])
            places, starts = np.unique(numbers(entries, "manifest"), return_index=True)
            for at, start, stop in zip(places, starts, [*starts[1:], len(entries)], strict=True):
                key = comparison_key(manifests[at].manifest_path)
                rows = stats.slice(start, stop - start), counts.slice(start, stop - start)
                found[key] = aggregate(rows[0], facts.columns, rows[1])
    return found


def parquet_leaves(store: Store, root: pa.Table) -> frozenset[str]:
    """Keys of those leaves of a converted list that are in Parquet, as Iceberg 1.12 writes them.

    Raises: StorageError.
    """
    leaves = set()
    for leaf in leaf_rows(root):
        if not leaf.name.endswith(".avro"):
            try:
                magic = store.read_range(leaf.name, 0, len(PARQUET_MAGIC))
            except FileNotFoundError as error:
                raise MissingFile(leaf.name) from error
            if magic == PARQUET_MAGIC:
                leaves.add(comparison_key(leaf.name))
    return frozenset(leaves)


def _row(facts: TreeSchema, manifest: ManifestFile) -> pa.Table:
    counts = {
        f"{name}_{what}_count": getattr(manifest, f"{name}_{what}_count")
        for name in _STATUSES
        for what in ("files", "rows")
    }
    is_data = manifest.content is ManifestContent.DATA
    row = ListedRow(
        content=Content.DATA_MANIFEST if is_data else Content.DELETE_MANIFEST,
        location=with_scheme(facts.metadata.location, manifest.manifest_path),
        file_format=FileFormat.AVRO,
        status=Status.EXISTING,
        snapshot_id=manifest.added_snapshot_id,
        sequence_number=manifest.sequence_number,
        file_sequence_number=manifest.sequence_number,
        first_row_id=manifest.first_row_id if is_data else None,
        spec_id=manifest.partition_spec_id,
        record_count=sum(counts[f"{name}_files_count"] for name in _STATUSES),
        file_size_in_bytes=manifest.manifest_length,
        min_sequence_number=manifest.min_sequence_number,
        key_metadata=manifest.key_metadata,
        **counts,
    )
    return facts.row(row, _stats(facts, manifest))


def _stats(facts: TreeSchema, manifest: ManifestFile) -> pa.StructArray:
    """Make statistics of the bounds that summaries of partition fields tell (sfc-1 5.7)."""
    kind = facts.rows_schema.field(STATS).type
    summaries = manifest.partitions
    if not summaries:
        return pa.nulls(1, kind)
    groups = by_field_id(conform(None, facts.columns, 1))
    for item in facts.tuple_fields(manifest.partition_spec_id, known=True):
        if item.place >= len(summaries):
            continue
        summary, number = summaries[item.place], group_id(item.stats_id)
        members = {
            "lower_bound": typed_bounds(item.type, pa.array([summary.lower_bound], pa.binary())),
            "upper_bound": typed_bounds(item.type, pa.array([summary.upper_bound], pa.binary())),
        }
        if manifest.live_rows is not None:
            members["value_count"] = pa.array([manifest.live_rows], pa.int64())
        if not summary.contains_null:
            members["null_count"] = pa.array([0], pa.int64())
        if summary.contains_nan is False:
            members["nan_count"] = pa.array([0], pa.int64())
        groups[number] = stats_group(groups[number].type, members, 1)
    return pa.StructArray.from_arrays(list(groups.values()), fields=list(kind))
