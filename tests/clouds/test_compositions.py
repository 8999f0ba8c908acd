"""Objects that Google Cloud Storage composes of whole others, and merges of data files by that."""

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.cli import app
from icectl.errors import StorageError
from icectl.storage.buckets import gcs
from icectl.storage.buckets.client import PlainAnswer
from icectl.storage.open import StorageOptions, open_store
from icectl.storage.store import CopyRefused
from tests.builders.expiry import NOW_MS
from tests.stores.assemblies import assemble_of_replaced, assembled, begun
from tests.stores.fixed_env import FixedEnv
from tests.stores.gcs_server import FakeGcs
from tests.stores.merges import Inputs, merge

NUMBERS = itertools.count()
SIZES = {"large": 200_000, "d=1/é%": 100_001, "small": 1000, "tiny": 9}
CONTENT = {name: random.Random(name).randbytes(size) for name, size in SIZES.items()}


class Objects:
    """Objects of a bucket, and a store of it."""

    def __init__(self, server: FakeGcs, env: FixedEnv) -> None:
        self.server, self.name, self.env = server, f"composed-{next(NUMBERS)}", env
        server.create_bucket(self.name)
        self.root = f"gs://{self.name}"
        self.store = open_store(StorageOptions(server.options, concurrency=4), env)
        for key, content in CONTENT.items():
            server.put(self.name, key, content)
        server.requests.clear()

    def made_of(self, *keys: str) -> bytes:
        """Compose an object of others and bytes, and return what ought to be in it."""
        parts = [*((key, 0, SIZES[key]) for key in keys), b"end"]
        return assembled(self.store, self.root, "d=1/new", CONTENT, parts, whole=True)

    def stored(self) -> bytes:
        return self.server.get(self.name, "d=1/new")

    def keys(self) -> set[str]:
        return set(self.server.keys(self.name, ""))

    @property
    def counts(self) -> Counter[str]:
        return Counter(
            "compose" if "?compose" in path else method for method, path in self.server.requests
        )


@pytest.fixture
def objects(fake_gcs: FakeGcs, fixed_env: FixedEnv) -> Iterator[Objects]:
    yield Objects(fake_gcs, fixed_env)
    fake_gcs.failures.clear()


