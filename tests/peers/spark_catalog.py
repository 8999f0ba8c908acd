"""Iceberg's own client of a catalog as another writer: it appends to a table, and reads it back.

Runs in the environment of the Spark peer, never imports icectl:

    spark_catalog.py JAR TYPE URI NAMESPACE.TABLE LOCATION READY

It makes the table, writes the file READY, appends until ids 0 to 24 are there, and prints all ids
as JSON.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession


def main(jar: str, kind: str, uri: str, name: str, location: str, ready: str) -> None:
    """Make the table, append, read."""
    settings = {
        "spark.jars": jar,
        "spark.sql.catalog.own": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.own.type": kind,
        "spark.sql.catalog.own.uri": uri,
        "spark.sql.catalog.own.warehouse": location,
        "spark.sql.catalog.own.cache-enabled": "false",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[1]").appName("icectl-catalog")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    table = f"own.{name}"
    spark.sql(f"CREATE TABLE {table} (id bigint) USING iceberg LOCATION '{location}'")
    for number in range(25):
        spark.sql(f"INSERT INTO {table} VALUES ({number})")
        if number == 4:
            Path(ready).touch()
        time.sleep(0.3)
    ids = [row.id for row in spark.sql(f"SELECT id FROM {table} ORDER BY id").collect()]
    print(json.dumps(ids))


if __name__ == "__main__":
    main(*sys.argv[1:])
