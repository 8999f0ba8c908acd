"""Rows of a version 4 manifest, root or leaf, as one flat Arrow table.

The columns of entries/schema.py under their own names, where they mean the same, and what only
version 4 has: inline bitmaps, counts of leaves, and statistics by field (V4-041). One row is one
content entry; the row's ordinal is its position.
"""

from dataclasses import dataclass, fields

import pyarrow as pa

from icectl.errors import CorruptTable

COUNTS = (
    "added_files_count", "existing_files_count", "deleted_files_count",
    "added_rows_count", "existing_rows_count", "deleted_rows_count", "min_sequence_number",
)  # fmt: skip
"""Members of `manifest_stats`, null together on everything but manifests (V4-058)."""

TREE_ROWS = pa.schema(
    [
        pa.field("content", pa.int8(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("file_format", pa.int8(), nullable=False),
        pa.field("status", pa.int8(), nullable=False),
        pa.field("snapshot_id", pa.int64()),
        pa.field("sequence_number", pa.int64()),
        pa.field("file_sequence_number", pa.int64()),
        pa.field("first_row_id", pa.int64()),
        pa.field("content_offset", pa.int64()),
        pa.field("content_size_in_bytes", pa.int64()),
        pa.field("inline_content", pa.binary()),
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("sort_order_id", pa.int32()),
        pa.field("record_count", pa.int64(), nullable=False),
        pa.field("file_size_in_bytes", pa.int64()),
        *(
            pa.field(name, pa.int32() if name.endswith("files_count") else pa.int64())
            for name in COUNTS
        ),
        pa.field("referenced_file", pa.string()),
        pa.field("key_metadata", pa.binary()),
        pa.field("split_offsets", pa.list_(pa.int64())),
        pa.field("equality_ids", pa.list_(pa.int32())),
    ]
)
"""Every column but `content_stats`, whose members depend on the table's columns (sfc-1 5.1).

`content`, `status` and `file_format` are the codes of format/manifest.py. `content_offset`,
`content_size_in_bytes` and `inline_content` are the members of `deletion_vector`;
`referenced_file` is a data file, or for manifests and bitmaps over them a leaf."""

LEAF_MAX_ENTRIES = 2_097_152
"""No leaf has more (V4-115)."""

STATS = "content_stats"
"""The column of statistics, where a manifest has any: a struct, one member for each stats id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRow:
    """A row of a root that names a leaf, or is a delete vector over one, without statistics.

    What a damaged file lacks, or the kind of the row has not, is None.
    """

    content: int
    file_format: int
    status: int
    spec_id: int
    record_count: int
    location: str | None = None
    snapshot_id: int | None = None
    sequence_number: int | None = None
    file_sequence_number: int | None = None
    first_row_id: int | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None
    inline_content: bytes | None = None
    file_size_in_bytes: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    min_sequence_number: int | None = None
    referenced_file: str | None = None
    key_metadata: bytes | None = None

    @property
    def name(self) -> str:
        """The location as messages call it."""
        return str(self.location)

    @property
    def live_count(self) -> int:
        """Entries of a leaf that are ADDED or EXISTING. Raises: CorruptTable V4-058."""
        return number_of(self.added_files_count) + number_of(self.existing_files_count)


LISTED = [field.name for field in fields(ListedRow)]
"""The columns of ListedRow."""


def listed_rows(rows: pa.Table) -> list[ListedRow]:
    """Return the rows of a root that name leaves, or are vectors over these. Order: kept."""
    return [ListedRow(**row) for row in rows.select(LISTED).to_pylist()]


def text_of(value: str | None) -> str:
    """Return a location of a row. Raises: CorruptTable V4-051, where there is none."""
    if value is None:
        raise CorruptTable("a row of a manifest has no location", rule="V4-051")  # V4-051
    return value


def number_of(value: int | None) -> int:
    """Return a number of a row. Raises: CorruptTable V4-058, where there is none."""
    if value is None:
        raise CorruptTable("a row of a manifest lacks a number", rule="V4-058")  # V4-058
    return value
