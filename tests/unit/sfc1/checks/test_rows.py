"""What is found in the rows of a version 4 leaf beyond what damaged tables show."""

import numpy as np
import pyarrow as pa

from icectl.format.manifest import Content, FileFormat, Status
from icectl.sfc1.checks.rows import ListedLeaf, TreeColumns
from icectl.sfc1.manifest_file import ListedRow
from icectl.sfc1.rules import SFC1_RULES
from tests.builders.checked import snapshot

MOST = 2_097_152


def leaf_of(count):
    """A leaf's rows, as far as they are described, and what its root says of it."""
    ones = np.ones(count, np.int64)
    rows = pa.table(
        {
            "content": pa.array(np.zeros(count, np.int8)),
            "status": pa.array(ones.astype(np.int8)),
            "location": pa.repeat("file:///t/a.parquet", count),
            "record_count": ones,
            "sequence_number": ones,
            "file_sequence_number": ones,
        }
    )
    told = ListedRow(
        content=Content.DATA_MANIFEST,
        file_format=FileFormat.PARQUET,
        status=Status.ADDED,
        spec_id=0,
        record_count=count,
        location="file:///t/m.parquet",
        sequence_number=1,
        file_size_in_bytes=9,
        added_files_count=count,
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=count,
        existing_rows_count=0,
        deleted_rows_count=0,
        min_sequence_number=1,
    )
    return TreeColumns(rows), told


def rules(count):
    columns, told = leaf_of(count)
    leaf = ListedLeaf(columns, told, 9, snapshot(sequence_number=1))
    return [one.rule for one in SFC1_RULES.findings(leaf)]


def test_v4_115_a_leaf_has_at_most_as_many_rows_as_a_bitmap_of_the_draft_can_name():
    assert rules(MOST) == []
    assert rules(MOST + 1) == ["V4-115"]
