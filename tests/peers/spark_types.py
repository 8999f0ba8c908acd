"""Variants and shapes in tables of Iceberg's Spark runtime, before icectl compacts them and after.

    spark_types.py JAR WAREHOUSE

Writes the tables below WAREHOUSE/db, compacts each in a way of its own, all beside one session of
Spark. For each it prints a line of JSON: its name, its rows before and after with their ids, and
the exit code of each run of icectl.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import VariantVal

from icectl.cli import app
from icectl.spark import CompactOptions, compact
from tests.peers.spark_peer import session

POINT = "unhex(concat('0101000000', '000000000000F03F', '0000000000000040'))"
NUMBERS = """parse_json(concat('{"a": ', id, ', "b": "x', id, '", "c": 1.5e0}'))"""
TEXTS = """parse_json(concat('{"a": "t', id, '", "d": [1, null, true, {"e": 2.50}]}'))"""
TYPED = """to_variant_object(named_struct('n', id, 'd', date '1969-12-31' + cast(id AS int),
    't', timestamp '2024-05-06 07:08:09.000001', 'w', timestamp_ntz '1969-12-31 23:59:59.9',
    'f', cast(0.1 AS float), 'm', cast(10 + id * 1.25 AS decimal(30, 2)), 'o', unhex('00FF')))"""
REWRITE = ("compact", "--engine", "local", "--rewrite-all")
MERGE = ("compact", "--engine", "local", "--method", "merge", "--min-delete-ratio", "90%",
         "--min-input-files", "2")  # fmt: skip
UPGRADE = ("upgrade-to-v4", "--layout", "iceberg-1.12")
TABLES: dict[str, tuple[bool, tuple[str, str], tuple[tuple[str, ...], ...]]] = {
    "alike": (True, (TYPED, TYPED), (REWRITE,)),
    "apart": (True, (NUMBERS, TEXTS), (REWRITE,)),
    "on_spark": (True, (NUMBERS, TEXTS), ()),
    "merged": (True, (TYPED, TYPED), (MERGE,)),
    "fourth": (False, (NUMBERS, TYPED), (UPGRADE, REWRITE)),
}
"""Whether variants are shredded, the variants of both files, and the runs; none is one on Spark."""
SHOWN = (
    "id", "v", "schema_of_variant(v)", "s.v", "s.n", "hex(st_asbinary(g))", "hex(st_asbinary(e))",
    "_row_id",
)  # fmt: skip


def write(spark: SparkSession, name: str) -> None:
    """Write two files of eight rows, of which three are deleted then."""
    is_shredded, variants, _ = TABLES[name]
    # The vectorized reader of Iceberg 1.12 fails on shredded variants.
    spark.sql(
        f"""CREATE TABLE peer4.db.{name} (
            id bigint, v variant, s struct<v: variant, n: int>, g geometry(4326), e geography(4326)
        ) USING iceberg TBLPROPERTIES (
            'format-version'='3', 'write.delete.mode'='merge-on-read',
            'write.parquet.shred-variants'='{is_shredded}',
            'read.parquet.vectorization.enabled'='{not is_shredded}')"""
    )
    for start, variant in zip((0, 8), variants, strict=True):
        spark.sql(
            f"""INSERT INTO peer4.db.{name} SELECT
                id, if(id % 4 = 3, null, {variant}),
                if(id % 8 = 5, null, named_struct('v', {variant}, 'n', cast(id AS int))),
                if(id % 5 = 0, null, st_setsrid(st_geomfromwkb({POINT}), 4326)),
                if(id % 5 = 1, null, st_geogfromwkb({POINT}))
            FROM range({start}, {start + 8}, 1, 1)"""
        )
    spark.sql(f"DELETE FROM peer4.db.{name} WHERE id % 6 = 2")


def rows(spark: SparkSession, name: str) -> list[list[str]]:
    """Return the rows as text, variants by what they hold."""
    frame = spark.sql(f"SELECT {', '.join(SHOWN)} FROM peer4.db.{name} ORDER BY id")
    return [[told(value) for value in row] for row in frame.collect()]


def told(value: Any) -> str:
    """Return a value as text."""
    return repr(value.toPython() if isinstance(value, VariantVal) else value)


def maintain(spark: SparkSession, name: str, table: Path) -> list[int]:
    """Return the exit code of each run of icectl; what they say goes to stderr."""
    _, _, runs = TABLES[name]
    if not runs:
        compact(spark, str(table), CompactOptions(rewrite_all=True))
    with redirect_stdout(sys.stderr):
        return [app.main([command, str(table), *words, "--yes"]) for command, *words in runs]


def main(arguments: Sequence[str]) -> None:
    """Write, read, compact and read each table."""
    jar, warehouse = arguments
    spark = session(jar, warehouse)
    spark.conf.set("spark.sql.geospatial.enabled", "true")  # shapes are an option of Spark 4.1
    spark.sql("CREATE NAMESPACE peer4.db")
    for name in TABLES:
        write(spark, name)
        before = rows(spark, name)
        ended = maintain(spark, name, Path(warehouse, "db", name))
        after = rows(spark, name)
        told = {"table": name, "before": before, "ended": ended, "after": after}
        print(json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
