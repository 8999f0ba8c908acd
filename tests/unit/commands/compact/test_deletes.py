"""Merging of deletes in built tables, alone and beside other writers, rows read without icectl."""

from pathlib import Path
from typing import Any

import pytest

from icectl.entries.conditions import parse_where
from icectl.entries.rows import by_row
from icectl.errors import CommitConflict, Unsupported
from tests.builders.compactions import compacted
from tests.builders.expiry import NOW_MS
from tests.builders.respell import respell_data_files
from tests.builders.rows import (
    current_metadata,
    dv_positions,
    ids_of,
    live_entries,
    read_metadata,
    read_records,
    rows_without_lineage,
)
from tests.builders.table_builder import TableBuilder
from tests.stores.fixed_env import FixedEnv
from tests.unit.commands.compact.test_run import head, lineage, planned, run


def merging(directory: Path, **chosen: Any):
    return planned(directory, deletes_only=True, **chosen)


def delete_files(directory: Path) -> list[dict[str, Any]]:
    """Live delete files and vectors, with their sequence numbers."""
    return [
        entry["data_file"] | {"sequence": entry["sequence"]}
        for entry in live_entries(head(directory))
        if entry["data_file"]["content"]
    ]


def data_files(directory: Path) -> set[str]:
    found = live_entries(head(directory))
    return {one["data_file"]["file_path"] for one in found if not one["data_file"]["content"]}


def build(directory: Path, partitioning: str = "none", version: int = 2) -> TableBuilder:
    table = TableBuilder(directory, format_version=version, partitioning=partitioning)
    table.append(range(24), files=2)
    for doomed in ([1, 2, 13], [4, 15, 20], [5]):
        table.delete_rows(doomed)
    return table


@pytest.mark.parametrize("partitioning", ["none", "identity"])
def test_deletes_of_a_data_file_become_one_of_it_alone(tmp_path, partitioning):
    table = build(tmp_path, partitioning)
    table.delete_rows([22], kind="equality")
    before = {one: rows_without_lineage(tmp_path, one) for one in table.ids_of}
    files, last = data_files(tmp_path), rows_without_lineage(tmp_path)

    done = run(tmp_path, merging(tmp_path))

    assert done.failed == {}
    assert data_files(tmp_path) == files
    assert rows_without_lineage(tmp_path) == last
    assert {one: rows_without_lineage(tmp_path, one) for one in table.ids_of} == before
    by_position = [file for file in delete_files(tmp_path) if file["content"] == 1]
    named = [{record["file_path"] for record in read_records(file)} for file in by_position]
    assert all(len(paths) == 1 for paths in named)
    merged = [file for file in by_position if Path(file["file_path"]).name.count("-") > 5]
    assert len(merged) == sum(one.file_count for one in done.outputs.values())
    assert [file["referenced_data_file"] for file in merged] == [
        read_records(file)[0]["file_path"] for file in merged
    ]
    assert len({frozenset(paths) for paths in named}) == len(named)
    again = merging(tmp_path)
    assert (again.plan.groups, again.plan.dangling) == ((), ())


def test_r121_a_merged_file_is_sorted_and_says_what_it_holds(tmp_path):
    table = TableBuilder(tmp_path)
    table.append(range(12))
    table.delete_rows([9, 2])
    table.delete_rows([5])
    run(tmp_path, merging(tmp_path))
    (file,) = delete_files(tmp_path)
    (path,) = data_files(tmp_path)
    assert [(one["file_path"], one["pos"]) for one in read_records(file)] == [
        (path, 2), (path, 5), (path, 9),
    ]  # fmt: skip
    bounds = {
        name: {item["key"]: item["value"] for item in file[name]}
        for name in ("lower_bounds", "upper_bounds")
    }
    assert bounds == {
        "lower_bounds": {2147483546: path.encode(), 2147483545: (2).to_bytes(8, "little")},
        "upper_bounds": {2147483546: path.encode(), 2147483545: (9).to_bytes(8, "little")},
    }
    assert (file["record_count"], file["file_size_in_bytes"]) == (
        3,
        Path(file["file_path"]).stat().st_size,
    )


