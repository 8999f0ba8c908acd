"""Iceberg's own Spark runtime as a peer: writes tables, and reads tables back.

Runs in an environment of its own (tests/run.sh makes it), never imports icectl:

    spark_peer.py JAR write WAREHOUSE NAME...    writes tables below WAREHOUSE/db, and those that
                                                 are rewritten beside deletes below WAREHOUSE/race
    spark_peer.py JAR read TABLE_DIRECTORY...    prints one JSON line a table and snapshot
    spark_peer.py JAR age WAREHOUSE              writes tables with old snapshots below WAREHOUSE/db
    spark_peer.py JAR expire WAREHOUSE           runs `expire_snapshots` on each of those
    spark_peer.py JAR time-expiry WAREHOUSE TABLE OLDER_THAN
                                                 runs it on one table of WAREHOUSE/db
    spark_peer.py JAR begin WAREHOUSE NAME...    writes tables of FOLLOWED, and one to be kept away
                                                 from, below WAREHOUSE/follow
    spark_peer.py JAR follow WAREHOUSE NAME...   appends, deletes, compacts there
    spark_peer.py JAR orphans WAREHOUSE          asks `remove_orphan_files` what it would remove

`write` prints {"raced"}, the ids of rows after a rewrite of its own beside deletes. `age` prints
{"table", "older_than", "retain_last"}, what `expire` will be told (null: the table decides);
`expire` prints {"table", "snapshots", "refs"}, what is left; `time-expiry` prints {"seconds",
"deleted"}, of the procedure alone and what it says that it deleted. `follow` prints {"table",
"step", "rows", "deletes"} after each step: [id, note] of every row, and how many rows the delete
files of each format name; {"told"}, what it says of a table that it must not read. `orphans`
prints {"table", "orphans"} for every table below WAREHOUSE/db.
`read` prints {"table", "versionAsOf", "rows", "sha256"} for every ref and snapshot: a checksum over
the rows as Spark shows them, in an order of their own.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

UNCOMPILED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""Compiling a query takes longer than a table of some rows."""


