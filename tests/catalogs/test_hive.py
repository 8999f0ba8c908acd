"""Hive metastores, as far as they are unlike other catalogs: locks, entries, who else writes."""

import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.hive import metastore
from icectl.catalog.hive import warehouse as hive_warehouse
from icectl.catalog.hive.thrift import CallRefused
from tests.builders.compactions import build
from tests.builders.rows import current_metadata, local, read_metadata, read_rows
from tests.catalogs.conftest import configure
from tests.catalogs.hive_servers import Faster, HiveServer, client, hive_server
from tests.catalogs.races import icectl, race
from tests.catalogs.rest_fake import Quick
from tests.catalogs.server import NAME, meanwhile
from tests.catalogs.test_rest_access import certificates
from tests.fault.changing import run

COMPACT = ("--engine", "local", "--rewrite-all", "--json")
EXPIRE = ("--older-than", "0s", "--retain-last", "1", "--yes", "--json")
KINDS = {"hive3": True, "hive4": False, "hive4-locks": True}
OPTION = f"PYICEBERG_CATALOG__{NAME.upper()}__"


@pytest.fixture
def hive(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HiveServer]:
    """A database with one table, `t`, in a metastore of a kind, configured as NAME."""
    port = request.getfixturevalue(request.param.partition("-")[0])
    with hive_server(port, tmp_path, locks=KINDS[request.param]) as server:
        configure(monkeypatch, tmp_path, server)
        directory = server.warehouse / "t"
        build(directory, 2, "identity")
        server.register("t", str(current_metadata(directory)))
        yield server


HIVE3 = pytest.param("hive3", marks=pytest.mark.full)
"""One server is enough in the quick tier: Hive 4 knows locks too."""
every = pytest.mark.parametrize("hive", ["hive4", "hive4-locks", HIVE3], indirect=True)
locking = pytest.mark.parametrize("hive", ["hive4-locks", HIVE3], indirect=True)
hive4 = pytest.mark.parametrize("hive", ["hive4"], indirect=True)


def on(server: HiveServer, command: str, *options: str, table: str = "t") -> tuple[int, Any]:
    """Run a command on a table: its exit code and its document."""
    return run([command, f"{NAME}.{server.namespace[0]}.{table}", *options])


def metadata(server: HiveServer, table: str = "t") -> dict[str, Any]:
    """The metadata that the metastore says is current."""
    return read_metadata(local(server.current(table)))


def rows(server: HiveServer) -> list[Any]:
    """The rows of the table's current snapshot, read without icectl."""
    found = read_rows(metadata(server))
    return sorted(tuple(item for item in row if not item[0].startswith("_")) for row in found)


@hive4
@pytest.mark.parametrize("command", ["expire-snapshots", "remove-orphans"])
def test_a_table_is_no_other_one_in_capital_letters(hive, command):
    """The metastore has all names in lower case."""
    code, document = run([command, f"{NAME}.{hive.namespace[0].upper()}.T", "--yes", "--json"])
    assert code == 0, document


@every
def test_a_commit_gives_the_entry_back_whole(hive):
    """Parameters follow the metadata as Iceberg's Java has them, and nothing else is changed."""
    before, kept = hive.entry("t"), rows(hive)
    code, document = on(hive, "compact", *COMPACT)
    assert code == 0, document
    after = hive.entry("t")
    snapshot = metadata(hive)["snapshots"][-1]
    summary = {key: item for key, item in snapshot["summary"].items() if key != "operation"}
    assert json.loads(after.parameters.pop("current-snapshot-summary")) == summary
    assert after.parameters == {
        **before.parameters,
        "metadata_location": document["table"]["metadata_location_after"],
        "previous_metadata_location": before.parameters["metadata_location"],
        "current-snapshot-id": str(snapshot["snapshot-id"]),
        "current-snapshot-timestamp-ms": str(snapshot["timestamp-ms"]),
        "snapshot-count": str(len(metadata(hive)["snapshots"])),
        "numRows": summary["total-records"],
        "numFiles": summary["total-data-files"],
        "totalSize": summary["total-files-size"],
        "DO_NOT_UPDATE_STATS": "true",
    }
    after.parameters = before.parameters
    assert after == before
    assert rows(hive) == kept


