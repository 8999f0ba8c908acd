"""S3 behind a proxy that fails requests as it is told: storms, cuts, lost responses."""

import http.client
import http.server
import itertools
import socket
import threading
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from icectl.storage.open import StorageOptions, open_store

NUMBERS = itertools.count()


def told(status: int, code: str) -> tuple[int, bytes]:
    return status, f"<Error><Code>{code}</Code><Message>{code}!</Message></Error>".encode()


@dataclass
class Proxy:
    """Passes requests on to a server, and fails those that `failures` names.

    Each is (method, what the path contains, what happens): an answer in place of the server's,
    `cut` in the middle of a body, `lost` once the server has done it, `dropped` before that.
    `exchanges` are those that the server answered: method, path, bytes sent and received.
    """

    port: int
    failures: list[tuple[str, str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    exchanges: list[tuple[str, str, int, int]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def failure(self, method: str, path: str) -> Any:
        with self.lock:
            self.requests.append((method, path))
            for number, (of, part, what) in enumerate(self.failures):
                if of == method and part in path:
                    del self.failures[number]
                    return what
        return None

    def passed_on(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        """What the server answers."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as server:
            server.request(method, path, body, headers)
            answer = server.getresponse()
            content = answer.read()
        with self.lock:
            self.exchanges.append((method, path, len(body), len(content)))
        return answer.status, dict(answer.headers), content


def handler(proxy: Proxy) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            failure = proxy.failure(self.command, self.path)
            if isinstance(failure, tuple):
                self.send(*failure, {})
                return
            if failure == "dropped":
                self.hang_up()
                return
            status, headers, content = proxy.passed_on(
                self.command, self.path, body, dict(self.headers)
            )
            if failure == "lost":
                self.hang_up()
            elif failure == "cut":
                self.send(status, content, headers, half=True)
                self.hang_up()
            else:
                self.send(status, content, headers)

        def send(
            self, status: int, content: bytes, headers: dict[str, str], *, half: bool = False
        ) -> None:
            self.send_response_only(status)
            lengths = [headers[name] for name in headers if name.lower() == "content-length"]
            length = next(iter(lengths), str(len(content)))
            skipped = {"content-length", "connection", "transfer-encoding"}
            for name, value in headers.items():
                if name.lower() not in skipped:
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content[: len(content) // 2] if half else content)

        def hang_up(self) -> None:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class Place:
    """A store of a new bucket behind a proxy, and the proxy."""

    def __init__(self, server: Any, env: Any) -> None:
        self.bucket, self.client = f"proxied-{next(NUMBERS)}", server.client
        self.client.create_bucket(Bucket=self.bucket)
        self.proxy = Proxy(int(server.endpoint.rpartition(":")[2]))
        self.front = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(self.proxy))
        threading.Thread(target=self.front.serve_forever, args=(0.01,), daemon=True).start()
        self.options = {
            **server.options,
            "endpoint_url": f"http://127.0.0.1:{self.front.server_port}",
        }
        self.env = env
        self.store = open_store(StorageOptions(self.options), env)

    def at(self, path: str) -> str:
        return f"s3://{self.bucket}/wh/{path}"

    def put(self, path: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=f"wh/{path}", Body=content)

    def stored(self, path: str) -> bytes:
        found = self.client.get_object(Bucket=self.bucket, Key=f"wh/{path}")
        return bytes(found["Body"].read())
