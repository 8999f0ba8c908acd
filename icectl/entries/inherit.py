"""Inheritance: fill null values of an entry from its manifest's row in the manifest list."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import mask_of, replace_column
from icectl.entries.rows import Entries, RawEntries
from icectl.errors import CorruptTable
from icectl.format.manifest import Content, ManifestContent, ManifestFile, Status


def inherit(raw: RawEntries, manifests: Sequence[ManifestFile]) -> Entries:
    """Resolve null snapshot ids, sequence numbers and first row ids.

    Shape: the columns of `raw`; columns that were not read are not made. `manifest` indexes
    `manifests`. `first_row_id` needs `record_count`, `file_sequence_number` the data sequence
    number; read_manifest reads them along.
    Order: kept.
    Raises: CorruptTable R-042 where no snapshot id is known, R-043 where an EXISTING row lacks its
    sequence number, R-103 where row ids overflow.
    Spec: Sequence Number Inheritance; First Row ID Inheritance.
    """
    table = raw.table
    for name, resolve in (
        ("snapshot_id", _snapshot_ids),
        ("sequence_number", _sequence_numbers),
        ("file_sequence_number", _file_sequence_numbers),
        ("first_row_id", _first_row_ids),
    ):
        if name in table.column_names and table[name].null_count:
            table = replace_column(table, name, resolve(table, manifests))
    return Entries(table)


def _snapshot_ids(table: pa.Table, manifests: Sequence[ManifestFile]) -> pa.ChunkedArray:
    added = _per_row(table, [manifest.added_snapshot_id for manifest in manifests])
    resolved = pc.coalesce(table["snapshot_id"], added)
    if resolved.null_count:
        raise CorruptTable("an entry has no snapshot id", rule="R-042")
    return resolved


def _sequence_numbers(table: pa.Table, manifests: Sequence[ManifestFile]) -> pa.ChunkedArray:
    stored = table["sequence_number"]
    inherited = _per_row(table, [manifest.sequence_number for manifest in manifests])
    # A manifest of sequence number 0 comes from version 1, where nothing is stored.
    lost = pc.and_(
        pc.and_(pc.is_null(stored), pc.equal(table["status"], Status.EXISTING)),
        pc.greater(inherited, 0),
    )
    if pc.any(lost).as_py():
        raise CorruptTable("an EXISTING entry has no sequence number", rule="R-043")
    return pc.coalesce(stored, inherited)


def _file_sequence_numbers(table: pa.Table, manifests: Sequence[ManifestFile]) -> pa.ChunkedArray:
    stored = table["file_sequence_number"]
    inherited = _per_row(table, [manifest.sequence_number for manifest in manifests])
    # Early version 2 writers stored no file sequence number; the data sequence number is the
    # earliest that it can be.
    added = pc.equal(table["status"], Status.ADDED)
    return pc.coalesce(stored, pc.if_else(added, inherited, table["sequence_number"]))


def _first_row_ids(table: pa.Table, manifests: Sequence[ManifestFile]) -> pa.ChunkedArray:
    stored = table["first_row_id"]
    first = [
        manifest.first_row_id if manifest.content == ManifestContent.DATA else None
        for manifest in manifests
    ]
    if not any(row_id is not None for row_id in first):
        return stored
    starts = _per_row(table, first)
    takes_part = pc.and_(
        pc.and_(pc.is_null(stored), pc.is_valid(starts)),
        pc.and_(
            pc.not_equal(table["status"], Status.DELETED), pc.equal(table["content"], Content.DATA)
        ),
    )
    mask = mask_of(takes_part)
    counts = np.where(mask, _numbers(table["record_count"]), 0)
    if (counts < 0).any():
        raise CorruptTable("an entry has a negative record count", rule="R-063")
    before = np.cumsum(counts) - counts  # and within the manifest: rows are ordered by it
    if (before < 0).any():
        raise CorruptTable("record counts add up to more than any long", rule="R-103")
    of_rows = _numbers(table["manifest"])
    edges = np.flatnonzero(np.diff(of_rows, prepend=of_rows[0] - 1))
    before -= np.repeat(before[edges], np.diff(edges, append=len(counts)))
    ids = _numbers(pc.fill_null(starts, 0)) + before
    if (ids[mask] < 0).any():
        raise CorruptTable("row ids are larger than any long", rule="R-103")
    return pc.if_else(takes_part, pa.array(ids), stored)


def _per_row(table: pa.Table, of_manifest: Sequence[int | None]) -> pa.ChunkedArray:
    return pc.take(pa.array(of_manifest, pa.int64()), table["manifest"])


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(column.to_numpy(), dtype=np.int64)
