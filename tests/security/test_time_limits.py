"""Servers whose answers have no end: the time limit ends every wait, and lists are counted."""

import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from icectl.catalog.configured import CatalogSettings
from icectl.catalog.hive import metastore as hive
from icectl.catalog.protocol import CatalogAccess
from icectl.catalog.rest import client as rest_client
from icectl.catalog.rest.warehouse import RestWarehouse, connect
from icectl.env import Deadline, SystemEnv
from icectl.errors import StorageError
from icectl.storage.buckets import requests
from icectl.storage.buckets.client import BucketAccess, BucketClient, ClientSource
from icectl.storage.buckets.requests import InFlight
from icectl.storage.open import StorageOptions
from tests.builders.rows import current_metadata
from tests.builders.table_builder import filled_table
from tests.catalogs.rest_fake import Quick, fake
from tests.catalogs.rest_servers import PythonServer, Reply, Seen, python_server
from tests.fault.changing import run

LIMIT = ["--time-limit", "2s", "--json"]
LONGEST_SECONDS = 25.0
"""What two seconds may become on a busy machine."""


def ended(uri: str, *words: str) -> int:
    """The exit code of a run on a catalog that must not wait for it."""
    start = time.monotonic()
    code, _ = run([*words, "--catalog-option", f"uri={uri}", *LIMIT], env=SystemEnv())
    assert time.monotonic() - start < LONGEST_SECONDS
    return code


def endless_pages(seen: Seen) -> Reply:
    if "/config" in seen.path:
        return Reply()
    member = "identifiers" if seen.path.partition("?")[0].endswith("/tables") else "namespaces"
    return Reply(body={member: [], "next-page-token": f"{time.monotonic_ns()}"})


def endless_depth(seen: Seen) -> Reply:
    if "/config" in seen.path:
        return Reply()
    if seen.path.partition("?")[0].endswith("/tables"):
        return Reply(body={"identifiers": []})
    parent = seen.path.partition("parent=")[2].partition("&")[0]
    levels = parent.split("%1F") if parent else []
    return Reply(body={"namespaces": [[*levels, str(number)] for number in range(50)]})


@pytest.mark.parametrize("answering", [endless_pages, endless_depth])
@pytest.mark.parametrize("words", [("inspect", "c"), ("validate", "c.**")])
def test_lists_without_end_stop_at_the_time_limit(answering, words):
    with python_server(answering) as server:
        assert ended(server.uri, *words) == 3


@contextmanager
def dripping(before: bytes) -> Iterator[str]:
    """A server that answers everything with these bytes, then one more byte now and then."""
    stopped = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def drip(taken: socket.socket) -> None:
        with taken, suppress(OSError):
            taken.recv(1 << 16)
            taken.sendall(before)
            while not stopped.wait(0.2):
                taken.sendall(b"1")

    def serve() -> None:
        with suppress(OSError):
            while True:
                taken, _ = listening.accept()
                threading.Thread(target=drip, args=(taken,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        stopped.set()
        listening.close()


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX-Long: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["status", "header", "body", "chunks"],
)
def test_an_answer_that_drips_stops_at_the_time_limit(before):
    with dripping(before) as uri:
        assert ended(uri, "inspect", "c.db.t") == 3


@pytest.mark.parametrize("framed", ["true", "false"])
def test_a_metastore_that_drips_is_given_up(monkeypatch, framed):
    monkeypatch.setattr(hive, "_LEAST_SECONDS", 1.0)
    start = time.monotonic()
    with dripping(b"\x00") as uri:
        properties = {
            "uri": uri.replace("http", "thrift"),
            "hive.metastore.thrift.framed.transport.enabled": framed,
        }
        servers = hive.servers_of("h", properties, Deadline(SystemEnv(), start))
        with servers.connected() as connection, pytest.raises(StorageError):
            connection.ask("get_all_databases", {})
    assert time.monotonic() - start < LONGEST_SECONDS


def test_a_commit_whose_answer_drips_is_unknown(tmp_path, monkeypatch):
    """Whatever the time limit says, it was sent: nothing is removed."""
    monkeypatch.setattr(rest_client, "_COMMIT_SECONDS", 1.0)
    table = filled_table(tmp_path / "t", range(3), range(3))
    with fake(current_metadata(table.directory)) as catalog:

        def slow(seen: Seen) -> Reply | None:
            if seen.method == "POST":
                time.sleep(4)
                return Reply(504)
            return None

        catalog.before = slow
        assert catalog.server is not None
        before = set(table.directory.rglob("*"))
        assert ended(catalog.server.uri, "rewrite-manifests", "c.db.t", "--yes") == 12
        assert before < set(table.directory.rglob("*"))


def warehouse(server: PythonServer) -> RestWarehouse:
    settings = CatalogSettings("c", "rest", {"uri": server.uri}, {"uri": ""})
    silent = lambda _: None  # noqa: E731
    return connect(CatalogAccess(settings, Quick(), StorageOptions(), silent, silent))


def test_pages_are_counted(monkeypatch):
    monkeypatch.setattr(rest_client, "_MOST_PAGES", 20)
    with python_server(endless_pages) as server:
        with pytest.raises(StorageError, match="continues after 20 pages"):
            list(warehouse(server).namespaces())
        assert len(server.asked("/namespaces")) == 20


def test_namespaces_are_counted_and_so_is_their_depth(monkeypatch):
    with python_server(endless_depth) as server:
        below = ("0",) * 63
        assert len(next(warehouse(server).namespaces(below))) == 64
        with pytest.raises(StorageError, match="never ends"):
            next(warehouse(server).namespaces((*below, "0")))
        monkeypatch.setattr(rest_client, "_MOST_LISTINGS", 10)
        with pytest.raises(StorageError, match="never ends"):
            list(warehouse(server).places() or ())
        assert len(server.asked("/namespaces?")) < 100


BODY = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
)


@pytest.mark.parametrize("ends_at", [None, math.inf, 1e300, 0.0])
def test_reads_of_buckets_with_and_without_a_limit(ends_at):
    env = SystemEnv()
    access = BucketAccess("https://s3", "https://s3/b", {}, {})
    client = BucketClient(ClientSource("s3", lambda _: access, lambda *_: "store", lambda: False))
    in_flight = InFlight(1, requests.is_throttled)
    made = requests.Requests(client, env, in_flight, tuple, Deadline(env, ends_at))
    assert made.make("read", "s3://b/k", lambda store: f"bytes of {store}") == "bytes of store"


@pytest.mark.parametrize("before", [b"", BODY + b"\r\n{"], ids=["status", "body"])
def test_a_bucket_that_drips_stops_at_the_time_limit(monkeypatch, before):
    monkeypatch.setattr(requests, "_LEAST_SECONDS", 0.5)
    start = time.monotonic()
    with dripping(before) as uri:
        options = {"endpoint_url": uri, "key": "k", "secret": "s"}
        given = [part for pair in options.items()
                 for part in ("--storage-option", "=".join(pair))]  # fmt: skip
        table = "s3://bucket/t/metadata/v1.metadata.json"
        code, document = run(["inspect", table, *given, *LIMIT], env=SystemEnv())
    assert (code, document["error"]["id"]) == (13, "time-limit"), document
    assert time.monotonic() - start < LONGEST_SECONDS
