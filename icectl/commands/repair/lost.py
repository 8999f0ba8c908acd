"""The content of a lost manifest, where other snapshots or the data files themselves prove it.

A manifest's row in the list tells how many files and rows it has, and which snapshot wrote it. Its
existing files lived in the parent of that snapshot, and nowhere else in the snapshot itself: where
there are just as many such files as the row counts, they are the ones. The files that it added are
those that other snapshots list as added by this one.

Else the files themselves may prove it. Where all other manifests of the table can be read, the data
files that none of them lists are those of the lost one, if they are as many, with as many rows and
bytes, as the snapshot that added them says, in just the partitions that the list tells, and written
by that commit. Their numbers are those of the manifest's row in the list, their partition is that
of the least and the greatest value in their footers, where these are of one and the same.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from icectl.entries.partition_key import encode_key
from icectl.entries.rows import (
    ALL_COLUMNS,
    Entries,
    as_existing,
    by_row,
    concat,
    entries_from,
    live,
    of_specs,
    take,
    total,
    with_values,
)
from icectl.entries.summary import field_summaries
from icectl.errors import CorruptTable, Unsupported
from icectl.files.data_file import open_data_file
from icectl.files.parquet.metrics import FileMetrics
from icectl.format.manifest import (
    Content,
    FieldSummary,
    FileFormat,
    ManifestContent,
    ManifestFile,
    Status,
)
from icectl.format.metadata import TableMetadata
from icectl.format.metrics_modes import metrics_modes
from icectl.format.partition import PartitionSpec, result_types
from icectl.format.schema import Schema
from icectl.format.single_value import Value, decode
from icectl.format.snapshot import Snapshot
from icectl.format.transforms import Transform, accepts, apply
from icectl.format.types import NestedField, PrimitiveType
from icectl.rows.compact_job import carried_metrics
from icectl.rows.write_data import shaped_metrics
from icectl.storage.location import loosest_key, loosest_keys, name, parent
from icectl.table.live_files import name_mapping
from icectl.table.manifest_lists import (
    distinct_manifests,
    read_snapshot_manifests,
    try_manifest_lists,
)
from icectl.table.manifests import load_entries, try_manifests
from icectl.table.reader import Reader
from icectl.table.reading import read_or_none


def proven_entries(reader: Reader, lost: ManifestFile) -> Entries | None:
    """The live entries of a lost manifest, with every column; None where nothing proves them.

    Raises: StorageError of the store; Incomplete.
    Cost: the manifests of the snapshot that wrote it and of its parent, and of all other snapshots
    where it added files.
    """
    wrote = reader.metadata.snapshot(lost.added_snapshot_id or -1)
    counts = (
        lost.added_files_count, lost.added_rows_count,
        lost.existing_files_count, lost.existing_rows_count,
    )  # fmt: skip
    if wrote is None or None in counts:
        return None
    beside, is_whole = _entries(reader, [wrote], lost)
    if not is_whole:
        return None
    added_files, added_rows, existing_files, existing_rows = counts
    parts = []
    if added_files:
        others = [snapshot for snapshot in reader.metadata.snapshots if snapshot is not wrote]
        entries, _ = _entries(reader, others, lost)
        alive = live(entries)
        ids = enumerate(alive.table["snapshot_id"].to_pylist())
        by_it = take(alive, [row for row, id_ in ids if id_ == wrote.snapshot_id])
        added = _without(by_it, beside)
        if _counted(added) != (added_files, added_rows):
            return None
        parts.append(added)
    if existing_files:
        existing = _existing(reader, wrote, lost, beside)
        if existing is None or _counted(existing) != (existing_files, existing_rows):
            return None
        parts.append(existing)
    return _with_row_ids(as_existing(concat(parts)), lost) if parts else None


def _existing(
    reader: Reader, wrote: Snapshot, lost: ManifestFile, beside: Entries
) -> Entries | None:
    """Return files that are live in the parent, and in no other manifest of the snapshot."""
    parent = reader.metadata.snapshot(wrote.parent_snapshot_id or -1)
    if parent is None:
        return None
    before, is_whole = _entries(reader, [parent], lost)
    return _without(live(before), beside) if is_whole else None


def _entries(
    reader: Reader, snapshots: Iterable[Snapshot], lost: ManifestFile
) -> tuple[Entries, bool]:
    """The entries of snapshots of the same content and spec as a manifest, without that manifest.

    Also whether that is all of them: files that cannot be read are passed over.
    """
    is_whole = True
    manifests: list[Sequence[ManifestFile]] = []
    for snapshot in snapshots:
        reader.context.deadline.check()
        read_list = partial(
            read_snapshot_manifests, reader.context.store, reader.metadata, snapshot
        )
        listed = read_or_none(read_list)
        if listed is None:
            is_whole = False
        else:
            manifests.append(listed)
    alike = [
        manifest
        for manifest in distinct_manifests(manifests)
        if manifest.manifest_path != lost.manifest_path and manifest.content is lost.content
    ]
    parts = []
    for part in alike:
        load = partial(load_entries, reader.context, reader.metadata, [part], ALL_COLUMNS)
        entries = read_or_none(load)
        if entries is None:
            is_whole = False
        else:
            parts.append(entries)
    return of_specs(concat(parts), [lost.partition_spec_id]), is_whole


def _with_row_ids(entries: Entries, lost: ManifestFile) -> Entries | None:
    """The entries with the row ids that a manifest gives them in its list; None where these hang
    on the order that they had in it (R-103).

    In a table of an older version before, other snapshots may know files without row ids, or with
    those of another branch: what was added has its own between the first of the manifest's and the
    last.
    """
    first = lost.first_row_id
    if first is None:
        return entries
    row_ids = range(first, first + total(entries, "record_count"))
    ids = [
        id_ if snapshot_id != lost.added_snapshot_id or id_ in row_ids else None
        for snapshot_id, id_ in by_row(entries, "snapshot_id", "first_row_id")
    ]
    if ids.count(None) > 1:
        return None
    return with_values(entries, "first_row_id", [first if id_ is None else id_ for id_ in ids])


def _counted(entries: Entries) -> tuple[int, int]:
    return len(entries), total(entries, "record_count")


def _without(entries: Entries, others: Entries) -> Entries:
    """Return each file once, without the others; vectors differ by their offset."""
    known = set(by_row(others, "location", "content_offset"))
    parts = []
    for row, key in enumerate(by_row(entries, "location", "content_offset")):
        if key not in known:
            known.add(key)
            parts.append(row)
    return take(entries, parts)


_FORMATS = {".parquet": FileFormat.PARQUET, ".orc": FileFormat.ORC}
"""Formats whose footers tell of columns, by the ending of their files; Avro tells of none."""

_MONOTONE = frozenset({"truncate", "year", "month", "day", "hour"})
"""Transforms whose result for two values is that for all between them, if it is the same."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_CLOCKS_DIFFER_MS = 60_000


