"""Spark with Iceberg's own JdbcCatalog on a SQLite file, one statement a line.

Runs in the environment of the Spark peer, never imports icectl:

    jdbc_peer.py JARS DATABASE WAREHOUSE NAME

JARS are Iceberg's Spark runtime and SQLite's JDBC driver, separated by a comma; the catalog is
called NAME. Each line on stdin is a JSON text, a statement; its rows are printed as one JSON line.
"""

import json
import os
import sys

from pyspark.sql import SparkSession


def main(jars: str, database: str, warehouse: str, name: str) -> None:
    """Answer statements until stdin ends."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    catalog = f"spark.sql.catalog.{name}"
    settings = {
        "spark.jars": jars,
        "spark.driver.extraClassPath": jars.replace(",", ":"),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        f"{catalog}.uri": f"jdbc:sqlite:{database}",
        f"{catalog}.warehouse": warehouse,
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.cache-enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]").appName("icectl-jdbc-peer")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        rows = [list(row) for row in spark.sql(json.loads(line)).collect()]
        sys.stdout.write("rows " + json.dumps(rows, default=str) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
