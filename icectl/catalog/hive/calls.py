"""The calls of a Hive metastore that icectl makes, with the members that it knows of their structs.

Ids of members are those of Hive's `hive_metastore.thrift`; they never change.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from icectl.catalog.hive.connection import Connection
from icectl.catalog.hive.thrift import (
    I32,
    I64,
    LIST,
    STRUCT,
    TEXT,
    CallRefused,
    Fields,
    ThriftList,
    many_of,
    number_of,
    struct_of,
    text,
    text_of,
    texts,
    texts_of,
)
from icectl.errors import StorageError

_TABLE_NAME, _DATABASE, _STORAGE, _PARAMETERS, _TABLE_TYPE = 1, 2, 7, 9, 12
_LOCATION = 2
_EXCLUSIVE, _OF_TABLE = 3, 2
_AT_ONCE = 100

ACQUIRED, WAITING = 1, 2
"""States of a lock."""


class ServerException(Exception):
    """What a call raised on the server; `number` is the member that carries it."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number = number
        self.reason = reason


@dataclass(frozen=True, slots=True)
class HiveTable:
    """A table as the metastore has it, with every member that it sent."""

    fields: Fields

    @property
    def name(self) -> str:
        """Its name."""
        return text_of(self.fields, _TABLE_NAME) or ""

    @property
    def parameters(self) -> Mapping[str, str]:
        """What is said of it by key."""
        return texts_of(self.fields, _PARAMETERS)

    @property
    def table_type(self) -> str:
        """`EXTERNAL_TABLE`, `MANAGED_TABLE`, `VIRTUAL_VIEW` or `MATERIALIZED_VIEW`."""
        return (text_of(self.fields, _TABLE_TYPE) or "").upper()

    @property
    def location(self) -> str | None:
        """Where the metastore thinks that its files lie."""
        return text_of(struct_of(self.fields, _STORAGE), _LOCATION)

    @property
    def iceberg_type(self) -> str:
        """`iceberg` or `iceberg-view`, where it is one of Iceberg's."""
        return self.parameters.get("table_type", "").lower()

    def with_parameters(self, parameters: Mapping[str, str]) -> "HiveTable":
        """Return the same table, with other parameters."""
        return HiveTable({**self.fields, _PARAMETERS: texts(parameters)})


@dataclass(frozen=True, slots=True)
class MetastoreLock:
    """A lock of the metastore; `state` is ACQUIRED where it is held."""

    lock_id: int
    state: int


@dataclass(frozen=True, slots=True)
class LockRow:
    """What the metastore tells of a lock on a table; `heartbeat_ms` is by the server's clock."""

    lock_id: int
    heartbeat_ms: int
    owner: str
    agent: str


def databases(connection: Connection) -> Sequence[str]:
    """Return the names of all databases. Raises: StorageError."""
    return _names(connection, "get_all_databases", {})


def table_names(connection: Connection, database: str) -> Sequence[str]:
    """Return the names of all tables and views in a database. Raises: StorageError."""
    return _names(connection, "get_all_tables", {1: text(database)})


def tables(connection: Connection, database: str) -> Iterator[HiveTable]:
    """Yield all tables and views of a database, some at a time. Raises: StorageError."""
    names = table_names(connection, database)
    for start in range(0, len(names), _AT_ONCE):
        chosen = ThriftList(TEXT, tuple(name.encode() for name in names[start : start + _AT_ONCE]))
        request: Fields = {1: text(database), 2: (LIST, chosen)}
        rows = _asked(connection, "get_table_objects_by_name_req", {1: (STRUCT, request)})
        yield from (HiveTable(fields) for fields in many_of(struct_of(rows, 0), 1, STRUCT))


def get_table(connection: Connection, database: str, name: str) -> HiveTable | None:
    """Return a table; None where there is none of that name. Raises: StorageError."""
    request: Fields = {1: text(database), 2: text(name)}
    try:
        try:
            table = struct_of(_result(connection.ask("get_table_req", {1: (STRUCT, request)})), 0)
            return HiveTable(struct_of(table, 1))
        except CallRefused as error:
            if not error.is_unknown:
                raise
        return HiveTable(struct_of(_result(connection.ask("get_table", request)), 0))
    except ServerException as error:
        if error.number == 2:
            return None
        raise _failure(connection, error.reason) from error
    except CallRefused as error:
        raise _failure(connection, error.reason) from error


