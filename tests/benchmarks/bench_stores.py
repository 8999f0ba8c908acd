"""Objects of an S3 server that takes 30 ms to answer.

    python tests/benchmarks/bench_stores.py [small] [inspect] [compact] [validate] [--files N]

small: the seconds of reading 1,000 objects of 8 KB and of listing 20,000, by obstore and by s3fs.
inspect: of a table of 2,000 manifests of 50 files, in turn with a process that only reads them.
compact: 1,000 data files of 1 MB compacted by the local engine, in turn with a bare copy of the
same objects by obstore, each got and put again with 32 in flight; the ratio of their bandwidths.
Then the same files compacted on the local disk, and what pyarrow takes that only decodes and
encodes them, in two processes: the floor, below which nothing comes that reads rows.
validate: level `data` of the same table, in turn with getting its objects.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from icectl.env import SystemEnv
from icectl.storage.open import StorageOptions, open_store
from icectl.storage.store import Store
from tests.benchmarks import big_table, compact_tables
from tests.benchmarks.bench_compact import Table, copy_files
from tests.benchmarks.measure import Run, call, in_turn, median, process, ratio, verdict
from tests.stores import s3_servers
from tests.stores.s3_servers import BY_S3FS, free_port

_REQUEST_LINE = re.compile(rb"(?:GET|HEAD|PUT|POST|DELETE) /[^ ]* HTTP/1\.1\r\n")
SECONDS = 0.03
READ, LISTED = 1_000, 20_000
ROWS, COPIED_AT_ONCE = 22_000, 32
MANIFESTS, ENTRIES = 2_000, 50
AT_ONCE = 48
BARE, COPY = "--bare", "--copy"


def delaying(port: int, seconds: float = SECONDS, told: Counter[str] | None = None) -> int:
    """A proxy that passes bytes on to a port later, in a thread of its own; its port.

    `told` counts the bytes that are `written` to the server, and `read` from it, and `requests`.
    """
    count = Counter() if told is None else told
    front = free_port()
    is_there = threading.Event()

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        loop = asyncio.get_running_loop()

        async def forth() -> None:
            with suppress(ConnectionError):  # of clients that end all at once
                while content := await reader.read(1 << 16):
                    count["written"] += len(content)
                    count["requests"] += len(_REQUEST_LINE.findall(content))
                    loop.call_later(seconds, server_writer.write, content)
            loop.call_later(seconds, server_writer.close)

        task = asyncio.create_task(forth())
        with suppress(ConnectionError):
            while content := await server_reader.read(1 << 16):
                count["read"] += len(content)
                writer.write(content)
                await writer.drain()
        writer.close()
        await task

    async def serve() -> None:
        server = await asyncio.start_server(passed, "127.0.0.1", front)
        is_there.set()
        await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
    is_there.wait(10)
    return front


def measure(name: str, store: Store, at_once: int) -> None:
    places = [f"s3://bench/t/p={n % 50}/f{n}" for n in range(READ)]
    store.read(places[0])
    begun = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        assert all(len(content) == 8192 for content in pool.map(store.read, places))
    print(f"{name}: {READ} objects read in {time.perf_counter() - begun:.2f} s", flush=True)
    begun = time.perf_counter()
    assert sum(batch.num_rows for batch in store.list("s3://bench/t")) == LISTED
    print(f"{name}: {LISTED} listed in {time.perf_counter() - begun:.2f} s", flush=True)


def small_objects(folder: Path, port: int, given: Mapping[str, str]) -> None:
    for number in range(LISTED):
        path = folder / "bench" / "t" / f"p={number % 50}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(8192 if number < READ else 1))
    for name, more, at_once in (("obstore", {}, AT_ONCE), ("s3fs", BY_S3FS, 8)):
        options = {**given, "endpoint_url": f"http://127.0.0.1:{port}", **more}
        store = open_store(StorageOptions(options, concurrency=at_once), SystemEnv())
        measure(name, store, at_once)


class Lake:
    """A table of files of 1 MB in a bucket behind the proxy."""

    def __init__(self, folder: Path, endpoint: str, file_count: int) -> None:
        self.location = "s3://bench/wh/t"
        self.directory = folder / "bench" / "wh" / "t"
        self.directory.parent.mkdir(parents=True)
        paths = compact_tables.build(self.directory, file_count, ROWS, location=self.location)
        self.bytes = sum(path.stat().st_size for path in paths)
        self.paths = paths
        self.names = [f"wh/t/data/{path.name}" for path in paths]
        self._kept = {path for path in self.directory.rglob("*") if path.is_file()}
        self.options = {
            "key": s3_servers.KEY,
            "secret": s3_servers.SECRET,
            "endpoint_url": endpoint,
            "client_kwargs.region_name": "us-east-1",
        }

    def command(self, *words: str) -> Run:
        """Put everything back as it was, then run icectl on the table."""
        for path in set(self.directory.rglob("*")) - self._kept:
            if path.is_file():
                path.unlink()
        given = [f"{name}={value}" for name, value in self.options.items()]
        options = [word for one in given for word in ("--storage-option", one)]
        command = [words[0], self.location, *words[1:], *options, "--no-progress"]
        return process([sys.executable, "-m", "icectl", *command])

    def copied(self, *, puts: bool) -> None:
        """Get all data files, and put each elsewhere."""
        import obstore
        from obstore.store import S3Store

        store = S3Store(
            "bench",
            endpoint=self.options["endpoint_url"],
            access_key_id=s3_servers.KEY,
            secret_access_key=s3_servers.SECRET,
            region="us-east-1",
            client_options={"allow_http": True},
        )

        def one(name: str) -> None:
            content = obstore.get(store, name).bytes()
            if puts:
                obstore.put(store, f"copy/{name}", content, use_multipart=False)

        with ThreadPoolExecutor(COPIED_AT_ONCE) as pool:
            list(pool.map(one, self.names))


def compared(name: str, lake: Lake, command: Sequence[str], *, puts: bool) -> None:
    runs, copies = in_turn(
        1, lambda: lake.command(*command), lambda: call(lambda: lake.copied(puts=puts))
    )
    seconds, bare = (median([run.wall_seconds for run in some]) for some in (runs, copies))
    cpu = median([run.cpu_seconds for run in runs])
    peak = max(run.peak_bytes for run in runs) / 1e6
    rate, bare_rate = lake.bytes / 1e6 / seconds, lake.bytes / 1e6 / bare
    print(
        f"{name}: {rate:.0f} MB/s ({seconds:.1f} s, of processors {cpu:.1f} s, {peak:.0f} MB); "
        f"bare: {bare_rate:.0f} MB/s ({bare:.1f} s); ratio {bare / seconds:.2f}",
        flush=True,
    )


def floor(folder: Path, lake: Lake) -> None:
    """Print what the same compaction takes without a store, and pyarrow that checks nothing."""
    table = Table(folder / "local", compact_tables.adopt(folder / "local", lake.paths))

    def copied() -> Run:
        with ThreadPoolExecutor(2) as pool:
            halves = [
                [sys.executable, __file__, COPY, str(table.directory), str(half)]
                for half in range(2)
            ]
            both = list(pool.map(process, halves))
        return Run(max(run.wall_seconds for run in both), sum(run.cpu_seconds for run in both))

    for name, runs in zip(
        ("compact on a local disk", "pyarrow decodes and encodes, no more"),
        in_turn(1, lambda: table.compact("--yes"), copied),
        strict=True,
    ):
        seconds = median([run.wall_seconds for run in runs])
        cpu = median([run.cpu_seconds for run in runs])
        print(
            f"{name}: {lake.bytes / 1e6 / seconds:.0f} MB/s ({seconds:.1f} s, of processors "
            f"{cpu:.1f} s)",
            flush=True,
        )


def copy_half(directory: Path, half: int) -> None:
    """Copy every other data file of a table into one."""
    paths = sorted((directory / "data").glob("?????.parquet"))[half::2]
    copy_files(directory / f"copy-{half}", paths)


def inspected(folder: Path, options: Mapping[str, str]) -> bool:
    """Print what `inspect` of a table of many manifests takes; whether it is what is wanted."""
    local, place = folder / "bench" / "streamed", "s3://bench/streamed"
    big_table.build(local, MANIFESTS, ENTRIES)
    given = [
        word for key, value in options.items() for word in ("--storage-option", f"{key}={value}")
    ]
    icectl = str(Path(sys.executable).parent / "icectl")
    command = [icectl, "inspect", place, "--path-map", f"{local}={place}", *given]

    def bare() -> Run:
        return process([sys.executable, __file__, BARE, json.dumps(dict(options))])

    ours, theirs = in_turn(3, lambda: process(command), bare)
    for name, runs in ((f"inspect of {MANIFESTS} manifests", ours), ("reading them alone", theirs)):
        print(
            f"{name}: {median([run.wall_seconds for run in runs]):.2f} s "
            f"({median([run.cpu_seconds for run in runs]):.2f} s processor)"
        )
    return verdict("inspect / reading its objects alone", ratio(ours, theirs), 1.5)


def read_alone(options: Mapping[str, str]) -> None:
    """Read the manifests of the table, and do nothing with them."""
    store = open_store(StorageOptions(options, concurrency=AT_ONCE), SystemEnv())
    places = [f"s3://bench/streamed/metadata/m{number:05}.avro" for number in range(MANIFESTS)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        print(sum(map(len, pool.map(store.read, places))))


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("what", nargs="*", default=["small", "inspect", "compact", "validate"])
    arguments.add_argument("--files", type=int, default=1_000)
    given = arguments.parse_args()
    binary = s3_servers.program("versitygw")
    if binary is None:
        print(s3_servers.why_missing("versitygw"))
        return 0
    with (
        tempfile.TemporaryDirectory() as folder,
        s3_servers.versitygw(binary, Path(folder)) as server,
    ):
        server.client.create_bucket(Bucket="bench")
        port = delaying(int(server.endpoint.rpartition(":")[2]))
        if "small" in given.what:
            small_objects(Path(folder), port, server.options)
        options = {**server.options, "endpoint_url": f"http://127.0.0.1:{port}"}
        as_wanted = "inspect" not in given.what or inspected(Path(folder), options)
        if {"compact", "validate"} & set(given.what):
            lake = Lake(Path(folder), f"http://127.0.0.1:{port}", given.files)
            if "compact" in given.what:
                compared("compact", lake, ("compact", "--engine", "local", "--yes"), puts=True)
                floor(Path(folder), lake)
            if "validate" in given.what:
                compared("validate", lake, ("validate", "--level", "data"), puts=False)
        return 0 if as_wanted else 1


if __name__ == "__main__":
    if sys.argv[1:2] == [BARE]:
        read_alone(json.loads(sys.argv[2]))
    elif sys.argv[1:2] == [COPY]:
        copy_half(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(main())
