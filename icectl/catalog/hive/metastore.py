"""Servers of a Hive metastore: connections, and the calls that icectl makes, one at a time.

Ids of members are those of Hive's `hive_metastore.thrift`; they never change.
"""

import logging
import re
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from threading import Timer
from typing import IO

from icectl.catalog.hive.thrift import (
    I32,
    I64,
    LIST,
    STRUCT,
    TEXT,
    CallRefused,
    Fields,
    NotThrift,
    ThriftList,
    many_of,
    number_of,
    read_reply,
    struct_of,
    text,
    text_of,
    texts,
    texts_of,
    write_call,
)
from icectl.catalog.tls import tls_context
from icectl.env import Deadline, SystemEnv
from icectl.errors import StorageError, Unsupported, UsageError

_LOGGER = logging.getLogger(__name__)
_PORT = 9083
_CONNECT_SECONDS = 10
_ANSWER_SECONDS = 600
_FIRST_ANSWER_SECONDS = 60
"""What is no metastore may wait for more to come, and never answer."""

_WHOLE_SECONDS, _LEAST_SECONDS = 3600.0, 60.0
"""How long one answer may take as a whole, and how long it may in any case."""

_NEVER = Deadline(SystemEnv())
_SERVER = re.compile(r"(?:thrift://)?(?P<host>\[[^\]]+\]|[^:/\s,]+)(?::(?P<port>\d{1,5}))?/?")
_SECONDS = re.compile(r"(\d{1,9})(s|ms|m)?", re.IGNORECASE)
_UNITS = {"": 1.0, "s": 1.0, "ms": 0.001, "m": 60.0}

_TABLE_NAME, _DATABASE, _STORAGE, _PARAMETERS, _TABLE_TYPE = 1, 2, 7, 9, 12
_LOCATION = 2
_EXCLUSIVE, _OF_TABLE = 3, 2
_AT_ONCE = 100

ACQUIRED, WAITING = 1, 2
"""States of a lock."""


class HiveAnswerLost(Exception):
    """A call was sent, or may have been, and no response came; its text says why."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Where a metastore answers, and how it is spoken to; the servers of one metastore are equal.

    `user` is told to servers that take a client's word for who it is, with its groups. `tls` has
    certificates; None: connections are not encrypted. Behind the `deadline` an answer is given up.
    """

    addresses: tuple[tuple[str, int], ...]
    user: tuple[str, ...] = ()
    is_framed: bool = False
    answer_seconds: float = _ANSWER_SECONDS
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    deadline: Deadline = field(default=_NEVER, compare=False)

    @property
    def shown(self) -> str:
        return ", ".join(f"thrift://{host}:{port}" for host, port in self.addresses)

    @contextmanager
    def connected(self) -> "Iterator[Connection]":
        """A connection to the first server that takes one. Raises: StorageError."""
        failures = []
        for host, port in self.addresses:
            server = f"{host}:{port}"
            try:
                opened = self._opened(host.strip("[]"), port)
            except (OSError, UnicodeError) as error:  # the latter, of a name that no host has
                failures.append(f"{server}: {_reason(error)}")
                continue
            with opened, opened.makefile("rb") as reader:
                connection = Connection(
                    opened, reader, server, self.is_framed, self.answer_seconds, self.deadline
                )
                if self.user:
                    groups = ThriftList(TEXT, tuple(group.encode() for group in self.user[1:]))
                    with suppress(CallRefused):  # a server that asks no client for its name
                        connection.ask("set_ugi", {1: text(self.user[0]), 2: (LIST, groups)})
                yield connection
            return
        raise StorageError(
            f"cannot reach the Hive metastore at {'; '.join(failures)}",
            hint="check the catalog's `uri`, and that the metastore runs"
            + (", with TLS, and `ssl.cabundle`" if self.tls is not None else ""),
        )

    def _opened(self, host: str, port: int) -> socket.socket:
        """Return a connection over which calls may be made. Raises: OSError."""
        opened = socket.create_connection((host, port), _CONNECT_SECONDS)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is not None:
                opened = self.tls.wrap_socket(opened, server_hostname=host)
            opened.settimeout(min(self.answer_seconds, _FIRST_ANSWER_SECONDS))
        except BaseException:
            opened.close()
            raise
        return opened


