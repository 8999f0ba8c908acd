"""Counts rows in Iceberg's Spark runtime by filters that it pushes down, and without filters.

    spark_filters.py JAR ASKED [files]
    spark_filters.py JAR - write WAREHOUSE

The file ASKED is JSON: lists of conditions in SQL by the directory of their table. One JSON line a
table is printed: {"table", "asked", "differing"}, where "differing" has what both count by
condition, where they differ. With `files`: {"table", "files"}, the files with a row that each
condition is true of, without filters. `write` makes the table WAREHOUSE/db/odd, with variants and
shapes in files of two rows.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from tests.peers.spark_peer import session

AT_ONCE = 100
POINT = "unhex(concat('0101000000', '000000000000F03F', '0000000000000040'))"
ODD_FILES = 6


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


def write_odd(spark: SparkSession) -> None:
    """Write files of which none, one or both rows have a value of a column."""
    spark.conf.set("spark.sql.geospatial.enabled", "true")  # shapes are an option of Spark 4.1
    spark.sql("CREATE NAMESPACE IF NOT EXISTS peer4.db")
    spark.sql(
        """CREATE TABLE peer4.db.odd (
            id bigint, v variant, g geometry(4326), e geography(4326), s struct<v: variant>
        ) USING iceberg TBLPROPERTIES (
            'format-version'='3', 'write.parquet.shred-variants'='false',
            'icectl.v4.root.max-data-files'='0', 'icectl.v4.leaf.max-entries'='1')"""
    )
    for file in range(ODD_FILES):
        spark.sql(
            f"""INSERT INTO peer4.db.odd SELECT
                id, if(id + {file} % 3 < 2, parse_json('{{"a": 1}}'), null),
                if(id + ({file} + 1) % 3 < 2, st_setsrid(st_geomfromwkb({POINT}), 4326), null),
                if(id + ({file} + 2) % 3 < 2, st_geogfromwkb({POINT}), null),
                if({file} % 2 = id, null,
                    named_struct('v', if({file} < 3, parse_json('[true]'), null)))
            FROM range(0, 2, 1, 1)"""
        )


def main(arguments: list[str]) -> None:
    """Compare both for every table, name files, or write a table."""
    jar, asked, *what = arguments
    spark = session(jar, what[1] if what[:1] == ["write"] else "/nonexistent")
    spark.conf.set("spark.sql.iceberg.aggregate-push-down.enabled", "false")
    try:
        if what[:1] == ["write"]:
            write_odd(spark)
            return
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
