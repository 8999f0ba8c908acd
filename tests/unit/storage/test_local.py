"""Local files: atomic creation, permissions, spellings and failures."""

import os
import stat
import sys
from pathlib import Path

import pytest

from icectl.errors import Refused, StorageError
from icectl.storage.local import store
from icectl.storage.local.store import LocalStore

STORE = LocalStore(concurrency=2)


@pytest.fixture
def umask_027():
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.parametrize("prefix", ["", "file:", "file://", "file://localhost"])
def test_every_spelling_of_a_local_path_is_read(tmp_path, prefix):
    (tmp_path / "a").write_bytes(b"content")
    assert STORE.read(f"{prefix}{tmp_path}/a") == b"content"


def test_the_disk_is_told_of_every_byte_while_a_large_file_is_written(tmp_path, monkeypatch):
    told, begin = [], store.begin_to_write_out
    monkeypatch.setattr(store, "_WRITE_OUT_BYTES", 1 << 20)
    monkeypatch.setattr(
        store, "begin_to_write_out", lambda _, start, end: told.append((start, end))
    )
    with STORE.open_new(str(tmp_path / "a")) as file:
        for _ in range(5):
            file.write(bytes(700_000))
    assert told[0][0] == 0
    assert [end for _, end in told[:-1]] == [start for start, _ in told[1:]]
    assert 2_000_000 < told[-1][1] <= 3_500_000
    begin(-1, 0, 1)  # of no file: nothing relies on it
    assert (tmp_path / "a").read_bytes() == bytes(3_500_000)


def test_relative_paths_are_read_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a").write_bytes(b"content")
    assert STORE.read("d/a") == STORE.read("file:d/a") == b"content"
    assert [file.location for file in STORE.list_directory("d")] == ["d/a"]


def test_a_percent_sign_in_a_name_is_only_that(tmp_path):
    (tmp_path / "a%20b").write_bytes(b"1")
    assert STORE.read(f"file://{tmp_path}/a%20b") == b"1"


def test_r162_create_leaves_nothing_but_the_file(tmp_path):
    STORE.create(f"{tmp_path}/d/a", b"content")
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["a"]
    with pytest.raises(FileExistsError):
        STORE.create(f"{tmp_path}/d/a", b"other")
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["a"]
    assert (tmp_path / "d/a").read_bytes() == b"content"


def test_a_new_file_takes_the_mode_of_the_umask(tmp_path, umask_027):
    STORE.create(f"{tmp_path}/a", b"")
    STORE.replace(f"{tmp_path}/b", b"")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o640


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to give a directory another group")
def test_a_new_file_takes_the_group_of_its_directory(tmp_path):
    os.chown(tmp_path, -1, 4242)
    STORE.create(f"{tmp_path}/a", b"")
    assert (tmp_path / "a").stat().st_gid == 4242


def test_create_skips_temporary_files_that_others_left(tmp_path, monkeypatch):
    for number in range(3):
        (tmp_path / f".icectl-{os.getpid()}-{number}-a").write_bytes(b"left")
    monkeypatch.setattr("icectl.storage.local.store._COUNTER", iter(range(10)))
    STORE.create(f"{tmp_path}/a", b"content")
    assert (tmp_path / "a").read_bytes() == b"content"
    assert (tmp_path / f".icectl-{os.getpid()}-0-a").read_bytes() == b"left"


def test_a_file_system_without_hard_links_is_refused(tmp_path, monkeypatch):
    def link(source, target, **folders):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(Refused, match="has no hard links"):
        STORE.create(f"{tmp_path}/a", b"content")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_storage_error_that_leaves_nothing(tmp_path, monkeypatch):
    def fsync(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StorageError) as caught:
        STORE.create(f"{tmp_path}/a", b"content")
    assert caught.value.message == f"cannot write {tmp_path}/a: no space left on device"
    assert caught.value.hint == "free some space there, then run the command again"
    assert list(tmp_path.iterdir()) == []


