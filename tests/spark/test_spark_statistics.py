"""Statistics of Spark and icectl together: sketches are united, and each reads the other's."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from icectl.table.partition_statistics import read_counts
from tests.builders.expiry import context_of
from tests.spark.conftest import icectl, peer

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TABLES = "v2", "v3", "compacted"
ROWS = 3000
"""Rows 0 to 1,999 are known to the statistics of Spark, 1,000 to 2,999 came after them."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What Spark says of each table once icectl has gone on from its statistics."""
    warehouse = tmp_path_factory.mktemp("statistics")
    peer("begin", str(warehouse), script="spark_statistics")
    done = {}
    for name in TABLES:
        context = context_of(warehouse / "db" / name)
        metadata = context.catalog.load().metadata
        counts = read_counts(context, metadata, metadata.partition_statistics[0])
        assert counts is not None
        assert sum(counts.table["record_count"].to_pylist()) == 2000
        ran = icectl("analyze", str(warehouse / "db" / name), "--engine", "local")
        assert ran.exit_code == 0, ran.errors
        done[name] = ran.document["result"]
        # Its snapshot has the same rows and files, and takes both kinds of statistics over.
        again = icectl("rewrite-manifests", str(warehouse / "db" / name), "--rewrite-all", "--yes")
        assert (again.exit_code, again.document["status"]) == (0, "done"), again.errors
    compacted = icectl(
        "compact", str(warehouse / "db" / "compacted"), "--engine", "local", "--rewrite-all"
    )
    assert (compacted.exit_code, compacted.document["status"]) == (0, "done"), compacted.errors
    lines = peer("read", str(warehouse), script="spark_statistics").splitlines()
    spark = {(one := json.loads(line))["table"]: one for line in lines if line.startswith("{")}
    return {name: {**spark[name], "icectl": done[name]} for name in done}


def expected(told: Mapping[str, Any]) -> dict[str, int]:
    """Distinct values of each column, deleted rows among them: all there are, but for some."""
    few = {"flag": 2, "category": 3, "name": ROWS * 2 // 3}
    return {column: few.get(column, ROWS) for column in told["distinct"]}


@pytest.mark.parametrize("name", TABLES)
def test_r140_a_value_that_both_have_seen_counts_once(told, name):
    counted = told[name]["icectl"]["columns"]
    assert {column["name"]: column["ndv"] for column in counted} == expected(told[name])
    assert {column["rows"] for column in counted} == {2000}


@pytest.mark.parametrize("name", TABLES)
def test_r140_spark_reads_the_sketches_and_plans_by_them(told, name):
    assert told[name]["sketches"] == expected(told[name])
    assert told[name]["planned"] == expected(told[name])


@pytest.mark.parametrize("name", TABLES)
def test_r142_r143_partitions_are_counted_as_iceberg_counts_them(told, name):
    """Either goes on from what Iceberg has counted of the first snapshot."""
    own, theirs = told[name]["partitions"], told[name]["computed"]
    total = 10  # its place; Iceberg leaves it out, which the format allows
    assert [row[:total] + row[total + 1 :] for row in own] == [
        row[:total] + row[total + 1 :] for row in theirs
    ]
    assert len(own) == 6
    known = [int(row[total]) for row in own if row[total] != "None"]
    # 40 of the 4,000 rows are deleted, all of them odd: vectors say of each partition how many
    assert (len(known), sum(known)) == ((3, 2000) if name == "v2" else (6, 3960))
