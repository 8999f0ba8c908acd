"""Files of vectors over leaves: each that a root names stays, and goes with the last such root."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from icectl.format.snapshot import SnapshotRef
from icectl.format.updates import SetSnapshotRef
from tests.builders.twins import TreeTwin


@pytest.fixture
def table(tmp_path: Path) -> TreeTwin:
    """Three leaves of version 3, of which vectors will be in files of their own."""
    table = TreeTwin(tmp_path / "t", format_version=3, partitioning="none")
    for start in (0, 7, 14):
        table.append(range(start, start + 7))
    table.run("upgrade-to-v4", "--layout", "sfc-1", "--yes")
    table.set_properties({"icectl.v4.mdv.inline-max-bytes": "0"})
    return table


def vectors(table: TreeTwin) -> set[Path]:
    return set(table.directory.rglob("*-mdv.puffin"))


def removed(table: TreeTwin) -> tuple[int, set[Path]]:
    """Remove a data file: the head, and the new files of vectors."""
    before = vectors(table)
    table.remove_data_files(1)
    head = table.metadata.current_snapshot_id
    assert head is not None
    return head, vectors(table) - before


def of_another_leaf(table: TreeTwin) -> set[Path]:
    return removed(table)[1]


def of_the_same_rows(table: TreeTwin) -> set[Path]:
    """Remove what a branch has removed, again."""
    head = table.metadata.current_snapshot_id
    assert head is not None
    first = table.metadata.snapshots_by_id[head].parent_snapshot_id
    assert first is not None
    table.update(SetSnapshotRef("b", SnapshotRef(head, "branch")))
    table.update(SetSnapshotRef("main", SnapshotRef(first, "branch")))
    return removed(table)[1]


@pytest.mark.parametrize("again", [of_another_leaf, of_the_same_rows])
def test_all_files_of_vectors_are_referred_to(
    table: TreeTwin, again: Callable[[TreeTwin], set[Path]]
):
    _, first = removed(table)
    second = again(table)
    assert first
    assert second
    for path in table.directory.rglob("*"):
        os.utime(path, (1_500_000_000, 1_500_000_000))
    assert table.run("remove-orphans", "--older-than", "30d", "--yes")["status"] == "nothing-to-do"
    assert vectors(table) == first | second
    found = table.run("validate", "--level", "data", "--all-snapshots")["result"]
    assert [one for one in found["findings"] if one["severity"] != "info"] == []


def test_expiry_deletes_the_file_of_a_vector_of_rows_that_another_file_holds_too(table: TreeTwin):
    _, first = removed(table)
    second = of_the_same_rows(table)
    head = table.metadata.refs["b"].snapshot_id
    table.run("refs", "drop", "b", "--yes")
    table.run("expire-snapshots", "--older-than", "0s", "--retain-last", "1", "--yes")
    assert not table.has(head)
    assert vectors(table) == second
    assert not first & second
    found = table.run("validate", "--level", "data", "--all-snapshots")["result"]
    assert [one for one in found["findings"] if one["severity"] != "info"] == []