def session(jar: str, warehouse: str, *, is_timed: bool = False) -> SparkSession:
    """One local session with a Hadoop catalog `peer` over the warehouse.

    Where it `is_timed` it is as fast with large tables as Spark can be.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.jars": jar,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.peer": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.peer.type": "hadoop",
        "spark.sql.catalog.peer.warehouse": warehouse,
        "spark.sql.catalog.peer.cache-enabled": "false",
        # Locations of version 4 have a scheme.
        "spark.sql.catalog.peer4": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.peer4.type": "hadoop",
        "spark.sql.catalog.peer4.warehouse": f"file://{warehouse}",
        "spark.sql.catalog.peer4.cache-enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.ansi.enabled": "false",
        **({} if is_timed else UNCOMPILED),
    }
    builder = SparkSession.builder.master("local[2]").appName("icectl-peer")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


COLUMNS = "id bigint, category string, amount decimal(9,2), at timestamp, note string"


def insert(spark: SparkSession, table: str, start: int, count: int, files: int = 2) -> None:
    """Append `count` rows with ids from `start`, in `files` files an unpartitioned table."""
    spark.sql(
        f"""SELECT id, concat('c', id % 3) AS category,
              CAST(id * 1.25 AS decimal(9,2)) AS amount,
              CAST(1700000000 + id * 86400 AS timestamp) AS at,
              CASE WHEN id % 7 = 0 THEN NULL ELSE concat('note ', id) END AS note
            FROM range({start}, {start + count}, 1, {files})"""
    ).writeTo(table).append()


def catalog_of(name: str) -> str:
    """The catalog of a table by its name: one for version 4, whose locations have a scheme."""
    return "peer4" if name.startswith("v4") or name == "v2_to_v4" else "peer"


def create(
    spark: SparkSession,
    name: str,
    version: int,
    *,
    namespace: str = "db",
    spec: str = "",
    mor: bool = True,
    properties: str = "",
) -> str:
    """An empty table of one format version; merge-on-read or copy-on-write."""
    table = f"{catalog_of(name)}.{namespace}.{name}"
    mode = "merge-on-read" if mor else "copy-on-write"
    extra = f", {properties}" if properties else ""
    spark.sql(
        f"""CREATE TABLE {table} ({COLUMNS}) USING iceberg {spec}
            TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='{mode}',
              'write.update.mode'='{mode}', 'write.merge.mode'='{mode}'{extra})"""
    )
    return table


def history(spark: SparkSession, table: str, *, deletes: bool) -> None:
    """Appends, row changes and a rewrite: what an ordinary table goes through."""
    insert(spark, table, 0, 40)
    insert(spark, table, 40, 20)
    if deletes:
        spark.sql(f"DELETE FROM {table} WHERE id % 10 = 3")
        spark.sql(f"UPDATE {table} SET note = 'changed' WHERE id BETWEEN 20 AND 24")
    insert(spark, table, 60, 10)


def refs(spark: SparkSession, table: str) -> None:
    """A tag in the past, a branch that went its own way."""
    first = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").first()[0]
    spark.sql(f"ALTER TABLE {table} CREATE TAG first AS OF VERSION {first}")
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH audit")
    insert(spark, f"{table}.branch_audit", 500, 5)


def evolve(spark: SparkSession, table: str) -> None:
    """New, renamed, promoted and dropped columns; a second partition spec; a sort order."""
    spark.sql(f"ALTER TABLE {table} ADD COLUMN extra struct<a: int, tags: array<string>>")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN note TO remark")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN amount TYPE decimal(18,2)")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(4, id)")
    spark.sql(f"ALTER TABLE {table} WRITE ORDERED BY category, id DESC NULLS LAST")
    spark.sql(
        """SELECT id, concat('c', id % 3) AS category, CAST(id AS decimal(18,2)) AS amount,
              CAST(1700000000 + id * 3600 AS timestamp) AS at, 'late' AS remark,
              named_struct('a', CAST(id AS int), 'tags', array('x', NULL)) AS extra
            FROM range(100, 120, 1, 2)"""
    ).writeTo(table).append()


def java_table(spark: SparkSession, name: str) -> Any:
    """A table as the Java API has it."""
    loader = spark._jvm.org.apache.iceberg.spark.Spark3Util
    return loader.loadIcebergTable(spark._jsparkSession, name)


def equality_delete(spark: SparkSession, name: str, ids: list[int]) -> None:
    """Commit an equality delete on `id` through the Java API, as Flink would."""
    jvm = spark._jvm
    table = java_table(spark, name)
    field_id = table.schema().findField("id").fieldId()
    path = Path(table.location().removeprefix("file:")) / "data" / f"equality-{ids[0]}.parquet"
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": str(field_id)})
    pq.write_table(pa.table({"id": ids}, schema=pa.schema([field])), path)
    equality_ids = spark.sparkContext._gateway.new_array(jvm.int, 1)
    equality_ids[0] = field_id
    delete_file = (
        jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec())
        .ofEqualityDeletes(equality_ids)
        .withPath(str(path))
        .withFormat("PARQUET")
        .withFileSizeInBytes(path.stat().st_size)
        .withRecordCount(len(ids))
        .build()
    )
    table.newRowDelta().addDeletes(delete_file).commit()


def fixed_and_decimal(spark: SparkSession, table: str, version: int) -> None:
    """Partitions by a fixed and by a decimal of 38 digits, in files of every format; a column goes,
    one gets another name, the spec gets another field, a row is deleted.

    Spark has no type fixed: the metadata file of the empty table gets it.
    """
    spark.sql(
        f"""CREATE TABLE {table} (id bigint, code binary, amount decimal(38,10), gone string,
              note string)
            USING iceberg PARTITIONED BY (code, amount)
            TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='merge-on-read')"""
    )
    folder = Path(java_table(spark, table).location().removeprefix("file:")) / "metadata"
    (metadata,) = folder.glob("*.metadata.json")
    metadata.write_text(metadata.read_text().replace('"binary"', '"fixed[7]"'))
    metadata.with_name(f".{metadata.name}.crc").unlink()
    columns = "'x' AS gone, 'first' AS note"
    for number, form in enumerate(("avro", "orc", "parquet")):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.format.default'='{form}')")
        spark.sql(
            f"""SELECT id, CAST(concat('code ', 10 + id % 3) AS binary) AS code,
                  CAST(CASE WHEN id % 2 = 0 THEN '9999999999999999999999999999.9999999999'
                            ELSE '-0.0000000128' END AS decimal(38,10)) AS amount, {columns}
                FROM range({20 * number}, {20 * number + 12}, 1, 1)"""
        ).writeTo(table).append()
        if number == 0:
            spark.sql(f"ALTER TABLE {table} DROP COLUMN gone")
            spark.sql(f"ALTER TABLE {table} RENAME COLUMN note TO remark")
            columns = "'later' AS remark"
    spark.sql(f"DELETE FROM {table} WHERE id = 40")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")


def write_table(spark: SparkSession, name: str) -> None:
    """A table of a version and of a kind: row-level operations, refs, evolved specs."""
    version, kind = int(name[1]), name[3:]
    if kind in ("plain", "copy_on_write"):
        history(spark, create(spark, name, version, mor=False), deletes=True)
    elif name == "v1_partitioned":
        table = create(spark, name, version, mor=False, spec="PARTITIONED BY (category)")
        history(spark, table, deletes=False)
        evolve(spark, table)
    elif kind == "partitioned":
        table = create(
            spark,
            name,
            version,
            spec="PARTITIONED BY (days(at), truncate(2, category))",
            properties="'write.metadata.compression-codec'='gzip'",
        )
        history(spark, table, deletes=True)
        evolve(spark, table)
    elif kind == "merge_on_read":
        table = create(spark, name, version)
        history(spark, table, deletes=True)
        refs(spark, table)
    elif kind == "equality":
        table = create(spark, name, version)
        insert(spark, table, 0, 20)
        equality_delete(spark, table, [3, 5])
        spark.sql(f"DELETE FROM {table} WHERE id = 7")
        insert(spark, table, 3, 3)
    elif kind == "fixed":
        fixed_and_decimal(spark, f"{catalog_of(name)}.db.{name}", version)
    elif kind == "rewritten":
        history(spark, create(spark, name, version), deletes=True)
        spark.sql(f"CALL peer.system.rewrite_manifests('db.{name}')")
        spark.sql(
            f"CALL peer.system.rewrite_data_files(table => 'db.{name}', "
            "options => map('rewrite-all', 'true'))"
        )
        spark.sql(f"CALL peer.system.compute_table_stats('db.{name}')")
    elif kind == "empty":
        create(spark, name, version)
    else:
        write_upgraded(spark, name)


def write_upgraded(spark: SparkSession, name: str) -> None:
    """A table that gets another version on its way."""
    start, version, spec = {
        "v2_upgraded_to_v3": (2, 3, ""),
        "v4_upgraded": (3, 4, "PARTITIONED BY (category)"),
    }[name]
    table = create(spark, name, start, spec=spec)
    history(spark, table, deletes=True)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version'='{version}')")
    insert(spark, table, 70, 10)
    spark.sql(f"DELETE FROM {table} WHERE id % 10 = 4")


def write_raced(spark: SparkSession) -> None:
    """Rows deleted by value and others appended, once a rewrite of all files has begun.

    Of one table the reference implementation then commits the rewrite; the other is left to icectl.
    """
    spark.sql("CREATE NAMESPACE IF NOT EXISTS peer.race")
    for name in ("reference", "icectl"):
        table = create(spark, name, 2, namespace="race")
        insert(spark, table, 0, 20)
        begun = java_table(spark, table)
        equality_delete(spark, table, [3, 5])
        insert(spark, table, 100, 5)
        if name == "reference":
            commit_rewrite(spark, begun)
            rows = spark.sql(f"SELECT id FROM {table} ORDER BY id").collect()
            print(json.dumps({"raced": [row[0] for row in rows]}), flush=True)


def commit_rewrite(spark: SparkSession, table: Any) -> None:
    """Put one file in the place of all that a table had when it was loaded, as the rewriting of
    data files does: with the sequence number that it started from."""
    jvm, start = spark._jvm, table.currentSnapshot()
    old, paths = jvm.java.util.HashSet(), []
    tasks = table.newScan().planFiles().iterator()
    while tasks.hasNext():
        file = tasks.next().file()
        old.add(file)
        paths.append(str(file.location()).removeprefix("file:"))
    path = Path(paths[0]).with_name("rewritten.parquet")
    rows = pa.concat_tables(pq.ParquetFile(one).read() for one in paths)
    pq.write_table(rows, path)
    made = (
        jvm.org.apache.iceberg.DataFiles.builder(table.spec())
        .withPath(str(path))
        .withFormat("PARQUET")
        .withFileSizeInBytes(path.stat().st_size)
        .withRecordCount(rows.num_rows)
        .build()
    )
    new = jvm.java.util.HashSet()
    new.add(made)
    rewrite = table.newRewrite().validateFromSnapshot(start.snapshotId())
    rewrite.rewriteFiles(old, new, start.sequenceNumber()).commit()


FOLLOWED = {
    "v1_rewritten": 1, "v1_migrated": 1, "v1_migrated_rewritten": 1, "v2_rewritten": 2,
    "v3_rewritten": 3, "v2_compacted": 2, "v2_deletes_merged": 2, "v2_sorted": 2,
    "v3_compacted": 3, "v3_z_ordered": 3, "v3_vectors_merged": 3, "v4_rewritten": 4,
    "v4_compacted": 4, "v4_vectors_merged": 4, "v1_to_v3": 1, "v2_to_v3": 2, "v1_to_v4": 1,
    "v2_to_v4": 2, "v3_to_v4": 3, "v3_sfc_1_to_v4": 3,
}  # fmt: skip
"""Tables that Spark goes on using once they were maintained, and their versions."""

KEPT_AWAY = "v3_lazily_to_sfc_1"
"""A table without partitions that Spark must not go on with."""


def write_followed(spark: SparkSession, names: Sequence[str]) -> None:
    """Ids 0 to 59 but those that end in 3, in two appends and two deletes."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS peer.follow")
    spec = "PARTITIONED BY (category)"
    for name in names:
        version = FOLLOWED[name]
        table = create(spark, name, version, namespace="follow", spec=spec, mor=version > 1)
        insert(spark, table, 0, 40)
        insert(spark, table, 40, 20)
        spark.sql(f"DELETE FROM {table} WHERE id % 10 = 3 AND id < 30")
        spark.sql(f"DELETE FROM {table} WHERE id % 10 = 3")
    insert(spark, create(spark, KEPT_AWAY, 3, namespace="follow"), 0, 10)


