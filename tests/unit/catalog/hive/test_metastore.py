"""Connections to metastores, against servers of Thrift's own library."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from icectl.catalog.hive import metastore
from icectl.catalog.hive.metastore import servers_of
from icectl.errors import StorageError, Unsupported, UsageError

pytest.importorskip("thrift")


class Handler:
    """Answers as an old metastore does, and notes who asked."""

    def __init__(self) -> None:
        self.users: list[tuple[str, list[str]]] = []

    def set_ugi(self, user: str, groups: list[str]) -> list[str]:
        self.users.append((user, groups))
        return groups

    def get_all_databases(self) -> list[str]:
        return ["b", "a"]


@contextmanager
def server(handler: Handler, *, framed: bool) -> Iterator[int]:
    """A server for one connection."""
    from hive_metastore.ThriftHiveMetastore import Processor
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.Thrift import TException
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport, TFramedTransport

    def serve(listener: socket.socket) -> None:
        accepted, _ = listener.accept()
        own = TSocket()
        own.setHandle(accepted)
        transport = (TFramedTransport if framed else TBufferedTransport)(own)
        protocol = TBinaryProtocol(transport)
        processor = Processor(handler)
        try:
            while True:
                processor.process(protocol, protocol)
        except (TException, EOFError):
            transport.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield listener.getsockname()[1]
        thread.join(timeout=10)


@pytest.mark.parametrize("framed", [False, True])
def test_a_metastore_is_asked_by_who_it_is_told(framed):
    handler = Handler()
    with server(handler, framed=framed) as port:
        properties = {
            "uri": f"thrift://127.0.0.1:{port}",
            "ugi": "ann:staff,etl",
            "hive.metastore.thrift.framed.transport.enabled": str(framed).lower(),
        }
        with servers_of("hms", properties).connected() as connection:
            assert metastore.databases(connection) == ["a", "b"]
    assert handler.users == [("ann", ["staff", "etl"])]


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("thrift://a:1", "thrift://a:1"),
        ("thrift://a", "thrift://a:9083"),
        ("thrift://a:1, thrift://b", "thrift://a:1, thrift://b:9083"),
        ("thrift://[::1]:5", "thrift://[::1]:5"),
    ],
)
def test_addresses_of_metastores(uri, shown):
    assert servers_of("hms", {"uri": uri}).shown == shown


@pytest.mark.parametrize("uri", ["thrift://", "thrift://a:b", "http://a", "thrift://a,,"])
def test_what_is_no_address_is_told(uri):
    with pytest.raises(UsageError, match="is not the address of a Hive metastore"):
        servers_of("hms", {"uri": uri})


def test_what_is_not_spoken_is_told():
    with pytest.raises(Unsupported, match="Kerberos"):
        servers_of("hms", {"uri": "thrift://a", "hive.kerberos-authentication": "true"})


@pytest.mark.parametrize(
    ("given", "seconds"), [("30", 30), ("1500ms", 1.5), ("2m", 120), ("9s", 9), (None, 600)]
)
def test_times_to_wait(given, seconds):
    key = "hive.metastore.client.socket.timeout"
    properties: dict[str, Any] = {"uri": "thrift://a"} | ({} if given is None else {key: given})
    assert servers_of("hms", properties).answer_seconds == seconds
    with pytest.raises(UsageError, match="must be a number of seconds"):
        servers_of("hms", {"uri": "thrift://a", key: "soon"})


def test_a_server_that_closes_the_connection_did_not_answer():
    def close_the_first() -> None:
        listener.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        uri = f"thrift://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=close_the_first)
        thread.start()
        with (
            servers_of("hms", {"uri": uri}).connected() as connection,
            pytest.raises(StorageError, match="did not respond"),
        ):
            metastore.databases(connection)
        thread.join()
