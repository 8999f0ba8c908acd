"""A manifest or manifest list that is gone stays gone: 15, since no later run would find it."""

from pathlib import Path

import pytest

from tests.builders.broken import Broken
from tests.builders.folders import contents_of
from tests.builders.table_builder import START_MS, filled_table
from tests.cli.conftest import Run
from tests.stores.fixed_env import FixedEnv

WORDS = {
    "compact": ["--rewrite-all", "--engine", "local", "--yes"],
    "rewrite-manifests": ["--yes"],
    "expire-snapshots": ["--retain-last", "1", "--older-than", "0s", "--yes"],
    "remove-orphans": ["--yes"],
}


@pytest.fixture
def run(prepared) -> Run:
    return prepared("inspect", FixedEnv(START_MS + 10**11))


@pytest.mark.parametrize("lost", ["manifest", "manifest list"])
@pytest.mark.parametrize("command", WORDS)
def test_r034_every_command_that_changes_a_table_ends_with_15_and_changes_nothing(
    tmp_path, run, command, lost
):
    gone = filled_table(tmp_path / "t", range(4), range(4, 8)).metadata.snapshots[-1].manifest_list
    assert gone is not None
    if lost == "manifest":
        gone = str(max((tmp_path / "t/metadata").glob("*-m*.avro"), key=lambda one: one.name))
    Path(gone).unlink()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    ended = run(tmp_path / "t", *WORDS[command], "--json", command=command)
    assert (ended.code, ended.document["error"]["id"]) == (15, "file-missing")
    assert f"`{gone}` is missing" in ended.err
    assert "(R-034)" in ended.err
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize("operation", ["replace", "overwrite"])
@pytest.mark.parametrize("version", [2, 4])
def test_r034_the_last_copies_of_rows_do_not_expire(tmp_path, run, operation, version):
    """What a lost file replaced is all that is left of its rows."""
    table = filled_table(tmp_path / "t", range(10), range(10, 20), partitioning="none")
    replaced = set(table.directory.rglob("*.parquet"))
    table.replace_data_files(2)
    (lost,) = set(table.directory.rglob("*.parquet")) - replaced
    table.append(range(20, 24))
    told = {"operation": operation, "deleted-data-files": "2"}
    Broken(table.directory).edit(lambda members: members["snapshots"][2].update(summary=told))
    if version == 4:
        words = ("--layout", "sfc-1", "--yes")
        assert run(table.location, *words, command="upgrade-to-v4").code == 0
    lost.unlink()
    before = contents_of(table.directory)
    words = (*WORDS["expire-snapshots"], "--json")
    ended = run(table.location, *words, command="expire-snapshots")
    assert (ended.code, ended.document["error"]["id"]) == (15, "file-missing")
    assert "`icectl repair" in ended.document["error"]["hint"]
    assert contents_of(table.directory) == before
    assert run(table.location, *words[:-2], "--check", command="expire-snapshots").code == 15
