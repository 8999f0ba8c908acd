"""Statistics by Iceberg's Spark runtime: computed, read, and used by Spark's optimiser.

    spark_statistics.py JAR begin WAREHOUSE     writes tables below WAREHOUSE/db, computes their
                                                statistics, and adds rows that these do not know
    spark_statistics.py JAR read WAREHOUSE      prints a JSON line a table

The line has {"table", "distinct": by column, counted; "sketches": by column, what DataSketches
estimates from the stored bytes; "planned": by column, what the optimiser takes it for;
"partitions": the rows of the partition statistics as Iceberg reads them, "computed": the same after
Iceberg has computed them itself, from those that it began with}.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from tests.peers.spark_peer import java_table, session

COLUMNS = {
    "id": "id", "narrow": "CAST(id AS INT)", "flag": "id % 2 = 0", "price": "CAST(id / 4 AS FLOAT)",
    "amount": "id / 3.0D", "cost": "CAST(id - 700 AS DECIMAL(9, 2))",
    "large": "CAST(id AS DECIMAL(38, 10)) * 12345678901234", "day": "DATE'2020-01-01' + INT(id)",
    "at": "TIMESTAMP'2020-01-01 00:00:00' + MAKE_INTERVAL(0, 0, 0, 0, 0, 0, id)",
    "name": "IF(id % 3 = 0, NULL, CONCAT('näme ', id))",
    "octets": "ENCODE(CONCAT('b', id), 'UTF-8')", "category": "CONCAT('c', id % 3)",
}  # fmt: skip
"""A column of each type that Spark computes statistics of, made of the number of the row."""

TABLES = {"v2": 2, "v3": 3, "compacted": 3}
COUNTS = (
    "specId", "dataRecordCount", "dataFileCount", "totalDataFileSizeInBytes",
    "positionDeleteRecordCount", "positionDeleteFileCount", "equalityDeleteRecordCount",
    "equalityDeleteFileCount", "totalRecords", "lastUpdatedAt", "lastUpdatedSnapshotId", "dvCount",
)  # fmt: skip
"""What Iceberg tells of each partition, by the names of its methods."""


def rows_sql(first: int, last: int) -> str:
    """Rows of some numbers, the last one not among them."""
    columns = ", ".join(f"{made} AS {name}" for name, made in COLUMNS.items())
    return f"SELECT {columns} FROM RANGE({first}, {last}, 1, 2)"


def begin(spark: SparkSession) -> None:
    """Write the tables: statistics know rows 0 to 1,999, and rows 1,000 to 2,999 come again."""
    for name, version in TABLES.items():
        spark.sql(
            f"CREATE TABLE peer.db.{name} USING iceberg PARTITIONED BY (category, flag) "
            f"TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = "
            f"'merge-on-read') AS {rows_sql(0, 2000)}"
        )
        spark.sql(f"CALL peer.system.compute_table_stats(table => 'db.{name}')")
        spark.sql(f"CALL peer.system.compute_partition_stats(table => 'db.{name}')")
        spark.sql(f"INSERT INTO peer.db.{name} {rows_sql(1000, 3000)}")
        spark.sql(f"DELETE FROM peer.db.{name} WHERE id % 100 = 7")


def items(iterable: Any) -> Iterator[Any]:
    """What a Java iterable yields."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def sketches(spark: SparkSession, table: Any) -> dict[str, int]:
    """What DataSketches estimates from the blobs of the current snapshot, by column."""
    jvm: Any = spark._jvm
    found = {}
    for file in items(table.statisticsFiles()):
        if file.snapshotId() != snapshot_id(table):
            continue
        source = table.io().newInputFile(file.path())
        reader = jvm.org.apache.iceberg.puffin.Puffin.read(source).build()
        try:
            for pair in items(reader.readAll(reader.fileMetadata().blobs())):
                (field_id,) = items(pair.first().inputFields())
                content = bytes(jvm.org.apache.iceberg.util.ByteBuffers.toByteArray(pair.second()))
                sql = f"SELECT THETA_SKETCH_ESTIMATE(X'{content.hex()}')"
                ((estimate,),) = spark.sql(sql).collect()
                found[table.schema().findColumnName(field_id)] = estimate
        finally:
            reader.close()
    return found


def planned(spark: SparkSession, name: str) -> dict[str, int | None]:
    """How many distinct values Spark's optimiser takes each column for."""
    spark.conf.set("spark.sql.cbo.enabled", "true")
    spark.conf.set("spark.sql.iceberg.report-column-stats", "true")
    plan = spark.table(f"peer.db.{name}")._jdf.queryExecution().optimizedPlan()
    found: dict[str, int | None] = {}
    attributes = plan.stats().attributeStats()
    for place in range(plan.output().size()):
        attribute = plan.output().apply(place)
        known = attributes.get(attribute)
        count = known.get().distinctCount() if known.isDefined() else None
        found[attribute.name()] = int(count.get()) if count and count.isDefined() else None
    return found


def partitions(spark: SparkSession, table: Any) -> list[list[str]]:
    """The partition statistics of the current snapshot, as Iceberg reads them."""
    any_class = spark._jvm.java.lang.Class.forName("java.lang.Object")
    read = table.newPartitionStatisticsScan().useSnapshot(snapshot_id(table)).scan()
    try:
        return [
            [str(row.partition().get(place, any_class)) for place in range(2)]
            + [str(getattr(row, name)()) for name in COUNTS]
            for row in items(read)
        ]
    finally:
        read.close()


def snapshot_id(table: Any) -> int:
    """The current snapshot's."""
    return int(table.currentSnapshot().snapshotId())


def main(arguments: list[str]) -> None:
    """Do what the line says."""
    jar, what, warehouse = arguments
    spark = session(jar, warehouse)
    try:
        if what == "begin":
            begin(spark)
            return
        for name in TABLES:
            table = java_table(spark, f"peer.db.{name}")
            counts = ", ".join(f"COUNT(DISTINCT {column}) AS {column}" for column in COLUMNS)
            ((*found,),) = spark.sql(f"SELECT {counts} FROM peer.db.{name}").collect()
            told = {
                "table": name,
                "distinct": dict(zip(COLUMNS, found, strict=True)),
                "sketches": sketches(spark, table),
                "planned": planned(spark, name),
                "partitions": partitions(spark, table),
            }
            forget = table.updatePartitionStatistics()
            _, *later = items(table.partitionStatisticsFiles())
            for file in later:
                forget.removePartitionStatistics(file.snapshotId())
            forget.commit()
            spark.sql(f"CALL peer.system.compute_partition_stats(table => 'db.{name}')")
            table.refresh()
            print(json.dumps({**told, "computed": partitions(spark, table)}), flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
