"""Start: `icectl --help` and `inspect` of a small table against `pyiceberg --help`.

python tests/benchmarks/bench_startup.py

`inspect` also where ICECTL_TEST_SPARK_PYTHON names a Python that has pandas (tests/run.sh): what an
installation with `[spark]` takes, beside one without.
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.measure import cpu_ratio, in_turn, median, process, verdict
from tests.builders.table_builder import TableBuilder


def main() -> int:
    """Print the ratios of processor time; 1 when a target is missed."""
    bin_folder = Path(sys.executable).parent
    icectl, pyiceberg = str(bin_folder / "icectl"), str(bin_folder / "pyiceberg")
    with tempfile.TemporaryDirectory() as folder:
        table = TableBuilder(Path(folder) / "small")
        table.append(range(100))
        table.delete_rows([3, 4])
        with_pandas = os.environ.get("ICECTL_TEST_SPARK_PYTHON", sys.executable)
        peer, help_, inspect, snapshots, beside_pandas = in_turn(
            9,
            lambda: process([pyiceberg, "--help"]),
            lambda: process([icectl, "--help"]),
            lambda: process([icectl, "inspect", table.location]),
            lambda: process([icectl, "inspect", table.location, "snapshots"]),
            lambda: process([with_pandas, "-m", "icectl", "inspect", table.location]),
        )
    for name, runs in (
        ("pyiceberg --help", peer),
        ("icectl --help", help_),
        ("icectl inspect", inspect),
        ("icectl inspect snapshots", snapshots),
        (f"icectl inspect by {with_pandas}", beside_pandas),
    ):
        print(
            f"{name}: {median([run.wall_seconds for run in runs]):.3f} s "
            f"({median([run.cpu_seconds for run in runs]):.3f} s processor), "
            f"{max(run.peak_bytes for run in runs) >> 20} MiB"
        )
    reached = [
        verdict("icectl --help / pyiceberg --help", cpu_ratio(help_, peer), 0.3),
        verdict("icectl inspect / pyiceberg --help", cpu_ratio(inspect, peer), 0.7),
        verdict("icectl inspect snapshots / pyiceberg --help", cpu_ratio(snapshots, peer), 0.5),
        verdict("icectl inspect with / without pandas", cpu_ratio(beside_pandas, inspect), 1.15),
    ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
