"""A name node and a data node of Hadoop for tests, as tests/run.sh fetches them."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).resolve().parents[1] / "peers" / "HdfsServer.java"


@dataclass(frozen=True)
class Hdfs:
    """A local cluster, and a client of it for setting up."""

    root: str
    client: Any

    def put(self, path: str, content: bytes) -> None:
        from hdfs_native import WriteOptions

        options = WriteOptions(create_parent=True, overwrite=True)
        with self.client.create(path, options) as file:
            file.write(content)

    def get(self, path: str) -> bytes:
        return bytes(self.client.read(path).read())

    def keys(self, directory: str) -> list[str]:
        try:
            return [one.path for one in self.client.list_status(directory, True) if not one.isdir]
        except FileNotFoundError:
            return []


@contextmanager
def hdfs(jars: str, directory: Path) -> Iterator[Hdfs]:
    """Run the cluster until the tests are over."""
    from hdfs_native import Client

    with directory.with_suffix(".log").open("wb") as errors:
        process = subprocess.Popen(
            ["java", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", jars, PROGRAM, directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        told = next((line for line in process.stdout if line.startswith("port ")), None)
        assert told is not None, directory.with_suffix(".log").read_text()
        root = f"hdfs://127.0.0.1:{told.split()[1]}"
        yield Hdfs(root, Client(root))
    finally:
        process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait(timeout=30)
