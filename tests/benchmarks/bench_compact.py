"""`icectl compact --engine local` as a whole process, on tables of real rows.

    python tests/benchmarks/bench_compact.py [binpack] [deletes] [small] [sort] [memory] [wide]

binpack: 64 files of 310 MB and 8 columns become 4, in turn with a bare copy of the same files with
pyarrow in two threads, a process of its own too. The copy checks nothing; compact plans, projects
columns by field id, counts metrics, hashes the rows that it reads, reads what it wrote again to
hash that too, and commits. deletes: 2,000 files, each with a position delete file, and 200 equality
delete files. small: 10,000 files of 50 KB. sort: one group of several times what a worker sorts in
memory. memory: 8 files of 60 MB, and of 490. wide: 8 files of values of 4 KB, and of 1 MB.
Memory is that of the largest process. One group has the threads of all processors, and may take
memory for each.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import pyarrow.parquet as pq

from tests.benchmarks.compact_tables import SCHEMA, build
from tests.benchmarks.measure import Run, in_turn, median, process, ratio, verdict

ICECTL = [sys.executable, "-m", "icectl"]
FILE_COUNT, GROUP_COUNT, ROWS = 64, 4, 112_000
MOST_GIB_A_CORE = 0.6
LIMIT_BYTES = 2 << 30


class Table:
    """A table that can be compacted again and again."""

    def __init__(self, directory: Path, paths: Sequence[Path]) -> None:
        self.directory = directory
        self.paths = paths
        self._kept = {path for path in directory.rglob("*") if path.is_file()}

    def compact(self, *options: str) -> Run:
        """Put everything back as it was, then compact."""
        for path in set(self.directory.rglob("*")) - self._kept:
            if path.is_file():
                path.unlink()
        command = ["compact", str(self.directory), "--engine", "local", "--no-progress"]
        return process([*ICECTL, *command, *options])


def copy_files(target: Path, paths: Sequence[Path]) -> None:
    """The bare copy: batches read and written, nothing else."""
    with pq.ParquetWriter(target, SCHEMA, compression="zstd") as writer:
        for path in paths:
            for batch in pq.ParquetFile(path).iter_batches(131_072):
                writer.write_batch(batch)


def copy(source: Path, target: Path) -> None:
    """Copy a table's data files into GROUP_COUNT files, two at a time."""
    paths = sorted((source / "data").glob("?????.parquet"))
    size = len(paths) // GROUP_COUNT
    groups = [paths[start : start + size] for start in range(0, len(paths), size)]
    targets = [target / f"{number}.parquet" for number in range(len(groups))]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(copy_files, targets, groups))


def told(name: str, runs: Sequence[Run]) -> None:
    """Print what runs took."""
    wall, cpu = (
        median([run.wall_seconds for run in runs]), median([run.cpu_seconds for run in runs]),
    )  # fmt: skip
    peak = max(run.peak_bytes for run in runs)
    print(f"{name}: {wall:.2f} s, of processors {cpu:.2f} s, {peak / 1e6:,.0f} MB")


def small_enough(peak_bytes: int) -> bool:
    """Judge the memory of a process that works on one group with all processors."""
    a_core = peak_bytes / 2**30 / (os.cpu_count() or 1)
    return verdict("GiB of the largest process a core", a_core, MOST_GIB_A_CORE)


def binpack(directory: Path) -> bool:
    """64 files into 4, against a bare copy."""
    table = Table(directory / "t", build(directory / "t", FILE_COUNT, ROWS))
    target = directory / "copy"
    target.mkdir()
    bare = [sys.executable, __file__, "--copy", str(table.directory), str(target)]
    found, other = in_turn(
        5, lambda: table.compact("--target-file-size", "80MB"), lambda: process(bare)
    )
    told("64 files of 310 MB into 4", found)
    told("bare copy", other)
    cpu = median([one.cpu_seconds / two.cpu_seconds for one, two in zip(found, other, strict=True)])
    print(f"times the processor time of a bare copy: {cpu:.2f}")
    return verdict("times a bare copy", ratio(found, other), 1.3)


def deletes(directory: Path) -> bool:
    """2,000 files with 2,200 delete files."""
    paths = build(directory / "t", 2_000, 1_100, deleted_a_file=50, equality_files=200)
    run = Table(directory / "t", paths).compact()
    told("2,000 files with 2,000 position and 200 equality delete files", [run])
    return verdict("GiB of a process", run.peak_bytes / 2**30, 2)


def small(directory: Path) -> bool:
    """10,000 files of 50 KB."""
    run = Table(directory / "t", build(directory / "t", 10_000, 1_100)).compact()
    told("10,000 files of 50 KB", [run])
    print(f"{run.wall_seconds / 10:.2f} ms a file")
    return True


def sort(directory: Path) -> bool:
    """About 1 GB of rows, sorted through runs on disk."""
    table = Table(directory / "t", build(directory / "t", FILE_COUNT, ROWS))
    peaks = []
    for options in (["--sort-order", "user_id"], ["--zorder", "user_id,price"]):
        run = table.compact(*options)
        told(" ".join(options), [run])
        peaks.append(run.peak_bytes)
    return small_enough(max(peaks))


def memory(directory: Path) -> bool:
    """Eight files into one, small ones and ones ten times as large."""
    peaks = []
    for number, row_count in enumerate([180_000, 1_800_000]):
        paths = build(directory / f"t{number}", 8, row_count)
        size = sum(path.stat().st_size for path in paths)
        run = Table(directory / f"t{number}", paths).compact("--target-file-size", "2GiB")
        told(f"8 files of {size / 1e6:,.0f} MB into one", [run])
        peaks.append(run.peak_bytes)
    return verdict("MiB more for ten times the bytes", (peaks[1] - peaks[0]) / 2**20, 512)


def wide(directory: Path) -> bool:
    """Eight files of wide values that come again into one, 400 MB each, as they come and sorted."""
    peaks = []
    for width in (4_000, 1_000_000):
        place = directory / str(width)
        table = Table(place, build(place, 8, 400_000_000 // width, width=width))
        for options in ([], ["--sort-order", "name, id"]):
            run = table.compact("--target-file-size", "2GiB", "--rewrite-all", *options)
            told(f"8 files of values of {width:,} B {' '.join(options)}", [run])
            peaks.append(run.peak_bytes)
    return small_enough(max(peaks))


SUBJECTS: dict[str, Callable[[Path], bool]] = {
    "binpack": binpack, "deletes": deletes, "small": small, "sort": sort,
    "memory": memory, "wide": wide,
}  # fmt: skip


def main() -> int:
    """Print the figures; the exit code says whether the targets are reached."""
    if sys.argv[1:2] == ["--copy"]:
        copy(Path(sys.argv[2]), Path(sys.argv[3]))
        return 0
    reached = []
    for name in sys.argv[1:] or SUBJECTS:
        with tempfile.TemporaryDirectory() as directory:
            reached.append(SUBJECTS[name](Path(directory)))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
