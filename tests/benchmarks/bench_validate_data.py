"""`validate --level data` and `--level footers`, against pyarrow reading the same columns.

    python tests/benchmarks/bench_validate_data.py [FILES] [ROWS]     default 24 of 1,000,000

Whole processes on all cores, in turn: icectl over a table of Parquet files of eight columns, and a
scan of pyarrow's dataset over the same files, which keeps nothing. Then one large file with bounds
and a hashed partition, in one process each, with and without statistics in its footer.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icectl.format.manifest import FileFormat
from icectl.format.partition import PartitionField
from icectl.format.schema import Schema
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from icectl.rows.check_data_file import RecordedFile, TableFacts, check_data_file
from tests.benchmarks.compact_tables import build
from tests.benchmarks.measure import Run, call, in_turn, median, process, ratio, verdict

LIMIT = 1.3
"""At most so many times pyarrow's reading."""

HASHED_LIMIT = 1.8
"""The same where each value of a column has to be hashed too, which no reader does."""

KINDS = {"id": "long", "day": "date", "price": "double", "name": "string", "at": "timestamp"}
ARROW = {
    "long": pa.int64(), "date": pa.date32(), "double": pa.float64(), "string": pa.string(),
    "timestamp": pa.timestamp("us"),
}  # fmt: skip
SCHEMA = Schema(
    0,
    tuple(
        NestedField(number, name, PrimitiveType(kind), required=False)
        for number, (name, kind) in enumerate(KINDS.items(), start=1)
    ),
)
BUCKET = PartitionField((1,), 1000, "id_bucket", parse_transform("bucket[1]"))
MONTH = PartitionField((2,), 1001, "day_month", parse_transform("month"))

SCAN = """
import sys
import pyarrow.dataset as ds
rows = sum(len(batch) for batch in ds.dataset(sys.argv[1], format="parquet").to_batches())
sys.exit(rows != int(sys.argv[2]))
"""


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
    """What a worker of `validate` does with the file; a finding raises."""
    recorded = RecordedFile(
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


def whole_table(folder: Path, files: int, rows: int) -> bool:
    """The command over a table."""
    table, times = folder / "t", max(files // 4, 1)
    build(table, min(files, 4), rows, times=times)
    icectl = str(Path(sys.executable).parent / "icectl")
    count = min(files, 4) * times * rows

    def level(name: str) -> Run:
        return process([icectl, "validate", str(table), "--level", name, "--json"])

    def scanned() -> Run:
        return process([sys.executable, "-c", SCAN, str(table / "data"), str(count)])

    runs = in_turn(5, lambda: level("data"), lambda: level("footers"), scanned)
    size = sum(path.stat().st_size for path in (table / "data").iterdir())
    print(f"{count:,} rows in {min(files, 4) * times} files of {size / 2**20:,.0f} MiB:")
    for name, found in zip(("data", "footers", "pyarrow"), runs, strict=True):
        wall, cpu = (
            median([getattr(run, key) for run in found]) for key in ("wall_seconds", "cpu_seconds")
        )
        peak = max(run.peak_bytes for run in found) / 2**20
        print(f"  {name}: {wall:.2f} s, processors {cpu:.2f} s, largest process {peak:,.0f} MiB")
    return verdict("level data / pyarrow", ratio(runs[0], runs[2]), LIMIT)


def main() -> int:
    """Print ratios and memory; 1 when a target is missed."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 24
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        reached = [whole_table(Path(folder), files, rows)]
        for statistics in (True, False):
            path = Path(folder) / f"{statistics}.parquet"
            write(path, 4 * rows, statistics=statistics)

            def checked(path: Path = path) -> Run:
                return call(lambda: check(path, 4 * rows))

            def plainly_read(path: Path = path) -> Run:
                return call(lambda: read(path, 4 * rows))

            runs = in_turn(5, checked, plainly_read)
            told = "with statistics" if statistics else "without statistics"
            seconds = [median([run.wall_seconds for run in found]) for found in runs]
            print(f"{4 * rows:,} rows {told}: check {seconds[0]:.2f} s, read {seconds[1]:.2f} s")
            reached.append(verdict(f"check / read, {told}", ratio(*runs), HASHED_LIMIT))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
