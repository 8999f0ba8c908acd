"""`icectl validate --level metadata` and `inspect` of a version 4 table, and of one of version 2.

    python tests/benchmarks/bench_v4_validate.py [BATCHES [LEAF]]     default 200 of 1000 files

The same number of files with statistics of 20 columns, in leaves of LEAF files, default 25,000, and
in manifests of 1,000. Whole processes in turn.
"""

import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[2]))

from icectl.entries.rows import Entries
from icectl.files.metadata_file import write_metadata
from tests.benchmarks import big_table, trees
from tests.benchmarks.measure import cpu_ratio, in_turn, median, process, verdict

DEFAULTS = ("200", "25000")


def build(directory: Path, batches: int, leaf: int) -> None:
    """Write a version 4 table; only its newest snapshot is listed."""
    (directory / "metadata").mkdir(parents=True)
    trees.LOCATION = str(directory)
    table = trees.TreeTable(trees.BUILDING | {"icectl.v4.leaf.max-entries": str(leaf)})
    for start in range(0, batches, trees.BATCH):
        numbers = range(start, min(start + trees.BATCH, batches))
        parts = [trees.new_files(number, trees.ENTRIES).table for number in numbers]
        table.append(Entries(pa.concat_tables(parts)))
    for location, content in table.store.contents.items():
        Path(location.removeprefix("file:")).write_bytes(content)
    metadata = write_metadata(table.metadata, compressed=False)
    (directory / "metadata" / "v1.metadata.json").write_bytes(metadata)


def main() -> int:
    """Print seconds and memory; 1 when version 4 takes far longer than version 2."""
    given = [*sys.argv[1:], *DEFAULTS[len(sys.argv) - 1 :]]
    batches, leaf = map(int, given)
    icectl = str(Path(sys.executable).parent / "icectl")
    with tempfile.TemporaryDirectory() as folder:
        new, old = Path(folder) / "new", Path(folder) / "old"
        # In a process of its own: the count of memory of a child starts with its parent's.
        with ProcessPoolExecutor(1) as pool:
            pool.submit(build, new, batches, leaf).result()
            pool.submit(big_table.build, old, batches, trees.ENTRIES).result()
        commands = [
            [icectl, *words, str(table)]
            for words in (["validate", "--level", "metadata"], ["inspect"])
            for table in (new, old)
        ]
        found = in_turn(3, *(partial(process, command) for command in commands))
    names = [f"{what}, version {version}" for what in ("validate", "inspect") for version in (4, 2)]
    for name, runs in zip(names, found, strict=True):
        print(
            f"{name}, {batches * trees.ENTRIES:,} files: "
            f"{median([run.wall_seconds for run in runs]):.2f} s "
            f"({median([run.cpu_seconds for run in runs]):.2f} s processor), "
            f"{max(run.peak_bytes for run in runs) >> 20} MiB"
        )
    reached = verdict("validate of version 4 / of version 2", cpu_ratio(found[0], found[1]), 2)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
