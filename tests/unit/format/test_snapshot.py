"""Snapshots: what a summary says, and the walk along the parents."""

import pytest

from icectl.format.snapshot import Snapshot, ancestors


def history(*pairs: tuple[int, int | None]) -> dict[int, Snapshot]:
    return {id_: Snapshot(id_, 0, parent_snapshot_id=parent) for id_, parent in pairs}


@pytest.mark.parametrize(
    ("summary", "operation"),
    [
        ({"operation": "replace"}, "replace"),
        ({"added-records": "1"}, "overwrite"),
        ({}, None),
        (None, None),
    ],
)
def test_r032_operation_is_unknown_without_a_summary_and_overwrite_without_a_name(
    summary, operation
):
    assert Snapshot(1, 0, summary=summary).operation == operation


def test_ancestors_are_the_snapshot_itself_and_its_parents_newest_first():
    snapshots = history((1, None), (2, 1), (3, 1), (4, 3))
    assert [item.snapshot_id for item in ancestors(snapshots, 4)] == [4, 3, 1]


def test_ancestors_end_where_a_parent_has_expired():
    assert [item.snapshot_id for item in ancestors(history((3, 2), (4, 3)), 4)] == [4, 3]


def test_ancestors_end_at_a_cycle():
    assert [item.snapshot_id for item in ancestors(history((1, 2), (2, 1)), 1)] == [1, 2]


def test_ancestors_of_a_snapshot_that_is_not_there_are_none():
    assert list(ancestors(history((1, None)), 9)) == []
