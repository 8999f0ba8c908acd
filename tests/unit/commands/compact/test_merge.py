"""Compactions that merge: rows, lineage and entries, what is left alone, and what falls back."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pyarrow.parquet as pq
import pytest

from icectl.cli.settings import SMALLEST_ROW_GROUP_BYTES
from icectl.commands.compact.plan import LEFT_ALONE
from icectl.commands.compact.report import Compaction, compaction_result
from icectl.entries.file_verdicts import FileVerdict
from icectl.errors import CommitConflict, Refused, SelfCheckFailed
from icectl.rows import compact_job, merge_files
from icectl.rows.choice import EngineChoice
from icectl.rows.compact_job import TaskCounts
from icectl.table.mergeable import Mergeable, choose_method
from icectl.table.output_sizes import Sizes
from icectl.table.rewrite_tasks import Bin
from tests.builders.broken import Broken
from tests.builders.compactions import compacted, lineage, planned
from tests.builders.expiry import NOW_MS
from tests.builders.rows import head, live_entries, rows_without_lineage
from tests.builders.table_builder import TableBuilder
from tests.builders.tree_table import upgrade
from tests.stores.fixed_env import FixedEnv

MANY_DELETED = "many of its rows are deleted, or by many files"


def built(directory: Path, version: int, partitioning: str = "none") -> TableBuilder:
    """A table of small files without deletes."""
    table = TableBuilder(directory, format_version=version, partitioning=partitioning)
    for start in range(0, 36, 12):
        table.append(range(start, start + 12), files=2)
    return table


def data_files(directory: Path) -> list[dict]:
    return [
        entry["data_file"]
        for entry in live_entries(head(directory))
        if not entry["data_file"].get("content")
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("partitioning", ["none", "identity", "two"])
def test_a_merge_keeps_the_law(tmp_path, version, partitioning):
    table = built(tmp_path, version, partitioning)
    before = {one: rows_without_lineage(tmp_path, one) for one in table.ids_of}
    ids = lineage(tmp_path) if version == 3 else {}
    old = [file["file_path"] for file in data_files(tmp_path)]
    prepared = planned(tmp_path, method="merge")
    assert {group.choice.method for group in prepared.plan.groups} == {"merge"}

    done = compacted(tmp_path, prepared)

    assert {one: rows_without_lineage(tmp_path, one) for one in table.ids_of} == before
    assert rows_without_lineage(tmp_path) == before[max(before)]
    assert (lineage(tmp_path) if version == 3 else {}) == ids
    assert {one.choice.method for one in done.outputs.values()} == {"merge"}
    new = [file for file in data_files(tmp_path) if file["file_path"] not in old]
    assert len(new) == len(prepared.plan.groups)
    for file in new:
        metadata = pq.read_metadata(file["file_path"])
        assert metadata.num_rows == file["record_count"]
        assert len(file["split_offsets"]) == metadata.num_row_groups
        assert not file["sort_order_id"]
    assert planned(tmp_path, method="merge").plan.groups == ()


def test_rows_that_are_deleted_later_stay_so(tmp_path):
    table = built(tmp_path, 2)
    prepared = planned(tmp_path, method="merge")
    table.delete_rows([3, 30], kind="equality")
    compacted(tmp_path, prepared)
    assert [row["id"] for row in rows_without_lineage(tmp_path)] == sorted(set(range(36)) - {3, 30})
    assert len(data_files(tmp_path)) == 1


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partitioning", ["none", "identity"])
def test_deletes_by_position_come_along(tmp_path, version, partitioning):
    table = built(tmp_path, version, partitioning)
    table.delete_rows([3, 13, 14])
    table.delete_rows([30])
    before = rows_without_lineage(tmp_path), lineage(tmp_path) if version == 3 else {}
    old = {file["file_path"] for file in data_files(tmp_path)}
    env = FixedEnv(NOW_MS)
    done = compacted(tmp_path, planned(tmp_path, method="merge", min_delete_ratio=0.9), env=env)
    assert {one.choice.method for one in done.outputs.values()} == {"merge"}
    assert done.carried_deletes == 0
    assert "icectl.carried-deletes" not in head(tmp_path)["summary"]
    assert (rows_without_lineage(tmp_path), lineage(tmp_path) if version == 3 else {}) == before
    entries = [entry["data_file"] for entry in live_entries(head(tmp_path))]
    new = {file["file_path"] for file in entries if not file["content"]}
    assert old.isdisjoint(new)
    named = [file["referenced_data_file"] for file in entries if file["content"]]
    assert sorted(named) == sorted(set(named) & new)
    assert sum(file["record_count"] for file in entries if file["content"]) == 4
    compacted(tmp_path, planned(tmp_path, every=True, min_delete_ratio=0.01), env=env)
    assert rows_without_lineage(tmp_path) == before[0]


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_from_before_and_from_meanwhile_come_along(tmp_path, version):
    table = built(tmp_path, version)
    table.delete_rows([3, 13])
    prepared = planned(tmp_path, method="merge", min_delete_ratio=0.9)
    table.delete_rows([4, 14, 35])
    table.remove_data_files(1)
    left = rows_without_lineage(tmp_path)
    done = compacted(tmp_path, prepared)
    assert rows_without_lineage(tmp_path) == left
    assert {row["id"] for row in left} == set(table.ids())
    assert done.carried_deletes >= 3


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("method", ["merge", "rewrite"])
def test_rows_whose_deletes_are_undone_meanwhile_are_live_again(tmp_path, version, method):
    table = built(tmp_path, version)
    before = max(table.ids_of)
    table.delete_rows([3, 30])
    prepared = planned(tmp_path, method=method, min_delete_ratio=0.9)
    table.ref("main", "branch", snapshot_id=before)
    if method == "merge":
        done = compacted(tmp_path, prepared)
        assert (len(done.outputs), done.failed, done.carried_deletes) == (1, {}, 0)
    else:
        with pytest.raises(CommitConflict, match="are live again"):
            compacted(tmp_path, prepared)
    assert [row["id"] for row in rows_without_lineage(tmp_path)] == [*range(36)]


def test_files_are_put_together_with_their_deleted_rows(tmp_path):
    """A merge keeps these: six files whose rows fit into one file become two."""
    built(tmp_path, 3).delete_rows(range(0, 36, 3))
    before = rows_without_lineage(tmp_path)
    size = max(file["file_size_in_bytes"] for file in data_files(tmp_path))
    sizes = Sizes(4 * size + size // 5, 2 * size, 5 * size)
    prepared = planned(tmp_path, method="merge", sizes=sizes, min_delete_ratio=0.9)
    (group,) = prepared.plan.groups
    assert sorted(len(task.inputs) for task in group.tasks) == [2, 4]
    assert group.expected_bytes == group.input_bytes
    assert prepared.plan.odd == {}
    compacted(tmp_path, prepared)
    assert len(data_files(tmp_path)) == 2
    assert rows_without_lineage(tmp_path) == before


@pytest.mark.parametrize("chosen", [{"min_delete_ratio": 0.1}, {"min_delete_files": 1}])
def test_files_with_many_deletes_stay_or_are_rewritten_and_others_are_merged(tmp_path, chosen):
    built(tmp_path, 2).delete_rows([3])
    before = rows_without_lineage(tmp_path)
    prepared = planned(tmp_path, method="auto", merge_row_group=1, **chosen)
    assert [
        (group.choice.method, group.choice.why, group.input_files) for group in prepared.plan.groups
    ] == [("auto", ANY, 5), ("rewrite", MANY_DELETED, 1)]
    compacted(tmp_path, planned(tmp_path, method="merge", **chosen))
    assert rows_without_lineage(tmp_path) == before
    left = {file["record_count"]: file["file_path"] for file in data_files(tmp_path)}
    assert left.keys() == {6, 30}
    plan = planned(tmp_path, method="merge", **chosen).plan
    assert not plan.groups
    plan = planned(tmp_path, method="merge", every=True, **chosen).plan
    assert plan.odd == {left[6]: MANY_DELETED, left[30]: "it is a single file"}


def test_a_file_that_is_not_parquet_stays_and_the_others_are_merged(tmp_path):
    built(tmp_path, 2)
    Broken(tmp_path).edit_manifest(
        lambda entries: entries[0]["data_file"].update(file_format="AVRO")
    )
    (odd,) = (file["file_path"] for file in data_files(tmp_path) if file["file_format"] == "AVRO")
    for method in ("merge", "auto"):
        plan = planned(tmp_path, method=method, merge_row_group=1).plan
        assert [(group.choice.method, group.input_files) for group in plan.groups] == [(method, 5)]
        assert plan.odd == {odd: "it is not in Parquet"}
        assert plan.left_alone == {LEFT_ALONE[FileVerdict.NOT_MERGEABLE]: 1}
    least = planned(tmp_path, method="auto", merge_row_group=1 << 20).plan
    assert [group.choice.method for group in least.groups] == ["rewrite"]
    assert not least.odd


@pytest.mark.parametrize(
    ("partitioning", "meanwhile"),
    [("none", "nothing"), ("identity", "position"), ("none", "equality"), ("identity", "gone")],
)
def test_equality_deletes_become_deletes_by_position(tmp_path, partitioning, meanwhile):
    table = built(tmp_path, 2, partitioning)
    table.delete_rows([3, 13], kind="equality")
    table.append(range(36, 48), files=2)
    table.delete_rows([30, 40], kind="equality")
    table.delete_rows([8])
    env = FixedEnv(NOW_MS)
    prepared = planned(tmp_path, method="merge", min_delete_ratio=0.6)
    if meanwhile == "gone":
        table.remove_data_files(1)
    elif meanwhile != "nothing":
        table.delete_rows([14, 31, 36], kind=meanwhile)
    before = rows_without_lineage(tmp_path)
    done = compacted(tmp_path, prepared, env=env)
    assert {one.choice.method for one in done.outputs.values()} == {"merge"}
    assert not done.failed
    assert rows_without_lineage(tmp_path) == before
    assert [row["id"] for row in before] == sorted(table.ids())
    assert (done.carried_deletes > 0) == (meanwhile in ("position", "gone"))
    assert not planned(tmp_path, method="merge", min_delete_ratio=0.6).plan.groups
    kinds = [entry["data_file"]["content"] for entry in live_entries(head(tmp_path))]
    assert (2 in kinds) == (meanwhile == "equality")


@pytest.mark.parametrize("version", [2, 3])
def test_files_whose_rows_are_all_deleted_go_beside_others_that_are_merged(tmp_path, version):
    """Random tables of Spark's had such partitions, and their merge was refused."""
    table = TableBuilder(tmp_path, format_version=version, partitioning="identity")
    for start in range(0, 18, 6):
        table.append(range(start, start + 6))
    table.delete_rows(range(0, 18, 3), kind="equality")  # those of category c0
    done = compacted(tmp_path, planned(tmp_path, method="merge", min_delete_ratio=0.9))
    assert (done.failed, len(done.outputs)) == ({}, 3)
    live = [entry["data_file"] for entry in live_entries(head(tmp_path))]
    assert [file["content"] for file in live] == [0, 0]
    assert [row["id"] for row in rows_without_lineage(tmp_path)] == sorted(table.ids())