def follow_tables(spark: SparkSession, names: Sequence[str]) -> None:
    """Append, delete rows (of what was version 1 by merge-on-read now), compact everything."""
    for name in names:
        catalog = catalog_of(name)
        table = f"{catalog}.follow.{name}"
        print_step(spark, name, "maintained")
        insert(spark, table, 100, 20)
        print_step(spark, name, "appended")
        if "migrated" in name or name == "v1_to_v3":
            mode = "'write.delete.mode'='merge-on-read'"
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({mode})")
        spark.sql(f"DELETE FROM {table} WHERE id IN (5, 14, 105)")
        print_step(spark, name, "deleted")
        spark.sql(
            f"CALL {catalog}.system.rewrite_data_files(table => 'follow.{name}', "
            "options => map('rewrite-all', 'true'))"
        )
        print_step(spark, name, "compacted")
    try:
        insert(spark, f"peer.follow.{KEPT_AWAY}", 10, 10)
        told = ""
    except Exception as error:  # noqa: BLE001 - that there is one is what is asked for
        told = str(error).splitlines()[0]
    print(json.dumps({"table": KEPT_AWAY, "step": "refused", "told": told}), flush=True)


def print_step(spark: SparkSession, name: str, step: str) -> None:
    """Print rows, what delete files hold, and the row ids of what has become version 3."""
    table = f"{catalog_of(name)}.follow.{name}"
    rows = spark.sql(f"SELECT id, note FROM {table}").collect()
    deletes = spark.sql(
        f"SELECT file_format, sum(record_count) FROM {table}.delete_files GROUP BY file_format"
    )
    found = {
        "table": name,
        "step": step,
        "rows": sorted([row[0], row[1]] for row in rows),
        "deletes": {row[0]: row[1] for row in deletes.collect()},
    }
    if "to_v3" in name:
        ids = spark.sql(f"SELECT id, _row_id FROM {table}").collect()
        found["row_ids"] = {str(row[0]): row[1] for row in ids}
    print(json.dumps(found), flush=True)


