"""A client of Spark Connect that compacts tables and changes rows; run by the Python that has it.

spark_connect.py URL FOLDER NAME...    prints one JSON line for each table or step: its name, and
                                       what came of it

FOLDER has the empty tables `two`, `plain` and `typed` of layout sfc-1 beside those to compact. Of
`z-ordered` and `typed` those are done that are named.
"""

import contextlib
import io
import json
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import spark_rows
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession

from icectl.cli.app import main as icectl
from icectl.errors import IcectlError
from icectl.spark import (
    CompactOptions,
    OrphanOptions,
    ProgressUpdate,
    Report,
    ValidateOptions,
    compact,
    remove_orphans,
    validate,
)

SMALL = {"min_input_files": "2", "target_file_size": "4KiB"}


def tell(name: str, work: Callable[[], Report]) -> None:
    """Print what a call comes to."""
    try:
        told = {"document": work().document}
    except IcectlError as error:
        told = {"error": type(error).__name__, "exit": error.exit_code, "message": error.message}
    print(json.dumps({"name": name, **told}), flush=True)


def run(remote: str, command: str, table: Path, *words: str) -> None:
    """Run a command line, and print what it comes to."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        icectl([command, str(table), "--remote", remote, *words, "--json"])
    print(json.dumps({"name": table.name, "document": json.loads(out.getvalue())}), flush=True)


def main(remote: str, folder: Path, names: Collection[str]) -> None:
    """Compact and erase by the command line, and compact in a session that is the caller's."""
    run(
        remote, "compact", folder / "packed", "--min-input-files", "2", "--target-file-size", "4KiB"
    )
    gone = ("--keys", str(folder / "gone.txt"), "--key-columns", "note", "--max-fraction", "1")
    run(remote, "erase", folder / "erased", *gone, "--expire-history", "--yes")
    spark = SparkSession.builder.remote(remote).getOrCreate()
    before = dict(spark.conf.getAll)
    moments: list[ProgressUpdate] = []
    deep = ValidateOptions(level="data", engine="spark")
    tell("checked", lambda: validate(spark, str(folder / "wrong"), deep))
    by = CompactOptions(sort_order="category desc, id", **SMALL)
    tell("sorted", lambda: compact(spark, str(folder / "sorted"), by, progress=moments.append))
    curve = CompactOptions(zorder="id,at", **SMALL)
    if "z-ordered" in names:
        tell("z-ordered", lambda: compact(spark, str(folder / "z-ordered"), curve))
    tell("wrong", lambda: compact(spark, str(folder / "wrong"), CompactOptions(**SMALL)))
    orphans = OrphanOptions(engine="spark", older_than="1d")
    tell("orphans", lambda: remove_orphans(spark, str(folder / "packed"), orphans))
    register_pickle_by_value(spark_rows)  # the server does not have the module
    spark_rows.partitioned(spark, str(folder / "two"))
    spark_rows.stumble(spark, str(folder / "plain"))
    if "typed" in names:
        spark_rows.typed(spark, str(folder / "typed"))
    left = {"same": dict(spark.conf.getAll) == before, "alive": spark.range(5).count()}
    print(json.dumps({"name": "left", **left, "phases": [one.phase for one in moments]}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
