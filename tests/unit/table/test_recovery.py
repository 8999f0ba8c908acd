"""What of a broken table is whole, and what going back loses by the summaries (R-031)."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from icectl.catalog.metadata_files import list_versions
from icectl.format.snapshot import Snapshot
from icectl.storage.local.store import LocalStore
from icectl.table.recovery import (
    Loss,
    WayOut,
    WholeLevel,
    WholeMetadata,
    WholeSnapshots,
    add_up,
    dropping,
    loss_of_going_back,
    newest_whole_metadata,
)
from tests.builders.broken import Broken
from tests.builders.expiry import context_of
from tests.builders.table_builder import TableBuilder, filled_table

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
        (Loss(None), "loses an unknown number of rows"),
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
    assert add_up([Loss(1, 2, 0), Loss(3, 4, 0)]) == Loss(4, 6, 0)
    assert add_up([Loss(None, 2, 0), Loss(3, 4, 0)]) == Loss(None, 6, 0)
    assert add_up([]) == Loss()


STORE = LocalStore()


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return filled_table(tmp_path / "t", range(4), range(4, 8), range(8, 12))


def file(table: TableBuilder, number: int) -> Path:
    return table.directory / "metadata" / f"v{number}.metadata.json"


def whole_before(table: TableBuilder, number: int) -> WholeMetadata | None:
    versions = list_versions(STORE, str(table.directory / "metadata"))
    return newest_whole_metadata(STORE, versions, str(file(table, number)))


def newest(table: TableBuilder, level: WholeLevel, branch: str = "main") -> Snapshot | None:
    return WholeSnapshots(context_of(concurrency=2), table.metadata, level).newest(branch)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def test_the_metadata_file_before_a_truncated_one_is_whole(table):
    before = file(table, 3).read_bytes()
    truncate(file(table, 4))
    found = whole_before(table, 4)
    assert found is not None
    assert found.version.name == "v3.metadata.json"
    assert found.metadata.current_snapshot_id == json.loads(before)["current-snapshot-id"]


def test_metadata_files_that_are_broken_too_are_passed_over(table):
    for number in (4, 3):
        truncate(file(table, number))
    file(table, 2).unlink()
    found = whole_before(table, 4)
    assert found is not None
    assert found.version.version == 1


def test_r002_a_metadata_file_of_another_table_is_none_to_go_back_to(table):
    members = json.loads(file(table, 3).read_text())
    members["table-uuid"] = "11111111-2222-4333-8444-555555555555"
    file(table, 3).write_text(json.dumps(members))
    truncate(file(table, 4))
    found = whole_before(table, 4)
    assert found is not None
    assert found.version.version == 2


def test_of_metadata_files_of_one_number_and_time_the_first_by_name_is_tried_first(table):
    folder = table.directory / "metadata"
    names = [f"00003-{digit * 8}-2222-4333-8444-555555555555.metadata.json" for digit in "12"]
    for name in names:
        (folder / name).write_bytes(file(table, 3).read_bytes())
        os.utime(folder / name, (1_700_000_000, 1_700_000_000))
    file(table, 3).unlink()
    truncate(file(table, 4))
    found = whole_before(table, 4)
    assert found is not None
    assert found.version.name == names[0]


def test_no_metadata_file_is_whole_where_all_are_broken(table):
    for number in (1, 2, 3, 4):
        truncate(file(table, number))
    assert whole_before(table, 4) is None


def test_the_head_is_the_newest_whole_snapshot_of_a_healthy_branch(table):
    assert newest(table, "files") == table.metadata.current_snapshot


def test_snapshots_with_a_lost_manifest_list_are_not_whole(table):
    for snapshot in table.metadata.snapshots[1:]:
        Path(snapshot.manifest_list).unlink()
    assert newest(table, "metadata") == table.metadata.snapshots[0]


def test_snapshots_with_a_truncated_manifest_are_not_whole(table):
    newest_manifest = Path(Broken(table.directory).manifests()[0]["manifest_path"])
    newest_manifest.write_bytes(newest_manifest.read_bytes()[:-20])
    assert newest(table, "metadata") == table.metadata.snapshots[1]


def test_lost_files_break_snapshots_at_level_files_alone(table):
    lost = {row["location"] for row in table.live()}
    first = {
        entry["data_file"]["file_path"]
        for entry in Broken(table.directory).entries()
        if entry["snapshot_id"] == table.metadata.snapshots[0].snapshot_id
    }
    for location in lost - first:
        Path(location).unlink()
    assert newest(table, "metadata") == table.metadata.current_snapshot
    assert newest(table, "files") == table.metadata.snapshots[0]


def test_no_snapshot_is_whole_where_the_oldest_file_is_gone(table):
    Path(table.metadata.snapshots[0].manifest_list).unlink()
    for row in table.live():
        Path(row["location"]).unlink()
    assert newest(table, "files") is None


def test_a_branch_that_is_not_there_has_no_whole_snapshot(table):
    assert newest(table, "files", "other") is None
