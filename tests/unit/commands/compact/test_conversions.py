"""Equality deletes that become deletes by position, alone and beside writers."""

from pathlib import Path
from typing import Any

import pytest

from icectl.entries.conditions import parse_where
from icectl.errors import CommitConflict
from icectl.table.output_sizes import Sizes
from tests.builders.compactions import compacted
from tests.builders.expiry import NOW_MS
from tests.builders.rows import current_metadata, ids_of, read_metadata, rows_without_lineage
from tests.builders.table_builder import TableBuilder
from tests.stores.fixed_env import FixedEnv
from tests.unit.commands.compact.test_deletes import data_files
from tests.unit.commands.compact.test_deletes import delete_files as deletes
from tests.unit.commands.compact.test_run import planned, run


def converting(directory: Path, **chosen: Any):
    return planned(directory, deletes_only=True, **chosen)


def by_value(directory: Path) -> list[dict[str, Any]]:
    return [file for file in deletes(directory) if file["content"] == 2]


def upserted(directory: Path, partitioning: str = "none", version: int = 2) -> TableBuilder:
    """A table of upserts: deletes of keys, then rows with these keys, among deletes of others."""
    table = TableBuilder(directory, format_version=version, partitioning=partitioning)
    table.append(range(24), files=2)
    table.delete_rows([1, 2, 13])
    for keys in ([3, 4, 14], [4, 20], [5, 3]):
        table.delete_rows(keys, kind="equality")
        table.append(keys)
    table.delete_rows([6, 4])
    table.delete_rows([7, 15], kind="equality")
    return table


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partitioning", ["none", "identity", "two"])
def test_rows_stay_and_equality_deletes_go(tmp_path, partitioning, version):
    table = upserted(tmp_path, partitioning, version)
    before = {one: rows_without_lineage(tmp_path, one) for one in table.ids_of}
    files, last = data_files(tmp_path), rows_without_lineage(tmp_path)
    assert by_value(tmp_path)

    done = run(tmp_path, converting(tmp_path))

    assert done.failed == {}
    assert by_value(tmp_path) == []
    assert data_files(tmp_path) == files
    assert rows_without_lineage(tmp_path) == last
    assert {one: rows_without_lineage(tmp_path, one) for one in table.ids_of} == before
    named = [file["referenced_data_file"] for file in deletes(tmp_path)]
    new = [location for location in named if location is not None]
    assert len(set(new)) == len(new)
    again = converting(tmp_path)
    assert (again.plan.groups, again.plan.dangling) == ((), ())


@pytest.mark.parametrize("version", [2, 3])
def test_new_deletes_carry_the_highest_sequence_number_of_those_they_stand_for(tmp_path, version):
    table = TableBuilder(tmp_path, format_version=version)
    table.append(range(10))
    table.delete_rows([1], kind="equality")
    table.append(range(10, 20))
    table.delete_rows([12, 2], kind="equality")
    table.append(range(20, 30))
    table.delete_rows([13])
    run(tmp_path, converting(tmp_path))
    assert sorted((file["record_count"], file["sequence"]) for file in deletes(tmp_path)) == [
        (2, 4),
        (2, 6),
    ]
    assert ids_of(tmp_path) == sorted(table.ids())


def operations(directory: Path) -> list[str]:
    """The operations of all snapshots, in the order in which they came."""
    snapshots = read_metadata(current_metadata(directory))["snapshots"]
    return [item["summary"]["operation"] for item in snapshots]


