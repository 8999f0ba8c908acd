"""The reader of snapshots of layout sfc-1: roots and leaves as manifests of any version.

A root is a list of manifests: its leaves, each with its dead positions, and itself, for the files
that it lists directly. What a snapshot changed is marked in its root (sfc-1 9).
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.live_entries import RowlessFiles
from icectl.checks.rule import Finding, RuleSet
from icectl.entries.columns import NONE, Positions, whole
from icectl.entries.conditions import Predicate
from icectl.entries.inherit import inherit
from icectl.entries.locations import with_schemes
from icectl.entries.may_match import METRICS, manifests_may_match, may_match
from icectl.entries.rows import CARRIED, PLANNING, Entries, RawEntries, with_manifest_number
from icectl.errors import CorruptTable, StorageError, Unsupported
from icectl.files.deletion_vectors import read_bitmap, write_bitmap
from icectl.files.manifest.manifest import read_manifest
from icectl.format.manifest import (
    Content,
    FieldSummary,
    FileFormat,
    ManifestContent,
    ManifestFile,
    ManifestHeader,
    ManifestVector,
    RootManifest,
    Status,
)
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.sfc1.checks.live import PlannedTree
from icectl.sfc1.checks.rows import LeafCounts, TreeColumns
from icectl.sfc1.content_stats import by_field_id, group_id, recover, single_values, to_maps
from icectl.sfc1.manifest_file import COUNTS, STATS, ListedRow, number_of
from icectl.sfc1.manifests import (
    FOR_STATS,
    LEAVES,
    OWN_CONTENTS,
    LeafPart,
    TreeSchema,
    is_dead,
    leaf_rows,
    leaf_target,
    live_rows,
    manifest_file,
    of_contents,
    read_root,
    root_rows,
    rows_of_leaf,
    vector_positions,
    vector_rows,
    vectors,
    with_column,
)
from icectl.sfc1.rules import SFC1_RULES, sound_root
from icectl.storage.location import comparison_key
from icectl.storage.store import Store
from icectl.table.manifest_lists import ManifestListRead, MarkedManifest, SnapshotReader, divided
from icectl.table.reading import decode_file, of_one_file, read_file

_KEYS = frozenset({"content", "status", "spec_id", "manifest", "manifest_pos"})
"""Columns that always come."""

_TREE_NAMES = {"referenced_data_file": "referenced_file"}
"""Columns that have another name in trees."""

_FROM_MAPS = FOR_STATS - {"partition_key"}
"""Columns that statistics of all columns are needed for."""

_LIVE = frozenset({Status.ADDED, Status.EXISTING})


def reader(metadata: TableMetadata, snapshots: int) -> SnapshotReader:
    """Return a reader, which is the same for any number of snapshots."""
    del snapshots
    return RootReader(metadata)


@dataclass(frozen=True)
class RootReader(SnapshotReader):
    """Reads the snapshots of one table that have roots."""

    metadata: TableMetadata

    @cached_property
    def _facts(self) -> TreeSchema:
        return TreeSchema(self.metadata)

    def manifests(
        self, store: Store, snapshot: Snapshot, *, sound: bool = True
    ) -> tuple[ManifestFile, ...]:
        """Read the leaves of a root, and the root itself for the files that it lists.

        A state that is only shown need not be `sound`: vectors of no leaf are left out then.
        Order: the root first, then of the root.
        """
        if sound:
            return listed_manifests(snapshot, *sound_root(store, self._facts, snapshot))
        root = read_root(store, self._facts, snapshot)
        return listed_manifests(snapshot, root, vectors(store, root))

    def manifests_of(
        self, store: Store, snapshot: Snapshot, within: Predicate
    ) -> tuple[tuple[ManifestFile, ...], tuple[ManifestFile, ...]]:
        """Read the same, without leaves that a scan need not open, and these (sfc-1 8.2).

        They are data leaves whose statistics exclude the condition, of columns or of partition
        fields, and delete leaves that belong to one of them.
        """
        root, dead = sound_root(store, self._facts, snapshot)
        excluded = leaves_without(self._facts, root, within)
        listed = listed_manifests(snapshot, root, dead)
        needed = [
            comparison_key(manifest.affiliated_to or manifest.manifest_path) not in excluded
            for manifest in listed
        ]
        return divided(listed, needed)

    def try_manifests(self, store: Store, snapshot: Snapshot) -> ManifestListRead:
        try:
            return ManifestListRead(snapshot, self.manifests(store, snapshot, sound=False))
        except (CorruptTable, Unsupported, StorageError) as error:
            problem = of_one_file(error)
            return ManifestListRead(snapshot, problems=((snapshot.root_manifest or "", problem),))

    def described(
        self, store: Store, snapshot: Snapshot, manifests: Sequence[ManifestFile]
    ) -> tuple[ManifestFile, ...]:
        """Fill in summaries of partition fields, as statistics tell, and the size of the root."""
        root, size_bytes = self._root(store, snapshot)
        rows = of_contents(root, *LEAVES)
        places = rows["location"].to_pylist()
        by_place = dict(zip(places, _summaries(self._facts, rows), strict=True))
        return tuple(
            replace(manifest, manifest_length=size_bytes)
            if manifest.in_root
            else replace(manifest, partitions=by_place[manifest.manifest_path])
            for manifest in manifests
        )

    def manifest_target(self, target_size_bytes: int) -> int:
        return leaf_target(self._facts, target_size_bytes)

    def root(self, store: Store, snapshot: Snapshot) -> RootManifest:
        """Read what a root says beside what it lists. Order: vectors as in the root."""
        root, size_bytes = self._root(store, snapshot)
        location = snapshot.root_manifest or ""
        return RootManifest(location, size_bytes, len(root), tuple(_vectors(store, root)))

    def _root(self, store: Store, snapshot: Snapshot) -> tuple[pa.Table, int]:
        """Read the rows of a root, and its size in bytes."""
        location = snapshot.root_manifest or ""
        content = read_file(store, location)
        root = decode_file(location, lambda: root_rows(self._facts, content, snapshot))
        return root, len(content)

    def marked(self, store: Store, snapshot: Snapshot) -> Sequence[MarkedManifest]:
        """Find the manifests with what a snapshot changed (sfc-1 9.2); others have no part in it.

        Order: the root first, then of the root.
        """
        root = read_root(store, self._facts, snapshot)
        manifests = [
            MarkedManifest(manifest, frozenset({Status.ADDED}), frozenset({Status.DELETED}))
            for manifest in own_manifests(root, snapshot)
            if manifest.added_files_count or manifest.deleted_files_count
        ]
        marks: dict[str, dict[int, Positions]] = {}
        for of_leaf, row in vector_rows(root):
            positions = vector_positions(store.read_range, row)
            marks.setdefault(comparison_key(of_leaf), {})[row.status] = positions
        for leaf in leaf_rows(root):
            mark = marks.get(comparison_key(leaf.name), {})
            is_dead(leaf, _marked(mark, *Status))  # V4-083
            manifests += _in_leaf(leaf, mark)
        return manifests

    def deleted_only(self, manifest: ManifestFile) -> ManifestFile:
        """Return the same leaf with what is dead in it alive, and the other way round."""
        places = np.arange(_row_count(manifest), dtype=np.uint64)
        alive = np.setdiff1d(places, read_bitmap(manifest.dead))
        return replace(manifest, dead=write_bitmap(alive) if len(alive) else b"")

    def decode(
        self,
        contents: Sequence[bytes],
        manifest: ManifestFile,
        *,
        columns: frozenset[str],
        indices: Sequence[int],
        threads: int = 1,
    ) -> tuple[Sequence[ManifestHeader], RawEntries]:
        """Decode one leaf, or the root as the manifest of its own files, with dead rows.

        Order: of the file; `manifest_pos` is the position there.
        """
        del threads  # pyarrow has its own
        (content,), (index,), facts = contents, indices, self._facts
        wanted = columns | _KEYS
        if manifest.file_format is FileFormat.AVRO:
            spec = facts.metadata.spec(manifest.partition_spec_id)
            header, stored = read_manifest(content, columns=wanted, manifest=0, spec=spec)
            entries = inherit(stored, [manifest])  # row ids count dead rows too (sfc-1 4.6)
            numbered = RawEntries(with_manifest_number(entries, index).table)
            return [header], with_schemes(facts.metadata, numbered)
        if manifest.in_root:
            needed = LeafPart(stats=_part(facts, wanted).stats)
            by_root = {one.root_manifest: one for one in reversed(self.metadata.snapshots)}
            root = root_rows(facts, content, by_root[manifest.manifest_path], part=needed)
            rows = of_contents(root, *OWN_CONTENTS[manifest.content])
        else:
            rows = rows_of_leaf(facts, content, _row(manifest), part=_part(facts, wanted))
        header = ManifestHeader(
            format_version=4,
            content=manifest.content,
            spec_id=manifest.partition_spec_id,
            schema_id=None,
            partition_fields=None,
            schema=None,
            metadata={},
            codec="zstd",
            partition_record=(),
            unknown_field_ids=(),
            has_lengths_of_fixed=False,
        )
        return [header], raw_entries(facts, rows, wanted, index)

    def doubts(
        self, manifest: ManifestFile, header: ManifestHeader, size_bytes: int, rows: RawEntries
    ) -> Sequence[Finding]:
        if manifest.file_format is FileFormat.AVRO:
            return super().doubts(manifest, header, size_bytes, rows)
        leaf = LeafCounts(TreeColumns(rows.table), _row(manifest), size_bytes)
        return tuple(SFC1_RULES.findings(leaf))

    @property
    def rules(self) -> RuleSet:
        return SFC1_RULES

    def risks(
        self,
        snapshot: Snapshot,
        manifests: Sequence[ManifestFile],
        entries: Entries,
        *,
        beside_deletes: bool = False,
        rowless: RowlessFiles | None = None,
    ) -> Iterator[Finding]:
        places = {
            comparison_key(manifest.manifest_path): at for at, manifest in enumerate(manifests)
        }
        affiliated = {
            at: places[data_leaf]
            for at, manifest in enumerate(manifests)
            if (data_leaf := comparison_key(manifest.affiliated_to or "")) in places
        }
        metadata = self._facts.metadata
        tree = PlannedTree(
            entries,
            metadata,
            snapshot,
            affiliated=affiliated,
            beside_deletes=beside_deletes,
            rowless=rowless or RowlessFiles(metadata, manifests),
        )
        return SFC1_RULES.findings(tree)


# -- manifests of a root --------------------------------------------------------------------------


def listed_manifests(
    snapshot: Snapshot, root: pa.Table, vectors: Mapping[str, Positions]
) -> tuple[ManifestFile, ...]:
    """Return the root itself for the files that it lists, and its leaves with dead positions.

    `root` has the resolved rows; `vectors` the dead positions by the leaf's comparison key.
    Order: the root first, then of the root.
    """
    places: dict[str, tuple[str, ...]] = {}
    for of_leaf, row in vector_rows(root):
        if row.location is not None:
            key = comparison_key(of_leaf)
            places[key] = (*places.get(key, ()), row.location)
    leaves = []
    for leaf in leaf_rows(root):
        key = comparison_key(leaf.name)
        positions = vectors.get(key, NONE)
        if leaf.status == Status.DELETED:  # by foreign writers: nothing of it lives
            positions = np.arange(leaf.record_count, dtype=np.uint64)
        leaves.append(leaf_manifest(leaf, positions, places.get(key, ())))
    return (*own_manifests(root, snapshot), *leaves)


def leaves_without(facts: TreeSchema, root: pa.Table, within: Predicate) -> Set[str]:
    """Return the comparison keys of data leaves of a root whose statistics exclude a condition."""
    leaves = of_contents(live_rows(root), Content.DATA_MANIFEST)
    # Statistics are those of all files of a leaf; how many rows these have is not looked at.
    rows = with_column(leaves, "record_count", pa.array([0] * len(leaves), pa.int64()))
    judged = METRICS | {"spec_id", "record_count"}
    entries = Entries(raw_entries(facts, rows, judged, 0).table)
    specs, schemas = facts.metadata.partition_specs, facts.metadata.schemas
    may = may_match(entries, within, (), schemas)
    left = leaves.filter(pa.array(may))
    may[may] = manifests_may_match(_judged_by_partitions(facts, left), within, specs, schemas)
    names = rows["location"].filter(pa.array(~may)).to_pylist()
    return {comparison_key(str(name)) for name in names}


def leaf_manifest(
    leaf: ListedRow, deleted: Positions, dead_locations: tuple[str, ...] = ()
) -> ManifestFile:
    """Return a leaf's row in a root as a manifest with dead positions, and their vectors' files."""
    return manifest_file(
        leaf,
        file_format=FileFormat(leaf.file_format),
        dead=write_bitmap(deleted) if len(deleted) else b"",
        dead_count=len(deleted),
        dead_locations=dead_locations,
        status=Status(leaf.status),
        affiliated_to=leaf.referenced_file,
    )


def own_manifests(root: pa.Table, snapshot: Snapshot) -> Iterator[ManifestFile]:
    """Yield the root as the manifest of its own files, one of data and one of deletes."""
    for content, kinds in OWN_CONTENTS.items():
        rows = of_contents(root, *kinds)
        if not len(rows):
            continue
        counts: dict[str, Any] = {}
        for status in Status:
            records = rows["record_count"].filter(pc.equal(rows["status"], int(status)))
            counts[f"{status.name.lower()}_files_count"] = len(records)
            counts[f"{status.name.lower()}_rows_count"] = pc.sum(records, min_count=0).as_py()
        yield ManifestFile(
            manifest_path=snapshot.root_manifest or "",
            manifest_length=0,
            partition_spec_id=int(rows["spec_id"][0].as_py()),
            content=content,
            sequence_number=snapshot.sequence_number,
            min_sequence_number=int(pc.min(rows["sequence_number"]).as_py()),
            added_snapshot_id=snapshot.snapshot_id,
            file_format=FileFormat.PARQUET,
            in_root=True,
            **counts,
        )


# -- entries of roots and leaves ------------------------------------------------------------------


def _part(facts: TreeSchema, wanted: frozenset[str]) -> LeafPart:
    """Choose what the wanted columns are made of: partitions of the statistics of expressions."""
    columns = {_TREE_NAMES.get(name, name) for name in wanted}
    if "first_row_id" in wanted:
        columns.add("record_count")
    if wanted & _FROM_MAPS:
        return LeafPart(frozenset({*columns, STATS}))
    if "partition_key" not in wanted:
        return LeafPart(frozenset(columns), frozenset())
    specs = facts.metadata.partition_specs
    fields = (item for spec in specs for item in facts.tuple_fields(spec.spec_id, known=True))
    return LeafPart(frozenset({*columns, STATS}), frozenset(item.stats_id for item in fields))


def _row(manifest: ManifestFile) -> ListedRow:
    """Return a leaf's row in the root, as far as reading the leaf needs it."""
    is_data = manifest.content is ManifestContent.DATA
    return ListedRow(
        content=Content.DATA_MANIFEST if is_data else Content.DELETE_MANIFEST,
        file_format=manifest.file_format,
        status=Status.EXISTING,
        spec_id=manifest.partition_spec_id,
        record_count=_row_count(manifest),
        file_size_in_bytes=manifest.manifest_length,
        location=manifest.manifest_path,
        snapshot_id=manifest.added_snapshot_id,
        sequence_number=manifest.sequence_number,
        file_sequence_number=manifest.sequence_number,
        first_row_id=manifest.first_row_id,
        **{name: getattr(manifest, name) for name in COUNTS},
    )


