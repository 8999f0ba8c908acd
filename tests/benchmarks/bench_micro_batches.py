"""A micro-batch of twenty rows a second: layout sfc-1 by icectl against version 3 by Iceberg.

    python tests/benchmarks/bench_micro_batches.py [SECONDS]      default 600

Each writer runs on a Spark of its own, one after the other: icectl, icectl with compaction,
rewriting of manifests and expiry beside, and Iceberg's Spark, whose table nobody maintains. Bytes
are those of all files that were in the metadata folder at any time; planning is choosing the files
of a read.
Needs what tests/run.sh sets up for tests of Spark.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.builders.inline_rows import tree
from tests.conftest import ROOT
from tests.spark.engine import command, environment

PROPERTIES = {
    "write__metadata__delete_after_commit__enabled": "true",
    "write__metadata__previous_versions_max": "20",
}


def main() -> int:
    """Print a line a writer."""
    seconds = [*sys.argv[1:], "600"][0]
    for writer in ("icectl", "maintained", "iceberg"):
        with tempfile.TemporaryDirectory() as folder:
            tree(Path(folder) / "db" / "sfc1", **PROPERTIES)
            script = str(ROOT / "tests/peers/spark_batches.py")
            words = [script, os.environ["ICECTL_TEST_SPARK_JAR"], folder, writer, seconds]
            done = subprocess.run(
                command(*words), env=environment(), capture_output=True, text=True, check=False
            )
            if done.returncode:
                print(done.stderr[-4000:], file=sys.stderr)
                return 1
            told = json.loads(done.stdout.splitlines()[-1])
            print(", ".join(f"{name} {value}" for name, value in told.items()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
