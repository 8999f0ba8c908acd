"""What a compaction on Spark costs, by icectl and by Iceberg's own procedure, shape by store.

    python tests/benchmarks/bench_spark_matrix.py [STORE...] [--large N] [--small N] [--deletes N]

Shapes: files of 5.5 MB, of 50 KB, and of 50 KB with a position delete file each and an equality
delete file for every tenth; N says of how many, 0 of none, else it is COUNTS. Stores: `local`,
`s3`, and `s3-late`, which takes 30 ms to answer. All of it takes some 12 minutes of two cores.

Both run in one warm session each, on all cores of this machine. Printed as the table of
docs/performance.md: wall and processor seconds, the peak memory of all processes of a session
together and of the largest worker of Python, and what was read and written, in MB: on S3 what
crossed the wire. Iceberg's procedure needs its bundle for AWS there, and a driver for its catalog,
which tests/run.sh fetches.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks import compact_tables
from tests.benchmarks.bench_stores import SECONDS, delaying
from tests.benchmarks.measure import Process, forget_peak, running_below
from tests.spark.engine import lasting_environment, why_skipped
from tests.stores import s3_servers
from tests.stores.s3_servers import KEY, SECRET

ROOT = Path(__file__).resolve().parents[2]
LARGE_ROWS, SMALL_ROWS, DELETED = 125_000, 1_100, 50
TARGETS = {"large": 90 << 20, "small": 512 << 20, "deletes": 512 << 20}
COUNTS = {
    "local": {"large": 64, "small": 20_000, "deletes": 2_000},
    "s3": {"large": 32, "small": 4_000, "deletes": 1_000},
    "s3-late": {"large": 12, "small": 1_000, "deletes": 500},
}
WARM_UP_FILES = 8
NONE = Process("", 0, 0)


@dataclass(frozen=True)
class Place:
    """A store: the folder of its tables on this machine, and how both reach them."""

    name: str
    folder: Path
    location: str
    options: dict[str, str]
    told: Counter[str] | None = None


@dataclass(frozen=True)
class Cost:
    """What one compaction took, bytes in MB."""

    seconds: float
    cpu_seconds: float
    peak: float
    worker: float
    read: float
    written: float

    @property
    def cells(self) -> str:
        """The figures as cells of a table."""
        figures = (self.seconds, self.cpu_seconds, self.peak, self.worker, self.read, self.written)
        return " | ".join(
            f"{one:,.0f}" if one >= 100 else f"{one:,.1f}" if one else "-" for one in figures
        )


class Session:
    """A process that answers requests, a line each."""

    def __init__(self, stack: ExitStack, *arguments: str) -> None:
        self._process = stack.enter_context(
            subprocess.Popen(
                [os.environ["ICECTL_TEST_SPARK_PYTHON"], *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=lasting_environment(),
                text=True,
            )
        )

    def ask(self, place: Place, **request: Any) -> Cost:
        """What the answer took, in all processes of the session."""
        pipe = self._process
        assert pipe.stdin is not None
        assert pipe.stdout is not None
        before = running_below(pipe.pid)
        for pid in before:
            forget_peak(pid)
        wire = Counter(place.told or {})
        pipe.stdin.write(json.dumps(request) + "\n")
        pipe.stdin.flush()
        line = pipe.stdout.readline()
        if not line:
            raise RuntimeError(f"{request} was not answered")
        after = running_below(pipe.pid)
        used = [(one, before.get(pid, NONE)) for pid, one in after.items()]
        workers = [one for pid, one in after.items() if pid != pipe.pid and one.name != "java"]
        if place.told is None:
            read = sum(one.read_bytes - old.read_bytes for one, old in used)
            written = sum(one.written_bytes - old.written_bytes for one, old in used)
        else:
            read, written = (place.told[key] - wire[key] for key in ("read", "written"))
        return Cost(
            json.loads(line)["seconds"],
            sum(one.cpu_seconds - old.cpu_seconds for one, old in used),
            sum(one.peak_bytes for one, _ in used) / 1e6,
            max((one.peak_bytes for one in workers), default=0) / 1e6,
            read / 1e6,
            written / 1e6,
        )


@contextmanager
def places(names: Sequence[str], folder: Path) -> Iterator[list[Place]]:
    """The stores that were asked for, those on S3 behind a proxy that counts."""
    found = [Place("local", folder / "db", str(folder / "db"), {})] if "local" in names else []
    with ExitStack() as stack:
        binary = s3_servers.program("versitygw")
        if binary is None and len(found) < len(names):
            print(s3_servers.why_missing("versitygw"))
        elif len(found) < len(names):
            server = stack.enter_context(s3_servers.versitygw(binary, folder))
            server.client.create_bucket(Bucket="bench")
            port = int(server.endpoint.rpartition(":")[2])
            for name, seconds in (("s3", 0.0), ("s3-late", SECONDS)):
                if name in names:
                    told: Counter[str] = Counter()
                    endpoint = f"http://127.0.0.1:{delaying(port, seconds, told)}"
                    options = {**server.options, "endpoint_url": endpoint}
                    tables = folder / "bench" / name
                    found.append(Place(name, tables, f"s3://bench/{name}", options, told))
        yield found


def built(place: Place, shape: str, count: int, name: str) -> Path:
    """A table of a shape in a store; its folder on this machine."""
    directory = place.folder / name
    directory.parent.mkdir(parents=True, exist_ok=True)
    has_deletes = shape == "deletes"
    compact_tables.build(
        directory,
        count,
        LARGE_ROWS if shape == "large" else SMALL_ROWS,
        deleted_a_file=DELETED if has_deletes else 0,
        equality_files=count // 10 if has_deletes else 0,
        location="" if place.name == "local" else f"{place.location}/{name}",
    )
    return directory


@contextmanager
def undone(directory: Path) -> Iterator[None]:
    """Remove what is written to a table meanwhile."""
    before = set(directory.rglob("*"))
    yield
    for path in set(directory.rglob("*")) - before:
        if path.is_file():
            path.unlink()


@dataclass(frozen=True)
class Both:
    """A session of icectl's, and one of Iceberg's; None where it can't reach the store."""

    ours: Session
    theirs: Session | None

    def costs(self, place: Place, shape: str, directory: Path) -> dict[str, Cost]:
        """What each takes to compact a table."""
        name, target = directory.name, TARGETS[shape]
        table = f"{place.location}/{name}"
        with undone(directory):
            options = place.options
            ours = self.ours.ask(place, table=table, target_bytes=target, options=options)
        if self.theirs is None:
            return {"icectl": ours}
        request: dict[str, Any] = {"do": "rewrite", "table": name}
        if place.told is not None:
            request["metadata"] = f"{table}/metadata/v1.metadata.json"
        wanted = {"target-file-size-bytes": target, "rewrite-all": "true"}
        with undone(directory):
            theirs = self.theirs.ask(place, **request, options=wanted)
        return {"icectl": ours, "rewrite_data_files": theirs}


