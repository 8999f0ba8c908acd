"""Catalogs in databases, for the tests that every kind of catalog has to pass."""

import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest

from icectl.catalog import sql
from icectl.catalog.protocol import Committed, Conflict
from tests.catalogs.server import NAME

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
    swaps_pointer: bool = True
    namespace: tuple[str, ...] = ("db", "inner")
    lost_on_the_way: Sequence[type] = (Conflict, Committed)

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
            NAME, ".".join(self.namespace), table, metadata_location,
        )  # fmt: skip

    def current(self, table: str) -> str:
        [[location]] = self.execute(
            "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = ?"
            " AND table_namespace = ? AND table_name = ?",
            NAME, ".".join(self.namespace), table,
        )  # fmt: skip
        return str(location)

    def change(self, table: str, tag: str, snapshot_id: int) -> None:
        from pyiceberg.catalog import load_catalog

        with (
            closing(load_catalog(NAME, **self.properties)) as catalog,
            catalog.load_table((*self.namespace, table)).manage_snapshots() as snapshots,
        ):
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
        original = sql.Database.connect

        def connect(database: Any) -> Any:
            if not state["armed"] and then_dead:
                raise database.failure(database.errors("connection refused"), "cannot reach")
            return _Breaking(original(database), database.errors, state, landed=landed)

        with patch.object(sql.Database, "connect", connect):
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


@dataclass(frozen=True)
class DatabaseServer:
    """A database server on this machine; `database` makes a database, and tells its URI.

    `driver` connects by the URI, without icectl.
    """

    database: Callable[[str], str]
    driver: Callable[[str], Any]

    @contextmanager
    def catalog(self, folder: Path) -> Iterator[SqlServer]:
        """A catalog in a database of its own."""
        uri = self.database(f"d{uuid4().hex}")
        server = SqlServer(
            {"type": "sql", "uri": uri}, folder / "warehouse", lambda: self.driver(uri), "%s"
        )
        server.create()
        yield server


@contextmanager
def postgresql() -> Iterator[DatabaseServer]:
    """PostgreSQL by the programs of this machine; skips where there are none."""
    psycopg = pytest.importorskip("psycopg")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = found[-1] if found else shutil.which("initdb")
    if initdb is None:
        pytest.skip("there is no PostgreSQL: `apt-get install postgresql` brings one")
    programs, port = Path(initdb).parent, free_port()
    with _folder_of("postgres") as (folder, as_user):
        data = folder / "data"
        _run([*as_user, programs / "initdb", "-D", data, "-U", "icectl", "-A", "trust", "-N"])
        options = f"-c fsync=off -c unix_socket_directories= -c port={port}"
        _run([*as_user, programs / "pg_ctl", "-D", data, "-o", options, "-l", folder / "log",
              "-w", "start"])  # fmt: skip
        try:
            root = f"postgresql://icectl@127.0.0.1:{port}"

            def database(name: str) -> str:
                with psycopg.connect(f"{root}/postgres", autocommit=True) as connection:
                    connection.execute(f'CREATE DATABASE "{name}"')
                return f"{root}/{name}".replace("://", "+psycopg://")

            def driver(uri: str) -> Any:
                return psycopg.connect(uri.replace("+psycopg", ""))

            yield DatabaseServer(database, driver)
        finally:
            _run([*as_user, programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"])


@contextmanager
def mariadb() -> Iterator[DatabaseServer]:
    """MariaDB by the program of this machine, or ICECTL_TEST_MARIADBD; skips without one."""
    pymysql = pytest.importorskip("pymysql")
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    program = os.environ.get("ICECTL_TEST_MARIADBD") or shutil.which("mariadbd", path=path)
    if program is None:
        pytest.skip("there is no MariaDB: `apt-get install mariadb-server-core` brings one")
    port = free_port()
    with _folder_of("mysql") as (folder, as_user):
        command = [
            *as_user, program, "--no-defaults", f"--datadir={folder}", f"--port={port}",
            "--bind-address=127.0.0.1", f"--socket={folder}/s", "--skip-grant-tables",
            "--skip-networking=0", "--innodb-flush-log-at-trx-commit=0", f"--pid-file={folder}/pid",
            "--innodb-buffer-pool-size=32M",
        ]  # fmt: skip
        with (folder / "log").open("w") as log:
            process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
        try:

            def driver(uri: str) -> Any:
                name = uri.rpartition("/")[2]
                return pymysql.connect(host="127.0.0.1", port=port, user="root", database=name)

            def database(name: str) -> str:
                with pymysql.connect(host="127.0.0.1", port=port, user="root") as connection:
                    connection.cursor().execute(f"CREATE DATABASE {name}")
                return f"mysql+pymysql://root@127.0.0.1:{port}/{name}"

            _wait_until_open(port, process, folder / "log")
            yield DatabaseServer(database, driver)
        finally:
            process.terminate()
            process.wait()


@contextmanager
def _folder_of(user: str) -> Iterator[tuple[Path, list[str]]]:
    """A folder for a server that refuses to run as root, and what runs a command as its user."""
    folder = Path(tempfile.mkdtemp(prefix="icectl-"))
    as_user: list[str] = []
    try:
        if os.getuid() == 0:
            try:
                entry = pwd.getpwnam(user)
            except KeyError:
                entry = pwd.getpwnam("nobody")
            os.chown(folder, entry.pw_uid, entry.pw_gid)
            as_user = ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}",
                       "--clear-groups"]  # fmt: skip
        yield folder, as_user
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _run(command: list[Any]) -> None:
    words = [str(word) for word in command]
    ended = subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        cwd="/", timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout.decode()


def _wait_until_open(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(600):
        assert process.poll() is None, log.read_text()
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text())
