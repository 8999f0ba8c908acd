"""What going back loses, by the summaries of the snapshots that leave a branch (R-031)."""

from dataclasses import replace

import pytest

from icectl.format.snapshot import Snapshot
from icectl.table.recovery import Loss, WayOut, dropping, loss_of_going_back, together
from tests.builders.table_builder import TableBuilder

APPEND = {"operation": "append", "added-data-files": "1", "added-records": "4"}
COMPACTED = {"operation": "replace", "added-records": "400", "deleted-records": "400"}
REWRITTEN = {"operation": "overwrite", "added-records": "3", "deleted-records": "5"}
BY_POSITION = {"operation": "delete", "added-delete-files": "1", "added-position-deletes": "2"}
BY_VALUE = {"operation": "delete", "added-delete-files": "1", "added-equality-deletes": "2"}
OF_PYICEBERG = {"operation": "delete", "deleted-data-files": "1", "deleted-records": "9"}
TOTALS = {"operation": "append", "total-records": "30"}


@pytest.mark.parametrize(
    ("summaries", "loss"),
    [
        ([APPEND], Loss(4, 0, 1)),
        ([APPEND, APPEND, COMPACTED], Loss(8, 0, 3)),
        ([REWRITTEN], Loss(3, 5, 1)),
        ([APPEND, BY_POSITION], Loss(4, 2, 2)),
        ([OF_PYICEBERG], Loss(0, 9, 1)),
        ([BY_VALUE], Loss(0, None, 1)),
        ([TOTALS], Loss(20, 0, 1)),  # the snapshot before has ten rows
        ([{"operation": "overwrite"}], Loss(None, None, 1)),
        ([None], Loss(None, None, 1)),
        ([{**APPEND, "added-records": "many"}], Loss(None, 0, 1)),
        ([{**APPEND, "added-records": "9" * 5000}], Loss(None, 0, 1)),
    ],
)
def test_rows_that_later_snapshots_added_are_lost_and_deleted_ones_reappear(
    tmp_path, summaries, loss
):
    metadata = TableBuilder(tmp_path / "t").metadata
    line = [Snapshot(1, 0, summary={"operation": "append", "total-records": "10"})]
    line += [
        Snapshot(at, at, parent_snapshot_id=at - 1, summary=summary)
        for at, summary in enumerate(summaries, start=2)
    ]
    metadata = replace(metadata, snapshots=tuple(line))
    assert loss_of_going_back(metadata, line[-1], line[0]) == loss


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (Loss(), "loses no row"),
        (Loss(1), "loses at most 1 row"),
        (Loss(None), "loses rows that nobody has counted"),
        (Loss(20, 3), "loses at most 20 rows; brings back at most 3 deleted rows"),
        (Loss(rows_back=1), "brings back at most 1 deleted row"),
        (Loss(rows_back=None), "brings back deleted rows"),
        (Loss(120, 2, 7), "drops 7 snapshots with 120 rows; brings back at most 2 deleted rows"),
    ],
)
def test_a_loss_is_told_in_rows_and_snapshots(loss, told):
    assert str(loss) == told


def test_the_smallest_loss_comes_first_and_one_that_nobody_counted_last():
    broken = WayOut(("--drop-missing",), Loss(1), errors_left=1)
    few, many, unknown = dropping(Loss(20)), dropping(Loss(100, 20)), dropping(Loss(None))
    back = WayOut(("--to-snapshot", "7"), Loss(20, 0, 3))
    ways = [unknown, broken, many, back, few]
    assert sorted(ways, key=lambda way: way.order) == [few, back, many, unknown, broken]
    assert many.command("/wh/my table") == (
        "icectl repair '/wh/my table' --drop-missing --accept-undeleted"
    )


def test_losses_add_up_and_stay_unknown_where_one_is():
    assert together([Loss(1, 2, 0), Loss(3, 4, 0)]) == Loss(4, 6, 0)
    assert together([Loss(None, 2, 0), Loss(3, 4, 0)]) == Loss(None, 6, 0)
    assert together([]) == Loss()
