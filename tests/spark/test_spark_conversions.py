"""Equality deletes that Iceberg's Java library wrote, converted: rows by Spark before and after."""

import json
from pathlib import Path

import pytest

from tests.spark.conftest import icectl, peer

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.mark.parametrize("name", ["v3_keys", pytest.param("v2_keys", marks=pytest.mark.full)])
def test_spark_reads_the_same_rows_and_its_older_rewrite_fails(tmp_path, name):
    """Else it would bring the rows back whose equality delete came after it had begun."""
    lines = peer(str(tmp_path), name, script="spark_conversions").splitlines()
    (told,) = (json.loads(line) for line in lines if line.startswith("{"))
    assert told["code"] == 0, told
    assert told["after"] == told["before"]
    assert told["equality_deletes"] == 0
    assert told["result"]["rows_after"] > 0
    assert "found new position delete for replaced data file" in told["error"]
    assert told["last"] == told["before"]
    found = icectl("validate", str(Path(tmp_path) / "db" / name), "--level", "data")
    assert found.exit_code == 0
    # A key with a fraction compares well, and is no identifier that the format allows.
    assert {finding["rule"] for finding in found.document["result"]["findings"]} == {"R-123"}
    again = icectl("compact", str(Path(tmp_path) / "db" / name), "--deletes-only")
    assert again.document["status"] == "nothing-to-do"
