"""Connections to the servers of a Hive metastore, one call at a time."""

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
    LIST,
    TEXT,
    CallRefused,
    Fields,
    NotThrift,
    ThriftList,
    read_reply,
    text,
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


class HiveAnswerLost(Exception):
    """A call was sent, or may have been, and no answer came; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


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
        """The servers, for messages."""
        return ", ".join(f"thrift://{_joined(*address)}" for address in self.addresses)

    @contextmanager
    def connected(self) -> "Iterator[Connection]":
        """A connection to the first server that takes one. Raises: StorageError."""
        failures = []
        for host, port in self.addresses:
            try:
                opened = self._opened(host.strip("[]"), port)
            except OSError as error:
                failures.append(f"{_joined(host, port)}: {_reason(error)}")
                continue
            with opened, opened.makefile("rb") as reader:
                server = _joined(host, port)
                connection = Connection(
                    opened, reader, server, self.is_framed, self.answer_seconds, self.deadline
                )
                yield self._introduced(connection)
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

    def _introduced(self, connection: "Connection") -> "Connection":
        if self.user:
            groups = ThriftList(TEXT, tuple(group.encode() for group in self.user[1:]))
            with suppress(CallRefused):  # a server that asks nobody who they are
                connection.ask("set_ugi", {1: text(self.user[0]), 2: (LIST, groups)})
        return connection


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
                f"the Hive metastore at {self.server} did not answer: {error.reason}",
                hint="run the command again; see the metastore's log if it stays like that",
            ) from error

    def call(self, name: str, arguments: Fields) -> Fields:
        """Make a call: its value is member 0 of what is returned, what it raised a later one.

        Raises: HiveAnswerLost; CallRefused, where the server did not run it; StorageError, where it
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
        """End an answer that may have no end: whoever reads it finds the connection closed."""
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
                f"what answers at {self.server} is not a Hive metastore, or not by the protocol it "
                f"was asked in: {error}",
                hint="check the port in the catalog's `uri`; metastores that want SASL, HTTP or "
                "Thrift's compact protocol answer like that; so do those with TLS unless "
                "`hive.metastore.use.SSL` is `true`",
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
            f"catalog `{catalog}` wants Kerberos (`hive.kerberos-authentication`), which icectl "
            "does not speak to a Hive metastore",
            hint="reach the metastore through Iceberg's REST catalog, where it offers one",
        )
    spelled = ("hive.metastore.use.SSL", "hive.metastore.use.ssl")  # as in environment variables
    has_tls = any(properties.get(key, "").lower() == "true" for key in spelled)
    ugi = properties.get("ugi", "")
    framed = properties.get("hive.metastore.thrift.framed.transport.enabled", "")
    return Servers(
        tuple(_addresses(catalog, properties["uri"].split(","))),
        tuple(part for part in re.split(r"[:,]", ugi) if part),
        framed.lower() == "true",
        _seconds(catalog, properties),
        tls_context(properties) if has_tls else None,
        deadline,
    )


def _addresses(catalog: str, uris: Sequence[str]) -> Iterator[tuple[str, int]]:
    for uri in uris:
        match = _SERVER.fullmatch(uri.strip())
        if match is None:
            raise UsageError(
                f"catalog `{catalog}`: `{uri.strip()}` is not the address of a Hive metastore",
                hint="`uri` is like thrift://host:9083, several of them with commas between",
            )
        yield match["host"], int(match["port"] or _PORT)


def _seconds(catalog: str, properties: Mapping[str, str]) -> float:
    key = "hive.metastore.client.socket.timeout"
    text = properties.get(key)
    match = _SECONDS.fullmatch(text.strip()) if text is not None else None
    if text is not None and match is None:
        raise UsageError(f"catalog `{catalog}`: `{key}` is a number of seconds, not `{text}`")
    return _ANSWER_SECONDS if match is None else int(match[1]) * _UNITS[(match[2] or "").lower()]


def _exactly(reader: IO[bytes], size: int) -> bytes:
    content = reader.read(size)
    if len(content) < size:
        raise EOFError
    return content


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    return error.strerror or str(error) or type(error).__name__


def _joined(host: str, port: int) -> str:
    return f"{host}:{port}"
