"""Counts rows in Iceberg's Spark runtime by filters that it pushes down, and without filters.

    spark_filters.py JAR ASKED [files]

The file ASKED is JSON: lists of conditions in SQL by the directory of their table. One JSON line a
table is printed: {"table", "asked", "differing"}, where "differing" has what both count by
condition, where they differ. With `files`: {"table", "files"}, the files with a row that each
condition is true of, without filters.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from tests.peers.spark_peer import session

AT_ONCE = 100


def pushed_down(spark: SparkSession, conditions: list[str]) -> dict[str, int]:
    """Rows by condition, each counted in a scan that has the condition for its filter."""
    found = {}
    for start in range(0, len(conditions), AT_ONCE):
        part = conditions[start : start + AT_ONCE]
        scans = (f"SELECT {at} AS at FROM asked WHERE {one}" for at, one in enumerate(part))
        counts = Counter(row[0] for row in spark.sql(" UNION ALL ".join(scans)).collect())
        found |= {one: counts[at] for at, one in enumerate(part)}
    return found


def counted(spark: SparkSession, conditions: list[str]) -> dict[str, int]:
    """Rows by condition, which is evaluated in every row: there is no filter to push down."""
    found = {}
    for start in range(0, len(conditions), AT_ONCE):
        part = conditions[start : start + AT_ONCE]
        columns = ", ".join(f"count_if({one})" for one in part)
        (row,) = spark.sql(f"SELECT {columns} FROM asked").collect()
        found |= dict(zip(part, row, strict=True))
    return found


def files_with_rows(spark: SparkSession, conditions: list[str]) -> dict[str, list[str]]:
    """The files with a row of each condition, which is evaluated in every row."""
    found = {}
    for start in range(0, len(conditions), AT_ONCE):
        part = conditions[start : start + AT_ONCE]
        columns = ", ".join(f"collect_set(CASE WHEN {one} THEN _file END)" for one in part)
        (row,) = spark.sql(f"SELECT {columns} FROM asked").collect()
        found |= dict(zip(part, map(list, row), strict=True))
    return found


def main(arguments: list[str]) -> None:
    """Compare both for every table, or name files."""
    jar, asked, *what = arguments
    spark = session(jar, "/nonexistent")
    spark.conf.set("spark.sql.iceberg.aggregate-push-down.enabled", "false")
    try:
        for table, conditions in json.loads(Path(asked).read_text()).items():
            frame = spark.read.format("iceberg").load(table)
            frame.createOrReplaceTempView("asked")
            if what == ["files"]:
                frame.selectExpr("*", "_file").createOrReplaceTempView("asked")
                found = files_with_rows(spark, conditions)
                print(json.dumps({"table": table, "files": found}), flush=True)
                continue
            pushed, whole = pushed_down(spark, conditions), counted(spark, conditions)
            both = {one: [pushed[one], whole[one]] for one in conditions}
            differing = {one: counts for one, counts in both.items() if counts[0] != counts[1]}
            told = {"table": table, "asked": len(conditions), "differing": differing}
            print(json.dumps(told), flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
