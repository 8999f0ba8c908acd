"""Random tables of Iceberg's Spark, each compacted in many ways, and Spark on what has come of it.

    python -m tests.spark.random_tables --seed N --tables K [--ways A,B] [--keep FOLDER]

Table `i` of K is made from the seed N + i, which says all about it. Spark reads the rows of every
ref and snapshot, with what version 3 knows of a row, and counts rows by filters that are pushed
down; then icectl compacts the table, Spark reads and counts again, and `icectl validate` may find
nothing that it did not find before. Before the next way the table is put back. Tables that Spark
itself cannot make or read are counted, and prove nothing.

Needs what `tests/run.sh` sets up: ICECTL_TEST_SPARK_PYTHON and ICECTL_TEST_SPARK_JAR.
"""

import argparse
import io
import json
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.conftest import ROOT

WAYS = (
    "binpack", "sort", "zorder", "deletes-only", "branch", "output-spec", "spark-binpack",
    "spark-sort",
)  # fmt: skip
MERGES = ("merge", "merge-verified")
MERGE = ("--method", "merge", "--min-delete-ratio", "90%")
SMALL = ("--target-file-size", "20KB", "--min-input-files", "2")
REFUSALS = re.compile(
    "14: .*(the ORC file has timestamps before 1677-09-21 or after 2262-04-11"
    "|a row has no partition of spec .*(below the smallest|a truncation is not a valid decimal))",
    re.DOTALL,
)
"""What icectl may refuse to compact, as long as it changes nothing then."""

