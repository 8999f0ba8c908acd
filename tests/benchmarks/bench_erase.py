"""`erase` of 1,000 keys that lie in 20 of 2,000 files, with and without Bloom filters on the key.

    python tests/benchmarks/bench_erase.py [SCALE]

2,000 files of 37,000 rows (2 MiB each, 4 GiB in all), with six other columns: a random key, which
bounds rule out nowhere; one snapshot of version 2. With a SCALE below 1 there are fewer files.
Beside it pyarrow reads the key column of the files that bounds and filters can't rule out, and
rewrites the 20 files. Processor time is compared: beside other programs only this is comparable.
The memory is that of the largest process.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icectl.files.data_file import open_data_file
from icectl.files.parquet.schema import schema_from_arrow
from icectl.files.parquet.value_filters import ValueFilters
from icectl.files.parquet.write import ParquetOptions, ParquetWriter
from icectl.format.manifest import Content
from tests.benchmarks.compact_tables import commit, fields, file_entry
from tests.benchmarks.measure import Run, process, verdict

FILES, ROWS, KEYS, HELD = 2_000, 37_000, 1_000, 20
MOST_TIMES, MOST_BYTES, MOST_READ = 3.0, 1.5 * (1 << 30), 60
FALSE_POSITIVES = 1e-5
"""Of a filter: with 1,000 keys, one in a hundred files is read in vain."""

SCHEMA = fields(("user_id", pa.int64(), 1),
                *((f"value_{at}", pa.float64(), at) for at in range(2, 8)))  # fmt: skip


def write(directory: Path, filters: dict[str, float], number: int) -> Path:
    """A data file of random rows: the same ones for each number."""
    chance = np.random.default_rng(number)
    columns = [pa.array(chance.integers(0, 2**62, ROWS))]
    columns += [pa.array(chance.random(ROWS)) for _ in SCHEMA.names[1:]]
    path = directory / "data" / f"{number:05}.parquet"
    with path.open("wb") as file:
        writer = ParquetWriter(file, SCHEMA, ParquetOptions(bloom_filters=filters), {})
        writer.write_row_group([pa.RecordBatch.from_arrays(columns, schema=SCHEMA)])
        writer.close()
    return path


def build(directory: Path, count: int, filters: dict[str, float]) -> list[Path]:
    """A table of such files; their paths."""
    for name in ("data", "metadata"):
        (directory / name).mkdir(parents=True)
    with ProcessPoolExecutor(2) as pool:
        paths = list(pool.map(partial(write, directory, filters), range(count), chunksize=16))
    columns = schema_from_arrow(SCHEMA)
    entries = [file_entry(path, columns, Content.DATA) for path in paths]
    commit(directory, [entries], str(directory), columns)
    return paths


def keys_in(paths: Sequence[Path]) -> pa.Array:
    """As many keys of each of some files."""
    each = KEYS // len(paths)
    return pa.concat_arrays(
        [pq.read_table(path, columns=["user_id"])["user_id"].slice(0, each).combine_chunks()
         for path in paths]
    )  # fmt: skip


def beside(paths: Sequence[Path], held: Sequence[Path], keys: Path, out: Path) -> Run:
    """Pyarrow reads the key of some files, and rewrites others without the rows: a process."""
    program = (
        "import sys, json, pyarrow.parquet as pq, pyarrow.compute as pc, pyarrow as pa\n"
        "read, held, keys, out = json.load(open(sys.argv[1]))\n"
        "wanted = pa.array([int(line) for line in open(keys)])\n"
        "for path in read:\n"
        "    pc.sum(pc.is_in(pq.read_table(path, columns=['user_id'])['user_id'], wanted))\n"
        "for number, path in enumerate(held):\n"
        "    rows = pq.read_table(path)\n"
        "    kept = rows.filter(pc.invert(pc.is_in(rows['user_id'], wanted)))\n"
        "    pq.write_table(kept, f'{out}/{number}.parquet', compression='zstd')\n"
    )
    out.mkdir()
    names = [[str(path) for path in some] for some in (paths, held)]
    (out / "words.json").write_text(json.dumps([*names, str(keys), str(out)]))
    return process([sys.executable, "-c", program, str(out / "words.json")])


def may_have(path: Path, keys: pa.Array) -> bool:
    """Whether the filters of a file can't rule all keys out."""
    with path.open("rb") as file:
        filters = ValueFilters(open_data_file(file, "parquet"))
        return bool(filters.may_have(0, 1, keys).any())


def erase(directory: Path, keys: Path) -> Run:
    """Erase the keys, from the start of the process to its end."""
    return process(
        [sys.executable, "-m", "icectl", "erase", str(directory), "--keys", str(keys),
         "--key-columns", "user_id", "--expire-history", "--yes"]
    )  # fmt: skip


def verified(directory: Path, keys: Path) -> bool:
    line = [sys.executable, "-m", "icectl", "erase", str(directory), "--keys", str(keys),
            "--key-columns", "user_id", "--verify", "--json"]  # fmt: skip
    told = subprocess.run(line, capture_output=True, check=False, text=True).stdout
    return bool(json.loads(told)["result"]["is_proved"])


def bench(folder: Path, scale: float) -> list[bool]:
    """Print the figures; whether each target is reached."""
    count = max(int(FILES * scale), HELD)
    reached = []
    for name, filters in (("bounds alone", {}), ("filters", {"user_id": FALSE_POSITIVES})):
        directory = folder / name.replace(" ", "-")
        paths = build(directory, count, filters)
        held = paths[:: count // HELD][:HELD]
        keys = keys_in(held)
        file = folder / "keys.txt"
        file.write_text("\n".join(map(str, keys.to_pylist())) + "\n")
        read = [path for path in paths if may_have(path, keys)] if filters else paths
        size = sum(path.stat().st_size for path in paths)
        print(f"{name}: {count:,} files, {size / 2**30:.2f} GiB; keys read of {len(read):,}")
        theirs = beside(read, held, file, folder / f"{directory.name}-out")
        own = erase(directory, file)
        print(f"  pyarrow: {theirs.cpu_seconds:.1f} s of processors, {theirs.wall_seconds:.1f} s")
        print(f"  erase: {own.cpu_seconds:.1f} s of processors, {own.wall_seconds:.1f} s, "
              f"{own.peak_bytes / 2**20:,.0f} MiB")  # fmt: skip
        assert verified(directory, file)
        limit = MOST_TIMES
        reached += [
            verdict(f"{name}: times the processor time of pyarrow",
                    own.cpu_seconds / theirs.cpu_seconds, limit),
            verdict(f"{name}: memory, of 1.5 GiB", own.peak_bytes / MOST_BYTES, 1),
        ]  # fmt: skip
        if filters:
            reached.append(verdict(f"{name}: files whose keys are read", len(read), MOST_READ))
        shutil.rmtree(directory)
    return reached


def main() -> int:
    """Build the tables in a temporary folder; 1 if a target is missed."""
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    with tempfile.TemporaryDirectory() as folder:
        return 0 if all(bench(Path(folder), scale)) else 1


if __name__ == "__main__":
    sys.exit(main())
