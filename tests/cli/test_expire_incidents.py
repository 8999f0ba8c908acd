"""Histories on which clean-up by history, instead of by reachability, deleted live files."""

import json
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app
from tests.builders.expiry import NOW_MS, reachable
from tests.builders.rows import current_metadata, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder
from tests.stores.fixed_env import FixedEnv


def rows(directory: Path, snapshot_id: int | None = None) -> Any:
    return read_rows(read_metadata(current_metadata(directory)), snapshot_id)


def expire(
    directory: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[set[int], set[str]]:
    """Snapshots and files that went; nothing that is reachable did."""
    words = ["expire-snapshots", str(directory), *options, "--yes", "--json"]
    code = app.main(words, env=FixedEnv(NOW_MS))
    result = json.loads(capsys.readouterr().out)["result"]
    assert code == 0
    assert [name for name in reachable(directory) if not (directory / name).exists()] == []
    gone = {Path(item["path"]).name for item in result["files"]}
    return {int(item["snapshot_id"]) for item in result["expired"]}, gone


@pytest.mark.parametrize("version", [1, 2, 3])
def test_incident_3_branches_that_go_take_no_file_of_the_one_that_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: int
) -> None:
    """Several refs before, one after; the branch that goes has removed files that main shows."""
    directory = tmp_path / "t"
    table = TableBuilder(directory, format_version=version)
    table.append(range(12))
    table.ref("short-lived", "branch", max_ref_age_ms=1)
    table.remove_data_files(1, branch="short-lived")
    table.append(range(100, 106), branch="short-lived")
    own = {Path(row["location"]).name for row in table.live("short-lived")} - {
        Path(row["location"]).name for row in table.live("main")
    }
    table.append(range(12, 24))
    before = rows(directory)

    expired, gone = expire(directory, capsys, "--older-than", "0s", "--retain-last", "1")

    assert len(expired) == 3
    assert list(read_metadata(current_metadata(directory))["refs"]) == ["main"]
    assert rows(directory) == before
    assert own < gone


@pytest.mark.parametrize("version", [1, 2, 3])
def test_incident_4_a_middle_snapshot_takes_no_file_of_an_older_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: int
) -> None:
    """The middle snapshot removed the files that the older one, which a tag keeps, still shows."""
    directory = tmp_path / "t"
    table = TableBuilder(directory, format_version=version)
    first = table.append(range(12))
    table.ref("eoy", "tag")
    middle = table.remove_data_files(1)
    last = table.append(range(12, 24))
    before = {id_: rows(directory, id_) for id_ in (first, last)}
    assert before[first]

    expired, gone = expire(directory, capsys, "--expire-id", str(middle))

    assert expired == {middle}
    assert {id_: rows(directory, id_) for id_ in (first, last)} == before
    assert not [name for name in gone if name.endswith(".parquet")]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_incident_5_a_file_that_was_removed_and_came_back_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: int
) -> None:
    """A roll-back brings files back that the snapshot which goes calls DELETED."""
    directory = tmp_path / "t"
    table = TableBuilder(directory, format_version=version)
    table.append(range(12))
    good = table.append(range(12, 24))
    wrong = table.remove_data_files(2)
    table.ref("main", "branch", snapshot_id=good)
    table.append(range(24, 30))
    before = rows(directory)
    assert len(before) == 30

    expired, gone = expire(directory, capsys, "--older-than", "0s", "--retain-last", "1")

    assert wrong in expired
    assert rows(directory) == before
    assert not [name for name in gone if name.endswith(".parquet")]
