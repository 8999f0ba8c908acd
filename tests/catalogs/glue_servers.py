"""AWS Glue, for the tests that every kind of catalog has to pass: moto's, behind a checking proxy.

moto takes updates of versions that are no more; the proxy does not, as AWS does not. It also loses
answers, refuses what a test wants refused, and answers for table optimizers, which moto has not.
"""

import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from icectl.catalog.protocol import Committed

NUMBERS = itertools.count()
LISTS = {"GetTables": "TableList", "GetDatabases": "DatabaseList"}
KEYS = {"access-key-id": "AKIATEST", "secret-access-key": "very-secret", "region": "eu-west-1"}


@dataclass
class Faults:
    """What the proxy does to requests; `asked` are those that it got, by their actions.

    `lose` are actions whose next request gets lost on its way (`there`), whose answer does on its
    way back (`back`), or is an error of the server's own (`500-there`, `500-back`) or a page of
    something in between (`page-back`), and those after which nothing answers (`dead`). `refuse` are
    errors that it answers, with status, name and message. `before` is called at the next request of
    an action. Lists come in pages of `page`.
    """

    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    lose: dict[str, str] = field(default_factory=dict)
    refuse: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    before: dict[str, Callable[[], None]] = field(default_factory=dict)
    optimizers: set[str] = field(default_factory=set)
    page: int = 100
    is_dead: bool = False


@dataclass
class GlueServer:
    """A database of its own in Glue."""

    properties: dict[str, str]
    warehouse: Path
    namespace: tuple[str, ...]
    faults: Faults
    client: Any
    lost_on_the_way: Sequence[type] = (Committed,)
    swaps_pointer: bool = True

    def register(self, table: str, metadata_location: str) -> None:
        directory = str(Path(metadata_location).parents[1])
        columns = [{"Name": "id", "Type": "bigint", "Parameters": {"iceberg.field.id": "1"}}]
        self.client.create_table(
            DatabaseName=self.namespace[0],
            TableInput={
                "Name": table,
                "Owner": "somebody",
                "TableType": "EXTERNAL_TABLE",
                "StorageDescriptor": {"Columns": columns, "Location": directory},
                "Parameters": {
                    "table_type": "ICEBERG",
                    "metadata_location": metadata_location,
                    "of-another": "kept",
                },
            },
        )

    def entry(self, table: str) -> dict[str, Any]:
        """What Glue has of a table, asked with boto3."""
        found: dict[str, Any] = self.client.get_table(DatabaseName=self.namespace[0], Name=table)
        entry: dict[str, Any] = found["Table"]
        return entry

    def current(self, table: str) -> str:
        return str(self.entry(table)["Parameters"]["metadata_location"])

    def change(self, table: str, tag: str, snapshot_id: int) -> None:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("other", **self.properties)
        with catalog.load_table((*self.namespace, table)).manage_snapshots() as snapshots:
            snapshots.create_tag(snapshot_id, tag)

    @contextmanager
    def losing_answer(self, *, landed: bool) -> Iterator[None]:
        self.faults.lose["UpdateTable"] = "back" if landed else "there"
        yield
        assert not self.faults.lose, "nothing was committed"

    @contextmanager
    def dying(self) -> Iterator[None]:
        self.faults.lose["UpdateTable"] = "dead"
        yield
        assert not self.faults.lose, "nothing was committed"
        self.faults.is_dead = False


@contextmanager
def glue_server(folder: Path) -> Iterator[GlueServer]:
    """A new database in moto's Glue."""
    pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    endpoint = _moto()
    client = boto3.client(
        "glue",
        endpoint_url=endpoint,
        region_name=KEYS["region"],
        aws_access_key_id=KEYS["access-key-id"],
        aws_secret_access_key=KEYS["secret-access-key"],
    )
    database = f"db{next(NUMBERS)}"
    client.create_database(DatabaseInput={"Name": database})
    faults = Faults()
    with _proxy(endpoint, faults) as proxied, closing(client):
        properties = {"type": "glue", "glue.endpoint": proxied}
        properties |= {f"glue.{key}": value for key, value in KEYS.items()}
        yield GlueServer(properties, folder / "warehouse", (database,), faults, client)


