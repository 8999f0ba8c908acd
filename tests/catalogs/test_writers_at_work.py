"""compact beside PyIceberg, which deletes and upserts rows of the same table all the while."""

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

from icectl.env import SystemEnv
from tests.catalogs.server import NAME
from tests.catalogs.sql_servers import SqlServer, sqlite_server
from tests.fault.changing import run

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("value", pa.int64())])
FILES, ROWS = 24, 20
PAUSE_SECONDS = 0.2  # between changes; on a slow machine as long as a change takes
# Each try takes the head of then; ten leave room for a machine on which a try takes a second.
PROPERTIES = {"format-version": "2", "commit.retry.num-retries": "10"}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlServer]:
    """A catalog in SQLite, configured as NAME."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    with sqlite_server(tmp_path) as started:
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{NAME.upper()}__URI", started.properties["uri"])
        yield started


class Writer:
    """A thread that deletes two rows, or gives two a new value, every now and then.

    `rows` are those that it has committed, `commits` how often.
    """

    def __init__(self, server: SqlServer, warehouse: Path) -> None:
        self._properties = {**server.properties, "warehouse": f"file://{warehouse}"}
        self.rows: dict[int, int] = {}
        self.commits = 0
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        with closing(load_catalog(NAME, **self._properties)) as catalog:
            catalog.create_namespace("db")
            table = catalog.create_table("db.t", SCHEMA, properties=PROPERTIES)
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
                    pause = max(PAUSE_SECONDS, time.monotonic() - start)
        except Exception as error:  # noqa: BLE001 - raised where the thread is waited for
            self._failure = error

    def _change(self, catalog, chosen: list[int], *, is_deletion: bool) -> None:
        table = catalog.load_table("db.t")
        new = {number: self.rows[number] + 1 for number in chosen}
        try:
            if is_deletion:
                table.delete(In("id", chosen))
            else:
                table.upsert(_table(new), join_cols=["id"])
        except (
            CommitFailedException,
            ValidationException,
        ):  # it lost to a compaction
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
            found = catalog.load_table("db.t").scan().to_arrow().to_pylist()
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


@pytest.mark.parametrize("runs", [1, pytest.param(40, marks=pytest.mark.full)])
@pytest.mark.parametrize("method", ["merge", "rewrite"])
def test_compactions_land_and_lose_no_change(
    server: SqlServer, tmp_path: Path, method: str, runs: int
) -> None:
    writer = Writer(server, tmp_path / "w")
    words = ["compact", f"{NAME}.db.t", "--engine", "local", "--rewrite-all", "--json", "--yes"]
    with writer.at_work():
        for number in range(runs):
            writer.await_commits(2)  # so that there are files to put together
            code, document = run([*words, "--method", method], env=Slow(writer))
            if number and code == 11:  # PyIceberg has rewritten the one large file meanwhile
                continue
            assert code == 0, document
            assert number or document["result"]["carried_deletes"] > 0
    assert writer.read() == writer.rows
    code, document = run(["validate", f"{NAME}.db.t", "--level", "data", "--json"])
    assert code == 0, document