def sessions(stack: ExitStack, place: Place, folder: Path, shapes: Sequence[str]) -> Both:
    """Start both, and warm them up on a little table of each shape."""
    ours = Session(stack, str(ROOT / "tests/benchmarks/spark_program.py"))
    peer = str(ROOT / "tests/peers/spark_rewrites.py")
    arguments = [peer, os.environ["ICECTL_TEST_SPARK_JAR"], str(folder)]
    jars = s3_jars()
    if place.told is None:
        both = Both(ours, Session(stack, *arguments))
    elif jars:
        access = place.options["endpoint_url"], KEY, SECRET
        both = Both(ours, Session(stack, *arguments, jars, *access))
    else:
        both = Both(ours, None)
    for shape in shapes:
        both.costs(place, shape, built(place, shape, WARM_UP_FILES, f"warm_{shape}"))
    return both


def s3_jars() -> str:
    """Return what Iceberg needs for S3, as a class path; empty where a part is missing."""
    bundle = os.environ.get("ICECTL_TEST_AWS_JAR", "")
    every = os.environ.get("ICECTL_TEST_REST_JARS", "").split(":")
    sqlite = next((jar for jar in every if "sqlite-jdbc" in jar), "")
    return f"{bundle}:{sqlite}" if bundle and sqlite else ""


def show(place: Place, shape: str, count: int, costs: dict[str, Cost]) -> None:
    """Print a line for each that compacted a table."""
    seconds = {name: cost.seconds for name, cost in costs.items()}
    for name, cost in costs.items():
        faster = max(seconds.values()) / cost.seconds
        times = f"{faster:.1f}" if len(costs) > 1 and faster > 1 else ""
        print(f"| {place.name} | {count:,} {shape} | {name} | {cost.cells} | {times} |", flush=True)


def main() -> int:
    """Print lines of figures for each shape in each store."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("stores", nargs="*", default=list(COUNTS))
    for shape in TARGETS:
        arguments.add_argument(f"--{shape}", type=int)
    given = arguments.parse_args()
    skipped = why_skipped()
    if skipped:
        print(f"skipped: {skipped}")
        return 0
    if not s3_jars():
        print("on S3 icectl alone: ICECTL_TEST_AWS_JAR and ICECTL_TEST_REST_JARS name no jars\n")
    print(
        "| store | files | | s | s of processors | MB at most | MB a worker | MB read | MB written "
        "| times as fast |\n" + "| --- " * 10 + "|"
    )
    with tempfile.TemporaryDirectory() as name, places(given.stores, Path(name)) as found:
        for place in found:
            counts = {
                shape: COUNTS[place.name][shape] if told is None else told
                for shape in TARGETS
                if (told := getattr(given, shape)) != 0
            }
            with ExitStack() as stack:
                both = sessions(stack, place, Path(name), list(counts))
                for shape, count in counts.items():
                    directory = built(place, shape, count, f"{shape}_files")
                    show(place, shape, count, both.costs(place, shape, directory))
    return 0


if __name__ == "__main__":
    sys.exit(main())