_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Sessions are short, and this costs a third less than what pays off over hours."""


@dataclass
class Server:
    """A process that answers each line with a line."""

    process: subprocess.Popen[str]
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, **command: Any) -> dict[str, Any]:
        """The answer to one command, of one thread at a time."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with self.lock:
            print(json.dumps(command), file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        assert line, "the session of Spark has ended: its log says why"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        self.process.communicate(timeout=60)  # closes both pipes


def serve(log: IO[str], module: str, *arguments: str) -> Server:
    """Start a module with the Python that has PySpark."""
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "TZ": "UTC", "JAVA_TOOL_OPTIONS": _JAVA,
        "XDG_CONFIG_HOME": "/nonexistent",
    }  # fmt: skip
    python = os.environ["ICECTL_TEST_SPARK_PYTHON"]
    process = subprocess.Popen(
        [python, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    return Server(process)


@dataclass(frozen=True)
class Failure:
    """What went wrong with a table in one way; `way` is empty before icectl has changed it."""

    seed: int
    way: str
    kind: str
    told: str


@dataclass
class Report:
    """What has come of one table; `upstream` is why Spark itself could not make or read it."""

    seed: int
    upstream: str = ""
    steps: list[str] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """What is said of each way that is refused."""
    unmerged: dict[str, list[str]] = field(default_factory=dict)
    """Why files stay in each way that merges."""
    failures: list[Failure] = field(default_factory=list)
    unreadable: int = 0
    filters: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, way: str, kind: str, told: str) -> None:
        self.failures.append(Failure(self.seed, way, kind, told))


@dataclass(frozen=True)
class Ended:
    """How a run of icectl ended."""

    code: int
    out: str
    err: str


def _without_settings() -> None:
    """In a process of its own: forget the settings of whoever runs the tests."""
    os.environ["XDG_CONFIG_HOME"] = "/nonexistent"


def run_line(arguments: Sequence[str]) -> Ended:
    """Run a command line in this process, which has imported all it needs."""
    from icectl.cli import app

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = app.main(arguments)
    return Ended(code, out.getvalue(), err.getvalue())


@dataclass
class Icectl:
    """Processes that run command lines of icectl, one after the other."""

    pool: ProcessPoolExecutor

    def __call__(self, *arguments: str) -> Ended:
        return self.pool.submit(run_line, (*arguments, "--json")).result()

    def findings(self, table: Path, *, every: bool = True) -> dict[tuple[str, str], str] | str:
        """What `validate` finds in every snapshot or the current one, the first of each rule and
        severity; text where it fails.
        """
        snapshots = ("--all-snapshots",) if every else ()
        done = self("validate", str(table), "--level", "data", *snapshots)
        if done.code not in (0, 4):
            return f"{done.code}: {said(done)}"
        found: dict[tuple[str, str], str] = {}
        for one in json.loads(done.out)["result"]["findings"]:
            found.setdefault((one["rule"], one["severity"]), str(one["message"])[:500])
        return found


def said(done: Ended) -> str:
    """The error of a run, or why groups of a compaction failed."""
    try:
        document = json.loads(done.out)
    except json.JSONDecodeError:
        return done.err[-3000:]
    failed = (document.get("result") or {}).get("failed")
    if failed:
        return "; ".join(one["reason"] for one in failed)
    error = document.get("error") or {}
    rule = f" ({error['rule']})" if error.get("rule") else ""
    return f"{error.get('message')}{rule}" if error.get("message") else done.err[-3000:]


@dataclass
class Matrix:
    """The sessions, and where tables lie; `filters` is how many are tried a table."""

    peer: Server
    engine: Server | None
    icectl: Icectl
    warehouse: Path
    filters: int = 40
    keep: Path | None = None

    def run(self, seed: int, ways: Sequence[str]) -> Report:
        """Make a table and compact it in each of the ways that it has work for."""
        report = Report(seed)
        name = f"t{seed}"
        table, saved = self.warehouse / "db" / name, self.warehouse / "saved" / name
        made = self._timed(report, "make", lambda: self.peer.ask(do="make", table=name, seed=seed))
        report.steps = made.get("steps", [])
        if "error" in made or "failed" in made:
            report.upstream = f"not made: {made.get('error') or made['failed']}"
            return report
        kept = self._timed(
            report, "keep", lambda: self.peer.ask(do="keep", table=name, filters=self.filters)
        )
        if "failed" in kept:
            report.upstream = f"not read: {kept['failed']}"
            return report
        report.unreadable, report.filters = len(kept["unreadable"]), kept["filters"]
        before = self._timed(report, "validate", lambda: self.icectl.findings(table))
        if isinstance(before, str):
            report.add("", "validate", before)
        shutil.copytree(table, saved, symlinks=True)
        lines = chosen_lines(made, seed)
        for at, way in enumerate(way for way in ways if way in lines):
            if at:
                shutil.rmtree(table)
                shutil.copytree(saved, table, symlinks=True)
            self._compact(report, table, way, lines[way], before)
            report.ways.append(way)
        if self.keep is not None and report.failures:
            shutil.rmtree(self.keep / name, ignore_errors=True)
            shutil.copytree(saved, self.keep / name, symlinks=True)
        shutil.rmtree(saved)
        shutil.rmtree(table)
        return report

    def _compact(
        self, report: Report, table: Path, way: str, line: dict[str, Any], before: Any
    ) -> None:
        """Compact the table in one way and compare it with what it was.

        What all ways leave as it is, is looked at after two of them.
        """
        every = way in ("binpack", "deletes-only")
        files = sum(1 for _ in table.rglob("*.metadata.json*"))
        error = self._timed(report, "compact", lambda: self._carried_out(report, table, way, line))
        is_unchanged = sum(1 for _ in table.rglob("*.metadata.json*")) == files
        if is_unchanged:
            report.idle.append(way)
            if REFUSALS.match(error):
                report.refused[way] = error
            if not error or REFUSALS.match(error):
                return
        if error:
            report.add(way, "compact", error)
        told = self._timed(
            report,
            "compare",
            lambda: self.peer.ask(
                do="compare", table=table.name, branch=line["branch"], every=every
            ),
        )
        if "failed" in told:
            report.add(way, "compare", told["failed"])
            return
        for one in told["rows"]:
            report.add(way, "rows", one)
        whole = way not in ("deletes-only", "branch", *MERGES)
        for one in told["filters"]:
            if whole or "before too" not in one:
                report.add(way, "filter", one)
        after = self._timed(
            report, "validate", lambda: self.icectl.findings(table, every=every or way == "branch")
        )
        if isinstance(after, str):
            report.add(way, "validate", after)
        elif not isinstance(before, str):
            for rule in sorted(after.keys() - before.keys()):
                report.add(way, "validate", f"{' '.join(rule)}: {after[rule]}")

    def _carried_out(self, report: Report, table: Path, way: str, line: dict[str, Any]) -> str:
        """What went wrong in a compaction; nothing, if nothing."""
        if way.startswith("spark-"):
            assert self.engine is not None
            order = {key: line[key] for key in ("sort_order", "zorder") if key in line}
            told = self.engine.ask(table=str(table), branch=line["branch"], **order)
            return f"{told['code']}: {told['error']}" if "error" in told else ""
        done = self.icectl("compact", str(table), "--engine", "local", "--yes", *line["options"])
        if way in MERGES and done.code == 0:
            stayed = json.loads(done.out)["result"]["not_merged"]
            if stayed:
                report.unmerged[way] = [one["reason"] for one in stayed]
        return "" if done.code == 0 else f"{done.code}: {said(done)}"

    def _timed(self, report: Report, what: str, work: Any) -> Any:
        start = time.monotonic()
        try:
            return work()
        finally:
            report.seconds[what] = report.seconds.get(what, 0) + time.monotonic() - start


def chosen_lines(made: dict[str, Any], seed: int) -> dict[str, dict[str, Any]]:
    """For each way that fits the table its branch and options."""
    rng = random.Random(seed)
    columns = [path for path in made["columns"] if not any("`" in part for part in path)]
    names = [".".join(f"`{part}`" for part in path) for path in columns]
    one, two, three = rng.sample(names, 3)
    keys = f"{one} desc, {two} asc nulls last"
    zorder = ",".join((two, three))
    everything = (*SMALL, "--rewrite-all")
    lines: dict[str, dict[str, Any]] = {
        "binpack": {"options": everything},
        "sort": {"options": (*everything, "--sort-order", keys)},
        "zorder": {"options": (*everything, "--zorder", zorder)},
        "merge": {"options": (*SMALL, *MERGE)},
        "merge-verified": {"options": (*SMALL, *MERGE, "--verify", "rows")},
        "output-spec": {
            "options": (*everything, "--output-spec-id", str(rng.choice(made["specs"])))
        },
        "spark-binpack": {},
        "spark-sort": {"sort_order": keys},
        "spark-zorder": {"zorder": zorder},
    }
    if made["version"] > 1:
        lines["deletes-only"] = {"options": (*SMALL, "--deletes-only", "--min-delete-files", "1")}
    if made["branch"]:
        lines["branch"] = {
            "options": (*everything, "--branch", made["branch"]),
            "branch": made["branch"],
        }
    return {way: {"branch": "main", **line} for way, line in lines.items()}


def run_matrix(
    seeds: Sequence[int],
    ways_of: Any,
    *,
    folder: Path,
    filters: int = 40,
    keep: Path | None = None,
    jobs: int = 2,
    tell: Any = None,
) -> list[Report]:
    """Put a table of each seed through the ways that `ways_of(seed)` says."""
    needs_engine = any(way.startswith("spark-") for seed in seeds for way in ways_of(seed))
    with ExitStack() as stack:
        log = stack.enter_context((folder / "spark.log").open("w"))
        jar = os.environ["ICECTL_TEST_SPARK_JAR"]
        peer = serve(log, "tests.peers.random_peer", jar, str(folder))
        stack.callback(peer.stop)
        engine = serve(log, "tests.peers.compact_server") if needs_engine else None
        if engine is not None:
            stack.callback(engine.stop)
        context = multiprocessing.get_context("spawn")
        processes = ProcessPoolExecutor(jobs, context, initializer=_without_settings)
        icectl = Icectl(stack.enter_context(processes))
        matrix = Matrix(peer, engine, icectl, folder, filters, keep)

        def one(seed: int) -> Report:
            report = matrix.run(seed, ways_of(seed))
            if tell is not None:
                tell(report)
            return report

        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        return list(pool.map(one, seeds))


def told_of(report: Report) -> str:
    """What has come of a table, why a way is refused, and how it was made where one failed."""
    times = " ".join(f"{key} {seconds:.1f}" for key, seconds in report.seconds.items())
    fate = "FAILED" if report.failures else "upstream" if report.upstream else "ok"
    ways = f"{len(report.ways)} ways, {len(report.refused)} refused"
    first = f"{fate} seed {report.seed}: {ways}, {report.filters} filters; {times}"
    if report.upstream:
        first += f"\n    {report.upstream[:1000]}"
    refused = [f"    {way}: refused: {why}" for way, why in report.refused.items()]
    refused += [f"    {way}: not merged: {whys}" for way, whys in report.unmerged.items()]
    failed = [f"    {one.way or 'before'}: {one.kind}: {one.told}" for one in report.failures]
    steps = ["    " + "; ".join(report.steps)] if failed else []
    return "\n".join([first, *refused, *failed, *steps])


def main(arguments: Sequence[str]) -> int:
    """Run tables by hand; 1 where one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="seed of the first table")
    parser.add_argument("--tables", type=int, default=10, help="how many tables")
    parser.add_argument(
        "--ways", default=",".join((*WAYS, *MERGES)), help="ways to compact, comma-separated"
    )
    parser.add_argument("--filters", type=int, default=40, help="filters a table")
    parser.add_argument("--jobs", type=int, default=2, help="tables at the same time")
    parser.add_argument("--keep", type=Path, help="folder for tables that failed, as they were")
    parser.add_argument("--folder", type=Path, help="folder of the tables, at which they are named")
    told = parser.parse_args(arguments)
    ways = told.ways.split(",")
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as made:
        folder = told.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        reports = run_matrix(
            range(told.seed, told.seed + told.tables),
            lambda _: ways,
            folder=folder,
            filters=told.filters,
            keep=told.keep,
            jobs=told.jobs,
            tell=lambda report: print(told_of(report), flush=True),
        )
    seconds = time.monotonic() - start
    failed = [report for report in reports if report.failures]
    runs = Counter(way for report in reports for way in report.ways)
    proofs = [report for report in reports if not report.upstream]
    print(f"{len(reports)} tables, {len(failed)} failed, {len(proofs) - len(failed)} passed, "
          f"{len(reports) - len(proofs)} that Spark could not make or read, "
          f"{sum(len(report.refused) for report in reports)} compactions refused, "
          f"{sum(bool(report.unmerged) for report in reports)} with files not merged")  # fmt: skip
    print(f"{sum(runs.values())} compactions: {dict(runs)}")
    print(f"{sum(report.filters * len(report.ways) for report in reports)} filters counted")
    print(f"{seconds:.0f} s, {seconds / max(1, len(reports)):.1f} s a table")
    kinds = Counter((one.kind, one.told.split(":")[0][:90]) for r in failed for one in r.failures)
    for (kind, what), count in kinds.most_common(20):
        print(f"{count} of {kind}: {what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
