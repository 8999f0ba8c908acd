"""A program with a session of its own that maintains tables by icectl.spark; run by Spark's Python.

spark_program.py FOLDER     prints one JSON line for each call: its name, and what came of it

The session's settings are as unusual as they may be: none of them is about rows of tables.
"""

import json
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from icectl.errors import IcectlError
from icectl.spark import (
    Access,
    CompactOptions,
    ExpireOptions,
    OrphanOptions,
    ProgressUpdate,
    RepairOptions,
    Report,
    ValidateOptions,
    ViewOptions,
    compact,
    expire_snapshots,
    inspect,
    remove_orphans,
    repair,
    rewrite_manifests,
    validate,
)

HOSTILE = {
    "spark.default.parallelism": "1",
    "spark.executorEnv.TZ": "Pacific/Apia",
    "spark.io.compression.codec": "zstd",
    "spark.locality.wait": "0",
    "spark.rdd.compress": "true",
    "spark.scheduler.mode": "FAIR",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.compression.codec": "zstd",
    "spark.sql.execution.arrow.maxBytesPerBatch": "64",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "3",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.files.maxRecordsPerFile": "2",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.parquet.compression.codec": "gzip",
    "spark.sql.parquet.int96RebaseModeInWrite": "EXCEPTION",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.session.timeZone": "Pacific/Apia",
    "spark.sql.shuffle.partitions": "7",
    "spark.sql.storeAssignmentPolicy": "STRICT",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.task.maxFailures": "2",
}
SMALL = {"min_input_files": "2", "target_file_size": "4KiB"}


def tell(name: str, work: Callable[[], Report]) -> None:
    """Print what a call comes to."""
    try:
        told = {"document": work().document}
    except IcectlError as error:
        told = {"error": type(error).__name__, "message": error.message, "hint": error.hint}
    print(json.dumps({"name": name, **told}), flush=True)


def main(folder: Path) -> None:
    """Call every function on tables that were built for it."""
    builder = SparkSession.builder.master("local[2]").appName("theirs")
    for key, value in HOSTILE.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    before = dict(spark.conf.getAll), signal.getsignal(signal.SIGTERM)
    moments: list[ProgressUpdate] = []
    packed, sorted_, curved = (str(folder / name) for name in ("packed", "sorted", "z-ordered"))
    deep = ValidateOptions(level="data", engine="spark")
    for name in ("packed", "sorted", "z-ordered", "wrong"):
        tell(f"checked {name}", lambda name=name: validate(spark, str(folder / name), deep))
    tell("plan", lambda: compact(spark, packed, CompactOptions(**SMALL), dry_run=True))
    tell("packed", lambda: compact(spark, packed, CompactOptions(**SMALL), progress=moments.append))
    by = CompactOptions(sort_order="category desc, id", **SMALL)
    tell("sorted", lambda: compact(spark, sorted_, by))
    curve = CompactOptions(zorder="id,at", **SMALL)
    thread = threading.Thread(
        target=lambda: tell("z-ordered", lambda: compact(spark, curved, curve))
    )
    thread.start()
    thread.join()
    tell("validate", lambda: validate(spark, packed, ValidateOptions(level="data")))
    tell("inspect", lambda: inspect(spark, packed, "snapshots", ViewOptions(limit="1")))
    tell("rewrite-manifests", lambda: rewrite_manifests(spark, packed))
    old = ExpireOptions(older_than="0s", retain_last="1")
    tell("expire-snapshots", lambda: expire_snapshots(spark, packed, old))
    orphans = OrphanOptions(engine="spark", max_fraction="1", older_than="1d")
    tell("remove-orphans", lambda: remove_orphans(spark, packed, orphans))
    tell("repair", lambda: repair(spark, packed, RepairOptions()))
    own, spark.sparkContext.pythonVer = spark.sparkContext.pythonVer, "3.99"
    tell("other python", lambda: compact(spark, str(folder / "wrong"), CompactOptions(**SMALL)))
    spark.sparkContext.pythonVer = own
    tell("wrong", lambda: compact(spark, str(folder / "wrong"), CompactOptions(**SMALL)))
    tell("none", lambda: inspect(spark, str(folder / "none")))
    tell("master", lambda: compact(spark, sorted_, CompactOptions(master="yarn", **SMALL)))
    hidden = Access(storage_options={"s3.secret-access-key": "hidden"})
    tell("secret", lambda: inspect(spark, "s3://hidden/none", access=hidden))
    print(json.dumps({"name": "phases", "phases": list(dict.fromkeys(m.phase for m in moments))}))
    counts = [m for m in moments if m.phase.startswith("rewriting")]
    print(json.dumps({"name": "moments", "moments": [[m.done, m.total] for m in counts]}))
    after = dict(spark.conf.getAll), signal.getsignal(signal.SIGTERM)
    alive = spark.range(5).count()
    print(json.dumps({"name": "left", "same": before == after, "alive": alive}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