@pytest.mark.parametrize("count", [0, 31, 32, pytest.param(63, marks=pytest.mark.full)])
def test_an_object_has_the_bytes_of_its_parts_in_order(objects, count):
    keys = list(itertools.islice(itertools.cycle(SIZES), count))
    assert objects.made_of(*keys) == objects.stored()
    assert objects.keys() == {*SIZES, "d=1/new"}
    assert objects.counts["compose"] == -(-count // 31)


def test_sources_are_not_read_but_for_their_end(objects):
    objects.made_of("large", "small")
    # Two ends, and whether objects may be replaced; how it is before and after.
    assert objects.counts == {"GET": 3, "PUT": 1, "compose": 1, "HEAD": 1}
    assert objects.env.slept == [1.0]


MANY = [*itertools.islice(itertools.cycle(SIZES), 40)]
FAILURES = [
    ("GET", "/large", 503, "ServiceUnavailable"),
    ("GET", "/storage/v1/", 503, "ServiceUnavailable"),
    ("PUT", "/new", 503, "ServiceUnavailable"),
    ("PUT", "/new", 0, "lost"),
    ("PUT", "?compose", 429, "SlowDown"),
    ("PUT", "?compose", 0, "lost"),
    ("HEAD", "new", 503, "ServiceUnavailable"),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: f"{one[0]}-{one[1]}-{one[3]}")
def test_a_request_that_fails_once_is_made_again(objects, failure):
    objects.server.failures += [failure]
    assert objects.made_of(*MANY) == objects.stored()
    assert objects.server.failures == []


@pytest.mark.parametrize(
    "failure", [one for one in FAILURES if one[2]], ids=lambda one: f"{one[0]}-{one[1]}-{one[3]}"
)
def test_an_object_that_fails_for_good_leaves_nothing(objects, failure):
    objects.server.failures += [failure] * 6
    with pytest.raises((StorageError, CopyRefused)):
        objects.made_of(*MANY)
    assert objects.keys() == set(SIZES)


class Killed(BaseException):
    """The end of a process, as it stands in code."""


@pytest.mark.parametrize("calls", range(5))
def test_an_object_whose_making_ends_at_any_request_has_no_other_name(objects, calls, monkeypatch):
    send, made = gcs.send, itertools.count()

    def until(*args: Any) -> Any:
        if next(made) >= calls:
            raise Killed
        return send(*args)

    monkeypatch.setattr(gcs, "send", until)
    with suppress(Killed):
        objects.made_of(*MANY)
    assert objects.keys() - set(SIZES) <= {"d=1/new"}


@pytest.mark.parametrize("read", [True, False])
def test_a_source_that_is_written_over_is_told(objects, read):
    replace = partial(objects.server.put, objects.name, "large", bytes(SIZES["large"]))
    with pytest.raises(StorageError, match="large was replaced during the run"):
        assemble_of_replaced(objects.store, objects.root, SIZES, replace, read=read)
    assert objects.keys() == set(SIZES)


def test_a_source_that_is_gone_is_named(objects):
    def use() -> None:
        """Use an object that another has removed."""
        with begun(objects.store, f"{objects.root}/new") as assembly:
            assembly.open(f"{objects.root}/large")
            assembly.open(f"{objects.root}/small")
            objects.store.remove([f"{objects.root}/small"])
            assembly.copy(f"{objects.root}/large", 0, SIZES["large"])
            assembly.copy(f"{objects.root}/small", 0, SIZES["small"])

    with pytest.raises(FileNotFoundError, match="/small"):
        use()
    assert objects.keys() == set(SIZES) - {"small"}


def test_an_object_that_is_there_already_is_not_overwritten(objects):
    objects.server.put(objects.name, "d=1/new", b"of another")
    with pytest.raises(StorageError):
        objects.made_of(*SIZES)
    assert objects.stored() == b"of another"


@pytest.mark.parametrize("status", [400, 403, 405, 501])
def test_what_does_not_compose_is_found_out(objects, status):
    objects.server.failures += [("PUT", "?compose", status, "NotImplemented")]
    with pytest.raises(CopyRefused, match="cannot compose files"):
        objects.made_of(*SIZES)
    assert objects.keys() == set(SIZES)


@pytest.mark.parametrize(
    ("start", "end", "before"), [(0, 5, b""), (1, 1000, b""), (0, 1000, b"bytes")]
)
def test_ranges_are_not_copied(objects, start, end, before):
    def use() -> None:
        """Ask for a range, or for a file behind bytes."""
        with begun(objects.store, f"{objects.root}/new") as assembly:
            assembly.open(f"{objects.root}/small")
            assembly.write(before)
            assembly.copy(f"{objects.root}/small", start, end)

    with pytest.raises(CopyRefused, match="copies only whole files"):
        use()
    assert objects.keys() == set(SIZES)


def test_files_of_other_buckets_are_not_composed(objects):
    new = begun(objects.store, f"{objects.root}/new")
    with pytest.raises(CopyRefused, match="another bucket"), new as assembly:
        assembly.open("gs://elsewhere/a")


@pytest.mark.parametrize(
    "told", [{"retentionExpirationTime": "2030-01-01T00:00:00Z"}, {"eventBasedHold": True}]
)
def test_nothing_is_written_where_it_could_not_be_replaced(objects, told, monkeypatch):
    body = json.dumps(told).encode()
    send = gcs.send

    def kept(access: Any, method: str, *rest: Any) -> Any:
        return PlainAnswer(200, {}, body) if method == "GET" else send(access, method, *rest)

    monkeypatch.setattr(gcs, "send", kept)
    with pytest.raises(CopyRefused, match="keeps files from being replaced"):
        objects.made_of(*SIZES)
    assert objects.counts["PUT"] == 0


def test_a_token_goes_to_the_store_alone(objects, monkeypatch):
    send, seen = gcs.send, []

    def noted(access: Any, method: str, url: str, headers: Any, body: bytes) -> Any:
        seen.append((url, headers["Authorization"]))
        return send(access, method, url, headers, body)

    monkeypatch.setattr(gcs, "send", noted)
    given = objects.server.options | {"token": "abc"}
    objects.store = open_store(StorageOptions(given, concurrency=4), objects.env)
    assert objects.made_of("large") == objects.stored()
    assert {token for _, token in seen} == {"Bearer abc"}
    assert all(url.startswith(given["endpoint_url"] + "/") for url, _ in seen)


def in_bucket(objects: Objects, inputs: Inputs, directory: Path) -> str:
    """Put a table of files into the bucket, and return its location."""
    location = f"{objects.root}/wh/t"
    inputs.build(directory, location)
    for path in directory.rglob("*"):
        if path.is_file():
            objects.server.put(
                objects.name, f"wh/t/{path.relative_to(directory)}", path.read_bytes()
            )
    return location


def new_file(objects: Objects, before: set[str]) -> bytes:
    (key,) = (key for key in objects.keys() - before if key.endswith(".parquet"))
    return objects.server.get(objects.name, key)


def test_data_files_are_composed_to_what_readers_take_for_their_rows(
    objects, merge_inputs, tmp_path, capsys
):
    location = in_bucket(objects, merge_inputs, tmp_path / "t")
    before = objects.keys()
    options = [f"--storage-option={key}={value}" for key, value in objects.server.options.items()]
    _, told = merge(location, options, capsys)
    assert "pass through the workers" not in told
    assert objects.counts["compose"] == 1
    made = tmp_path / "new.parquet"
    made.write_bytes(new_file(objects, before))
    whole = b"".join(path.read_bytes() for path in merge_inputs.paths)
    assert made.read_bytes()[: len(whole)] == whole
    expected = pa.concat_tables([pq.read_table(path) for path in merge_inputs.paths])
    assert pq.read_table(made).equals(expected)
    found = duckdb.sql(f"from read_parquet('{made}')").arrow()
    assert pa.table(found).cast(expected.schema).equals(expected)
    assert app.main(["validate", location, "--level", "data", *options], env=FixedEnv(NOW_MS)) == 0


def test_data_files_that_are_not_composed_pass_through_the_worker(
    objects, merge_inputs, tmp_path, capsys
):
    location = in_bucket(objects, merge_inputs, tmp_path / "t")
    before = objects.keys()
    objects.server.failures += [("PUT", "?compose", 501, "NotImplemented")]
    options = [f"--storage-option={key}={value}" for key, value in objects.server.options.items()]
    _, told = merge(location, options, capsys)
    assert "the storage cannot compose files" in told
    assert new_file(objects, before) == merge_inputs.merged
