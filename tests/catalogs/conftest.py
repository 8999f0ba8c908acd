"""Every kind of catalog that tests can start on this machine, each for tests that all must pass."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.catalogs.server import NAME, Server
from tests.catalogs.sql_servers import sqlite_server

Start = Callable[[Path], AbstractContextManager[Server]]
"""Makes a catalog for one test, in a folder of its own; skips the test where it cannot be had."""

SERVERS: Mapping[str, Start] = {
    "sqlite": sqlite_server,
}
"""A kind of catalog joins the conformance tests by its line here."""


@pytest.fixture(params=sorted(SERVERS))
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    """A catalog that is configured as NAME in the environment, and nothing else is."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    with SERVERS[request.param](tmp_path) as started:
        started.warehouse.mkdir(exist_ok=True)
        for key, value in started.properties.items():
            variable = key.upper().replace(".", "__").replace("-", "_")
            monkeypatch.setenv(f"PYICEBERG_CATALOG__{NAME.upper()}__{variable}", value)
        yield started
