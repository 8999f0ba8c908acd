"""Many small objects of an S3 server that takes 30 ms to answer: by obstore, and by s3fs.

Prints the seconds of reading 1,000 objects of 8 KB and of listing 20,000, and of `inspect` of a
table of 2,000 manifests of 50 files there, beside a process that only reads the same objects.
"""

import asyncio
import json
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from icectl.env import SystemEnv
from icectl.storage.open import StorageOptions, open_store
from icectl.storage.store import Store
from tests.benchmarks.big_table import build
from tests.benchmarks.measure import Run, in_turn, median, process, ratio, verdict
from tests.stores import s3_servers
from tests.stores.s3_servers import BY_S3FS, free_port

SECONDS = 0.03
READ, LISTED = 1_000, 20_000
MANIFESTS, ENTRIES = 2_000, 50
AT_ONCE = 48
BARE = "--bare"


def delaying(port: int) -> int:
    """A proxy that passes bytes on to a port later, in a thread of its own; its port."""
    front = free_port()
    is_there = threading.Event()

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        loop = asyncio.get_running_loop()

        async def forth() -> None:
            while content := await reader.read(1 << 16):
                loop.call_later(SECONDS, server_writer.write, content)
            loop.call_later(SECONDS, server_writer.close)

        task = asyncio.create_task(forth())
        while content := await server_reader.read(1 << 16):
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


def inspected(folder: Path, options: Mapping[str, str]) -> bool:
    """Print what `inspect` of a table of many manifests takes; whether it is what is wanted."""
    local, place = folder / "bench" / "streamed", "s3://bench/streamed"
    build(local, MANIFESTS, ENTRIES)
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
    binary = s3_servers.program("versitygw")
    if binary is None:
        print(s3_servers.why_missing("versitygw"))
        return 0
    with (
        tempfile.TemporaryDirectory() as folder,
        s3_servers.versitygw(binary, Path(folder)) as server,
    ):
        server.client.create_bucket(Bucket="bench")
        for number in range(LISTED):
            path = Path(folder) / "bench" / "t" / f"p={number % 50}" / f"f{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(8192 if number < READ else 1))
        port = delaying(int(server.endpoint.rpartition(":")[2]))
        options = {**server.options, "endpoint_url": f"http://127.0.0.1:{port}"}
        for name, more, at_once in (("obstore", {}, AT_ONCE), ("s3fs", BY_S3FS, 8)):
            store = open_store(
                StorageOptions({**options, **more}, concurrency=at_once), SystemEnv()
            )
            measure(name, store, at_once)
        return 0 if inspected(Path(folder), options) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == [BARE]:
        read_alone(json.loads(sys.argv[2]))
    else:
        sys.exit(main())