@every
def test_another_writer_between_plan_and_commit_loses_nothing(hive):
    kept = rows(hive)
    oldest = metadata(hive)["snapshots"][0]["snapshot-id"]
    with meanwhile(lambda: hive.change("t", "keep", oldest)):
        code, document = on(hive, "expire-snapshots", *EXPIRE)
    assert code == 0, document
    assert metadata(hive)["refs"]["keep"]["snapshot-id"] == oldest
    assert len(read_rows(metadata(hive), oldest)) > 0
    assert rows(hive) == kept


@every
def test_a_lost_answer_is_found_out(hive):
    kept = rows(hive)
    with hive.losing_answer(landed=True):
        code, document = on(hive, "expire-snapshots", *EXPIRE)
    assert code == 0, document
    assert hive.current("t") == document["table"]["metadata_location_after"]
    assert document["result"]["deleted"]["manifest_lists"] > 0
    assert rows(hive) == kept


@every
def test_an_error_of_the_servers_own_is_looked_into(hive, monkeypatch):
    """What listens to changes there may fail once the change is made."""
    alter = metastore.alter_table

    def failing(*words: Any) -> None:
        alter(*words)
        raise CallRefused("Internal error processing alter_table", is_unknown=False)

    monkeypatch.setattr(metastore, "alter_table", failing)
    assert on(hive, "rewrite-manifests", "--min-manifests", "1")[0] == 0
    assert on(hive, "validate")[0] == 0


@hive4
def test_a_change_that_shows_after_its_refusal_is_found(hive, monkeypatch):
    """The server gave up waiting for its database, which made the change."""
    alter = metastore.alter_table
    late: list[Any] = []

    def failing(*words: Any) -> None:
        late.append(words)
        raise CallRefused("Internal error processing alter_table", is_unknown=False)

    class Waiting(Quick):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if seconds and late:
                alter(*late.pop())

    monkeypatch.setattr(metastore, "alter_table", failing)
    words = ["rewrite-manifests", f"{NAME}.{hive.namespace[0]}.t", "--min-manifests", "1"]
    assert run(words, env=Waiting())[0] == 0
    monkeypatch.undo()
    assert not late


@hive4
def test_a_server_that_compares_refuses_what_came_too_late(hive):
    """The other writer commits after the pointer was read: the alteration itself is refused."""
    oldest = metadata(hive)["snapshots"][0]["snapshot-id"]
    with before_calls(hive, b"alter_table", lambda: hive.change("t", "keep", oldest)):
        code, document = on(hive, "expire-snapshots", *EXPIRE)
    assert code == 0, document
    assert metadata(hive)["refs"]["keep"]["snapshot-id"] == oldest


@locking
def test_a_lock_that_is_lost_ends_the_commit_before_it_changes_anything(hive):
    location = hive.current("t")

    with before_calls(hive, b"heartbeat", hive.end_locks):
        code, document = on(hive, "expire-snapshots", *EXPIRE)
    assert (code, document["error"]["id"]) == (11, "commit-conflict"), document
    assert "the metastore's lock of" in document["error"]["message"]
    assert hive.current("t") == location
    assert on(hive, "expire-snapshots", *EXPIRE)[0] == 0


@locking
def test_a_lock_of_another_is_waited_for_and_named(hive):
    from hive_metastore.ttypes import LockComponent, LockLevel, LockRequest, LockType, UnlockRequest

    location = hive.current("t")
    component = LockComponent(LockType.EXCLUSIVE, LockLevel.TABLE, hive.namespace[0], "t")
    with client(hive.port) as asked:
        held = asked.lock(LockRequest([component], user="ann", hostname="far"))
        code, document = on(hive, "expire-snapshots", *EXPIRE)
        assert (code, document["error"]["id"]) == (11, "commit-conflict"), document
        assert document["error"]["message"].endswith("in 180 seconds: held by ann on far")
        assert hive.current("t") == location
        asked.unlock(UnlockRequest(held.lockid))
    assert on(hive, "expire-snapshots", *EXPIRE)[0] == 0


