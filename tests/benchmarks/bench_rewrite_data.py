"""Rewriting 64 Parquet files of 350 MB and 8 columns into 4, by the kernel that compact runs.

    python tests/benchmarks/bench_rewrite_data.py [ROWS_A_FILE]

Against a bare copy of the same files with pyarrow, in turn, two groups at a time on either side.
The copy checks nothing; the kernel projects columns by field id, counts metrics, hashes the rows
that it reads, and reads what it wrote again to hash that too. Then the memory of a group in a
process of its own, and 1,000 files of some 50 KB with position and equality deletes.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).parents[2]))

import pyarrow.parquet as pq

from icectl.format.file_names import data_file_name
from icectl.format.metrics_modes import metrics_modes
from icectl.format.partition import PartitionSpec
from icectl.rows.deleted_positions import PositionDeletes
from icectl.rows.equality_deletes import EqualityDeletes
from icectl.rows.partition_rows import Partition
from icectl.rows.read_data import SourceFile, written_schema
from icectl.rows.rewrite_data import (
    DeletesOfGroup,
    FileGroup,
    RewrittenGroup,
    TableColumns,
    rewrite_data,
)
from icectl.rows.write_data import FileOutputs, write_options
from tests.benchmarks.compact_tables import COLUMNS, SCHEMA, write_file, write_keys, write_positions
from tests.benchmarks.measure import call, in_turn, median, ratio, verdict

FILE_COUNT, GROUP_COUNT = 64, 4
SMALL_COUNT, SMALL_ROWS, EQUALITY_COUNT = 1_000, 1_100, 100
ROW_GROUP_BYTES = 128 << 20


def copy(paths: Sequence[Path], target: Path) -> None:
    """The bare copy: batches read and written, nothing else."""
    with pq.ParquetWriter(target, SCHEMA, compression="zstd") as writer:
        for path in paths:
            for batch in pq.ParquetFile(path).iter_batches(131_072):
                writer.write_batch(batch.cast(SCHEMA) if batch.schema != SCHEMA else batch)


def rewrite(
    paths: Sequence[Path], target: Path, row_count: int, deletes: DeletesOfGroup | None = None
) -> RewrittenGroup:
    numbers = count(1)

    def create(location: str) -> IO[bytes]:
        return Path(location).open("wb")

    def read(location: str) -> IO[bytes]:
        return Path(location).open("rb")

    outputs = FileOutputs(
        lambda _: str(target / data_file_name(0, 1, "bench", next(numbers))), create, read
    )
    group = FileGroup(
        tuple(SourceFile(str(path), "parquet", row_count, 1) for path in paths),
        sum(path.stat().st_size for path in paths),
        deletes or DeletesOfGroup(),
        TableColumns(written_schema(COLUMNS, 2), COLUMNS),
        PartitionSpec(0, ()),
        Partition(b"", ""),
    )
    options = write_options({}, 512 << 20, metrics_modes({}, COLUMNS, ()))
    return rewrite_data(group, options, outputs)


def in_groups(
    paths: Sequence[Path], work: Callable[[Sequence[Path], Path], object], target: Path
) -> None:
    """Run work on groups of files, two at a time."""
    size = len(paths) // GROUP_COUNT
    groups = [paths[start : start + size] for start in range(0, len(paths), size)]
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(work, group, target / str(number)) for number, group in enumerate(groups)
        ]
    for job in jobs:
        job.result()


def binpack(directory: Path, row_count: int) -> tuple[float, int]:
    """How many times as long as a bare copy the kernel takes, and the memory of one group."""
    source, ours, bare = (directory / name for name in ("source", "ours", "bare"))
    source.mkdir()
    bare.mkdir()
    for number in range(GROUP_COUNT):
        (ours / str(number)).mkdir(parents=True)
    paths = [
        write_file(source / f"{number:03}.parquet", number * row_count, row_count)
        for number in range(FILE_COUNT)
    ]
    size = sum(path.stat().st_size for path in paths)
    found, other = in_turn(
        5,
        lambda: call(
            lambda: in_groups(paths, lambda one, target: rewrite(one, target, row_count), ours)
        ),
        lambda: call(lambda: in_groups(paths, copy, bare)),
    )
    seconds = [median([run.wall_seconds for run in runs]) for runs in (found, other)]
    cpu = [median([run.cpu_seconds for run in runs]) for runs in (found, other)]
    print(
        f"{len(paths)} files of {size / 1e6:,.0f} MB in all: {seconds[0]:.2f} s, of processors "
        f"{cpu[0]:.2f} s; bare copy {seconds[1]:.2f} s, {cpu[1]:.2f} s"
    )
    command = [sys.executable, __file__, "--group", str(source), str(ours / "0"), str(row_count)]
    peak = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return ratio(found, other), peak


def group_alone(source: Path, target: Path, row_count: int) -> None:
    """Rewrite one group, and print how much more memory that took than having started."""
    before = peak_bytes()
    rewrite(sorted(source.iterdir())[: FILE_COUNT // GROUP_COUNT], target, row_count)
    print(peak_bytes() - before)


def peak_bytes() -> int:
    """The most memory that this process ever had; getrusage would tell that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def small_files(directory: Path) -> None:
    """Print what a small file costs, bare, alone, and with deletes of both kinds."""
    source, target = directory / "small", directory / "one"
    source.mkdir()
    target.mkdir()
    paths = [
        write_file(source / f"{number:05}.parquet", number * SMALL_ROWS, SMALL_ROWS)
        for number in range(SMALL_COUNT)
    ]
    deletes = write_deletes(directory, paths)
    subjects = {
        "bare copy": lambda: copy(paths, target / "copy"),
        "rewritten": lambda: rewrite(paths, target, SMALL_ROWS),
        "rewritten with deletes": lambda: rewrite(paths, target, SMALL_ROWS, deletes),
    }
    measured = in_turn(3, *(lambda one=one: call(one) for one in subjects.values()))
    for name, runs in zip(subjects, measured, strict=True):
        seconds = median([run.wall_seconds for run in runs])
        print(f"{SMALL_COUNT} files of 50 KB, {name}: {seconds / SMALL_COUNT * 1000:.2f} ms a file")


def write_deletes(directory: Path, paths: Sequence[Path]) -> DeletesOfGroup:
    """A position delete file for each data file, and equality deletes for all of them."""
    positions, equality = [], []
    for number, path in enumerate(paths):
        made = write_positions(directory / f"p{number}.parquet", str(path), SMALL_ROWS, 50)
        file = SourceFile(str(made), "parquet", 50, 2)
        positions.append(PositionDeletes(file, frozenset([str(path)])))
    every = frozenset(map(str, paths))
    for number in range(EQUALITY_COUNT):
        made = write_keys(directory / f"e{number}.parquet", number, SMALL_COUNT * SMALL_ROWS, 500)
        file = SourceFile(str(made), "parquet", 500, 2)
        equality.append(EqualityDeletes(file, (1,), every))
    return DeletesOfGroup(tuple(positions), (), tuple(equality))


def main() -> int:
    """Print the figures; the exit code says whether the targets are reached."""
    if sys.argv[1:2] == ["--group"]:
        group_alone(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
        return 0
    row_count = int(sys.argv[1]) if len(sys.argv) > 1 else 125_000
    with tempfile.TemporaryDirectory() as name:
        times, peak = binpack(Path(name), row_count)
        print(f"memory of one group: {peak / 1e6:,.0f} MB")
        reached = [
            verdict("times a bare copy", times, 1.3),
            verdict("row groups in memory", peak / ROW_GROUP_BYTES, 4),
        ]
        small_files(Path(name))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
