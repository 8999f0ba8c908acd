"""Roots and leaves in the form that manifests of every version are read in.

A root is a list of manifests: its leaves, each with its dead positions, and itself, for the files
that it lists directly.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import NONE, Positions, whole
from icectl.entries.conditions import Predicate
from icectl.entries.inherit import inherit
from icectl.entries.locations import with_schemes
from icectl.entries.may_match import METRICS, may_match
from icectl.entries.rows import CARRIED, PLANNING, Entries, RawEntries, where, with_manifest_number
from icectl.errors import CorruptTable
from icectl.files.deletion_vectors import read_bitmap, write_bitmap
from icectl.files.manifest.manifest import read_manifest
from icectl.format.manifest import (
    Content,
    FileFormat,
    ManifestContent,
    ManifestFile,
    ManifestHeader,
    Status,
)
from icectl.format.snapshot import Snapshot
from icectl.sfc1.live import leaf_rows, live_rows, of_contents, vector_rows, vectors
from icectl.sfc1.manifests import (
    FOR_STATS,
    OWN_CONTENTS,
    LeafPart,
    TreeFacts,
    manifest_file,
    read_root,
    root_rows,
    rows_of_leaf,
    with_column,
)
from icectl.sfc1.partition_stats import recover
from icectl.sfc1.rows import STATS, ListedRow
from icectl.sfc1.safety import sound_root
from icectl.sfc1.stats_maps import to_maps
from icectl.storage.location import comparison_key
from icectl.storage.store import Store

_KEYS = frozenset({"content", "status", "spec_id", "manifest", "manifest_pos"})
"""Columns that always come."""

_TREE_NAMES = {"referenced_data_file": "referenced_file"}
"""Columns that have another name in trees."""

_JUDGED = METRICS | {"spec_id", "record_count"}
"""What leaves are judged by."""

_FROM_MAPS = FOR_STATS - {"partition_key"}
"""Columns that statistics of all columns are needed for."""


def tree_manifests(
    store: Store, facts: TreeFacts, snapshot: Snapshot, *, sound: bool = True
) -> tuple[ManifestFile, ...]:
    """Return the leaves of a version 4 snapshot, and its root for the files that it lists itself.

    A state that is only shown need not be `sound`: vectors of no leaf are left out then.
    Order: the root first, then of the root.
    Raises: StorageError; CorruptTable; Unsupported.
    """
    if sound:
        return _listed(snapshot, *sound_root(store, facts, snapshot))
    root = read_root(store, facts, snapshot)
    return _listed(snapshot, root, vectors(store, root))


def tree_manifests_of(
    store: Store, facts: TreeFacts, snapshot: Snapshot, within: Predicate
) -> tuple[tuple[ManifestFile, ...], bool]:
    """Return the same of a sound state, but for leaves that a scan need not open (sfc-1 8.2).

    These are data leaves whose statistics exclude the condition, and delete leaves that belong to
    one of them. The second tells whether there are any.
    Order, errors: as tree_manifests.
    """
    root, dead = sound_root(store, facts, snapshot)
    excluded = _excluded(facts, root, within)
    listed = _listed(snapshot, root, dead)
    kept = tuple(
        one
        for one in listed
        if excluded.isdisjoint(map(comparison_key, (one.manifest_path, one.affiliated_to or "")))
    )
    return kept, len(kept) < len(listed)


def _excluded(facts: TreeFacts, root: pa.Table, within: Predicate) -> set[str]:
    """Find the data leaves that hold no row of which a condition may be true, by their keys.

    Their statistics are those of all their files; how many rows these have is not looked at.
    """
    leaves = of_contents(live_rows(root), Content.DATA_MANIFEST)
    rows = with_column(leaves, "record_count", pa.array([0] * len(leaves), pa.int64()))
    entries = Entries(raw_entries(facts, rows, NONE, _JUDGED, 0).table)
    may = may_match(entries, within, (), facts.metadata.schemas)
    names = rows["location"].filter(pa.array(~may)).to_pylist()
    return {comparison_key(str(name)) for name in names}


def _listed(
    snapshot: Snapshot, root: pa.Table, vectors: Mapping[str, Positions]
) -> tuple[ManifestFile, ...]:
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
        leaves.append(replace(leaf_manifest(leaf, positions), dead_locations=places.get(key, ())))
    return (*own_manifests(root, snapshot), *leaves)


def leaf_manifest(leaf: ListedRow, deleted: Positions) -> ManifestFile:
    """Return a leaf's row in a root as a manifest with dead positions."""
    return replace(
        manifest_file(leaf),
        file_format=FileFormat(leaf.file_format),
        dead=write_bitmap(deleted) if len(deleted) else b"",
        dead_count=len(deleted),
        status=Status(leaf.status),
        affiliated_to=leaf.referenced_file,
    )


