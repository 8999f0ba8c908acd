"""Parents that lead back to their snapshot."""

import pytest

from icectl.checks.snapshots import own_ancestors
from icectl.format.snapshot import Snapshot
from tests.builders.plain_metadata import plain_metadata


@pytest.mark.parametrize(
    ("parents", "found"),
    [
        ({}, set()), ({1: None, 2: 1, 3: 2}, set()), ({3: 2, 2: 1, 1: None, 4: 9}, set()),
        ({1: 1}, {1}), ({1: 3, 2: 1, 3: 2}, {1, 2, 3}),
        ({5: 4, 4: 1, 1: 2, 2: 1, 6: 6, 7: 5}, {1, 2, 6}),
    ],
    ids=["none", "chain", "lost parent", "itself", "circle", "two circles and what leads there"],
)  # fmt: skip
def test_who_is_its_own_ancestor(parents, found):
    snapshots = tuple(
        Snapshot(id_, 0, parent_snapshot_id=parent) for id_, parent in parents.items()
    )
    assert own_ancestors(plain_metadata(snapshots=snapshots)) == found
