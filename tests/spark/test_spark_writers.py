"""compact beside Iceberg's Spark, which deletes, updates and merges rows of the table meanwhile."""

import json
from pathlib import Path

import pytest

from tests.spark.conftest import icectl, peer
from tests.spark.engine import skip_without_spark

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TABLES = ("v2_merge", "v2_rewrite", "v3_merge", "v3_rewrite")


@pytest.mark.parametrize(
    ("runs", "tables"),
    [(1, ("v3_merge",)), pytest.param(20, TABLES, marks=pytest.mark.full)],
    ids=["once", "often"],
)
def test_every_compaction_lands_and_spark_reads_all_rows_with_their_ids(
    tmp_path: Path, runs: int, tables: tuple[str, ...]
) -> None:
    skip_without_spark()
    printed = peer(str(tmp_path), str(runs), *tables, script="spark_writer").splitlines()
    lines = [json.loads(line) for line in printed if line.startswith("{")]
    assert [line["table"] for line in lines] == list(tables)
    for told in lines:
        assert {run["code"] for run in told["ended"]} == {0}
        assert told["ended"][0]["carried"] > 0
        assert told["rows"] == told["expected"]
        if told["table"].startswith("v3"):
            assert told["other_row_ids"] == []
            assert told["distinct_row_ids"] == len(told["rows"])
        found = icectl("validate", str(tmp_path / "db" / told["table"]), "--level", "data")
        assert (found.exit_code, found.document["result"]["findings"]) == (0, [])
