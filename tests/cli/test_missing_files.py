"""A manifest or manifest list that is gone stays gone: 15, since no later run would find it."""

from pathlib import Path

import pytest

from tests.builders.table_builder import START_MS, TableBuilder
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
    table = TableBuilder(tmp_path / "t")
    table.append(range(4))
    table.append(range(4, 8))
    gone = table.metadata.snapshots[-1].manifest_list
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