def _row_count(manifest: ManifestFile) -> int:
    counts = (
        manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count
    )  # fmt: skip
    return sum(count or 0 for count in counts)


def raw_entries(
    facts: TreeSchema, rows: pa.Table, wanted: frozenset[str], index: int
) -> RawEntries:
    """Return rows of a root or leaf in the form of manifests' entries. Order: kept."""
    made: dict[str, pa.Array | pa.ChunkedArray] = {
        "manifest": pa.array(np.full(len(rows), index, np.int32)),
        "manifest_pos": pa.array(np.arange(len(rows), dtype=np.int32)),
    }
    if wanted & FOR_STATS:
        stats = whole(rows[STATS])
        made |= to_maps(stats, facts.columns, wanted)
        if "partition_key" in wanted:
            specs = rows["spec_id"].to_numpy()
            parts, places = [pa.nulls(0, pa.binary())], [np.empty(0, np.int64)]
            for number in np.unique(specs):
                chosen = np.flatnonzero(specs == number)
                spec = facts.metadata.spec(int(number))
                width = 0 if spec is None else len(spec.fields)
                fields = facts.tuple_fields(int(number))
                part = stats.take(pa.array(chosen))
                parts.append(recover(part, len(chosen), fields, width))
                places.append(chosen)
            order = np.argsort(np.concatenate(places), kind="stable")
            made["partition_key"] = pa.concat_arrays(parts).take(pa.array(order))
    schema = pa.schema([field for field in (*PLANNING, *CARRIED) if field.name in wanted])
    columns = []
    for member in schema:
        column, stored = made.get(member.name), _TREE_NAMES.get(member.name, member.name)
        if column is None and stored in rows.column_names:
            column = rows[stored]
        columns.append(
            pa.nulls(len(rows), member.type) if column is None else column.cast(member.type)
        )
    return RawEntries(pa.table(columns, schema=schema))


