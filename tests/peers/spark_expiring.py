"""Rows past their time go from one table by Spark's DELETE, and from its twin by icectl.

    spark_expiring.py JAR WAREHOUSE     run by the Python of Spark

For each case a line of JSON is printed: how icectl ended, and the ids that Spark finds in both.
"""

import io
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from pyspark.sql import SparkSession

from icectl.cli import app
from tests.peers.spark_peer import session

SPECS = {"none": "", "days": "PARTITIONED BY (days(t))", "dates": "PARTITIONED BY (d)"}
FILTERS = {
    "t": "t < TIMESTAMP '2024-01-04 07:00:00'",
    "n": "n <= TIMESTAMP_NTZ '2024-01-05 00:00:00'",
    "d": "d < DATE '2024-01-03' AND id < 1300",
    "x": "t < TIMESTAMP '2024-01-06 00:00:00' AND x > 5",
}
OWN = {
    "t": "t < '2024-01-04T07:00:00Z'",
    "n": "n <= '2024-01-05T00:00:00'",
    "d": "d < '2024-01-03' and id < 1300",
    "x": "t < '2024-01-06T00:00:00Z' and x > 5",
}
CASES = [
    (version, spec, column, method)
    for at, (version, spec) in enumerate((v, s) for v in ("2", "3") for s in SPECS)
    for column, method in zip(FILTERS, ("deletes", "rewrite", "deletes", "rewrite"), strict=True)
    if (at + list(FILTERS).index(column)) % 2 == 0
]


def build(spark: SparkSession, table: str, version: str, spec: str) -> None:
    """Make a table of three inserts with nulls, another spec for the last, and deleted rows."""
    spark.sql(
        f"""CREATE TABLE {table} (id int, t timestamp, n timestamp_ntz, d date, x float)
            USING iceberg {SPECS[spec]} TBLPROPERTIES ('format-version'='{version}',
            'write.delete.mode'='merge-on-read')"""
    )
    for start in (0, 600, 1200):
        if start == 600:
            spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE bigint")
            spark.sql(f"ALTER TABLE {table} ALTER COLUMN x TYPE double")
        if start == 1200 and spec == "days":
            spark.sql(f"ALTER TABLE {table} REPLACE PARTITION FIELD days(t) WITH months(t)")
        spark.sql(
            f"""INSERT INTO {table} SELECT id, if(id % 11 = 0, null, t), if(id % 13 = 0, null,
                cast(t AS timestamp_ntz)), if(id % 17 = 0, null, cast(t AS date)),
                if(id % 7 = 0, float('nan'), if(id % 5 = 0, null, id % 12)) FROM
                (SELECT id, timestamp_seconds(1704067200 + pmod(id * 7919, 700000)) AS t
                 FROM range({start}, {start + 600}))"""
        )
    spark.sql(f"DELETE FROM {table} WHERE id % 50 = 3")
    spark.sql(f"ALTER TABLE {table} CREATE TAG before")
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH other")
    spark.sql(f"INSERT INTO {table}.branch_other SELECT * FROM {table} WHERE id < 20")


def ids(spark: SparkSession, table: str) -> list[list[int]]:
    """The ids of the main branch, of a tag and of another branch."""
    refs = ("", " VERSION AS OF 'before'", " VERSION AS OF 'other'")
    queries = (f"SELECT id FROM {table}{ref} ORDER BY id" for ref in refs)
    return [[row.id for row in spark.sql(query).collect()] for query in queries]


def words_of(column: str, method: str, warehouse: str, place: str, *, by_policy: bool) -> list[str]:
    """The command that deletes the rows, by itself or as a step of maintain."""
    if not by_policy:
        words = ["--where", OWN[column], "--method", method, "--max-fraction", "1"]
        return ["expire-rows", place, *words, "--yes", "--json"]
    policy = Path(warehouse) / "policy.toml"
    options = {"where": OWN[column], "method": method, "max-fraction": "1"}
    lines = [f'{name} = "{value}"' for name, value in options.items()]
    policy.write_text("\n".join(['steps = ["expire-rows"]', "[expire-rows]", *lines]) + "\n")
    policy.chmod(0o600)
    return ["maintain", place, "--policy", str(policy), "--yes", "--json"]


def main(arguments: Sequence[str]) -> None:
    """Make, shorten and compare the tables of one case after the other."""
    jar, warehouse = arguments
    spark = session(jar, warehouse)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS peer.db")
    for at, (version, spec, column, method) in enumerate(CASES):
        name = f"{spec}_{version}_{column}"
        theirs, own = f"peer.db.{name}_spark", f"peer.db.{name}_own"
        for table in (theirs, own):
            build(spark, table, version, spec)
        spark.sql(f"DELETE FROM {theirs} WHERE {FILTERS[column]}")
        shown = io.StringIO()
        place = f"{warehouse}/db/{name}_own"
        words = words_of(column, method, warehouse, place, by_policy=at % 2 == 1)
        with redirect_stdout(shown):
            code = app.main(words)
        spark.sql(f"REFRESH TABLE {own}")
        document = json.loads(shown.getvalue())
        found = {"case": name, "code": code, "document": document}
        found |= {"spark": ids(spark, theirs), "own": ids(spark, own)}
        print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
