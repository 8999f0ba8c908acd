"""A micro-batch a second into one table, by icectl or by Iceberg's own Spark.

    spark_batches.py JAR FOLDER WRITER SECONDS    run by the Python of Spark

WRITER is `icectl`, into the table FOLDER/db/sfc1 of layout sfc-1; `maintained`, the same with
maintenance beside; `iceberg`, into a new table FOLDER/db/v3 of version 3. Prints one line of JSON.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from spark_day import Maintenance, rows
from spark_peer import session

from icectl.spark import append, load


class Written:
    """Bytes of all files that were ever seen in a metadata folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sizes: dict[str, int] = {}
        self.look()

    def look(self) -> None:
        """Note what is there."""
        for entry in os.scandir(self.folder):
            if entry.name not in self.sizes and not entry.name.startswith("."):
                try:
                    self.sizes[entry.name] = entry.stat().st_size
                except FileNotFoundError:  # it has gone since
                    continue

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.sizes.values())


def feed(write: Callable[[DataFrame], Any], spark: SparkSession, seconds: float, at: Path) -> Any:
    """Write a batch each second, or as soon as the one before has ended."""
    write(rows(spark, 0))  # what is slow but once
    written, took = Written(at / "metadata"), []
    before, begun = written.total, time.monotonic()
    while (now := time.monotonic()) < begun + seconds:
        write(rows(spark, 20 * (len(took) + 1)))
        took.append(time.monotonic() - now)
        written.look()
        time.sleep(max(0.0, now + 1 - time.monotonic()))
    elapsed = time.monotonic() - begun
    took.sort()
    return {
        "commits": len(took),
        "per_second": round(len(took) / elapsed, 2),
        "median_seconds": round(took[len(took) // 2], 3),
        "p95_seconds": round(took[len(took) * 95 // 100], 3),
        "metadata_bytes": written.total - before,
        "metadata_files": len(written.sizes),
    }


def timed(work: Callable[[], Any]) -> float:
    """The least of three times, in seconds."""
    found = []
    for _ in range(3):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return round(min(found), 3)


def main(jar: str, folder: Path, writer: str, seconds: float) -> None:
    """Feed one table."""
    daemon = "spark.python.daemon.module=icectl.rows.spark_daemon"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--conf {daemon} pyspark-shell"
    spark = session(jar, str(folder), is_timed=True)
    table = folder / "db" / ("v3" if writer == "iceberg" else "sfc1")
    if writer == "iceberg":
        spark.sql(
            "CREATE TABLE peer.db.v3 (id bigint NOT NULL, category string, amount decimal(9,2),"
            " at timestamp_ntz, note string) USING iceberg TBLPROPERTIES ('format-version'='3',"
            " 'write.metadata.delete-after-commit.enabled'='true',"
            " 'write.metadata.previous-versions-max'='20')"
        )
        told = feed(lambda batch: batch.writeTo("peer.db.v3").append(), spark, seconds, table)
        told["planned_by_iceberg"] = timed(lambda: spark.table("peer.db.v3").inputFiles())
    else:
        maintenance = Maintenance(spark, str(table))
        if writer == "maintained":
            maintenance.start()
        told = feed(lambda batch: append(batch, str(table)), spark, seconds, table)
        maintenance.over.set()
        if writer == "maintained":
            maintenance.join()
            told["rounds"] = maintenance.rounds
    told["planned_by_icectl"] = timed(lambda: load(spark, str(table)))
    told["rows"] = load(spark, str(table)).count()
    print(json.dumps({"writer": writer, **told}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