@locking
def test_a_lock_that_a_run_of_icectl_has_left_ends(hive, monkeypatch):
    from hive_metastore.ttypes import LockComponent, LockLevel, LockRequest, LockType

    monkeypatch.setattr(hive_warehouse, "_DEAD_AFTER_MS", 500)
    component = LockComponent(LockType.EXCLUSIVE, LockLevel.TABLE, hive.namespace[0], "t")
    with client(hive.port) as asked:
        asked.lock(LockRequest([component], user="x", hostname="y", agentInfo="icectl-dead"))
    time.sleep(1)
    assert on(hive, "expire-snapshots", *EXPIRE)[0] == 0


@pytest.mark.parametrize("hive", ["hive4", HIVE3], indirect=True)
def test_going_without_locks_is_refused_where_nothing_is_compared(hive, monkeypatch, request):
    if request.node.callspec.params["hive"] == "hive4":
        monkeypatch.setattr(metastore, "version", lambda _: "3.1.3")
    location = hive.current("t")
    monkeypatch.setenv(f"{OPTION}ICEBERG__ENGINE__HIVE__LOCK_ENABLED", "false")
    code, document = on(hive, "expire-snapshots", *EXPIRE)
    assert code == 5, document
    assert "does not compare the pointer" in document["error"]["message"]
    assert hive.current("t") == location


@locking
def test_what_is_no_iceberg_table_is_told(hive):
    with client(hive.port) as asked:
        for name, kind, words in (
            ("text", "EXTERNAL_TABLE", "is a Hive table"),
            ("seen", "VIRTUAL_VIEW", "is a view"),
        ):
            entry = hive.entry("t")
            entry.tableName, entry.tableType = name, kind
            entry.parameters = {"EXTERNAL": "TRUE"}
            entry.viewOriginalText = entry.viewExpandedText = "select 1"
            asked.create_table(entry)
            code, document = on(hive, "inspect", "--json", table=name)
            assert (code, document["error"]["id"]) == (10, "table-not-found"), document
            assert words in document["error"]["message"]
    code, document = on(hive, "inspect", "--json", table="tt")
    assert f"`{NAME}.{hive.namespace[0]}.t`" in document["error"]["hint"]
    code, document = run(["inspect", f"{NAME}.{hive.namespace[0]}x.t", "--json"])
    assert (code, hive.namespace[0] in document["error"]["hint"]) == (10, True)
    code, document = run(["inspect", f"{NAME}.{hive.namespace[0]}", "--json"])
    listed = json.dumps(document["result"])
    assert ('"t"' in listed or ".t" in listed, "text" in listed, "seen" in listed) == (
        True,
        False,
        False,
    )


@locking
def test_a_table_whose_metadata_has_a_hash_is_not_changed(hive):
    entry = hive.entry("t")
    entry.parameters["metadata_hash"] = "abc="
    with client(hive.port) as asked:
        asked.alter_table(hive.namespace[0], "t", entry)
    assert on(hive, "inspect", "--json")[0] == 0
    code, document = on(hive, "compact", *COMPACT)
    assert (code, document["error"]["id"]) == (14, "unsupported"), document


@locking
def test_the_first_server_that_answers_is_asked(hive, monkeypatch):
    alive = hive.properties["uri"]
    monkeypatch.setenv(f"{OPTION}URI", f"thrift://127.0.0.1:1,{alive}")
    assert on(hive, "inspect", "--json")[0] == 0
    monkeypatch.setenv(f"{OPTION}URI", "thrift://127.0.0.1:1,thrift://127.0.0.1:2")
    code, document = on(hive, "inspect", "--json")
    assert code == 13, document
    assert document["error"]["message"].startswith(
        "cannot reach the Hive metastore at 127.0.0.1:1: "
    )


