"""Tables in a bucket: of moto's server, and of a real one where it is at hand."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.builders import rows
from tests.builders.table_builder import TableBuilder
from tests.stores.failing_proxy import Place
from tests.stores.fixed_env import FixedEnv
from tests.stores.s3_servers import S3Server, program

NUMBERS = itertools.count()


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In the quick tier, whole runs of commands are on the real server alone, if it is at hand."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        is_whole_run = {"run", "erase"} & {*getattr(item, "fixturenames", ())}
        if parameters.get("s3_server") == "moto" and is_whole_run and program("versitygw"):
            item.add_marker(pytest.mark.full)


@pytest.fixture
def bucket(s3_server: S3Server, tmp_path: Path) -> Bucket:
    """A new bucket of each server."""
    made = Bucket(s3_server, f"tables-{next(NUMBERS)}", tmp_path)
    made.client.create_bucket(Bucket=made.name)
    return made


@pytest.fixture
def place(any_s3_server: S3Server, fixed_env: FixedEnv) -> Iterator[Place]:
    """A new bucket behind a proxy."""
    yield from _behind_proxy(any_s3_server, fixed_env)


@pytest.fixture
def moto_place(moto_server: S3Server, fixed_env: FixedEnv) -> Iterator[Place]:
    """The same on a server that takes any key of a user and any name of an object."""
    yield from _behind_proxy(moto_server, fixed_env)


def _behind_proxy(server: S3Server, env: FixedEnv) -> Iterator[Place]:
    made = Place(server, env)
    yield made
    made.front.shutdown()
    made.front.server_close()


@pytest.fixture
def proxied(place: Place, tmp_path: Path) -> Bucket:
    """A version 1 table `t` behind the proxy, which every command has work for."""
    server = S3Server(place.options["endpoint_url"], place.options, place.client)
    made = Bucket(server, place.bucket, tmp_path)
    table = TableBuilder(
        tmp_path / "t", format_version=1, partitioning="identity", location=made.location("t")
    )
    for start in range(0, 48, 12):
        table.append(range(start, start + 12))
    table.remove_data_files(2)
    table.append(range(48, 60))
    made.upload("t")
    return made
