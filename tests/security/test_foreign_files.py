"""Data files of others, which metadata name: whoever compacts does not hand their rows on."""

import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from icectl.format.manifest import FileFormat
from icectl.progress import SilentProgress
from icectl.storage.identity import kept_from_owner
from icectl.table.own_places import check_foreign_files
from icectl.table.rewrite_tasks import InputFile, RewriteTask
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import TableBuilder, filled_table
from tests.fault.changing import run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
OTHER_USER = 12_345


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder that everybody gets into, below one that nobody else does."""
    made = tmp_path / "lake"
    made.mkdir(mode=0o755)
    return made


def with_a_link(lake: Path, *, folder_mode: int, file_mode: int, owner: int) -> TableBuilder:
    """A table one data file of which is a link to a file of another team."""
    table = filled_table(lake / "t", range(6), range(6, 12))
    path = min((table.directory / "data").rglob("*.parquet"))
    others = lake / "team-b"
    others.mkdir()
    shutil.move(path, others / "secret.parquet")
    path.symlink_to(others / "secret.parquet")
    for each, mode in ((others / "secret.parquet", file_mode), (others, folder_mode)):
        os.chown(each, owner, owner)
        each.chmod(mode)
    return table


@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o700, 0o644), (0o755, 0o600)])
def test_rows_of_files_that_not_everybody_may_read_stay_there(lake, folder_mode, file_mode):
    table = with_a_link(lake, folder_mode=folder_mode, file_mode=file_mode, owner=OTHER_USER)
    before = current_metadata(table.directory).name
    code, document = run(["compact", str(table.directory), "--rewrite-all", "--yes", "--json"])
    assert (code, document["error"]["id"]) == (5, "foreign-file")
    assert current_metadata(table.directory).name == before
    assert not [path for path in lake.rglob("*.parquet") if "compact" in path.name]


@pytest.mark.parametrize(("file_mode", "owner"), [(0o644, OTHER_USER), (0o600, os.geteuid())])
def test_rows_that_are_the_owners_or_everybodys_are_compacted(lake, file_mode, owner):
    table = with_a_link(lake, folder_mode=0o755, file_mode=file_mode, owner=owner)
    code, document = run(["compact", str(table.directory), "--rewrite-all", "--yes", "--json"])
    assert code == 0, document
    snapshots = read_metadata(current_metadata(table.directory))["snapshots"]
    assert snapshots[-1]["summary"]["total-records"] == "12"


def test_files_of_the_table_itself_are_its_own_whoever_wrote_them(lake):
    file = lake / "t/data/x"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"1")
    os.chown(file, OTHER_USER, OTHER_USER)
    file.chmod(0o600)
    spelled = [str(file), f"file:{file}", f"{file.parent}/../../t/data/./x"]
    missing = f"{file}.gone"
    assert [*kept_from_owner(spelled, str(lake / "t"))] == []
    assert [*kept_from_owner(spelled, str(lake / "other"))] == []  # no such folder
    (lake / "other").mkdir()
    (lake / "other/link").symlink_to(file)
    (lake / "other/open").write_bytes(b"1")
    files = [*spelled, missing, str(lake / "other/link"), str(lake / "other/open")]
    assert [*kept_from_owner(files, str(lake / "other"))] == [*spelled, files[-2]]
    assert [*kept_from_owner(["s3://b/x"], "s3://b/t")] == []


@pytest.mark.parametrize(
    ("file", "properties", "is_told"),
    [
        ("s3://b/t/data/x", {}, False),
        ("s3://b/team-b/x", {}, True),
        ("s3://b/named/x", {"write.data.path": "s3://b/named"}, False),
        ("gs://b/t/data/x", {}, True),
    ],
)
def test_files_outside_are_told(file, properties, is_told):
    inputs = (InputFile(file, FileFormat.PARQUET, 10, 1, 0, b"", 1),)
    task = RewriteTask("0-0", 0, inputs, (), 0, b"", 1, 100, 10)
    progress = Mock(spec=SilentProgress)
    check_foreign_files("s3://b/t", properties, [task], progress)
    assert [file in call.args[0] for call in progress.warn.call_args_list] == [True] * is_told
