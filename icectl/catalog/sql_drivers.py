"""Databases behind SQL catalogs: from a URI, as SQLAlchemy or JDBC spells it, to a connection.

The drivers are used as they are: SQLAlchemy would take longer to import than a table to read.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from icectl.env import Deadline
from icectl.errors import StorageError, TableNotFound, Unsupported, UsageError
from icectl.storage.location import redacted
from icectl.units import read_count

_WAIT_SECONDS = 30
"""How long another writer of the same rows is waited for."""

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
                f"the driver of the database {self.shown} does not take all that stands behind the "
                f"`?` of its URI: {reason_of(error)}"
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
        """Return the error to tell, for one of the driver's."""
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
    """Return the database that a catalog's properties name; nothing is connected to yet.

    Raises: UsageError; Unsupported, where its driver is not installed.
    """
    uri = properties["uri"].removeprefix("jdbc:")
    dialect, _, rest = uri.partition(":")
    name, _, driver = dialect.lower().partition("+")
    family = _FAMILY.get(name)
    if family is None:
        raise Unsupported(
            f"catalog `{catalog}` is in a database of {name}, which icectl does not know",
            hint="it knows SQLite, PostgreSQL, MySQL and MariaDB",
        )
    if family == "sqlite":
        return _sqlite(rest, deadline)
    return _server(catalog, uri, (family, driver), properties, deadline)


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
        raise UsageError("a SQLite database in memory holds no tables that icectl could reach")
    wait = float(options.get("timeout", _WAIT_SECONDS))

    def connect(_: Mapping[str, int]) -> sqlite3.Connection:
        file = Path(path).absolute()
        if not file.is_file():
            raise TableNotFound(
                f"there is no SQLite database {file}", hint="check the `uri` of the catalog"
            )
        # Opened by a URI, a file that goes away is not made anew.
        return sqlite3.connect(
            f"file:{quote(str(file))}?mode=rw", timeout=wait, isolation_level=None, uri=True
        )

    return Database("sqlite", path, "?", sqlite3.Error, connect, deadline)


def _server(
    catalog: str,
    uri: str,
    wanted: tuple[str, str],
    properties: Mapping[str, str],
    deadline: Deadline,
) -> Database:
    family, driver = wanted
    parts = urlsplit(uri)
    module = _driver(family, driver)
    arguments: dict[str, Any] = {
        "host": parts.hostname,
        "user": unquote(parts.username) if parts.username else properties.get("jdbc.user"),
        "password": unquote(parts.password) if parts.password else properties.get("jdbc.password"),
        _DATABASE_KEY[module.__name__]: unquote(parts.path.lstrip("/")) or None,
    }
    try:
        arguments["port"] = parts.port
    except ValueError as error:
        raise UsageError(f"catalog `{catalog}`: its `uri` names no port that there is") from error
    arguments = {key: value for key, value in arguments.items() if value is not None}
    own: dict[str, Any] = dict(parse_qsl(parts.query))
    own |= {key: number for key in own if (number := read_count(own[key])) is not None}

    def connect(seconds: Mapping[str, int]) -> Any:
        return module.connect(**{**arguments, **_LOST[family], **seconds, **own})

    shown = redacted(uri.partition("?")[0])  # what follows may hold a password too
    return Database(family, shown, "%s", module.Error, connect, deadline)


def _driver(family: str, wanted: str) -> Any:
    """Return the driver that a URI asks for, where it is there.

    Else another of the same database.
    """
    known = _DRIVERS[family]
    for name in sorted(known, key=lambda name: name.lower() != wanted):
        try:
            return _imported(name)
        except ImportError:
            continue
    raise Unsupported(
        f"no driver for {family} is installed: icectl uses {' or '.join(known)}",
        hint="`pip install 'icectl[sql]'`, in the environment of icectl, installs one",
    )


def _imported(name: str) -> Any:
    """Raises: ImportError."""
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