def commits(spark: SparkSession, table: str, count: int, start: int = 0) -> None:
    """One small append after the other."""
    for number in range(start, start + count):
        insert(spark, table, number * 10, 3, files=1)


def with_refs(spark: SparkSession, table: str) -> None:
    """A branch that keeps two of its snapshots, a branch that keeps by age, a tag in the past."""
    commits(spark, table, 4)
    first = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").first()[0]
    spark.sql(f"ALTER TABLE {table} CREATE TAG first AS OF VERSION {first}")
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH two WITH SNAPSHOT RETENTION 2 SNAPSHOTS")
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH days WITH SNAPSHOT RETENTION 1 SNAPSHOTS 3 DAYS")
    for branch in ("two", "days"):
        commits(spark, f"{table}.branch_{branch}", 3, 50)
    commits(spark, table, 3, 10)


def rolled_back(spark: SparkSession, table: str) -> None:
    """Snapshots that no ref has any more, old ones and one that is not."""
    commits(spark, table, 3)
    name = table.removeprefix("peer.")
    snapshots = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at")
    ids = [row[0] for row in snapshots.collect()]
    commits(spark, table, 3, 10)
    spark.sql(f"CALL peer.system.rollback_to_snapshot('{name}', {ids[1]})")
    commits(spark, table, 2, 20)


