"""Compactions on Spark against Spark's own ways to rewrite the same files, both warm, in turn.

    python tests/benchmarks/bench_compact_spark.py [SUBJECT...]

Subjects: 64 files of 350 MB into 4 (`350MB`) and three and nine times as many (`1GB`, `3GB`),
against a bare copy with pyarrow, Spark's read, coalesce and write, and `rewrite_data_files` of
Iceberg's Spark runtime; 10,000 files of 50 KB (`small`); 2,000 files with 2,000 position delete
and 200 equality delete files (`deletes`). Without any: the first two.

Needs the Spark peer that tests/run.sh sets up. Each session of Spark stays for all rounds, and the
first round is not counted. Memory is the peak of a worker of Python and of Java.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import pyarrow.parquet as pq

from tests.benchmarks.compact_tables import SCHEMA, build
from tests.benchmarks.measure import (
    Process,
    Run,
    call,
    in_turn,
    median,
    ratio,
    running_below,
    verdict,
)
from tests.spark.engine import lasting_environment, why_skipped

ROOT = Path(__file__).parents[2]
OUTPUT_BYTES = 90 << 20
LARGE_TARGET_BYTES = 512 << 20
WORKER_LIMIT_BYTES = 2 << 30


@dataclass(frozen=True)
class Subject:
    """A table, and what is asked of the figures."""

    file_count: int
    rows_a_file: int
    times: int = 1
    deleted_a_file: int = 0
    equality_files: int = 0
    rounds: int = 3
    target_bytes: int = LARGE_TARGET_BYTES
    plain_copies: bool = True
    least_over_coalesce: float | None = None


SUBJECTS = {
    "350MB": Subject(64, 125_000, target_bytes=OUTPUT_BYTES, least_over_coalesce=1.0),
    "1GB": Subject(64, 125_000, 3, rounds=2, target_bytes=OUTPUT_BYTES, least_over_coalesce=1.5),
    "3GB": Subject(64, 125_000, 9, rounds=1, target_bytes=OUTPUT_BYTES, least_over_coalesce=1.5),
    "small": Subject(10_000, 1_100, rounds=1, plain_copies=False),
    "deletes": Subject(
        2_000, 1_100, deleted_a_file=50, equality_files=200, rounds=1, plain_copies=False
    ),
}
FACTOR_OVER_REWRITE = 2.0


class RefusedStatement(Exception):
    """What Spark says of a statement that it could not carry out."""


class Session:
    """A process that answers requests, a line each."""

    def __init__(self, *arguments: str) -> None:
        python = os.environ["ICECTL_TEST_SPARK_PYTHON"]
        self._process = subprocess.Popen(
            [python, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=lasting_environment(),
            text=True,
        )
        self.answers: list[dict[str, Any]] = []
        self.peaks: dict[str, int] = {}
        """The most memory of a process, by its name."""

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def ask(self, **request: Any) -> Run:
        """What the answer says of its time, and what processors it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        before = running_below(self._process.pid)
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{request} was not answered")
        self.answers.append(json.loads(line))
        if error := self.answers[-1].get("error"):
            raise RefusedStatement(error)
        after = running_below(self._process.pid)
        for process in after.values():
            peak = max(self.peaks.get(process.name, 0), process.peak_bytes)
            self.peaks[process.name] = peak
        gone = Process("", 0, 0)
        cpu = [one.cpu_seconds - before.get(pid, gone).cpu_seconds for pid, one in after.items()]
        return Run(self.answers[-1]["seconds"], sum(cpu))