def test_rule_16_a_merged_file_carries_the_highest_sequence_number_of_its_sources(tmp_path):
    """Not that of its commit: rows that are written again later are not its business."""
    table = build(tmp_path)
    table.append(range(30, 40))
    table.append(range(40, 50))
    table.delete_rows([45])
    assert {file["sequence"] for file in delete_files(tmp_path)} == {2, 3, 4, 7}
    run(tmp_path, merging(tmp_path))
    # 1, 2, 4, 5 are in one file, deleted from in 2, 3 and 4; 13, 15, 20 in another, in 2 and 3.
    found = {file["record_count"]: file["sequence"] for file in delete_files(tmp_path)}
    assert found == {4: 4, 3: 3, 1: 7}


def test_rule_9_deletes_come_in_the_place_of_deletes(tmp_path):
    build(tmp_path)
    run(tmp_path, merging(tmp_path))
    summary = head(tmp_path)["summary"]
    assert summary["operation"] == "replace"
    assert {key: value for key, value in summary.items() if "delete" in key} == {
        "added-delete-files": "2",
        "added-position-delete-files": "2",
        "added-position-deletes": "7",
        "removed-delete-files": "3",
        "removed-position-delete-files": "3",
        "removed-position-deletes": "7",
        "total-delete-files": "2",
        "total-position-deletes": "7",
        "total-equality-deletes": "0",
    }
    assert "added-data-files" not in summary


def test_a_data_file_of_one_delete_file_is_left_alone(tmp_path):
    table = TableBuilder(tmp_path, partitioning="identity")
    table.append(range(12))
    table.delete_rows([0, 1, 2])
    found = merging(tmp_path).plan
    assert found.groups == ()
    assert found.left_alone == {"deletes already merged": 3}


def test_files_that_share_a_delete_file_are_merged_together(tmp_path):
    """The second has one delete file only, which could not go while it is needed."""
    table = TableBuilder(tmp_path)
    table.append(range(10), files=1)
    table.append(range(10, 20), files=1)
    table.append(range(20, 30), files=1)
    table.delete_rows([1, 11])
    table.delete_rows([2])
    table.delete_rows([21])
    (group,) = merging(tmp_path).plan.groups
    assert (len(group.files), group.input_files, group.expected_files) == (2, 2, 2)
    run(tmp_path, merging(tmp_path))
    assert sorted(file["record_count"] for file in delete_files(tmp_path)) == [1, 1, 2]
    assert ids_of(tmp_path) == sorted(table.ids())
    assert merging(tmp_path).plan.groups == ()


@pytest.mark.parametrize(("least", "groups"), [(2, 1), (3, 1), (4, 0)])
def test_so_many_delete_files_are_a_reason(tmp_path, least, groups):
    build(tmp_path)
    assert len(merging(tmp_path, min_delete_files=least).plan.groups) == groups


def test_all_deletes_are_written_anew_where_asked_for(tmp_path):
    table = TableBuilder(tmp_path)
    table.append(range(10))
    table.delete_rows([1])
    run(tmp_path, merging(tmp_path, every=True))
    (file,) = delete_files(tmp_path)
    assert file["referenced_data_file"] is not None
    assert ids_of(tmp_path) == sorted(table.ids())


def test_r115_position_deletes_become_vectors_after_an_upgrade(tmp_path):
    table = build(tmp_path, "identity")
    table.upgrade()
    table.append(range(30, 36))
    table.delete_rows([30, 8])  # the vector of the file of 8 has all of its old deletes
    before = rows_without_lineage(tmp_path), row_ids(tmp_path)

    run(tmp_path, merging(tmp_path))

    found = delete_files(tmp_path)
    assert {file["file_format"] for file in found} == {"PUFFIN"}
    assert len({file["referenced_data_file"] for file in found}) == len(found)
    assert sum(len(dv_positions(file)) for file in found) == 9
    assert all(len(dv_positions(file)) == file["record_count"] for file in found)
    assert (rows_without_lineage(tmp_path), row_ids(tmp_path)) == before
    assert ids_of(tmp_path) == sorted(table.ids())
    assert (merging(tmp_path).plan.groups, merging(tmp_path).plan.dangling) == ((), ())


