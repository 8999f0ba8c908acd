"""`validate --level data` on one large data file, against pyarrow reading the same columns.

    python tests/benchmarks/bench_validate_data.py [ROWS]     default 4,000,000

With statistics the footer proves most; without, every value of every column with a bound, a count
or a partition value is read. In one process each, on one core; peak memory of each.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icectl.engine.kernels.check_data_file import Recorded, TableFacts, check_data_file
from icectl.spec.manifest import FileFormat
from icectl.spec.partition import PartitionField
from icectl.spec.schema import Schema
from icectl.spec.transforms import parse_transform
from icectl.spec.types import NestedField, PrimitiveType
from tests.benchmarks.measure import Run, call, in_turn, median, ratio, verdict

KINDS = {"id": "long", "day": "date", "price": "double", "name": "string", "at": "timestamp"}
ARROW = {
    "long": pa.int64(),
    "date": pa.date32(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us"),
}
SCHEMA = Schema(
    0,
    tuple(
        NestedField(number, name, PrimitiveType(kind), required=False)
        for number, (name, kind) in enumerate(KINDS.items(), start=1)
    ),
)
BUCKET = PartitionField((1,), 1000, "id_bucket", parse_transform("bucket[1]"))
MONTH = PartitionField((2,), 1001, "day_month", parse_transform("month"))


def write(path: Path, rows: int, *, statistics: bool) -> None:
    """A file of row groups of 131,072 rows, half of its names repeated."""
    rng = np.random.default_rng(1)
    columns = [
        pa.array(rng.integers(0, 1 << 40, rows)),
        pa.array(rng.integers(20_454, 20_480, rows).astype(np.int32)).cast(pa.date32()),
        pa.array(rng.random(rows)),
        pa.array(np.char.add("customer ", rng.integers(0, rows // 2, rows).astype(str))),
        pa.array(rng.integers(0, 1 << 50, rows)).cast(pa.timestamp("us")),
    ]
    schema = pa.schema(
        [
            pa.field(name, ARROW[kind], metadata={"PARQUET:field_id": str(number)})
            for number, (name, kind) in enumerate(KINDS.items(), start=1)
        ]
    )
    table = pa.table(columns, schema=schema)
    pq.write_table(table, path, row_group_size=131_072, write_statistics=statistics)


def check(path: Path, rows: int) -> None:
    """What `validate` does with the file; a finding raises."""
    recorded = Recorded(
        str(path),
        FileFormat.PARQUET,
        rows,
        1,
        null_value_counts=dict.fromkeys(range(1, 6), 0),
        nan_value_counts={3: 0},
        lower_bounds={1: bytes(8), 2: bytes(4), 3: bytes(8), 4: b"customer", 5: bytes(8)},
        upper_bounds={1: b"\xff" * 7 + b"\x7f", 4: b"d", 5: b"\xff" * 7 + b"\x7f"},
        partition=((BUCKET, 0), (MONTH, 672)),
    )
    with path.open("rb") as file:
        found = list(check_data_file(file, recorded, TableFacts(SCHEMA, (), 2, None)))
    if found:
        raise RuntimeError(str(found))


def read(path: Path, rows: int) -> None:
    """Decode all columns, a batch at a time, and look at none."""
    with pq.ParquetFile(path) as file:
        if sum(len(batch) for batch in file.iter_batches(131_072)) != rows:
            raise RuntimeError("rows are missing")


SUBJECTS = {"check": check, "read": read}


def peak_bytes() -> int:
    """Peak memory of this program alone."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def main() -> int:
    """Print ratios and memory; 1 when a target is missed."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if len(sys.argv) == 4:  # a process of its own, for its memory
        SUBJECTS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
        print(peak_bytes())
        return 0
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    reached = []
    with tempfile.TemporaryDirectory() as folder:
        for statistics, limit in ((True, 3.0), (False, 3.0)):
            path = Path(folder) / f"{statistics}.parquet"
            write(path, rows, statistics=statistics)

            def checked(path: Path = path) -> Run:
                return call(lambda: check(path, rows))

            def plainly_read(path: Path = path) -> Run:
                return call(lambda: read(path, rows))

            runs = in_turn(3, checked, plainly_read)
            told = "with statistics" if statistics else "without statistics"
            seconds = [median([run.wall_seconds for run in found]) for found in runs]
            print(f"{rows:,} rows {told}: check {seconds[0]:.2f} s, read {seconds[1]:.2f} s")
            reached.append(verdict(f"check / read, {told}", ratio(*runs), limit))
            for name in SUBJECTS:
                command = [sys.executable, __file__, name, str(path), str(rows)]
                start = time.perf_counter()
                peak = int(subprocess.run(command, check=True, capture_output=True).stdout)
                spent = time.perf_counter() - start
                print(f"{name} {told}: process {spent:.2f} s, peak {peak / 2**20:,.0f} MiB")
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
