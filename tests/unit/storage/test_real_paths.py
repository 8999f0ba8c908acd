"""Folders under their several names, and where links lead."""

from pathlib import Path

import pyarrow as pa
import pytest

from icectl.storage.identity import FolderNames, linked_files, real_location


def names(*added: object) -> FolderNames:
    found = FolderNames()
    found.add(strings(*added))
    return found


def strings(*files: object) -> pa.Array:
    return pa.array([str(file) for file in files], pa.string())


def others(found: FolderNames, *files: object) -> list[tuple[int, str]]:
    """Each other name with the place of its file."""
    return [
        (int(place), name)
        for places, named in found.other_names(strings(*files))
        for place, name in zip(places, named.to_pylist(), strict=True)
    ]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table whose folder `data` is a link to its folder `real`; another leads to all of it."""
    (tmp_path / "t" / "real").mkdir(parents=True)
    (tmp_path / "t" / "data").symlink_to(tmp_path / "t" / "real")
    (tmp_path / "link").symlink_to(tmp_path / "t")
    return tmp_path / "t"


def test_a_folder_that_is_spelled_as_it_was_added_has_no_other_name(table: Path):
    found = names(table / "real/a", table / "gone/b", "/elsewhere/c", "s3://b/t/real/a")
    assert others(found, table / "real/a", table / "real/b", table / "x", "s3://b/t/real/a") == []


def test_files_of_one_folder_have_all_of_its_names(table: Path, tmp_path: Path):
    found = names(table / "data/a", table / "data/b", f"file://{tmp_path}/link/real/c")
    assert others(found, table / "x", table / "real/é.1", table / "gone/a", table / "real/b") == [
        (1, f"{table}/data/é.1"),
        (3, f"{table}/data/b"),
        (1, f"file://{tmp_path}/link/real/é.1"),
        (3, f"file://{tmp_path}/link/real/b"),
    ]


def test_names_are_told_whichever_of_them_was_added(table: Path, tmp_path: Path):
    link = tmp_path / "link"
    assert others(names(link / "real/a"), table / "real/b") == [(0, f"{link}/real/b")]
    assert others(names(table / "real/a"), link / "data/b") == [(0, f"{table}/real/b")]
    assert others(names(link / "a"), f"file:{table}/b") == [(0, f"{link}/b")]
    assert others(names("file:/a"), "/b") == [(0, "file:/b")]


def test_where_a_location_really_is(table: Path, tmp_path: Path):
    assert real_location(str(tmp_path / "link/data/x")) == f"{table}/real/x"
    assert real_location("s3://b/x") == "s3://b/x"
    assert real_location("file://host/x") == "file://host/x"


def test_links_are_followed_to_their_files(table: Path, tmp_path: Path):
    (table / "real/x").touch()
    (tmp_path / "y").symlink_to(table / "data/x")
    files = strings(tmp_path / "y", table / "real/x", f"file:{tmp_path}/y", "s3://b/y", "/gone")
    assert linked_files(files) == [f"{table}/real/x"] * 2
