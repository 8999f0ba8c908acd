"""Vectors without a live data file are left over by proof alone, not by a wrong name elsewhere."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.commands.compact.run import prepare
from icectl.errors import CorruptTable, StorageError
from tests.builders.broken import Broken, is_live
from tests.builders.compactions import compaction_of, options
from tests.builders.table_builder import TableBuilder
from tests.stores.wrapped import WrappedStore

NOTHING_ELSE = options(min_input_files=99)


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """A vector, and manifests that older snapshots do not share with the head."""
    built = TableBuilder(tmp_path / "t", 3, merge_manifests_above=1)
    for start in range(0, 12, 4):
        built.append(range(start, start + 4))
    built.delete_rows([0])
    return built


def renamed(table: TableBuilder) -> str:
    """Give the data file of the vector another name in the head alone; returns the true one."""
    broken = Broken(table.directory)
    true: str = broken.entries(1)[0]["data_file"]["referenced_data_file"]

    def holding(entry: Any) -> bool:
        return is_live(entry) and bool(entry["data_file"]["file_path"] == true)

    def change(entries: list[Any]) -> None:
        for entry in filter(holding, entries):
            entry["data_file"]["file_path"] = f"{true}x"

    broken.edit_manifest(change, holding=holding)
    return true


def test_r116_a_file_that_no_snapshot_says_it_removed_may_have_another_name(table):
    table.append(range(12, 16))
    renamed(table)
    with pytest.raises(CorruptTable, match="no snapshot has removed it") as caught:
        prepare(compaction_of(table.directory), "main", NOTHING_ELSE)
    assert caught.value.rule == "R-116"


def test_r116_a_snapshot_that_removed_one_file_has_not_removed_two(table):
    table.remove_data_files(1)
    table.append(range(12, 16))
    renamed(table)
    with pytest.raises(CorruptTable, match="no snapshot has removed it"):
        prepare(compaction_of(table.directory), "main", NOTHING_ELSE)


def test_a_file_that_the_store_does_not_tell_of_is_not_gone(table):
    table.append(range(12, 16))
    true = renamed(table)

    class Denying(WrappedStore):
        def call(self, method: str, location: str, action: Any) -> Any:
            if (method, location) == ("stat", true):
                raise StorageError("access denied", id="access-denied")
            return action()

    context = compaction_of(table.directory)
    with pytest.raises(CorruptTable, match="no snapshot has removed it"):
        prepare(replace(context, store=Denying(context.store)), "main", NOTHING_ELSE)


def test_what_a_snapshot_says_that_it_removed_leaves_its_vector_over(table):
    table.remove_data_files(3, keeps_vectors=True)
    table.append(range(12, 16))
    assert len(prepare(compaction_of(table.directory), "main", NOTHING_ELSE).plan.dangling) == 1
