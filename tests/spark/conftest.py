"""Tables of Iceberg's Spark runtime: written once, read before and after icectl maintained them."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import IO, Any

import pytest

from icectl.env import SystemEnv
from tests.fault.changing import run
from tests.spark.engine import command, environment, sqlite_driver

PEERS = Path(__file__).parents[1] / "peers"
SKIPPED = os.environ.get("ICECTL_TEST_NO_SPARK") or (
    None if os.environ.get("ICECTL_TEST_SPARK_JAR") else "tests/run.sh sets up the Spark peer"
)

STRAYS = ("data/lost.parquet", "data/category=c1/lost.orc", "metadata/lost-m0.avro", "lost")
Rows = Mapping[str, Mapping[str, tuple[int, str]]]
"""table name -> ref or snapshot id -> (rows, checksum)"""


_SERVING: list[tuple[subprocess.Popen[str], IO[str]]] = []
"""The process that runs scripts of the peer, once there is one, and what it says beside."""


def peer(*arguments: str, script: str = "spark_peer") -> str:
    """Run a script of the peer to its end; what it printed. Skips where there is none.

    One JVM is enough for all that a run of the tests asks.
    """
    if SKIPPED:
        pytest.skip(SKIPPED)
    if not _SERVING:
        log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the peer
        pipe = subprocess.PIPE
        jars = [os.environ["ICECTL_TEST_SPARK_JAR"], *filter(None, [sqlite_driver()])]
        line = command(str(PEERS / "serve.py"), ",".join(jars))
        process = subprocess.Popen(
            line, stdin=pipe, stdout=pipe, stderr=log, text=True, env=environment()
        )
        _SERVING.append((process, log))
    ((process, log),) = _SERVING
    assert process.stdin
    assert process.stdout
    print(json.dumps([script, *arguments]), file=process.stdin, flush=True)
    lines = []
    for line in process.stdout:
        if line == "null\n":
            return "".join(lines)
        lines.append(line)
    log.seek(0)
    told = log.read()[-4000:]
    pytest_sessionfinish()
    raise AssertionError(told)


def pytest_sessionfinish() -> None:
    """End the peer."""
    while _SERVING:
        process, log = _SERVING.pop()
        process.communicate(timeout=60)  # closes both pipes
        log.close()


def read_rows(tables: list[Path]) -> Rows:
    """Rows of every ref and snapshot of the tables, as Spark reads them."""
    rows: dict[str, dict[str, tuple[int, str]]] = defaultdict(dict)
    for line in peer("read", *map(str, tables)).splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            rows[found["table"]][found["versionAsOf"]] = (found["rows"], found["sha256"])
    return rows


def find_orphans(warehouse: Path) -> dict[str, frozenset[Path]]:
    """What Spark takes for orphans, once all files are a week old and some that are none's are
    among them.
    """
    week_ago = time.time() - 7 * 86_400
    for table in (warehouse / "db").iterdir():
        for name in STRAYS:
            (table / name).parent.mkdir(parents=True, exist_ok=True)
            (table / name).write_bytes(b"lost")
        for path in table.rglob("*"):
            if path.is_file():
                os.utime(path, (week_ago, week_ago))
    lines = (json.loads(line) for line in peer("orphans", str(warehouse)).splitlines() if line)
    return {
        found["table"]: frozenset(Path(place.removeprefix("file:")) for place in found["orphans"])
        for found in lines
    }


@dataclass(frozen=True)
class Run:
    """One run of icectl: its exit code and its JSON document."""

    exit_code: int
    document: Any
    errors: str


def asked_for(request: pytest.FixtureRequest, parameter: str = "name") -> set[str]:
    """The values of a parameter of the chosen tests that have the fixture."""
    tests = (item for item in request.session.items if isinstance(item, pytest.Function))
    specs = [
        getattr(item, "callspec", None)
        for item in tests
        if request.fixturename in item.fixturenames
    ]
    return {spec.params[parameter] for spec in specs if spec and parameter in spec.params}


def icectl(*arguments: str) -> Run:
    """Run icectl with --json, in this process: to start hundreds would take minutes."""
    errors = StringIO()
    with redirect_stderr(errors):
        code, document = run([*arguments, "--json"], env=SystemEnv())
    return Run(code, document, errors.getvalue())


MOVED = ("v2_equality", "v2_merge_on_read", "v3_merge_on_read", "v4_merge_on_read")
"""Tables of which a copy is relocated: position deletes, vectors and deletes by value."""


@dataclass(frozen=True)
class SparkTables:
    """Everything that was recorded on the peer's tables, in the order it happened."""

    directory: Path
    raced: list[int]
    before: Rows
    summaries: Mapping[str, Run]
    validations: Mapping[str, Run]
    expiries: Mapping[str, Run]
    second_expiries: Mapping[str, Run]
    rewrites: Mapping[str, Run]
    second_rewrites: Mapping[str, Run]
    migrations: Mapping[str, Run]
    orphans_of_spark: Mapping[str, frozenset[Path]]
    removals: Mapping[str, Run]
    merges: Mapping[str, Run]
    compactions: Mapping[str, Run]
    second_compactions: Mapping[str, Run]
    validations_after: Mapping[str, Run]
    relocations: Mapping[str, Run]
    after: Rows


@pytest.fixture(scope="session")
def spark_tables(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> SparkTables:
    """Write the tables that are asked for, read, inspect, validate, expire and rewrite twice,
    migrate, remove orphans, compact twice, validate, read again; copies that were made first have
    been relocated then.
    """
    warehouse = tmp_path_factory.mktemp("spark")
    wanted = sorted(asked_for(request) | {"v2_empty"})
    lines = peer("write", str(warehouse), *wanted).splitlines()
    (told,) = (json.loads(line) for line in lines if line.startswith("{"))
    tables = sorted((warehouse / "db").iterdir())
    before = read_rows(tables)
    copies = {name: warehouse / "moved" / f"{name}_moved" for name in MOVED if name in wanted}
    for name, copy in copies.items():
        shutil.copytree(warehouse / "db" / name, copy)

    def each(*arguments: str) -> dict[str, Run]:
        command, *options = arguments
        return {table.name: icectl(command, str(table), *options) for table in tables}

    validate = ("validate", "--level", "data", "--all-snapshots")
    compact = ("compact", "--engine", "local", "--min-input-files", "2")
    expire = ("expire-snapshots", "--older-than", "0s", "--retain-last", "1", "--yes")
    return SparkTables(
        directory=warehouse / "db",
        raced=told["raced"],
        before=before,
        summaries=each("inspect"),
        validations=each(*validate),
        expiries=each(*expire),
        second_expiries=each(*expire),
        rewrites=each("rewrite-manifests"),
        second_rewrites=each("rewrite-manifests"),
        migrations=each("migrate-v1-v2", "--rewrite-manifests", "--yes"),
        orphans_of_spark=find_orphans(warehouse),
        removals=each("remove-orphans", "--max-fraction", "1", "--yes"),
        merges=each("compact", "--deletes-only", "--min-input-files", "2"),
        compactions=each(*compact),
        second_compactions=each(*compact),
        validations_after=each(*validate),
        relocations={name: icectl("relocate", str(copy)) for name, copy in copies.items()},
        after=read_rows([*tables, *copies.values()]),
    )