@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_of_all_partitions_delete_what_they_did(tmp_path, version):
    """Files of an older, partitioned spec, and deletes of one without partitions."""
    table = built(tmp_path, version, "identity")
    table.respec("none")
    table.delete_rows([4, 14], kind="equality")
    prepared = planned(tmp_path, method="merge", min_delete_ratio=0.9, output_spec_id=0)
    table.delete_rows([7, 17], kind="equality")
    table.delete_rows([8, 18])
    before = rows_without_lineage(tmp_path)
    done = compacted(tmp_path, prepared)
    assert {one.choice.method for one in done.outputs.values()} == {"merge"}
    assert (len(done.outputs), done.carried_deletes) == (3, 2)
    assert rows_without_lineage(tmp_path) == before
    assert [row["id"] for row in before] == sorted(set(range(36)) - {4, 14, 7, 17, 8, 18})


def test_merged_and_rewritten_files_of_a_group_land_together(tmp_path):
    """Of two files to be made, one can't be merged; both have rows that are deleted by value."""
    built(tmp_path, 2).delete_rows([3, 13, 30], kind="equality")
    before = rows_without_lineage(tmp_path)
    size = data_files(tmp_path)[0]["file_size_in_bytes"]
    sizes = Sizes(size * 3 + size // 2, size * 2, size * 4)
    prepared = planned(
        tmp_path, method="auto", merge_row_group=1, sizes=sizes, min_delete_ratio=0.6
    )
    (group,) = prepared.plan.groups
    assert len(group.tasks) == 2
    other_writer(tmp_path)
    assert [one.choice.method for one in compacted(tmp_path, prepared).outputs.values()] == ["auto"]
    assert rows_without_lineage(tmp_path) == before


def test_files_that_were_merged_are_rewritten_with_others_in_version_3(tmp_path):
    built(tmp_path, 3)
    env = FixedEnv(NOW_MS)
    compacted(tmp_path, planned(tmp_path, method="merge"), env=env)
    before = rows_without_lineage(tmp_path), lineage(tmp_path)
    (merged,) = data_files(tmp_path)
    again = planned(tmp_path, method="merge", every=True, min_input_files=1)
    assert merged["record_count"] == 36
    assert again.plan.left_alone[LEFT_ALONE[FileVerdict.NOT_MERGEABLE]] == 1
    compacted(tmp_path, planned(tmp_path, every=True), env=env)
    assert (rows_without_lineage(tmp_path), lineage(tmp_path)) == before


def other_writer(directory: Path, at: int = 0, name: bytes = b"parquet-cpp-arrox") -> None:
    """Have one of the files say that another program wrote it."""
    rename_writer(Path(data_files(directory)[at]["file_path"]), name)


def rename_writer(path: Path, name: bytes) -> None:
    path.write_bytes(path.read_bytes().replace(b"parquet-cpp-arrow", name))


def test_a_file_of_another_writer_stays_and_the_others_are_merged(tmp_path):
    built(tmp_path, 2)
    before = rows_without_lineage(tmp_path)
    other_writer(tmp_path)
    odd = data_files(tmp_path)[0]["file_path"]
    for method in ("merge", "auto"):
        prepared = planned(tmp_path, method=method, merge_row_group=1)
        assert prepared.plan.left_alone == {LEFT_ALONE[FileVerdict.NOT_MERGEABLE]: 1}
        assert prepared.plan.odd == {odd: "it has another writer than the files beside it"}
        (group,) = prepared.plan.groups
        assert (group.input_files, group.expected_files, group.decoded_bytes) == (5, 1, 0)
    done = compacted(tmp_path, prepared)
    assert [one.choice.method for one in done.outputs.values()] == ["merge"]
    assert rows_without_lineage(tmp_path) == before
    assert odd in {file["file_path"] for file in data_files(tmp_path)}
    assert planned(tmp_path, method="auto", merge_row_group=1).plan.groups == ()


@pytest.mark.parametrize("version", [2, 3])
def test_odd_files_are_rewritten_beside_those_that_merge(tmp_path, version):
    """Of twelve files two have a column as text would not: each in a way of its own."""
    table = TableBuilder(tmp_path, format_version=version)
    for start in range(0, 72, 12):
        table.append(range(start, start + 12), files=2)
    table.delete_rows([3, 40, 70])
    before = rows_without_lineage(tmp_path), lineage(tmp_path) if version == 3 else {}
    other_writer(tmp_path, 0, b"parquet-cpp-arrox")
    other_writer(tmp_path, 5, b"parquet-cpp-arroy")
    files = data_files(tmp_path)
    odd_bytes = files[0]["file_size_in_bytes"] + files[5]["file_size_in_bytes"]
    prepared = planned(tmp_path, method="auto", merge_row_group=1, min_delete_ratio=0.9)
    (group,) = prepared.plan.groups
    assert [task.method for task in group.tasks] == ["auto", "rewrite"]
    assert (group.input_files, group.expected_files) == (12, 2)
    assert group.decoded_bytes == odd_bytes
    assert "; 2 of 12 files decoded (`" in group.choice.why
    result = compaction_result(Compaction(prepared, EngineChoice("local"), TaskCounts()))
    assert result["groups"][0]["decoded_bytes"] == odd_bytes
    assert result["methods"]["rewrite"]["read_bytes"] == odd_bytes
    assert sum(one["read_bytes"] for one in result["methods"].values()) == group.input_bytes
    table.delete_rows([4, 41, 71])  # while they are rewritten
    gone = {4, 41, 71}
    assert compacted(tmp_path, prepared).carried_deletes == 3
    kept = [row for row in before[0] if row["id"] not in gone]
    assert rows_without_lineage(tmp_path) == kept
    if version == 3:
        ids = lineage(tmp_path)
        assert ids == {id_: of for id_, of in before[1].items() if id_ in ids}
        assert len(ids) == len(kept)


def test_files_of_which_hardly_any_are_alike_are_rewritten_together(tmp_path):
    built(tmp_path, 2)
    before = rows_without_lineage(tmp_path)
    for at in range(4):
        other_writer(tmp_path, at, b"parquet-cpp-arro" + bytes([65 + at]))
    prepared = planned(tmp_path, method="auto", merge_row_group=1)
    (group,) = prepared.plan.groups
    assert [task.method for task in group.tasks] == ["auto", "rewrite"]  # two alike, four odd
    other_writer(tmp_path, 4, b"parquet-cpp-arroE")
    prepared = planned(tmp_path, method="auto", merge_row_group=1)
    (group,) = prepared.plan.groups
    assert (group.choice.method, group.expected_files) == ("rewrite", 1)
    assert group.rewritten_bytes == group.input_bytes
    compacted(tmp_path, prepared)
    assert rows_without_lineage(tmp_path) == before
    assert planned(tmp_path, method="merge").plan.groups == ()


def test_a_group_that_turns_out_not_to_merge_is_left_alone(tmp_path):
    """Between plan and run one file of each of two partitions comes from another writer."""
    built(tmp_path, 2, "identity")
    before = rows_without_lineage(tmp_path)
    prepared = planned(tmp_path, method="merge")
    keys = [group.files[0] for group in prepared.plan.groups]
    locations = prepared.files.data.table["location"].to_pylist()
    for at in keys[:2]:
        rename_writer(Path(locations[at]), b"parquet-cpp-arrox")
    done = compacted(tmp_path, prepared, commits=3)
    told = [why.partition("`: ") for why in done.failed.values()]
    assert [why for _, _, why in told] == ["it has another writer than the files beside it"] * 2
    assert all(start.startswith("it can't be merged: `") for start, _, _ in told)
    assert len(done.outputs) == len(prepared.plan.groups) - 2
    assert rows_without_lineage(tmp_path) == before
    assert head(tmp_path)["summary"]["operation"] == "replace"


def test_where_no_group_turns_out_to_merge_nothing_is_committed(tmp_path):
    built(tmp_path, 2)
    before = rows_without_lineage(tmp_path)
    prepared = planned(tmp_path, method="merge")
    other_writer(tmp_path)
    old = sorted(path for path in tmp_path.rglob("*.parquet"))
    with pytest.raises(Refused, match="has another writer than"):
        compacted(tmp_path, prepared)
    assert rows_without_lineage(tmp_path) == before
    assert sorted(path for path in tmp_path.rglob("*.parquet")) == old


def test_auto_merges_large_row_groups(tmp_path, monkeypatch):
    built(tmp_path, 2)
    called = []
    merge = compact_job.merge_files
    monkeypatch.setattr(
        compact_job, "merge_files", lambda *parts: called.append(parts) or merge(*parts)
    )
    small = planned(tmp_path, method="auto")
    assert [group.choice.method for group in small.plan.groups] == ["rewrite"]
    assert "below 4.0 MiB" in small.plan.groups[0].choice.why
    done = compacted(tmp_path, planned(tmp_path, method="auto", merge_row_group=1))
    assert [one.choice.method for one in done.outputs.values()] == ["merge"]
    assert len(called) == 1


def test_bins_that_no_merge_makes():
    sizes = Sizes(100, 50, 200)
    stored, row_groups = np.array([40, 40, 90, 180]), np.array([1, 2, 0, 2])
    found = Mergeable(np.zeros((4, 4), bool), stored, row_groups, sizes)

    def chosen(bin_: Bin, method="auto", least=SMALLEST_ROW_GROUP_BYTES) -> str:
        return choose_method(method, found, [bin_], least).why

    assert chosen(Bin((0,), None, 40)) == "it is a single file"
    assert chosen(Bin((3,), (0, 90), 80)) == "it is to be cut"
    too_large = "its files are too large for one, with their deleted rows"
    assert chosen(Bin((0, 1, 2), None, 80)) == too_large
    assert chosen(Bin((0, 2), None, 130)) == "the sizes of its row groups are not known"
    assert chosen(Bin((0, 1), None, 80), least=20) == "median row group 20 B, 20 B or more"
    assert choose_method("auto", found, [Bin((0, 1), None, 80)], 20).method == "auto"
    assert choose_method("auto", found, [Bin((0, 1), None, 80)], 21).method == "rewrite"
    assert choose_method("merge", found, [Bin((0, 2), None, 80)], 21).method == "merge"
    moving = replace(found, obstacles=np.eye(4, dtype=bool))
    assert choose_method("merge", moving, [Bin((1, 2), None, 80)], 1).why == MANY_DELETED


def test_tables_of_sfc_1_are_merged_without_deletes(tmp_path):
    built(tmp_path, 3, "identity")
    env = FixedEnv(NOW_MS)
    upgrade(tmp_path, env)
    before = rows_without_lineage(tmp_path)
    done = compacted(tmp_path, planned(tmp_path, method="merge"), env=env)
    assert {one.choice.method for one in done.outputs.values()} == {"merge"}
    assert rows_without_lineage(tmp_path) == before


def test_auto_finds_nothing_to_do_a_second_time(tmp_path):
    table = built(tmp_path, 2)
    table.delete_rows([3, 14])
    table.delete_rows([30], kind="equality")
    how = {"method": "auto", "merge_row_group": 1, "min_delete_ratio": 0.5}
    every = planned(tmp_path, **how, every=True).plan
    assert {group.choice.why for group in every.groups} == {"requested by --rewrite-all"}
    done = compacted(tmp_path, planned(tmp_path, **how))
    assert [one.choice.method for one in done.outputs.values()] == ["merge"]
    assert not planned(tmp_path, **how).plan.has_work


@pytest.mark.parametrize("version", [2, 3])
def test_rows_of_merges_are_compared_where_that_is_asked_for(tmp_path, version, monkeypatch):
    built(tmp_path, version, "identity").delete_rows([3, 14])
    before = rows_without_lineage(tmp_path)
    prepared = planned(tmp_path, method="merge", verifies_rows=True, min_delete_ratio=0.5)
    real = merge_files.MergedFile.add

    def add_again(merged, source, file, copy=None) -> None:
        """Copy the first file in the place of each: all have as many rows."""
        first, path = vars(add_again).setdefault("source", (source, Path(file.name)))
        with path.open("rb") as other:
            real(merged, first, other)

    with monkeypatch.context() as patched:
        patched.setattr(merge_files.MergedFile, "add", add_again)
        with pytest.raises(SelfCheckFailed, match="not those of the old ones"):
            compacted(tmp_path, prepared)
    compacted(tmp_path, prepared)
    assert rows_without_lineage(tmp_path) == before