@dataclass(slots=True)
class Connection:
    """One connection; after an answer was lost it is of no more use."""

    socket: socket.socket
    reader: IO[bytes]
    server: str
    is_framed: bool
    answer_seconds: float
    deadline: Deadline
    calls: int = 0

    def ask(self, name: str, arguments: Fields) -> Fields:
        """Make a call that only reads. Raises: StorageError; CallRefused."""
        try:
            return self.call(name, arguments)
        except HiveAnswerLost as error:
            raise StorageError(
                f"the Hive metastore at {self.server} did not respond: {error}",
                hint="run the command again; if that does not help, see the metastore's log",
            ) from error

    def call(self, name: str, arguments: Fields) -> Fields:
        """Make a call: its value is member 0 of what is returned, what it raised a later one.

        Raises: HiveAnswerLost; CallRefused, where the server itself failed; StorageError, where it
        is no metastore.
        """
        self.calls += 1
        _LOGGER.debug("metastore %s: %s", self.server, name)
        request = write_call(name, arguments, self.calls)
        # A commit must not be cut off: what is under way has a minute, whatever the limit is.
        left = max(self.deadline.remaining_seconds, _LEAST_SECONDS)
        watch = Timer(min(left, _WHOLE_SECONDS), self._give_up)
        watch.daemon = True
        watch.start()
        try:
            reply = self._answer(name, request)
        finally:
            watch.cancel()
        self.socket.settimeout(self.answer_seconds)
        return reply

    def _give_up(self) -> None:
        """End an answer that may have no end: its reader finds the connection closed."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def _answer(self, name: str, request: bytes) -> Fields:
        if self.is_framed:
            request = struct.pack(">I", len(request)) + request
        try:
            self.socket.sendall(request)
            read = self._frame() if self.is_framed else self.reader
            return read_reply(lambda size: _exactly(read, size), name)
        except OSError as error:
            raise HiveAnswerLost(_reason(error)) from error
        except EOFError as error:
            raise HiveAnswerLost("the connection was closed") from error
        except NotThrift as error:
            if self.calls > 1:
                raise HiveAnswerLost(str(error)) from error
            raise StorageError(
                f"the server at {self.server} is not a Hive metastore, or uses another protocol: "
                f"{error}",
                hint="check the port in the catalog's `uri`; for TLS, set `hive.metastore.use.SSL` "
                "to `true`; icectl supports no SASL, HTTP or Thrift's compact protocol",
            ) from error

    def _frame(self) -> IO[bytes]:
        (size,) = struct.unpack(">I", _exactly(self.reader, 4))
        if size > 1 << 28:
            raise NotThrift(f"it announced a frame of {size} bytes")
        return BytesIO(_exactly(self.reader, size))


def servers_of(catalog: str, properties: Mapping[str, str], deadline: Deadline = _NEVER) -> Servers:
    """Return the servers that a catalog's properties name. Raises: UsageError; Unsupported.

    Those for TLS are called as in Hive, and its certificates as in other catalogs.
    """
    if properties.get("hive.kerberos-authentication", "").lower() == "true":
        raise Unsupported(
            f"catalog `{catalog}` needs Kerberos (`hive.kerberos-authentication`), which icectl "
            "does not support for a Hive metastore",
            hint="use Iceberg's REST catalog, if the metastore has one",
        )
    spelled = ("hive.metastore.use.SSL", "hive.metastore.use.ssl")  # as in environment variables
    has_tls = any(properties.get(key, "").lower() == "true" for key in spelled)
    ugi = properties.get("ugi", "")
    framed = properties.get("hive.metastore.thrift.framed.transport.enabled", "")
    addresses = []
    for uri in properties["uri"].split(","):
        match = _SERVER.fullmatch(uri.strip())
        if match is None:
            raise UsageError(
                f"catalog `{catalog}`: `{uri.strip()}` is not the address of a Hive metastore",
                hint="write `uri` as thrift://host:9083, with commas between several addresses",
            )
        addresses.append((match["host"], int(match["port"] or _PORT)))
    return Servers(
        tuple(addresses),
        tuple(part for part in re.split(r"[:,]", ugi) if part),
        framed.lower() == "true",
        _seconds(catalog, properties),
        tls_context(properties) if has_tls else None,
        deadline,
    )


def _seconds(catalog: str, properties: Mapping[str, str]) -> float:
    key = "hive.metastore.client.socket.timeout"
    text = properties.get(key)
    match = _SECONDS.fullmatch(text.strip()) if text is not None else None
    if text is not None and match is None:
        raise UsageError(f"catalog `{catalog}`: `{key}` must be a number of seconds, not `{text}`")
    return _ANSWER_SECONDS if match is None else int(match[1]) * _UNITS[(match[2] or "").lower()]


def _exactly(reader: IO[bytes], size: int) -> bytes:
    content = reader.read(size)
    if len(content) < size:
        raise EOFError
    return content


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class ServerException(Exception):
    """What a call raised on the server; `number` is the member that carries it."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number = number


