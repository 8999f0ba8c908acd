"""One store for all schemes: who gets which location, and what is logged."""

import logging
from dataclasses import replace

import fsspec
import pytest

from icectl.errors import Refused
from icectl.storage.open import PathMapStore, StorageOptions, open_store


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


def test_a_path_map_makes_the_store_read_only(tmp_path, fixed_env):
    (tmp_path / "a").write_bytes(b"1")
    options = StorageOptions(path_map=(("memory://moved/", str(tmp_path)),))
    store = open_store(options, fixed_env)
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