@cache
def _moto() -> str:
    """moto's server in this process, as long as that lives."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


@contextmanager
def _proxy(endpoint: str, faults: Faults) -> Iterator[str]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            action = self.headers["X-Amz-Target"].rpartition(".")[2]
            if action not in faults.before:
                with lock:
                    return self._answer(action, body)
            return self._answer(action, body)

        def _answer(self, action: str, body: bytes) -> None:
            if faults.is_dead:
                return self._drop()
            request = json.loads(body)
            faults.asked.append((action, request))
            if action in faults.before:
                faults.before.pop(action)()
            how = faults.lose.pop(action, "")
            faults.is_dead = how == "dead"
            status, answer = 500, b'{"__type": "InternalServiceException", "Message": "oops"}'
            if not how.endswith(("there", "dead")):
                answered = self._answered(action, request, body)
                status, answer = (status, answer) if how.startswith("500") else answered
                status, answer = (200, b"<html>") if how == "page-back" else (status, answer)
            return self._drop() if how in ("there", "back", "dead") else self._send(status, answer)

        def _answered(self, action: str, request: Any, body: bytes) -> tuple[int, bytes]:
            if action in faults.refuse:
                status, code, message = faults.refuse[action]
                return status, json.dumps({"__type": code, "Message": message}).encode()
            if action == "BatchGetTableOptimizer":
                return 200, json.dumps(_optimizers(request, faults.optimizers)).encode()
            if action == "UpdateTable" and request.get("VersionId") != self._version(request):
                told = {
                    "__type": "ConcurrentModificationException",
                    "Message": "Update table failed",
                }
                return 400, json.dumps(told).encode()
            if action in LISTS:
                return self._page(action, request)
            return self._forward(action, body)

        def _page(self, action: str, request: Any) -> tuple[int, bytes]:
            start = int(request.get("NextToken", 0))
            whole = {key: value for key, value in request.items() if key != "NextToken"}
            status, answer = self._forward(action, json.dumps(whole).encode())
            found = json.loads(answer)
            every = found.get(LISTS[action], ())
            if len(every) > start + faults.page:
                found["NextToken"] = str(start + faults.page)
            return status, json.dumps(
                {**found, LISTS[action]: every[start : start + faults.page]} if every else found
            ).encode()

        def _version(self, request: Any) -> str:
            named = {"DatabaseName": request["DatabaseName"], "Name": request["TableInput"]["Name"]}
            _, answer = self._forward("GetTable", json.dumps(named).encode())
            return str(json.loads(answer)["Table"]["VersionId"])

        def _forward(self, action: str, body: bytes) -> tuple[int, bytes]:
            kept = ("Authorization", "X-Amz-Date", "Content-Type")
            headers = {name: self.headers[name] for name in kept if self.headers[name]}
            headers["X-Amz-Target"] = f"AWSGlue.{action}"
            try:
                with urlopen(Request(endpoint, body, headers), timeout=30) as answer:
                    return answer.status, answer.read()
            except HTTPError as error:
                with error:
                    return error.code, error.read()

        def _send(self, status: int, answer: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def _drop(self) -> None:
            self.close_connection = True

        def log_message(self, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def _optimizers(request: Any, enabled: set[str]) -> dict[str, Any]:
    """What AWS answers: optimizers that are there, and failures for those that are not."""
    found, failures = [], []
    for entry in request["Entries"]:
        named = {key: entry[key] for key in ("catalogId", "databaseName", "tableName")}
        if entry["type"] in enabled:
            optimizer = {"type": entry["type"], "configuration": {"enabled": True}}
            found.append({**named, "tableOptimizer": optimizer})
        else:
            error = {"ErrorCode": "EntityNotFoundException", "ErrorMessage": "no optimizer"}
            failures.append({**named, "type": entry["type"], "error": error})
    return {"TableOptimizers": found, "Failures": failures}
