"""Footers that are not what the pages behind them hold, in every format."""

import io
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from icectl.errors import CorruptTable
from icectl.files.data_file import open_data_file
from icectl.format.manifest import FileFormat
from icectl.format.schema import Schema
from icectl.format.types import NestedField, PrimitiveType, StructType
from icectl.rows.decoded_rows import DecodedRows

SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", PrimitiveType("long"), required=True),
        NestedField(2, "name", PrimitiveType("string"), required=False),
        NestedField(3, "ratio", PrimitiveType("double"), required=False),
        NestedField(4, "at", PrimitiveType("timestamp"), required=False),
        NestedField(
            5,
            "place",
            StructType((NestedField(6, "x", PrimitiveType("int"), required=True),)),
            required=False,
        ),
    ),
)


def with_id(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(
        name, kind, metadata={"PARQUET:field_id": str(number), "iceberg.id": str(number)}
    )


ID, NAME = with_id("id", pa.int64(), 1), with_id("name", pa.string(), 2)
RATIO = with_id("ratio", pa.float64(), 3)
PLACE = with_id("place", pa.struct([with_id("x", pa.int32(), 6).with_nullable(False)]), 5)


def parquet(columns: Mapping[str, Any], *fields: pa.Field, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(dict(columns), schema=pa.schema(fields)), file, **options)
    return file.getvalue()


def plain(columns: Mapping[str, Any], *fields: pa.Field, **options: Any) -> bytes:
    """Pages whose values lie in the file as they are."""
    return parquet(columns, *fields, compression="none", use_dictionary=False, **options)


def found(content: bytes, file_format: FileFormat = FileFormat.PARQUET) -> list[str]:
    decoded = DecodedRows(open_data_file(content, file_format.name), file_format, SCHEMA)
    rows = sum(rows.batch.num_rows for rows in decoded.batches())
    assert rows == decoded.row_count
    findings = list(decoded.findings("f"))
    assert {(one.rule, one.severity, one.subject) for one in findings} <= {("R-099", "error", "f")}
    assert all("restore the file from a copy" in one.hint for one in findings)
    return [one.message for one in findings]


def eight(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little", signed=True) for value in values)


def test_r099_rows_that_are_what_the_footer_says_are_no_finding():
    columns = {
        "id": [5, 1, 3], "name": ["b", None, "a"], "ratio": [0.5, float("nan"), None],
        "place": [{"x": 1}, None, {"x": 3}],
    }  # fmt: skip
    assert found(parquet(columns, ID, NAME, RATIO, PLACE)) == []
    assert found(parquet(columns, ID, NAME, RATIO, PLACE, row_group_size=1)) == []
    assert found(parquet(columns, ID, NAME, RATIO, PLACE, write_statistics=False)) == []
    assert found(parquet({"id": []}, ID)) == []


def test_r099_times_before_1970_finer_than_their_column_are_rounded_down_on_both_sides():
    at = with_id("at", pa.timestamp("ns"), 4)
    assert found(parquet({"at": pa.array([-1, 1_500], pa.timestamp("ns"))}, at)) == []


def test_r099_numbers_that_were_zeroed_inside_of_the_bounds_are_found():
    content = plain({"id": [-7, 3, 9]}, ID)
    assert content.count(eight(-7, 3, 9)) == 1
    damaged = content.replace(eight(-7, 3, 9), bytes(24))
    assert found(damaged) == [
        "its pages are not what its footer says: `id` holds 0 to 0, not -7 to 9"
    ]


def test_r099_each_row_group_is_compared_with_what_the_footer_says_of_it():
    damaged = plain({"id": [1, 2, 8, 9]}, ID, row_group_size=2).replace(eight(8, 9), eight(1, 2))
    assert found(damaged) == [
        "its pages are not what its footer says: row group 1: `id` holds 1 to 2, not 8 to 9"
    ]


def test_r099_bounds_of_texts_may_be_wider_than_the_texts_but_not_narrower():
    content = plain({"name": ["bb", "cc"]}, NAME)
    text = b"\2\0\0\0bb\2\0\0\0cc"
    assert content.count(text) == 1
    assert found(content.replace(text, b"\2\0\0\0bz\2\0\0\0ca")) == []
    assert found(content.replace(text, b"\2\0\0\0bb\2\0\0\0dc")) == [
        "its pages are not what its footer says: `name` holds 'bb' to 'dc', not 'bb' to 'cc'"
    ]


def test_r099_texts_that_are_no_longer_utf_8_are_found_beside_others_that_are():
    content = plain({"name": ["é1", "é2"]}, NAME, write_statistics=False)
    assert found(content) == []
    with pytest.raises(CorruptTable, match=r"the data file is damaged: .*UTF8.*\(R-099\)"):
        found(content.replace("é2".encode(), b"\xc3\x28x"))


def test_r099_long_values_are_cut_off():
    content = plain({"name": ["x" * 4_000]}, NAME)
    at = content.index(b"\xa0\x0f\0\0xxx")
    (message,) = found(content[: at + 4] + b"y" + content[at + 5 :])
    assert message == (
        "its pages are not what its footer says: `name` holds "
        f"'y{'x' * 39}'... (4,000 characters) to 'y{'x' * 39}'... (4,000 characters), "
        f"not '{'x' * 40}'... (4,000 characters) to '{'x' * 40}'... (4,000 characters)"
    )


def test_r099_orc_numbers_that_were_zeroed_are_found():
    file = io.BytesIO()
    orc.write_table(pa.table({"id": [300, 500, 900]}, schema=pa.schema([ID])), file)
    content = file.getvalue()
    assert found(content, FileFormat.ORC) == []
    whole = pa.table({"id": [300, 300, 300]}, schema=pa.schema([ID]))
    other = io.BytesIO()
    orc.write_table(whole, other)
    rows = open_data_file(content, "orc")
    belied = DecodedRows(
        _Instead(rows, open_data_file(other.getvalue(), "orc")), FileFormat.ORC, SCHEMA
    )
    assert sum(1 for _ in belied.batches()) == 1
    assert [one.message for one in belied.findings("f")] == [
        "its pages are not what its footer says: `id` holds 300 to 300, not 300 to 900"
    ]


def test_r099_null_structs_are_no_nulls_of_what_is_in_them_to_orc():
    file = io.BytesIO()
    columns = {"id": [1, 2], "place": [{"x": 1}, None]}
    orc.write_table(pa.table(columns, schema=pa.schema([ID, PLACE])), file)
    assert found(file.getvalue(), FileFormat.ORC) == []


class _Instead:
    """A file with the footer of one and the rows of another."""

    def __init__(self, footer: Any, rows: Any) -> None:
        self.schema, self.parts, self.batches = footer.schema, footer.parts, rows.batches
        self.record_count, self.properties = footer.record_count, footer.properties
        self.metrics = footer.metrics
