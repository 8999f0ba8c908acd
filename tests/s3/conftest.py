"""Tables in a bucket: of moto's server, and of a real one where it is at hand."""

import itertools
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.builders import rows
from tests.stores.s3_servers import S3Server

NUMBERS = itertools.count()
KEY, SECRET = "access-key", "secret-key-1"


@dataclass(frozen=True)
class Bucket:
    """A bucket of a server, and the directory that its tables are built in and read back from."""

    server: S3Server
    name: str
    directory: Path

    @property
    def arguments(self) -> list[str]:
        """The options that icectl reaches it with."""
        return [
            argument
            for key, value in self.server.options.items()
            for argument in ("--storage-option", f"{key}={value}")
        ]

    def location(self, table: str) -> str:
        """Where a table lies in the bucket."""
        return f"s3://{self.name}/wh/{table}"

    def upload(self, table: str) -> None:
        """Put what was built in the directory into the bucket."""
        for path in (self.directory / table).rglob("*"):
            if path.is_file():
                key = f"wh/{table}/{path.relative_to(self.directory / table)}"
                self.client.put_object(Bucket=self.name, Key=key, Body=path.read_bytes())

    def keys(self, table: str) -> set[str]:
        """The keys below a table, relative to it."""
        found = set()
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=f"wh/{table}/"
        )
        for page in pages:
            found |= {item["Key"].removeprefix(f"wh/{table}/") for item in page.get("Contents", ())}
        return found

    def download(self, table: str) -> Path:
        """Get everything out of the bucket into an empty directory."""
        target = self.directory / f"{table}-{next(NUMBERS)}"
        for key in self.keys(table):
            path = target / key
            path.parent.mkdir(parents=True, exist_ok=True)
            body = self.client.get_object(Bucket=self.name, Key=f"wh/{table}/{key}")["Body"]
            path.write_bytes(body.read())
        return target

    def rows(self, table: str, monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
        """The rows of every snapshot, by a reader that is not icectl's."""
        directory = self.download(table)
        prefix = self.location(table)
        monkeypatch.setattr(
            rows, "local", lambda place: directory / place.removeprefix(prefix).lstrip("/")
        )
        metadata = rows.read_metadata(rows.current_metadata(directory))
        return {
            snapshot["snapshot-id"]: rows.read_rows(metadata, snapshot["snapshot-id"])
            for snapshot in metadata["snapshots"]
        }

    @property
    def client(self) -> Any:
        """boto3's client."""
        return self.server.client


@pytest.fixture(scope="session", params=["moto", "versitygw"])
def s3_server(request: pytest.FixtureRequest) -> S3Server:
    """Every server that tables can be kept on."""
    server: S3Server = request.getfixturevalue(f"{request.param}_server")
    return server


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def serve(command: list[str], port: int) -> Iterator[S3Server]:
    """Run a server until the session ends; KEY and SECRET open it."""
    boto3 = pytest.importorskip("boto3")
    endpoint = f"http://127.0.0.1:{port}"
    options = {
        "key": KEY,
        "secret": SECRET,
        "endpoint_url": endpoint,
        "client_kwargs.region_name": "us-east-1",
    }
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )
        yield S3Server(endpoint, options, client)
        client.close()
    finally:
        process.terminate()
        process.wait(10)


def wait_for(port: int) -> None:
    """Wait until a server answers."""
    for _ in range(100):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise TimeoutError(port)


def program(variable: str) -> str:
    """The program of a server that tests/run.sh has built."""
    found = os.environ.get(variable)
    if not found:
        pytest.skip(os.environ.get("ICECTL_TEST_NO_S3_SERVERS") or "tests/run.sh builds the server")
    return found


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server over files, which has nothing to do with moto."""
    port = free_port()
    command = [program("ICECTL_TEST_VERSITYGW"), "--access", KEY, "--secret", SECRET]
    folder = str(tmp_path_factory.mktemp("versitygw"))
    yield from serve([*command, "--port", f"127.0.0.1:{port}", "posix", folder], port)


@pytest.fixture(scope="session")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server that takes no notice of conditions."""
    port = free_port()
    folder = str(tmp_path_factory.mktemp("rclone"))
    command = [program("ICECTL_TEST_RCLONE"), "serve", "s3", "--auth-key", f"{KEY},{SECRET}"]
    yield from serve([*command, "--addr", f"127.0.0.1:{port}", folder], port)


@pytest.fixture(params=["s3_server", "versitygw"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """A new bucket of moto's server, and of one that is not moto's."""
    server: S3Server = request.getfixturevalue(request.param)
    made = Bucket(server, f"tables-{next(NUMBERS)}", tmp_path)
    made.client.create_bucket(Bucket=made.name)
    return made