@pytest.mark.parametrize("version", [2, 3])
def test_the_head_is_a_replacement_and_others_find_the_new_deletes_before_it(tmp_path, version):
    """Rewrites of Iceberg's Java library look for new deletes everywhere but in replacements."""
    table = TableBuilder(tmp_path, format_version=version)
    table.append(range(10))
    table.delete_rows([1, 2], kind="equality")
    done = run(tmp_path, converting(tmp_path))
    assert operations(tmp_path) == ["append", "delete", "delete", "replace"]
    last, between = read_metadata(current_metadata(tmp_path))["snapshots"][::-1][:2]
    assert done.snapshot_ids == (last["snapshot-id"],)
    assert last["parent-snapshot-id"] == between["snapshot-id"]
    for item, kind, count in ((between, "added", "1"), (last, "removed", "1")):
        told = {key: value for key, value in item["summary"].items() if key.startswith(kind)}
        assert told[f"{kind}-delete-files"] == count
    assert ids_of(tmp_path, between["snapshot-id"]) == ids_of(tmp_path) == sorted(table.ids())


@pytest.mark.parametrize("version", [2, 3])
def test_keys_that_no_row_has_leave_nothing_behind(tmp_path, version):
    """Nobody can miss what deletes nothing: there is no other snapshot than the replacement."""
    table = TableBuilder(tmp_path, format_version=version)
    table.append(range(0, 20, 2))
    table.delete_rows([5, 100], kind="keys")
    prepared = converting(tmp_path)
    (group,) = prepared.plan.groups
    assert [len(task.inputs) for task in group.tasks] == [1]
    run(tmp_path, prepared)
    assert deletes(tmp_path) == []
    assert operations(tmp_path) == ["append", "delete", "replace"]
    assert ids_of(tmp_path) == list(range(0, 20, 2))


def test_vectors_are_listed_in_the_order_in_which_they_lie_in_their_file(tmp_path):
    """Listed otherwise, DuckDB 1.5 takes one for another, unless its cache of files is off."""
    table = TableBuilder(tmp_path, format_version=3)
    table.append(range(80), files=20)
    table.delete_rows(range(0, 80, 8))
    table.delete_rows(range(1, 80, 4), kind="equality")
    run(tmp_path, converting(tmp_path))
    places = [(file["file_path"], file["content_offset"]) for file in deletes(tmp_path)]
    assert (len(places), len({path for path, _ in places})) == (20, 1)
    assert places == sorted(places)


def test_data_files_whose_bounds_have_no_key_are_not_read(tmp_path):
    table = TableBuilder(tmp_path)
    for start in range(0, 50, 10):
        table.append(range(start, start + 10))
    table.delete_rows([3, 100], kind="keys")  # between them are the bounds of all files
    table.delete_rows([48, 49], kind="keys")
    (group,) = converting(tmp_path).plan.groups
    assert [len(task.inputs) for task in group.tasks] == [5]
    table = TableBuilder(tmp_path / "other")
    for start in range(0, 50, 10):
        table.append(range(start, start + 10))
    table.delete_rows([100], kind="keys")
    table.delete_rows([48, 49], kind="keys")
    prepared = converting(tmp_path / "other")
    (group,) = prepared.plan.groups
    assert [len(task.inputs) for task in group.tasks] == [1]
    assert len(group.files) == 5
    run(tmp_path / "other", prepared)
    assert by_value(tmp_path / "other") == []
    assert ids_of(tmp_path / "other") == list(range(48))


def test_upserts_that_come_meanwhile_are_no_conflict(tmp_path):
    table = upserted(tmp_path)
    prepared = converting(tmp_path)
    table.delete_rows([8, 9], kind="equality")
    table.append([8])
    assert run(tmp_path, prepared).failed == {}
    assert len(by_value(tmp_path)) == 1
    assert ids_of(tmp_path) == sorted(table.ids())
    compacted(tmp_path, converting(tmp_path), env=FixedEnv(NOW_MS, uuids=50, snapshot_ids=50))
    assert by_value(tmp_path) == []
    assert ids_of(tmp_path) == sorted(table.ids())


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_by_position_that_come_meanwhile_are_merged(tmp_path, version):
    table = upserted(tmp_path, version=version)
    prepared = converting(tmp_path)
    table.delete_rows([0, 22, 5])
    assert run(tmp_path, prepared).failed == {}
    assert by_value(tmp_path) == []
    assert ids_of(tmp_path) == sorted(table.ids())


