"""Choosing a snapshot: by id, ref and instant."""

from dataclasses import replace

import pytest

from icectl.errors import UsageError
from icectl.format.snapshot import Snapshot, SnapshotLogEntry, SnapshotRef
from icectl.table.reader import SnapshotChoice, chosen_snapshot, logged_snapshot_id
from tests.builders.plain_metadata import plain_metadata

METADATA = plain_metadata(
    last_sequence_number=3,
    last_updated_ms=400,
    current_snapshot_id=30,
    snapshots=(Snapshot(20, 200, 10), Snapshot(30, 300, 10)),
    refs={"main": SnapshotRef(30, "branch"), "lost": SnapshotRef(99, "tag")},
    # 20 was current from 200 on, rolled back to 10, which has expired, then 30.
    snapshot_log=(SnapshotLogEntry(200, 20), SnapshotLogEntry(250, 10), SnapshotLogEntry(300, 30)),
)


def chosen(choice: SnapshotChoice) -> int | None:
    snapshot = chosen_snapshot(METADATA, choice)
    return None if snapshot is None else snapshot.snapshot_id


def test_the_current_snapshot_unless_another_is_chosen():
    assert chosen(SnapshotChoice()) == 30
    assert chosen(SnapshotChoice(snapshot_id=20)) == 20
    assert chosen(SnapshotChoice(ref="main")) == 30


@pytest.mark.parametrize(("at_ms", "snapshot_id"), [(200, 20), (249, 20), (300, 30), (900, 30)])
def test_r029_an_instant_goes_by_the_snapshot_log(at_ms, snapshot_id):
    assert chosen(SnapshotChoice(as_of_ms=at_ms)) == snapshot_id


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (SnapshotChoice(as_of_ms=199), "does not reach back to 1970-01-01T00:00:00.199Z"),
        (SnapshotChoice(as_of_ms=250), "snapshot 10, current at .*, has expired"),
        (SnapshotChoice(ref="lost"), "no snapshot 99"),
        (SnapshotChoice(ref="other"), "no branch or tag `other`"),
        (SnapshotChoice(snapshot_id=10), "no snapshot 10"),
        (SnapshotChoice(snapshot_id=20, ref="main"), "cannot be used together"),
    ],
)
def test_what_cannot_be_shown_is_wrong_usage(choice, message):
    with pytest.raises(UsageError, match=message):
        chosen_snapshot(METADATA, choice)


def test_the_later_of_two_log_entries_of_one_instant_counts():
    log = (SnapshotLogEntry(200, 20), SnapshotLogEntry(200, 30))
    metadata = replace(METADATA, snapshot_log=log)
    assert logged_snapshot_id(metadata, 200) == 30
    assert logged_snapshot_id(metadata, 199) is None
