"""Spark and Iceberg's own runtime rewriting files, one request after the other in one session.

Runs in an environment of its own (tests/run.sh makes it), never imports icectl:

    spark_rewrites.py JAR WAREHOUSE      answers each line on stdin with a line on stdout

A request is {"do": "coalesce", "files": [...], "count": N, "to": DIRECTORY}, Spark's own read,
coalesce and write, or {"do": "rewrite", "table": NAME, "options": {...}}, `rewrite_data_files` of a
table below WAREHOUSE/db. The answer is {"seconds"}.
"""

import json
import os
import sys
import time
from typing import Any

from pyspark.sql import SparkSession


def session(jar: str, warehouse: str) -> SparkSession:
    """One local session with a Hadoop catalog `peer` over the warehouse, on all cores."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.jars": jar,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.peer": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.peer.type": "hadoop",
        "spark.sql.catalog.peer.warehouse": warehouse,
        "spark.sql.catalog.peer.cache-enabled": "false",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.files.maxPartitionBytes": "64MB",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[*]").appName("icectl-peer")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def answer(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Do what is asked for, timed."""
    start = time.perf_counter()
    if request["do"] == "coalesce":
        frame = spark.read.parquet(*request["files"]).coalesce(request["count"])
        frame.write.parquet(request["to"])
    else:
        options = ", ".join(f"'{key}', '{value}'" for key, value in request["options"].items())
        call = f"peer.system.rewrite_data_files(table => 'db.{request['table']}', options => map("
        spark.sql(f"CALL {call}{options}))").collect()
    return {"seconds": time.perf_counter() - start}


def main(jar: str, warehouse: str) -> None:
    """Answer until stdin ends."""
    spark = session(jar, warehouse)
    for line in sys.stdin:
        print(json.dumps(answer(spark, json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
