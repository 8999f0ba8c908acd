"""Which schemes metadata may name: no request is made, and no driver started, for any other."""

import json
import socket

import fsspec
import pytest

from icectl.errors import Unsupported
from icectl.storage.buckets import store as bucket
from icectl.storage.open import StorageOptions, home_of, open_store, set_home
from tests.builders.orphans import edit_metadata
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import filled_table
from tests.fault.changing import run

WRAPPING = (
    "simplecache::http://h/x", "filecache::s3://b/x", "blockcache::s3://b/x", "cached://x/y",
    "reference://x", "dir://x", "jupyter://h/x", "jlab://h/x", "generic://x", "asyncwrapper://x",
)  # fmt: skip
OTHERS = (
    "http://127.0.0.1/x", "https://127.0.0.1/x", "ftp://h/x", "sftp://h/x", "ssh://h/x",
    "github://o:r@main/x", "git://x", "smb://h/x", "webhdfs://h/x", "memory://x", "zip://x",
    "data:,x", "oss://b/x", "nosuch://x", "HTTP://127.0.0.1/x",
)  # fmt: skip


@pytest.mark.parametrize("location", WRAPPING + OTHERS)
@pytest.mark.parametrize("home", [None, "/wh/t", "s3://b/t"])
def test_metadata_name_no_other_scheme(fixed_env, monkeypatch, location, home):
    def fail(driver: bucket.Driver) -> None:
        raise AssertionError(f"a driver is started for {driver.location}")

    monkeypatch.setattr(bucket, "bucket_store", fail)
    store = open_store(StorageOptions(home=home), fixed_env)
    set_home(store, location)  # the word of a catalog's server
    assert home_of(store) == home
    for ask in (store.read, store.stat, store.list_directory, lambda place: store.remove([place])):
        with pytest.raises(Unsupported, match="may not name the scheme"):
            ask(location)


@pytest.mark.parametrize("location", WRAPPING)
@pytest.mark.parametrize("command", ["inspect", "validate", "expire-snapshots"])
def test_a_scheme_that_wraps_others_is_no_place_of_a_table(command, location):
    code, document = run([command, location, "--json"])
    assert (code, document["error"]["id"]) == (14, "unsupported")


def test_a_table_may_name_files_of_its_own_scheme(fixed_env):
    store = open_store(StorageOptions(home="memory://own/t"), fixed_env)
    store.create("memory://own/t/a", b"1")
    assert store.read("memory://own/t/a") == b"1"


@pytest.mark.parametrize(
    "command",
    [("validate",), ("inspect", "manifests"), ("expire-snapshots", "--older-than", "0s", "--yes")],
    ids=lambda words: words[0],
)
def test_nothing_is_asked_of_a_server_that_metadata_name(tmp_path, command):
    table = filled_table(tmp_path / "t", range(6), range(6, 12))
    before = sorted((table.directory / "data").iterdir())
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        snapshots = read_metadata(current_metadata(table.directory))["snapshots"]
        for snapshot in snapshots:
            snapshot["manifest-list"] = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        edit_metadata(table.directory, snapshots=snapshots)
        code, _ = run([command[0], str(table.directory), *command[1:], "--json"])
        with pytest.raises(TimeoutError):
            server.accept()
    assert code == 14
    assert sorted((table.directory / "data").iterdir()) == before


@pytest.mark.parametrize(
    "words", [("inspect", "files"), ("validate",), ("compact",), ("rewrite-manifests",)]
)
def test_a_table_in_a_store_reads_no_files_of_this_machine(tmp_path, words):
    """Its metadata names manifests that lie here, and could be read."""
    filled_table(tmp_path / "t", range(3))
    files = fsspec.filesystem("memory")
    metadata = current_metadata(tmp_path / "t")
    moved = json.dumps(read_metadata(metadata) | {"location": "memory://elsewhere"})
    files.pipe_file(f"/elsewhere/metadata/{metadata.name}", moved.encode())
    try:
        command, *view = words
        code, document = run([command, "memory://elsewhere", *view, "--json"])
    finally:
        files.rm("/elsewhere", recursive=True)
    told = json.dumps(document)
    assert code in (5, 15), document
    assert "is on this machine" in told