@locking
def test_tls_takes_an_own_authority_and_shows_a_certificate(hive, tmp_path, monkeypatch):
    authority, certificate, key = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    trusted = {"SSL__CABUNDLE": authority}
    shown = {"SSL__CLIENT__CERT": certificate, "SSL__CLIENT__KEY": key}
    with tls_in_front(hive.port, context) as port:
        monkeypatch.setenv(f"{OPTION}URI", f"thrift://127.0.0.1:{port}")
        for use, given, code, told in (
            ("true", trusted | shown, 0, ""),
            ("true", shown, 13, "its certificate is not trusted: "),
            ("true", trusted, 13, "did not respond"),
            ("true", {"SSL__CABUNDLE": "/none"}, 2, "catalog property `ssl.cabundle`: "),
            ("false", {}, 13, ""),
        ):
            with monkeypatch.context() as patch:
                patch.setenv(f"{OPTION}HIVE__METASTORE__USE__SSL", use)
                for name, value in given.items():
                    patch.setenv(f"{OPTION}{name}", str(value))
                found, document = on(hive, "rewrite-manifests", "--min-manifests", "1", "--json")
            assert found == code, document
            assert told in json.dumps(document)


@locking
def test_another_server_is_not_taken_for_a_metastore(hive, monkeypatch):
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.05,))
        thread.start()
        monkeypatch.setenv(f"{OPTION}URI", f"thrift://127.0.0.1:{other.server_address[1]}")
        monkeypatch.setenv(f"{OPTION}HIVE__METASTORE__CLIENT__SOCKET__TIMEOUT", "1")
        code, document = on(hive, "inspect", "--json")
        other.shutdown()
        thread.join()
    assert code == 13, document


@pytest.mark.parametrize("hive", [HIVE3], indirect=True)  # Hive 4 does not know its calls
def test_pyiceberg_reads_what_was_maintained(hive, tmp_path):
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("other", **hive.properties)
    found = pa.table({"id": pa.array(range(60), pa.int64())})
    name = (*hive.namespace, "theirs")
    theirs = catalog.create_table(name, found.schema, location=f"file://{tmp_path}/theirs")
    for start in range(0, 60, 20):
        theirs.append(found.slice(start, 20))
    for command, options in (("compact", COMPACT), ("expire-snapshots", EXPIRE)):
        code, told = icectl(command, ".".join((NAME, *name)), *options[:-1])
        assert code == 0, told
    now = catalog.load_table(name)
    assert now.scan().to_arrow().sort_by("id") == found
    assert len(now.metadata.snapshots) == 1
    now.append(found.slice(0, 1))
    assert icectl("validate", ".".join((NAME, *name)))[0] == 0


@pytest.mark.parametrize("rounds", [3, pytest.param(200, marks=pytest.mark.full)])
@hive4
def test_two_of_icectl_and_another_writer_lose_no_tag(hive, rounds):
    def tag(number: int) -> None:
        while True:
            try:
                return hive.change("t", f"tag-{number}", None)
            except (Faster, FileNotFoundError):  # icectl was faster
                continue

    kept = rows(hive)
    race(".".join((NAME, *hive.namespace, "t")), range(rounds), tag)
    assert {f"tag-{number}" for number in range(rounds)} <= set(metadata(hive)["refs"])
    assert rows(hive) == kept


@contextmanager
def tls_in_front(port: int, context: ssl.SSLContext) -> Iterator[int]:
    """A port at which a metastore is reached through TLS."""

    def serve(accepted: socket.socket) -> None:
        with (
            suppress(OSError),
            accepted,
            context.wrap_socket(accepted, server_side=True) as near,
            socket.create_connection(("127.0.0.1", port)) as far,
        ):
            while True:
                for one in [near] if near.pending() else select.select([near, far], [], [])[0]:
                    chunk = one.recv(1 << 16)
                    if not chunk:
                        return
                    (far if one is near else near).sendall(chunk)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield int(listener.getsockname()[1])


@contextmanager
def before_calls(server: HiveServer, call: bytes, happens: Callable[[], None]) -> Iterator[None]:
    """Right before the next such call reaches the metastore, something happens."""
    server.proxy.before = (call, happens)
    yield
    assert server.proxy.before is None, "there was no such call"
