"""Directories read by Python and by the compiled loop: the same files, against os.walk."""

import os
import socket
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from icectl.errors import StorageError
from icectl.storage.listing import LISTING_SCHEMA
from icectl.storage.local import scan as local_scan
from icectl.storage.local.scan import LocalScan
from icectl.storage.local.store import LocalStore

PYTHON, LOOP = 1 << 30, 0


@pytest.fixture(params=[PYTHON, LOOP], ids=["python", "loop"])
def reader(request, monkeypatch):
    if request.param == LOOP and sys.platform != "linux":
        pytest.skip("the loop is for Linux")
    monkeypatch.setattr(local_scan, "_MANY", request.param)


def listed(location: str) -> list[tuple[str, int, int]]:
    batches = LocalStore(concurrency=3).list(location)
    found = pa.Table.from_batches(batches, LISTING_SCHEMA)
    return sorted(tuple(row.values()) for row in found.to_pylist())


def walked(location: Path) -> list[tuple[str, int, int]]:
    """Size and time of all files below, links to directories not followed."""
    paths = [Path(place) / name for place, _, names in os.walk(location) for name in names]
    looks = [(str(path), path.stat()) for path in paths]
    return sorted((path, look.st_size, look.st_mtime_ns // 10**6) for path, look in looks)


@pytest.mark.usefixtures("reader")
def test_files_are_listed_with_their_sizes_and_times(tmp_path):
    for number, name in enumerate(["a", ".h", "..x", "...", "é\U0001f9ca", "x" * 255, "a\nb", " "]):
        for folder in ("", "d", "d/e", ".hidden", "d/..y"):
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * number)
            os.utime(path, ns=(0, (number - 1) * 10**18 + 123_999_999))
    (tmp_path / "empty").mkdir()
    assert listed(str(tmp_path)) == walked(tmp_path)
    assert len(listed(f"file://{tmp_path}/d")) == 24
    assert listed(str(tmp_path / "empty")) == []


@pytest.mark.usefixtures("reader")
def test_links_pipes_and_sockets_are_what_they_are(tmp_path, monkeypatch):
    (tmp_path / "t/d").mkdir(parents=True)
    (tmp_path / "t/d/x").write_bytes(b"12")
    (tmp_path / "t/to-file").symlink_to("d/x")
    (tmp_path / "t/to-directory").symlink_to("d")
    (tmp_path / "t/nowhere").symlink_to("gone")
    os.mkfifo(tmp_path / "t/pipe")
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind("t/socket")
    found = listed(str(tmp_path / "t"))
    sizes = [(Path(path).relative_to(tmp_path / "t").as_posix(), size) for path, size, _ in found]
    assert sizes == [("d/x", 2), ("pipe", 0), ("socket", 0), ("to-file", 2)]


@pytest.mark.usefixtures("reader")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_names_that_are_no_text_are_left_out(tmp_path):
    for name in (b"/\xff", b"/a", b"/\xc3(", b"/b"):
        Path(os.fsdecode(os.fsencode(tmp_path) + name)).write_bytes(b"1")
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/d\xff"))
    folder.mkdir()
    (folder / "x").write_bytes(b"1")
    assert [path for path, _, _ in listed(str(tmp_path))] == [f"{tmp_path}/a", f"{tmp_path}/b"]


@pytest.mark.usefixtures("reader")
def test_a_link_to_itself_is_one_error(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(StorageError) as raised:
        listed(str(tmp_path))
    assert raised.value.message == f"cannot list {tmp_path}: too many levels of symbolic links"


def many_files(folder: Path, count: int) -> list[str]:
    folder.mkdir()
    paths = [f"{folder}/{number:04d}{'-' * 200}" for number in range(count)]
    for path in paths:
        os.close(os.open(path, os.O_CREAT))
    return paths


@pytest.fixture
def small_steps(monkeypatch):
    if not local_scan.has_loop():
        pytest.skip("the loop is for Linux")
    monkeypatch.setattr(local_scan, "_MANY", LOOP)
    monkeypatch.setattr(local_scan, "_ENTRIES", 1500)


@pytest.mark.usefixtures("small_steps")
def test_a_large_directory_is_read_in_pieces(tmp_path):
    paths = many_files(tmp_path / "d", 4000)
    assert [path for path, _, _ in listed(str(tmp_path))] == paths
    steps = LocalScan()
    first = steps.step(f"{tmp_path}/d")
    assert first.rows.waiting < 1500
    assert [rest.location for rest in first.next] == [f"{tmp_path}/d"]
    steps.close()


@pytest.mark.usefixtures("small_steps")
def test_a_split_reads_a_large_directory_to_its_end(tmp_path):
    before = open_directories()
    paths = many_files(tmp_path / "d", 4000)
    for name in ("x", "y"):
        (tmp_path / "d" / name).mkdir()
    begun = LocalStore().split(f"{tmp_path}/d", 2)
    found = [path for batch in begun.batches for path in batch["location"].to_pylist()]
    assert sorted(found) == paths
    assert sorted(part.location for part in begun.parts) == [f"{tmp_path}/d/x", f"{tmp_path}/d/y"]
    assert open_directories() == before


@pytest.mark.usefixtures("small_steps")
def test_a_listing_that_is_given_up_leaves_no_directory_open(tmp_path):
    before = open_directories()
    many_files(tmp_path / "d", 4000)
    steps = LocalScan()
    steps.step(f"{tmp_path}/d")
    assert open_directories() == {*before, tmp_path / "d"}
    steps.close()
    assert open_directories() == before


def open_directories() -> set[Path]:
    links = (Path(f"/proc/self/fd/{number}") for number in range(100))
    return {link.readlink() for link in links if link.is_dir()}


@pytest.mark.usefixtures("small_steps")
def test_a_directory_that_goes_while_it_is_read_has_no_more_files(tmp_path):
    paths = many_files(tmp_path / "d", 4000)
    steps = LocalScan()
    (rest,) = steps.step(f"{tmp_path}/d").next
    for path in paths:
        Path(path).unlink()
    (tmp_path / "d").rmdir()
    last = steps.step(rest)
    assert (last.next, last.rows.waiting) == ((), 0)
    steps.close()


def test_many_files_change_to_the_loop(tmp_path, monkeypatch):
    monkeypatch.setattr(local_scan, "_MANY", 30)
    paths = [path for n in range(9) for path in many_files(tmp_path / f"{n}", 20)]
    paths += many_files(tmp_path / "large", 40)
    assert [path for path, _, _ in listed(str(tmp_path))] == sorted(paths)


def test_systems_without_the_calls_are_read_by_python(tmp_path, monkeypatch):
    monkeypatch.setattr(local_scan, "_MANY", 0)
    monkeypatch.setattr(local_scan, "has_loop", lambda: False)
    paths = many_files(tmp_path / "d", 20)
    assert [path for path, _, _ in listed(str(tmp_path))] == paths
