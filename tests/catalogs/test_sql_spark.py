"""A SQLite catalog that Spark's JdbcCatalog, PyIceberg and icectl have in common."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from icectl.env import SystemEnv
from tests.catalogs.server import NAME
from tests.fault.changing import run
from tests.spark.conftest import PEERS, SKIPPED
from tests.spark.engine import NO_DRIVER, sqlite_driver

TABLE = f"{NAME}.db.t"


@dataclass
class Spark:
    """A session of Spark over the catalog."""

    process: "subprocess.Popen[str]"

    def sql(self, statement: str) -> list[Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(statement) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("rows "):
                found: list[Any] = json.loads(line.removeprefix("rows "))
                return found
        raise AssertionError(f"Spark has ended at: {statement}")


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Spark]:
    """Spark with a JdbcCatalog called NAME."""
    if SKIPPED:
        pytest.skip(SKIPPED)
    driver = sqlite_driver()
    if driver is None:
        pytest.skip(NO_DRIVER)
    jars = f"{os.environ['ICECTL_TEST_SPARK_JAR']},{driver}"
    command = [os.environ["ICECTL_TEST_SPARK_PYTHON"], str(PEERS / "jdbc_peer.py"), jars]
    words = [*command, str(tmp_path / "c.db"), str(tmp_path / "warehouse"), NAME]
    with (tmp_path / "spark.log").open("w") as log:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            yield Spark(process)
        finally:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.wait(60)
            process.stdout.close()


@pytest.mark.spark
@pytest.mark.full
def test_spark_pyiceberg_and_icectl_share_a_table(spark, tmp_path, monkeypatch):
    uri = f"sqlite:///{tmp_path}/c.db"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{NAME.upper()}__URI", uri)
    spark.sql(f"CREATE NAMESPACE {NAME}.db")
    spark.sql(
        f"CREATE TABLE {TABLE} (id bigint, at timestamp, v string) USING iceberg PARTITIONED BY "
        "(bucket(2, id)) TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' ="
        " 'merge-on-read')"
    )
    for start in range(0, 40, 10):
        spark.sql(
            f"INSERT INTO {TABLE} SELECT id, CAST(1700000000 + id AS timestamp), concat('v', id)"
            f" FROM range({start}, {start + 10})"
        )
    spark.sql(f"DELETE FROM {TABLE} WHERE id % 7 = 3")
    expected = spark.sql(f"SELECT * FROM {TABLE} ORDER BY id")
    assert len(expected) == 34
    commands = (
        ["rewrite-manifests", TABLE, "--min-manifests", "1"],
        ["compact", TABLE, "--engine", "local", "--rewrite-all"],
        ["expire-snapshots", TABLE, "--older-than", "0s", "--retain-last", "1", "--yes"],
        ["remove-orphans", TABLE, "--older-than", "1d", "--yes", "--max-fraction", "1"],
    )
    for words in commands:
        code, document = run([*words, "--json"], env=SystemEnv())
        assert code == 0, document
        assert spark.sql(f"SELECT * FROM {TABLE} ORDER BY id") == expected
    spark.sql(f"INSERT INTO {TABLE} VALUES (100, TIMESTAMP '2030-01-01 00:00:00', 'spark')")
    spark.sql(f"DELETE FROM {TABLE} WHERE id = 0")
    expected = spark.sql(f"SELECT * FROM {TABLE} ORDER BY id")
    code, document = run([*commands[1], "--json"], env=SystemEnv())
    assert code == 0, document
    assert spark.sql(f"SELECT * FROM {TABLE} ORDER BY id") == expected
    with closing(load_catalog(NAME, uri=uri)) as catalog:
        found = catalog.load_table("db.t").scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == [row[0] for row in expected]
    code, document = run(["validate", TABLE, "--level", "data", "--all-snapshots", "--json"])
    assert (code, document["result"]["counts"]["error"]) == (0, 0), document
    assert [row["table"] for row in run(["inspect", NAME, "--json"])[1]["result"]["rows"]] == [
        TABLE
    ]