def test_replace_keeps_the_old_file_when_it_fails(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"old")

    def replace(source, target, **folders):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(StorageError, match="input/output error"):
        STORE.replace(f"{tmp_path}/a", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_a_storage_error(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "a").chmod(0)
    with pytest.raises(StorageError, match="permission denied"):
        STORE.read(f"{tmp_path}/a")


def test_a_directory_is_no_file(tmp_path):
    assert STORE.stat(str(tmp_path)) is None
    with pytest.raises(StorageError, match="is a directory"):
        STORE.read(str(tmp_path))


def test_what_lies_below_a_file_is_missing(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    with pytest.raises(FileNotFoundError):
        STORE.read(f"{tmp_path}/a/b")
    assert STORE.stat(f"{tmp_path}/a/b") is None
    assert list(STORE.list_directory(f"{tmp_path}/a")) == []


def test_what_would_be_written_below_a_file_is_no_missing_file(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    with pytest.raises(StorageError, match="not a directory"):
        STORE.create(f"{tmp_path}/a/b/c", b"content")
    with pytest.raises(StorageError, match="not a directory"), STORE.open_new(f"{tmp_path}/a/b"):
        pass


def test_a_name_with_a_nul_is_missing(tmp_path):
    assert STORE.stat(f"{tmp_path}/a\0b") is None


def test_another_host_is_a_storage_error():
    with pytest.raises(StorageError, match="is not on this machine"):
        STORE.read("file://elsewhere/a")


def test_removal_reports_what_stays(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "a").write_bytes(b"1")
    failed = STORE.remove([f"{tmp_path}/d", f"{tmp_path}/a", f"{tmp_path}/gone"])
    assert [failure.location for failure in failed] == [f"{tmp_path}/d"]
    assert failed[0].error in ("is a directory", "operation not permitted")
    assert not (tmp_path / "a").exists()


def test_links_to_directories_are_not_followed(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x").write_bytes(b"1")
    (tmp_path / "t/link").symlink_to(tmp_path / "other")
    (tmp_path / "t/file").symlink_to(tmp_path / "other/x")
    (tmp_path / "t/nowhere").symlink_to(tmp_path / "missing")
    found = [
        path for batch in STORE.list(f"{tmp_path}/t") for path in batch["location"].to_pylist()
    ]
    assert found == [f"{tmp_path}/t/file"]
    assert [file.location for file in STORE.list_directory(f"{tmp_path}/t")] == [
        f"{tmp_path}/t/file"
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_names_that_are_no_text_are_left_out(tmp_path):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).write_bytes(b"1")
    (tmp_path / "a").write_bytes(b"1")
    assert [file.location for file in STORE.list_directory(str(tmp_path))] == [f"{tmp_path}/a"]
    found = [path for batch in STORE.list(str(tmp_path)) for path in batch["location"].to_pylist()]
    assert found == [f"{tmp_path}/a"]


def test_many_files_are_removed_in_parallel(tmp_path):
    paths = [f"{tmp_path}/{number}" for number in range(600)]
    for path in paths:
        Path(path).write_bytes(b"")
    (tmp_path / "d").mkdir()
    failed = STORE.remove([*paths, f"{tmp_path}/d"])
    assert [failure.location for failure in failed] == [f"{tmp_path}/d"]
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


@pytest.mark.parametrize(("name", "end"), [("a.parquet", "-a.parquet"), ("ä" * 120, "-.tmp")])
def test_what_is_being_written_is_found_by_the_end_of_its_name(tmp_path, name, end):
    with STORE.open_new(f"{tmp_path}/{name}"):
        (begun,) = tmp_path.iterdir()
        assert begun.name.startswith(f".icectl-{os.getpid()}-")
        assert begun.name.endswith(end)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_name_that_is_too_long_is_abbreviated_and_removing_it_removes_nothing(tmp_path):
    location = f"{tmp_path}/{'n' * 5000}/a.parquet"
    with pytest.raises(StorageError) as raised:
        STORE.create(location, b"content")
    shown = f"{tmp_path}/{'n' * 57}.../a.parquet"
    assert raised.value.message == f"cannot write {shown}: file name too long"
    assert "write.object-storage.enabled" in raised.value.hint
    assert STORE.remove([location]) == []