@dataclass(frozen=True, slots=True)
class _Stored:
    """A data file that no manifest lists."""

    location: str
    size_bytes: int
    modified_ms: int | None
    file_format: FileFormat
    metrics: FileMetrics
    partition_key: bytes


def entries_by_footers(reader: Reader, lost: ManifestFile) -> Entries | None:
    """Return the entries of a lost manifest, as its files prove them; None where they do not.

    In version 3 of one file only: row ids hang on the order that entries had.
    Raises: StorageError of the store; Incomplete.
    Cost: all manifests of the table, a listing of it, a footer for each file.
    """
    wrote = reader.metadata.snapshot(lost.added_snapshot_id or -1)
    spec = reader.metadata.spec(lost.partition_spec_id)
    count = lost.added_files_count
    if wrote is None or spec is None or not count or not _is_plain(reader, lost):
        return None
    listed = _listed_files(reader, lost)
    if listed is None:
        return None
    files = _unlisted(reader, spec, count, listed)
    if files is None:
        return None
    rows = sum(file.metrics.record_count for file in files)
    expected = {
        "added-delete-files": "0",
        "added-data-files": str(len(files)),
        "added-records": str(rows),
        "added-files-size": str(sum(file.size_bytes for file in files)),
    }
    counters = {"added-delete-files": "0", **(wrote.summary or {})}
    differing = [key for key, value in expected.items() if counters.get(key) != value]
    if rows != lost.added_rows_count or differing:
        return None
    if not all(_is_of_commit(reader.metadata, file, lost, wrote) for file in files):
        return None
    types = result_types(spec, reader.metadata.schemas)
    entries = entries_from([_entry(file, lost) for file in files])
    ranges = field_summaries(entries, types)
    if _bounds(lost.partitions or ()) != _bounds(ranges or ()):
        return None
    return entries


