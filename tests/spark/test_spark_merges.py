"""Files of many schemas put together: Spark finds the rows that it found, in every way to read."""

import json

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from icectl.files.parquet.data_file import open_parquet
from icectl.files.parquet.value_filters import ValueFilters
from tests.builders.at_a_glance import AtAGlance
from tests.builders.rows import current_metadata, head, live_entries, local
from tests.spark.conftest import icectl, peer
from tests.spark.engine import skip_without_spark

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.mark.parametrize("version", ["3", pytest.param("2", marks=pytest.mark.full)])
def test_spark_reads_the_same_rows_of_merged_files(tmp_path, version):
    skip_without_spark()
    printed = peer(str(tmp_path), version, script="spark_merges").splitlines()
    (told,) = [json.loads(line) for line in printed if line.startswith("{")]
    assert told["code"] == 0, told["document"]
    (group,) = told["document"]["result"]["groups"]
    assert (group["method"], group["input_files"]) == ("merge", 4)
    ways = told["before"]
    assert len(ways) == 4
    expected = ways["plain 134217728"]
    assert expected[0] == "5992"
    assert ways == told["after"] == dict.fromkeys(ways, expected)
    directory = tmp_path / "db" / f"evolved{version}"
    read = StaticTable.from_metadata(str(current_metadata(directory))).scan().to_arrow()
    gone = {0, 5999, *range(17, 6000, 1000)}
    assert sorted(read["id"].to_pylist()) == sorted({*range(6000)} - gone)
    entries = [entry["data_file"] for entry in live_entries(head(directory))]
    (path,) = [local(entry["file_path"]) for entry in entries if not entry["content"]]
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    chunks = [group.column(at) for group in groups for at in range(group.num_columns)]
    with_filter = [chunk.path_in_schema for chunk in chunks if chunk.bloom_filter_offset]
    assert with_filter == ["id"] * 4
    with path.open("rb") as file:
        filters = ValueFilters(open_parquet(file, ()))
        ids = pq.read_table(path, columns=["id"])["id"].combine_chunks()
        for at in range(4):  # files of Spark's, one after the other
            for known in (filters, AtAGlance(path.read_bytes())):
                assert known.may_have(at, 3, ids.slice(at * 1500, 100)).all()
                assert known.may_have(at, 3, pa.array(range(9000, 9100))).sum() < 20
    facts = duckdb.sql(f"select count(id), sum(id), count(fresh) from '{path}'").fetchall()
    assert facts == [(6000, sum(range(6000)), 2000)]
    found = icectl("validate", str(tmp_path / "db" / f"evolved{version}"), "--level", "data")
    assert (found.exit_code, found.document["result"]["findings"]) == (0, [])
