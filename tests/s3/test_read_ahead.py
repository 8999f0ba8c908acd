"""Data files of a store are read ahead: each by one request, whoever reads it."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from icectl.cli import app
from icectl.storage import native
from tests.builders.expiry import NOW_MS
from tests.s3.conftest import Bucket
from tests.s3.test_commits import build
from tests.s3.test_native_faults import Place, told
from tests.stores.fixed_env import FixedEnv
from tests.stores.s3_servers import S3Server

pytestmark = pytest.mark.s3

COMPACT = ("compact", "--engine", "local", "--min-input-files", "2", "--yes")


@pytest.fixture
def place(moto_server: S3Server, fixed_env: FixedEnv) -> Iterator[Place]:
    made = Place(moto_server, fixed_env)
    yield made
    made.front.shutdown()
    made.front.server_close()


@pytest.fixture
def bucket(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A table behind the proxy."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")
    server = S3Server(place.options["endpoint_url"], place.options, place.client)
    made = Bucket(server, place.bucket, tmp_path)
    build(made, "t", 1)
    return made


def read(place: Place, before: set[str]) -> Counter[str]:
    """How often each data file that was there before was asked for."""
    asked = (path for method, path in place.proxy.requests if method == "GET")
    paths = (unquote(path.partition("?")[0]) for path in asked)
    return Counter(path for path in paths if path.rpartition("/wh/t/")[2] in before)


@pytest.mark.parametrize("words", [("validate", "--level", "data"), COMPACT])
def test_each_data_file_is_asked_for_once(
    place: Place,
    bucket: Bucket,
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native, "_TAIL_BYTES", 64)  # the files are small
    files = {key for key in bucket.keys("t") if key.endswith(".parquet")}
    place.proxy.requests.clear()
    command = [words[0], bucket.location("t"), *words[1:], *bucket.arguments]
    assert app.main(command, env=FixedEnv(NOW_MS)) == 0, capsys.readouterr()
    found = read(place, files)
    assert len(found) >= 3
    assert set(found.values()) == {1}


@pytest.mark.parametrize("answer", [told(503, "SlowDown"), "cut"])
def test_a_file_that_fails_while_it_is_read_ahead_is_asked_for_again(
    place: Place, bucket: Bucket, answer: object, capsys: pytest.CaptureFixture[str]
) -> None:
    place.proxy.failures = [("GET", ".parquet", answer)] * 3
    words = ["validate", bucket.location("t"), "--level", "data", "--json", *bucket.arguments]
    assert app.main(words, env=FixedEnv(NOW_MS)) == 0
    assert json.loads(capsys.readouterr().out)["result"]["findings"] == []
    assert place.proxy.failures == []


def test_a_store_that_fails_for_good_ends_the_compaction_with_nothing_changed(
    place: Place, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    before = bucket.keys("t")
    place.proxy.failures = [("GET", ".parquet", told(503, "SlowDown"))] * 999
    words = [COMPACT[0], bucket.location("t"), *COMPACT[1:], "--json", *bucket.arguments]
    assert app.main(words, env=FixedEnv(NOW_MS)) == 13
    assert "SlowDown" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert bucket.keys("t") == before