AGED = {
    "by_age": (2, "", lambda spark, table: commits(spark, table, 8), 4, 1),
    "by_age_v1": (1, "", lambda spark, table: commits(spark, table, 8), 4, 1),
    "by_age_and_count": (2, "", lambda spark, table: commits(spark, table, 8), 7, 5),
    "with_deletes": (2, "", lambda spark, table: history(spark, table, deletes=True), 4, 1),
    "with_vectors": (3, "", lambda spark, table: history(spark, table, deletes=True), 4, 1),
    "v4_with_vectors": (4, "", lambda spark, table: history(spark, table, deletes=True), 4, 1),
    "with_refs": (2, "", with_refs, 5, 1),
    "with_refs_v3": (3, "", with_refs, 5, 3),
    "rolled_back": (2, "", rolled_back, 4, 1),
    "by_properties": (
        2,
        "'history.expire.max-snapshot-age-ms'='1', 'history.expire.min-snapshots-to-keep'='3'",
        lambda spark, table: commits(spark, table, 6),
        None,
        None,
    ),
    "short_lived_refs": (
        2,
        "'history.expire.max-ref-age-ms'='1', 'history.expire.max-snapshot-age-ms'='1'",
        with_refs,
        None,
        None,
    ),
}
"""table: version, properties, what happens, the place of the snapshot whose instant is the limit
among all in their order, how many to retain."""


