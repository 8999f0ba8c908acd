"""Parquet files whose row groups several threads encode: as one thread writes them."""

import io
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import SelfCheckFailed
from icectl.files.parquet import side_by_side
from icectl.files.parquet.side_by_side import SideBySideWriter
from icectl.files.parquet.write import ParquetOptions, ParquetWriter
from tests.builders.data_files import identified

SCHEMA = pa.schema(
    [
        identified("id", pa.int64(), 1),
        identified("real", pa.float64(), 2),
        identified("u", pa.uuid(), 3),
        identified("s", pa.struct([identified("name", pa.string(), 5)]), 4),
    ]
)
OPTIONS = ParquetOptions(bloom_filters={"id": 0.01})
UUIDS = pa.array([b"0123456789abcdef"] * 1_000, pa.uuid().storage_type)


def rows(number: int) -> pa.RecordBatch:
    """1,000 rows, in the first of which is NaN if the number is even."""
    reals = [float("nan") if at == 0 and number % 2 == 0 else at / 7 for at in range(1_000)]
    names = pa.array([f"{number}-{at % 50}" if at % 3 else None for at in range(1_000)])
    columns = [
        pa.array(range(number * 1_000, number * 1_000 + 1_000)),
        pa.array(reals),
        pa.ExtensionArray.from_storage(pa.uuid(), UUIDS),
        pa.StructArray.from_arrays([names], fields=list(SCHEMA.field("s").type)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def written(count: int, threads: int) -> tuple[bytes, pq.FileMetaData]:
    """A file of so many row groups, and what its writer knows of it."""
    file = io.BytesIO()
    with ThreadPoolExecutor(2) as pool:
        of_file = file, SCHEMA, OPTIONS, {"a": "b"}
        writer: ParquetWriter | SideBySideWriter = (
            SideBySideWriter(*of_file, pool, threads) if threads else ParquetWriter(*of_file)
        )
        for number in range(count):
            writer.write_row_group([rows(number)], {2} if number % 2 == 0 else ())
        metadata = writer.close()
    assert writer.size_bytes == len(file.getvalue())
    assert (writer.waiting_rows, writer.waiting_bytes) == (0, 0)
    return file.getvalue(), metadata


def facts(metadata: pq.FileMetaData) -> list[object]:
    """What a footer says of each column chunk, beside where it lies."""
    found: list[object] = [metadata.num_rows, metadata.metadata, metadata.schema]
    for number in range(metadata.num_row_groups):
        for at in range(metadata.num_columns):
            chunk = metadata.row_group(number).column(at).to_dict()
            found.append({key: chunk[key] for key in chunk if not key.endswith("offset")})
    return found


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("threads", [1, 3])
def test_row_groups_are_those_that_one_thread_writes(count, threads):
    content, metadata = written(count, threads)
    alone, of_alone = written(count, 0)
    file = pq.ParquetFile(io.BytesIO(content))
    of_file = pq.ParquetFile(io.BytesIO(alone))
    assert str(file.read().to_pylist()) == str(of_file.read().to_pylist())  # NaN too
    assert file.metadata.num_row_groups == count
    assert facts(file.metadata) == facts(of_file.metadata)
    assert facts(metadata) == facts(of_alone)


def test_bytes_that_changed_between_threads_are_found(monkeypatch):
    honest = SideBySideWriter._encoded

    def damaged(self, batches, with_nan, shapes):
        file, metadata = honest(self, batches, with_nan, shapes)
        file.getbuffer()[200] ^= 1
        return file, metadata

    monkeypatch.setattr(side_by_side.SideBySideWriter, "_encoded", damaged)
    with pytest.raises(SelfCheckFailed, match="not encoded as it should be"):
        written(2, 2)
