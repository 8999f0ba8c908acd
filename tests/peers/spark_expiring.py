"""Rows past their time go from one table by Spark's DELETE, and from its twin by icectl.

    spark_expiring.py JAR WAREHOUSE     run by the Python of Spark

For each case a line of JSON is printed: how icectl ended, and the ids that Spark finds in both.
"""

import io
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from pyspark.sql import SparkSession

from icectl.cli import app
from tests.peers.spark_peer import session

SPECS = {"none": "", "days": "PARTITIONED BY (days(t))", "dates": "PARTITIONED BY (d)"}
FILTERS = {
    "t": "t < TIMESTAMP '2024-01-04 07:00:00'",
    "n": "n <= TIMESTAMP_NTZ '2024-01-05 00:00:00'",
    "d": "d < DATE '2024-01-03' AND id < 1300",
}
OWN = {
    "t": "t < '2024-01-04T07:00:00Z'",
    "n": "n <= '2024-01-05T00:00:00'",
    "d": "d < '2024-01-03' and id < 1300",
}
CASES = [
    (version, spec, column, method)
    for at, (version, spec) in enumerate((v, s) for v in ("2", "3") for s in SPECS)
    for column, method in zip(FILTERS, ("deletes", "rewrite", "deletes"), strict=True)
    if (at + list(FILTERS).index(column)) % 2 == 0
]


def build(spark: SparkSession, table: str, version: str, spec: str) -> None:
    """Make a table of three inserts with nulls, another spec for the last, and deleted rows."""
    spark.sql(
        f"""CREATE TABLE {table} (id int, t timestamp, n timestamp_ntz, d date) USING iceberg
            {SPECS[spec]} TBLPROPERTIES ('format-version'='{version}',
            'write.delete.mode'='merge-on-read')"""
    )
    for start in (0, 600, 1200):
        if start == 600:
            spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE bigint")
        if start == 1200 and spec == "days":
            spark.sql(f"ALTER TABLE {table} REPLACE PARTITION FIELD days(t) WITH months(t)")
        spark.sql(
            f"""INSERT INTO {table} SELECT id, if(id % 11 = 0, null, t), if(id % 13 = 0, null,
                cast(t AS timestamp_ntz)), if(id % 17 = 0, null, cast(t AS date)) FROM
                (SELECT id, timestamp_seconds(1704067200 + pmod(id * 7919, 700000)) AS t
                 FROM range({start}, {start + 600}))"""
        )
    spark.sql(f"DELETE FROM {table} WHERE id % 50 = 3")


def ids(spark: SparkSession, table: str) -> list[int]:
    return [row.id for row in spark.sql(f"SELECT id FROM {table} ORDER BY id").collect()]


def main(arguments: Sequence[str]) -> None:
    """Make, shorten and compare the tables of one case after the other."""
    jar, warehouse = arguments
    spark = session(jar, warehouse)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS peer.db")
    for version, spec, column, method in CASES:
        name = f"{spec}_{version}_{column}"
        theirs, own = f"peer.db.{name}_spark", f"peer.db.{name}_own"
        for table in (theirs, own):
            build(spark, table, version, spec)
        spark.sql(f"DELETE FROM {theirs} WHERE {FILTERS[column]}")
        shown = io.StringIO()
        words = ["--where", OWN[column], "--method", method, "--max-fraction", "1"]
        with redirect_stdout(shown):
            place = f"{warehouse}/db/{name}_own"
            code = app.main(["expire-rows", place, *words, "--yes", "--json"])
        spark.sql(f"REFRESH TABLE {own}")
        document = json.loads(shown.getvalue())
        found = {"case": name, "code": code, "document": document}
        found |= {"spark": ids(spark, theirs), "own": ids(spark, own)}
        print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
