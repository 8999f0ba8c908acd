"""What becomes of files with matching rows, and what still holds them."""

import pytest

from icectl.commands.erase.plan import HeldFile, plan_erasure
from icectl.format.manifest import Content
from icectl.format.snapshot import SnapshotRef

REFS = {
    "main": SnapshotRef(3, "branch"),
    "audit": SnapshotRef(2, "branch"),
    "eoy": SnapshotRef(1, "tag"),
    "new": SnapshotRef(3, "tag"),
}


def held(
    *snapshot_ids: int, content: Content = Content.DATA, matching: int = 1, name: str = "a"
) -> HeldFile:
    return HeldFile(name, content, 100, 5, matching, frozenset(snapshot_ids))


@pytest.mark.parametrize(
    ("file", "fate"),
    [
        (held(1, 3), "rewrite"),
        (held(2), "rewrite"),  # the head of another branch
        (held(3, matching=5), "drop"),
        (held(1, matching=5), "expire"),
        (held(1), "expire"),  # a tag does not make a file live
        (held(3, content=Content.EQUALITY_DELETES), "convert"),
        (held(3, content=Content.EQUALITY_DELETES, matching=5), "convert"),
        (held(3, content=Content.POSITION_DELETES, matching=5), "rewrite"),
    ],
)
def test_fate_follows_heads_and_content(file: HeldFile, fate: str):
    assert plan_erasure([file], [1, 2, 3], REFS).fates == {"a": fate}


def test_snapshots_and_refs_that_reach_no_match_stay():
    plan = plan_erasure([held(1), held(3, name="b")], [3, 2, 1], REFS)
    assert plan.snapshot_ids == (3, 1)
    assert plan.branches == ("main",)
    assert plan.tags == ("eoy", "new")


def test_nothing_is_held_without_a_match():
    plan = plan_erasure([], [1, 2, 3], REFS)
    assert (plan.files, plan.snapshot_ids, plan.branches, plan.tags) == ((), (), (), ())
