"""Commits to version 4 tables write one metadata file beside the JSON (sfc-1 7)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.twins import TreeTwin, twins


def written(table: TreeTwin, change: Callable[[], object]) -> list[str]:
    """What kinds of metadata files a change has written. Order: sorted."""
    folder = Path(table.directory) / "metadata"
    before = {path.name for path in folder.iterdir()}
    change()
    added = {path.name for path in folder.iterdir()} - before
    return sorted(name.partition("-")[0] if "root-" in name else name[-13:] for name in added)


CHANGES: dict[str, Callable[[TreeTwin], object]] = {
    "append": lambda table: table.append(range(100, 104)),
    "delete of rows": lambda table: table.delete_rows([1]),
    "delete by value": lambda table: table.delete_rows([1], kind="equality"),
    "delete of files": lambda table: table.remove_data_files(1),
    "overwrite": lambda table: table.overwrite(range(100, 104), 1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_commit_writes_a_root_and_nothing_else(tmp_path, name):
    _, table = twins(tmp_path, "identity")
    assert written(table, lambda: CHANGES[name](table)) == ["metadata.json", "root"]


def test_a_bitmap_that_is_too_large_for_the_root_is_one_more(tmp_path):
    _, table = twins(tmp_path, "identity")
    table.set_properties({"icectl.v4.mdv.inline-max-bytes": "0"})
    kinds = written(table, lambda: table.remove_data_files(1))
    assert kinds == ["-0-mdv.puffin", "metadata.json", "root"]


def test_files_of_the_root_that_become_too_many_are_one_leaf_more(tmp_path):
    _, table = twins(tmp_path, "none")
    table.set_properties({"icectl.v4.root.max-data-files": "2"})
    for start in (100, 200):
        assert written(table, lambda start=start: table.append([start])) == [
            "metadata.json",
            "root",
        ]
    kinds = written(table, lambda: table.append([300]))
    assert [kind[-8:] for kind in kinds] == [".parquet", "ata.json", "root"]