class Bench:
    """One subject: its table, and those who rewrite it."""

    def __init__(self, name: str, warehouse: Path) -> None:
        self.subject = SUBJECTS[name]
        self.table = warehouse / "db" / "ours"
        self.paths = build(
            self.table,
            self.subject.file_count,
            self.subject.rows_a_file,
            deleted_a_file=self.subject.deleted_a_file,
            equality_files=self.subject.equality_files,
            times=self.subject.times,
        )
        self.size_bytes = sum(path.stat().st_size for path in self.paths)
        self.output_count = max(1, ceil(self.size_bytes / self.subject.target_bytes))
        self.scratch = warehouse / "scratch"

    def ours(self, session: Session) -> Run:
        """icectl, with planning and commit."""
        return session.ask(table=str(self.table), target_bytes=self.subject.target_bytes)

    def copy(self) -> Run:
        """The bare copy, in two processes."""
        self.scratch.mkdir()
        size = ceil(len(self.paths) / self.output_count)
        groups = [self.paths[start : start + size] for start in range(0, len(self.paths), size)]
        targets = [self.scratch / f"{number}.parquet" for number in range(len(groups))]
        with ProcessPoolExecutor(2) as pool:
            list(pool.map(len, [()] * 2))
            start = used_by_children()
            run = call(lambda: list(pool.map(copy, groups, targets)))
        shutil.rmtree(self.scratch)
        return Run(run.wall_seconds, used_by_children() - start)

    def coalesce(self, session: Session) -> Run:
        """Spark's own read, coalesce and write."""
        run = session.ask(
            do="coalesce",
            files=[str(path) for path in self.paths],
            count=self.output_count,
            to=str(self.scratch),
        )
        shutil.rmtree(self.scratch)
        return run

    def rewrite(self, session: Session) -> Run:
        """Iceberg's procedure, with planning and commit, which is then undone."""
        kept = self.table.with_name("kept")
        shutil.copytree(self.table / "metadata", kept)
        before = set((self.table / "data").rglob("*"))
        options = {"target-file-size-bytes": self.subject.target_bytes, "rewrite-all": "true"}
        run = session.ask(do="rewrite", table=self.table.name, options=options)
        made = set((self.table / "data").rglob("*")) - before
        session.answers[-1]["files"] = len([path for path in made if path.suffix == ".parquet"])
        for path in made:
            path.unlink()
        shutil.rmtree(self.table / "metadata")
        kept.rename(self.table / "metadata")
        return run


def used_by_children() -> float:
    """Processor seconds of processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def copy(paths: Sequence[Path], target: Path) -> None:
    """Batches read and written, nothing else."""
    with pq.ParquetWriter(target, SCHEMA, compression="zstd") as writer:
        for path in paths:
            for batch in pq.ParquetFile(path).iter_batches(131_072):
                writer.write_batch(batch.cast(SCHEMA) if batch.schema != SCHEMA else batch)


def bench(name: str, directory: Path) -> list[bool]:
    """Print the figures of one subject; whether each target is reached."""
    made = Bench(name, directory)
    subject = made.subject
    print(f"{name}: {len(made.paths):,} files of {made.size_bytes / 1e6:,.0f} MB in all")
    with ExitStack() as stack:
        script = str(ROOT / "tests/benchmarks/spark_subject.py")
        peer = str(ROOT / "tests/peers/spark_rewrites.py")
        ours = stack.enter_context(Session(script))
        theirs = stack.enter_context(
            Session(peer, os.environ["ICECTL_TEST_SPARK_JAR"], str(directory))
        )
        others = {"rewrite_data_files": lambda: made.rewrite(theirs)}
        if subject.plain_copies:
            others |= {
                "bare copy": made.copy,
                "read, coalesce and write": lambda: made.coalesce(theirs),
            }
        measured = in_turn(subject.rounds, lambda: made.ours(ours), *others.values())
        found = dict(zip(["icectl", *others], measured, strict=True))
    for one, runs in found.items():
        seconds = median([run.wall_seconds for run in runs])
        cpu = median([run.cpu_seconds for run in runs])
        each = 1000 * seconds / len(made.paths)
        print(f"  {one}: {seconds:.1f} s, of processors {cpu:.1f} s, {each:.1f} ms a file")
    rewritten = next(one["files"] for one in reversed(theirs.answers) if "files" in one)
    print(f"  new files: {ours.answers[-1]['files']}, by rewrite_data_files {rewritten}")
    worker = max(peak for name, peak in ours.peaks.items() if name.startswith("python"))
    print(
        f"  memory: a worker {worker / 1e6:,.0f} MB, Java {ours.peaks['java'] / 1e6:,.0f} MB; the "
        f"others' Java {theirs.peaks['java'] / 1e6:,.0f} MB"
    )
    reached = [
        verdict(
            f"{name}: icectl, times as fast as rewrite_data_files",
            ratio(found["rewrite_data_files"], found["icectl"]),
            FACTOR_OVER_REWRITE,
            at_most=False,
        ),
        verdict(f"{name}: memory of a worker, of 2 GiB", worker / WORKER_LIMIT_BYTES, 1),
    ]
    if subject.least_over_coalesce is not None:
        print(f"  icectl takes {ratio(found['icectl'], found['bare copy']):.2f} of the bare copy")
        reached.append(
            verdict(
                f"{name}: icectl, times as fast as read, coalesce and write",
                ratio(found["read, coalesce and write"], found["icectl"]),
                subject.least_over_coalesce,
                at_most=False,
            )
        )
    return reached


def main() -> int:
    """Print the figures; the exit code says whether the targets are reached."""
    skipped = why_skipped()
    if skipped:
        print(f"skipped: {skipped}")
        return 0
    reached: list[bool] = []
    for name in sys.argv[1:] or ["350MB", "1GB"]:
        with tempfile.TemporaryDirectory() as directory:
            reached += bench(name, Path(directory))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
