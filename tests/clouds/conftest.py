"""Tables in the stores of other clouds than Amazon's, each as its emulator has it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.s3.conftest import NUMBERS, Bucket
from tests.s3.test_commits import COMMITTING
from tests.stores.azure_server import Azurite
from tests.stores.gcs_server import FakeGcs


@dataclass(frozen=True)
class CloudBucket(Bucket):
    """A bucket past icectl: the root of its locations, and means to write, read and list there."""

    root: str = ""
    options: tuple[tuple[str, str], ...] = ()
    put: Callable[[str, bytes], None] = lambda key, content: None
    get: Callable[[str], bytes] = lambda key: b""
    listed: Callable[[str], list[str]] = lambda prefix: []

    @property
    def arguments(self) -> list[str]:
        return [
            word for name, value in self.options for word in ("--storage-option", f"{name}={value}")
        ]

    def location(self, table: str) -> str:
        return f"{self.root}/wh/{table}"

    def upload(self, table: str) -> None:
        built = self.directory / table
        files = [path for path in built.rglob("*") if path.is_file()]
        with ThreadPoolExecutor(16) as pool:
            contents = [path.read_bytes() for path in files]
            keys = [f"wh/{table}/{path.relative_to(built)}" for path in files]
            list(pool.map(self.put, keys, contents))

    def keys(self, table: str) -> set[str]:
        start = f"wh/{table}/"
        return {key.removeprefix(start) for key in self.listed(start)}

    def download(self, table: str) -> Path:
        target = self.directory / f"{table}-{next(NUMBERS)}"
        for key in self.keys(table):
            path = target / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.get(f"wh/{table}/{key}"))
        return target


def bucket_of(server: Azurite | FakeGcs, name: str, directory: Path, root: str) -> CloudBucket:
    means = [partial(means, name) for means in (server.put, server.get, server.keys)]
    return CloudBucket(server, name, directory, root, tuple(server.options.items()), *means)


def azure_bucket(request: pytest.FixtureRequest, directory: Path) -> CloudBucket:
    server, name = request.getfixturevalue("azurite"), f"tables-{next(NUMBERS)}"
    server.create_container(name)
    root = f"abfss://{name}@{server.account}.dfs.core.windows.net"
    return bucket_of(server, name, directory, root)


def gcs_bucket(request: pytest.FixtureRequest, directory: Path) -> CloudBucket:
    server, name = request.getfixturevalue("fake_gcs"), f"tables-{next(NUMBERS)}"
    server.create_bucket(name)
    return bucket_of(server, name, directory, f"gs://{name}")


def hdfs_bucket(request: pytest.FixtureRequest, directory: Path) -> CloudBucket:
    server, name = request.getfixturevalue("hdfs"), f"tables-{next(NUMBERS)}"
    return CloudBucket(
        server,
        name,
        directory,
        f"{server.root}/{name}",
        (),
        lambda key, content: server.put(f"/{name}/{key}", content),
        lambda key: server.get(f"/{name}/{key}"),
        lambda prefix: [key.removeprefix(f"/{name}/") for key in server.keys(f"/{name}/{prefix}")],
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In the quick tier, commands of a list are on Azure's storage and Google's by turns."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if "bucket" in parameters and parameters.get("name") in COMMITTING:
            turn = list(COMMITTING).index(parameters["name"]) % 2
            if parameters["bucket"] != ("azurite", "fake-gcs")[turn]:
                item.add_marker(pytest.mark.full)


CLOUDS = {"azurite": azure_bucket, "fake-gcs": gcs_bucket, "hdfs": hdfs_bucket}


@pytest.fixture(
    params=[
        pytest.param("azurite", marks=pytest.mark.xdist_group("azurite")),
        "fake-gcs",
        pytest.param("hdfs", marks=[pytest.mark.full, pytest.mark.xdist_group("hdfs")]),
    ]
)
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> CloudBucket:
    """An empty bucket of each cloud."""
    return CLOUDS[request.param](request, tmp_path)
