"""Rows of a manifest of the draft, root or leaf, as one flat Arrow table.

The columns of entries/schema.py under their own names where they mean the same, and what only the
draft has: the vector of a data file inside of its entry, counts and dead rows of leaves, and what
a commit deleted or replaced in them. One row is one content entry; its ordinal is its position.
"""

from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa
import pyarrow.compute as pc

from icectl.errors import CorruptTable
from icectl.spec.manifest import Content

PARTITION, STATS = "partition", "content_stats"
"""Columns of structs, where a manifest has any: fields of all specs, statistics by column."""

COUNTS = (
    "added_files_count", "existing_files_count", "deleted_files_count", "replaced_files_count",
    "added_rows_count", "existing_rows_count", "deleted_rows_count", "replaced_rows_count",
    "min_sequence_number",
)  # fmt: skip
"""Members of `manifest_info` that every manifest has."""

CONTENTS = (Content.DATA, Content.EQUALITY_DELETES, Content.DATA_MANIFEST, Content.DELETE_MANIFEST)
LEAVES = (Content.DATA_MANIFEST, Content.DELETE_MANIFEST)


class DraftStatus(IntEnum):
    """What a commit did with an entry; REPLACED is how a file was that is MODIFIED now."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2
    REPLACED = 3
    MODIFIED = 4


LIVE = (DraftStatus.EXISTING, DraftStatus.ADDED, DraftStatus.MODIFIED)

DRAFT_ROWS = pa.schema(
    [
        pa.field("status", pa.int8(), nullable=False),
        pa.field("snapshot_id", pa.int64()),
        pa.field("sequence_number", pa.int64()),
        pa.field("file_sequence_number", pa.int64()),
        pa.field("dv_snapshot_id", pa.int64()),
        pa.field("first_row_id", pa.int64()),
        pa.field("deleted_positions", pa.binary()),
        pa.field("replaced_positions", pa.binary()),
        pa.field("content", pa.int8(), nullable=False),
        pa.field("format_version", pa.int32(), nullable=False),
        pa.field("location", pa.string(), nullable=False),
        pa.field("file_format", pa.int8(), nullable=False),
        pa.field("record_count", pa.int64(), nullable=False),
        pa.field("file_size_in_bytes", pa.int64(), nullable=False),
        pa.field("spec_id", pa.int32()),
        pa.field("sort_order_id", pa.int32()),
        pa.field("dv_location", pa.string()),
        pa.field("dv_offset", pa.int64()),
        pa.field("dv_size_in_bytes", pa.int64()),
        pa.field("dv_cardinality", pa.int64()),
        pa.field("dv_key_metadata", pa.binary()),
        *(
            pa.field(name, pa.int32() if name.endswith("files_count") else pa.int64())
            for name in COUNTS
        ),
        pa.field("dead_positions", pa.binary()),
        pa.field("key_metadata", pa.binary()),
        pa.field("split_offsets", pa.list_(pa.int64())),
        pa.field("equality_ids", pa.list_(pa.int32())),
    ]
)
"""Every column but PARTITION and STATS, whose members depend on the table.

`content` and `file_format` are the codes of spec/manifest.py. `dv_…` are the members of
`deletion_vector`, COUNTS and `dead_positions` those of `manifest_info`. The three columns of
positions hold Mumbling bitmaps."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """What the rows of a manifest inherit: its own numbers, from its entry or its snapshot."""

    snapshot_id: int | None
    sequence_number: int | None
    first_row_id: int | None = None


def inherit(rows: pa.Table, of: Inherited) -> pa.Table:
    """Fill in what rows leave to their manifest, as the draft and Iceberg 1.12 do.

    Shape: the columns of `rows`, which has all. Without a number of the manifest nulls stay.
    Order: kept.
    Raises: CorruptTable V4-208, where an entry lacks a number that it cannot inherit.
    """
    inherited = pa.scalar(of.sequence_number, pa.int64())
    is_added = pc.equal(rows["status"], DraftStatus.ADDED)
    # A manifest of sequence number 0 comes from version 1, where nothing is stored.
    may = is_added if of.sequence_number else pa.repeat(pa.scalar(True), rows.num_rows)  # noqa: FBT003
    for name in ("sequence_number", "file_sequence_number"):
        stored = rows[name]
        if pc.any(pc.and_(stored.is_null(), pc.invert(may))).as_py():  # V4-208
            message = f"an entry that is not new has no {name}"
            raise CorruptTable(message, rule="V4-208")
        rows = _set(rows, name, pc.if_else(stored.is_null(), inherited, stored))
    of_manifest = pa.scalar(of.snapshot_id, pa.int64())
    rows = _set(rows, "snapshot_id", pc.coalesce(rows["snapshot_id"], of_manifest))
    return rows if of.first_row_id is None else _set(rows, "first_row_id", _row_ids(rows, of))


def _row_ids(rows: pa.Table, of: Inherited) -> pa.ChunkedArray:
    """Give data files without row ids the next ones."""
    stored = rows["first_row_id"]
    takes_part = pc.and_(
        pc.and_(stored.is_null(), pc.equal(rows["content"], Content.DATA)), are_live(rows)
    )
    counts = pc.if_else(takes_part, rows["record_count"], 0)
    before = pc.subtract(pc.cumulative_sum(counts), counts)
    return pc.if_else(takes_part, pc.add(before, of.first_row_id), stored)


def are_live(rows: pa.Table) -> pa.ChunkedArray:
    """Return whether each row's status says that it is live; a leaf's dead positions say more."""
    return pc.is_in(rows["status"], pa.array(list(map(int, LIVE)), pa.int8()))


def are_leaves(rows: pa.Table) -> pa.ChunkedArray:
    """Return whether each row is the entry of a leaf."""
    return pc.is_in(rows["content"], pa.array(list(map(int, LEAVES)), pa.int8()))


def _set(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at), values)
