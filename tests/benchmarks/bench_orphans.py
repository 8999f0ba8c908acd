"""`icectl remove-orphans`: 1,000,000 local files, 100,000 objects in S3, 5,000,000 of an inventory.

    python tests/benchmarks/bench_orphans.py

The whole dry run on local files against a bare walk with os.scandir that asks for size and time;
the listing of a thousand prefixes against a plain loop over boto3's pages, on a local server; the
whole dry run on an inventory, and the memory of both.
"""

import gzip
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from icectl.env import SystemEnv
from icectl.storage.open import StorageOptions, open_store
from tests.benchmarks.big_table import build, entries
from tests.benchmarks.measure import Run, call, in_turn, median, process, ratio, verdict
from tests.stores.s3_servers import S3Server, program, versitygw

LOCAL_FOLDERS, LOCAL_FILES = 1_000, 990
LOCAL_ORPHANS = 10
PREFIXES, OBJECTS = 1_000, 100
INVENTORY_MANIFESTS, INVENTORY_FILES = 490, 10_000
INVENTORY_ORPHANS = 100_000

OLD = 1_700_000_000
"""2023-11-14T22:13:20Z, when all files were written."""
UUID = "7f2d6c1e-4d0f-4b7f-9a5e-1f9a4e6b2c11"


def walk(folder: Path) -> int:
    """The files below a folder, size and time of each looked up, by one thread."""
    waiting, count, total = [str(folder)], 0, 0
    while waiting:
        with os.scandir(waiting.pop()) as found:
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    status = entry.stat(follow_symlinks=False)
                    count += 1
                    total += status.st_size + status.st_mtime_ns
    return count


def touch(path: str) -> None:
    """An old, empty file."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    os.utime(file, (OLD, OLD))
    os.close(file)


def local_files(table: Path) -> None:
    """A table whose files are there, and in each of its folders some that it does not know."""
    build(table, LOCAL_FOLDERS, LOCAL_FILES, metrics=False)
    for number in range(LOCAL_FOLDERS):
        (table / f"data/column_5={number}").mkdir(parents=True)
        for path in entries(number, LOCAL_FILES, str(table), metrics=False)["location"].to_pylist():
            touch(path)
        for orphan in range(LOCAL_ORPHANS):
            touch(f"{table}/data/column_5={number}/orphan-{orphan:08}-{UUID}.parquet")


def inventory(table: Path) -> Iterator[str]:
    """The lines of a plain inventory of a table's files, and of some that it does not know."""
    yield "location,size,last_modified\n"
    end = "123456,2023-11-14T22:13:20.000Z\n"
    for path in sorted((table / "metadata").iterdir()):
        yield f"{path},{end}"
    for number in range(INVENTORY_MANIFESTS):
        known = entries(number, INVENTORY_FILES, str(table), metrics=False)
        yield "".join(f"{path},{end}" for path in known["location"].to_pylist())
    for number in range(INVENTORY_ORPHANS):
        yield f"{table}/data/column_5={number % 500}/orphan-{number:08}-{UUID}.parquet,{end}"


def dry_run(table: Path, *words: str) -> Run:
    """The whole command as a process."""
    command = [str(Path(sys.executable).parent / "icectl"), "remove-orphans", str(table)]
    return process([*command, *words, "--older-than", "3d", "--max-fraction", "1", "-n", "--json"])


def bench_local(folder: Path) -> list[bool]:
    """The whole command on local files against a walk."""
    table = folder / "local"
    local_files(table)
    runs, walks = in_turn(3, lambda: dry_run(table), lambda: call(lambda: walk(table)))
    print(
        f"{LOCAL_FOLDERS * (LOCAL_FILES + LOCAL_ORPHANS):,} local files: "
        f"remove-orphans -n {median([r.wall_seconds for r in runs]):.2f} s, "
        f"bare walk {median([r.wall_seconds for r in walks]):.2f} s"
    )
    peak = max(run.peak_bytes for run in runs)
    return [
        verdict("remove-orphans -n / bare walk", ratio(runs, walks), 2.0),
        verdict("peak memory in GiB", peak / (1 << 30), 1.0),
    ]


def bench_s3(folder: Path, binary: str) -> list[bool]:
    """A listing of S3 against boto3's pages."""
    for number in range(PREFIXES):
        prefix = folder / f"s3/bucket/t/data/p={number:04}"
        prefix.mkdir(parents=True)
        for file in range(OBJECTS):
            touch(f"{prefix}/{file:08}-{UUID}.parquet")
    with versitygw(binary, folder / "s3") as server:
        ours, plain = in_turn(
            2, lambda: call(lambda: list_here(server)), lambda: call(lambda: list_plainly(server))
        )
    print(
        f"{PREFIXES * OBJECTS:,} objects below {PREFIXES:,} prefixes: "
        f"list {median([r.wall_seconds for r in ours]):.2f} s, "
        f"boto3's pages {median([r.wall_seconds for r in plain]):.2f} s"
    )
    return [verdict("list / boto3's pages", ratio(ours, plain), 1.0)]


def list_here(server: S3Server) -> None:
    """List the bucket with icectl."""
    store = open_store(StorageOptions(server.options), SystemEnv())
    found = sum(batch.num_rows for batch in store.list("s3://bucket/t"))
    assert found == PREFIXES * OBJECTS


def list_plainly(server: S3Server) -> None:
    """List the bucket with boto3, sizes and times included."""
    pages = server.client.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix="t/")
    found = [
        (each["Key"], each["Size"], each["LastModified"].timestamp())
        for page in pages
        for each in page.get("Contents", ())
    ]
    assert len(found) == PREFIXES * OBJECTS


def bench_inventory(folder: Path) -> list[bool]:
    """The whole command on an inventory; the files themselves are nowhere."""
    table, listing = folder / "listed", folder / "inventory.csv.gz"
    build(table, INVENTORY_MANIFESTS, INVENTORY_FILES, metrics=False)
    with gzip.open(listing, "wt", compresslevel=1) as file:
        file.writelines(inventory(table))
    (runs,) = in_turn(1, lambda: dry_run(table, "--inventory", str(listing)))
    total = INVENTORY_MANIFESTS * INVENTORY_FILES + INVENTORY_ORPHANS
    print(f"{total:,} files of an inventory: {runs[0].wall_seconds:.2f} s")
    return [verdict("peak memory in GiB", runs[0].peak_bytes / (1 << 30), 1.0)]


def main() -> int:
    """Print ratios and memory; 1 when a target is missed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reached = bench_local(folder)
        if binary := program("versitygw"):
            reached += bench_s3(folder, binary)
        else:
            print("listing of S3: not measured without versitygw")
        reached += bench_inventory(folder)
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
