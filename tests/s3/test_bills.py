"""Bills of steps against what runs of them ask a store for: bytes of objects, and requests."""

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from icectl.cli import app
from tests.benchmarks import compact_tables
from tests.builders.table_builder import TableBuilder
from tests.s3.conftest import Bucket
from tests.stores.failing_proxy import Place
from tests.stores.fixed_env import FixedEnv
from tests.stores.s3_servers import S3Server

pytestmark = [pytest.mark.s3, pytest.mark.full]

LATER = FixedEnv(int(time.time() * 1000) + 30 * 86_400_000)
"""A month after objects were put into the bucket."""

RATIO, BYTES, REQUESTS = 0.2, 64 << 10, 3
"""How far a bill may be off, and below which figures that does not count."""

Ran = dict[str, int]


@pytest.fixture
def lake(place: Place, tmp_path: Any) -> Bucket:
    """A new bucket that is reached through a proxy."""
    server = S3Server(place.options["endpoint_url"], place.options, place.client)
    return Bucket(server, place.bucket, tmp_path)


@pytest.fixture
def run(lake: Bucket, place: Place, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a command on the table: what it says, and what it asked the store for."""

    def command(*words: str) -> tuple[dict[str, Any], Ran]:
        place.proxy.exchanges.clear()
        line = [words[0], lake.location("t"), *words[1:], "--json", *lake.arguments]
        code = app.main(line, env=LATER)
        document = json.loads(capsys.readouterr().out)
        assert code == 0, document
        return document["result"], counted(place.proxy.exchanges)

    return command


def counted(exchanges: list[tuple[str, str, int, int]]) -> Ran:
    """Bytes and requests as stores charge for them: listings as writes, deletions not at all."""
    found: Counter[str] = Counter()
    for method, path, sent, received in exchanges:
        if method in ("GET", "HEAD") and "list-type" not in path:
            found["get_requests"] += 1
            found["read_bytes"] += received
        elif method == "GET" or (method in ("PUT", "POST") and "?delete" not in path):
            found["put_requests"] += 1
            found["written_bytes"] += sent
    return found


def data_files(lake: Bucket) -> None:
    compact_tables.build(lake.directory / "t", 3, 200_000, location=lake.location("t"))


def appends(lake: Bucket, log: str = "100") -> None:
    properties = {"write.metadata.previous-versions-max": log}
    table = TableBuilder(lake.directory / "t", location=lake.location("t"), properties=properties)
    for start in range(0, 300, 5):
        table.append(range(start, start + 5))


def forgotten(lake: Bucket) -> None:
    """A table whose log has forgotten most of its metadata files."""
    appends(lake, log="5")


@pytest.mark.parametrize(
    ("build", "step"),
    [
        (appends, ["rewrite-manifests"]),
        (appends, ["expire-snapshots"]),
        (forgotten, ["remove-orphans"]),
    ],
)
def test_a_bill_is_what_its_run_takes(lake, run, build, step):
    build(lake)
    lake.upload("t")
    check(run, step)


SPLIT = ["compact", "--engine", "local", "--rewrite-all", "--target-file-size", "2MB"]
"""Has icectl write data files: those of others it writes in fewer bytes, which no bill knows."""

DELETE = ["expire-rows", "--where", "flag < 30", "--yes-any-filter", "--max-fraction", "1"]


@pytest.mark.parametrize("before", [[SPLIT], [SPLIT, DELETE]])
def test_the_bill_of_a_compaction_is_what_it_takes(lake, run, before):
    data_files(lake)
    lake.upload("t")
    for words in before:
        run(*words, "--yes")
    check(run, ["compact", "--engine", "local"])
    check(run, ["expire-snapshots"])


@pytest.mark.parametrize("method", ["deletes", "rewrite"])
def test_the_bill_of_a_deletion_is_what_it_takes(lake, run, tmp_path, method):
    data_files(lake)
    lake.upload("t")
    run(*SPLIT, "--yes")
    # a twentieth of the rows of each file
    age_ms = LATER.now_ms() - 1_700_000_000_000 - 50_000_000
    run("properties", "set", "icectl.ttl.column=at", f"icectl.ttl.age={age_ms}ms")
    told = planned(run, tmp_path, f'expire-rows.method = "{method}"', "expire-rows")
    compare(told, run("expire-rows", "--method", method, "--yes")[1])


def test_the_bill_of_an_analysis_is_what_it_takes(lake, run, tmp_path):
    data_files(lake)
    lake.upload("t")
    told = planned(run, tmp_path, 'analyze.columns = "*"', "analyze")
    compare(told, run("analyze", "--engine", "local", "--yes")[1])


def planned(run: Callable[..., Any], folder: Any, policy: str, step: str) -> dict[str, Any]:
    """What maintain says of a step by a policy."""
    file = folder / "maintain.toml"
    file.write_text(f"{policy}\n")
    file.chmod(0o600)
    found, _ = run("maintain", "--policy", str(file), "--only", step, "--dry-run")
    ((need,),) = [table["needs"] for table in found["tables"]]
    bill: dict[str, Any] = need["bill"]
    return bill


def check(run: Callable[..., Any], step: list[str]) -> None:
    """Compare what health says of a step with the step."""
    bills = {bill["command"]: bill for bill in run("inspect", "health")[0]["bills"]}
    compare(bills[step[0]], run(*step, "--yes")[1])


def compare(told: dict[str, Any], ran: Ran) -> None:
    """Compare a bill with what a run asked for."""
    differing = {
        name: (told[name], ran[name])
        for name in ("read_bytes", "written_bytes", "get_requests", "put_requests")
        if abs(told[name] - ran[name])
        > max(RATIO * ran[name], BYTES if name.endswith("bytes") else REQUESTS)
    }
    assert not differing