def _is_plain(reader: Reader, lost: ManifestFile) -> bool:
    """Return whether a manifest had only new data files, with its own sequence number (R-045)."""
    if reader.metadata.format_version > 2 and lost.added_files_count != 1:
        return False
    return (
        lost.content is ManifestContent.DATA
        and lost.existing_files_count == lost.deleted_files_count == 0
        and lost.min_sequence_number == lost.sequence_number
    )


def _listed_files(reader: Reader, lost: ManifestFile) -> set[str] | None:
    """Return keys of all files that other manifests of the table name.

    None where one cannot be read.
    """
    lists = try_manifest_lists(reader.context, reader.metadata, reader.metadata.snapshots)
    with closing(lists):
        read = list(lists)
    if any(item.problems for item in read):
        return None
    reads = try_manifests(
        reader.context,
        reader.metadata,
        [
            manifest
            for manifest in distinct_manifests([listed.manifests for listed in read])
            if manifest.manifest_path != lost.manifest_path
        ],
        frozenset({"location"}),
    )
    keys: set[str] = set()
    with closing(reads):
        for item in reads:
            reader.context.deadline.check()
            if item.rows is None:
                return None
            keys.update(loosest_keys(item.rows.table["location"]).to_pylist())
    return keys


def _unlisted(
    reader: Reader, spec: PartitionSpec, count: int, listed: set[str]
) -> Sequence[_Stored] | None:
    """Files of the table that no manifest names; None where they are not as many as were added, or
    one is no data file of the table, or of no sure partition.

    Order: by location.
    """
    sizes: dict[str, tuple[int, int | None]] = {}
    for batch in reader.context.store.list(reader.metadata.location):
        reader.context.deadline.check()
        names = ("location", "size_bytes", "modified_ms")
        columns = (batch[column].to_pylist() for column in names)
        sizes |= {
            location: (size, modified_ms)
            for location, size, modified_ms in zip(*columns, strict=True)
            if _may_be_data(reader, location) and loosest_key(location) not in listed
        }
        if len(sizes) > count:
            return None
    if len(sizes) < count:
        return None
    stored = [_stored(reader, spec, location, *facts) for location, facts in sorted(sizes.items())]
    known = [one for one in stored if one is not None]
    return known if len(known) == len(stored) else None


def _may_be_data(reader: Reader, location: str) -> bool:
    hidden = name(location).startswith(("_", "."))
    in_metadata = loosest_key(parent(location)) == loosest_key(reader.loaded.metadata_folder)
    return location.endswith((*_FORMATS, ".avro")) and not hidden and not in_metadata