def alter_table(connection: Connection, table: HiveTable, expected: str | None = None) -> None:
    """Put a table in the place of that of its name.

    With `expected`, its metadata location so far, a server that knows how compares that in the same
    transaction; others ignore it, and some databases of such servers cannot.
    Raises: HiveAnswerLost; ServerException; CallRefused.
    """
    database, name = (text_of(table.fields, each) or "" for each in (_DATABASE, _TABLE_NAME))
    words = {"DO_NOT_UPDATE_STATS": "true"}
    if expected is not None:
        words |= {
            "expected_parameter_key": "metadata_location",
            "expected_parameter_value": expected,
        }
    context: Fields = {1: texts(words)}
    arguments: Fields = {
        1: text(database),
        2: text(name),
        3: (STRUCT, table.fields),
        4: (STRUCT, context),
    }
    try:
        _result(connection.call("alter_table_with_environment_context", arguments))
    except CallRefused as error:
        if not error.is_unknown:
            raise
        request: Fields = {
            2: text(database),
            3: text(name),
            4: (STRUCT, table.fields),
            5: (STRUCT, context),
        }
        _result(connection.call("alter_table_req", {1: (STRUCT, request)}))


def lock(
    connection: Connection, database: str, name: str, owner: tuple[str, str, str]
) -> MetastoreLock:
    """Ask for the lock of a table, as a user on a host, by an agent of a name of its own.

    Raises: HiveAnswerLost; ServerException; CallRefused.
    """
    component: Fields = {
        1: (I32, _EXCLUSIVE),
        2: (I32, _OF_TABLE),
        3: text(database),
        4: text(name),
    }
    user, host, agent = owner
    request: Fields = {
        1: (LIST, ThriftList(STRUCT, (component,))),
        3: text(user),
        4: text(host),
        5: text(agent),
    }
    return _held(_result(connection.call("lock", {1: (STRUCT, request)})))


def check_lock(connection: Connection, lock_id: int) -> MetastoreLock:
    """Ask how a lock is, which keeps it alive.

    Raises: HiveAnswerLost; ServerException; CallRefused.
    """
    return _held(_result(connection.call("check_lock", {1: (STRUCT, {1: (I64, lock_id)})})))


def heartbeat(connection: Connection, lock_id: int) -> None:
    """Keep a lock alive. Raises: ServerException, where it is lost; HiveAnswerLost; CallRefused."""
    _result(connection.call("heartbeat", {1: (STRUCT, {1: (I64, lock_id)})}))


def unlock(connection: Connection, lock_id: int) -> None:
    """Give a lock back. Raises: HiveAnswerLost; ServerException; CallRefused."""
    _result(connection.call("unlock", {1: (STRUCT, {1: (I64, lock_id)})}))


def show_locks(connection: Connection, database: str, name: str) -> Sequence[LockRow]:
    """Return the locks on a table. Raises: HiveAnswerLost; ServerException; CallRefused."""
    request: Fields = {1: text(database), 2: text(name)}
    response = struct_of(_result(connection.call("show_locks", {1: (STRUCT, request)})), 0)
    return [
        LockRow(
            number_of(row, 1) or 0,
            number_of(row, 8) or 0,
            f"{text_of(row, 10)} on {text_of(row, 11)}",
            text_of(row, 13) or "",
        )
        for row in many_of(response, 1, STRUCT)
    ]


def version(connection: Connection) -> str:
    """Return what the server calls its version; empty where it does not say.

    Raises: StorageError.
    """
    try:
        return text_of(connection.ask("getVersion", {}), 0) or ""
    except CallRefused:
        return ""


def _names(connection: Connection, call: str, arguments: Fields) -> Sequence[str]:
    names = many_of(_asked(connection, call, arguments), 0, TEXT)
    return sorted(name.decode("utf-8", "replace") for name in names)


def _asked(connection: Connection, call: str, arguments: Fields) -> Fields:
    """Return what a call that only reads returned. Raises: StorageError."""
    try:
        return _result(connection.ask(call, arguments))
    except (ServerException, CallRefused) as error:
        raise _failure(connection, error.reason) from error


def _result(fields: Fields) -> Fields:
    """Return the result of a call. Raises: ServerException."""
    for number, (kind, raised) in fields.items():
        if number and kind == STRUCT:
            raise ServerException(number, text_of(raised, 1) or "it gave no reason")
    return fields


def _held(fields: Fields) -> MetastoreLock:
    answer = struct_of(fields, 0)
    return MetastoreLock(number_of(answer, 1) or 0, number_of(answer, 2) or 0)


def _failure(connection: Connection, reason: str) -> StorageError:
    return StorageError(f"the Hive metastore at {connection.server} answered: {one_line(reason)}")


def one_line(reason: str) -> str:
    """Return a server's message without the stack that some send along."""
    return " ".join(reason.partition("\n\tat ")[0].split())[:500]
