"""Files of many schemas put together: Spark finds the rows that it found, in every way to read."""

import json
from pathlib import Path

import pytest

from tests.spark.conftest import icectl, peer
from tests.spark.engine import why_skipped

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.mark.parametrize("version", ["3", pytest.param("2", marks=pytest.mark.full)])
def test_spark_reads_the_same_rows_of_merged_files(tmp_path: Path, version: str) -> None:
    if skipped := why_skipped():
        pytest.skip(skipped)
    printed = peer(str(tmp_path), version, script="spark_merges").splitlines()
    (told,) = [json.loads(line) for line in printed if line.startswith("{")]
    assert told["code"] == 0, told["document"]
    (group,) = told["document"]["result"]["groups"]
    assert (group["method"], group["input_files"]) == ("merge", 4)
    ways = told["before"]
    assert len(ways) == 4
    expected = ways["plain 134217728"]
    assert expected[0] == "23974"
    assert ways == told["after"] == dict.fromkeys(ways, expected)
    found = icectl("validate", str(tmp_path / "db" / f"evolved{version}"), "--level", "data")
    assert (found.exit_code, found.document["result"]["findings"]) == (0, [])
