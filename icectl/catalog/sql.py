"""Catalogs in a database: the tables of Iceberg's JdbcCatalog, which PyIceberg's SqlCatalog shares.

One row of `iceberg_tables` is the pointer to a table's current metadata file. Its newer schema
(V1) has a column `iceberg_type`, which tells views from tables. Nothing here makes such tables.
Drivers of databases are used as they are: SQLAlchemy takes longer to import than a table to read.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from icectl.catalog.identifier import TableName, no_namespace, no_table
from icectl.catalog.metadata_files import read_file
from icectl.catalog.pointer import PointerState, SwapUncertain, behind_pointer, store_of_catalog
from icectl.catalog.protocol import CatalogAccess, Conflict, TableInCatalog, TablePlace, places
from icectl.env import Deadline
from icectl.errors import CorruptTable, StorageError, TableNotFound, Unsupported, UsageError
from icectl.format.metadata import TableMetadata
from icectl.storage.location import redacted
from icectl.storage.store import Store
from icectl.units import read_count

_VIEW = "VIEW"
_OF_TABLE = "catalog_name = ? AND table_namespace = ? AND table_name = ?"
_SELECT = f"SELECT * FROM iceberg_tables WHERE {_OF_TABLE}"  # noqa: S608 - a constant
_UPDATE = (
    "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? "  # noqa: S608
    f"WHERE {_OF_TABLE} AND metadata_location = ?"
)
_NAMES = "SELECT * FROM iceberg_tables WHERE catalog_name = ? ORDER BY table_namespace, table_name"
_IN_NAMESPACE = (
    "SELECT * FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? "
    "ORDER BY table_name"
)
_NAMESPACES = (
    "SELECT table_namespace FROM iceberg_tables WHERE catalog_name = ? "
    "UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?"
)
_CATALOGS = "SELECT DISTINCT catalog_name FROM iceberg_tables ORDER BY catalog_name"

_COLUMNS: Mapping[str, Any] = {
    "table_namespace": str,
    "table_name": str,
    "metadata_location": str | None,
    "previous_metadata_location": str | None,
}
"""What a row has at least, and of which kind."""

_WAIT_SECONDS = 30
"""How long another writer of the same rows is waited for."""

_LONGEST_WAIT_SECONDS = 1_000_000
_LEAST_SECONDS = 60
"""How long a statement may take in any case: one that changes a row must not be cut off."""

_DRIVERS: Mapping[str, Sequence[str]] = {
    "postgresql": ("psycopg", "psycopg2"),
    "mysql": ("pymysql", "MySQLdb"),
}
_FAMILY = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlite": "sqlite",
}
_LOST: Mapping[str, Mapping[str, int]] = {
    "postgresql": {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 5},
    "mysql": {"read_timeout": 120, "write_timeout": 120},
}
"""How long a server may say nothing, locks waited for included, before it is taken for gone."""

_MOST_MILLISECONDS = 2**31 - 1
_CONFLICTS = {
    "postgresql": ("40001", "40P01"),  # serialization failure, deadlock
    "mysql": (1213, 1020),  # deadlock, record has changed
}
_DATABASE_KEY = {"psycopg": "dbname", "psycopg2": "dbname", "pymysql": "database", "MySQLdb": "db"}


@dataclass(frozen=True, slots=True)
class Database:
    """One database: how to connect, and how its driver is spoken to.

    `family` is `sqlite`, `postgresql` or `mysql`; `shown` names it in messages, without secrets.
    """

    family: str
    shown: str
    placeholder: str
    errors: type[Exception]
    open: Callable[[Mapping[str, int]], Any] = field(repr=False)
    deadline: Deadline = field(compare=False)

    def connect(self) -> Any:
        """Return a new connection, in no transaction. Raises: StorageError; TableNotFound."""
        try:
            return self.open(self._seconds())
        except self.errors as error:
            raise self.failure(error, "cannot reach") from error
        except TypeError as error:  # an argument that the driver does not have
            raise UsageError(
                f"the driver of the database {self.shown} rejects parameters in its URI: "
                f"{reason_of(error)}"
            ) from error

    def _seconds(self) -> Mapping[str, int]:
        """Return the time-outs of a connection that the deadline shortens."""
        if self.family == "sqlite":
            return {}
        left = max(self.deadline.remaining_seconds, 1)
        shorter = {"connect_timeout": min(left, _WAIT_SECONDS)}
        if self.family == "mysql":
            answer = max(left, _LEAST_SECONDS)
            shorter |= {name: min(answer, most) for name, most in _LOST["mysql"].items()}
        return {name: ceil(seconds) for name, seconds in shorter.items()}

    def cursor(self, connection: Any) -> Any:
        """Return a cursor of a new connection, whose statements end soon after the deadline."""
        cursor = connection.cursor()
        left = self.deadline.remaining_seconds
        if self.family == "postgresql" and left != float("inf"):
            milliseconds = min(ceil(max(left, _LEAST_SECONDS) * 1000), _MOST_MILLISECONDS)
            cursor.execute(f"SET LOCAL statement_timeout = {milliseconds}")
        return cursor

    def failure(self, error: Exception, what: str = "cannot read") -> StorageError:
        return StorageError(
            f"{what} the database {self.shown}: {reason_of(error)}",
            hint="check the catalog's `uri`, what its user may do, and that the database runs",
        )

    def is_conflict(self, error: Exception) -> bool:
        """Return whether a statement failed since another transaction changed the same rows."""
        code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if self.family == "mysql" and error.args:
            code = error.args[0]
        return code in _CONFLICTS.get(self.family, ())

    def sql(self, statement: str) -> str:
        """Return a statement whose parameters are written `?`, as the driver wants them."""
        return statement.replace("?", self.placeholder)


def database_of(catalog: str, properties: Mapping[str, str], deadline: Deadline) -> Database:
    """Return a database before it is connected to. Raises: UsageError; Unsupported."""
    uri = properties["uri"].removeprefix("jdbc:")
    dialect, _, rest = uri.partition(":")
    name, _, driver = dialect.lower().partition("+")
    family = _FAMILY.get(name)
    if family is None:
        raise Unsupported(
            f"catalog `{catalog}` is in a database of {name}, which icectl does not support",
            hint="use SQLite, PostgreSQL, MySQL or MariaDB",
        )
    if family == "sqlite":
        return _sqlite(rest, deadline)
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise UsageError(
            f"catalog `{catalog}`: the host or the port in its `uri` is not valid",
            hint="write `/`, `@` and `[` in passwords as %2F, %40 and %5B",
        ) from error
    module = _driver(family, driver)
    arguments: dict[str, Any] = {
        "host": parts.hostname,
        "user": unquote(parts.username) if parts.username else properties.get("jdbc.user"),
        "password": unquote(parts.password) if parts.password else properties.get("jdbc.password"),
        _DATABASE_KEY[module.__name__]: unquote(parts.path.lstrip("/")) or None,
    }
    arguments["port"] = port
    arguments = {key: value for key, value in arguments.items() if value is not None}
    query: dict[str, Any] = dict(parse_qsl(parts.query))
    query |= {key: number for key in query if (number := read_count(query[key])) is not None}

    def connect(seconds: Mapping[str, int]) -> Any:
        return module.connect(**{**arguments, **_LOST[family], **seconds, **query})

    shown = redacted(uri.partition("?")[0])  # what follows may hold a password too
    return Database(family, shown, "%s", module.Error, connect, deadline)


def reason_of(error: Exception) -> str:
    """Return what a driver says, on one line."""
    last = error.args[-1] if error.args else ""
    return " ".join(str(last if isinstance(last, str) else error).split()) or type(error).__name__


def _sqlite(rest: str, deadline: Deadline) -> Database:
    """SQLite: `sqlite:///relative`, `sqlite:////absolute`, and JDBC's `sqlite:path`."""
    path, _, query = rest.partition("?")
    path = path.removeprefix("///")
    if path.startswith("file:"):
        path = path.removeprefix("file:")
    options = dict(parse_qsl(query))
    if path in ("", "//", ":memory:"):
        raise UsageError("icectl cannot reach tables in a SQLite database in memory")
    try:
        wait = float(options.get("timeout", _WAIT_SECONDS))
    except ValueError:
        wait = -1.0
    if not 0 <= wait <= _LONGEST_WAIT_SECONDS:
        raise UsageError("the `timeout` in the URI of the database is not a number of seconds")

    def connect(_: Mapping[str, int]) -> sqlite3.Connection:
        file = Path(path).absolute()
        if not file.is_file():
            raise TableNotFound(
                f"there is no SQLite database {file}", hint="check the `uri` of the catalog"
            )
        # Opened by a URI, a file that goes away is not created again.
        return sqlite3.connect(
            f"file:{quote(str(file))}?mode=rw", timeout=wait, isolation_level=None, uri=True
        )

    return Database("sqlite", path, "?", sqlite3.Error, connect, deadline)


