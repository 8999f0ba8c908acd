"""`icectl inspect` of 2,000 manifests of 50 files each, as streaming writers leave them.

python tests/benchmarks/bench_small_manifests.py [MANIFESTS [ENTRIES]]

Whole processes in turn: icectl, and PyIceberg reading the entries of the same manifests.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.big_table import build
from tests.benchmarks.measure import in_turn, median, process, ratio, verdict
from tests.benchmarks.peers import pyiceberg_entries

READ = "--read"


def main() -> int:
    """Print the ratio and the memory; 1 when a target is missed."""
    manifests, count = (int(argument) for argument in [*sys.argv[1:], "2000", "50"][:2])
    icectl = str(Path(sys.executable).parent / "icectl")
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "streamed"
        build(table, manifests, count)
        ours, theirs = in_turn(
            3,
            lambda: process([icectl, "inspect", str(table), "--json"]),
            lambda: process([sys.executable, __file__, READ, str(table)]),
        )
    for name, runs in (("icectl inspect", ours), ("PyIceberg's entries", theirs)):
        print(
            f"{name}: {median([run.wall_seconds for run in runs]):.2f} s "
            f"({median([run.cpu_seconds for run in runs]):.2f} s processor), "
            f"{max(run.peak_bytes for run in runs) >> 20} MiB"
        )
    reached = [
        verdict("times PyIceberg", ratio(theirs, ours), 10, at_most=False),
        verdict("peak memory in MiB", max(run.peak_bytes for run in ours) / (1 << 20), 250),
    ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == [READ]:
        paths = sorted(Path(sys.argv[2]).rglob("m*.avro"))
        print(sum(len(pyiceberg_entries(path)) for path in paths))
    else:
        sys.exit(main())
