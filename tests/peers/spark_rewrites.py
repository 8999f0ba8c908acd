"""Spark and Iceberg's own runtime rewriting files, one request after the other in one session.

Runs in an environment of its own (tests/run.sh makes it), never imports icectl:

    spark_rewrites.py JAR WAREHOUSE [JARS ENDPOINT KEY SECRET]

It answers each line on stdin with a line on stdout. A request is {"do": "coalesce", "files": [...],
"count": N, "to": DIRECTORY}, Spark's own read, coalesce and write, {"do": "read", "table": NAME},
all rows of a table below WAREHOUSE/db, {"do": "statistics", "table": NAME}, `compute_table_stats`
of one, {"do": "sql", "sql": STATEMENT}, or {"do": "rewrite", "table": NAME, "options": {...}},
`rewrite_data_files` of one. With "metadata", the
location of its metadata file on S3, the table is one of there, which Iceberg's bundle for AWS
reaches at ENDPOINT, with a catalog in SQLite: JARS are both, as in a class path. The answer is
{"seconds"}, or {"error"} of a statement.
"""

import json
import os
import sys
import time
from typing import Any

from pyspark.sql import SparkSession


def on_s3(jars: str, warehouse: str, endpoint: str, key: str, secret: str) -> dict[str, str]:
    """Settings of a catalog `s3` whose tables are registered in it, and lie on a server of S3."""
    return {
        "spark.driver.extraClassPath": jars,  # where drivers of JDBC are looked for
        "spark.sql.catalog.s3": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.s3.type": "jdbc",
        "spark.sql.catalog.s3.uri": f"jdbc:sqlite:{warehouse}/catalog.db",
        "spark.sql.catalog.s3.warehouse": "s3://bench",
        "spark.sql.catalog.s3.cache-enabled": "false",
        "spark.sql.catalog.s3.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "spark.sql.catalog.s3.s3.endpoint": endpoint,
        "spark.sql.catalog.s3.s3.path-style-access": "true",
        "spark.sql.catalog.s3.s3.access-key-id": key,
        "spark.sql.catalog.s3.s3.secret-access-key": secret,
        "spark.sql.catalog.s3.client.region": "us-east-1",
    }


def session(jar: str, warehouse: str, *s3: str) -> SparkSession:
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
    if s3:
        jars, *access = s3
        settings |= on_s3(f"{jar}:{jars}", warehouse, *access)
    builder = SparkSession.builder.master("local[*]").appName("icectl-peer")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def answer(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Do what is asked for, timed."""
    catalog, table = "peer", f"db.{request.get('table')}"
    if "metadata" in request:
        catalog = "s3"
        spark.sql("CREATE NAMESPACE IF NOT EXISTS s3.db")
        at = request["metadata"]
        call = f"CALL s3.system.register_table(table => '{table}', metadata_file => '{at}')"
        spark.sql(call).collect()
    start = time.perf_counter()
    if request["do"] == "coalesce":
        frame = spark.read.parquet(*request["files"]).coalesce(request["count"])
        frame.write.parquet(request["to"])
    elif request["do"] == "read":
        spark.table(f"{catalog}.{table}").write.format("noop").mode("overwrite").save()
    elif request["do"] == "sql":
        try:
            spark.sql(request["sql"]).collect()
        except Exception as error:  # noqa: BLE001 - beside other writers a commit may be refused
            return {"error": str(error)}
    elif request["do"] == "statistics":
        spark.sql(f"CALL {catalog}.system.compute_table_stats(table => '{table}')").collect()
    else:
        options = ", ".join(f"'{key}', '{value}'" for key, value in request["options"].items())
        call = f"{catalog}.system.rewrite_data_files(table => '{table}', options => map("
        spark.sql(f"CALL {call}{options}))").collect()
    seconds = time.perf_counter() - start
    if catalog == "s3":
        spark.sql(f"DROP TABLE s3.{table}")  # its files stay
    return {"seconds": seconds}


def main(jar: str, warehouse: str, *s3: str) -> None:
    """Answer until stdin ends."""
    spark = session(jar, warehouse, *s3)
    for line in sys.stdin:
        print(json.dumps(answer(spark, json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
