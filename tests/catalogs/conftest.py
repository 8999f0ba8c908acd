"""Every kind of catalog that tests can start on this machine, each for tests that all must pass."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.catalogs.glue_servers import glue_server
from tests.catalogs.hive_servers import hive_server, metastore
from tests.catalogs.rest_servers import iceberg_server, missing, rest_server
from tests.catalogs.server import NAME, Server
from tests.catalogs.sql_servers import DatabaseServer, mariadb, postgresql, sqlite_server

Start = Callable[[pytest.FixtureRequest, Path], AbstractContextManager[Server]]
"""Makes a catalog for one test, in a folder of its own; skips the test where it cannot be had.

What is slow to start is a fixture of the session, by the request.
"""


def _in_database(name: str) -> Start:
    def start(request: pytest.FixtureRequest, folder: Path) -> AbstractContextManager[Server]:
        database: DatabaseServer = request.getfixturevalue(name)
        return database.catalog(folder)

    return start


def _on_iceberg(request: pytest.FixtureRequest, folder: Path) -> AbstractContextManager[Server]:
    return rest_server(request.getfixturevalue("iceberg_rest"), folder)


def _in_metastore(name: str, *, locks: bool) -> Start:
    def start(request: pytest.FixtureRequest, folder: Path) -> AbstractContextManager[Server]:
        return hive_server(request.getfixturevalue(name), folder, locks=locks)

    return start


SERVERS: Mapping[str, Start] = {
    "rest": _on_iceberg,
    "sqlite": lambda _, folder: sqlite_server(folder),
    "postgresql": _in_database("postgresql_server"),
    "mariadb": _in_database("mariadb_server"),
    "glue": lambda _, folder: glue_server(folder),
    "hive-3": _in_metastore("hive3", locks=True),
    "hive-4": _in_metastore("hive4", locks=False),
    "hive-4-locks": _in_metastore("hive4", locks=True),
}
"""A kind of catalog joins the conformance tests by its line here."""


@pytest.fixture(scope="session")
def iceberg_rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of Iceberg's own REST server, one for the session."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with iceberg_server(tmp_path_factory.mktemp("rest")) as uri:
        yield uri


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[DatabaseServer]:
    """PostgreSQL, one for the session."""
    with postgresql() as started:
        yield started


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[DatabaseServer]:
    """MariaDB, one for the session."""
    with mariadb() as started:
        yield started


@pytest.fixture(scope="session")
def hive3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a metastore of Hive 3, which knows locks alone, one for the session."""
    with metastore(3, tmp_path_factory.mktemp("hive3")) as port:
        yield port


@pytest.fixture(scope="session")
def hive4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a metastore of Hive 4, which can compare the pointer, one for the session."""
    with metastore(4, tmp_path_factory.mktemp("hive4")) as port:
        yield port


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In the quick tier, one version of the format is enough for all kinds of catalogs but one."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        kind = parameters.get("server", "sqlite")
        if kind != "sqlite" and parameters.get("version", 2) != 2:
            item.add_marker(pytest.mark.full)
        if kind.startswith("hive"):  # test_hive.py has what the quick tier needs
            item.add_marker(pytest.mark.full)
        if kind in ("postgresql", "mariadb") and item.path.name == "test_races.py":
            item.add_marker(pytest.mark.full)  # SQLite stands for all databases there
        if kind.startswith("hive") or item.path.name == "test_hive.py":
            item.add_marker(pytest.mark.xdist_group("hive"))


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in SERVERS]
)
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    """A catalog that is configured as NAME in the environment, and nothing else is."""
    with SERVERS[request.param](request, tmp_path) as started:
        configure(monkeypatch, tmp_path, started)
        yield started


def configure(monkeypatch: pytest.MonkeyPatch, folder: Path, server: Server) -> None:
    """Configure a catalog as NAME in the environment, and nothing else."""
    home = folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    server.warehouse.mkdir(exist_ok=True)
    for key, value in server.properties.items():
        variable = key.upper().replace(".", "__").replace("-", "_")
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{NAME.upper()}__{variable}", value)
