"""More keys of equality deletes than fit into memory: `compact --deletes-only` within 2 GiB.

    python tests/benchmarks/bench_many_keys.py [SCALE] [FOLDER]

50 million keys in 200 delete files, of which 40 million are in a table of 200 million rows in 400
files, each once: a fifth of the rows goes. Keys lie in all files alike, so no bound helps. With a
SCALE below 1 files are as many, with fewer rows. FOLDER, which must not be there, is kept.

Memory is the most that all processes have together, looked at ten times a second: the sum of their
proportional shares. Each 40th vector is read by a reader of its own, and compared row by row.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from icectl.files.parquet.schema import schema_from_arrow
from icectl.format.manifest import Content
from icectl.format.schema import Schema
from tests.benchmarks.bench_equality_deletes import ICECTL
from tests.benchmarks.compact_tables import commit, fields, file_entry
from tests.benchmarks.measure import process, running_below, verdict
from tests.builders.rows import dv_positions, head, live_entries

FILES, ROWS, DELETES, KEYS = 400, 500_000, 200, 250_000
FACTOR, KEY_FACTOR = 7_368_787, 15_485_863  # primes: they spread numbers over all of a range
SCHEMA = fields(("id", pa.int64(), 1), ("amount", pa.int32(), 2))
COLUMNS = schema_from_arrow(SCHEMA)
KEY = Schema(0, COLUMNS.fields[:1])
MOST_GIB, CHECKED = 2.0, 40
Numbers = npt.NDArray[np.int64]


def build(directory: Path, rows: int, keys: int) -> None:
    """Write files of `rows` rows, delete files of `keys` keys, and a table of version 3 of them."""
    for name in ("data", "metadata"):
        (directory / name).mkdir(parents=True)
    data, deletes = [], []
    for number in range(FILES):
        ids = np.arange(number * rows, (number + 1) * rows) * FACTOR % (FILES * rows)
        path = directory / "data" / f"{number:05}.parquet"
        amounts = np.full(rows, number, np.int32)
        table = pa.Table.from_arrays([pa.array(ids), pa.array(amounts)], schema=SCHEMA)
        pq.write_table(table, path, compression="zstd", compression_level=1, use_dictionary=False)
        data.append(file_entry(path, COLUMNS, Content.DATA))
    # Four of five keys are ids of rows.
    wide = FILES * rows * 5 // 4
    for number in range(DELETES):
        ids = np.arange(number * keys, (number + 1) * keys) * KEY_FACTOR % wide
        path = directory / "data" / f"keys-{number:05}.parquet"
        table = pa.Table.from_arrays([pa.array(np.sort(ids))], schema=pa.schema([SCHEMA[0]]))
        pq.write_table(table, path, compression="zstd", use_dictionary=False)
        deletes.append(file_entry(path, KEY, Content.EQUALITY_DELETES) | {"equality_ids": [1]})
    commit(directory, [data, deletes], str(directory), COLUMNS)
    process([*ICECTL, "upgrade-to-v3", str(directory), "--yes"])


def has_key(ids: Numbers, rows: int, keys: int) -> npt.NDArray[np.bool_]:
    """Which ids are among the keys: the multiplication that made the keys, undone."""
    wide = FILES * rows * 5 // 4
    found: npt.NDArray[np.bool_] = ids * pow(KEY_FACTOR, -1, wide) % wide < DELETES * keys
    return found


def check(directory: Path, rows: int, keys: int) -> tuple[int, int]:
    """How many rows are deleted, and how many equality deletes are left.

    Raises: AssertionError, if vectors have other rows than those with one of the keys.
    """
    entries = [entry["data_file"] for entry in live_entries(head(directory))]
    vectors = [one for one in entries if one["content"] == Content.POSITION_DELETES]
    count = sum(vector["record_count"] for vector in vectors)
    assert count == int(has_key(np.arange(FILES * rows), rows, keys).sum())
    for vector in vectors[::CHECKED]:
        ids = pq.read_table(vector["referenced_data_file"], partitioning=None)["id"].to_numpy()
        expected = np.flatnonzero(has_key(ids, rows, keys))
        assert dv_positions(vector) == set(expected.tolist())
    return count, sum(one["content"] == Content.EQUALITY_DELETES for one in entries)


def main() -> int:
    """Print the figures; the exit code says whether the targets are reached."""
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    rows, keys = int(ROWS * scale), int(KEYS * scale)
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(scratch, "table")
        build(directory, rows, keys)
        line = [*ICECTL, "compact", str(directory), "--deletes-only", "--engine", "local", "--yes"]
        start, most, largest, cpu = time.monotonic(), 0, 0, 0.0
        with subprocess.Popen(line, stdout=subprocess.DEVNULL) as run:
            while run.poll() is None:
                shares = _shares(running := running_below(run.pid))
                most = max(most, sum(shares))
                largest = max([largest, *(one.peak_bytes for one in running.values())])
                cpu = max(cpu, sum(one.cpu_seconds for one in running.values()))
                time.sleep(0.1)
        seconds = time.monotonic() - start
        assert not run.returncode
        deleted, left = check(directory, rows, keys)
        print(
            f"{DELETES * keys:,} keys, {FILES * rows:,} rows, {deleted:,} of them deleted: "
            f"{seconds:.0f} s, of processors {cpu:.0f} s; {largest / 2**30:.2f} GiB for the "
            "largest process"
        )
        reached = [
            verdict("GiB of all processes", most / 2**30, MOST_GIB),
            verdict("equality delete files left", left, 0),
        ]
    return 0 if all(reached) else 1


def _shares(pids: Iterable[int]) -> list[int]:
    """The proportional shares of processes in memory, in bytes."""
    found = []
    for pid in pids:
        try:
            lines = Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()
        except OSError:
            continue  # ended meanwhile
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")]
    return found


if __name__ == "__main__":
    sys.exit(main())
