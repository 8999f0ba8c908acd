"""`compact --method rewrite` beside DuckDB's copy of the same files, both with zstd at level 3.

    python tests/benchmarks/bench_rewrite.py [--scale PART] [--rounds N] [SHAPE ...]

Each is a whole process, in turn. 40 files of 540 MiB without partitions become one: `narrow` (six
columns), `wide` (120), `text` and `nested`; `-sorted` is the same by a column of text or numbers.
`deletes` is 800 small files with 400 position delete files, which DuckDB copies without them.
`merge` copies column chunks of the narrow ones. DuckDB checks nothing; compact hashes the rows that
it reads, and reads its new file again to hash those. Memory is that of all processes at a time.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icectl.files.parquet.schema import schema_from_arrow
from icectl.format.manifest import Content
from icectl.format.schema import Schema
from tests.benchmarks.compact_tables import commit, fields, file_entry, write_positions
from tests.benchmarks.measure import (
    IGNORED_VARIABLES,
    Run,
    cpu_ratio,
    in_turn,
    median,
    ratio,
    running_below,
    verdict,
)

ICECTL = [sys.executable, "-m", "icectl"]
BINPACK, SORT, GIB_A_CORE = 1.5, 1.3, 0.6
START_US = 1_700_000_000_000_000
WORDS = [f"{first}{last}" for first in ("ware", "sea", "old", "sun", "in") for last in range(400)]
SAMPLE_SECONDS = 0.05

Chance = np.random.Generator
Columns = Callable[[Chance, int, int], pa.Table]


def narrow(chance: Chance, first: int, row_count: int) -> pa.Table:
    """Six columns."""
    schema = fields(
        ("id", pa.int64(), 1), ("user_id", pa.int64(), 2), ("amount", pa.float64(), 3),
        ("at", pa.timestamp("us", "UTC"), 4), ("category", pa.string(), 5),
        ("name", pa.string(), 6),
    )  # fmt: skip
    at = START_US + chance.integers(0, 10**12, row_count)
    names = chance.integers(0, 2**31, row_count).astype("U10")
    columns = [
        np.arange(first, first + row_count),
        chance.integers(0, 2_000_000, row_count),
        np.round(chance.normal(100, 30, row_count), 2),
        pa.array(at, schema.types[3]),
        pa.array([f"city-{number:05}" for number in range(5_000)]).take(
            pa.array(chance.integers(0, 5_000, row_count))
        ),
        pa.array(np.char.add("name-", names)),
    ]
    return pa.table(columns, schema=schema)


def wide(chance: Chance, first: int, row_count: int) -> pa.Table:
    """120 columns: numbers, flags and short texts, a third of their values null."""
    kinds = [pa.int32(), pa.float64(), pa.string(), pa.int64(), pa.bool_()]
    named = [(f"c{at}", kinds[at % len(kinds)], at + 1) for at in range(120)]
    schema = fields(*named)
    words = pa.array(WORDS)
    columns = []
    for at, kind in enumerate(schema.types):
        numbers = chance.integers(0, 1_000 if at % 2 else 2**31, row_count)
        mask = chance.random(row_count) < (at % 3) / 6
        if kind == pa.string():
            column = words.take(pa.array(numbers % len(WORDS), mask=mask))
        elif kind == pa.bool_():
            column = pa.array(numbers % 2 == 0, mask=mask)
        else:
            column = pa.array(numbers.astype(kind.to_pandas_dtype()), kind, mask=mask)
        columns.append(column if at else pa.array(numbers.astype(np.int32)))
    return pa.table(columns, schema=schema)


def text(chance: Chance, first: int, row_count: int) -> pa.Table:
    """A number and two texts: a path that begins as many others, and some 80 bytes of words."""
    schema = fields(("id", pa.int64(), 1), ("path", pa.string(), 2), ("comment", pa.string(), 3))
    words = np.array(WORDS)
    numbers = chance.integers(0, 10**9, row_count).astype("U10")
    paths = np.char.add("https://example.com/shop/", np.char.add(words[first % 7], numbers))
    picked = words[chance.integers(0, len(words), (12, row_count))]
    comments = picked[0]
    for more in picked[1:]:
        comments = np.char.add(np.char.add(comments, " "), more)
    columns = [np.arange(first, first + row_count), paths, comments]
    return pa.table([pa.array(column) for column in columns], schema=schema)


def nested(chance: Chance, first: int, row_count: int) -> pa.Table:
    """A number, a struct with a text, a list of numbers, a map."""

    def inner(name: str, kind: pa.DataType, number: int, *, nullable: bool = True) -> pa.Field:
        return pa.field(name, kind, nullable, metadata={"PARQUET:field_id": str(number)})

    place = pa.struct([inner("city", pa.string(), 5), inner("zip", pa.int32(), 6)])
    list_ = pa.list_(inner("element", pa.int64(), 7))
    map_ = pa.map_(inner("key", pa.string(), 8, nullable=False), inner("value", pa.float64(), 9))
    schema = fields(("id", pa.int64(), 1), ("place", place, 2), ("seen", list_, 3),
                    ("scores", map_, 4))  # fmt: skip
    words = pa.array(WORDS)

    def lists(most: int) -> tuple[pa.Array, int]:
        offsets = np.append(0, np.cumsum(chance.integers(0, most, row_count))).astype(np.int32)
        return pa.array(offsets), int(offsets[-1])

    cities = words.take(pa.array(chance.integers(0, len(WORDS), row_count)))
    zips = pa.array(chance.integers(0, 99_999, row_count).astype(np.int32))
    at, count = lists(8)
    seen = pa.ListArray.from_arrays(at, pa.array(chance.integers(0, 10**6, count)), list_)
    at, count = lists(4)
    keys = words.take(pa.array(chance.integers(0, 50, count)))
    scores = pa.MapArray.from_arrays(at, keys, pa.array(chance.random(count)), map_)
    columns = [
        np.arange(first, first + row_count),
        pa.StructArray.from_arrays([cities, zips], fields=list(place)), seen, scores,
    ]  # fmt: skip
    return pa.table(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class Shape:
    """Files of some columns; how many rows each has in full size, and what rows are sorted by."""

    columns: Columns
    row_count: int
    order: str = ""
    file_count: int = 40
    delete_files: int = 0
    method: str = "rewrite"


SHAPES = {
    "narrow": Shape(narrow, 500_000),
    "narrow-sorted": Shape(narrow, 500_000, "name"),
    "narrow-sorted-number": Shape(narrow, 500_000, "user_id"),
    "wide": Shape(wide, 60_000),
    "wide-sorted": Shape(wide, 60_000, "c1"),
    "text": Shape(text, 270_000),
    "text-sorted": Shape(text, 270_000, "path"),
    "nested": Shape(nested, 350_000),
    "nested-sorted": Shape(nested, 350_000, "place.city"),
    "deletes": Shape(narrow, 6_000, file_count=800, delete_files=400),
    "deletes-sorted": Shape(narrow, 6_000, "name", file_count=800, delete_files=400),
    "merge": Shape(narrow, 500_000, method="merge"),
}


def write(columns: Columns, path: Path, number: int, row_count: int) -> None:
    table = columns(np.random.default_rng(number), number * row_count, row_count)
    pq.write_table(table, path, compression="zstd", row_group_size=max(row_count, 1))


def build(directory: Path, shape: Shape, scale: float) -> list[Path]:
    """Write a table; the paths of its data files."""
    (directory / "data").mkdir(parents=True)
    (directory / "metadata").mkdir()
    count = shape.file_count if shape.file_count <= 40 else int(shape.file_count * scale)
    row_count = int(shape.row_count * (scale if shape.file_count <= 40 else 1))
    paths = [directory / "data" / f"{number:05}.parquet" for number in range(count)]
    with ProcessPoolExecutor(2) as pool:
        every = [shape.columns] * count, paths, range(count), [row_count] * count
        list(pool.map(write, *every))
    columns = schema_from_arrow(pq.read_schema(paths[0]))
    commits = [[file_entry(path, columns, Content.DATA) for path in paths]]
    deletes = []
    for path in paths[: int(shape.delete_files * count / shape.file_count)]:
        made = path.with_name(f"{path.stem}-deletes.parquet")
        write_positions(made, str(path), row_count, row_count // 20)
        entry = file_entry(made, Schema(0, ()), Content.POSITION_DELETES)
        deletes.append(entry | {"referenced_data_file": str(path)})
    commit(directory, [*commits, deletes] if deletes else commits, str(directory), columns)
    return paths


def measured(command: Sequence[str]) -> Run:
    """Run a command to its end; its peak is the most that it and all below it had at a time."""
    environment = {key: value for key, value in os.environ.items() if key not in IGNORED_VARIABLES}
    start = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=environment)
        peak = 0
        ended = threading.Event()

        def watch() -> None:
            nonlocal peak
            while not ended.wait(SAMPLE_SECONDS):
                peak = max(peak, sum(map(resident, running_below(child.pid))))

        watching = threading.Thread(target=watch)
        watching.start()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        ended.set()
        watching.join()
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            errors.seek(0)
            raise RuntimeError(f"{command} exited with {child.returncode}: {errors.read()!r}")
    return Run(wall, usage.ru_utime + usage.ru_stime, peak)


def resident(pid: int) -> int:
    """The memory that a process has now that no file backs; 0 for one that ended."""
    try:
        lines = Path("/proc", str(pid), "status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


def compact(table: Path, shape: Shape, options: Sequence[str]) -> Run:
    """Restore a table as it was, then compact it."""
    kept = "v1.", "m1.", "m2.", "snap-1.", "snap-2."
    for path in (table / "metadata").iterdir():
        if not path.name.startswith(kept):
            path.unlink()
    for path in (table / "data").iterdir():
        if not path.name[:5].isdigit() or len(path.stem) not in (5, len("00000-deletes")):
            path.unlink()
    sort = ["--sort-order", shape.order] if shape.order else []
    return measured(
        [*ICECTL, "compact", str(table), "--engine", "local", "--method", shape.method, *sort,
         "--rewrite-all", "--target-file-size", "2GiB", "--no-progress", *options]
    )  # fmt: skip


def copy(table: Path, target: Path, shape: Shape, threads: int) -> Run:
    """DuckDB's copy of the data files into one."""
    order = f" order by {shape.order}" if shape.order else ""
    files = str(table / "data" / "?????.parquet")
    program = (
        f"import duckdb; duckdb.sql('set threads = {threads}'); "
        f"duckdb.sql(\"copy (select * from '{files}'{order}) to '{target}' "
        '(format parquet, compression zstd, compression_level 3)")'
    )
    return measured([sys.executable, "-c", program])


