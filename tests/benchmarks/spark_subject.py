"""Compactions of a table, again and again in one session of Spark; run by the Python of Spark.

    spark_subject.py            answers each line on stdin with a line on stdout

A request is {"table": DIRECTORY, "target_bytes": N}; the table is as it was before the answer,
{"seconds", "files"}: how many data files it had.
"""

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from icectl.commands.compact.plan_options import CompactOptions
from icectl.commands.compact.run import execute, prepare
from icectl.env import Deadline, SystemEnv
from icectl.progress import SilentProgress
from icectl.rows.compact_job import Engine
from icectl.rows.spark_classic import SparkOptions
from icectl.rows.spark_rewrite import SparkEngine
from icectl.storage.open import StorageOptions
from icectl.table.output_sizes import sizes_of
from tests.builders.compactions import compaction_of


def answer(engine: Engine, table: Path, target_bytes: int) -> dict[str, Any]:
    """Compact a table, and undo it."""
    kept = table.with_name(f"{table.name}-metadata")
    shutil.copytree(table / "metadata", kept)
    before = set((table / "data").iterdir())
    access = compaction_of(table, SystemEnv())
    options = CompactOptions(sizes_of(target_bytes, None, None), 0, every=True)
    start = time.perf_counter()
    execute(access, engine, prepare(access, "main", lambda _: options))
    seconds = time.perf_counter() - start
    made = set((table / "data").iterdir()) - before
    for path in made:
        path.unlink()
    shutil.rmtree(table / "metadata")
    kept.rename(table / "metadata")
    return {"seconds": seconds, "files": len(made)}


def main() -> None:
    """Answer until stdin ends."""
    with SparkEngine(
        SparkOptions(), StorageOptions(), SilentProgress(), Deadline(SystemEnv())
    ) as engine:
        for line in sys.stdin:
            request = json.loads(line)
            told = answer(engine, Path(request["table"]), request["target_bytes"])
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
