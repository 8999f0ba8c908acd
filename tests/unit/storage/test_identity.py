"""Whether two locations are of one store, folders under their several names, and links."""

from pathlib import Path

import pyarrow as pa
import pytest

from icectl.storage.identity import FolderNames, SameStore, linked_files, real_location

PLAIN = SameStore()
VOUCHED = SameStore({"nfs": "file", "oss": "s3"}, {"old": "new", "filer": "localhost"})


@pytest.mark.parametrize(
    ("location", "other", "same"),
    [
        ("s3://b/x", "s3a://b/y", True), ("s3n://b/x", "s3a://b/y", True),
        ("S3://b/x", "s3://b/y", True), ("s3://b/x", "s3://c/x", False),
        ("s3://b/x", "gs://b/x", False), ("/x", "file:///x", True),
        ("file:/x", "file://localhost/x", True), ("file://host/x", "/x", False),
        ("hdfs:/x", "hdfs://nn:8020/x", True), ("hdfs://nn:8020/x", "hdfs://nn/x", False),
        ("hdfs://nn/x", "/x", False), ("nfs://filer/x", "/x", False),
    ],
)  # fmt: skip
def test_only_what_is_proven_is_one_store(location, other, same):
    assert PLAIN.holds(location, other) is same
    assert PLAIN.holds(other, location) is same


@pytest.mark.parametrize(
    ("location", "other", "same"),
    [
        ("nfs://filer/x", "/x", True), ("nfs:/x", "/x", True), ("nfs://other/x", "/x", False),
        ("oss://b/x", "s3a://b/x", True), ("s3://old/x", "s3://new/x", True),
        ("s3://old/x", "s3://other/x", False),
    ],
)  # fmt: skip
def test_a_caller_may_vouch_for_more(location, other, same):
    assert VOUCHED.holds(location, other) is same
    assert VOUCHED.holds(other, location) is same


@pytest.mark.parametrize(
    ("location", "base", "respelled"),
    [
        ("/wh/t/data", "file:///wh/t", "file:///wh/t/data"),
        ("file:///wh/t/", "/wh/t", "/wh/t"),
        ("s3://b/wh/t/a/b/", "s3a://b/wh/t", "s3a://b/wh/t/a/b"),
        ("s3://b/wh/t2", "s3://b/wh/t", None),
        ("s3://b/wh", "s3://b/wh/t", None),
        ("s3://c/wh/t/data", "s3://b/wh/t", None),
        ("/wh/t/../u", "/wh/t", None),
        ("/wh/t/..a/u", "/wh/t", "/wh/t/..a/u"),
    ],
)
def test_a_location_is_respelled_as_the_one_it_lies_in(location, base, respelled):
    assert PLAIN.respelled(location, base) == respelled


def doubtful(stored: list[str], *places: str, same_store: SameStore = PLAIN) -> dict[str, str]:
    return same_store.doubtful(pa.array(stored, pa.string()), places)


def test_references_in_the_listed_store_or_elsewhere_are_beyond_doubt():
    stored = [
        "s3://b/wh/t/data/a", "s3a://b/wh/t/data/b", "s3://c/elsewhere/c", "hdfs://nn/wh/t2/d",
    ]  # fmt: skip
    assert doubtful(stored, "s3://b/wh/t") == {}
    assert doubtful([], "s3://b/wh/t") == {}


def test_a_path_in_the_place_but_of_another_store_is_in_doubt():
    stored = [
        "s3://b/wh/t/a", "s3://c/wh/t/a", "s3://c/wh/t/b", "hdfs://nn/wh//t/%61", "/wh/t/c",
        "s3://c/wh/t",
    ]  # fmt: skip
    assert doubtful(stored, "s3://b/wh/t") == {
        "s3://c": "s3://c/wh/t/a", "hdfs://nn": "hdfs://nn/wh//t/%61", "": "/wh/t/c",
    }  # fmt: skip
    vouched = SameStore({"hdfs": "s3"}, {"c": "b", "nn": "b"})
    assert doubtful(stored, "s3://b/wh/t", same_store=vouched) == {"": "/wh/t/c"}


def test_every_place_counts():
    assert doubtful(["s3://c/u/x"], "s3://b/wh/t", "s3://b/u") == {"s3://c": "s3://c/u/x"}
    assert doubtful(["s3://c/u/x"], "s3://b/wh/t", "s3://c/u") == {}


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


def test_a_folder_that_is_spelled_as_it_was_added_has_no_other_name(table):
    found = names(table / "real/a", table / "gone/b", "/elsewhere/c", "s3://b/t/real/a")
    assert others(found, table / "real/a", table / "real/b", table / "x", "s3://b/t/real/a") == []


def test_files_of_one_folder_have_all_of_its_names(table, tmp_path):
    found = names(table / "data/a", table / "data/b", f"file://{tmp_path}/link/real/c")
    assert others(found, table / "x", table / "real/é.1", table / "gone/a", table / "real/b") == [
        (1, f"{table}/data/é.1"),
        (3, f"{table}/data/b"),
        (1, f"file://{tmp_path}/link/real/é.1"),
        (3, f"file://{tmp_path}/link/real/b"),
    ]


def test_names_are_told_whichever_of_them_was_added(table, tmp_path):
    link = tmp_path / "link"
    assert others(names(link / "real/a"), table / "real/b") == [(0, f"{link}/real/b")]
    assert others(names(table / "real/a"), link / "data/b") == [(0, f"{table}/real/b")]
    assert others(names(link / "a"), f"file:{table}/b") == [(0, f"{link}/b")]
    assert others(names("file:/a"), "/b") == [(0, "file:/b")]


def test_where_a_location_really_is(table, tmp_path):
    assert real_location(str(tmp_path / "link/data/x")) == f"{table}/real/x"
    assert real_location("s3://b/x") == "s3://b/x"
    assert real_location("file://host/x") == "file://host/x"


def test_links_are_followed_to_their_files(table, tmp_path):
    (table / "real/x").touch()
    (tmp_path / "y").symlink_to(table / "data/x")
    files = strings(tmp_path / "y", table / "real/x", f"file:{tmp_path}/y", "s3://b/y", "/gone")
    assert linked_files(files) == [f"{table}/real/x"] * 2