def own_manifests(root: pa.Table, snapshot: Snapshot) -> Iterator[ManifestFile]:
    """Yield the root as the manifest of its own files, one of data and one of deletes."""
    for content, kinds in OWN_CONTENTS.items():
        rows = of_contents(root, *kinds)
        if not len(rows):
            continue
        counts = {status: rows.filter(pc.equal(rows["status"], int(status))) for status in Status}

        def records(status: Status, counts: Mapping[Status, pa.Table] = counts) -> int:
            return int(pc.sum(counts[status]["record_count"], min_count=0).as_py())

        yield ManifestFile(
            manifest_path=snapshot.root_manifest or "",
            manifest_length=0,
            partition_spec_id=int(rows["spec_id"][0].as_py()),
            content=content,
            sequence_number=snapshot.sequence_number,
            min_sequence_number=int(pc.min(rows["sequence_number"]).as_py()),
            added_snapshot_id=snapshot.snapshot_id,
            added_files_count=len(counts[Status.ADDED]),
            existing_files_count=len(counts[Status.EXISTING]),
            deleted_files_count=len(counts[Status.DELETED]),
            added_rows_count=records(Status.ADDED),
            existing_rows_count=records(Status.EXISTING),
            deleted_rows_count=records(Status.DELETED),
            file_format=FileFormat.PARQUET,
            in_root=True,
        )


def decode_tree_manifest(
    content: bytes,
    facts: TreeFacts,
    manifest: ManifestFile,
    *,
    columns: frozenset[str],
    index: int,
) -> tuple[ManifestHeader, RawEntries]:
    """Return the rows of one of the manifests that `tree_manifests` gives, inheritance resolved.

    Shape: the `columns` that are asked for; rows that are dead are left out.
    Order: of the file; `manifest_pos` is the position there.
    Raises: CorruptTable; Unsupported.
    """
    deleted = read_bitmap(manifest.dead) if manifest.dead else NONE
    wanted = columns | _KEYS
    if manifest.file_format is FileFormat.AVRO:
        return _legacy(content, facts, manifest, wanted, index)
    if manifest.in_root:
        needed = LeafPart(stats=_part(facts, wanted).stats)
        root = root_rows(facts, content, _snapshot_of(facts, manifest), part=needed)
        rows = of_contents(root, *OWN_CONTENTS[manifest.content])
    else:
        rows = rows_of_leaf(facts, content, _row(manifest), part=_part(facts, wanted))
    return _header(manifest), raw_entries(facts, rows, deleted, wanted, index)


def _part(facts: TreeFacts, wanted: frozenset[str]) -> LeafPart:
    """Choose what the wanted columns are made of: partitions of the statistics of expressions."""
    columns = {_TREE_NAMES.get(name, name) for name in wanted}
    if "first_row_id" in wanted:
        columns.add("record_count")
    if wanted & _FROM_MAPS:
        return LeafPart(frozenset({*columns, STATS}))
    if "partition_key" not in wanted:
        return LeafPart(frozenset(columns), frozenset())
    specs = facts.metadata.partition_specs
    fields = (item for spec in specs for item in facts.tuple_fields(spec.spec_id))
    return LeafPart(frozenset({*columns, STATS}), frozenset(item.stats_id for item in fields))


def _legacy(
    content: bytes, facts: TreeFacts, manifest: ManifestFile, wanted: frozenset[str], index: int
) -> tuple[ManifestHeader, RawEntries]:
    """The rows of an Avro leaf as any snapshot of an older version reads them, less the dead."""
    spec = facts.metadata.spec(manifest.partition_spec_id)
    header, stored = read_manifest(content, columns=wanted, manifest=0, spec=spec)
    entries = inherit(stored, [manifest])  # row ids count dead rows too (sfc-1 4.6)
    alive = _alive(len(entries), read_bitmap(manifest.dead))
    live = RawEntries(with_manifest_number(where(entries, alive), index).table)
    return header, with_schemes(facts.metadata, live)


