"""Data files of a store are read ahead: each by one request, whoever reads it."""

import json
from collections import Counter
from urllib.parse import unquote

import pytest

from icectl.cli import app
from icectl.storage.buckets import store as native
from tests.builders.expiry import NOW_MS
from tests.stores.failing_proxy import Place, told
from tests.stores.fixed_env import FixedEnv

pytestmark = pytest.mark.s3

COMPACT = ("compact", "--engine", "local", "--min-input-files", "2", "--yes")


def read(place: Place, before: set[str]) -> Counter[str]:
    """How often each data file that was there before was asked for."""
    asked = (path for method, path in place.proxy.requests if method == "GET")
    paths = (unquote(path.partition("?")[0]) for path in asked)
    return Counter(path for path in paths if path.rpartition("/wh/t/")[2] in before)


@pytest.mark.parametrize("words", [("validate", "--level", "data"), COMPACT])
def test_each_data_file_is_asked_for_once(place, proxied, words, capsys, monkeypatch):
    monkeypatch.setattr(native, "_TAIL_BYTES", 64)  # the files are small
    files = {key for key in proxied.keys("t") if key.endswith(".parquet")}
    place.proxy.requests.clear()
    command = [words[0], proxied.location("t"), *words[1:], *proxied.arguments]
    assert app.main(command, env=FixedEnv(NOW_MS)) == 0, capsys.readouterr()
    found = read(place, files)
    assert len(found) >= 3
    assert set(found.values()) == {1}


@pytest.mark.parametrize("answer", [told(503, "SlowDown"), "cut"])
def test_a_file_that_fails_while_it_is_read_ahead_is_asked_for_again(
    place, proxied, answer, capsys
):
    place.proxy.failures = [("GET", ".parquet", answer)] * 3
    words = ["validate", proxied.location("t"), "--level", "data", "--json", *proxied.arguments]
    assert app.main(words, env=FixedEnv(NOW_MS)) == 0
    assert json.loads(capsys.readouterr().out)["result"]["findings"] == []
    assert place.proxy.failures == []


def test_a_store_that_fails_for_good_ends_the_compaction_with_nothing_changed(
    place, proxied, capsys
):
    before = proxied.keys("t")
    place.proxy.failures = [("GET", ".parquet", told(503, "SlowDown"))] * 999
    words = [COMPACT[0], proxied.location("t"), *COMPACT[1:], "--json", *proxied.arguments]
    assert app.main(words, env=FixedEnv(NOW_MS)) == 13
    assert "SlowDown" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert proxied.keys("t") == before
