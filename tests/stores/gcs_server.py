"""Google Cloud Storage for tests: fake-gcs-server, behind a front that speaks the XML interface.

The server has Google's JSON interface, with its conditions, and of the XML one only reads. obstore
speaks XML, so the front passes each such request on as the JSON one that Google documents as its
like. tests/run.sh builds the server.
"""

import http.client
import http.server
import itertools
import json
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from tests.stores.s3_servers import await_port, free_port


@dataclass
class FakeGcs:
    """A local server, where its XML interface is, and the requests that came there."""

    port: int
    front_port: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)
    failures: list[tuple[str, str, int, str]] = field(default_factory=list)
    """Answers in place of the server's: method, what the path contains, status, code. With status
    0 the server does it, and no answer comes."""
    is_careless: bool = False
    """Whether conditions are ignored."""

    @property
    def options(self) -> dict[str, str]:
        return {"endpoint_url": f"http://127.0.0.1:{self.front_port}", "token": "anon"}

    def create_bucket(self, name: str) -> None:
        self._post("/storage/v1/b?project=tests", json.dumps({"name": name}).encode())

    def put(self, bucket: str, path: str, content: bytes) -> None:
        name = urllib.parse.quote(path, safe="")
        self._post(f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}", content)

    def get(self, bucket: str, path: str) -> bytes:
        place = f"{bucket}/o/{urllib.parse.quote(path, safe='')}?alt=media"
        url = f"http://127.0.0.1:{self.port}/storage/v1/b/{place}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return bytes(answer.read())

    def keys(self, bucket: str, prefix: str) -> list[str]:
        query = urllib.parse.urlencode({"prefix": prefix})
        url = f"http://127.0.0.1:{self.port}/storage/v1/b/{bucket}/o?{query}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return [item["name"] for item in json.load(answer).get("items", ())]

    def _post(self, path: str, content: bytes) -> None:
        url = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(urllib.request.Request(url, content), timeout=30):
            pass


@contextmanager
def fake_gcs(binary: str, directory: Path) -> Iterator[FakeGcs]:
    """Run the server and its front until the tests are over."""
    server = FakeGcs(free_port())
    command = [binary, "-scheme", "http", "-host", "127.0.0.1", "-port", str(server.port)]
    command += ["-backend", "memory", "-public-host", f"127.0.0.1:{server.port}"]
    log = directory.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "-log-level", "error"], stdout=output, stderr=subprocess.STDOUT
        )
    try:
        await_port(process, server.port, log)
        front = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _front(server))
        server.front_port = front.server_port
        threading.Thread(target=front.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        front.shutdown()
        front.server_close()
    finally:
        process.terminate()
        process.wait(timeout=30)


_Answer = tuple[int, dict[str, str], bytes]
_OWN = {"content-length", "date", "connection", "transfer-encoding"}
_UPLOADS = itertools.count(1)
_CONDITION = "x-goog-if-generation-match"


class _Xml:
    """The XML interface of a server, one request at a time."""

    def __init__(self, server: FakeGcs) -> None:
        self.server = server
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.lock = threading.Lock()

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> _Answer:
        path, _, text = target.partition("?")
        query = dict(urllib.parse.parse_qsl(text, keep_blank_values=True))
        bucket, _, key = urllib.parse.unquote(path[1:]).partition("/")
        if not key:
            return self.listed(bucket, query)
        name = urllib.parse.quote(key, safe="")
        if path.startswith("/storage/v1/"):
            return self.ask(method, target, headers)
        if method in {"GET", "HEAD"}:
            found = self.ask(method, f"/{bucket}/{name}", headers)
            tag = next((found[1][item] for item in found[1] if item.lower() == "etag"), "")
            if headers.get("if-match", tag) != tag:
                return _stated(412)
            return found
        if "compose" in query:
            with self.lock:
                return self.composed(bucket, key, headers, body)
        if "uploads" in query:
            number = str(next(_UPLOADS))
            self.uploads[number] = {}
            inner = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key>"
            return _xml("InitiateMultipartUploadResult", f"{inner}<UploadId>{number}</UploadId>")
        if "uploadId" in query:
            return self.uploaded(method, bucket, name, query, body)
        if method == "DELETE":
            if not self.holds(bucket, key, headers.get(_CONDITION)):
                return _stated(412)
            return _told(self.ask("DELETE", f"/storage/v1/b/{bucket}/o/{name}", {}))
        if source := headers.get("x-goog-copy-source"):
            first, _, rest = urllib.parse.unquote(source).lstrip("/").partition("/")
            place = f"{first}/o/{urllib.parse.quote(rest, safe='')}"
            return _told(
                self.ask("POST", f"/storage/v1/b/{place}/rewriteTo/b/{bucket}/o/{name}", {}, b"{}"),
                "<CopyObjectResult><ETag>e</ETag></CopyObjectResult>",
            )
        generation = headers.get(_CONDITION)
        return self.written(bucket, name, body, None if self.server.is_careless else generation)

    def written(self, bucket: str, name: str, body: bytes, generation: str | None) -> _Answer:
        place = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}"
        if generation is not None:
            place += f"&ifGenerationMatch={generation}"
        return _told(self.ask("POST", place, {}, body))

    def composed(self, bucket: str, key: str, headers: dict[str, str], body: bytes) -> _Answer:
        """Compose objects as Google documents it; the server itself knows no conditions of that."""
        parts = [
            (found.findtext("Name", ""), found.findtext("IfGenerationMatch"))
            for found in ET.fromstring(body).iter("Component")
        ]
        if not 0 < len(parts) <= 32:
            return _stated(400)
        if not all(self.holds(bucket, *one) for one in [(key, headers.get(_CONDITION)), *parts]):
            return _stated(412)
        asked = {"sourceObjects": [{"name": one} for one, _ in parts], "destination": {}}
        place = f"/storage/v1/b/{bucket}/o/{urllib.parse.quote(key, safe='')}/compose"
        return _told(self.ask("POST", place, {}, json.dumps(asked).encode()))

    def holds(self, bucket: str, key: str, generation: str | None) -> bool:
        """Whether an object is of a generation, 0 where there is none."""
        if generation is None:
            return True
        place = f"/storage/v1/b/{bucket}/o/{urllib.parse.quote(key, safe='')}"
        status, _, body = self.ask("GET", place, {})
        found = json.loads(body)["generation"] if status == 200 else "0"
        return bool(found == generation)

    def uploaded(
        self, method: str, bucket: str, name: str, query: dict[str, str], body: bytes
    ) -> _Answer:
        number = query["uploadId"]
        if method == "PUT":
            self.uploads[number][int(query["partNumber"])] = body
            return 200, {"ETag": f'"{query["partNumber"]}"'}, b""
        parts = self.uploads.pop(number)
        if method == "DELETE":
            return 204, {}, b""
        whole = b"".join(parts[part] for part in sorted(parts))
        status, _, _ = self.written(bucket, name, whole, None)
        assert status == 200
        return _xml("CompleteMultipartUploadResult", "<ETag>e</ETag>")

    def listed(self, bucket: str, query: dict[str, str]) -> _Answer:
        asked = {"maxResults": query.get("max-keys", "1000")}
        for theirs, ours in (("prefix", "prefix"), ("delimiter", "delimiter"),
                             ("continuation-token", "pageToken"),
                             ("start-after", "startOffset")):  # fmt: skip
            if theirs in query:
                asked[ours] = query[theirs]
        place = f"/storage/v1/b/{bucket}/o?{urllib.parse.urlencode(asked)}"
        status, headers, body = self.ask("GET", place, {})
        if status != 200:
            return _told((status, headers, body))
        found = json.loads(body)
        rows = "".join(
            f"<Contents><Key>{escape(item['name'])}</Key><Size>{item['size']}</Size>"
            f'<LastModified>{item["updated"]}</LastModified><ETag>"e"</ETag></Contents>'
            for item in found.get("items", ())
            if item["name"] != query.get("start-after")
        )
        rows += "".join(
            f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>"
            for prefix in found.get("prefixes", ())
        )
        if token := found.get("nextPageToken"):
            rows += f"<NextContinuationToken>{escape(token)}</NextContinuationToken>"
        return _xml("ListBucketResult", rows)

    def ask(self, method: str, place: str, headers: dict[str, str], body: bytes = b"") -> _Answer:
        passed = {name: value for name, value in headers.items() if name == "range"}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        connection.request(method, place, body or None, passed)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, dict(answer.headers), content


