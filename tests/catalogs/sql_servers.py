"""Catalogs in databases, for the tests that every kind of catalog has to pass."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from icectl.catalog import sql_drivers
from tests.catalogs.server import NAME, NAMESPACE

_V1 = """CREATE TABLE iceberg_tables (
  catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL,
  table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000),
  previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),
  PRIMARY KEY (catalog_name, table_namespace, table_name))"""
_V0 = _V1.replace("iceberg_type VARCHAR(5),\n", "")
_PROPERTIES = """CREATE TABLE iceberg_namespace_properties (
  catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL,
  property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000) NOT NULL,
  PRIMARY KEY (catalog_name, namespace, property_key))"""


@dataclass
class SqlServer:
    """A catalog in a database; `connect` reaches it without icectl."""

    properties: dict[str, str]
    warehouse: Path
    connect: Callable[[], Any]
    mark: str = "?"

    def execute(self, statement: str, *values: object) -> list[Any]:
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(statement.replace("?", self.mark), values)
            found = cursor.fetchall() if cursor.description else []
            connection.commit()
            return list(found)

    def create(self, *, with_type: bool = True) -> None:
        """Make the tables that Iceberg's own catalogs make, in the newer or the older schema."""
        self.execute(_V1 if with_type else _V0)
        self.execute(_PROPERTIES)

    def register(self, table: str, metadata_location: str) -> None:
        self.execute(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name,"
            " metadata_location) VALUES (?, ?, ?, ?)",
            NAME, ".".join(NAMESPACE), table, metadata_location,
        )  # fmt: skip

    def current(self, table: str) -> str:
        [[location]] = self.execute(
            "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = ?"
            " AND table_namespace = ? AND table_name = ?",
            NAME, ".".join(NAMESPACE), table,
        )  # fmt: skip
        return str(location)

    def change(self, table: str, tag: str, snapshot_id: int) -> None:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog(NAME, **self.properties)
        with catalog.load_table((*NAMESPACE, table)).manage_snapshots() as snapshots:
            snapshots.create_tag(snapshot_id, tag)

    @contextmanager
    def losing_answer(self, *, landed: bool) -> Iterator[None]:
        with self._commits(landed=landed, then_dead=False):
            yield

    @contextmanager
    def dying(self) -> Iterator[None]:
        with self._commits(landed=False, then_dead=True):
            yield

    @contextmanager
    def _commits(self, *, landed: bool, then_dead: bool) -> Iterator[None]:
        """The connection breaks at the next commit of a transaction, on the way there or back."""
        state = {"armed": True}
        original = sql_drivers.Database.connect

        def connect(database: Any) -> Any:
            if not state["armed"] and then_dead:
                raise database.failure(database.errors("connection refused"), "cannot reach")
            return _Breaking(original(database), database.errors, state, landed=landed)

        with patch.object(sql_drivers.Database, "connect", connect):
            yield
        assert not state["armed"], "nothing was committed"


class _Breaking:
    """A connection to a database that breaks at a commit."""

    def __init__(
        self, connection: Any, error: type[Exception], state: dict[str, bool], *, landed: bool
    ) -> None:
        self._connection, self._error, self._state = connection, error, state
        self._landed = landed

    def commit(self) -> None:
        if not self._state["armed"]:
            self._connection.commit()
            return
        self._state["armed"] = False
        if self._landed:
            self._connection.commit()
        else:
            self._connection.rollback()
        raise self._error("server closed the connection unexpectedly")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@contextmanager
def sqlite_server(folder: Path) -> Iterator[SqlServer]:
    """A catalog in a file."""
    file = folder / "catalog.db"
    server = SqlServer(
        {"type": "sql", "uri": f"sqlite:///{file}"},
        folder / "warehouse",
        lambda: sqlite3.connect(file),
    )
    server.create()
    yield server
