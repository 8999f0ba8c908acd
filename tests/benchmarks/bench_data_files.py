"""Reading data files of 1,000,000 rows by field id, and transforms over their columns.

    python tests/benchmarks/bench_data_files.py [ROWS]

icectl against the plain reader of each format, in turn, in one process: pyarrow for Parquet and
ORC, fastavro for a tenth of the rows as Avro. Transforms against those of single values.
"""

import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from icectl.entries.partition_transforms import transform_column
from icectl.files.data_file import open_data_file
from icectl.format.transforms import apply, parse_transform
from icectl.format.types import PrimitiveType
from tests.benchmarks.measure import call, in_turn, median, ratio, verdict

NAMES = ["id", "amount", "name", "code", "at"]
MAPPING = [{"names": [name], "field-id": number} for number, name in enumerate(NAMES)]
SINGLE_VALUES = 20_000
"""Rows whose values are transformed one by one, to be multiplied up."""


def rows(count: int) -> pa.Table:
    chance = random.Random(1)
    return pa.table(
        {
            "id": pa.array(range(count)),
            "amount": pa.array([chance.random() for _ in range(count)]),
            "name": pa.array([f"name-{chance.randrange(100_000)}" for _ in range(count)]),
            "code": pa.array([f"{chance.getrandbits(60):x}" for _ in range(count)]),
            "at": pa.array([chance.getrandbits(50) for _ in range(count)], pa.timestamp("us")),
        }
    )


def write_avro(table: pa.Table, path: Path) -> None:
    kinds = {"id": "long", "amount": "double", "name": "string", "code": "string", "at": "long"}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    stored = table.set_column(4, "at", table["at"].cast(pa.int64())).to_pylist()
    schema = {"type": "record", "name": "r", "fields": fields}
    with path.open("wb") as file:
        fastavro.writer(file, schema, stored, codec="deflate", sync_interval=64_000)


def read(path: Path, file_format: str) -> int:
    with path.open("rb") as file:
        batches = open_data_file(file, file_format, MAPPING).batches(range(len(NAMES)))
        return sum(part.batch.num_rows for part in batches)


def read_parquet(path: Path) -> None:
    file = pq.ParquetFile(path)
    for number in range(file.num_row_groups):
        file.read_row_group(number)


def read_orc(path: Path) -> None:
    file = orc.ORCFile(path)
    for number in range(file.nstripes):
        file.read_stripe(number)


def read_avro(path: Path) -> None:
    with path.open("rb") as file:
        for _ in fastavro.reader(file):
            pass


def compare(name: str, ours: Callable[[], object], plain: Callable[[], object]) -> float:
    """How many times as long as the plain reader icectl takes."""
    found, other = in_turn(5, lambda: call(ours), lambda: call(plain))
    seconds = [median([run.wall_seconds for run in runs]) for runs in (found, other)]
    print(f"{name}: {seconds[0]:.3f} s, plain reader {seconds[1]:.3f} s")
    return ratio(found, other)


def transforms(table: pa.Table) -> float:
    """The least gain over single values."""
    gains = []
    for text, kind, name in [
        ("bucket[16]", "long", "id"),
        ("bucket[16]", "string", "code"),
        ("truncate[4]", "string", "code"),
        ("month", "timestamp", "at"),
    ]:
        transform, type_, column = parse_transform(text), PrimitiveType(kind), table[name].chunk(0)
        few = column.slice(0, SINGLE_VALUES)
        values = (few.cast(pa.int64()) if kind == "timestamp" else few).to_pylist()
        found, single = in_turn(
            3,
            lambda: call(lambda: transform_column(transform, type_, column)),  # noqa: B023
            lambda: call(lambda: [apply(transform, type_, value) for value in values]),  # noqa: B023
        )
        gain = ratio(single, found) * len(column) / len(values)
        rate = len(column) / median([run.wall_seconds for run in found])
        print(f"{text} of {kind}: {rate / 1e6:,.0f} million rows/s, {gain:.0f} times single values")
        gains.append(gain)
    return min(gains)


def main() -> int:
    """Print the figures; the exit code says whether the targets are reached."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    table = rows(count)
    with tempfile.TemporaryDirectory() as directory:
        paths = {name: Path(directory) / name for name in ("parquet", "orc", "avro")}
        pq.write_table(table, paths["parquet"], compression="zstd", row_group_size=250_000)
        orc.write_table(table, paths["orc"], compression="zstd")
        write_avro(table.slice(0, count // 10), paths["avro"])
        readers = {"parquet": (read_parquet, 1.3), "orc": (read_orc, 1.4), "avro": (read_avro, 1.5)}
        reached = [
            verdict(
                f"{name} against the plain reader",
                compare(name, lambda: read(paths[name], name), lambda: plain(paths[name])),  # noqa: B023
                limit,
            )
            for name, (plain, limit) in readers.items()
        ]
    reached.append(verdict("times single values", transforms(table), 10, at_most=False))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
