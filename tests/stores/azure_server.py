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
from pathlib import Path
from xml.etree import ElementTree as ET

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
        self,
        method: str,
        path: str,
        query: dict[str, str],
        content: bytes,
        headers: dict[str, str],
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
