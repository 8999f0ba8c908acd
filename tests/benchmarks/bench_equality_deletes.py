"""Upserts compacted by `compact`, with and without `--deletes-only`, against Spark's rewrite.

    python tests/benchmarks/bench_equality_deletes.py [SCALE] [--files FOLDER]

40 files of 500,000 rows and 200 commits of 5,000 keys, each an equality delete file and a data file
with the same keys: version 3, unpartitioned, target size that of the 40 files. With a SCALE below 1
files and commits are as many, with fewer rows. Spark rewrites all by `rewrite_data_files`. Printed
are seconds, bytes read of key columns as planned, bytes written, and the processor time in which
Spark reads each table then: beside other programs only this is comparable.

With `--files`, the files of the tables are made in FOLDER, or stay there from a run before.

Needs the Spark peer that tests/run.sh sets up. Spark is warm: it has rewritten a small table.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icectl.format.manifest import Content
from tests.benchmarks.bench_compact_spark import Session
from tests.benchmarks.compact_tables import COLUMNS, KEY, SCHEMA, commit, file_entry, write_file
from tests.benchmarks.measure import Run, process, verdict
from tests.spark.engine import why_skipped

ROOT = Path(__file__).parents[2]
FILES, ROWS, COMMITS, KEYS = 40, 500_000, 200, 5_000
LEAST_TIMES_AS_FAST, LEAST_TIMES_FEWER_BYTES, MOST_READ = 5.0, 20.0, 1.15
MEMORY_BYTES = 2 << 30
READS = 5
WHAT = {"plain": "compact", "deletes": "compact --deletes-only", "theirs": "Spark"}


def write_files(folder: Path, scale: float, commits: int = COMMITS) -> None:
    """Write the files of a table of upserts."""
    folder.mkdir(parents=True)
    rows, keys = int(ROWS * scale), int(KEYS * scale)
    paths = [folder / f"{number:05}.parquet" for number in range(FILES)]
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(write_file, paths, range(0, FILES * rows, rows), [rows] * FILES))
    chance = np.random.default_rng(1)
    for number in range(commits):
        ids = np.sort(chance.choice(FILES * rows, keys, replace=False))
        deletes = folder / f"keys-{number:05}.parquet"
        pq.write_table(pa.Table.from_arrays([ids], schema=pa.schema([SCHEMA[0]])), deletes)
        upserts = write_file(folder / f"upserts-{number:05}.parquet", 10**9, keys)
        table = pq.read_table(upserts, partitioning=None).set_column(0, SCHEMA[0], pa.array(ids))
        pq.write_table(table, upserts, compression="zstd")


def build(directory: Path, files: Path) -> None:
    """Write a table of upserts of version 3, whose files are links to those of a folder."""
    (directory / "metadata").mkdir(parents=True)
    shutil.copytree(files, directory / "data", copy_function=os.link)
    data = sorted((directory / "data").glob("0*.parquet"))
    parts = [[file_entry(path, COLUMNS, Content.DATA) for path in data]]
    for path in sorted((directory / "data").glob("keys-*.parquet")):
        upserts = path.with_name(path.name.replace("keys", "upserts"))
        entry = file_entry(path, KEY, Content.EQUALITY_DELETES)
        parts += [
            [entry | {"equality_ids": [1]}],
            [file_entry(upserts, COLUMNS, Content.DATA)],
        ]
    commit(directory, parts, str(directory))
    process([*ICECTL, "upgrade-to-v3", str(directory), "--yes"])
    size = f"write.target-file-size-bytes={data[0].stat().st_size}"
    process([*ICECTL, "properties", str(directory), "set", size, "--yes"])


ICECTL = (sys.executable, "-m", "icectl")


def written(directory: Path, action: Any) -> tuple[Any, int]:
    """What an action returns, and how many bytes of data and delete files it has written."""
    before = set((directory / "data").rglob("*"))
    answer = action()
    made = set((directory / "data").rglob("*")) - before
    return answer, sum(path.stat().st_size for path in made if path.suffix != ".crc")


def planned(directory: Path, *options: str) -> dict[str, Any]:
    """The result of a dry run."""
    line = [*ICECTL, "compact", str(directory), "--deletes-only", "--dry-run", "--json", *options]
    told = subprocess.run(line, capture_output=True, check=True, text=True).stdout
    result: dict[str, Any] = json.loads(told)["result"]
    return result


def compact(directory: Path, *options: str) -> Run:
    """Compact with the local engine, from the start of the process to its end."""
    return process([*ICECTL, "compact", str(directory), "--engine", "local", "--yes", *options])


def bench(warehouse: Path, scale: float, files: Path) -> list[bool]:
    """Print the figures; whether each target is reached."""
    places = {name: warehouse / "db" / name for name in WHAT}
    if not files.exists():
        write_files(files, scale)
    for directory in places.values():
        build(directory, files)
    write_files(warehouse / "few", 0.001, 2)
    build(warehouse / "db" / "small", warehouse / "few")
    plan = planned(places["deletes"])
    size = sum(path.stat().st_size for path in (places["plain"] / "data").iterdir())
    print(
        f"{FILES} files of {int(ROWS * scale):,} rows, {COMMITS} commits of {int(KEYS * scale):,} "
        f"keys: {size / 1e6:,.0f} MB; to read: {plan['rewritten_bytes'] / 1e6:,.1f} MB"
    )
    peer = str(ROOT / "tests/peers/spark_rewrites.py")
    runs, sizes = {}, {}
    with Session(peer, os.environ["ICECTL_TEST_SPARK_JAR"], str(warehouse)) as spark:
        options = {"rewrite-all": "true"}
        spark.ask(do="rewrite", table="small", options=options)
        actions = {
            "plain": lambda: compact(places["plain"]),
            "deletes": lambda: compact(places["deletes"], "--deletes-only"),
            "theirs": lambda: spark.ask(do="rewrite", table="theirs", options=options),
        }
        for name, action in actions.items():
            runs[name], sizes[name] = written(places[name], action)
            print(
                f"  {WHAT[name]}: {runs[name].wall_seconds:.1f} s, of processors "
                f"{runs[name].cpu_seconds:.1f} s, {sizes[name] / 1e6:,.2f} MB written",
                flush=True,
            )
        reads: dict[str, list[float]] = {name: [] for name in places}
        for _ in range(READS):
            for name, seconds in reads.items():
                seconds.append(spark.ask(do="read", table=name).cpu_seconds)
    best = {name: min(seconds) for name, seconds in reads.items()}
    reached = []
    for name in ("plain", "deletes"):
        less = runs["theirs"].cpu_seconds / runs[name].cpu_seconds
        faster = runs["theirs"].wall_seconds / runs[name].wall_seconds
        fewer, read = sizes["theirs"] / sizes[name], best[name] / best["theirs"]
        print(
            f"  {WHAT[name]}: {less:.1f} times less processor time; read by Spark in "
            f"{best[name]:.2f} s of it, its own in {best['theirs']:.2f} s"
        )
        reached += [
            verdict("times as fast", faster, LEAST_TIMES_AS_FAST, at_most=False),
            verdict("times fewer bytes", fewer, LEAST_TIMES_FEWER_BYTES, at_most=False),
            verdict("memory of icectl, of 2 GiB", runs[name].peak_bytes / MEMORY_BYTES, 1),
            verdict("read, of the rewritten table's processor time", read, MOST_READ),
        ]
    return reached


def main() -> int:
    """Print the figures; the exit code says whether the targets are reached."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scale", type=float, nargs="?", default=1.0)
    parser.add_argument("--files", type=Path)
    options = parser.parse_args()
    if skipped := why_skipped():
        print(f"skipped: {skipped}")
        return 0
    with tempfile.TemporaryDirectory() as directory:
        warehouse = Path(directory)
        reached = bench(warehouse, options.scale, options.files or warehouse / "files")
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
