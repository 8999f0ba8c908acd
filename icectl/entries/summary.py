"""Counts and bytes of entries: in total, per manifest, per partition, per size band.

All summaries except that of a manifest can be added, so tables are summarized by manifest.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries import rows
from icectl.entries.partition_key import PartitionValue, decode_key, java_sort_key, sort_key
from icectl.entries.rows import Entries
from icectl.format import single_value
from icectl.format.manifest import (
    Content,
    FieldSummary,
    FileFormat,
    ManifestContent,
    ManifestFile,
    Status,
)
from icectl.format.types import PrimitiveType, Type
from icectl.units import read_count

SIZE_BANDS = tuple(size << 20 for size in (1, 8, 32, 128, 512, 1024))
"""Bounds of the size histogram: the default target is 512 MiB, a default row group 128 MiB."""

_PARTITION_COUNTS = (
    "file_count", "record_count", "size_bytes", "position_delete_file_count",
    "position_delete_record_count", "equality_delete_file_count", "equality_delete_record_count",
    "deletion_vector_count", "deletion_vector_record_count",
)  # fmt: skip

PARTITION_SOURCES: frozenset[str] = frozenset({
    "content", "status", "file_format", "spec_id", "partition_key", "record_count",
    "file_size_in_bytes", "snapshot_id",
})  # fmt: skip
"""Columns of entries that `by_partition` and `rows.live` read."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts, bytes and records of some entries; the bytes of a vector are those of its blob."""

    data_file_count: int = 0
    data_file_bytes: int = 0
    record_count: int = 0
    position_delete_file_count: int = 0
    position_delete_file_bytes: int = 0
    position_delete_record_count: int = 0
    equality_delete_file_count: int = 0
    equality_delete_file_bytes: int = 0
    equality_delete_record_count: int = 0
    deletion_vector_count: int = 0
    deletion_vector_bytes: int = 0
    deletion_vector_record_count: int = 0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            *(getattr(self, field.name) + getattr(other, field.name) for field in fields(Totals))
        )

    @property
    def delete_file_count(self) -> int:
        """Delete files of every kind, vectors one by one."""
        return (
            self.position_delete_file_count
            + self.equality_delete_file_count
            + self.deletion_vector_count
        )

    @property
    def delete_file_bytes(self) -> int:
        return (
            self.position_delete_file_bytes
            + self.equality_delete_file_bytes
            + self.deletion_vector_bytes
        )


def summarise(entries: Entries) -> Totals:
    """Count files, bytes and records of every kind."""
    counts: list[int] = []
    planned = rows.planning(entries)
    for part, size in (
        (rows.data_files(planned), "file_size_in_bytes"),
        (rows.position_delete_files(planned), "file_size_in_bytes"),
        (rows.equality_delete_files(planned), "file_size_in_bytes"),
        (rows.deletion_vectors(planned), "content_size_in_bytes"),
    ):
        counts += [len(part), rows.total(part, size), rows.total(part, "record_count")]
    return Totals(*counts)


def summary_counters(
    totals: Totals, kind: Literal["total", "added", "removed"]
) -> Mapping[str, int]:
    """Return the counters of a snapshot summary that these totals give.

    Spec: Snapshots, summary; R-031. Keys are those of the reference implementation; position
    deletes count the records of vectors too.
    """
    lost = "deleted" if kind == "removed" else kind
    counters = {
        f"{lost}-data-files": totals.data_file_count,
        f"{lost}-records": totals.record_count,
        f"{kind}-files-size": totals.data_file_bytes + totals.delete_file_bytes,
        f"{kind}-delete-files": totals.delete_file_count,
        f"{kind}-position-deletes": totals.position_delete_record_count
        + totals.deletion_vector_record_count,
        f"{kind}-equality-deletes": totals.equality_delete_record_count,
    }
    if kind != "total":
        counters |= {
            f"{kind}-position-delete-files": totals.position_delete_file_count,
            f"{kind}-equality-delete-files": totals.equality_delete_file_count,
            f"{kind}-dvs": totals.deletion_vector_count,
        }
    return counters


def moved_totals(
    summary: Mapping[str, str] | None, come: Totals, gone: Totals
) -> Mapping[str, int]:
    """Return the totals that follow from those of a summary, where it has them (R-031)."""
    added, removed = summary_counters(come, "total"), summary_counters(gone, "total")
    stated = {key: read_count((summary or {}).get(key)) for key in added}
    moved = {key: n + added[key] - removed[key] for key, n in stated.items() if n is not None}
    return {key: count for key, count in moved.items() if count >= 0}


@dataclass(frozen=True, slots=True)
class SizeHistogram:
    """Files and bytes per size band: below the first bound, between bounds, from the last on."""

    bounds: tuple[int, ...]
    file_counts: tuple[int, ...]
    byte_counts: tuple[int, ...]

    def __add__(self, other: "SizeHistogram") -> "SizeHistogram":
        if self.bounds != other.bounds:
            raise ValueError(other.bounds)
        return SizeHistogram(
            self.bounds,
            tuple(a + b for a, b in zip(self.file_counts, other.file_counts, strict=True)),
            tuple(a + b for a, b in zip(self.byte_counts, other.byte_counts, strict=True)),
        )


def size_histogram(entries: Entries, bounds: Sequence[int] = SIZE_BANDS) -> SizeHistogram:
    """Count files and bytes per size band; `bounds` ascend."""
    sizes = rows.numbers(entries, "file_size_in_bytes")
    bands = np.searchsorted(np.asarray(bounds, dtype=np.int64), sizes, "right")
    in_band = [sizes[bands == band] for band in range(len(bounds) + 1)]
    return SizeHistogram(
        tuple(bounds),
        tuple(len(part) for part in in_band),
        tuple(int(part.sum()) for part in in_band),
    )


