"""Files that a table names otherwise than they are listed: links, mounts, escapes, gateways."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders.orphans import age, edit_metadata, name_statistics, stray
from tests.builders.rows import current_metadata
from tests.builders.table_builder import TableBuilder, filled_table
from tests.fault.changing import run

ALL_AT_ONCE = ("--max-fraction", "1", "--yes", "--json")
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


def table_named(named: Path, real: Path) -> TableBuilder:
    """A table that lies in one place and names its files in another that leads there."""
    table = filled_table(real, range(6), partitioning="identity", location=str(named))
    edit_metadata(real, location=str(real))
    age(real, 7)
    return table


def orphans_removed(table: Path) -> tuple[int, set[str]]:
    """Exit code, and what went, by its path in the table."""
    code, document = run(["remove-orphans", str(table), *ALL_AT_ONCE])
    assert code == 0, document["error"]
    return code, removed(document, table)


def removed(document: dict[str, Any], table: Path) -> set[str]:
    found = document["result"]["orphans"]
    assert document["result"]["removed"] == len(found)
    return {str(Path(item["path"]).relative_to(table)) for item in found}


def data_files(table: Path) -> set[Path]:
    return {path for path in table.rglob("data/**/*.parquet") if path.name != "lost.parquet"}


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """Where the table lies."""
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk" / "t"


@pytest.mark.parametrize("link", ["wh", "wh/t", "elsewhere"])
def test_a_table_may_be_named_through_a_link(tmp_path, real, link):
    where = tmp_path / link
    where.parent.mkdir(exist_ok=True)
    named = where / "t" if link == "wh" else where
    where.symlink_to(real.parent if link == "wh" else real, target_is_directory=True)
    table_named(named, real)
    stray(real, "data/lost.parquet")
    before = data_files(real)
    assert orphans_removed(real) == (0, {"data/lost.parquet"})
    assert data_files(real) == before != set()


def test_each_file_may_be_named_through_a_link_of_its_own(tmp_path, real):
    """The table was moved file by file to another disk, and every old name leads to a new one."""
    table_named(tmp_path / "old", real)
    shutil.copytree(real, tmp_path / "old")
    for number, path in enumerate(sorted(data_files(real))):
        new = path.rename(path.with_name(f"{number}.parquet"))
        old = tmp_path / "old" / path.relative_to(real)
        old.unlink()
        old.symlink_to(new)
    stray(real, "data/lost.parquet")
    before = data_files(real)
    shutil.rmtree(tmp_path / "old/metadata")
    (tmp_path / "old/metadata").symlink_to(real / "metadata")
    assert orphans_removed(real) == (0, {"data/lost.parquet"})
    assert data_files(real) == before != set()


def on_mounts(mounts: dict[Path, Path], *words: str) -> dict[str, Any]:
    """Run icectl where folders are mounted at other places too; its document."""
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounting needs namespaces of users")
    binds = [f"mount --bind '{source}' '{target}'" for source, target in mounts.items()]
    command = " && ".join([*binds, 'exec "$@"'])
    done = subprocess.run(
        [*UNSHARE, "sh", "-c", command, "sh", sys.executable, "-m", "icectl", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    document: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == 0, document["error"]
    return document


def test_a_table_may_be_named_through_a_mount(tmp_path, real):
    table_named(tmp_path / "mounted", real)
    stray(real, "data/lost.parquet")
    before = data_files(real)
    (tmp_path / "mounted").mkdir()
    document = on_mounts({real: tmp_path / "mounted"}, "remove-orphans", str(real), *ALL_AT_ONCE)
    assert removed(document, real) == {"data/lost.parquet"}
    assert data_files(real) == before != set()


def test_a_folder_that_is_mounted_in_the_table_again_is_known_there_too(real):
    table_named(real, real)
    stray(real, "data/lost.parquet")
    before = data_files(real)
    (real / "again").mkdir()
    mounts = {real / "data": real / "again"}
    document = on_mounts(mounts, "remove-orphans", str(real), *ALL_AT_ONCE[:2], "-n", "--json")
    found = {str(Path(item["path"]).relative_to(real)) for item in document["result"]["orphans"]}
    assert found == {"data/lost.parquet", "again/lost.parquet"}
    assert data_files(real) == before != set()


def test_letters_whose_case_does_not_matter_make_one_folder(tmp_path, real):
    """Two partitions whose values differ in case share a folder on such a disk."""
    (tmp_path / "case").touch()
    if not (tmp_path / "CASE").exists():
        pytest.skip("the case of letters matters here")
    table_named(real, real)
    before = data_files(real)
    (real / "data").rename(real / "away")
    (real / "away").rename(real / "DATA")
    assert orphans_removed(real) == (0, set())
    assert {path.name for path in real.rglob("*.parquet")} == {path.name for path in before}


@pytest.mark.parametrize(
    "name",
    [
        "dbfs:/mnt/disk/t/metadata/a%2Fb.puffin",
        "https://gateway:9000/bucket/t/metadata/a%2Fb.puffin",
        "/not/mounted/here/disk/t/metadata/a%2Fb.puffin",
        "file:{}/metadata/a%252Fb.puffin",
        "file:{}/metadata/a%25252fb.puffin",
        "{}/data/../metadata/a%2Fb.puffin",
        "{}//metadata/./a/b.puffin",
    ],
)
def test_what_may_be_a_file_of_the_table_is_kept(real, name):
    table = table_named(real, real)
    named = stray(real, "metadata/a%2Fb.puffin")
    stray(real, "data/lost.parquet")
    name_statistics(table.directory, name.format(real))
    assert orphans_removed(real) == (0, {"data/lost.parquet"})
    assert named.exists()


@pytest.mark.parametrize("name", ["/elsewhere/metadata/a.puffin", "s3://bucket/t2/metadata/a"])
def test_a_name_alone_keeps_no_file(real, name):
    table = table_named(real, real)
    stray(real, "metadata/a.puffin")
    name_statistics(table.directory, name)
    assert orphans_removed(real) == (0, {"metadata/a.puffin"})


def test_a_table_above_the_place_behind_a_link_is_refused(tmp_path, real):
    """`wh/t` is a link into the data of another table."""
    below = tmp_path / "disk" / "data" / "t"
    table_named(below, below)
    (tmp_path / "wh").mkdir()
    (tmp_path / "wh" / "t").symlink_to(below, target_is_directory=True)
    edit_metadata(below, location=str(tmp_path / "wh" / "t"))
    stray(below, "data/lost.parquet")
    words = ["remove-orphans", str(tmp_path / "wh" / "t"), *ALL_AT_ONCE, "--check"]
    assert run(words)[0] == 4
    above = stray(tmp_path / "disk", "metadata/v1.metadata.json")
    shutil.copy2(current_metadata(below), above)
    code, document = run(words)
    assert (code, document["error"]["id"]) == (5, "other-table")


def test_a_file_that_a_catalog_counts_anew_is_newer(real):
    """Registered as v3, the table went on in the catalog as 00000-…: v3 is not current."""
    table = table_named(real, real)
    stray(real, "data/lost.parquet")
    current = current_metadata(real)
    words = ["remove-orphans", str(real), "--metadata-file", current.name, *ALL_AT_ONCE]
    assert run([*words, "--check"])[0] == 4
    table.append(range(6, 12))
    recounted = "00000-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"
    current_metadata(real).rename(real / "metadata" / recounted)
    age(real, 7)
    code, document = run(words)
    assert (code, document["error"]["id"]) == (5, "newer-metadata")
