"""Nessie, whose REST catalog keeps tables in S3 alone, in front of moto's S3 server."""

import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.catalogs.rest_servers import PythonServer, Reply, Seen, ask, pass_on, python_server
from tests.stores.s3_servers import KEY, SECRET, free_port, moto

JAR, JAVA = "ICECTL_TEST_NESSIE_JAR", "ICECTL_TEST_NESSIE_JAVA"
NO_SERVER = "ICECTL_TEST_NO_NESSIE"
BUCKET = "warehouse"
_STARTS_WITHIN_SECONDS = 180


def missing() -> str | None:
    """Why Nessie cannot be started here."""
    if os.environ.get(NO_SERVER):
        return os.environ[NO_SERVER]
    if not os.environ.get(JAR):
        return "the jar of Nessie is not set up; tests/run.sh fetches it"
    return None


@dataclass(frozen=True)
class Nessie:
    """A running Nessie: the address of its REST catalog, and what reaches its storage."""

    uri: str
    storage: dict[str, str]

    def branch(self, name: str) -> None:
        """Make a branch of all tables as they are on `main`."""
        api = self.uri.replace("/iceberg", "/api/v2/trees")
        body = {"type": "BRANCH", "name": "main", "hash": ask(api, "/main")["reference"]["hash"]}
        ask(api, f"?name={name}&type=BRANCH", body)

    @contextmanager
    def behind_proxy(self) -> Iterator[PythonServer]:
        """A proxy that passes everything on, and that Nessie takes for its own address."""
        with python_server(partial(passed_on, self)) as proxy:
            yield proxy


def passed_on(nessie: Nessie, seen: Seen) -> Reply:
    """Nessie's answer, in which it is reached through the proxy that was asked."""
    root = nessie.uri.removesuffix("/iceberg")
    reply = pass_on(root, seen)
    own = f"http://{seen.headers['host']}"
    return replace(reply, body=reply.content.replace(root.encode(), own.encode()))


@contextmanager
def nessie_server(folder: Path) -> Iterator[Nessie]:
    """Nessie with its versions in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    with moto() as s3:
        s3.client.create_bucket(Bucket=BUCKET)
        port = free_port()
        with (folder / "server.log").open("wb") as log:
            server = subprocess.Popen(_command(port, s3.endpoint), stdout=log, stderr=log)
        uri = f"http://127.0.0.1:{port}/iceberg"
        storage = {
            "s3.endpoint": s3.endpoint,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.region": "us-east-1",
        }
        try:
            _wait(server, uri, folder / "server.log")
            yield Nessie(uri, storage)
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _command(port: int, s3: str) -> list[str]:
    of_s3 = "nessie.catalog.service.s3.default-options"
    settings = {
        "quarkus.http.port": port,
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.access-log.enabled": "false",
        "quarkus.log.level": "WARN",
        "quarkus.management.port": free_port(),
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "lake",
        "nessie.catalog.warehouses.lake.location": f"s3://{BUCKET}/lake",
        f"{of_s3}.endpoint": s3,
        f"{of_s3}.path-style-access": "true",
        f"{of_s3}.region": "us-east-1",
        f"{of_s3}.access-key": "urn:nessie-secret:quarkus:keys",
        "keys.name": KEY,
        "keys.secret": SECRET,
    }
    options = [f"-D{name}={value}" for name, value in settings.items()]
    java = os.environ.get(JAVA, "java")
    return [java, "-XX:TieredStopAtLevel=1", "-Xmx400m", *options, "-jar", os.environ[JAR]]


def _wait(server: "subprocess.Popen[Any]", uri: str, log: Path) -> None:
    ends_at = time.monotonic() + _STARTS_WITHIN_SECONDS
    while time.monotonic() < ends_at:
        assert server.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{uri}/v1/config", timeout=10):
                return
        except OSError:
            time.sleep(0.3)
    raise AssertionError(log.read_text())
