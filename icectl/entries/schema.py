"""The columns of an entries table.

Planning columns are flat and always there; carried columns are nested, loaded only on request and
never computed on by plans. One row is one manifest entry, of any format version.
"""

import pyarrow as pa

PLANNING = pa.schema(
    [
        pa.field("content", pa.int8(), nullable=False),
        pa.field("status", pa.int8(), nullable=False),
        pa.field("location", pa.string(), nullable=False),
        pa.field("file_format", pa.int8(), nullable=False),
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("partition_key", pa.binary(), nullable=False),
        pa.field("record_count", pa.int64(), nullable=False),
        pa.field("file_size_in_bytes", pa.int64(), nullable=False),
        pa.field("snapshot_id", pa.int64()),
        pa.field("sequence_number", pa.int64()),
        pa.field("file_sequence_number", pa.int64()),
        pa.field("first_row_id", pa.int64()),
        pa.field("sort_order_id", pa.int32()),
        pa.field("referenced_data_file", pa.string()),
        pa.field("content_offset", pa.int64()),
        pa.field("content_size_in_bytes", pa.int64()),
        pa.field("manifest", pa.int32(), nullable=False),
        pa.field("manifest_pos", pa.int32(), nullable=False),
    ]
)
"""`manifest` indexes the list of manifests that the entries were read from; (`manifest`,
`manifest_pos`) orders every entries table. `partition_key` is the canonical tuple of
entries/partition/key.py. `content`, `status`, `file_format` are the codes of format/manifest.py."""

CARRIED = pa.schema(
    [
        pa.field("column_sizes", pa.map_(pa.int32(), pa.int64())),
        pa.field("value_counts", pa.map_(pa.int32(), pa.int64())),
        pa.field("null_value_counts", pa.map_(pa.int32(), pa.int64())),
        pa.field("nan_value_counts", pa.map_(pa.int32(), pa.int64())),
        pa.field("lower_bounds", pa.map_(pa.int32(), pa.binary())),
        pa.field("upper_bounds", pa.map_(pa.int32(), pa.binary())),
        pa.field("key_metadata", pa.binary()),
        pa.field("split_offsets", pa.list_(pa.int64())),
        pa.field("equality_ids", pa.list_(pa.int32())),
    ]
)
"""Metrics as stored: bounds are single-value bytes of the type at write time (R-096)."""

PLANNING_COLUMNS: frozenset[str] = frozenset(PLANNING.names)
CARRIED_COLUMNS: frozenset[str] = frozenset(CARRIED.names)
ALL_COLUMNS: frozenset[str] = PLANNING_COLUMNS | CARRIED_COLUMNS
"""Every column: what a rewrite of a manifest asks for."""
