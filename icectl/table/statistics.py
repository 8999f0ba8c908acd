"""The statistics files of a table: what they are of, and which data files came and went since.

A statistics file belongs to a snapshot, and each blob in it says which snapshot it was computed
from. The files of a table whose rows did not change between the two are those of the later one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from icectl.entries.rows import Entries, data_files, live, minus
from icectl.errors import CorruptTable, UsageError
from icectl.files.puffin import PuffinBlob, read_blob, read_puffin
from icectl.files.theta_sketch import BLOB_TYPE, ThetaSketch, read_sketch
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot, StatisticsFile, ancestors
from icectl.table.context import TableContext
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries
from icectl.table.reading import naming, present
from icectl.units import parse_ratio

ROWS_SEEN, ROWS_REMOVED = "icectl.rows-seen", "icectl.rows-removed"
"""Properties of a sketch: rows of files that it has seen, and how many of these went since."""

SAMPLE = "icectl.sample"
"""Property of a sketch that has not seen all files: the ratio of those that it has."""

READ_COLUMNS = frozenset({
    "content", "status", "location", "file_format", "spec_id", "partition_key", "record_count",
    "file_size_in_bytes", "sequence_number", "first_row_id", "column_sizes",
})  # fmt: skip
"""What is loaded of entries whose files are read for statistics."""


@dataclass(frozen=True, slots=True)
class KnownSketch:
    """A stored sketch of a column, and the snapshot whose data files it has seen."""

    sketch: ThetaSketch
    snapshot: Snapshot
    rows_seen: int | None = None
    rows_removed: int = 0
    sample: float | None = None


@dataclass(frozen=True, slots=True)
class KnownStatistics:
    """A statistics file that was read: sketches by column id, and all blobs as they are stored."""

    file: StatisticsFile
    sketches: Mapping[int, KnownSketch] = field(default_factory=dict)
    blobs: tuple[tuple[PuffinBlob, bytes], ...] = ()


def newest_statistics(metadata: TableMetadata, snapshot: Snapshot) -> StatisticsFile | None:
    """Return the newest statistics with sketches of a snapshot or of one that it came from."""
    by_snapshot = {file.snapshot_id: file for file in metadata.statistics}
    for ancestor in ancestors(metadata.snapshots_by_id, snapshot.snapshot_id):
        file = by_snapshot.get(ancestor.snapshot_id)
        if file is not None and any(blob.get("type") == BLOB_TYPE for blob in file.blob_metadata):
            return file
    return None


def read_statistics(
    context: TableContext, metadata: TableMetadata, file: StatisticsFile
) -> KnownStatistics:
    """Read a statistics file.

    Raises: MissingFile; StorageError; CorruptTable R-140, where it is not what the metadata says,
    or has a sketch of another table; Unsupported, for another form of sketches.
    """
    with present(file.statistics_path), naming(file.statistics_path):
        content = context.store.read(file.statistics_path)
        if len(content) != file.file_size_in_bytes:
            raise CorruptTable(
                f"it has {len(content):,} bytes, the metadata says {file.file_size_in_bytes:,}",
                rule="R-140",
            )
        blobs = read_puffin(content).blobs
        stated = [
            (blob.get("type"), tuple(blob.get("fields") or ()), blob.get("snapshot-id"))
            for blob in file.blob_metadata
        ]
        if stated != [(blob.type, blob.fields, blob.snapshot_id) for blob in blobs]:
            raise CorruptTable(
                "its blobs are not those that the metadata says", rule="R-140"
            )
        stored = tuple((blob, content[blob.span]) for blob in blobs)
        sketches = {}
        for blob, part in stored:
            if blob.type == BLOB_TYPE and len(blob.fields) == 1:
                _check_own(metadata, blob)
                snapshot = _seen_snapshot(metadata, file.snapshot_id, blob.snapshot_id)
                if snapshot is not None:
                    seen, removed = (
                        _number(blob.properties.get(name)) for name in (ROWS_SEEN, ROWS_REMOVED)
                    )
                    sketch = read_sketch(read_blob(part, blob))
                    sample = _ratio(blob.properties.get(SAMPLE))
                    known = KnownSketch(sketch, snapshot, seen, removed or 0, sample)
                    sketches[blob.fields[0]] = known
    return KnownStatistics(file, sketches, stored)


def _check_own(metadata: TableMetadata, blob: PuffinBlob) -> None:
    """Check that a blob may be of a snapshot of the table, which may have expired.

    Raises: CorruptTable R-140, if another snapshot has its sequence number, or none had it yet.
    """
    number = blob.sequence_number
    if not number or metadata.snapshot(blob.snapshot_id) is not None:
        return  # snapshots of version 1 have no numbers
    numbers = {snapshot.sequence_number for snapshot in metadata.snapshots}
    if number in numbers or number > metadata.last_sequence_number:
        raise CorruptTable(
            f"it has a sketch of another table: snapshot {blob.snapshot_id} with the sequence "
            f"number {number:,}",
            rule="R-140",
        )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _ratio(text: str | None) -> float | None:
    """Return the ratio that a property states; 1 where that is none, so that all is read again."""
    if text is None:
        return None
    try:
        return parse_ratio(text) or 1.0
    except UsageError:
        return 1.0


def _seen_snapshot(metadata: TableMetadata, named_by: int, computed_from: int) -> Snapshot | None:
    """Return the snapshot whose data files a blob has seen; None where that is not known.

    It is the one that names the blob, if rows are the same since the one it was computed from.
    """
    if has_rows_of(metadata, named_by, computed_from):
        return metadata.snapshot(named_by)
    return metadata.snapshot(computed_from)


def has_rows_of(metadata: TableMetadata, snapshot_id: int, earlier_id: int) -> bool:
    """Return whether a snapshot comes from an earlier one, and only by operations `replace`."""
    for snapshot in ancestors(metadata.snapshots_by_id, snapshot_id):
        if snapshot.snapshot_id == earlier_id:
            return True
        if snapshot.operation != "replace":
            return False
    return False


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The data files that came and went since a snapshot, which had `rows_before` in its files."""

    added: Entries
    removed: Entries
    rows_before: int


def load_data_files(
    context: TableContext, metadata: TableMetadata, manifests: tuple[ManifestFile, ...]
) -> Entries:
    """Load the live data files of manifests with READ_COLUMNS. Raises: as load_entries."""
    of_data = [item for item in manifests if item.content is ManifestContent.DATA or item.in_root]
    return data_files(live(load_entries(context, metadata, of_data, READ_COLUMNS)))


def changed_files(
    context: TableContext,
    metadata: TableMetadata,
    before: Snapshot,
    manifests: tuple[ManifestFile, ...],
) -> FileChanges:
    """Return the data files that came and went since a snapshot; `manifests` are those of now.

    Raises: as load_entries.
    Cost: manifests that both list are not read.
    """
    earlier = read_snapshot_manifests(context.store, metadata, before)
    common = {item.identity for item in earlier} & {item.identity for item in manifests}
    old, new = (
        load_data_files(
            context, metadata, tuple(item for item in listed if item.identity not in common)
        )
        for listed in (earlier, manifests)
    )
    gone, came = old.table["location"], new.table["location"]
    counts = [item.live_rows or 0 for item in earlier if item.content is ManifestContent.DATA]
    return FileChanges(minus(new, gone), minus(old, came), sum(counts))
