"""Point look-ups in a table that icectl has compacted, against one that Spark has.

    python tests/benchmarks/bench_lookup.py [--rows N] [PROPERTIES ...]

Both have the same rows, files and properties before; `rewrite_data_files` and `compact` sort them
by `id`. Spark looks up a row by its `id`, by a `key` that only Bloom filters tell, and both where
there is none. So does DuckDB in the data files: bytes are those that it asks a file system for.
Spark tells the rows of row groups that it scanned, DuckDB row groups. Clock time counts nowhere.
Needs the Spark peer that tests/run.sh sets up.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import duckdb
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileOpener, LocalFileSystem

from tests.benchmarks.measure import call, verdict
from tests.spark.conftest import peer

MOST_BYTES, MOST_ROWS, MOST_CPU = 1.02, 1.0, 1.1
PROPERTIES: Mapping[str, Mapping[str, str]] = {
    "usual": {"write.distribution-mode": "none"},
    "filters": {
        "write.parquet.row-group-size-bytes": "2097152",
        "write.parquet.page-row-limit": "5000",
        "write.parquet.bloom-filter-enabled.column.key": "true",
    },
}


class CountedFile(LocalFileOpener):
    """A file that tells its file system how many bytes are read of it."""

    def read(self, *size: int) -> bytes:
        """Read, and count."""
        content: bytes = self.f.read(*size)
        self.fs.read_bytes += len(content)
        return content


class Counting(LocalFileSystem):
    """The local files, and how many bytes were read of them."""

    protocol = ("counted",)
    read_bytes = 0

    def _open(self, path: str, mode: str = "rb", **options: Any) -> CountedFile:
        return CountedFile(path.removeprefix("counted://"), mode, fs=self, **options)


def conditions(row_count: int) -> list[str]:
    """A row by its id, by its key, and both where there is none."""
    found = [hashlib.md5(str(number).encode()).hexdigest() for number in (row_count // 3, -1)]
    return [
        f"id = {row_count // 2}", f"id = {row_count + 5}", f"key = '{found[0]}'",
        f"key = '{found[1]}'",
    ]  # fmt: skip


def data_files(table: Path) -> list[Path]:
    """The live data files, as icectl tells them."""
    told = json.loads(icectl("inspect", str(table), "files", "--limit", "10000"))
    return [Path(file["file_path"].removeprefix("file:")) for file in told["result"]["rows"]]


def icectl(*words: str) -> str:
    command = [sys.executable, "-m", "icectl", *words, "--json"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def by_duckdb(table: Path, condition: str) -> dict[str, Any]:
    """Look rows up by DuckDB, in files that nothing has read before."""
    files = Counting(skip_instance_cache=True)
    paths = [f"counted://{path}" for path in data_files(table)]
    with duckdb.connect() as connection:
        connection.register_filesystem(files)
        connection.execute("SET threads = 1")
        connection.execute("PRAGMA enable_profiling = 'json'")
        query = f"SELECT * FROM read_parquet({paths}) WHERE {condition}"
        run = call(lambda: connection.execute(query).fetchall())
        profile = json.loads(connection.get_profiling_information())
    scanned = profile["query"]["total_row_groups_scanned"]
    return {"bytes": files.read_bytes, "scanned": scanned, "cpu_ns": int(run.cpu_seconds * 1e9)}


def described(table: Path) -> dict[str, Any]:
    """What the files of a table are made of."""
    found: dict[str, Any] = {"files": 0, "bytes": 0, "row groups": 0, "columns": {}}
    for path in data_files(table):
        footer = pq.ParquetFile(path).metadata
        found["files"] += 1
        found["bytes"] += path.stat().st_size
        found["row groups"] += footer.num_row_groups
        for number in range(footer.num_row_groups):
            for at in range(footer.num_columns):
                chunk = footer.row_group(number).column(at)
                sizes = found["columns"]
                name = chunk.path_in_schema
                sizes[name] = sizes.get(name, 0) + chunk.total_compressed_size
    return found


def compare(name: str, folder: Path, row_count: int) -> bool:
    """Compact both tables and look rows up; whether targets are reached."""
    peer("begin", str(folder), str(row_count), json.dumps(PROPERTIES[name]), script="spark_lookups")
    theirs, ours = folder / "db" / "theirs", folder / "db" / "ours"
    icectl("compact", str(ours), "--engine", "local", "--rewrite-all", "--sort-order", "id")
    for who, table in (("Spark", theirs), ("icectl", ours)):
        print(f"{name}: by {who}: {described(table)}")
    sizes = [described(table)["bytes"] for table in (ours, theirs)]
    reached = [verdict(f"{name}: bytes of files", sizes[0] / sizes[1], MOST_BYTES)]
    asked = conditions(row_count)
    lines = peer("look", str(folder), json.dumps(asked), script="spark_lookups").splitlines()
    told = [json.loads(line) for line in lines if line.startswith("{")]
    cpu_ns: Counter[tuple[str, str]] = Counter()
    for condition in asked:
        spark = {one["table"]: one for one in told if one["condition"] == condition}
        assert spark["ours"]["rows"] == spark["theirs"]["rows"]
        duck = {"theirs": by_duckdb(theirs, condition), "ours": by_duckdb(ours, condition)}
        for who, found in (("Spark", spark), ("DuckDB", duck)):
            reached += figures(f"{name}: {who}, {condition[:12]}", found["ours"], found["theirs"])
            for whose, counts in found.items():
                cpu_ns[who, whose] += counts["cpu_ns"]
    for who in ("Spark", "DuckDB"):
        factor = cpu_ns[who, "ours"] / cpu_ns[who, "theirs"]
        reached.append(verdict(f"{name}: {who}, processor time of all", factor, MOST_CPU))
    return all(reached)


def figures(what: str, ours: Mapping[str, int], theirs: Mapping[str, int]) -> list[bool]:
    """Print what a look-up took of either; whether targets are reached."""
    limits = {"bytes": MOST_BYTES, "scanned": MOST_ROWS}
    print(what, {key: (ours[key], theirs[key]) for key in (*limits, "cpu_ns")})
    return [
        verdict(f"{what}: {key}", (ours[key] or 1) / (theirs[key] or 1), limit)
        for key, limit in limits.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; the exit code says whether the targets are reached."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("properties", nargs="*", choices=[*PROPERTIES, []])
    chosen = parser.parse_args(arguments)
    reached = []
    for name in chosen.properties or PROPERTIES:
        with tempfile.TemporaryDirectory() as folder:
            reached.append(compare(name, Path(folder), chosen.rows))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
