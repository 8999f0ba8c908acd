"""Rows of Spark's tables are erased on Spark's own session, by keys in another table of Spark's.

    spark_erasing.py JAR WAREHOUSE     run by the Python of Spark

For each version a line of JSON is printed: the report, and the ids that Spark finds in each branch
and snapshot before and after.
"""

import json
import sys
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from icectl.spark import EraseOptions, erase
from tests.peers.spark_expiring import build
from tests.peers.spark_peer import session

GONE = (610, 777, 1300)
"""Ids that are there after the deletes of `build`, in its second and third insert."""


def ids(spark: SparkSession, table: str) -> Mapping[str, list[int]]:
    """The ids of both branches, and of each snapshot."""
    snapshots = [row.snapshot_id for row in spark.sql(f"SELECT * FROM {table}.snapshots").collect()]
    refs = {"main": "", "other": " VERSION AS OF 'other'"}
    refs |= {str(one): f" VERSION AS OF {one}" for one in snapshots}
    queries = {name: f"SELECT id FROM {table}{ref} ORDER BY id" for name, ref in refs.items()}
    return {name: [row.id for row in spark.sql(it).collect()] for name, it in queries.items()}


def main(arguments: Sequence[str]) -> None:
    """Make the table of a version after the other, and erase rows of it."""
    jar, warehouse = arguments
    spark = session(jar, warehouse)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS peer.db")
    spark.sql("CREATE OR REPLACE TABLE peer.db.gone (id bigint, asked date) USING iceberg")
    values = ", ".join(f"({one}, DATE '2026-01-01')" for one in (*GONE, 5))
    spark.sql(f"INSERT INTO peer.db.gone VALUES {values}")
    spark.sql("DELETE FROM peer.db.gone WHERE id = 5")
    options = EraseOptions(
        keys=f"{warehouse}/db/gone", key_columns="id", expire_history=True, drop_tags=["*"]
    )
    for version, spec in (("2", "none"), ("3", "days")):
        table = f"peer.db.erased_{version}"
        build(spark, table, version, spec)
        before = ids(spark, table)
        report = erase(spark, f"{warehouse}/db/erased_{version}", options)
        spark.sql(f"REFRESH TABLE {table}")
        told = {"code": report.exit_code, "result": report.result}
        told |= {"version": version, "before": before, "after": ids(spark, table)}
        print(json.dumps(told, default=str), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
