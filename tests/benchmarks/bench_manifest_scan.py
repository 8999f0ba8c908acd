"""Reading one manifest of 100,000 entries, 20 columns of stats each, on one core.

    python tests/benchmarks/bench_manifest_scan.py [ENTRIES]

icectl's planning columns against fastavro with a reader schema of the same columns, and against
PyIceberg's fetch_manifest_entry, in turn, in one process each; then the peak memory of each, all
columns, writing, and `inspect` of a table of that manifest against a process of fastavro's, starts
of Python included. Loading the compiled scan is part of icectl's time in the cold figure only. The
same entries in Parquet too, as Iceberg 1.12 writes them.
"""

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import fastavro

from icectl.entries.rows import ALL_COLUMNS, PLANNING_COLUMNS
from icectl.files.manifest.manifest import read_manifest
from icectl.files.manifest.move import in_file_format
from icectl.files.manifest.write import ManifestForm
from icectl.format.manifest import FileFormat, ManifestContent
from tests.benchmarks.big_table import SCHEMA, SNAPSHOT_ID, SPEC, build, entries
from tests.benchmarks.measure import Run, call, cpu_ratio, in_turn, median, process, ratio, verdict
from tests.benchmarks.peers import pyiceberg_entries
from tests.builders.plain_manifests import manifest_of

FASTAVRO = "fastavro"
PLANNED_FIELDS = {
    "content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes",
    "sort_order_id", "first_row_id", "referenced_data_file", "content_offset",
    "content_size_in_bytes",
}  # fmt: skip


def projected(content: bytes) -> dict[str, Any]:
    """The reader schema of the planning columns."""
    schema = json.loads(fastavro.reader(io.BytesIO(content)).metadata["avro.schema"])
    for field in schema["fields"]:
        if field["name"] == "data_file":
            kept = [part for part in field["type"]["fields"] if part["name"] in PLANNED_FIELDS]
            field["type"]["fields"] = kept
    return schema


def read_with_fastavro(path: Path) -> int:
    content = path.read_bytes()
    return len(list(fastavro.reader(io.BytesIO(content), projected(content))))


def read_with_pyiceberg(path: Path) -> int:
    return len(pyiceberg_entries(path))


def read_with_icectl(path: Path, columns: frozenset[str] = PLANNING_COLUMNS) -> int:
    return len(read_manifest(path.read_bytes(), columns=columns, manifest=0, spec=SPEC)[1])


def read_parquet(path: Path) -> int:
    return read_with_icectl(path.with_suffix(".parquet"))


READERS = {
    "icectl": read_with_icectl,
    "icectl-parquet": read_parquet,
    "icectl-all": lambda path: read_with_icectl(path, ALL_COLUMNS),
    "fastavro": read_with_fastavro,
    "pyiceberg": read_with_pyiceberg,
}


def peak_bytes() -> int:
    """Peak memory of this program alone: the system's count of a child starts with its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def _whole_processes(folder: Path, count: int, manifest: Path) -> tuple[list[Run], list[Run]]:
    """`icectl inspect` of one manifest, and a process that reads it with fastavro."""
    build(folder / "table", 1, count)
    icectl = str(Path(sys.executable).parent / "icectl")
    shown, peer = in_turn(
        3,
        lambda: process([icectl, "inspect", str(folder / "table")]),
        lambda: process([sys.executable, __file__, FASTAVRO, str(manifest)]),
    )
    return shown, peer


def main() -> int:
    """Print the figures; the exit code says whether the targets are reached."""
    if len(sys.argv) == 3:  # a process of its own, for its memory
        READERS[sys.argv[1]](Path(sys.argv[2]))
        print(peak_bytes())
        return 0
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    table = entries(0, count, "s3://bucket/warehouse/benchmark")

    def write() -> bytes:
        return manifest_of(table, SCHEMA, SPEC, snapshot_id=SNAPSHOT_ID)

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "manifest.avro"
        path.write_bytes(write())
        start = time.perf_counter()
        content = write()
        print(f"{count} entries, {path.stat().st_size} bytes stored")
        print(f"icectl writes: {count / (time.perf_counter() - start):,.0f} entries/s")
        start = time.perf_counter()
        form = ManifestForm(SCHEMA, SPEC, 4, ManifestContent.DATA, FileFormat.PARQUET)
        path.with_suffix(".parquet").write_bytes(in_file_format(content, form))
        print(f"as Parquet: {count / (time.perf_counter() - start):,.0f} entries/s more")

        def timed(name: str) -> Run:
            return call(lambda: READERS[name](path))

        subjects = [partial(timed, name) for name in READERS]
        runs = dict(zip(READERS, in_turn(3, *subjects), strict=True))
        for name, found in runs.items():
            seconds = median([run.wall_seconds for run in found])
            print(f"{name}: {seconds:.3f} s, {count / seconds:,.0f} entries/s")
        for name in READERS:
            command = [sys.executable, __file__, name, str(path)]
            start = time.perf_counter()
            peak = int(subprocess.run(command, check=True, capture_output=True).stdout)
            seconds = time.perf_counter() - start
            print(f"{name}: process {seconds:.2f} s, peak {peak / 2**20:,.0f} MiB")
        shown, peer = _whole_processes(Path(directory), count, path)
        print(
            f"inspect, start included: {median([run.cpu_seconds for run in shown]):.2f} s "
            f"processor; fastavro {median([run.cpu_seconds for run in peer]):.2f} s"
        )
        reached = [
            verdict("whole processes, times fastavro", cpu_ratio(peer, shown), 8, at_most=False),
            verdict("Parquet / Avro", ratio(runs["icectl-parquet"], runs["icectl"]), 1.0),
            verdict("times fastavro", ratio(runs["fastavro"], runs["icectl"]), 20, at_most=False),
            verdict("times PyIceberg", ratio(runs["pyiceberg"], runs["icectl"]), 15, at_most=False),
        ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
