"""Plans of `icectl compact --where` of one day of 2,000, and without it, in one process.

python tests/benchmarks/bench_where.py [MANIFESTS [FILES]]

Each day has a manifest of 500 files. The table is of version 2 first, then of layout sfc-1. What a
process takes to start is not in the figures. Last come the requests on an S3 server that takes
30 ms to answer, if there is one.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from icectl.catalog.files import FileSystemCatalog
from icectl.cli import app
from icectl.commands.compact.plan_options import CompactOptions
from icectl.commands.compact.run import prepare
from icectl.entries.conditions import parse_where
from icectl.env import SystemEnv
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.transforms import parse_transform
from icectl.progress import SilentProgress
from icectl.storage.open import StorageOptions, open_store
from icectl.storage.store import Store
from icectl.table.context import Deadline, TableContext
from icectl.table.output_sizes import Sizes
from tests.benchmarks.bench_stores import AT_ONCE, delaying
from tests.benchmarks.big_table import build
from tests.benchmarks.measure import call, cpu_ratio, in_turn, median, verdict
from tests.stores import s3_servers
from tests.stores.wrapped import CountingStore

BY_DAY = PartitionSpec(0, (PartitionField((3,), 1000, "day", parse_transform("day")),))
ONE_DAY = "column_3 >= '1970-01-08' AND column_3 < '1970-01-09'"
SIZES = Sizes(1 << 24, 1, 1 << 40)
"""Nothing is to be compacted: there are no data files."""


def plan(store: Store, table: str, where: str | None) -> tuple[int, int]:
    """Plan a compaction; how many files are read, and how many of these are manifests."""
    counting, env = CountingStore(store), SystemEnv()
    catalog = FileSystemCatalog(counting, table, env)
    context = TableContext(counting, catalog, env, SilentProgress(), Deadline(env, None), AT_ONCE)

    def options(metadata: TableMetadata) -> CompactOptions:
        condition = None if where is None else parse_where(where, metadata)
        return CompactOptions(SIZES, metadata.default_spec_id, where=condition)

    prepare(context, "main", options)
    read = [place for method, place in counting.calls if method.startswith(("read", "open"))]
    return len(read), sum("/metadata/m" in place for place in read)


def compared(name: str, store: Store, table: str) -> bool:
    """Time a plan of one day and one of all days in turn."""
    opened: dict[str | None, int] = {}

    def run(where: str | None) -> None:
        _, opened[where] = plan(store, table, where)

    day, every = in_turn(1, lambda: call(lambda: run(ONE_DAY)), lambda: call(lambda: run(None)))
    for what, runs, where in (("one day", day, ONE_DAY), ("all days", every, None)):
        print(
            f"{name}, {what}: {median([one.wall_seconds for one in runs]):.3f} s "
            f"({median([one.cpu_seconds for one in runs]):.3f} s processor), "
            f"{opened[where]} manifests opened"
        )
    return verdict(f"{name}, times the processor", cpu_ratio(every, day), 30, at_most=False)


def requests(folder: Path, server: s3_servers.S3Server, counts: Mapping[str, int]) -> bool:
    """Count the requests of a plan of one day, of a table of few manifests and of many."""
    server.client.create_bucket(Bucket="bench")
    told = Counter[str]()
    port = delaying(int(server.endpoint.rpartition(":")[2]), told=told)
    options = {**server.options, "endpoint_url": f"http://127.0.0.1:{port}"}
    store = open_store(StorageOptions(options, concurrency=AT_ONCE), SystemEnv())
    made = []
    for name, count in counts.items():
        place, directory = f"s3://bench/{name}", folder / "bench" / name
        build(directory, count, 5, metrics=False, spec=BY_DAY, location=place)
        told.clear()
        read, _ = plan(store, place, ONE_DAY)
        made.append(read)
        print(f"s3, {count} manifests: {read} reads; with the listing {told['requests']} requests")
    return verdict("reads more than for few manifests", made[-1] - made[0], 0)


def main() -> int:
    """Print the ratios; 1 when a target is missed."""
    manifests, count = (int(argument) for argument in [*sys.argv[1:], "2000", "500"][:2])
    binary = s3_servers.program("versitygw")
    store = open_store(StorageOptions({}, concurrency=AT_ONCE), SystemEnv())
    with tempfile.TemporaryDirectory() as folder:
        table = str(Path(folder) / "days")
        build(Path(table), manifests, count, spec=BY_DAY)
        reached = [compared("version 2", store, table)]
        app.main(["upgrade-to-v4", table, "--layout=sfc-1", "--yes", "--quiet"])
        reached.append(compared("sfc-1", store, table))
        if binary is None:
            print(s3_servers.why_missing("versitygw"))
        else:
            with s3_servers.versitygw(binary, Path(folder)) as server:
                counts = {"few": 8, "many": manifests}
                reached.append(requests(Path(folder), server, counts))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
