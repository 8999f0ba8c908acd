"""What was in a lost manifest of new data files, where the files themselves prove it.

Of a table without partitions, whose other manifests can all be read: the Parquet files that none of
them lists are the files of the lost one, where they are as many, with as many rows and bytes, as
the snapshot that added them says. Their numbers are those of the manifest's row in the list.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from icectl.codec.data_file import open_data_file
from icectl.codec.parquet_metrics import FileMetrics
from icectl.engine.compact_job import carried_metrics
from icectl.entries.partition_key import encode_key
from icectl.entries.rows import Entries, entries_from
from icectl.errors import CorruptTable, Unsupported
from icectl.run.reader import Reader
from icectl.run.validate_data import name_mapping
from icectl.spec.manifest import Content, FileFormat, ManifestContent, ManifestFile, Status
from icectl.spec.snapshot import Snapshot
from icectl.storage.location import loosest_key, loosest_keys, name, parent
from icectl.table.manifest_lists import distinct_manifests, try_manifest_lists
from icectl.table.manifests import try_manifests

_ENDING = ".parquet"


@dataclass(frozen=True, slots=True)
class _Stored:
    """A Parquet file that no manifest lists."""

    location: str
    size_bytes: int
    metrics: FileMetrics


def entries_by_footers(reader: Reader, lost: ManifestFile) -> Entries | None:
    """The entries of a lost manifest, as its files prove them; None where they do not.

    Not from version 3 on, where row ids hang on the order that the entries had.
    Raises: StorageError of the store; Incomplete.
    Cost: all manifests of the table, a listing of it, a footer for each file.
    """
    wrote = reader.metadata.snapshot(lost.added_snapshot_id or -1)
    if wrote is None or not _is_plain(reader, lost):
        return None
    listed = _listed_files(reader, lost)
    if listed is None:
        return None
    found = _unlisted(reader, listed, lost.added_files_count or 0)
    if found is None or not _are_those(found, lost, wrote):
        return None
    return entries_from([_entry(one, lost) for one in found])


def _is_plain(reader: Reader, lost: ManifestFile) -> bool:
    """Whether a manifest held nothing but new data files without partition values."""
    spec = reader.metadata.spec(lost.partition_spec_id)
    return (
        reader.metadata.format_version == 2
        and lost.content is ManifestContent.DATA
        and lost.existing_files_count == lost.deleted_files_count == 0
        and bool(lost.added_files_count)
        and spec is not None
        and not spec.fields
    )


def _listed_files(reader: Reader, lost: ManifestFile) -> set[str] | None:
    """Keys of all files that other manifests of the table name; None where one cannot be read."""
    lists = try_manifest_lists(
        reader.store,
        reader.metadata,
        reader.metadata.snapshots,
        concurrency=reader.concurrency,
        progress=reader.progress,
    )
    with closing(lists):
        read = list(lists)
    if any(one.problems for one in read):
        return None
    found = try_manifests(
        reader.store,
        reader.metadata,
        [
            one
            for one in distinct_manifests([listed.manifests for listed in read])
            if one.manifest_path != lost.manifest_path
        ],
        columns=frozenset({"location"}),
        concurrency=reader.concurrency,
        progress=reader.progress,
    )
    keys: set[str] = set()
    with closing(found):
        for one in found:
            reader.deadline.check()
            if one.rows is None:
                return None
            keys.update(loosest_keys(one.rows.table["location"]).to_pylist())
    return keys


def _unlisted(reader: Reader, listed: set[str], count: int) -> Sequence[_Stored] | None:
    """Parquet files of the table that no manifest names; None where they are not `count`, or one is
    no data file of the table.

    Order: by location.
    """
    found: dict[str, int] = {}
    for batch in reader.store.list(reader.metadata.location):
        reader.deadline.check()
        columns = (batch[column].to_pylist() for column in ("location", "size_bytes"))
        found |= {
            location: size
            for location, size in zip(*columns, strict=True)
            if _may_be_data(reader, location) and loosest_key(location) not in listed
        }
        if len(found) > count:
            return None
    if len(found) < count:
        return None
    stored = [_stored(reader, location, size) for location, size in sorted(found.items())]
    known = [one for one in stored if one is not None]
    return known if len(known) == len(stored) else None


def _may_be_data(reader: Reader, location: str) -> bool:
    hidden = name(location).startswith(("_", "."))
    in_metadata = loosest_key(parent(location)) == loosest_key(reader.loaded.metadata_folder)
    return location.endswith(_ENDING) and not hidden and not in_metadata


def _stored(reader: Reader, location: str, size_bytes: int) -> _Stored | None:
    """What a file's footer says; None where it has none, or columns that the table has not."""
    schema = reader.metadata.current_schema
    known = {id_ for one in reader.metadata.schemas for id_ in one.all_fields}
    try:
        with reader.store.open(location) as file:
            metrics = open_data_file(file, "parquet", name_mapping(reader.metadata)).metrics(schema)
    except (CorruptTable, Unsupported, FileNotFoundError):
        return None
    is_own = bool(metrics.value_counts) and metrics.value_counts.keys() <= known
    return _Stored(location, size_bytes, metrics) if is_own else None


def _are_those(found: Sequence[_Stored], lost: ManifestFile, wrote: Snapshot) -> bool:
    """Whether files, rows and bytes are those that the row of the manifest and the snapshot say."""
    rows = sum(one.metrics.record_count for one in found)
    told: Mapping[str, str] = wrote.summary or {}
    expected = {
        "added-data-files": str(len(found)),
        "added-records": str(rows),
        "added-files-size": str(sum(one.size_bytes for one in found)),
    }
    return (
        rows == lost.added_rows_count
        and told.get("added-delete-files", "0") == "0"
        and all(told.get(key) == value for key, value in expected.items())
    )


def _entry(found: _Stored, lost: ManifestFile) -> dict[str, Any]:
    """What the manifest said of a file, as far as a reader needs it (R-041)."""
    return {
        "content": Content.DATA,
        "status": Status.EXISTING,
        "location": found.location,
        "file_format": FileFormat.PARQUET,
        "spec_id": lost.partition_spec_id,
        "partition_key": encode_key((), ()),
        "record_count": found.metrics.record_count,
        "file_size_in_bytes": found.size_bytes,
        "snapshot_id": lost.added_snapshot_id,
        "sequence_number": lost.sequence_number,
        "file_sequence_number": lost.sequence_number,
        "manifest": 0,
        "manifest_pos": 0,
        **carried_metrics(found.metrics),
    }
