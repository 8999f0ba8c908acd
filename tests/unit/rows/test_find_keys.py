"""Rows that are looked up by keys: files that can't have any are not read."""

from dataclasses import replace
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.commands.rows.read import blank_task, condition_job
from icectl.entries.conditions import Constant
from icectl.entries.partition_key import encode_key
from icectl.format.manifest import FileFormat
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from icectl.format.types import NestedField, PrimitiveType
from icectl.rows.find_job import FindJob, keys_of, run_find
from icectl.table.rewrite_tasks import InputFile
from tests.builders.data_files import MemoryFiles, identified, table
from tests.builders.plain_metadata import plain_metadata

ID = identified("id", pa.int64(), 1)
SCHEMA = Schema(0, (NestedField(1, "id", PrimitiveType("long"), required=False),))
METADATA = plain_metadata(
    SCHEMA, PartitionSpec(0, ()), format_version=2, location="t", last_column_id=1,
    table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
)  # fmt: skip


def found(files: MemoryFiles, *ids: int) -> dict[str, list[int]]:
    """The positions of rows with some ids, by file."""
    inputs = tuple(
        InputFile(location, FileFormat.PARQUET, len(content),
                  pq.read_metadata(BytesIO(content)).num_rows, 0, encode_key((), ()), 0)
        for location, content in files.content.items()
    )  # fmt: skip
    keys, _ = keys_of(pa.table({"id": list(ids)}), SCHEMA)
    job = FindJob(condition_job(METADATA, Constant(value=True)), keys)
    task = replace(blank_task(METADATA), inputs=inputs)
    return {one.location: one.positions.tolist() for one in run_find(task, job, files.outputs())}


@pytest.mark.parametrize("by", ["filter", "dictionary", "bounds"])
def test_a_file_that_cannot_have_a_key_is_not_read(by):
    files = MemoryFiles()
    how: dict[str, Any] = {"use_dictionary": by == "dictionary", "compression": "none"}
    if by == "filter":
        how["bloom_filter_options"] = {"id": {"ndv": 100, "fpp": 0.001}}
    spread = 1 if by == "bounds" else 2
    for at in range(2):
        sink = BytesIO()
        first = 200 * at if by == "bounds" else at
        pq.write_table(table([ID], [(first + spread * n,) for n in range(100)]), sink, **how)
        content = bytearray(sink.getvalue())
        chunk = pq.read_metadata(BytesIO(content)).row_group(0).column(0)
        if at:  # whoever decodes its rows fails
            size = chunk.total_compressed_size - (chunk.data_page_offset - 4)
            content[chunk.data_page_offset : chunk.data_page_offset + size] = bytes(size)
        files.content[f"f{at}"] = bytes(content)
    assert found(files, 8, 40) == {"f0": [8 // spread, 40 // spread]}
    with pytest.raises(Exception, match="damaged"):
        found(files, 8, 299 if by == "bounds" else 9)