def told(name: str, runs: Sequence[Run]) -> None:
    wall, cpu = (
        median([run.wall_seconds for run in runs]), median([run.cpu_seconds for run in runs]),
    )  # fmt: skip
    peak = max(run.peak_bytes for run in runs)
    print(f"{name}: {wall:.2f} s, of processors {cpu:.2f} s, {peak / 2**20:,.0f} MiB")


def compare(name: str, folder: Path, scale: float, rounds: int, threads: int) -> bool:
    """One shape beside DuckDB's copy; whether targets are reached."""
    shape = SHAPES[name]
    paths = build(folder / "t", shape, scale)
    size = sum(path.stat().st_size for path in paths)
    target = folder / "copy.parquet"
    options = ["--concurrency", str(threads)]
    found, other = in_turn(
        rounds,
        lambda: compact(folder / "t", shape, options),
        lambda: copy(folder / "t", target, shape, threads),
    )
    told(f"{name}: {len(paths)} files of {size / 2**20:,.0f} MiB", found)
    told(f"{name} by DuckDB", other)
    print(f"{name}: times the processor time of DuckDB: {cpu_ratio(found, other):.2f}")
    peak = max(run.peak_bytes for run in found) / 2**30 / threads
    reached = [
        verdict(f"{name}: times DuckDB", ratio(found, other), SORT if shape.order else BINPACK),
        verdict(f"{name}: GiB a core", peak, GIB_A_CORE),
    ]
    return all(reached)


def main() -> int:
    """Print the figures; the exit code says whether the targets are reached."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("shapes", nargs="*", choices=[*SHAPES, []])
    chosen = parser.parse_args()
    reached = []
    for name in chosen.shapes or SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            values = chosen.scale, chosen.rounds, chosen.threads
            reached.append(compare(name, Path(folder), *values))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