def _stored(
    reader: Reader, spec: PartitionSpec, location: str, size_bytes: int, modified_ms: int | None
) -> _Stored | None:
    """Return what a file's footer says.

    None where that is not enough, or of columns of another table.
    """
    schema = reader.metadata.current_schema
    known = {id_ for schema_ in reader.metadata.schemas for id_ in schema_.all_fields}
    file_format = _FORMATS.get(location[location.rindex(".") :])
    if file_format is None:
        return None
    try:
        with reader.context.store.open(location) as file:
            opened = open_data_file(file, file_format.name, name_mapping(reader.metadata))
            metrics = opened.metrics(schema)
    except (CorruptTable, Unsupported, FileNotFoundError):
        return None
    key = proven_partition(spec, schema, metrics)
    is_own = bool(metrics.value_counts) and metrics.value_counts.keys() <= known
    if key is None or not is_own:
        return None
    shaped = shaped_metrics(metrics, schema, metrics_modes(reader.metadata.properties, schema, ()))
    return _Stored(location, size_bytes, modified_ms, file_format, shaped, key)


def proven_partition(spec: PartitionSpec, schema: Schema, metrics: FileMetrics) -> bytes | None:
    """Return the key of the one partition that all rows of a file are in.

    None where that is not sure.
    """
    values = []
    for item in spec.fields:
        column = schema.field(item.source_ids[0]) if len(item.source_ids) == 1 else None
        is_sure, value = False, None
        if item.transform.name == "void":
            is_sure = True
        elif column is not None:
            is_sure, value = _one_value(item.transform, column, metrics)
        if not is_sure:
            return None
        values.append(value)
    return encode_key(result_types(spec, [schema]), values)


def _one_value(
    transform: Transform, column: NestedField, metrics: FileMetrics
) -> tuple[bool, Value]:
    """Return whether a transform gives the same for every value of a column, and what.

    NaN and two zeros are in no bounds, so that columns of floating point are never sure.
    """
    nulls, count = metrics.null_value_counts.get(column.id), metrics.value_counts.get(column.id)
    if nulls == count == metrics.record_count:
        return True, None
    if nulls != 0 or column.type in (PrimitiveType("float"), PrimitiveType("double")):
        return False, None
    least, greatest = (
        bounds.get(column.id) for bounds in (metrics.lower_bounds, metrics.upper_bounds)
    )
    if least is None or greatest is None or not accepts(transform, column.type):
        return False, None
    first, last = (
        apply(transform, column.type, decode(column.type, bound)) for bound in (least, greatest)
    )
    return least == greatest or (transform.name in _MONOTONE and first == last), first


def _is_of_commit(
    metadata: TableMetadata, file: _Stored, lost: ManifestFile, wrote: Snapshot
) -> bool:
    """Whether a file was written by the commit: in its time, or with its UUID in the name.

    Files of the same columns with as many rows often have as many bytes, and one may be left over.
    """
    uuid = _UUID.search(name(lost.manifest_path))
    if uuid is not None and uuid[0] in name(file.location):
        return True
    before = metadata.snapshot(wrote.parent_snapshot_id or -1)
    begin_ms = 0 if before is None else before.timestamp_ms - _CLOCKS_DIFFER_MS
    end_ms = wrote.timestamp_ms + _CLOCKS_DIFFER_MS
    return file.modified_ms is not None and begin_ms <= file.modified_ms <= end_ms


def _bounds(summaries: Sequence[FieldSummary]) -> Sequence[tuple[bool, bytes | None, bytes | None]]:
    return [
        (summary.contains_null, summary.lower_bound, summary.upper_bound) for summary in summaries
    ]


def _entry(file: _Stored, lost: ManifestFile) -> dict[str, Any]:
    """Return the entry of a file in a lost manifest, with the columns readers need (R-041)."""
    return {
        "content": Content.DATA,
        "status": Status.EXISTING,
        "location": file.location,
        "file_format": file.file_format,
        "spec_id": lost.partition_spec_id,
        "partition_key": file.partition_key,
        "record_count": file.metrics.record_count,
        "file_size_in_bytes": file.size_bytes,
        "snapshot_id": lost.added_snapshot_id,
        "sequence_number": lost.sequence_number,
        "file_sequence_number": lost.sequence_number,
        "first_row_id": lost.first_row_id,
        "manifest": 0,
        "manifest_pos": 0,
        **carried_metrics(file.metrics),
    }
