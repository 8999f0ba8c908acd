"""Spark reads a table and leaves what engines leave of it: event logs, and Iceberg's scan reports.

spark_queries.py JAR begin WAREHOUSE LOGS     writes WAREHOUSE/db/orders, reads it, and leaves
                                              an event log and reports.jsonl below LOGS
spark_queries.py JAR again WAREHOUSE          prints the files that each of READS opens, as JSON
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.peers.spark_peer import java_table, session
from tests.peers.spark_statistics import items

TABLE = "peer.db.orders"
FILES, ROWS = 24, 4_000
READS = (
    *(f"id = {number}" for number in (17_000_003, 400_000_019, 999_000_001)),
    "name = 'n000000777' AND at >= TIMESTAMP'2026-01-05 00:00:00'",
    "id IN (1, 2, 3) AND id IS NOT NULL", "name LIKE 'n00012%'", "id = 5 OR name = 'secret'",
    "upper(name) = 'N7'", "NOT (id = 3)", "place.zip = 8", "days > 20",
)  # fmt: skip
"""Conditions, by hand: three of `id` alone, and one each of what else there is."""


def build(spark: SparkSession) -> None:
    """Write files that all have values between nearly the same bounds."""
    spark.sql(
        f"""CREATE TABLE {TABLE} (id bigint, name string, at timestamp, days int,
            place struct<zip: int>, payload string) USING iceberg
            TBLPROPERTIES ('write.target-file-size-bytes'='1048576',
            'write.parquet.row-group-size-bytes'='131072')"""
    )
    spark.sql(
        f"""INSERT INTO {TABLE} SELECT pmod(xxhash64(id), 1000000000),
            format_string('n%09d', pmod(xxhash64(id, 1), 1000000000)),
            TIMESTAMP'2026-01-01 00:00:00' + make_dt_interval(pmod(xxhash64(id, 2), 31)),
            cast(pmod(xxhash64(id, 3), 31) as int),
            named_struct('zip', cast(pmod(xxhash64(id, 4), 1000) as int)),
            concat_ws('', transform(sequence(1, 8), n -> hex(xxhash64(id, n))))
            FROM RANGE(0, {FILES * ROWS}, 1, {FILES})"""
    )


def read_with_log(spark: SparkSession, folder: Path) -> None:
    """Read the table as each of READS asks, with a log of Spark's own below a folder."""
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc.sc()
    conf = context.getConf().set("spark.eventLog.dir", folder.as_uri())
    place, hadoop = jvm.java.net.URI(folder.as_uri()), context.hadoopConfiguration()
    logging = jvm.org.apache.spark.scheduler.EventLoggingListener
    listener = logging("app-1", jvm.scala.Option.empty(), place, conf, hadoop)
    listener.start()
    context.addSparkListener(listener)
    for condition in READS:
        spark.sql(f"SELECT count(*), max(payload) FROM {TABLE} WHERE {condition}").collect()
    spark.sql("SELECT max(id) FROM peer.db.others WHERE id = 4").collect()
    context.listenerBus().waitUntilEmpty(60_000)
    context.removeSparkListener(listener)
    listener.stop()


def report(spark: SparkSession, expression: Any) -> str:
    """The scan report that Iceberg's own parser makes of one scan."""
    jvm: Any = spark._jvm
    reporter = jvm.org.apache.iceberg.metrics.InMemoryMetricsReporter()
    scan = java_table(spark, TABLE).newScan().filter(expression).metricsReporter(reporter)
    planned = scan.planFiles()
    list(items(planned))
    planned.close()  # reports
    return str(jvm.org.apache.iceberg.metrics.ScanReportParser.toJson(reporter.scanReport()))


def reports(spark: SparkSession) -> list[str]:
    """Scan reports of five filters, by hand: id, id, at, none of one column, none."""
    of: Any = spark._jvm.org.apache.iceberg.expressions.Expressions  # type: ignore[union-attr]
    return [
        report(spark, one)
        for one in (
            of.equal("id", 17_000_003),
            getattr(of, "and")(of.notNull("id"), of.equal("id", 5)),
            of.greaterThan("days", 20),
            getattr(of, "or")(of.equal("id", 5), of.equal("name", "secret")),
            of.alwaysTrue(),
        )
    ]


def main(arguments: list[str]) -> None:
    """Do what the module says."""
    jar, what, warehouse, *logs = arguments
    spark = session(jar, warehouse)
    try:
        if what == "begin":
            folder = Path(logs[0])
            build(spark)
            spark.sql("CREATE TABLE peer.db.others (id bigint) USING iceberg")
            spark.sql("INSERT INTO peer.db.others VALUES (4)")
            read_with_log(spark, folder)
            (folder / "reports.jsonl").write_text("\n".join(reports(spark)) + "\n")
            return
        of: Any = spark._jvm.org.apache.iceberg.expressions.Expressions  # type: ignore[union-attr]
        opened = []
        for row in spark.sql(f"SELECT id FROM {TABLE} ORDER BY payload LIMIT 40").collect():
            told = json.loads(report(spark, of.equal("id", row["id"])))
            opened.append(told["metrics"]["result-data-files"]["value"])
        print(json.dumps(opened))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
