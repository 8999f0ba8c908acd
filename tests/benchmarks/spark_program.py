"""Compactions in a program's own session of Spark, one a line; run by the Python of Spark.

    spark_program.py        answers each line on stdin with a line on stdout

A request is {"table": LOCATION, "target_bytes": N, "options": {...}}, options being those of the
storage; the answer is {"seconds", "files"}: how many data files came.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from pyspark.sql import SparkSession

from icectl.spark import Access, CompactOptions, compact


def answer(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Compact a table whose files are all too small; those with large row groups are merged."""
    options = CompactOptions(target_file_size=f"{request['target_bytes']}B")
    access = Access(storage_options=request["options"])
    start = time.perf_counter()
    done = compact(spark, request["table"], options, access=access)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "files": done.result["added_data_files"]}


def main() -> None:
    """Answer until stdin ends."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.python.daemon.module": "icectl.rows.spark_daemon",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[*]").appName("program")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        print(json.dumps(answer(spark, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
