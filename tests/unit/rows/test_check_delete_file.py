"""Delete files against their manifest entries, every row decoded."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from icectl.format.manifest import FileFormat
from icectl.format.schema import Schema
from icectl.format.types import NestedField, PrimitiveType
from icectl.rows.check_data_file import RecordedFile, TableFacts
from icectl.rows.check_delete_file import (
    RecordedDeletes,
    check_equality_deletes,
    check_position_deletes,
)

PATH, POSITION = 2_147_483_546, 2_147_483_545
POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": str(PATH)}),
        pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": str(POSITION)}),
        pa.field("row", pa.string()),
    ]
)
FACTS = TableFacts(
    Schema(0, (NestedField(1, "id", PrimitiveType("long"), required=True),)), (), 2, None
)


def told(**changed):
    return RecordedDeletes(
        RecordedFile("s3://b/t/d", FileFormat.PARQUET, record_count=2, sequence_number=1), **changed
    )


def bounded(lower, upper):
    file = RecordedFile(
        "s3://b/t/d",
        FileFormat.PARQUET,
        record_count=2,
        sequence_number=1,
        lower_bounds={PATH: lower},
        upper_bounds={PATH: upper},
    )
    return RecordedDeletes(file)


def positions(**options):
    rows = {"file_path": ["s3://b/t/a", "s3://b/t/b"], "pos": [3, 0], "row": ["x", "y"]}
    file = io.BytesIO()
    pq.write_table(pa.table(rows, schema=POSITIONS), file, **options)
    return file.getvalue()


def found(content, deletes, *, by_footer=False):
    kernel = check_position_deletes(io.BytesIO(content), deletes, lambda _: 9, by_footer=by_footer)
    return [(one.rule, one.message) for one in kernel]


def test_r092_bounds_that_hide_a_data_file_whose_rows_are_deleted_are_found():
    assert found(positions(), bounded(b"s3://b/t/a", b"s3://b/t/b")) == []
    assert found(positions(), bounded(b"s3://b/t/a", b"s3://b/t/a")) == [
        ("R-092", "its bounds exclude rows: `file_path` ranges from 's3://b/t/a' to 's3://b/t/b'")
    ]


def test_r092_bounds_of_paths_that_are_spelled_with_another_scheme_tell_nothing():
    assert found(positions(), bounded(b"s3a://b/t/a", b"s3a://b/t/b")) == []


def test_r099_columns_beside_path_and_position_are_decoded_too():
    content = positions(compression="none", use_dictionary=False, write_statistics=False)
    damaged = content.replace(b"\1\0\0\0x", b"\xff\xff\xff\x7fx")
    assert damaged != content
    assert found(damaged, told(), by_footer=True) == []
    assert [rule for rule, _ in found(damaged, told())] == ["R-099"]


def test_r099_equality_deletes_are_decoded():
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    file = io.BytesIO()
    pq.write_table(
        pa.table({"id": [7, 9]}, schema=schema), file, compression="none", use_dictionary=False
    )
    nine = (9).to_bytes(8, "little")
    content = file.getvalue()
    at = content.index((7).to_bytes(8, "little") + nine) + 8

    def rules(octets, *, by_footer):
        kernel = check_equality_deletes(
            io.BytesIO(octets), told(equality_ids=(1,)), FACTS, by_footer=by_footer
        )
        return [one.rule for one in kernel]

    damaged = content[:at] + (8).to_bytes(8, "little") + content[at + 8 :]
    assert rules(content, by_footer=False) == []
    assert rules(damaged, by_footer=True) == []
    assert rules(damaged, by_footer=False) == ["R-099"]