# -- what a snapshot changed ----------------------------------------------------------------------


def _marked(mark: Mapping[int, Positions], *statuses: Status) -> Positions:
    """Return the dead positions of a leaf that vectors of some statuses name."""
    positions = NONE
    for status in statuses:
        positions = np.union1d(positions, mark.get(status, NONE))
    return positions


def _in_leaf(leaf: ListedRow, mark: Mapping[int, Positions]) -> Iterator[MarkedManifest]:
    """Find how to read what changed in a leaf, nothing if nothing did (sfc-1 9.2 steps 3 to 5)."""
    fresh = np.setdiff1d(_marked(mark, Status.ADDED), _marked(mark, Status.DELETED))
    if leaf.status == Status.EXISTING:
        if len(fresh):
            yield MarkedManifest(_only(leaf, fresh), removed=_LIVE)
    elif leaf.status == Status.ADDED:
        manifest = leaf_manifest(leaf, _marked(mark, Status.ADDED, Status.EXISTING))
        yield MarkedManifest(manifest, frozenset({Status.ADDED}), frozenset({Status.DELETED}))
        if len(fresh):
            yield MarkedManifest(_only(leaf, fresh), removed=frozenset({Status.EXISTING}))
    else:
        manifest = leaf_manifest(leaf, _marked(mark, Status.DELETED, Status.EXISTING))
        yield MarkedManifest(manifest, removed=_LIVE, unless_live=True)