def _driver(family: str, wanted: str) -> Any:
    """Return the driver that a URI asks for, where it is there, else another of the database."""
    known = _DRIVERS[family]
    for name in sorted(known, key=lambda name: name.lower() != wanted):
        with suppress(ImportError):
            match name:
                case "psycopg":
                    import psycopg

                    return psycopg
                case "psycopg2":
                    import psycopg2

                    return psycopg2
                case "pymysql":
                    import pymysql

                    return pymysql
                case _:
                    import MySQLdb

                    return MySQLdb
    raise Unsupported(
        f"no driver for {family} is installed: icectl uses {' or '.join(known)}",
        hint="`pip install 'icectl[sql]'`, in the environment of icectl, installs one",
    )


def connect(access: CatalogAccess) -> "SqlWarehouse":
    """Return the catalog in a database. Raises: UsageError; Unsupported, without its driver."""
    settings = access.settings
    database = database_of(settings.name, settings.properties, access.deadline)
    return SqlWarehouse(access, CatalogRows(database, settings.name), store_of_catalog(access))


@dataclass(frozen=True, slots=True)
class Row:
    """A row of `iceberg_tables`."""

    namespace: str
    name: str
    metadata_location: str | None
    previous: str | None
    is_view: bool


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """The rows of one catalog, each call by a connection of its own: runs may take hours."""

    database: Database
    catalog: str

    def one(self, namespace: str, name: str) -> Row | None:
        rows = self._rows(_SELECT, namespace, name)
        return rows[0] if rows else None

    def all(self) -> Sequence[Row]:
        return self._rows(_NAMES)

    def of(self, namespace: str) -> Sequence[Row]:
        return self._rows(_IN_NAMESPACE, namespace)

    def namespaces(self) -> Sequence[str]:
        """Return every namespace that holds a table or has properties. Raises: as `all`."""
        with self._cursor() as cursor:
            try:
                cursor.execute(self.database.sql(_NAMESPACES), (self.catalog,) * 2)
                return sorted(str(row[0]) for row in cursor.fetchall())
            except self.database.errors:  # a catalog without tables for namespaces
                pass
        return sorted({row.namespace for row in self.all()})

    def catalogs(self) -> Sequence[str]:
        with self._cursor() as cursor, self._translated():
            cursor.execute(_CATALOGS)
            return [str(row[0]) for row in cursor.fetchall()]

    def swap(self, row: Row, target: str) -> bool:
        """Name another metadata file in a row that still is as it was read; whether it was.

        Raises: SwapUncertain, where the commit of the transaction failed; StorageError before it.
        """
        parameters = (
            target, row.metadata_location,
            self.catalog, row.namespace, row.name, row.metadata_location,
        )  # fmt: skip
        with closing(self.database.connect()) as connection:
            try:
                cursor = self.database.cursor(connection)
                if self.database.family == "sqlite":
                    cursor.execute("BEGIN IMMEDIATE")
                cursor.execute(self.database.sql(_UPDATE), parameters)
                changed = cursor.rowcount
            except self.database.errors as error:  # then nothing is ever committed
                self._roll_back(connection)
                if self.database.is_conflict(error):
                    return False
                raise self.database.failure(error, "cannot change") from error
            if changed != 1:
                self._roll_back(connection)
                return False
            try:
                connection.commit()
            except self.database.errors as error:
                raise SwapUncertain(reason_of(error)) from error
            return True

    def wait_for(self, row: Row) -> bool:
        """Wait until no transaction holds a row; whether none does.

        One whose commit was asked for has held it since. Raises: StorageError.
        """
        is_file = self.database.family == "sqlite"
        statement = "BEGIN IMMEDIATE" if is_file else self.database.sql(f"{_SELECT} FOR UPDATE")
        parameters = () if is_file else (self.catalog, row.namespace, row.name)
        with closing(self.database.connect()) as connection:
            try:
                cursor = self.database.cursor(connection)
                if self.database.family == "postgresql":
                    cursor.execute("SET LOCAL lock_timeout = '30s'")
                cursor.execute(statement, parameters)
            except self.database.errors:
                return False
            finally:
                self._roll_back(connection)
            return True

    def _rows(self, statement: str, *parameters: str) -> list[Row]:
        with self._cursor() as cursor, self._translated():
            cursor.execute(self.database.sql(statement), (self.catalog, *parameters))
            names = [column[0].lower() for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return [self._row(row) for row in rows]

    def _row(self, row: Mapping[str, Any]) -> Row:
        """Return a row as it was found. Raises: StorageError, for one that no catalog has."""
        odd = [name for name, kind in _COLUMNS.items() if not isinstance(row.get(name, 0), kind)]
        if odd:
            raise StorageError(
                f"`iceberg_tables` in the database {self.database.shown} does not belong to a "
                f"catalog: its column `{odd[0]}` is missing, or has a value that is not a string",
                hint="compare the table with one that PyIceberg or Iceberg's JdbcCatalog has "
                "created",
            )
        namespace, name, location, previous = (row[name] for name in _COLUMNS)
        return Row(namespace, name, location, previous, row.get("iceberg_type") == _VIEW)

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        with closing(self.database.connect()) as connection:
            yield self.database.cursor(connection)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self.database.errors as error:
            reason = reason_of(error)
            if "iceberg_tables" in reason:  # every database names the table that is not there
                raise TableNotFound(
                    f"the database {self.database.shown} has no catalog: {reason}",
                    hint="check the `uri`; PyIceberg or Iceberg's JdbcCatalog creates those tables",
                ) from error
            raise self.database.failure(error) from error

    def _roll_back(self, connection: Any) -> None:
        with suppress(self.database.errors):
            connection.rollback()


@dataclass(frozen=True, slots=True)
class SqlWarehouse:
    """The tables of one catalog in a database, which may hold several."""

    access: CatalogAccess
    rows: CatalogRows
    store: Store

    def namespaces(self, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """Yield namespaces, whose levels dots separate. Raises: TableNotFound; StorageError."""
        every = [tuple(name.split(".")) for name in self.rows.namespaces() if name]
        depth = len(parent)
        below = sorted({name[: depth + 1] for name in every if name[:depth] == parent})
        if not below and parent:
            raise self._no_namespace(parent)
        if not below and self.rows.catalogs():  # those of others: the name may be wrong
            raise self._empty()
        yield from (name for name in below if len(name) > depth)

    def tables(self, namespace: tuple[str, ...]) -> Iterator[TableName]:
        joined = ".".join(namespace)
        tables = [row for row in self.rows.of(joined) if not row.is_view]
        if not tables and not any(
            name == joined or name.startswith(f"{joined}.") for name in self.rows.namespaces()
        ):
            raise self._no_namespace(namespace)
        yield from (TableName(namespace, row.name) for row in tables)

    def table(self, name: TableName) -> TableInCatalog:
        return behind_pointer(self.access, self.store, SqlPointer(self, name), name)

    def places(self) -> Iterator[TablePlace]:
        """Yield where every table has its files, by its metadata file. Raises: StorageError."""
        tables = [row for row in self.rows.all() if not row.is_view and row.metadata_location]
        with ThreadPoolExecutor(self.access.storage.concurrency) as pool:
            for table_places in pool.map(self._places, tables):
                yield from table_places

    def _places(self, row: Row) -> Sequence[TablePlace]:
        """Return where a table lies, or where it usually would if its metadata cannot be read."""
        assert row.metadata_location is not None
        name = TableName(tuple(row.namespace.split(".")), row.name)
        try:
            metadata = read_file(self.store, row.metadata_location, to_show=True)
        except (FileNotFoundError, CorruptTable, Unsupported):
            return [TablePlace(name, row.metadata_location.rpartition("/metadata/")[0])]
        return list(places(name, metadata.location, metadata.properties))

    def not_found(self, name: TableName) -> TableNotFound:
        joined = ".".join(name.namespace)
        beside = [row.name for row in self.rows.of(joined)]
        if not beside:
            return self._no_namespace(name.namespace)
        return no_table(self.access.settings.name, name, beside)

    def _no_namespace(self, namespace: tuple[str, ...]) -> TableNotFound:
        known = self.rows.namespaces()
        return no_namespace(self.access.settings.name, namespace, known) if known else self._empty()

    def _empty(self) -> TableNotFound:
        catalog, others = self.access.settings.name, list(self.rows.catalogs())
        listed = ", ".join(f"`{other}`" for other in others[:5])
        return TableNotFound(
            f"the database {self.rows.database.shown} has no tables of a catalog `{catalog}`",
            hint=f"it has tables of {listed}: name the catalog exactly so (case-sensitive)"
            if others
            else "no catalog has tables there yet",
        )


@dataclass(frozen=True, slots=True)
class SqlPointer:
    """The row of one table."""

    warehouse: SqlWarehouse
    name: TableName

    def read(self) -> PointerState:
        row = self.warehouse.rows.one(".".join(self.name.namespace), self.name.name)
        if row is None:
            raise self.warehouse.not_found(self.name)
        if row.is_view or not row.metadata_location:
            raise TableNotFound(
                f"`{self.name}` in catalog `{self.warehouse.access.settings.name}` is a view"
                if row.is_view
                else f"the row of `{self.name}` in `iceberg_tables` names no metadata file"
            )
        return PointerState(row.metadata_location, row.previous, row)

    def check_writable(self, pointed: PointerState) -> None:
        """Do nothing: a database that reads is one that may be asked to write."""

    def swap(
        self,
        pointed: PointerState,
        metadata_location: str,
        metadata: TableMetadata,  # noqa: ARG002
    ) -> Conflict | None:
        assert isinstance(pointed.token, Row)
        if self.warehouse.rows.swap(pointed.token, metadata_location):
            return None
        return Conflict("another writer has changed the table's row in the catalog")

    def settle(self, pointed: PointerState) -> bool:
        assert isinstance(pointed.token, Row)
        return self.warehouse.rows.wait_for(pointed.token)