@pytest.mark.parametrize("version", [2, 3])
def test_files_that_are_gone_meanwhile_are_left_out(tmp_path, version):
    table = upserted(tmp_path, version=version)
    prepared = converting(tmp_path)
    table.remove_data_files(1)
    run(tmp_path, prepared)
    assert by_value(tmp_path) == []
    assert ids_of(tmp_path) == sorted(table.ids())
    assert {file["referenced_data_file"] for file in deletes(tmp_path)} <= data_files(tmp_path)


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_that_another_rewrite_made_meanwhile_is_treated_again(tmp_path, version):
    """It keeps the sequence number of its base, so that newer equality deletes apply to it."""
    table = TableBuilder(tmp_path, format_version=version)
    for start in range(0, 30, 10):
        table.append(range(start, start + 10))
    rewriting = planned(tmp_path, every=True)
    table.delete_rows([3, 14, 25], kind="equality")
    prepared = converting(tmp_path)
    compacted(tmp_path, rewriting, env=FixedEnv(NOW_MS, uuids=50, snapshot_ids=50))
    assert len(data_files(tmp_path)) == 1
    assert ids_of(tmp_path) == sorted(table.ids())

    run(tmp_path, prepared)

    assert by_value(tmp_path) == []
    assert ids_of(tmp_path) == sorted(table.ids())


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_that_are_taken_back_meanwhile_delete_nothing(tmp_path, version):
    table = TableBuilder(tmp_path, format_version=version)
    table.append(range(10))
    kept = table.delete_rows([1], kind="equality")
    table.delete_rows([2], kind="equality")
    prepared = converting(tmp_path)
    table.ref("main", "branch", snapshot_id=kept)
    run(tmp_path, prepared)
    assert ids_of(tmp_path) == [0, *range(2, 10)]
    assert by_value(tmp_path) == []


def test_where_nothing_is_left_it_is_a_conflict(tmp_path):
    table = TableBuilder(tmp_path)
    first = table.append(range(10))
    table.delete_rows([2], kind="equality")
    prepared = converting(tmp_path)
    table.ref("main", "branch", snapshot_id=first)
    with pytest.raises(CommitConflict):
        run(tmp_path, prepared)
    assert ids_of(tmp_path) == list(range(10))


def test_a_delete_stays_as_long_as_one_of_its_files_is_not_selected(tmp_path):
    table = TableBuilder(tmp_path)
    table.append(range(10))
    table.append(range(10, 20))
    table.delete_rows([1], kind="equality")
    assert converting(tmp_path, where=parse_where("id < 5", table.metadata)).plan.groups == ()


def test_conversions_count_towards_the_bytes_of_a_run(tmp_path):
    upserted(tmp_path, "identity", 3)
    groups = converting(tmp_path).plan.groups
    sizes = [group.input_bytes for group in groups]
    assert len(sizes) == 3  # one a partition
    some = converting(tmp_path, max_bytes=sizes[0] + sizes[1] + sizes[2] - 1).plan
    assert [group.files for group in some.groups] == [group.files for group in groups[:2]]
    left = "left to another run by `--max-rewrite` or `budget.rewrite-bytes`"
    assert some.left_alone[left] == len(groups[2].files)
    none = converting(tmp_path, max_bytes=min(sizes) - 1).plan
    assert (none.groups, none.smallest_bytes) == ((), min(sizes))

    for number in range(len(sizes)):  # the next run takes what is left
        prepared = converting(tmp_path, max_bytes=max(sizes))
        env = FixedEnv(NOW_MS, uuids=50 * number, snapshot_ids=50 * number)
        compacted(tmp_path, prepared, env=env)
    assert by_value(tmp_path) == []


