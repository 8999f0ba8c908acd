"""`rewrite-manifests` and `expire-snapshots` on leaves of version 4: what one run leaves to do."""

from pathlib import Path

import pytest

from icectl.cli import app
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.twins import TreeTwin, twins


@pytest.fixture
def table(tmp_path: Path) -> TreeTwin:
    """A table of version 4 whose root lists one leaf of its own version."""
    made = twins(tmp_path, "identity")[1]
    made.run("upgrade-to-v4", "--layout=sfc-1", "--eager", "--yes")
    return made


def rewrite(table: TreeTwin, *words: str) -> int:
    """Rewrite until there is nothing to do, once; how many leaves came of it."""
    added = table.run("rewrite-manifests", *words, "--yes")["result"]["added"]
    assert table.run("rewrite-manifests", *words, "--check")["status"] == "nothing-to-do"
    assert table.shown() == table.expected()
    return int(added)


def test_files_of_the_root_and_a_small_leaf_become_one(table):
    table.run("rewrite-manifests", "--yes")
    table.append(range(10, 13))
    assert rewrite(table) == 1


def test_what_is_written_anew_is_told_by_its_name(table, capsys):
    table.run("rewrite-manifests", "--yes")
    table.append(range(10, 13))
    words = ["rewrite-manifests", str(table.directory), "--yes"]
    assert app.main([*words, "--dry-run"]) == 0
    planned = capsys.readouterr().out.splitlines()[-1]
    assert planned.startswith("the root's own files and 1 manifest of ")


def test_leaves_that_are_full_are_left_alone(table):
    table.set_properties({"icectl.v4.leaf.max-entries": "2"})
    table.append(range(10, 13))
    assert rewrite(table) == 2


def test_leaves_get_the_size_that_is_asked_for(table):
    table.append(range(100, 700), files=200)
    assert rewrite(table) == 1
    assert rewrite(table, "--target-size", "12KB") == 3


def test_a_spec_of_some_rows_of_a_leaf_stays(table):
    table.respec("bucket")
    table.append(range(10, 13))
    rewrite(table)
    clean = ("expire-snapshots", "--older-than", "0s", "--retain-last", "1")
    found = table.run(*clean, "--clean-expired-metadata", "--yes")["result"]
    assert found["specs_removed"] == []
    table.remove_data_files(3)  # those of the first spec, dead in the leaf now
    found = table.run(*clean, "--clean-expired-metadata", "--yes")["result"]
    assert found["specs_removed"] == []
    rewrite(table)
    found = table.run(*clean, "--clean-expired-metadata", "--yes")["result"]
    assert found["specs_removed"] == [0]
    specs = read_metadata(current_metadata(table.directory))["partition-specs"]
    assert [one["spec-id"] for one in specs] == [1]
    table.run("validate", "--level", "data", "--all-snapshots")


def test_r074_rows_of_a_leaf_are_checked_by_specs_of_their_own(table):
    table.respec("truncate")
    table.append(range(10, 13))
    assert rewrite(table) == 1
    found = table.run("validate", "--level", "data", "--all-snapshots")["result"]["counts"]
    assert (found["error"], found["warning"]) == (0, 0)