def _only(leaf: ListedRow, positions: Positions) -> ManifestFile:
    others = np.setdiff1d(np.arange(leaf.record_count, dtype=np.uint64), positions)
    return leaf_manifest(leaf, others)


# -- what views show ------------------------------------------------------------------------------


def _vectors(store: Store, root: pa.Table) -> Iterator[ManifestVector]:
    leaves = [leaf.name for leaf in leaf_rows(root)]
    listed = {comparison_key(location): location for location in leaves}
    rows = [(leaf, row, vector_positions(store.read_range, row)) for leaf, row in vector_rows(root)]
    gone = {
        comparison_key(leaf): positions
        for leaf, row, positions in rows
        if row.status == Status.DELETED
    }
    for leaf, row, positions in rows:
        key, inline = comparison_key(leaf), row.inline_content
        fresh = np.setdiff1d(positions, gone.get(key, NONE))
        yield ManifestVector(
            manifest_path=listed.get(key, leaf),
            status=Status(row.status),
            position_count=len(positions),
            fresh_count=len(fresh) if row.status == Status.ADDED else 0,
            size_bytes=number_of(row.content_size_in_bytes) if inline is None else len(inline),
            location=row.location,
        )


def _judged_by_partitions(facts: TreeSchema, leaves: pa.Table) -> Sequence[ManifestFile]:
    """Return leaves with the ranges of partition fields as far as bounds are known. Order: kept."""
    nothing = FieldSummary(contains_null=False)  # bounds of values may be left out
    return [
        ManifestFile(
            location, 0, spec_id, ManifestContent.DATA, 0, 0, None,
            partitions=tuple(item if item.lower_bound is not None else nothing for item in known),
        )
        for location, spec_id, known in zip(
            leaves["location"].to_pylist(),
            leaves["spec_id"].to_pylist(),
            (ranges or () for ranges in _summaries(facts, leaves)),
            strict=True,
        )
    ]  # fmt: skip


