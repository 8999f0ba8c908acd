"""Iceberg's own REST server, a proxy that interferes, and a server in Python that answers oddly."""

import json
import os
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.protocol import Committed
from tests.fault import changing

NAMESPACE = ("db", "inner")
"""Where the tables are."""

SOURCE = Path(__file__).parents[1] / "peers" / "RestServer.java"
JARS = "ICECTL_TEST_REST_JARS"
NO_SERVER = "ICECTL_TEST_NO_REST"


def _encoded(namespace: tuple[str, ...]) -> str:
    """A namespace in a path of Iceberg's server, which wants dots between its levels."""
    return "%2E".join(namespace)


def missing() -> str | None:
    """Why Iceberg's server cannot be started here."""
    if os.environ.get(NO_SERVER):
        return os.environ[NO_SERVER]
    if not os.environ.get(JARS):
        return "the jars of Iceberg's REST server are not set up; tests/run.sh fetches them"
    return None if shutil.which("javac") else "a JDK is not on the PATH"


@contextmanager
def iceberg_server(folder: Path) -> Iterator[str]:
    """Iceberg's REST catalog over SQLite and the local disk; its address."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["java", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    command += [
        "-cp", os.environ[JARS], str(SOURCE), str(folder / "catalog.db"), f"file://{folder}",
    ]  # fmt: skip
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            assert server.stdout is not None
            said = server.stdout.readline()
            assert said.startswith("port "), (folder / "server.log").read_text()
            yield f"http://127.0.0.1:{said.split()[1]}"
        finally:
            assert server.stdin is not None
            server.stdin.close()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            server.stdout.close()


@dataclass
class Seen:
    """A request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    """An answer; `breaks` closes the connection in its place."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    breaks: bool = False

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def refusal(status: int, message: str, kind: str = "SomeException") -> Reply:
    """A refusal as the protocol has them."""
    return Reply(status, {"error": {"message": message, "type": kind, "code": status}})


Answering = Callable[[Seen], Reply]


@dataclass
class PythonServer:
    """A server that answers what a test says, and remembers what it was asked."""

    answering: Answering
    seen: list[Seen] = field(default_factory=list)
    uri: str = ""

    def asked(self, part: str, method: str | None = None) -> list[Seen]:
        """The requests whose path has a part."""
        return [one for one in self.seen if part in one.path and method in (None, one.method)]


@contextmanager
def python_server(answering: Answering, tls: Any = None) -> Iterator[PythonServer]:
    """Serve on a port of this machine."""
    served = PythonServer(answering)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen = Seen(self.command, self.path, headers, body)
            served.seen.append(seen)
            reply = served.answering(seen)
            if reply.breaks:
                self.close_connection = True
                self.connection.close()
                return
            content = reply.content
            self.send_response(reply.status)
            usual = {"Content-Type": "application/json", "Content-Length": str(len(content))}
            for name, value in (usual | reply.headers).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *_: Any) -> None: ...

        def finish(self) -> None:
            with suppress(OSError, ValueError):
                super().finish()

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None: ...

    server = Server(("127.0.0.1", 0), Handler)
    scheme = "http"
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    served.uri = f"{scheme}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(uri: str, path: str, body: Any = None) -> Any:
    """What a server answers to a client that is none of icectl's."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{uri}{path}", content, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"{}")


def pass_on(uri: str, seen: Seen) -> Reply:
    """The answer of another server."""
    headers = {k: v for k, v in seen.headers.items() if k not in ("host", "content-length")}
    content = seen.body if seen.method == "POST" else None
    request = urllib.request.Request(f"{uri}{seen.path}", content, headers, method=seen.method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return Reply(answer.status, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.read())


def register(
    uri: str, name: str, metadata_location: str, namespace: tuple[str, ...] = NAMESPACE
) -> None:
    """Make a table of a metadata file known to a server."""
    for depth in range(1, len(namespace) + 1):
        with suppress(urllib.error.HTTPError):  # it is there
            ask(uri, "/v1/namespaces", {"namespace": list(namespace[:depth]), "properties": {}})
    location = {"name": name, "metadata-location": metadata_location}
    ask(uri, f"/v1/namespaces/{_encoded(namespace)}/register", location)


def path_of(name: str) -> str:
    """The path of a table in NAMESPACE."""
    return f"/v1/namespaces/{_encoded(NAMESPACE)}/tables/{name}"


def load(uri: str, name: str) -> Any:
    """A table as a server answers it."""
    return ask(uri, path_of(name))


def commit(uri: str, name: str, updates: list[Any]) -> Any:
    """Change a table, whatever it looks like."""
    return ask(uri, path_of(name), {"requirements": [], "updates": updates})


def set_tag(uri: str, name: str, tag: str, snapshot_id: int) -> None:
    """Set a tag, as another client does."""
    ref = {"ref-name": tag, "type": "tag", "snapshot-id": snapshot_id}
    commit(uri, name, [{"action": "set-snapshot-ref", **ref}])


@dataclass
class RestServer:
    """Iceberg's own server behind a proxy of the tests' own, with one table at a time."""

    properties: dict[str, str]
    warehouse: Path
    uri: str
    proxy: PythonServer
    swaps_pointer: bool = False
    namespace: tuple[str, ...] = NAMESPACE
    lost_on_the_way: Sequence[type] = (Committed,)

    def register(self, table: str, metadata_location: str) -> None:
        gone = urllib.request.Request(f"{self.uri}{path_of(table)}", method="DELETE")
        with suppress(urllib.error.HTTPError), urllib.request.urlopen(gone, timeout=30):
            pass
        register(self.uri, table, metadata_location)

    def current(self, table: str) -> str:
        return str(load(self.uri, table)["metadata-location"])

    def change(self, table: str, tag: str, snapshot_id: int) -> None:
        set_tag(self.uri, table, tag, snapshot_id)

    @contextmanager
    def losing_answer(self, *, landed: bool) -> Iterator[None]:
        armed = [True]

        def answering(seen: Seen) -> Reply:
            if seen.method != "POST" or not armed:
                return pass_on(self.uri, seen)
            armed.clear()
            if landed:
                pass_on(self.uri, seen)
            return Reply(breaks=True)

        with self._answering(answering):
            yield
        assert not armed, "nothing was committed"

    @contextmanager
    def dying(self) -> Iterator[None]:
        dead: list[bool] = []

        def answering(seen: Seen) -> Reply:
            if seen.method == "POST":
                dead.append(True)
            return Reply(breaks=True) if dead else pass_on(self.uri, seen)

        with self._answering(answering):
            yield
        assert dead, "nothing was committed"

    @contextmanager
    def _answering(self, answering: Answering) -> Iterator[None]:
        before, self.proxy.answering = self.proxy.answering, answering
        try:
            yield
        finally:
            self.proxy.answering = before


@contextmanager
def rest_server(uri: str, folder: Path) -> Iterator[RestServer]:
    """A proxy in front of Iceberg's server."""
    with python_server(partial(pass_on, uri)) as proxy, pytest.MonkeyPatch.context() as patch:
        # The server dates what it commits by a clock of its own.
        patch.setattr(changing, "NOW_MS", time.time_ns() // 1_000_000)
        yield RestServer({"type": "rest", "uri": proxy.uri}, folder / "warehouse", uri, proxy)