def row_ids(directory: Path) -> dict[str, int]:
    """The first row id of each data file."""
    return dict(by_row(merging(directory).files.data, "location", "first_row_id"))


def test_r115_a_shared_delete_file_stays_until_all_its_files_have_vectors(tmp_path):
    table = TableBuilder(tmp_path)
    table.append(range(10))
    table.append(range(10, 20))
    table.delete_rows([1, 11])
    table.upgrade()

    first = merging(tmp_path, where=parse_where("id < 10", table.metadata))
    assert [len(group.files) for group in first.plan.groups] == [1]
    run(tmp_path, first)
    assert sorted(file["file_format"] for file in delete_files(tmp_path)) == ["PARQUET", "PUFFIN"]
    assert ids_of(tmp_path) == sorted(table.ids())
    env = FixedEnv(NOW_MS, uuids=50, snapshot_ids=50)
    compacted(tmp_path, merging(tmp_path), env=env)
    assert [file["file_format"] for file in delete_files(tmp_path)] == ["PUFFIN", "PUFFIN"]
    assert ids_of(tmp_path) == sorted(table.ids())


@pytest.mark.parametrize(("files", "groups"), [(4, 0), (5, 1)])
def test_vectors_of_many_small_files_move_into_one(tmp_path, files, groups):
    table = TableBuilder(tmp_path, format_version=3, partitioning="bucket")
    for start in range(0, 10 * files, 10):
        table.append(range(start, start + 10))
        table.delete_rows([start, start + 3])
    before, old = lineage(tmp_path), delete_files(tmp_path)
    prepared = merging(tmp_path, min_input_files=5)
    assert len(prepared.plan.groups) == groups
    if not groups:
        return
    run(tmp_path, prepared)
    new = delete_files(tmp_path)
    assert len({file["file_path"] for file in old}) == files
    assert len({file["file_path"] for file in new}) == 1
    assert vectors(new) == vectors(old)
    assert ids_of(tmp_path) == sorted(table.ids())
    assert lineage(tmp_path) == before
    assert merging(tmp_path, min_input_files=1).plan.groups == ()


def vectors(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Positions and sequence number of each data file's vector."""
    return {file["referenced_data_file"]: (dv_positions(file), file["sequence"]) for file in found}


def test_deletes_that_come_meanwhile_drop_their_group(tmp_path):
    table = build(tmp_path, "identity")
    prepared = merging(tmp_path)
    assert [len(group.files) for group in prepared.plan.groups] == [2, 1]
    table.delete_rows([8])
    done = run(tmp_path, prepared)
    assert (len(done.outputs), len(done.failed)) == (1, 1)
    assert ids_of(tmp_path) == sorted(table.ids())


def test_a_vector_that_comes_meanwhile_is_not_replaced(tmp_path):
    table = build(tmp_path)
    table.upgrade()
    prepared = merging(tmp_path)
    table.delete_rows([7])
    version = current_metadata(tmp_path)
    with pytest.raises(CommitConflict, match="are deleted by position now"):
        run(tmp_path, prepared)
    assert current_metadata(tmp_path) == version
    assert ids_of(tmp_path) == sorted(table.ids())
    assert not [one for one in (tmp_path / "data").rglob("*") if one.name.count("-") > 5]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_deletes_there_is_nothing_to_do(tmp_path, version):
    TableBuilder(tmp_path, format_version=version).append(range(10))
    assert not merging(tmp_path).plan.has_work


def test_deletes_that_readers_apply_differently_are_refused(tmp_path):
    """Their spelling of the data file's path is another than that of its manifest entry."""
    table = build(tmp_path)
    assert read_metadata(current_metadata(tmp_path))["location"] == table.location
    respell_data_files(table, f"file://{table.location}")
    with pytest.raises(Unsupported, match="in another form"):
        merging(tmp_path)
