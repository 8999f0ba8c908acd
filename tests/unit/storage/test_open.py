"""One store for all schemes and what is logged; moved tables, and which FROM wins."""

import logging
from dataclasses import replace

import fsspec
import pyarrow as pa
import pytest

from icectl.errors import Refused
from icectl.storage.kept import KeepingStore
from icectl.storage.local.store import LocalStore
from icectl.storage.open import PathMapStore, StorageOptions, link_finder, open_store


def test_each_location_goes_to_the_store_of_its_scheme(tmp_path, fixed_env):
    store = open_store(StorageOptions(), fixed_env)
    in_memory = open_store(StorageOptions(home="memory://schemes"), fixed_env)
    store.create(f"{tmp_path}/a", b"local")
    in_memory.create("memory://schemes/a", b"memory")
    assert store.read(f"file:{tmp_path}/a") == b"local"
    assert in_memory.read("memory://schemes/a") == b"memory"
    assert fsspec.filesystem("memory").cat_file("/schemes/a") == b"memory"
    assert list(store.remove([f"{tmp_path}/a"])) == []
    assert list(in_memory.remove(["memory://schemes/a"])) == []
    assert store.stat(f"{tmp_path}/a") is None
    assert in_memory.stat("memory://schemes/a") is None


@pytest.mark.parametrize("wrapped", [False, True])
def test_files_behind_links_are_found_in_a_store_that_keeps_manifests_too(
    tmp_path, fixed_env, wrapped
):
    (tmp_path / "t/data").mkdir(parents=True)
    (tmp_path / "t/link").symlink_to(tmp_path / "t/data")
    store = open_store(StorageOptions(home=f"{tmp_path}/t"), fixed_env)
    files = [f"{tmp_path}/t/{folder}/a" for folder in ("data", "link")]
    kept = KeepingStore(store) if wrapped else store
    assert link_finder(kept)(pa.chunked_array([files])) == files[1:]


def test_a_path_map_makes_the_store_read_only(tmp_path, fixed_env):
    (tmp_path / "a").write_bytes(b"1")
    store = open_store(StorageOptions(path_map=(("memory://moved/", str(tmp_path)),)), fixed_env)
    assert isinstance(store, PathMapStore)
    assert store.read("memory://moved/a") == b"1"
    with pytest.raises(Refused):
        store.create(f"{tmp_path}/b", b"")


def test_each_call_is_logged_and_no_secret_is(tmp_path, fixed_env, caplog):
    caplog.set_level(logging.DEBUG, logger="icectl")
    (tmp_path / "a").write_bytes(b"1")
    options = StorageOptions({"secret": "sEcReT-value", "key": "k"})
    store = open_store(options, fixed_env)
    store.read(f"{tmp_path}/a")
    store = open_store(replace(options, home="memory://schemes"), fixed_env)
    store.stat("memory://u:pAsSwOrD@schemes/a")
    assert [record.message for record in caplog.records if record.name.startswith("icectl")] == [
        f"read {tmp_path}/a",
        "stat memory://u:***@schemes/a",
    ]
    assert "sEcReT" not in caplog.text + repr(store) + repr(options)
    assert "pAsSwOrD" not in caplog.text


@pytest.mark.parametrize(
    ("start", "location", "read_at"),
    [
        ("s3://b/t/", "s3://b/t/data/x", "/here/data/x"),
        ("s3://b/t", "s3://b/t/data/x", "/here/data/x"),
        ("s3://b/t", "s3://b/t", "/here"),
        ("s3://b/t", "s3://b/t2/data/x", "s3://b/t2/data/x"),
        ("s3://b", "s3://b/t/data/x", "/here/t/data/x"),
        ("/wh/t/", "file:///wh/t/data/x", "/here/data/x"),
        ("file:/wh/t/", "/wh/t/data/x", "/here/data/x"),
        ("/wh/t/", "hdfs:/wh/t/data/x", "/here/data/x"),
        ("/wh/t/", "hdfs://nn:8020/wh/t/data/x", "hdfs://nn:8020/wh/t/data/x"),
        ("data/t/", "data/t/x", "/here/x"),
        ("data/t/", "file:data/t/x", "/here/x"),
        ("./data/t", "data/t/metadata/x", "/here/metadata/x"),
        ("data/t", "./data/t/metadata/x", "/here/metadata/x"),
        ("s3://b/t/", "s3a://b/t/x", "s3a://b/t/x"),
    ],
)
def test_a_location_that_begins_with_from_is_read_at_to(start, location, read_at):
    for to in ("/here", "/here/"):
        assert PathMapStore(LocalStore(), ((start, to),)).mapped(location).rstrip("/") == read_at


@pytest.mark.parametrize("turn", [1, -1])
def test_the_longest_from_wins(turn):
    pairs = (("/wh/", "/a"), ("/wh/t/", "/b"), ("/wh/t/data/", "/c"))[::turn]
    store = PathMapStore(LocalStore(), pairs)
    assert store.mapped("/wh/t/data/x") == "/c/x"
    assert store.mapped("/wh/t/metadata/x") == "/b/metadata/x"
    assert store.mapped("/wh/u/x") == "/a/u/x"


@pytest.fixture
def moved(tmp_path):
    (tmp_path / "t/data").mkdir(parents=True)
    (tmp_path / "t/data/x").write_bytes(b"0123")
    return PathMapStore(LocalStore(), (("s3://b/t/", f"{tmp_path}/t"),))


def test_reading_goes_to_the_new_place_and_keeps_the_old_names(moved):
    assert moved.read("s3://b/t/data/x") == b"0123"
    assert moved.read_range("s3://b/t/data/x", -2, 1) == b"2"
    with moved.open("s3://b/t/data/x") as file:
        assert file.read() == b"0123"
    assert moved.stat("s3://b/t/data/x").location == "s3://b/t/data/x"
    assert moved.stat("s3://b/t/data/y") is None
    assert [file.location for file in moved.list_directory("s3://b/t/data")] == ["s3://b/t/data/x"]
    begun = moved.split("s3://b/t", 2)
    for batches in (
        moved.list("s3://b/t"),
        begun.batches,
        moved.list_parts(moved.split("s3://b/t", 1).parts),
    ):
        (batch,) = batches
        assert batch["location"].to_pylist() == ["s3://b/t/data/x"]


def test_to_may_be_a_relative_directory(tmp_path, monkeypatch):
    (tmp_path / "x").write_bytes(b"1")
    monkeypatch.chdir(tmp_path)
    assert PathMapStore(LocalStore(), (("s3://b/t/", "./"),)).read("s3://b/t/x") == b"1"
    assert PathMapStore(LocalStore(), (("s3://b/t/", "."),)).read("s3://b/t/x") == b"1"


def test_nothing_is_written_or_removed(moved, tmp_path):
    for write in (
        lambda: moved.create("s3://b/t/data/y", b""),
        lambda: moved.replace("s3://b/t/data/x", b""),
        lambda: moved.remove(["s3://b/t/data/x"]),
        lambda: moved.remove([f"{tmp_path}/t/data/x"]),
    ):
        with pytest.raises(Refused, match="`--path-map` is only for reading"):
            write()
    assert list(moved.remove([])) == []
    assert [path.name for path in (tmp_path / "t/data").iterdir()] == ["x"]
