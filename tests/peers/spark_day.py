"""Many small commits to a table of layout sfc-1, by icectl.spark, with maintenance beside them.

    spark_day.py FOLDER COMMITS [MINUTES]     run by the Python of Spark

Appends of twenty rows, and one in ten a deletion by condition or by keys. A thread compacts,
rewrites manifests and expires snapshots meanwhile. It ends after so many commits, or minutes;
FOLDER/expected.json has the ids that are left, and one line of JSON is printed: its `compactions`
say how many commits were behind each, what became of its groups, and the deletes it carried over.
"""

import json
import random
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from icectl.errors import CommitConflict
from icectl.spark import (
    CompactOptions,
    ExpireOptions,
    append,
    compact,
    delete_rows,
    delete_where,
    expire_snapshots,
    rewrite_manifests,
)

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "icectl.rows.spark_daemon",
}
ROWS = 20
PAUSE_SECONDS = 20.0


def rows(spark: SparkSession, start: int) -> DataFrame:
    """Twenty rows of a built table's columns."""
    return spark.range(start, start + ROWS, 1, 1).selectExpr(
        "id",
        "concat('c', id % 3) AS category",
        "cast(id * 1.25 % 100000 AS decimal(9, 2)) AS amount",
        "cast(timestamp_seconds(1700000000 + id) AS timestamp_ntz) AS at",
        "concat('note ', id) AS note",
    )


class Maintenance(threading.Thread):
    """Maintains a table again and again; conflicts are counted, other errors end it.

    `commits` is how often others have committed, which they keep up to date.
    """

    def __init__(self, spark: SparkSession, table: str) -> None:
        super().__init__()
        self.spark, self.table = spark, table
        self.over = threading.Event()
        self.rounds = self.conflicts = self.commits = 0
        self.compactions: list[dict[str, int]] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """Go round until it is over."""
        try:
            while not self.over.wait(PAUSE_SECONDS):
                self.round()
        except BaseException as error:
            self.error = error
            raise

    def round(self) -> None:
        """Do everything once."""
        self.compact()
        fewest = ExpireOptions(older_than="0s", retain_last="5")
        for work in (
            lambda: rewrite_manifests(self.spark, self.table),
            lambda: expire_snapshots(self.spark, self.table, fewest),
        ):
            try:
                work()
            except CommitConflict:
                self.conflicts += 1
        self.rounds += 1

    def compact(self) -> None:
        """Compact, and note what came of it."""
        begun = self.commits
        packing = CompactOptions(min_input_files="50", engine="local")
        try:
            result = compact(self.spark, self.table, packing).result
            groups, failed = len(result["groups"]), len(result["failed"])
            carried = result["carried_deletes"]
        except CommitConflict:
            groups = failed = 1
            carried = 0
        self.compactions.append(
            {"commits": begun, "groups": groups, "failed": failed, "carried": carried}
        )


def main(folder: Path, commits: int, minutes: float) -> None:
    """Commit, and tell what is left."""
    builder = SparkSession.builder.master("local[2]").appName("day")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    table, rng = str(folder / "t"), random.Random(7)
    expected: set[int] = set()
    took: list[float] = []
    conflicts = 0
    maintenance = Maintenance(spark, table)
    maintenance.start()
    begun = time.monotonic()
    while len(took) < commits and time.monotonic() < begun + 60 * minutes:
        at, start = len(took), time.perf_counter()
        gone = {rng.randrange(ROWS * at + 1) for _ in range(3)} if at % 10 == 9 else set()
        try:
            if at % 20 == 19:
                listed = ", ".join(map(str, sorted(gone)))
                delete_where(table, f"id in ({listed})", spark=spark)
            elif at % 10 == 9:
                delete_rows(table, spark.createDataFrame([(one,) for one in gone], "id long"))
            else:
                append(rows(spark, ROWS * at), table)
                expected |= set(range(ROWS * at, ROWS * at + ROWS))
        except CommitConflict:  # the program's own choice: it goes on with others
            conflicts += 1
            gone = set()
        expected -= gone
        took.append(time.perf_counter() - start)
        maintenance.commits = len(took)
    seconds = time.monotonic() - begun
    maintenance.over.set()
    maintenance.join()
    (folder / "expected.json").write_text(json.dumps(sorted(expected)))
    took.sort()
    told = {
        "commits": len(took),
        "seconds": round(seconds, 1),
        "median": round(took[len(took) // 2], 3),
        "longest": round(took[-1], 3),
        "conflicts": conflicts,
        "rounds": maintenance.rounds,
        "conflicts_of_maintenance": maintenance.conflicts,
        "compactions": maintenance.compactions,
        "failed": str(maintenance.error) if maintenance.error else None,
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float([*sys.argv[3:], "1e9"][0]))