def _snapshot_of(facts: TreeFacts, manifest: ManifestFile) -> Snapshot:
    snapshot = next(
        (one for one in facts.metadata.snapshots if one.root_manifest == manifest.manifest_path),
        None,
    )
    if snapshot is None:
        raise ValueError(manifest.manifest_path)
    return snapshot


def _row(manifest: ManifestFile) -> ListedRow:
    """Return a leaf's row in the root, as far as reading the leaf needs it."""
    is_data = manifest.content is ManifestContent.DATA
    counts = (
        manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count
    )  # fmt: skip
    return ListedRow(
        content=Content.DATA_MANIFEST if is_data else Content.DELETE_MANIFEST,
        file_format=manifest.file_format,
        status=Status.EXISTING,
        spec_id=manifest.partition_spec_id,
        record_count=sum(count or 0 for count in counts),
        file_size_in_bytes=manifest.manifest_length,
        location=manifest.manifest_path,
        snapshot_id=manifest.added_snapshot_id,
        sequence_number=manifest.sequence_number,
        file_sequence_number=manifest.sequence_number,
        first_row_id=manifest.first_row_id,
    )


def _header(manifest: ManifestFile) -> ManifestHeader:
    return ManifestHeader(
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


def raw_entries(
    facts: TreeFacts, rows: pa.Table, deleted: Positions, wanted: frozenset[str], index: int
) -> RawEntries:
    """Return rows of a root or leaf in the form of manifests' entries, without dead ones.

    Order: kept.
    """
    positions = np.flatnonzero(_alive(len(rows), deleted)).astype(np.int32)
    if len(positions) < len(rows):
        rows = rows.take(pa.array(positions))
    made: dict[str, pa.Array | pa.ChunkedArray] = {
        "manifest": pa.array(np.full(len(rows), index, np.int32)),
        "manifest_pos": pa.array(positions),
    }
    if wanted & FOR_STATS:
        stats = whole(rows[STATS])
        made |= to_maps(stats, facts.columns, wanted)
        if "partition_key" in wanted:
            made["partition_key"] = _keys(facts, rows, stats)
    names = [name for name in (*PLANNING.names, *CARRIED.names) if name in wanted]
    schema = pa.schema([{**_fields(PLANNING), **_fields(CARRIED)}[name] for name in names])
    columns = []
    for field in schema:
        column, stored = made.get(field.name), _TREE_NAMES.get(field.name, field.name)
        if column is None and stored in rows.column_names:
            column = rows[stored]
        columns.append(
            pa.nulls(len(rows), field.type) if column is None else column.cast(field.type)
        )
    return RawEntries(pa.table(columns, schema=schema))


def _alive(count: int, deleted: Positions) -> npt.NDArray[np.bool_]:
    """Find which of so many rows no delete vector names.

    Raises: CorruptTable V4-083.
    """
    if len(deleted) and int(deleted[-1]) >= count:  # V4-083
        message = f"it has {count} rows, and a delete vector names position {int(deleted[-1])}"
        raise CorruptTable(message, rule="V4-083")
    alive = np.ones(count, bool)
    alive[deleted.astype(np.int64)] = False
    return alive


def _fields(schema: pa.Schema) -> dict[str, pa.Field]:
    return {field.name: field for field in schema}


def _keys(facts: TreeFacts, rows: pa.Table, stats: pa.StructArray) -> pa.Array:
    """Return the partition keys of rows of any specs; UNKNOWN_KEY where statistics do not tell."""
    specs = rows["spec_id"].to_numpy()
    parts, places = [pa.nulls(0, pa.binary())], [np.empty(0, np.int64)]
    for number in np.unique(specs):
        chosen = np.flatnonzero(specs == number)
        spec = facts.metadata.spec(int(number))
        width = 0 if spec is None else len(spec.fields)
        fields = facts.tuple_fields(int(number))
        part = stats.take(pa.array(chosen))
        parts.append(recover(part, len(chosen), fields, width).keys)
        places.append(chosen)
    order = np.argsort(np.concatenate(places), kind="stable")
    return pa.concat_arrays(parts).take(pa.array(order))