def by_partition(entries: Entries, timestamps: Mapping[int, int]) -> pa.Table:
    """Count files and records of every kind per partition.

    Shape: spec_id, partition_key; file_count, record_count and size_bytes of data files; file and
    record counts of position delete files, equality delete files and vectors; updated_ms, the
    newest timestamp of the snapshots that brought the entries, from `timestamps` by snapshot id
    (null where none is known).
    Order: spec_id, then partition_key by bytes.
    """
    table = entries.table
    data = pc.equal(table["content"], Content.DATA)
    equality = pc.equal(table["content"], Content.EQUALITY_DELETES)
    either = pc.equal(table["content"], Content.POSITION_DELETES)
    vector = pc.and_(either, pc.equal(table["file_format"], FileFormat.PUFFIN))
    position = pc.and_not(either, vector)
    records = table["record_count"]

    def counted(mask: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.if_else(mask, values, pa.scalar(0, pa.int64()))

    counts = [
        pc.cast(data, pa.int64()),
        counted(data, records),
        counted(data, table["file_size_in_bytes"]),
    ]
    for mask in (position, equality, vector):
        counts += [pc.cast(mask, pa.int64()), counted(mask, records)]
    columns = {key: table[key] for key in rows.GROUP_KEYS}
    columns |= dict(zip(_PARTITION_COUNTS, counts, strict=True))
    known = pa.array(timestamps.keys(), pa.int64())
    places = pc.index_in(table["snapshot_id"], value_set=known, skip_nulls=True)
    columns["updated_ms"] = pc.take(pa.array(timestamps.values(), pa.int64()), places)
    return merge_partitions([pa.table(columns)])


def merge_partitions(parts: Iterable[pa.Table]) -> pa.Table:
    """Add the tables of `by_partition` up, to one of that shape and order."""
    joined = pa.concat_tables(parts).group_by(rows.GROUP_KEYS)
    summed = joined.aggregate(
        [*((name, "sum") for name in _PARTITION_COUNTS), ("updated_ms", "max")]
    )
    names = [name.removesuffix("_sum").removesuffix("_max") for name in summed.column_names]
    merged = summed.rename_columns(names)
    return merged.sort_by([(key, "ascending") for key in rows.GROUP_KEYS])


def describe_manifest(
    entries: Entries, types: Sequence[Type | None], *, location: str, length: int, spec_id: int
) -> ManifestFile:
    """Return the row of a manifest with these entries; `types` are those of its spec's fields.

    Sequence number and snapshot are left to the commit that lists it (R-041). First row id: that of
    the first data file where every one has its own, so that none is given again (R-102).
    Raises: CorruptTable R-068.
    Spec: R-047, R-050, R-051, R-053.
    """
    added, existing, deleted = (
        rows.of_status(entries, status)
        for status in (Status.ADDED, Status.EXISTING, Status.DELETED)
    )
    alive = rows.live(entries)
    of_data = not len(rows.delete_files(entries))
    row_ids = alive.table["first_row_id"]
    return ManifestFile(
        manifest_path=location,
        manifest_length=length,
        partition_spec_id=spec_id,
        content=ManifestContent.DATA if of_data else ManifestContent.DELETES,
        sequence_number=0,
        min_sequence_number=pc.min(alive.table["sequence_number"]).as_py() or 0,
        added_snapshot_id=None,
        added_files_count=len(added),
        existing_files_count=len(existing),
        deleted_files_count=len(deleted),
        added_rows_count=rows.total(added, "record_count"),
        existing_rows_count=rows.total(existing, "record_count"),
        deleted_rows_count=rows.total(deleted, "record_count"),
        partitions=field_summaries(entries, types),
        first_row_id=pc.min(row_ids).as_py() if of_data and not row_ids.null_count else None,
    )


def field_summaries(
    entries: Entries, types: Sequence[Type | None]
) -> tuple[FieldSummary, ...] | None:
    """Return the range of each partition field over the entries.

    Shape: None, which tells readers nothing, where UUIDs have a range for some of them only: a
    summary without bounds would say that there is nothing but nulls.
    Order: that of the spec's fields.
    Raises: CorruptTable R-068.
    Spec: R-053; bounds leave out null and NaN, -0.0 comes before 0.0 (R-092).
    """
    keys = entries.table["partition_key"].unique().to_pylist()
    tuples = [decode_key(key, types) for key in keys]
    columns = [[values[at] for values in tuples] for at in range(len(types))]
    if any(map(_is_disputed, types, columns)):
        return None
    return tuple(
        _summary(type_, values) for type_, values in zip(types, columns, strict=True)
    )


def _is_disputed(type_: Type | None, values: Sequence[PartitionValue]) -> bool:
    """Return whether Java takes other UUIDs for the first and the last one than the format does."""
    present = [value for value in values if value is not None]
    if type_ != PrimitiveType("uuid") or not present:
        return False
    return any(
        extreme(present, key=java_sort_key) != extreme(present, key=sort_key)
        for extreme in (min, max)
    )


def _summary(type_: Type | None, values: Sequence[PartitionValue]) -> FieldSummary:
    nans = [isinstance(value, float) and math.isnan(value) for value in values]
    present = [
        value
        for value, is_nan in zip(values, nans, strict=True)
        if value is not None and not is_nan
    ]
    contains_null = any(value is None for value in values)
    if not present or type_ is None:
        return FieldSummary(contains_null, any(nans))
    ordered = sorted(present, key=sort_key)
    return FieldSummary(
        contains_null,
        any(nans),
        single_value.encode(type_, ordered[0]),
        single_value.encode(type_, ordered[-1]),
    )
