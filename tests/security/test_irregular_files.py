"""Pipes, devices and sockets where a table's files should be: nobody waits for them."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from icectl.errors import Refused, StorageError
from icectl.storage.local.store import LocalStore
from icectl.storage.open import StorageOptions, home_of, open_store, set_home, store_of_table
from tests.builders.orphans import edit_metadata
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import filled_table
from tests.fault.changing import run
from tests.security.deadline import at_most

STORE = LocalStore()
READS: tuple[Callable[[str], object], ...] = (
    STORE.read,
    STORE.open,
    lambda path: STORE.read_range(path, 0, 10),
    lambda path: STORE.read_range(path, -10, 10),
)


def irregular(kind: str, folder: Path) -> str:
    """A file of some kind, or a link to one."""
    path = folder / "it"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    elif kind == "device":
        return "/dev/zero"
    else:
        path.symlink_to("/dev/zero")
    return str(path)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "link"])
def test_what_is_no_file_is_not_opened(tmp_path, kind, read):
    path = irregular(kind, tmp_path)
    with at_most(10), pytest.raises(StorageError, match="it is a pipe, a socket or a device") as e:
        read(path)
    assert e.value.error_id == "not-a-file"


def test_no_more_is_read_than_a_file_says_that_it_has():
    """Files of the kernel say that they are empty, and some of them never end."""
    with at_most(10):
        assert STORE.read("/proc/self/maps") == b""
        assert STORE.read_range("/proc/self/maps", 0, 10) == b""


COMMANDS = (
    ("validate",), ("inspect", "manifests"), ("expire-snapshots", "--older-than", "0s", "--yes"),
    ("remove-orphans", "--max-fraction", "1", "--yes"), ("compact", "--rewrite-all", "--yes"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_manifest_list_that_never_ends(tmp_path, kind, command):
    table = filled_table(tmp_path / "t", range(6), range(6, 12))
    path = irregular(kind, tmp_path)
    snapshots = read_metadata(current_metadata(table.directory))["snapshots"]
    snapshots[-1]["manifest-list"] = path
    edit_metadata(table.directory, snapshots=snapshots)
    before = sorted((table.directory / "data").iterdir())
    with at_most(120):
        code, _ = run([command[0], str(table.directory), *command[1:], "--json"])
    assert code in (4, 5, 13, 15)
    assert sorted((table.directory / "data").iterdir()) == before


@pytest.mark.parametrize("command", ["expire-snapshots", "compact", "repair"])
def test_a_pipe_among_the_metadata_is_refused(tmp_path, command):
    table = filled_table(tmp_path / "t", range(6))
    os.mkfifo(table.directory / "metadata/v99.metadata.json")
    with at_most(60):
        code, document = run([command, str(table.directory), "--yes", "--json"])
    assert (code, document["error"]["id"]) == (5, "metadata-link")


@pytest.mark.parametrize("place", ["s3://b/t", "gs://b/t", "hdfs://h/t"])
def test_a_table_elsewhere_names_no_file_of_this_machine(tmp_path, fixed_env, place):
    (tmp_path / "a").write_bytes(b"1")
    store = open_store(StorageOptions(home=place), fixed_env)
    for location in (f"{tmp_path}/a", f"file://{tmp_path}/a"):
        with pytest.raises(Refused, match="is on this machine"):
            store.read(location)
        with pytest.raises(Refused, match="is on this machine"):
            store.remove([location])
    assert (tmp_path / "a").exists()


def test_a_path_map_may_lead_to_this_machine(tmp_path, fixed_env):
    (tmp_path / "a").write_bytes(b"1")
    options = StorageOptions(home="s3://b/t", path_map=(("s3://b/t", str(tmp_path)),))
    assert open_store(options, fixed_env).read("s3://b/t/a") == b"1"


def test_tables_of_one_catalog_lie_where_it_says_of_each(tmp_path, fixed_env):
    (tmp_path / "a").write_bytes(b"1")
    of_all = open_store(StorageOptions(), fixed_env)
    here, there = store_of_table(of_all), store_of_table(of_all)
    set_home(here, f"{tmp_path}/metadata/v1.metadata.json")
    set_home(there, "s3://b/t/metadata/v1.metadata.json")
    assert here.read(f"{tmp_path}/a") == b"1"
    with pytest.raises(Refused):
        there.read(f"{tmp_path}/a")
    assert home_of(of_all) is None
