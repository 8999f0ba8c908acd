"""Compactions beside writers that delete: the new files have the deletes that came meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from icectl.rows.sort_rows import Curve
from tests.builders.compactions import compacted, lineage, planned
from tests.builders.expiry import NOW_MS
from tests.builders.rows import head, ids_of, live_entries, local
from tests.builders.table_builder import TableBuilder
from tests.builders.twins import grown
from tests.stores.fixed_env import FixedEnv

ID = 1
DOWN = SortOrder(0, (SortField((ID,), parse_transform("identity"), "desc", "nulls-last"),))
WAYS: dict[str, dict[str, Any]] = {
    "rewrite": {"method": "rewrite"},
    "merge": {"method": "merge"},
    "sort": {"method": "rewrite", "order": DOWN},
    "curve": {"method": "rewrite", "order": Curve((ID, 2))},
}


def cases(quick: str, full: str) -> list[Any]:
    """Ways and versions, as in `rewrite-2`; of those of version 4 most take seconds."""
    marks = [
        *((one, ()) for one in quick.split()),
        *((one, pytest.mark.full) for one in full.split()),
    ]
    return [
        pytest.param(WAYS[way], int(version), marks=mark, id=f"{way}-{version}")
        for one, mark in marks
        for way, _, version in [one.partition("-")]
    ]


def built(directory: Path, version: int) -> TableBuilder:
    appends = [range(start, start + 12) for start in range(0, 60, 12)]
    return grown(directory, version, appends, "identity")


def deletes(directory: Path) -> list[dict]:
    files = [entry["data_file"] for entry in live_entries(head(directory))]
    return [file for file in files if file["content"] == 1]


@pytest.mark.parametrize(
    ("way", "version"),
    cases("rewrite-2 rewrite-3 merge-2 merge-3 merge-4 sort-3 curve-3", "rewrite-4 sort-4 curve-4"),
)
def test_rows_that_were_deleted_meanwhile_stay_so(tmp_path, version, way):
    table = built(tmp_path, version)
    prepared = planned(tmp_path, **way)
    table.delete_rows([0, 3, 13, 59])
    table.delete_rows([4, 16])
    before = lineage(tmp_path) if version > 2 else {}

    env = FixedEnv(NOW_MS)
    done = compacted(tmp_path, prepared, env=env)

    assert done.failed == {}
    assert ids_of(tmp_path) == sorted(set(range(60)) - {0, 3, 13, 59, 4, 16})
    assert (lineage(tmp_path) if version > 2 else {}) == before
    assert done.carried_deletes == 6
    assert head(tmp_path)["summary"]["icectl.carried-deletes"] == "6"
    locations = {
        entry["data_file"]["file_path"]
        for entry in live_entries(head(tmp_path))
        if entry["data_file"]["content"] == 0
    }
    assert {file["referenced_data_file"] for file in deletes(tmp_path)} <= locations
    assert len(locations) == 3
    compacted(tmp_path, planned(tmp_path, min_delete_ratio=0.01), env=env)
    assert ids_of(tmp_path) == sorted(set(range(60)) - {0, 3, 13, 59, 4, 16})
    assert not deletes(tmp_path)


@pytest.mark.parametrize(
    ("way", "version"), cases("rewrite-2 rewrite-3 sort-3", "rewrite-4 sort-4 curve-4")
)
def test_rows_that_were_left_out_do_not_count(tmp_path, version, way):
    table = built(tmp_path, version)
    table.delete_rows([0, 6, 12, 13, 30])
    prepared = planned(tmp_path, **way)
    table.delete_rows([3, 15, 27, 57, 14])
    table.delete_rows([9, 10], kind="equality") if version == 2 else table.delete_rows([9, 10])
    done = compacted(tmp_path, prepared)
    assert done.failed == {}
    assert ids_of(tmp_path) == sorted(set(range(60)) - {0, 6, 12, 13, 30, 3, 15, 27, 57, 14, 9, 10})
    assert done.carried_deletes == (5 if version == 2 else 7)


@pytest.mark.parametrize(
    ("way", "version"),
    cases("rewrite-2 rewrite-3 merge-2 merge-3 sort-3", "rewrite-4 merge-4 sort-4"),
)
def test_files_that_have_gone_have_no_row_left(tmp_path, version, way):
    table = built(tmp_path, version)
    prepared = planned(tmp_path, **way)
    table.remove_data_files(1)
    table.replace_data_files(1)
    done = compacted(tmp_path, prepared)
    assert done.failed == {}
    assert ids_of(tmp_path) == sorted(table.ids())
    assert done.carried_deletes == 8


@pytest.mark.parametrize(
    ("way", "words"),
    [("sort", "sorted by id desc nulls last"), ("curve", "in Z-order of id, category")],
)
def test_version_2_finds_no_row_that_was_sorted(tmp_path, way, words):
    table = built(tmp_path, 2)
    prepared = planned(tmp_path, **WAYS[way])
    table.delete_rows([3])
    done = compacted(tmp_path, prepared)
    assert ids_of(tmp_path) == sorted(set(range(60)) - {3})
    (why,) = done.failed.values()
    assert why.endswith(
        f"are deleted by position now: version 2 can't find rows again that are {words}"
    )


def test_equality_deletes_that_were_applied_let_the_group_fall_away(tmp_path):
    table = built(tmp_path, 2)
    table.delete_rows([3], kind="equality")
    prepared = planned(tmp_path)
    table.delete_rows([6])
    done = compacted(tmp_path, prepared)
    assert ids_of(tmp_path) == sorted(set(range(60)) - {3, 6})
    assert len(done.failed) == 1
    assert next(iter(done.failed.values())).endswith("are deleted by position now")


class Expiring(FixedEnv):
    """A file goes between the rewrite and its commit: only the planned snapshot needed it."""

    def __init__(self, file: Path) -> None:
        super().__init__(NOW_MS)
        self.file = file

    def new_snapshot_id(self) -> int:
        self.file.unlink()
        return super().new_snapshot_id()


@pytest.mark.parametrize("version", [3, pytest.param(4, marks=pytest.mark.full)])
def test_deletes_that_have_expired_meanwhile_let_the_group_fall_away(tmp_path, version):
    table = built(tmp_path, version)
    table.delete_rows([3])
    prepared = planned(tmp_path)
    (vector,) = [file["file_path"] for file in deletes(tmp_path)]
    table.delete_rows([6, 9])
    done = compacted(tmp_path, prepared, env=Expiring(local(vector)))
    assert list(done.failed.values()) == [
        "deletes that the plan was made with have expired with their snapshot"
    ]
    assert ids_of(tmp_path) == sorted(set(range(60)) - {3, 6, 9})


def test_sorted_files_that_have_expired_meanwhile_let_the_group_fall_away(tmp_path):
    table = built(tmp_path, 3)
    prepared = planned(tmp_path, **WAYS["sort"])
    before = {entry["data_file"]["file_path"] for entry in live_entries(head(tmp_path))}
    table.remove_data_files(1)
    (gone,) = before - {entry["data_file"]["file_path"] for entry in live_entries(head(tmp_path))}
    done = compacted(tmp_path, prepared, env=Expiring(local(gone)))
    assert list(done.failed.values()) == ["files that were sorted are gone with their snapshot"]
    assert ids_of(tmp_path) == sorted(table.ids())
