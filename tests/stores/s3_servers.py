"""S3 servers for tests, each on a free port of this machine: moto's, and real ones as processes.

tests/run.sh builds the real ones with Go and names them in ICECTL_TEST_VERSITYGW and
ICECTL_TEST_RCLONE; ICECTL_TEST_NO_S3_SERVERS says why it could not.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KEY, SECRET = "test-key", "test-secret"

BY_S3FS = {"default_fill_cache": "false"}
"""Options that only s3fs understands, so that it does the work."""

STARTS_WITHIN_SECONDS = 30


@dataclass(frozen=True)
class S3Server:
    """A local S3 server, and how icectl reaches it; `client` is boto3's, for setting up."""

    endpoint: str
    options: dict[str, str]
    client: Any


def program(name: str) -> str | None:
    """Where a server is, if it is at hand."""
    return os.environ.get(f"ICECTL_TEST_{name.upper()}") or shutil.which(name)


def why_missing(name: str) -> str:
    """What a test that needs a server says when it is skipped."""
    reason = os.environ.get("ICECTL_TEST_NO_S3_SERVERS")
    return f"{name}: {reason or 'tests/run.sh builds it, or put it on the PATH'}"


@contextmanager
def moto() -> Iterator[S3Server]:
    """moto's server, in this process."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        with served_at(f"http://{host}:{port}") as found:
            yield found
    finally:
        server.stop()


@contextmanager
def versitygw(binary: str, directory: Path) -> Iterator[S3Server]:
    """Versity's gateway over a directory, with another one for versions of objects.

    It takes a deleted object of a versioned bucket for one that is there (If-None-Match).
    """
    port, versions = free_port(), directory.with_suffix(".versions")
    versions.mkdir()
    command = [binary, "--quiet", "--port", f"127.0.0.1:{port}", "--access", KEY, "--secret"]
    of_files = ["posix", "--versioning-dir", str(versions), str(directory)]
    with _process([*command, SECRET, *of_files], directory, port) as found:
        yield found


@contextmanager
def rclone(binary: str, directory: Path) -> Iterator[S3Server]:
    """rclone serving a directory: it takes no notice of If-None-Match."""
    port = free_port()
    command = [binary, "serve", "s3", "--config", "", "--addr", f"127.0.0.1:{port}"]
    keys = ["--auth-key", f"{KEY},{SECRET}"]
    with _process([*command, *keys, str(directory)], directory, port) as found:
        yield found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _process(command: Sequence[str], directory: Path, port: int) -> Iterator[S3Server]:
    """Run a server until the tests are over."""
    log = directory.with_suffix(".log")
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        await_port(server, port, log)
        with served_at(f"http://127.0.0.1:{port}") as found:
            yield found
    finally:
        server.terminate()
        server.wait(timeout=30)


def await_port(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ends = time.monotonic() + STARTS_WITHIN_SECONDS
    while time.monotonic() < ends:
        assert server.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(log.read_text())


@contextmanager
def served_at(endpoint: str) -> Iterator[S3Server]:
    """The server at an address."""
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )
    options = {
        "key": KEY,
        "secret": SECRET,
        "endpoint_url": endpoint,
        "client_kwargs.region_name": "us-east-1",
    }
    try:
        yield S3Server(endpoint, options, client)
    finally:
        client.close()