@dataclass(frozen=True, slots=True)
class HiveTable:
    """A table as the metastore has it, with every member that it sent."""

    fields: Fields

    @property
    def name(self) -> str:
        return text_of(self.fields, _TABLE_NAME) or ""

    @property
    def parameters(self) -> Mapping[str, str]:
        return texts_of(self.fields, _PARAMETERS)

    @property
    def table_type(self) -> str:
        """`EXTERNAL_TABLE`, `MANAGED_TABLE`, `VIRTUAL_VIEW` or `MATERIALIZED_VIEW`."""
        return (text_of(self.fields, _TABLE_TYPE) or "").upper()

    @property
    def location(self) -> str | None:
        return text_of(struct_of(self.fields, _STORAGE), _LOCATION)

    @property
    def iceberg_type(self) -> str:
        """`iceberg` or `iceberg-view`, where it is one of Iceberg's."""
        return self.parameters.get("table_type", "").lower()

    def with_parameters(self, parameters: Mapping[str, str]) -> "HiveTable":
        return HiveTable({**self.fields, _PARAMETERS: texts(parameters)})


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
        raise _failure(connection, str(error)) from error
    except CallRefused as error:
        raise _failure(connection, str(error)) from error


def alter_table(connection: Connection, table: HiveTable, expected: str | None = None) -> None:
    """Put a table in the place of that of its name.

    With `expected`, its metadata location so far, a server that knows how compares that in the same
    transaction; others ignore it, and some databases of such servers cannot.
    Raises: HiveAnswerLost; ServerException; CallRefused.
    """
    database, name = (text_of(table.fields, member) or "" for member in (_DATABASE, _TABLE_NAME))
    words = {"DO_NOT_UPDATE_STATS": "true"}
    if expected is not None:
        words |= {
            "expected_parameter_key": "metadata_location",
            "expected_parameter_value": expected,
        }
    context: Fields = {1: texts(words)}
    members = text(database), text(name), (STRUCT, table.fields), (STRUCT, context)
    arguments: Fields = dict(enumerate(members, 1))
    try:
        _result(connection.call("alter_table_with_environment_context", arguments))
    except CallRefused as error:
        if not error.is_unknown:
            raise
        request: Fields = dict(enumerate(members, 2))
        _result(connection.call("alter_table_req", {1: (STRUCT, request)}))


def lock(
    connection: Connection, database: str, name: str, owner: tuple[str, str, str]
) -> tuple[int, int]:
    """Ask for a table's lock, as a user on a host, by a named agent; return its id and its state.

    Raises: HiveAnswerLost; ServerException; CallRefused.
    """
    component: Fields = {
        1: (I32, _EXCLUSIVE),
        2: (I32, _OF_TABLE),
        3: text(database),
        4: text(name),
    }
    components, (user, host, agent) = ThriftList(STRUCT, (component,)), owner
    request: Fields = {1: (LIST, components), 3: text(user), 4: text(host), 5: text(agent)}
    return _lock_of(_result(connection.call("lock", {1: (STRUCT, request)})))


def check_lock(connection: Connection, lock_id: int) -> int:
    """Return the state of a lock; to ask for it keeps it alive. Raises: as lock."""
    return _lock_of(_result(connection.call("check_lock", {1: (STRUCT, {1: (I64, lock_id)})})))[1]


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
    """Return what the server calls its version; empty if it does not say. Raises: StorageError."""
    try:
        return text_of(connection.ask("getVersion", {}), 0) or ""
    except CallRefused:
        return ""


def _names(connection: Connection, call: str, arguments: Fields) -> Sequence[str]:
    names = many_of(_asked(connection, call, arguments), 0, TEXT)
    return sorted(name.decode("utf-8", "replace") for name in names)


def _asked(connection: Connection, call: str, arguments: Fields) -> Fields:
    try:
        return _result(connection.ask(call, arguments))
    except (ServerException, CallRefused) as error:
        raise _failure(connection, str(error)) from error


def _result(fields: Fields) -> Fields:
    for number, (kind, raised) in fields.items():
        if number and kind == STRUCT:
            raise ServerException(number, text_of(raised, 1) or "it gave no reason")
    return fields


def _lock_of(fields: Fields) -> tuple[int, int]:
    answer = struct_of(fields, 0)
    return number_of(answer, 1) or 0, number_of(answer, 2) or 0


def _failure(connection: Connection, reason: str) -> StorageError:
    return StorageError(f"the Hive metastore at {connection.server} answered: {one_line(reason)}")


def one_line(reason: str) -> str:
    """Return a server's message without the stack that some send along."""
    return " ".join(reason.partition("\n\tat ")[0].split())[:500]
