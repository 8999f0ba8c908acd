"""Point look-ups by Iceberg's Spark runtime, in tables that it or icectl has rewritten.

    spark_lookups.py JAR begin WAREHOUSE ROWS PROPERTIES    writes db.theirs and db.ours, and
                                                            rewrites db.theirs, sorted by `id`
    spark_lookups.py JAR look WAREHOUSE CONDITIONS          a JSON line a table and condition

PROPERTIES and CONDITIONS are JSON. A line has {"table", "condition", "rows", "scanned" rows,
"bytes" that the JVM has read of all files, "cpu_ns"}.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.peers.spark_peer import session

FILES = 16
ROUNDS = 5
"""Each look-up is repeated; the least counts."""


def begin(spark: SparkSession, row_count: int, properties: dict[str, str]) -> None:
    """Write the same files to both tables, in no order of their keys."""
    stated = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    for name in ("theirs", "ours"):
        spark.sql(
            "CREATE TABLE peer.db." + name + " (id bigint, key string, user int, amount double, "
            f"at timestamp, city string, note string) USING iceberg TBLPROPERTIES ({stated})"
        )
        spark.sql(
            f"""SELECT id * 7919 % {row_count} AS id, md5(CAST(id AS string)) AS key,
                  pmod(hash(id, 1), 50000) AS user,
                  CAST(pmod(hash(id, 2), 99991) AS double) / 100 AS amount,
                  CAST(1700000000 + pmod(hash(id, 3), 8640000) AS timestamp) AS at,
                  concat('city-', pmod(hash(id, 4), 5000)) AS city,
                  concat('note ', pmod(hash(id, 5), 1000003)) AS note
                FROM range(0, {row_count}, 1, {FILES})"""
        ).writeTo(f"peer.db.{name}").append()
    spark.sql(
        "CALL peer.system.rewrite_data_files(table => 'db.theirs', strategy => 'sort', "
        "sort_order => 'id', options => map('rewrite-all', 'true'))"
    )


def look(spark: SparkSession, name: str, condition: str) -> dict[str, Any]:
    """Look rows up; what the tasks of the scan have told."""
    table = spark.read.format("iceberg").load(f"peer.db.{name}")
    told = []
    for _ in range(ROUNDS):
        read_before = read_bytes(spark)
        before = {stage.stageId() for stage in stages(spark)}
        rows = len(table.where(condition).collect())
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        new = [stage for stage in stages(spark) if stage.stageId() not in before]
        told.append({
            "table": name, "condition": condition, "rows": rows,
            "scanned": sum(stage.inputRecords() for stage in new),
            "bytes": read_bytes(spark) - read_before,
            "cpu_ns": sum(stage.executorCpuTime() for stage in new),
        })  # fmt: skip
    return {**told[0], **{key: min(one[key] for one in told) for key in ("bytes", "cpu_ns")}}


def read_bytes(spark: SparkSession) -> int:
    """How many bytes the JVM has read of any file: Spark leaves out some reads of data files."""
    assert spark._jvm is not None
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    (line,) = Path(f"/proc/{pid}/io").read_text().splitlines()[:1]
    return int(line.split()[1])


def stages(spark: SparkSession) -> list[Any]:
    """What Spark tells of the stages of all jobs."""
    context, gateway = spark.sparkContext._jsc.sc(), spark.sparkContext._gateway
    assert gateway is not None
    quantiles = gateway.new_array(gateway.jvm.double, 0)
    nothing = gateway.jvm.java.util.ArrayList()
    found = context.statusStore().stageList(nothing, False, False, quantiles, nothing)
    return [found.apply(at) for at in range(found.size())]


def main(arguments: list[str]) -> None:
    """Do what the line says."""
    jar, what, warehouse, *given = arguments
    spark = session(jar, warehouse, is_timed=True)
    try:
        if what == "begin":
            begin(spark, int(given[0]), json.loads(given[1]))
            return
        for condition in json.loads(given[0]):
            for name in ("theirs", "ours"):
                print(json.dumps(look(spark, name, condition)), flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
