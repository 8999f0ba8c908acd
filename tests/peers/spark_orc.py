"""ORC and Avro tables by Iceberg's Spark runtime: instants around 1970, and structs that are null.

spark_orc.py JAR write WAREHOUSE    writes the tables below WAREHOUSE/db, then prints their rows
spark_orc.py JAR read WAREHOUSE     prints one JSON line a table: its name, and its rows

Rows are [id, microseconds] of the tables of instants, and [id, JSON] of the others.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from tests.peers.spark_peer import session

MICROS = (
    0, 1, -1, 500_000, -500_000, 999_999, -999_999, -999, -1000, -999_000, -999_001, -999_500,
    -1_000_000, -1_000_001, -1_999_999, -2_500_000, -4_999_500, 1_420_070_400_000_000,
    1_420_070_399_500_000, -31_536_000_000_001, -31_535_999_500_000, -2_208_988_799_750_000,
)  # fmt: skip
"""Around the epoch, 2015 (where ORC counts from), 1969 and 1900."""

INSTANTS = {
    "plain": ("timestamp", ""),
    "plain_ntz": ("timestamp_ntz", ""),
    "identity": ("timestamp", "PARTITIONED BY (at)"),
    "identity_ntz": ("timestamp_ntz", "PARTITIONED BY (at)"),
    "year": ("timestamp", "PARTITIONED BY (years(at))"),
    "hour": ("timestamp_ntz", "PARTITIONED BY (hours(at))"),
    "bucket": ("timestamp", "PARTITIONED BY (bucket(4, at))"),
    "deleted": ("timestamp", "PARTITIONED BY (at)"),
}
STRUCT = "struct<r: bigint NOT NULL, o: string>"
COLUMNS = (
    f"id int, a {STRUCT}, b array<{STRUCT}>, c map<string, {STRUCT}>, "
    f"d struct<m: {STRUCT} NOT NULL, t: string NOT NULL>, e struct<i: {STRUCT}>"
)
STRUCTS = {f"structs_{file_format}": (COLUMNS, file_format) for file_format in ("orc", "avro")}
ONE = "named_struct('r', 1L, 'o', CAST(NULL AS string))"
FULL = (
    f"1, {ONE}, array({ONE}, NULL), map('k', {ONE}, 'n', NULL), "
    f"named_struct('m', {ONE}, 't', 'x'), named_struct('i', {ONE})"
)
ROWS = (
    FULL,
    "2, NULL, NULL, NULL, NULL, NULL",
    "3, NULL, array(), map(), NULL, named_struct('i', NULL)",
)


def write(spark: SparkSession) -> None:
    """Write all tables, each by two appends."""
    spark.sql("CREATE NAMESPACE peer.db")
    for name, (kind, partitioning) in INSTANTS.items():
        create(spark, name, f"id int, at {kind}", partitioning, "orc")
        for half in (0, 1):
            chosen = list(enumerate(MICROS))[half::2]
            values = ", ".join(f"({id_}, {micros})" for id_, micros in chosen)
            spark.sql(
                f"INSERT INTO peer.db.{name} SELECT id, CAST(timestamp_micros(m) AS {kind}) "
                f"FROM VALUES {values} AS t(id, m)"
            )
    for name, (columns, file_format) in STRUCTS.items():
        create(spark, name, columns, "", file_format)
        for row in ROWS:
            spark.sql(f"INSERT INTO peer.db.{name} SELECT {row}")
    delete_by_value(spark, "deleted", (-1, -500_000, 500_000, -2_500_000))
    for name in (*INSTANTS, *STRUCTS):
        # icectl writes Parquet, and refuses tables that ask for something else.
        spark.sql(
            f"ALTER TABLE peer.db.{name} SET TBLPROPERTIES ('write.format.default'='parquet')"
        )


def create(
    spark: SparkSession, name: str, columns: str, partitioning: str, file_format: str
) -> None:
    """Create an empty table of version 2."""
    spark.sql(
        f"CREATE TABLE peer.db.{name} ({columns}) USING iceberg {partitioning} "
        f"TBLPROPERTIES ('format-version'='2', 'write.format.default'='{file_format}')"
    )


def delete_by_value(spark: SparkSession, name: str, instants: tuple[int, ...]) -> None:
    """Add an equality delete of each instant, in a file of Parquet in its partition."""
    jvm: Any = spark._jvm
    iceberg = jvm.org.apache.iceberg
    where = spark.conf.get("spark.sql.catalog.peer.warehouse")
    table = iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration()).load(f"{where}/db/{name}")
    ids = spark.sparkContext._gateway.new_array(jvm.int, 1)
    ids[0] = 2
    names = jvm.java.util.ArrayList()
    names.add("at")
    compared = table.schema().select(names)
    builder = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(table)
    writers = (
        builder.deleteFileFormat(iceberg.FileFormat.PARQUET)
        .equalityFieldIds(ids)
        .equalityDeleteRowSchema(compared)
        .build()
    )
    utc = jvm.java.time.ZoneOffset.UTC
    partitions = {}
    files = table.newScan().planFiles().iterator()
    while files.hasNext():
        # A Long that comes from here would be an Integer there: partitions are those of files.
        found = files.next().file().partition().copy()
        partitions[found.get(0)] = found
    for micros in instants:
        file = table.io().newOutputFile(f"{where}/db/{name}/data/delete{micros}.parquet")
        encrypted = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(file)
        writer = writers.newEqualityDeleteWriter(encrypted, table.spec(), partitions[micros])
        record = iceberg.data.GenericRecord.create(compared)
        second, left = divmod(micros, 1_000_000)
        instant = jvm.java.time.Instant.ofEpochSecond(second, left * 1000)
        record.setField("at", instant.atOffset(utc))
        writer.write(record)
        writer.close()
        table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def read(spark: SparkSession) -> None:
    """Print the rows of every table."""
    for name in INSTANTS:
        shown = "unix_micros(CAST(at AS timestamp))"
        rows = spark.sql(f"SELECT id, {shown} FROM peer.db.{name} ORDER BY id").collect()
        print(json.dumps({"table": name, "rows": [list(row) for row in rows]}), flush=True)
    for name in STRUCTS:
        rows = spark.sql(f"SELECT * FROM peer.db.{name} ORDER BY id").collect()
        found = [[row.id, json.dumps(row.asDict(recursive=True), sort_keys=True)] for row in rows]
        print(json.dumps({"table": name, "rows": found}), flush=True)


def main(arguments: list[str]) -> None:
    """Dispatch on the second argument."""
    jar, verb, warehouse = arguments
    spark = session(jar, warehouse)
    try:
        if verb == "write":
            write(spark)
        read(spark)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
