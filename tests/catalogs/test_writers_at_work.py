"""compact beside PyIceberg, which deletes and upserts rows of the same table all the while.

PyIceberg 0.12 writes no manifests of version 3, and deletes by copying files.
"""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import In

from icectl.commit.rewrite_files import FileRewrite
from icectl.commit.transaction import Proposal
from icectl.env import SystemEnv
from icectl.format.metadata import TableMetadata
from tests.catalogs.server import NAME
from tests.catalogs.sql_servers import sqlite_server
from tests.fault.changing import run

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("value", pa.int64())])
FILES, ROWS = 24, 20
PAUSE_SECONDS = 1.0  # between changes; longer where a change takes long, as on slow machines
PROPERTIES = {"format-version": "2", "commit.retry.num-retries": "10"}
MOST_TRIES = 2


@pytest.fixture
def properties(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """A catalog in SQLite, or Iceberg's own REST catalog, configured as NAME."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    uri = f"PYICEBERG_CATALOG__{NAME.upper()}__URI"
    if request.param == "rest":
        address = request.getfixturevalue("iceberg_rest")
        monkeypatch.setenv(uri, address)
        yield {"type": "rest", "uri": address}
        return
    with sqlite_server(tmp_path) as started:
        monkeypatch.setenv(uri, started.properties["uri"])
        yield {**started.properties, "warehouse": f"file://{tmp_path / 'w'}"}


class Writer:
    """A thread that deletes two rows, or gives two a new value, every now and then.

    `rows` are those that it has committed, `commits` how often.
    """

    def __init__(self, properties: dict[str, str], table: str) -> None:
        self._properties = properties
        self.table = f"db.{table}"
        self.rows: dict[int, int] = {}
        self.commits = 0
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        with closing(load_catalog(NAME, **self._properties)) as catalog:
            catalog.create_namespace_if_not_exists("db")
            table = catalog.create_table(self.table, SCHEMA, properties=PROPERTIES)
            for start in range(0, FILES * ROWS, ROWS):
                added = dict.fromkeys(range(start, start + ROWS), 0)
                table.append(_table(added))
                self.rows |= added

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self._work)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        chance = random.Random(1)
        try:
            with closing(load_catalog(NAME, **self._properties)) as catalog:
                pause = PAUSE_SECONDS
                while not self._stopped.wait(pause):
                    chosen = chance.sample(sorted(self.rows), 2)
                    start = time.monotonic()
                    self._change(catalog, chosen, is_deletion=chance.random() < 0.5)
                    pause = max(PAUSE_SECONDS, 3 * (time.monotonic() - start))
        except Exception as error:  # noqa: BLE001 - raised where the thread is waited for
            self._failure = error

    def _change(self, catalog, chosen: list[int], *, is_deletion: bool) -> None:
        table = catalog.load_table(self.table)
        new = {number: self.rows[number] + 1 for number in chosen}
        try:
            if is_deletion:
                table.delete(In("id", chosen))
            else:
                table.upsert(_table(new), join_cols=["id"])
        except (CommitFailedException, ValidationException):  # it lost to a compaction
            return
        self.commits += 1
        for number in chosen:
            del self.rows[number]
        if not is_deletion:
            self.rows |= new

    def await_commits(self, count: int) -> None:
        """Wait until so many changes more are committed."""
        wanted = self.commits + count
        while self.commits < wanted:
            assert self._failure is None
            threading.Event().wait(PAUSE_SECONDS / 10)

    def read(self) -> dict[int, int]:
        """The rows of the table, by PyIceberg."""
        with closing(load_catalog(NAME, **self._properties)) as catalog:
            found = catalog.load_table(self.table).scan().to_arrow().to_pylist()
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: row["value"] for row in found}


@dataclass(frozen=True)
class Slow(SystemEnv):
    """The writer commits once more between what a compaction writes and its commit."""

    writer: Writer

    def new_snapshot_id(self) -> int:
        self.writer.await_commits(1)
        return SystemEnv().new_snapshot_id()


def _table(rows: dict[int, int]) -> pa.Table:
    return pa.table([list(rows), list(rows.values())], schema=SCHEMA)


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tries the commit of each compaction took."""
    counts: list[int] = []
    propose = FileRewrite.propose
    seen: list[FileRewrite] = []

    def counted(self: FileRewrite, metadata: TableMetadata) -> Proposal:
        if not seen or seen[-1] is not self:
            seen.append(self)
            counts.append(0)
        counts[-1] += 1
        return propose(self, metadata)

    monkeypatch.setattr(FileRewrite, "propose", counted)
    return counts


REST = pytest.mark.xdist_group("rest")


@pytest.mark.parametrize(
    ("properties", "method", "runs"),
    [
        ("sqlite", "merge", 1),
        ("sqlite", "rewrite", 1),
        pytest.param("rest", "merge", 1, marks=REST),
        pytest.param("sqlite", "merge", 40, marks=pytest.mark.full),
        pytest.param("sqlite", "rewrite", 40, marks=pytest.mark.full),
        pytest.param("rest", "rewrite", 40, marks=[REST, pytest.mark.full]),
    ],
    indirect=["properties"],
)
def test_compactions_land_and_lose_no_change(properties, tmp_path, tries, method, runs):
    writer = Writer(properties, tmp_path.name)
    name = f"{NAME}.{writer.table}"
    words = ["compact", name, "--engine", "local", "--rewrite-all", "--json", "--yes"]
    with writer.at_work():
        for number in range(runs):
            writer.await_commits(2)  # so that there are files to put together
            code, document = run([*words, "--method", method], env=Slow(writer))
            if number and code == 11:  # PyIceberg has rewritten the one large file meanwhile
                continue
            assert code == 0, document
            assert number or document["result"]["carried_deletes"] > 0
    assert max(tries) <= MOST_TRIES
    assert writer.read() == writer.rows
    code, document = run(["validate", name, "--level", "data", "--json"])
    assert code == 0, document
