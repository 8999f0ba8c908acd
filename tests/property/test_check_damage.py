"""Whatever a damaged manifest reads as, the checks of it end in findings, not in a failure."""

import struct

import pyarrow as pa
import pytest

from icectl.checks.objects import CHECKED_COLUMNS
from icectl.entries.partition_key import encode_key
from icectl.errors import CorruptTable, Unsupported
from icectl.files.manifest.manifest import read_manifest
from icectl.format.manifest import FieldSummary, ManifestContent, ManifestFile
from icectl.format.types import PrimitiveType
from tests.builders.checked import (
    MANIFEST,
    SCHEMA,
    SPEC,
    check_entries,
    check_manifest,
    stored,
    table,
)
from tests.builders.entry_rows import data, positions, vector
from tests.builders.plain_manifests import manifest_of

STRING = PrimitiveType("string")
METRICS = {
    "value_counts": [(1, 10), (2, 10), (3, 10)],
    "null_value_counts": [(1, 0), (2, 1)],
    "nan_value_counts": [(3, 2)],
    "lower_bounds": [(1, struct.pack("<q", 1)), (2, b"a"), (3, struct.pack("<d", 0.5))],
    "upper_bounds": [(1, struct.pack("<q", 9)), (2, b"z")],
}


def written(content: ManifestContent) -> bytes:
    key = encode_key([STRING], ["b"])
    files = (
        data("s3://b/t/a", partition_key=key, split_offsets=[4, 90], sort_order_id=0, **METRICS),
        data("s3://b/t/b", partition_key=encode_key([STRING], [None])),
    )
    if content is ManifestContent.DELETES:
        files = (positions("s3://b/t/d", partition_key=key), vector("s3://b/t/v", "s3://b/t/a"))
        files[1]["partition_key"] = key
    return manifest_of(
        pa.table(stored(*files).table),
        SCHEMA,
        SPEC,
        format_version=3,
        content=content,
        snapshot_id=70,
        codec="null",
    )


def described(content: ManifestContent) -> ManifestFile:
    summary = FieldSummary(True, None, b"b", b"b")
    return ManifestFile(
        MANIFEST, 0, 0, content, 5, 5, 70, 2, 0, 0, 20, 0, 0, partitions=(summary,)
    )  # fmt: skip


@pytest.mark.parametrize("content", ManifestContent)
@pytest.mark.parametrize("bit", [0, 2])
def test_a_flipped_bit_is_an_error_of_reading_or_something_to_check(content, bit):
    whole, metadata, row = written(content), table(3), described(content)
    read = 0
    for at in range(bit, len(whole), 11):
        damaged = whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
        try:
            header, rows = read_manifest(damaged, columns=CHECKED_COLUMNS, manifest=0, spec=SPEC)
        except (CorruptTable, Unsupported):
            continue
        found = [
            *check_manifest(metadata, [row], header, len(damaged), rows),
            *check_entries(metadata, row, header, rows),
        ]
        assert {one.subject for one in found} == {MANIFEST}  # its length is wrong in any case
        read += 1
    assert read > 20
