"""icectl maintains a table of a database's catalog while PyIceberg appends to it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy.exc import OperationalError

from icectl.env import SystemEnv
from tests.catalogs.conftest import SERVERS
from tests.catalogs.server import NAME
from tests.fault.changing import run

TABLE = f"{NAME}.raced.t"
COMMANDS = (
    ["compact", TABLE, "--engine", "local", "--rewrite-all", "--json"],
    ["expire-snapshots", TABLE, "--older-than", "0s", "--retain-last", "1", "--yes", "--json"],
    ["rewrite-manifests", TABLE, "--min-manifests", "1", "--json"],
)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def catalog(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Catalog]:
    """PyIceberg's view of a catalog that icectl has as NAME."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    with SERVERS[request.param](request, tmp_path) as server:
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{NAME.upper()}__URI", server.properties["uri"])
        opened = load_catalog(NAME, **server.properties, warehouse=f"file://{tmp_path}/w")
        with closing(opened) as catalog:
            catalog.create_namespace("raced")
            yield catalog


@pytest.mark.parametrize("rounds", [5, pytest.param(200, marks=pytest.mark.full)])
def test_no_row_is_lost_between_two_clients(catalog: Catalog, rounds: int) -> None:
    catalog.create_table("raced.t", pa.schema([("a", pa.int64())]))

    def append(number: int) -> None:
        while True:
            try:
                catalog.load_table("raced.t").append(pa.table({"a": [number]}))
            except (CommitFailedException, FileNotFoundError, OperationalError):
                continue  # another was faster, or has expired what was being read
            return

    append(-1)
    ended = [code for code, _ in _meanwhile(lambda: [append(number) for number in range(rounds)])]
    assert set(ended) <= {0, 11}
    assert 0 in ended
    found = catalog.load_table("raced.t").scan().to_arrow()["a"].to_pylist()
    assert sorted(found) == list(range(-1, rounds))
    code, document = run(["validate", TABLE, "--all-snapshots", "--json"])
    assert (code, document["result"]["counts"]["error"]) == (0, 0), document


def _meanwhile(appends: Callable[[], object]) -> Iterator[tuple[int, object]]:
    """Run icectl again and again until all appends are done."""
    failed: list[BaseException] = []

    def work() -> None:
        try:
            appends()
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    number = 0
    while thread.is_alive() or number < len(COMMANDS):
        code, document = run(COMMANDS[number % len(COMMANDS)], env=SystemEnv())
        yield code, document
        number += 1
    thread.join()
    assert not failed, failed[0]
