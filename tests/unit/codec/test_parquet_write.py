"""Parquet files as data files are written, a row group at a time."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.codec.parquet_write import ParquetOptions, ParquetWriter

UUIDS = pa.array([b"0123456789abcdef", None], pa.uuid().storage_type)
UUID = pa.ExtensionArray.from_storage(pa.uuid(), UUIDS)


@pytest.mark.parametrize(
    "column",
    [
        UUID,
        pa.StructArray.from_arrays([UUID], fields=[pa.field("u", pa.uuid())]),
        pa.ListArray.from_arrays(pa.array([0, 1, 2]), UUID),
    ],
    ids=["plain", "in a struct", "in a list"],
)
def test_uuids_are_written_wherever_they_are(column: pa.Array) -> None:
    file = io.BytesIO()
    batch = pa.record_batch([column], names=["c"])
    writer = ParquetWriter(file, batch.schema, ParquetOptions(), {})
    writer.write_row_group([batch])
    writer.close()
    assert pq.read_table(file)["c"].to_pylist() == column.to_pylist()


def test_a_file_may_have_no_rows() -> None:
    file = io.BytesIO()
    schema = pa.schema([pa.field("c", pa.struct([pa.field("u", pa.uuid())]))])
    ParquetWriter(file, schema, ParquetOptions(), {}).close()
    assert pq.read_table(file).num_rows == 0
