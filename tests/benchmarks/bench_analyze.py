"""Distinct values by `analyze` against `compute_table_stats` of Iceberg's Spark.

    python tests/benchmarks/bench_analyze.py [ROWS]

20 files of eight columns, together of ROWS rows (default 10 million). Printed are seconds, seconds
of processors and memory.

Needs the Spark peer that tests/run.sh sets up. Spark is warm: it has read a small table.
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.bench_compact_spark import Session
from tests.benchmarks.compact_tables import build
from tests.benchmarks.measure import Run, process, verdict
from tests.spark.engine import why_skipped

ROOT = Path(__file__).parents[2]
FILES, ROWS = 20, 10_000_000
LEAST_TIMES_AS_FAST, LEAST_TIMES_FEWER_PROCESSORS = 2.0, 2.0
MEMORY_BYTES = 1 << 30


def analyze(directory: Path) -> Run:
    """Compute statistics with the local engine, from the start of the process to its end."""
    line = [sys.executable, "-m", "icectl", "analyze", str(directory), "--engine", "local"]
    return process(line)


def bench(warehouse: Path, rows: int) -> list[bool]:
    """Print the figures; whether each target is reached."""
    ours, theirs, small = (warehouse / "db" / name for name in ("ours", "theirs", "small"))
    for directory in (ours, theirs):
        build(directory, FILES, rows // FILES)
    build(small, 1, 1000)
    size = sum(path.stat().st_size for path in (ours / "data").iterdir())
    print(f"{FILES} files, {rows:,} rows, {size / 1e6:,.0f} MB")
    peer = str(ROOT / "tests/peers/spark_rewrites.py")
    with Session(peer, os.environ["ICECTL_TEST_SPARK_JAR"], str(warehouse)) as spark:
        spark.ask(do="statistics", table="small")
        run = analyze(ours)
        computed = spark.ask(do="statistics", table="theirs")
    print(f"  icectl {run.wall_seconds:.1f} s, of processors {run.cpu_seconds:.1f} s")
    print(f"  Spark {computed.wall_seconds:.1f} s, of processors {computed.cpu_seconds:.1f} s")
    faster = computed.wall_seconds / run.wall_seconds
    fewer = computed.cpu_seconds / run.cpu_seconds
    return [
        verdict("times as fast", faster, LEAST_TIMES_AS_FAST, at_most=False),
        verdict("times fewer seconds of processors", fewer, LEAST_TIMES_FEWER_PROCESSORS,
                at_most=False),
        verdict("memory of icectl, of 1 GiB", run.peak_bytes / MEMORY_BYTES, 1),
    ]  # fmt: skip


def main() -> int:
    """Print the figures; the exit code says whether the targets are reached."""
    skipped = why_skipped()
    if skipped:
        print(f"skipped: {skipped}")
        return 0
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as directory:
        reached = bench(Path(directory), rows)
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
