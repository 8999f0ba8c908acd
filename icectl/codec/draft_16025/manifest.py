"""Manifests of the draft, roots and leaves: Parquet files of content entries.

Columns are found by field id alone. What has no fields, a partition or statistics, is not stored.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from icectl.codec.manifest.parquet_columns import (
    Column,
    Group,
    ManifestColumns,
    ParquetColumns,
    Struct,
    check_columns,
    read_rows,
    write_rows,
)
from icectl.entries.draft_16025.rows import (
    CONTENTS,
    COUNTS,
    DRAFT_ROWS,
    PARTITION,
    STATS,
    DraftStatus,
)
from icectl.errors import CorruptTable

_RULE = "V4-200"


@dataclass(frozen=True, slots=True)
class DraftFile:
    """A manifest of the draft: its rows, and what its footer says.

    `rows` has the columns of DRAFT_ROWS, and PARTITION and STATS where the file has them.
    """

    rows: pa.Table
    footer: Mapping[str, str]


def read_draft(content: bytes, columns: Collection[str] | None = None) -> DraftFile:
    """Read a manifest of the draft; some of its `columns` alone, where given.

    Shape: what is not asked for is not there; optional columns that the file lacks are null.
    Order: of the file; a row's ordinal is the position that bitmaps name.
    Raises: CorruptTable V4-200 where it is damaged, is no manifest of the draft or lacks a column,
    V4-201 where a status or a content type is none of the draft; Unsupported.
    """
    stored = ParquetColumns(content, _RULE)  # V4-200
    check_columns(stored, _COLUMNS)  # V4-200
    return DraftFile(read_rows(stored, _COLUMNS, columns), stored.footer)


def write_draft(rows: pa.Table, footer: Mapping[str, str]) -> bytes:
    """Write a manifest of the draft, of rows as `read_draft` gives them.

    `footer` is the key-value metadata. Order: kept.
    """
    return write_rows(rows, _COLUMNS, footer)


def _check_codes(name: str, values: pa.Array) -> None:
    known = set(map(int, DraftStatus if name == "status" else CONTENTS))
    for value in pc.unique(values).to_pylist():
        if value not in known:  # V4-201
            message = f"a manifest has a {name} of {value}, which the draft does not know"
            raise CorruptTable(message, rule="V4-201")


_COLUMNS = ManifestColumns(
    rule=_RULE,
    check=_check_codes,
    rows=DRAFT_ROWS,
    repeating=frozenset({"file_format"}),
    parts=(
        Group(
            "tracking",
            147,
            (
                Column("status", 0, required=True),
                Column("snapshot_id", 1),
                Column("sequence_number", 3),
                Column("file_sequence_number", 4),
                Column("dv_snapshot_id", 5),
                Column("first_row_id", 142),
                Column("deleted_positions", 6),
                Column("replaced_positions", 7),
            ),
            required=True,
        ),
        Column("content", 134, "content_type", required=True),
        Column("format_version", 157, required=True),
        Column("location", 100, required=True),
        Column("file_format", 101, required=True),
        Column("record_count", 103, required=True),
        Column("file_size_in_bytes", 104, required=True),
        Column("spec_id", 141),
        Struct(PARTITION, 102),
        Struct(STATS, 146),
        Column("sort_order_id", 140),
        Group(
            "deletion_vector",
            148,
            (
                Column("dv_location", 155, "location", required=True),
                Column("dv_offset", 144, "offset", required=True),
                Column("dv_size_in_bytes", 145, "size_in_bytes", required=True),
                Column("dv_cardinality", 156, "cardinality", required=True),
                Column("dv_key_metadata", 149, "key_metadata"),
            ),
        ),
        Group(
            "manifest_info",
            150,
            (
                *(
                    Column(name, number, required=True)
                    for name, number in zip(
                        COUNTS, (504, 505, 506, 520, 512, 513, 514, 521, 516), strict=True
                    )
                ),
                Column("dead_positions", 522, "dv"),
            ),
        ),
        Column("key_metadata", 131),
        Column("split_offsets", 132, element_id=133),
        Column("equality_ids", 135, element_id=136),
    ),
)
