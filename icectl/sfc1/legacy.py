"""Snapshots of older versions as roots that list their manifests (sfc-1 7.9)."""

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from icectl.errors import MissingFile
from icectl.files.manifest.manifest import read_manifest
from icectl.files.manifest.schema import PARQUET_MAGIC
from icectl.files.parquet.schema import field_id
from icectl.format import single_value
from icectl.format.locations import with_scheme
from icectl.format.manifest import (
    Content,
    FieldSummary,
    FileFormat,
    ManifestContent,
    ManifestFile,
    Status,
)
from icectl.format.snapshot import Snapshot
from icectl.format.stats_columns import group_id
from icectl.format.types import Type
from icectl.sfc1.content_stats import conform, typed_values
from icectl.sfc1.live import leaf_rows
from icectl.sfc1.manifests import TreeFacts
from icectl.sfc1.rows import STATS, ListedRow
from icectl.storage.location import comparison_key
from icectl.storage.store import Store
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.reading import decode_file, read_file

_COUNTED = frozenset({"status", "record_count", "snapshot_id"})
_STATUSES = ("added", "existing", "deleted")


def legacy_root(store: Store, facts: TreeFacts, snapshot: Snapshot) -> pa.Table:
    """Return the rows of a root that lists the manifests of an older version's snapshot.

    Shape: all EXISTING; manifests without live entries are left out (sfc-1 C-36).
    Order: of the manifest list.
    Raises: StorageError; CorruptTable; Unsupported.
    """
    manifests = read_snapshot_manifests(store, facts.metadata, snapshot)
    rows = [facts.empty()]
    for manifest in manifests:
        counted = _counted(store, facts, manifest, snapshot)
        if (counted.added_files_count or 0) + (counted.existing_files_count or 0):
            rows.append(_row(facts, counted))
    return pa.concat_tables(rows)


def parquet_leaves(store: Store, root: pa.Table) -> frozenset[str]:
    """Keys of those leaves of a converted list that are in Parquet, as Iceberg 1.12 writes them.

    Raises: StorageError.
    """
    return frozenset(
        comparison_key(leaf.name) for leaf in leaf_rows(root) if _is_parquet(store, leaf.name)
    )


def _is_parquet(store: Store, location: str) -> bool:
    """Return whether a manifest that a list names is in Parquet.

    Raises: MissingFile; StorageError.
    """
    if location.endswith(".avro"):
        return False
    try:
        return store.read_range(location, 0, len(PARQUET_MAGIC)) == PARQUET_MAGIC
    except FileNotFoundError as error:
        raise MissingFile(location) from error


def _counted(
    store: Store, facts: TreeFacts, manifest: ManifestFile, snapshot: Snapshot
) -> ManifestFile:
    """The manifest with what version 1 lists may leave out, by reading it (sfc-1 7.9 step 3)."""
    counts = (
        manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count,
        manifest.added_rows_count, manifest.existing_rows_count, manifest.deleted_rows_count,
        manifest.added_snapshot_id,
    )  # fmt: skip
    if all(count is not None for count in counts):
        return manifest
    content = read_file(store, manifest.manifest_path)
    spec = facts.metadata.spec(manifest.partition_spec_id)
    _, raw = decode_file(
        manifest.manifest_path,
        lambda: read_manifest(content, columns=_COUNTED, manifest=0, spec=spec),
    )
    files: Counter[int] = Counter()
    records: Counter[int] = Counter()
    writers = set()
    columns = (raw.table[name].to_pylist() for name in ("status", "record_count", "snapshot_id"))
    for status, record_count, snapshot_id in zip(*columns, strict=True):
        files[status] += 1
        records[status] += record_count
        if status == Status.ADDED:
            writers.add(snapshot_id)
    added_by = manifest.added_snapshot_id
    if added_by is None:
        added_by = writers.pop() if len(writers) == 1 else snapshot.snapshot_id
    return replace(
        manifest,
        added_snapshot_id=added_by or snapshot.snapshot_id,
        added_files_count=files[Status.ADDED],
        existing_files_count=files[Status.EXISTING],
        deleted_files_count=files[Status.DELETED],
        added_rows_count=records[Status.ADDED],
        existing_rows_count=records[Status.EXISTING],
        deleted_rows_count=records[Status.DELETED],
    )


def _row(facts: TreeFacts, manifest: ManifestFile) -> pa.Table:
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


def _stats(facts: TreeFacts, manifest: ManifestFile) -> pa.StructArray:
    """Make statistics of the bounds that summaries of partition fields tell (sfc-1 5.7)."""
    kind = facts.rows_schema.field(STATS).type
    summaries = manifest.partitions
    if not summaries:
        return pa.nulls(1, kind)
    groups = list(conform(None, facts.columns, 1).flatten())
    places = {field_id(one): at for at, one in enumerate(kind)}
    for item in facts.tuple_fields(manifest.partition_spec_id):
        if item.place < len(summaries):
            at = places[group_id(item.stats_id)]
            groups[at] = _summarised(kind.field(at).type, item.type, summaries[item.place])
    return pa.StructArray.from_arrays(groups, fields=list(kind))


def _summarised(kind: pa.StructType, type_: Type, summary: FieldSummary) -> pa.StructArray:
    members = {
        "lower_bound": typed_values(type_, [_bound(type_, summary.lower_bound)]),
        "upper_bound": typed_values(type_, [_bound(type_, summary.upper_bound)]),
    }
    if not summary.contains_null:
        members["null_count"] = pa.array([0], pa.int64())
    if summary.contains_nan is False:
        members["nan_count"] = pa.array([0], pa.int64())
    columns = [
        members[member.name].cast(member.type)
        if member.name in members
        else pa.nulls(1, member.type)
        for member in kind
    ]
    is_known = any(pc.any(column.is_valid()).as_py() for column in columns)
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=pa.array([not is_known]))


def _bound(type_: Type, content: bytes | None) -> single_value.Value:
    if content is None:
        return None
    try:
        return single_value.decode(type_, content)
    except ValueError:
        return None
