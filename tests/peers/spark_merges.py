"""Spark reads tables whose schema has changed from file to file, then icectl merges the files.

    spark_merges.py JAR WAREHOUSE VERSION ...     run by the Python of Spark

For each format version a line of JSON is printed: how the merge ended, and what Spark found before
and after by each way to read: vectorized or not, each file as a whole or in many parts.
"""

import io
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from pyspark.sql import SparkSession

from icectl.cli import app
from tests.peers.spark_peer import session

ROWS = 1500
MERGE = ("--engine", "local", "--method", "merge", "--min-input-files", "2", "--json", "--yes")
WAYS = {
    f"{'vectorized' if vectorized else 'plain'} {size}": {
        "vectorization-enabled": str(vectorized).lower(),
        "split-size": str(size),
        "file-open-cost": "1",
    }
    for vectorized in (True, False)
    for size in (1 << 27, 5_000)
}
# Columns that can't be null would be required ones, and files with both don't merge.
WIDE = "xxhash64(id) * pow(2, -60) + nullif(0, id + 1)"


def build(spark: SparkSession, table: str, version: str) -> None:
    """Make a table of four files, each of another schema, with rows that are deleted.

    The first column of the first file is the last one of the last.
    """
    spark.sql(
        f"""CREATE TABLE {table} (old string, note string, id bigint, value double) USING iceberg
            TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='merge-on-read',
            'write.distribution-mode'='none', 'write.parquet.page-size-bytes'='1024',
            'write.parquet.bloom-filter-enabled.column.id'='true',
            'write.parquet.bloom-filter-max-bytes'='16384')"""
    )

    def insert(part: int, *columns: str) -> None:
        """Insert a file of so many rows."""
        start = part * ROWS
        listed = ", ".join(columns)
        spark.sql(f"INSERT INTO {table} SELECT {listed} FROM range({start}, {start + ROWS}, 1, 1)")

    note = "if(id % 7 = 0, null, concat('note ', id % 50))"
    insert(0, "if(id % 2 = 0, 'x', null)", note, "nullif(id, -1)", WIDE)
    spark.sql(f"ALTER TABLE {table} DROP COLUMN old")
    insert(1, note, "nullif(id, -1)", WIDE)
    spark.sql(f"ALTER TABLE {table} ADD COLUMN fresh bigint FIRST")
    insert(2, "if(id % 3 = 0, null, id)", note, "nullif(id, -1)", WIDE)
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN note AFTER value")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN value TO amount")
    insert(3, "if(id % 3 = 0, null, id)", "nullif(id, -1)", WIDE, note)
    spark.sql(f"DELETE FROM {table} WHERE id % 1000 = 17 OR id IN (0, {4 * ROWS - 1})")


def found(spark: SparkSession, table: str, version: str) -> dict[str, list[str]]:
    """Return how many rows there are, sums over all columns, and looked-up rows, by way to read."""
    spark.sql(f"REFRESH TABLE {table}")
    columns = ["note", "fresh", "id", "amount"]
    columns += ["_row_id", "_last_updated_sequence_number"] if version == "3" else []
    sums = [f"sum(cast(xxhash64(id, {name}) as decimal(38, 0)))" for name in columns]
    told = {}
    for way, options in WAYS.items():
        rows = spark.read.options(**options).table(table).selectExpr(*columns)
        (row,) = rows.selectExpr("count(*)", *sums).collect()
        looked_up = rows.where(f"id IN (1, 17, {2 * ROWS + 5}, {3 * ROWS})").collect()
        told[way] = [str(value) for value in (*row, *sorted(looked_up, key=lambda one: one["id"]))]
    return told


def main(arguments: Sequence[str]) -> None:
    """Make, read and merge one table after the other."""
    jar, warehouse, *versions = arguments
    spark = session(jar, warehouse)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS peer.db")
    for version in versions:
        table = f"peer.db.evolved{version}"
        build(spark, table, version)
        before = found(spark, table, version)
        printed = io.StringIO()
        with redirect_stdout(printed):
            code = app.main(["compact", f"{warehouse}/db/evolved{version}", *MERGE])
        told = {"code": code, "document": json.loads(printed.getvalue())}
        after = found(spark, table, version)
        print(json.dumps({**told, "before": before, "after": after}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
