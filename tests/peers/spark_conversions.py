"""Equality deletes of Iceberg's own Java library, which icectl converts; by the Python of Spark.

    spark_conversions.py JAR WAREHOUSE TABLE ...

A table's name says its format version. Its data files are of several schemas and specs: a column
is renamed, one promoted, a partition field comes. Equality deletes compare one or both of them,
with null and NaN among the keys, beside Spark's own deletes by position. For each table a line of
JSON is printed: the rows as Spark reads them `before` and `after` `icectl compact --deletes-only`,
with what that ended with and the equality deletes that are left. A rewrite that began before the
last equality delete came is committed at the end: its `error`, and the `last` rows.
"""

import io
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from icectl.cli import app
from icectl.env import SystemEnv
from tests.peers.spark_peer import java_table, session


def delete_keys(
    spark: SparkSession, name: str, columns: dict[str, tuple[Any, Sequence[Any]]], spec_id: int
) -> None:
    """Commit an equality delete of some columns through the Java API, in a spec without fields."""
    jvm, table = spark._jvm, java_table(spark, name)
    ids = {column: table.schema().findField(column).fieldId() for column in columns}
    count = table.snapshot(table.currentSnapshot().snapshotId()).sequenceNumber()
    path = Path(table.location().removeprefix("file:")) / "data" / f"keys-{count}.parquet"
    fields = [
        pa.field(column, kind, metadata={"PARQUET:field_id": str(ids[column])})
        for column, (kind, _) in columns.items()
    ]
    arrays = [pa.array(values, kind) for kind, values in columns.values()]
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), path)
    equality_ids = spark.sparkContext._gateway.new_array(jvm.int, len(ids))
    for at, id_ in enumerate(ids.values()):
        equality_ids[at] = id_
    delete_file = (
        jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.specs().get(spec_id))
        .ofEqualityDeletes(equality_ids)
        .withPath(str(path))
        .withFormat("PARQUET")
        .withFileSizeInBytes(path.stat().st_size)
        .withRecordCount(len(arrays[0]))
        .build()
    )
    table.newRowDelta().addDeletes(delete_file).commit()


def build(spark: SparkSession, table: str, version: str) -> None:
    """Write a table of several schemas and specs, with deletes of every kind."""
    spark.sql(
        f"""CREATE TABLE {table} (id int, ratio double, note string) USING iceberg
            TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='merge-on-read')"""
    )

    def insert(start: int, stop: int) -> None:
        spark.sql(
            f"""SELECT CAST(id AS int) AS id,
                  CASE WHEN id % 5 = 0 THEN CAST('NaN' AS double) WHEN id % 7 = 0 THEN NULL
                       WHEN id % 11 = 0 THEN -0.0D ELSE id / 4 END AS ratio,
                  CASE WHEN id % 3 = 0 THEN NULL ELSE concat('n', id % 4) END AS note
                FROM range({start}, {stop}, 1, 2)"""
        ).writeTo(table).append()

    insert(0, 40)
    delete_keys(spark, table, {"id": (pa.int32(), [3, 5, 100])}, 0)
    insert(3, 6)
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE bigint")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN ratio TO share")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
    spark.sql(f"SELECT id, share, note FROM {table} WHERE id < 12").writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id = 8")
    delete_keys(spark, table, {"share": (pa.float64(), [float("nan"), 0.0, 0.25])}, 0)
    pairs = {"id": (pa.int64(), [7, 6, 2**40]), "note": (pa.string(), ["n3", None, "n1"])}
    delete_keys(spark, table, pairs, 0)


def rows(spark: SparkSession, table: str) -> list[str]:
    """The rows as texts, in an order of their own."""
    return sorted(str(tuple(row)) for row in spark.table(table).collect())


def begin_rewrite(spark: SparkSession, name: str) -> Any:
    """A rewrite of all data files of a table as they are, each by a copy of it, to be committed."""
    jvm, table = spark._jvm, java_table(spark, name)
    start = table.currentSnapshot()
    rewrite = table.newRewrite().validateFromSnapshot(start.snapshotId())
    rewrite = rewrite.dataSequenceNumber(start.sequenceNumber())
    live = [task.file() for task in table.newScan().planFiles().iterator()]
    for file in live:
        path = Path(str(file.location()).removeprefix("file:"))
        copy = path.with_name(f"copy-{path.name}")
        copy.write_bytes(path.read_bytes())
        made = jvm.org.apache.iceberg.DataFiles.builder(table.specs().get(file.specId()))
        rewrite.deleteFile(file)
        rewrite.addFile(made.copy(file).withPath(str(copy)).build())
    return rewrite


def main(arguments: Sequence[str]) -> None:
    """Write the tables, have them converted, and commit the rewrites."""
    jar, warehouse, *names = arguments
    spark = session(jar, warehouse)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS peer.db")
    for name in names:
        table = f"peer.db.{name}"
        build(spark, table, name[1])
        spark.sql(f"SELECT 50 + id AS id, share, note FROM {table}").writeTo(table).append()
        begun = begin_rewrite(spark, table)
        delete_keys(spark, table, {"id": (pa.int64(), [1, 52, 61])}, 0)
        before, printed = rows(spark, table), io.StringIO()
        words = ["compact", f"{warehouse}/db/{name}", "--deletes-only", "--json", "--yes"]
        with redirect_stdout(printed):
            code = app.main([*words, "--engine", "local"], env=SystemEnv())
        after = rows(spark, table)
        kinds = spark.sql(f"SELECT content FROM {table}.delete_files").collect()
        error = ""
        try:
            begun.commit()
        except Py4JJavaError as failed:
            error = str(failed.java_exception.getMessage())
        told = {
            "table": name, "code": code, "result": json.loads(printed.getvalue())["result"],
            "before": before, "after": after,
            "equality_deletes": sum(row[0] == 2 for row in kinds), "error": error,
            "last": rows(spark, table),
        }  # fmt: skip
        print(json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
