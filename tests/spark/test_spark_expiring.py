"""The rows that `expire-rows` deletes are those of Spark's DELETE on a twin of the table."""

import json

import pytest

from tests.spark.conftest import icectl, peer
from tests.spark.engine import skip_without_spark

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.full]


def test_the_same_rows_go_as_by_spark(tmp_path):
    skip_without_spark()
    printed = peer(str(tmp_path), script="spark_expiring").splitlines()
    told = [json.loads(line) for line in printed if line.startswith("{")]
    assert len(told) == 12
    actions: set[str] = set()
    for case in told:
        tables = (case["document"]["result"] or {}).get("tables", ())
        assert case["code"] == 0, [table["reason"] for table in tables] or case["document"]
        assert case["own"] == case["spark"], case["case"]
        main, tagged, _ = case["own"]
        assert len(main) < len(tagged)
        result = case["document"]["result"]
        actions |= {file["action"] for file in result.get("files", ())}
        steps = {step["status"] for table in tables for step in table["steps"]}
        assert steps <= {"done"}
        found = icectl("validate", str(tmp_path / "db" / f"{case['case']}_own"), "--level", "data")
        assert (found.exit_code, found.document["result"]["counts"]["error"]) == (0, 0)
    assert actions >= {"drop", "change"}
