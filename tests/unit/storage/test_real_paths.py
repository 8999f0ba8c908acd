"""Other spellings of stored locations: dots, and symbolic links to folders."""

from pathlib import Path

import pyarrow as pa
import pytest

from icectl.storage.real_paths import OtherWays, real_location


def ways(base: object, *stored: object) -> list[str]:
    return OtherWays(str(base)).of(pa.array([str(one) for one in stored], pa.string()))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table whose folder `data` is a link to its folder `real`."""
    (tmp_path / "t" / "real").mkdir(parents=True)
    (tmp_path / "t" / "data").symlink_to(tmp_path / "t" / "real")
    (tmp_path / "link").symlink_to(tmp_path / "t")
    return tmp_path / "t"


def test_what_is_spelled_as_it_is_listed_has_no_other_way(table: Path):
    assert ways(table, table / "real/a", table / "gone/b", "/elsewhere/c", table / "x") == []
    assert ways(f"file://{table}", f"file://{table}/real/a", table / "real/b") == []


def test_files_below_a_link_are_listed_below_its_target(table: Path):
    assert ways(table, table / "data/a", table / "real/b", table / "data/c") == [
        f"{table}/real/a",
        f"{table}/real/c",
    ]
    assert ways(f"file://{table}", table / "data/k=1/a") == [f"file://{table}/real/k=1/a"]


def test_a_table_may_be_listed_or_named_through_a_link(table: Path, tmp_path: Path):
    link = tmp_path / "link"
    assert ways(link, table / "real/a") == [f"{link}/real/a"]
    assert ways(table, link / "real/a", f"file://{link}/data/b") == [
        f"{table}/real/a",
        f"{table}/real/b",
    ]
    assert ways(link, link / "real/a") == []


@pytest.mark.parametrize(
    ("stored", "plain"),
    [
        ("s3://b/wh/./t/a", "s3://b/wh/t/a"),
        ("s3://b/wh/u/../t/a", "s3://b/wh/t/a"),
        ("hdfs://nn:8020/wh/t/x/..", "hdfs://nn:8020/wh/t"),
    ],
)
def test_dots_are_taken_out(stored: str, plain: str):
    assert ways("s3://b/wh/t", stored, "s3://b/wh/t/a.b/..c/d.") == [plain]


def test_dots_on_this_machine_are_taken_out_too(table: Path):
    assert f"{table}/real/a" in ways(table, f"{table}/gone/../real/a", f"{table}/./real/b")


def test_where_a_location_really_is(table: Path, tmp_path: Path):
    assert real_location(str(tmp_path / "link/data/x")) == f"{table}/real/x"
    assert real_location("s3://b/x") == "s3://b/x"
    assert real_location("file://host/x") == "file://host/x"
