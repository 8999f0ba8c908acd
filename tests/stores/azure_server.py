"""Azure's emulator for tests, on a free port of this machine; tests/run.sh installs it."""

import base64
import email.utils
import hashlib
import hmac
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.stores.failing_proxy import Proxy
from tests.stores.s3_servers import await_port, free_port

KEY = base64.b64encode(b"a key of the tests, and of nothing else, of 64 bytes ..........").decode()


@dataclass(frozen=True)
class Azurite:
    """A local blob server, and how icectl reaches it."""

    account: str
    port: int

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/{self.account}"

    @property
    def options(self) -> dict[str, str]:
        text = f"AccountName={self.account};AccountKey={KEY};BlobEndpoint={self.endpoint};"
        return {"connection_string": text}

    def create_container(self, name: str) -> None:
        self._put(f"/{name}", {"restype": "container"}, b"", {})

    def put(self, container: str, path: str, content: bytes) -> None:
        """Write a blob, by the protocol as Microsoft documents it."""
        place = urllib.parse.quote(f"/{container}/{path}")
        self._put(place, {}, content, {"x-ms-blob-type": "BlockBlob"})

    def get(self, container: str, path: str) -> bytes:
        return self._ask("GET", urllib.parse.quote(f"/{container}/{path}"), {}, b"", {})

    def keys(self, container: str, prefix: str) -> list[str]:
        """The names of up to 5000 blobs."""
        query = {"restype": "container", "comp": "list", "prefix": prefix}
        found = self._ask("GET", f"/{container}", query, b"", {})
        return [name.text or "" for name in ET.fromstring(found).iter("Name")]

    def _put(
        self, path: str, query: dict[str, str], content: bytes, headers: dict[str, str]
    ) -> None:
        self._ask("PUT", path, query, content, headers)

    def _ask(
        self, method: str, path: str, query: dict[str, str], content: bytes, headers: dict[str, str]
    ) -> bytes:
        given = {
            **headers,
            "x-ms-date": email.utils.formatdate(usegmt=True),
            "x-ms-version": "2021-08-06",
        }
        canonical = "".join(f"{name}:{given[name]}\n" for name in sorted(given))
        resource = f"/{self.account}/{self.account}{path}"
        resource += "".join(f"\n{name}:{value}" for name, value in sorted(query.items()))
        length = str(len(content)) if content else ""
        kind = "application/octet-stream"
        text = f"{method}\n\n\n{length}\n\n{kind}\n\n\n\n\n\n\n{canonical}{resource}"
        digest = hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)
        signature = base64.b64encode(digest).decode()
        request = urllib.request.Request(
            f"{self.endpoint}{path}?{urllib.parse.urlencode(query)}",
            data=content if method == "PUT" else None,
            method=method,
            headers={
                **given,
                "Content-Type": kind,
                "Authorization": f"SharedKey {self.account}:{signature}",
            },
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())


@contextmanager
def azurite(binary: str, directory: Path) -> Iterator[Azurite]:
    """Run the emulator until the tests are over, without what it tells its makers."""
    server = Azurite("testaccount", free_port())
    command = [binary, "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    command += ["--blobHost", "127.0.0.1", "--blobPort", str(server.port)]
    log = directory.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--location", str(directory)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={"AZURITE_ACCOUNTS": f"{server.account}:{KEY}", "PATH": "/usr/bin:/bin"},
        )
    try:
        await_port(process, server.port, log)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=30)


def account_signature(account: str, now: datetime) -> str:
    """A token for all blobs of an account, as Microsoft documents those of accounts."""
    given = {
        "sv": "2021-08-06", "ss": "b", "srt": "sco", "sp": "rwdlac",
        "se": f"{now + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
    }  # fmt: skip
    fields = (account, given["sp"], given["ss"], given["srt"], "", given["se"], "", "",
              given["sv"], "", "")  # fmt: skip
    digest = hmac.digest(base64.b64decode(KEY), "\n".join(fields).encode(), hashlib.sha256)
    return urllib.parse.urlencode({**given, "sig": base64.b64encode(digest).decode()})


@dataclass
class CopyingFront(Proxy):
    """A front of the emulator that copies blocks, which the emulator itself does not.

    It does what Microsoft documents of Put Block From URL: it reads a range of the source by the
    address that it is given, on condition of the ETag, and stores it as Put Block does.
    With `redirects_to`, it sends whoever asks for a copy there.
    """

    redirects_to: str = ""

    def passed_on(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        given = {name.lower(): value for name, value in headers.items()}
        url = given.get("x-ms-copy-source")
        if url is None:
            return super().passed_on(method, path, body, headers)
        if self.redirects_to:
            return 307, {"Location": self.redirects_to}, b""
        if body or given.get("content-length") != "0":
            return _refused(400, "InvalidHeaderValue")
        parts = urllib.parse.urlsplit(url)
        asked = {"x-ms-version": given["x-ms-version"], "Range": given["x-ms-source-range"]}
        if "x-ms-source-if-match" in given:
            asked["If-Match"] = given["x-ms-source-if-match"]
        status, _, content = super().passed_on("GET", f"{parts.path}?{parts.query}", b"", asked)
        if status == 412:
            return _refused(412, "SourceConditionNotMet")
        if status != 206:
            return _refused(status, "CannotVerifyCopySource")
        kept = {"x-ms-version": given["x-ms-version"], "Content-Length": str(len(content))}
        return super().passed_on(method, path, content, kept)


def _refused(status: int, code: str) -> tuple[int, dict[str, str], bytes]:
    body = f"<Error><Code>{code}</Code><Message>{code}!</Message></Error>".encode()
    return status, {"x-ms-error-code": code, "Content-Type": "application/xml"}, body
