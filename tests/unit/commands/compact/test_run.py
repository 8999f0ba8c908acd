"""Compactions of built tables, alone and beside other writers, rows read without icectl."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.commands.compact.report import Compacted, PreparedCompaction
from icectl.errors import CommitConflict
from icectl.format.metrics_modes import NONE, TRUNCATE_16
from icectl.format.partition import result_types
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from icectl.rows.jobs import job_of
from icectl.table.output_sizes import Sizes
from tests.builders.compactions import build, compacted, lineage, planned
from tests.builders.rows import (
    current_metadata,
    head,
    ids_of,
    live_entries,
    read_metadata,
    rows_without_lineage,
)
from tests.builders.table_builder import SCHEMA, TableBuilder


def run(directory: Path, prepared: PreparedCompaction, **how: Any) -> Compacted:
    return compacted(directory, prepared, **how)


@pytest.mark.parametrize(
    ("format_version", "partitioning"),
    [(1, "none"), (1, "two"), (2, "identity"), (2, "day"), (2, "bucket"), (3, "none"), (3, "two")],
)
def test_a_compaction_keeps_the_law(tmp_path, format_version, partitioning):
    table = build(tmp_path, format_version, partitioning)
    before = {one: rows_without_lineage(tmp_path, one) for one in table.ids_of}
    live = sorted(table.ids())
    prepared = planned(tmp_path)
    assert prepared.plan.groups

    done = run(tmp_path, prepared)

    assert ids_of(tmp_path) == live
    assert {one: rows_without_lineage(tmp_path, one) for one in table.ids_of} == before
    assert rows_without_lineage(tmp_path) == [
        row for row in before[max(before)] if row["id"] in live
    ]
    assert done.failed == {}
    assert len(done.outputs) == len(prepared.plan.groups)
    again = planned(tmp_path)
    assert (again.plan.groups, again.plan.dangling) == ((), ())


def test_the_summary_counts_what_has_changed(tmp_path):
    build(tmp_path, 2, "none")
    run(tmp_path, planned(tmp_path))
    summary = head(tmp_path)["summary"]
    sizes = {key: summary.pop(key) for key in list(summary) if key.endswith("-files-size")}
    assert sorted(sizes) == ["added-files-size", "removed-files-size", "total-files-size"]
    assert sizes["added-files-size"] == sizes["total-files-size"]
    assert {key: value for key, value in summary.items() if not key.startswith("engine")} == {
        "operation": "replace",
        "added-data-files": "1",
        "deleted-data-files": "10",
        "added-records": "52",
        "deleted-records": "60",
        "removed-delete-files": "3",
        "removed-position-delete-files": "2",
        "removed-position-deletes": "6",
        "removed-equality-delete-files": "1",
        "removed-equality-deletes": "2",
        "changed-partition-count": "1",
        "manifests-created": "3",
        "manifests-kept": "0",
        "manifests-replaced": "8",
        "total-data-files": "1",
        "total-records": "52",
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }


def test_columns_of_the_tables_sort_order_have_bounds_whatever_the_default(tmp_path):
    table = TableBuilder(tmp_path, properties={"write.metadata.metrics.default": "none"})
    fields = [
        SortField((id_,), parse_transform(text), "asc", "nulls-first")
        for id_, text in ((1, "bucket[4]"), (2, "identity"), (4, "day"))
    ]
    order = SortOrder(1, tuple(fields))
    metadata = replace(table.metadata, sort_orders=(order,), default_sort_order_id=1)
    assert job_of(metadata, None).options.modes == {
        **dict.fromkeys((1, 3, 5), NONE), **dict.fromkeys((2, 4), TRUNCATE_16)
    }  # fmt: skip


def test_rule_13_new_files_carry_the_sequence_number_that_the_rewrite_started_from(tmp_path):
    build(tmp_path, 2, "none")
    start = head(tmp_path)["sequence-number"]
    run(tmp_path, planned(tmp_path))
    (entry,) = live_entries(head(tmp_path))
    assert (entry["status"], entry["sequence"], entry["file_sequence_number"]) == (1, start, None)
    assert head(tmp_path)["sequence-number"] == start + 1


def test_rule_14_deletes_that_came_meanwhile_go_on_deleting(tmp_path):
    """All files are rewritten while rows are deleted by value and others appended.

    The reference implementation drops the deletes here (apache/iceberg 10312): the files that were
    there before are all gone, and the appended ones have a higher sequence number.
    """
    table = TableBuilder(tmp_path)
    for start in range(0, 20, 5):
        table.append(range(start, start + 5))
    prepared = planned(tmp_path)
    table.delete_rows([3, 11], kind="equality")
    table.append(range(100, 105))
    table.append([3])
    assert run(tmp_path, prepared).failed == {}
    assert ids_of(tmp_path) == sorted({*range(20), *range(100, 105)} - {11})
    assert ids_of(tmp_path).count(3) == 1
    assert [entry["data_file"]["content"] for entry in live_entries(head(tmp_path))].count(2) == 1


def test_a_sorted_group_that_was_dropped_is_sorted_by_the_next_run(tmp_path):
    table = TableBuilder(tmp_path, format_version=2)
    for start in (0, 1, 2, 1000, 1001, 1002):
        table.append(range(start, start + 300, 3))
    by_id = SortOrder(1, (SortField((1,), parse_transform("identity"), "asc", "nulls-first"),))
    how: dict[str, Any] = {"order": by_id, "sizes": Sizes(8192, 1024, 2**20)}
    prepared = planned(tmp_path, **how)
    table.delete_rows([1000])
    assert run(tmp_path, prepared).failed.keys() == {1}
    (group,) = planned(tmp_path, **how).plan.groups
    assert (len(group.files), group.reason) == (3, "3 overlapping others")


def test_rule_11_a_sorted_group_whose_rows_were_deleted_by_position_meanwhile_is_dropped(tmp_path):
    table = TableBuilder(tmp_path, partitioning="identity")
    for start in range(0, 30, 10):
        table.append(range(start, start + 10))
    order = SortOrder(0, (SortField((1,), parse_transform("identity"), "desc", "nulls-last"),))
    prepared = planned(tmp_path, order=order)
    assert len(prepared.plan.groups) == 3
    table.delete_rows([0, 3])
    done = run(tmp_path, prepared)
    assert ids_of(tmp_path) == sorted(table.ids())
    assert len(done.outputs) == 2
    (reason,) = done.failed.values()
    assert "now: version 2 can't find rows again that are sorted by id desc" in reason
    written = [one for one in (tmp_path / "data").rglob("*.parquet") if "-" in one.name[:8]]
    assert len([one for one in written if one.name.count("-") > 5]) == 2


def test_rule_10_groups_half_of_whose_rows_are_gone_are_dropped(tmp_path):
    table = TableBuilder(tmp_path)
    table.append(range(8), files=4)
    prepared = planned(tmp_path)
    table.remove_data_files(2)
    version = current_metadata(tmp_path)
    with pytest.raises(CommitConflict, match="was removed by another commit"):
        run(tmp_path, prepared)
    assert current_metadata(tmp_path) == version
    assert ids_of(tmp_path) == sorted(table.ids())
    assert not [one for one in (tmp_path / "data").rglob("*") if one.name.count("-") > 5]


def test_a_rewrite_survives_an_append_beside_it(tmp_path):
    table = build(tmp_path, 3, "bucket")
    prepared = planned(tmp_path)
    table.append(range(200, 210))
    assert run(tmp_path, prepared).failed == {}
    assert ids_of(tmp_path) == sorted(table.ids())


def test_equality_deletes_of_a_partition_that_rows_move_to_drop_the_group(tmp_path):
    """Rows of unpartitioned files move to a bucket; deletes there did not mean them."""
    table = TableBuilder(tmp_path)
    table.append(range(8), files=2)
    table.respec("bucket")
    prepared = planned(tmp_path)
    assert prepared.plan.groups[0].partition_key is None
    table.append(range(20, 28))
    table.delete_rows([20], kind="equality")
    with pytest.raises(CommitConflict, match="a partition that rows move to"):
        run(tmp_path, prepared)
    assert ids_of(tmp_path) == sorted(table.ids())


def test_rows_of_other_specs_move_to_the_current_one(tmp_path):
    table = TableBuilder(tmp_path, partitioning="identity")
    table.append(range(30))
    table.respec("bucket")
    table.append(range(30, 40))
    run(tmp_path, planned(tmp_path))
    assert ids_of(tmp_path) == list(range(40))
    assert {entry["spec"] for entry in live_entries(head(tmp_path))} == {1}


def partitions_given_up(directory: Path) -> TableBuilder:
    """A table without partitions, whose old rows lie in some, partly deleted."""
    table = TableBuilder(directory, partitioning="identity")
    table.append(range(30))
    table.delete_rows([3, 4, 5], kind="equality")
    table.delete_rows([6, 7], kind="position")
    table.respec("none")
    table.append(range(30, 40))
    return table


def test_rows_leave_partitions_that_were_given_up_for_files_without(tmp_path):
    table = partitions_given_up(tmp_path)
    prepared = planned(tmp_path)
    (group,) = prepared.plan.groups
    assert {file.spec_id for task in group.tasks for file in task.inputs} == {0, 1}
    run(tmp_path, prepared)
    assert ids_of(tmp_path) == sorted(table.ids())
    (entry,) = live_entries(head(tmp_path))
    assert (entry["spec"], entry["sequence"]) == (1, 4)
    assert not planned(tmp_path).plan.has_work


def test_equality_deletes_of_a_partition_that_rows_leave_drop_the_group(tmp_path):
    """A delete of the old spec does not apply to files of the new one."""
    table = partitions_given_up(tmp_path)
    prepared = planned(tmp_path)
    table.spec = table.metadata.partition_specs[0]
    table.types = tuple(result_types(table.spec, [SCHEMA]))
    table.delete_rows([10], kind="equality")
    with pytest.raises(CommitConflict, match="whose rows move"):
        run(tmp_path, prepared)
    assert ids_of(tmp_path) == sorted(table.ids())


@pytest.mark.parametrize("commits", [2, 3, 9])
def test_partial_progress_commits_so_often_and_counts_to_the_same(tmp_path, commits):
    table = build(tmp_path, 3, "identity")
    prepared = planned(tmp_path)
    groups = len(prepared.plan.groups)
    done = run(tmp_path, prepared, commits=commits)
    assert (len(done.snapshot_ids), len(done.outputs)) == (min(commits, groups), groups)
    assert ids_of(tmp_path) == sorted(table.ids())
    assert head(tmp_path)["summary"]["total-records"] == str(len(table.ids()))


def test_deletes_that_apply_to_nothing_go_without_a_group(tmp_path):
    table = TableBuilder(tmp_path)
    table.append(range(10))
    table.delete_rows([1], kind="equality")
    table.remove_data_files(1)
    table.append(range(20, 25))
    prepared = planned(tmp_path, min_input_files=9)
    assert (prepared.plan.groups, prepared.plan.dangling) == ((), (0,))
    assert run(tmp_path, prepared).removed_delete_files == 1
    assert ids_of(tmp_path) == list(range(20, 25))


def test_a_branch_is_compacted_and_main_stays(tmp_path):
    table = build(tmp_path, 2, "none")
    table.ref("audit", "branch")
    table.append(range(100, 110), branch="audit")
    main = head(tmp_path)["snapshot-id"]
    run(tmp_path, planned(tmp_path, "audit"))
    metadata = read_metadata(current_metadata(tmp_path))
    assert metadata["current-snapshot-id"] == main
    assert ids_of(tmp_path, metadata["refs"]["audit"]["snapshot-id"]) == sorted(table.ids("audit"))


def test_r105_row_ids_stay_what_they_were(tmp_path):
    table = build(tmp_path, 3, "none")
    before = lineage(tmp_path)
    run(tmp_path, planned(tmp_path))
    assert lineage(tmp_path) == before
    assert len(before) == len(table.ids())


def test_r106_rows_of_before_an_upgrade_get_their_ids_with_the_commit(tmp_path):
    table = build(tmp_path, 2, "identity")
    table.upgrade()
    assert read_metadata(current_metadata(tmp_path))["next-row-id"] == 0
    done = run(tmp_path, planned(tmp_path), commits=3)
    assert (len(done.snapshot_ids), done.failed) == (1, {})
    found = lineage(tmp_path)
    assert sorted(found) == sorted(table.ids())
    row_ids = sorted(row_id for row_id, _ in found.values())
    assert row_ids == list(range(len(row_ids)))
    metadata = read_metadata(current_metadata(tmp_path))
    assert metadata["next-row-id"] >= len(row_ids)
    assert metadata["snapshots"][-1]["first-row-id"] == 0


def test_r105_rows_that_got_ids_meanwhile_keep_these(tmp_path):
    """New files without ids would give them others: their groups are dropped."""
    table = TableBuilder(tmp_path)
    table.append(range(12), files=3)
    table.upgrade()
    prepared = planned(tmp_path)
    table.append(range(200, 206))
    before = lineage(tmp_path)
    with pytest.raises(CommitConflict, match="has another entry now"):
        run(tmp_path, prepared)
    assert lineage(tmp_path) == before
