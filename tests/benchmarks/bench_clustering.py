"""A table that is kept sorted: only what overlaps, against all of it, after each batch.

    python tests/benchmarks/bench_clustering.py [--batches N] [--rows N]

200 files in random order, then 20 batches of 10 files: over all values (`spread`), or each over a
tenth of them (`local`). One copy of the table is sorted whole after each batch, the other only
where files overlap. Depths are averages after the runs. Files and bytes of 10 ranges of 0.1% are
those whose bounds have values of it, as Iceberg plans; Spark's processor time is that of all its
processes. Its part needs the Spark peer that tests/run.sh sets up.

The first run sorts the 200 files of both: it is not part of the ratio. Where a batch lies over all
values, no schedule of merges has a mean depth of 1.5 for a third of the bytes. There the depth is
held to the least that any schedule has for these bytes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import numpy.typing as npt

from icectl.env import SystemEnv
from tests.benchmarks.bench_busy_table import Writer, rows_of
from tests.benchmarks.bench_compact_spark import Session
from tests.benchmarks.measure import median, verdict
from tests.builders.commits import set_properties
from tests.builders.merge_schedules import best_schedule
from tests.builders.rows import head, live_entries
from tests.spark.engine import why_skipped

ROOT = Path(__file__).parents[2]
FILES, FILES_OF_BATCH, VALUES = 200, 10, 10**12
RANGES, PART, ROUNDS = 10, 0.001, 12
MOST_BYTES, MOST_DEPTH, MOST_SCAN, MOST_OVER_LEAST = 0.35, 1.5, 1.2, 1.1
SORT = ("--strategy", "sort", "--sort-order", "id")
Keys = npt.NDArray[np.int64]


def icectl(*words: str) -> dict[str, Any]:
    """The result of a command."""
    line = [sys.executable, "-m", "icectl", *words, "--json"]
    told = subprocess.run(line, capture_output=True, text=True, check=True, cwd=ROOT)
    result: dict[str, Any] = json.loads(told.stdout)["result"]
    return result


@dataclass
class Kept:
    """One copy of the table, and what its runs have told."""

    directory: Path
    options: Sequence[str]
    rewritten: list[int] = field(default_factory=list)
    depths: list[float] = field(default_factory=list)

    def begin(self) -> None:
        """Make an empty table."""
        self.writer = Writer(self.directory, 2)
        self.writer.create()

    def add(self, files: Sequence[Keys]) -> None:
        """Append files."""
        for ids in files:
            self.writer.commit(0, rows_of(ids, ids % 7), np.arange(0))

    def run(self) -> None:
        """Sort, and note what that took."""
        done = icectl("compact", str(self.directory), *self.options, "--engine", "local", "--yes")
        self.rewritten.append(done["rewritten_bytes"])
        view = icectl("inspect", str(self.directory), "clustering", "--columns", "id")
        self.depths.append(view["columns"][0]["average_depth"])

    def opened(self, low: int, high: int) -> tuple[int, int]:
        """Files that may have values of a range, and their bytes."""
        files = [entry["data_file"] for entry in live_entries(head(self.directory))]
        sizes = [
            file["file_size_in_bytes"]
            for file in files
            if _bound(file["lower_bounds"]) <= high and _bound(file["upper_bounds"]) >= low
        ]
        return len(sizes), sum(sizes)


def _bound(bounds: Sequence[dict[str, Any]]) -> int:
    return next(int.from_bytes(one["value"], "little") for one in bounds if one["key"] == 1)


def batch(random: np.random.Generator, rows: int, *, is_local: bool) -> list[Keys]:
    """The ids of a batch."""
    low, width = (int(random.integers(9 * VALUES // 10)), VALUES // 10) if is_local else (0, VALUES)
    return [random.integers(low, low + width, rows) for _ in range(FILES_OF_BATCH)]


def scans(
    spark: Session, kept: Sequence[Kept], ranges: Sequence[tuple[int, int]]
) -> tuple[list[float], float]:
    """Processor seconds of all ranges on each table, and the ratio: medians of some rounds.

    Each round reads both tables; which comes first alternates.
    """
    seconds: list[list[float]] = [[] for _ in kept]
    for number in range(ROUNDS + 1):
        pairs = list(zip(seconds, kept, strict=True))
        for told, one in pairs if number % 2 else reversed(pairs):
            name, total = one.directory.name, 0.0
            for low, high in ranges:
                where = f"id BETWEEN {low} AND {high}"
                sql = f"SELECT count(*), max(name) FROM peer.db.{name} WHERE {where}"
                total += spark.ask(do="sql", sql=sql).cpu_seconds
            if number:
                told.append(total)
    ratios = [part / whole for part, whole in zip(*seconds, strict=True)]
    return [median(told) for told in seconds], median(ratios)


def bench(folder: Path, batches: int, rows: int, spark: Session | None, *, is_local: bool) -> bool:
    """One kind of batches; whether the targets are reached."""
    name, random = "local" if is_local else "spread", np.random.default_rng(11)
    place = folder / "db"
    kept = [
        Kept(place / f"{name}_where_files_overlap", SORT),
        Kept(place / f"{name}_whole", (*SORT, "--rewrite-all")),
    ]
    first = [random.integers(0, VALUES, rows) for _ in range(FILES)]
    for one in kept:
        one.begin()
        one.add(first[:1])
        size = live_entries(head(one.directory))[0]["data_file"]["file_size_in_bytes"]
        properties = {"write.target-file-size-bytes": str(size)}
        set_properties(one.directory, SystemEnv(), properties)
        one.add(first[1:])
        one.run()
    for _ in range(batches):
        files = batch(random, rows, is_local=is_local)
        for one in kept:
            one.add(files)
            one.run()
    part, whole = kept
    lows = random.integers(0, int(VALUES * (1 - PART)), RANGES).tolist()
    ranges = [(low, low + int(VALUES * PART)) for low in lows]
    opened = [[one.opened(*ends) for ends in ranges] for one in kept]
    for one, found in zip(kept, opened, strict=True):
        files, size = (sum(row[at] for row in found) for at in (0, 1))
        print(
            f"{one.directory.name}: {sum(one.rewritten) / 1e6:.0f} MB rewritten, "
            f"{sum(one.rewritten[1:]) / 1e6:.0f} after the first run; depth "
            f"{np.mean(one.depths[1:]):.2f}, at most {max(one.depths[1:]):.2f}, last "
            f"{one.depths[-1]:.2f}; {files} files, {size / 1e6:.1f} MB in {RANGES} ranges"
        )
    ratio = sum(part.rewritten[1:]) / sum(whole.rewritten[1:])
    reached = [verdict(f"{name}, bytes rewritten of those of full sorts", ratio, MOST_BYTES)]
    depth = float(np.mean(part.depths[1:]) / np.mean(whole.depths[1:]))
    if is_local:
        reached.append(verdict(f"{name}, depth over that of full sorts", depth, MOST_DEPTH))
    else:
        prices = (0.0, 0.6, 0.7, 0.75)
        schedules = [best_schedule(FILES // FILES_OF_BATCH, batches, price) for price in prices]
        least = min(mean for part, mean in schedules if part <= ratio)
        over = float(np.mean(part.depths[1:])) / least
        print(f"{name}, depth over that of full sorts: {depth:.2f}")
        reached.append(verdict(f"{name}, depth over the least of any", over, MOST_OVER_LEAST))
    if spark is not None:
        seconds, ratio = scans(spark, kept, ranges)
        shown = ", ".join(f"{one:.2f}" for one in seconds)
        print(f"{name}, Spark's processor seconds of {RANGES} ranges: {shown}")
        reached.append(verdict(f"{name}, Spark's range scans over full sorts", ratio, MOST_SCAN))
    return all(reached)


def main() -> int:
    """Print the figures; 1 if a target is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--rows", type=int, default=8_000)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        spark = None
        if skipped := why_skipped():
            print(f"without Spark: {skipped}")
        else:
            peer = str(ROOT / "tests/peers/spark_rewrites.py")
            jar = os.environ["ICECTL_TEST_SPARK_JAR"]
            spark = stack.enter_context(Session(peer, jar, str(folder)))
        reached = [
            bench(folder, options.batches, options.rows, spark, is_local=is_local)
            for is_local in (False, True)
        ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