def age_tables(spark: SparkSession, names: list[str]) -> None:
    """Write tables of AGED, and print what their expiry will be told."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS peer.db")
    for name in names:
        version, properties, happens, place, retain_last = AGED[name]
        table = create(spark, name, version, properties=properties)
        happens(spark, table)
        frame = spark.sql(f"SELECT committed_at FROM {table}.snapshots ORDER BY committed_at")
        instants = [row[0] for row in frame.collect()]
        older_than = (
            None if place is None else f"{instants[place].isoformat(timespec='milliseconds')}Z"
        )
        told = {"table": name, "older_than": older_than, "retain_last": retain_last}
        print(json.dumps(told), flush=True)


def expire_tables(spark: SparkSession, names: list[str]) -> None:
    """Expire tables of AGED by the runtime's procedure, and print what is left."""
    for name in names:
        *_, place, retain_last = AGED[name]
        table = f"peer.db.{name}"
        options = ""
        if place is not None:
            frame = spark.sql(f"SELECT committed_at FROM {table}.snapshots ORDER BY committed_at")
            instant = frame.collect()[place][0].isoformat(sep=" ", timespec="milliseconds")
            options = f", older_than => TIMESTAMP '{instant}', retain_last => {retain_last}"
        spark.sql(f"CALL peer.system.expire_snapshots(table => 'db.{name}'{options})")
        snapshots = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots").collect()
        refs_left = spark.sql(f"SELECT name FROM {table}.refs").collect()
        left = {
            "table": name,
            "snapshots": [row[0] for row in snapshots],
            "refs": [row[0] for row in refs_left],
        }
        print(json.dumps(left), flush=True)


def find_orphans(spark: SparkSession) -> None:
    """Print what the runtime would remove from each table, as old as it goes by itself."""
    for (name,) in spark.sql("SHOW TABLES IN peer.db").select("tableName").collect():
        found = spark.sql(
            f"CALL peer.system.remove_orphan_files(table => 'db.{name}', dry_run => true)"
        ).collect()
        told = {"table": name, "orphans": [row[0] for row in found]}
        print(json.dumps(told), flush=True)


def time_expiry(spark: SparkSession, name: str, older_than: str) -> None:
    """Expire a table's snapshots by the runtime's procedure, and print how long that takes."""
    start = time.perf_counter()
    (deleted,) = spark.sql(
        f"CALL peer.system.expire_snapshots(table => 'db.{name}', "
        f"older_than => TIMESTAMP '{older_than}', retain_last => 1)"
    ).collect()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "deleted": deleted.asDict()}), flush=True)


def checksum(spark: SparkSession, table: Path, selector: dict[str, str]) -> dict[str, object]:
    """Row count and checksum of one snapshot or ref of the table in a directory.

    From version 3 on its columns have what tells rows apart, and when each was last changed.
    """
    reader = spark.read.format("iceberg")
    for key, value in selector.items():
        reader = reader.option(key, value)
    frame = reader.load(str(table))
    if "v3" in table.name or table.name.startswith("v4"):
        frame = frame.select("*", "_row_id", "_last_updated_sequence_number")
    lines = sorted(
        json.dumps(row.asDict(recursive=True), sort_keys=True, default=str)
        for row in frame.collect()
    )
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return {"table": table.name, **selector, "rows": len(lines), "sha256": digest}


def read_tables(spark: SparkSession, tables: list[Path]) -> None:
    """Print rows of the current state, of every ref and of every snapshot."""
    for table in tables:
        for (name,) in spark.read.format("iceberg").load(f"{table}#refs").select("name").collect():
            print(json.dumps(checksum(spark, table, {"versionAsOf": name})), flush=True)
        frame = spark.read.format("iceberg").load(f"{table}#snapshots").select("snapshot_id")
        for (snapshot_id,) in frame.collect():
            selector = {"versionAsOf": str(snapshot_id)}
            print(json.dumps(checksum(spark, table, selector)), flush=True)


def main(arguments: list[str]) -> None:
    """Dispatch on the second argument."""
    jar, verb, *rest = arguments
    warehouse = "/nonexistent" if verb == "read" else rest[0]
    spark = session(jar, warehouse, is_timed=verb == "time-expiry")
    try:
        if verb == "read":
            read_tables(spark, [Path(table) for table in rest])
        elif verb == "time-expiry":
            time_expiry(spark, *rest[1:])
        elif verb == "write":
            names = rest[1:]
            spark.sql("CREATE NAMESPACE IF NOT EXISTS peer.db")
            for name in names:
                write_table(spark, name)
            write_raced(spark)
        elif verb == "begin":
            write_followed(spark, rest[1:])
        elif verb == "follow":
            follow_tables(spark, rest[1:])
        elif verb == "age":
            age_tables(spark, rest[1:])
        elif verb == "expire":
            expire_tables(spark, rest[1:])
        else:
            find_orphans(spark)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