def _summaries(facts: TreeSchema, leaves: pa.Table) -> Sequence[tuple[FieldSummary, ...] | None]:
    """Return the ranges of leaves' partition fields; None where a transform is not known."""
    spec_ids = leaves["spec_id"].to_numpy()
    found: list[tuple[FieldSummary, ...] | None] = [None] * len(leaves)
    for spec_id in np.unique(spec_ids).tolist():
        places = np.flatnonzero(spec_ids == spec_id)
        stats = leaves[STATS].take(pa.array(places)).combine_chunks()
        for place, ranges in zip(places.tolist(), _of_spec(facts, spec_id, stats), strict=True):
            found[place] = ranges
    return found


def _of_spec(
    facts: TreeSchema, spec_id: int, stats: pa.StructArray
) -> Iterator[tuple[FieldSummary, ...] | None]:
    try:
        fields = facts.tuple_fields(spec_id)
    except Unsupported:
        yield from [None] * len(stats)
        return
    spec = facts.metadata.spec(spec_id)
    fields_of_spec = () if spec is None else spec.fields
    columns = [[FieldSummary(contains_null=True)] * len(stats) for _ in fields_of_spec]
    groups = by_field_id(stats)
    for item in fields:
        group = groups[group_id(item.stats_id)]
        members = dict(zip((one.name for one in group.type), group.flatten(), strict=True))
        lowers, uppers = (
            single_values(item.type, members[name]).to_pylist()
            for name in ("lower_bound", "upper_bound")
        )
        null_counts, nan_counts = (  # required columns count no nulls
            members[name].to_pylist() if name in members else [0] * len(stats)
            for name in ("null_count", "nan_count")
        )
        rows = zip(lowers, uppers, null_counts, nan_counts, strict=True)
        columns[item.place] = [
            FieldSummary(
                contains_null=nulls != 0,
                contains_nan=None if nans is None else nans > 0,
                lower_bound=lower,
                upper_bound=upper,
            )
            for lower, upper, nulls, nans in rows
        ]
    yield from zip(*columns, strict=True) if columns else [()] * len(stats)