def test_conversions_have_what_rewrites_leave_of_the_bytes_of_a_run(tmp_path):
    table = TableBuilder(tmp_path, format_version=3)
    table.append(range(200))
    large = max(path.stat().st_size for path in (tmp_path / "data").iterdir())
    for keys in ([3, 4], [5], [6]):
        table.delete_rows(keys, kind="equality")
        table.append(keys)
    chosen = {"sizes": Sizes(large, large // 2, 2 * large), "min_delete_files": 2}
    first, conversion = planned(tmp_path, **chosen).plan.groups
    size = first.input_bytes + conversion.input_bytes
    assert len(planned(tmp_path, max_bytes=size, **chosen).plan.groups) == 2
    assert len(planned(tmp_path, max_bytes=size - 1, **chosen).plan.groups) == 1


def test_steps_are_by_age_the_oldest_first(tmp_path):
    table = TableBuilder(tmp_path, format_version=3)
    table.append(range(40))
    for key in range(6):
        table.delete_rows([key, key + 20], kind="equality")
        table.append([key])
    prepared = converting(tmp_path, steps=3)
    numbers = [
        [file.sequence_number for file in group.conversion.deletes]
        for group in prepared.plan.groups
        if group.conversion is not None
    ]
    assert numbers == [[2, 4], [6, 8], [10, 12]]
    done = compacted(tmp_path, prepared, env=FixedEnv(NOW_MS, uuids=50, snapshot_ids=50), commits=3)
    assert len(done.snapshot_ids) == 3
    assert by_value(tmp_path) == []
    assert ids_of(tmp_path) == sorted(table.ids())
    assert [len(rows_without_lineage(tmp_path, one)) for one in done.snapshot_ids] == [
        len(table.ids())
    ] * 3


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partitioning", ["none", "identity"])
def test_a_plain_run_merges_small_files_and_converts_what_applies_to_large_ones(
    tmp_path, partitioning, version
):
    table = TableBuilder(tmp_path, format_version=version, partitioning=partitioning)
    table.append(range(400))
    table.delete_rows([390])
    for keys in ([1, 2], [2, 300], [4, 399], [1, 301]):
        table.delete_rows(keys, kind="equality")
        table.append(keys)
    chosen = {"sizes": Sizes(2700, 2500, 2**21), "min_delete_files": 2}
    large = {path for path in data_files(tmp_path) if Path(path).stat().st_size >= 2500}
    assert large
    prepared = planned(tmp_path, **chosen)
    kinds = [group.keeps_files for group in prepared.plan.groups]
    assert set(kinds) == {True, False}
    assert kinds == sorted(kinds)
    before = rows_without_lineage(tmp_path)

    done = run(tmp_path, prepared)

    assert done.failed == {}
    assert len(done.snapshot_ids) == 2
    assert by_value(tmp_path) == []
    assert large < data_files(tmp_path)
    assert len(data_files(tmp_path)) < len(large) + 4
    assert rows_without_lineage(tmp_path) == before
    assert ids_of(tmp_path) == sorted(table.ids())
    again = planned(tmp_path, **chosen)
    assert (again.plan.groups, again.plan.dangling) == ((), ())


@pytest.mark.parametrize("version", [2, 3])
def test_files_whose_rewrite_another_commit_has_prevented_are_looked_into(tmp_path, version):
    table = TableBuilder(tmp_path, format_version=version)
    table.append(range(400))
    for keys in ([1, 2], [2, 300], [4, 2]):
        table.delete_rows(keys, kind="equality")
        table.append(keys)
    prepared = planned(tmp_path, sizes=Sizes(2700, 2500, 2**21), min_delete_files=3)
    assert len(prepared.plan.groups) == 2
    table.delete_rows([300, 2])
    with pytest.raises(CommitConflict):
        run(tmp_path, prepared)
    env = FixedEnv(NOW_MS, uuids=50, snapshot_ids=50)
    assert [*compacted(tmp_path, prepared, env=env, max_failed_commits=1).failed] == [0]
    assert by_value(tmp_path) == []
    assert ids_of(tmp_path) == sorted(table.ids())