def _xml(name: str, inner: str) -> _Answer:
    return 200, {}, f"<?xml version='1.0' encoding='UTF-8'?><{name}>{inner}</{name}>".encode()


_CODES = {404: "NoSuchKey", 412: "PreconditionFailed"}


def _told(answer: _Answer, good: str = "") -> _Answer:
    """An answer of the JSON interface as the XML one words it."""
    status, _, body = answer
    if status < 300:
        made = json.loads(body).get("generation", "") if body.startswith(b"{") else ""
        return status, {"ETag": '"e"', "x-goog-generation": made}, good.encode()
    code = _CODES.get(status, str(status))
    if b"bucket" in body.lower() and status == 404:
        code = "NoSuchBucket"
    return status, {}, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()


def _stated(status: int) -> _Answer:
    return _told((status, {}, b""))


def _front(server: FakeGcs) -> type[http.server.BaseHTTPRequestHandler]:
    interface = _Xml(server)

    def failure(method: str, path: str) -> _Answer | None:
        for one in server.failures:
            if one[0] == method and one[1] in path and one[2]:
                server.failures.remove(one)
                inner = f"<Code>{one[3]}</Code><Message>{one[3]}!</Message>"
                return one[2], {}, f"<Error>{inner}</Error>".encode()
        return None

    def is_lost(method: str, path: str) -> bool:
        for one in server.failures:
            if one[:3] == (method, one[1], 0) and one[1] in path:
                server.failures.remove(one)
                return True
        return False

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.requests.append((self.command, self.path))
            given = {name.lower(): value for name, value in self.headers.items()}
            failed = failure(self.command, self.path)
            if failed is None:
                status, headers, content = interface.answer(self.command, self.path, given, body)
            else:
                status, headers, content = failed
            if is_lost(self.command, self.path):
                self.close_connection = True
                return
            self.send_response(status)
            length = str(len(content))
            for name, value in headers.items():
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = value
                elif name.lower() not in _OWN:
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    return Handler
