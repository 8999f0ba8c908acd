"""`icectl validate`: its rules against `icectl inspect`, its look-ups against a bare walk.

python tests/benchmarks/bench_validate.py [MANIFESTS [ENTRIES]]     default 1000 manifests of 1000
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.big_table import build
from tests.benchmarks.measure import Run, call, in_turn, median, process, ratio, verdict
from tests.builders.table_builder import TableBuilder

FILES = 20_000


def walk(directory: Path) -> int:
    """Bytes of all files below a directory: what any look at them costs."""
    total, waiting = 0, [str(directory)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_size
    return total


def rules(icectl: str, folder: Path, manifests: int, count: int) -> list[bool]:
    """Level metadata: every rule over every entry, against counting them."""
    table = folder / "big"
    build(table, manifests, count)
    checked, inspected = in_turn(
        3,
        lambda: process([icectl, "validate", str(table), "--level", "metadata", "--json"]),
        lambda: process([icectl, "inspect", str(table), "--json"]),
    )
    peak = max(run.peak_bytes for run in checked)
    print(
        f"{manifests * count:,} entries: "
        f"validate {median([r.wall_seconds for r in checked]):.2f} s, "
        f"inspect {median([r.wall_seconds for r in inspected]):.2f} s"
    )
    return [
        verdict("validate --level metadata / inspect", ratio(checked, inspected), 3.0),
        verdict("peak memory in GiB", peak / (1 << 30), 1.5),
    ]


def look_ups(icectl: str, folder: Path) -> list[bool]:
    """Level files against level metadata and a bare walk over the same files."""
    table = TableBuilder(folder / "files", partitioning="identity")
    for start in range(0, FILES, 4000):
        table.append(range(start, start + 4000), files=1334)
    place = str(folder / "files")

    def looked() -> Run:
        return process([icectl, "validate", place, "--level", "files", "--json"])

    def ruled() -> Run:
        return process([icectl, "validate", place, "--level", "metadata", "--json"])

    with_files, without, walked = in_turn(
        3, looked, ruled, lambda: call(lambda: walk(folder / "files"))
    )
    files = len(table.live())
    spent = median(
        [a.wall_seconds - b.wall_seconds for a, b in zip(with_files, without, strict=True)]
    )
    bare = median([run.wall_seconds for run in walked])
    print(f"{files:,} files: looking for them {spent:.2f} s, a bare walk {bare:.2f} s")
    return [verdict("looking for files / a walk with sizes", spent / bare, 8.0)]


def main() -> int:
    """Print ratios and memory; 1 when a target is missed."""
    manifests, count = (int(argument) for argument in [*sys.argv[1:], "1000", "1000"][:2])
    icectl = str(Path(sys.executable).parent / "icectl")
    with tempfile.TemporaryDirectory() as folder:
        reached = rules(icectl, Path(folder), manifests, count)
        reached += look_ups(icectl, Path(folder))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
