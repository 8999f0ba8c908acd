"""Start: `icectl --help` and `inspect` of a small table against `pyiceberg --help`.

The table in a directory, and by its name in a database and behind a REST server, which is in this
process: its answers are not counted.

python tests/benchmarks/bench_startup.py

`inspect` also where ICECTL_TEST_SPARK_PYTHON names a Python that has pandas (tests/run.sh): what an
installation with `[spark]` takes, beside one without.
"""

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.measure import Run, cpu_ratio, in_turn, median, process, verdict
from tests.builders.table_builder import filled_table
from tests.catalogs.rest_fake import TABLE, fake
from tests.catalogs.server import NAME
from tests.catalogs.sql_servers import sqlite_server

LIMITS = {
    "icectl --help": 0.3, "icectl inspect DIR": 0.75, "icectl inspect DIR snapshots": 0.68,
    "icectl inspect SQLITE": 0.75, "icectl inspect SQLITE snapshots": 0.7,
    "icectl inspect REST": 0.85, "icectl inspect REST snapshots": 0.8,
}  # fmt: skip
"""Of the processor time of `pyiceberg --help`: what plain imports take, and some more.

numpy, pyarrow, typer and the standard library take 0.35; the rest is mostly dataclasses.
"""


def main() -> int:
    """Print the ratios of processor time; 1 when a target is missed."""
    with tempfile.TemporaryDirectory() as folder, sqlite_server(Path(folder)) as database:
        table = filled_table(database.warehouse / "small", range(100))
        table.delete_rows([3, 4])
        newest = max(table.directory.glob("metadata/*.json"))
        database.register("small", str(newest))
        with fake(newest) as rest:
            assert rest.server is not None
            os.environ["PYICEBERG_CATALOG__C__URI"] = rest.server.uri
            os.environ[f"PYICEBERG_CATALOG__{NAME}__URI"] = database.properties["uri"]
            by_name = ".".join((NAME, *database.namespace, "small"))
            found = measured({"DIR": table.location, "SQLITE": by_name, "REST": TABLE})
    for name, runs in found.items():
        print(
            f"{name}: {median([run.wall_seconds for run in runs]):.3f} s "
            f"({median([run.cpu_seconds for run in runs]):.3f} s processor)"
        )
    peer, beside_pandas = found["pyiceberg --help"], found["icectl inspect DIR with pandas"]
    reached = [
        verdict(f"{name} / pyiceberg --help", cpu_ratio(found[name], peer), limit)
        for name, limit in LIMITS.items()
    ]
    without = cpu_ratio(beside_pandas, found["icectl inspect DIR"])
    reached.append(verdict("icectl inspect with / without pandas", without, 1.15))
    return 0 if all(reached) else 1


def measured(tables: Mapping[str, str]) -> Mapping[str, Sequence[Run]]:
    """Runs of each subject by its name; `tables` are what TABLE is, by what it shows as."""
    bin_folder = Path(sys.executable).parent
    icectl = str(bin_folder / "icectl")
    subjects = {
        "pyiceberg --help": [str(bin_folder / "pyiceberg"), "--help"],
        "icectl --help": [icectl, "--help"],
    }
    for kind, table in tables.items():
        subjects[f"icectl inspect {kind}"] = [icectl, "inspect", table]
        subjects[f"icectl inspect {kind} snapshots"] = [icectl, "inspect", table, "snapshots"]
    with_pandas = os.environ.get("ICECTL_TEST_SPARK_PYTHON", sys.executable)
    subjects["icectl inspect DIR with pandas"] = [
        with_pandas, "-m", "icectl", "inspect", tables["DIR"]
    ]  # fmt: skip
    runs = in_turn(9, *(partial(process, command) for command in subjects.values()))
    return dict(zip(subjects, runs, strict=True))


if __name__ == "__main__":
    sys.exit(main())
