"""`icectl compact --method merge`: data files concatenated without decoding them.

    python tests/benchmarks/bench_merge.py [footers] [local] [s3] [--files N] [--rounds N]

footers: a footer of 40,000 column chunks is read, and written anew with other offsets, in turn with
the start of a process that imports what this takes. local: 40 files of 25 MB and 3 row groups
become one, in turn with `cat` of the same files and fsync, and with the start of the same run (a
dry run), which is taken off. s3: the same files in a bucket of versitygw that takes 30 ms to
answer: bytes that pass through the client, and its requests. Memory is that of the largest process.
"""

import argparse
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow as pa
import pyarrow.parquet as pq

from icectl.files.parquet.merge import CopyRange, MergedFile, check_alike
from icectl.files.parquet.merge_footer import read_source
from tests.benchmarks.bench_compact import Table, told
from tests.benchmarks.bench_stores import delaying
from tests.benchmarks.compact_tables import build
from tests.benchmarks.measure import Run, in_turn, median, process, verdict
from tests.stores import s3_servers

FILES, ROWS, ROW_GROUPS, DIFFERENT = 40, 580_000, 3, 8
MERGE = ("--method", "merge", "--target-file-size", "4GiB", "--min-input-files", "2")
LARGEST_PROCESS_MB = 250
FOOTER_ROW_GROUPS, FOOTER_COLUMNS, FOOTER_MB = 2_000, 20, 200


def built(directory: Path, count: int, location: str = "") -> list[Path]:
    """The table; of its files some are the same, since making them takes longest."""
    times = -(-count // DIFFERENT)
    different = -(-count // times)
    return build(directory, different, ROWS, times=times, row_groups=ROW_GROUPS, location=location)


def footers(directory: Path, rounds: int) -> bool:
    """The footer of a file of many column chunks, decoded and encoded."""
    path = directory / "many.parquet"
    command = [sys.executable, __file__, "--recode"]
    process([*command, str(path)])  # which makes it: this process has to stay small
    recoded, started = in_turn(
        rounds, lambda: process([*command, str(path)]), lambda: process([*command, ""])
    )
    chunks = FOOTER_ROW_GROUPS * FOOTER_COLUMNS
    told(f"a footer of {chunks:,} column chunks", recoded)
    told("start", started)
    taken = [one.cpu_seconds - two.cpu_seconds for one, two in zip(recoded, started, strict=True)]
    peak = max(run.peak_bytes for run in recoded) / 1e6
    return all(
        [
            verdict("s of a processor, without start", median(taken), 1),
            verdict("MB of the process", peak, FOOTER_MB),
        ]
    )


def recode(path: Path) -> None:
    """Read the footer of a file, and write it anew as that of a merged one; make a missing file."""
    if not path.exists():
        values = pa.array(range(FOOTER_ROW_GROUPS), pa.int64())
        table = pa.table({f"c{number}": values for number in range(FOOTER_COLUMNS)})
        pq.write_table(table, path, row_group_size=1)
        return
    with path.open("rb") as file:
        source = read_source(file)
        merged = MergedFile(io.BytesIO(), check_alike([source]))
        merged.add(source, file, CopyRange(lambda *_: None))
        merged.finish()


def local(directory: Path, count: int, rounds: int) -> bool:
    """On a local disk, against cat and fsync."""
    table = Table(directory / "t", built(directory / "t", count))
    paths = " ".join(map(str, table.paths))
    target = directory / "cat"
    copy = ["sh", "-c", f"cat {paths} > {target} && sync {target} && rm {target}"]
    merged, copied, started = in_turn(
        rounds,
        lambda: table.compact(*MERGE, "--yes"),
        lambda: process(copy),
        lambda: table.compact(*MERGE, "--dry-run"),
    )
    size = sum(path.stat().st_size for path in table.paths)
    told(f"{len(table.paths)} files of {size / 1e6:,.0f} MB into one", merged)
    told("cat and fsync", copied)
    told("start", started)
    peak = max(run.peak_bytes for run in merged) / 1e6
    return all(
        [
            verdict("times cat and fsync, without start", _without(merged, copied, started), 1.6),
            verdict("MB of the largest process", peak, LARGEST_PROCESS_MB),
        ]
    )


def _without(merged: Sequence[Run], copied: Sequence[Run], started: Sequence[Run]) -> float:
    """Return how many times as long a merge takes as a copy, its start taken off."""
    return median(
        [
            (one.wall_seconds - start.wall_seconds) / copy.wall_seconds
            for one, copy, start in zip(merged, copied, started, strict=True)
        ]
    )


def s3(directory: Path, count: int) -> bool:
    """In a bucket of a server that takes 30 ms."""
    binary = s3_servers.program("versitygw")
    if binary is None:
        print(s3_servers.why_missing("versitygw"))
        return True
    with s3_servers.versitygw(binary, directory) as server:
        server.client.create_bucket(Bucket="bench")
        folder = directory.with_suffix(".built")
        paths = built(folder, count, "s3://bench/wh/t")
        for path in folder.rglob("*"):  # the server takes no other files for objects with ETags
            if path.is_file():
                key = f"wh/t/{path.relative_to(folder)}"
                server.client.upload_file(str(path), "bench", key)
        size = sum(path.stat().st_size for path in paths)
        passed: Counter[str] = Counter()
        port = delaying(int(server.endpoint.rpartition(":")[2]), told=passed)
        options = {**server.options, "endpoint_url": f"http://127.0.0.1:{port}"}
        given = [
            word
            for name, value in options.items()
            for word in ("--storage-option", f"{name}={value}")
        ]
        command = ["compact", "s3://bench/wh/t", "--engine", "local", "--no-progress", *MERGE]

        def run(*words: str) -> Counter[str]:
            """What passes through the client in a run."""
            passed.clear()
            found = process([sys.executable, "-m", "icectl", *command, *given, *words])
            told(f"{len(paths)} files of {size / 1e6:,.0f} MB {' '.join(words)}", [found])
            passed["peak"] = found.peak_bytes
            return passed.copy()

        planned, merged = run("--dry-run"), run("--yes")
        names = {path.name for path in paths}
        stored = (directory / "bench" / "wh" / "t" / "data").glob("*.parquet")
        (new,) = [path for path in stored if path.name not in names]
        assert new.stat().st_size > 0.9 * size
        through = merged["read"] + merged["written"]
        requests = merged["requests"] - planned["requests"]
        print(
            f"{merged['read'] / 1e6:.1f} MB read, {merged['written'] / 1e6:.1f} MB written, "
            f"{merged['requests']} requests, {planned['requests']} of them to plan"
        )
        return all(
            [
                verdict("% of the bytes through the client", 100 * through / size, 1),
                verdict("requests for each input", requests / len(paths), 3),
                verdict("MB of the largest process", merged["peak"] / 1e6, LARGEST_PROCESS_MB),
            ]
        )


def main() -> int:
    """Print the figures; the exit code says whether the targets are reached."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("what", nargs="*", default=["footers", "local", "s3"])
    arguments.add_argument("--files", type=int, default=FILES)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--recode", metavar="FILE", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.recode is not None:
        if given.recode:
            recode(Path(given.recode))
        return 0
    reached = []
    if "footers" in given.what:
        with tempfile.TemporaryDirectory() as folder:
            reached.append(footers(Path(folder), given.rounds))
    if "local" in given.what:
        with tempfile.TemporaryDirectory() as folder:
            reached.append(local(Path(folder), given.files, given.rounds))
    if "s3" in given.what:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "served").mkdir()
            reached.append(s3(Path(folder) / "served", given.files))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
