"""What a lost manifest had in it, as other snapshots prove it: just that, or nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.commands.repair.lost import proven_entries
from icectl.entries.rows import Entries
from icectl.errors import Incomplete, StorageError
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.storage.failures import ACCESS_DENIED
from tests.builders.lost_manifests import (
    Failing,
    listed,
    lose,
    manifest_of,
    reader_of,
    relist,
    with_snapshot,
)
from tests.builders.table_builder import TableBuilder, filled_table

FACTS = ("location", "snapshot_id", "sequence_number", "file_sequence_number", "record_count")


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Appends of 4, 3 and 2 rows, the last of which merged the manifests of the others."""
    built = TableBuilder(tmp_path / "t", merge_manifests_above=1)
    for first, after in ((0, 4), (4, 7), (7, 9)):
        built.append(range(first, after))
    return built


def ids(table: TableBuilder) -> list[int]:
    return [one.snapshot_id for one in table.metadata.snapshots]


def facts(entries: Entries | None) -> list[tuple[Any, ...]]:
    assert entries is not None
    assert set(entries.table["status"].to_pylist()) == {0}  # existing
    return sorted(tuple(row[name] for name in FACTS) for row in entries.table.to_pylist())


def added(table: TableBuilder, *snapshot_ids: int) -> list[tuple[Any, ...]]:
    """What the builder put into the files that snapshots added."""
    rows = [row for row in table.live() if row["snapshot_id"] in snapshot_ids]
    return sorted(tuple(row[name] for name in FACTS) for row in rows)


def merged(table: TableBuilder) -> ManifestFile:
    """The lost manifest of the last snapshot, of the files of the two before it."""
    return lose(manifest_of(table, ids(table)[-1], is_new=False))


def mixed(table: TableBuilder) -> ManifestFile:
    """A lost manifest of the third snapshot, which added a file in it and kept two.

    A fourth snapshot has all of them in other manifests.
    """
    third = ids(table)[2]
    kept = manifest_of(table, third, is_new=False)
    table.append(range(9, 10))
    lost = replace(
        kept,
        manifest_path=f"{table.location}/metadata/lost.avro",
        added_files_count=1,
        added_rows_count=2,
    )
    relist(table, third, [lost])
    assert (lost.existing_files_count, lost.existing_rows_count) == (2, 7)
    return lost


def test_files_that_it_kept_are_those_of_the_parent_that_nothing_else_has(table):
    first, second, _ = ids(table)
    expected = added(table, first, second)
    assert [(row[2], row[4]) for row in expected] == [(1, 4), (2, 3)]
    assert facts(proven_entries(reader_of(table), merged(table))) == expected


@pytest.mark.parametrize("at", [0, 1])
def test_files_that_it_added_are_those_that_others_list_as_added_by_its_snapshot(table, at):
    lost = lose(manifest_of(table, ids(table)[at]))
    assert facts(proven_entries(reader_of(table), lost)) == added(table, ids(table)[at])


def test_files_that_several_others_list_are_listed_once(table):
    first = ids(table)[0]
    table.append(range(9, 10))
    assert len({one.manifest_path for at in ids(table) for one in listed(table, at)}) == 6
    lost = lose(manifest_of(table, first))
    assert facts(proven_entries(reader_of(table), lost)) == added(table, first)


def test_files_that_it_added_and_those_that_it_kept_are_both_proved(table):
    expected = added(table, *ids(table))
    lost = mixed(table)
    assert facts(proven_entries(reader_of(table), lost)) == expected


@pytest.mark.parametrize(
    "name", ["added_files_count", "added_rows_count", "existing_files_count", "existing_rows_count"]
)
def test_counts_that_are_not_known_or_wrong_prove_nothing(table, name):
    lost = mixed(table)
    right = getattr(lost, name)
    for count in (None, right - 1, right + 1):
        # Without any file of a kind the rest is proved, and that would not be all.
        if count != 0:
            assert proven_entries(reader_of(table), replace(lost, **{name: count})) is None


def test_a_manifest_without_live_files_is_not_proved(table):
    nothing = {
        f"{status}_{kind}_count": 0
        for status in ("added", "existing")
        for kind in ("files", "rows")
    }
    assert proven_entries(reader_of(table), replace(merged(table), **nothing)) is None


@pytest.mark.parametrize("writer", [None, 99])
def test_a_manifest_of_no_known_snapshot_is_not_proved(table, writer):
    lost = replace(merged(table), added_snapshot_id=writer)
    assert proven_entries(reader_of(table), lost) is None


@pytest.mark.parametrize("parent", [None, 99])
def test_files_are_not_known_to_be_kept_without_the_parent(table, parent):
    lost = merged(table)
    metadata = with_snapshot(table.metadata, ids(table)[2], parent_snapshot_id=parent)
    assert proven_entries(reader_of(table, metadata=metadata), lost) is None


def list_of(table: TableBuilder, at: int) -> str:
    return str(table.metadata.snapshots[at].manifest_list)


def own_manifest(table: TableBuilder, at: int) -> str:
    return manifest_of(table, ids(table)[at]).manifest_path


@pytest.mark.parametrize("file_of", [list_of, own_manifest])
@pytest.mark.parametrize(("at", "is_proved"), [(0, True), (1, False), (2, False)])
def test_the_parent_and_the_rest_of_the_snapshot_have_to_be_whole_for_what_it_kept(
    table, file_of, at, is_proved
):
    path = Path(file_of(table, at))
    lost = merged(table)
    path.write_bytes(b"")
    if file_of is own_manifest:
        is_proved = False  # the parent has the first manifest too
    assert (proven_entries(reader_of(table), lost) is not None) is is_proved


@pytest.mark.parametrize("file_of", [list_of, own_manifest])
@pytest.mark.parametrize("at", [1, 3])
def test_others_need_not_be_whole_for_what_it_added(table, file_of, at):
    table.append(range(9, 10))
    lost = lose(manifest_of(table, ids(table)[0]))
    Path(file_of(table, at)).unlink()
    assert facts(proven_entries(reader_of(table), lost)) == added(table, ids(table)[0])


def test_files_that_no_other_snapshot_lists_are_not_proved(table):
    lost = lose(manifest_of(table, ids(table)[2]))
    assert proven_entries(reader_of(table), lost) is None


def test_files_that_were_removed_since_are_not_proved(tmp_path):
    table = filled_table(tmp_path / "t", range(4), range(4, 7))
    table.remove_data_files(2)
    lost = lose(manifest_of(table, ids(table)[0]))
    assert proven_entries(reader_of(table), lost) is None


def test_files_that_the_snapshot_removed_are_not_among_those_that_it_kept(tmp_path):
    table = TableBuilder(tmp_path / "t")
    first = table.append(range(3))
    second = table.append(range(3, 7), files=2)
    last = table.remove_data_files(1)
    removing, kept = sorted(listed(table, last), key=lambda one: one.added_files_count or 0)
    assert (removing.existing_files_count, removing.deleted_files_count) == (1, 1)
    lost = replace(
        kept,
        manifest_path=f"{table.location}/metadata/lost.avro",
        added_snapshot_id=last,
        sequence_number=removing.sequence_number,
        added_files_count=0,
        added_rows_count=0,
        existing_files_count=1,
        existing_rows_count=3,
    )
    relist(table, last, [removing, lost])
    assert facts(proven_entries(reader_of(table), lost)) == added(table, first)
    # The parent's other manifest may have had a file that was kept, too.
    own = Path(manifest_of(table, second).manifest_path)
    content = own.read_bytes()
    own.unlink()
    assert proven_entries(reader_of(table), lost) is None
    own.write_bytes(content)
    # Which of two it removed itself, and which it kept, nothing else tells.
    assert proven_entries(reader_of(table), lose(removing)) is None
    assert [row["record_count"] for row in table.live() if row["snapshot_id"] == second] == [2]


@pytest.mark.parametrize("spec_id", [0, 1])
def test_files_of_another_partition_spec_were_in_another_manifest(tmp_path, spec_id):
    table = filled_table(tmp_path / "t", [0], merge_manifests_above=1)
    table.respec("identity")
    table.append([1])
    table.append([2])
    (lost,) = [
        lose(one)
        for one in listed(table, ids(table)[2])
        if not one.added_files_count and one.partition_spec_id == spec_id
    ]
    assert facts(proven_entries(reader_of(table), lost)) == added(table, ids(table)[spec_id])


@pytest.mark.parametrize("is_new", [True, False])
def test_vectors_in_one_file_are_told_by_their_place_in_it(tmp_path, is_new):
    table = TableBuilder(tmp_path / "t", format_version=3, merge_manifests_above=1)
    table.append(range(8), files=2)
    deleting = table.delete_rows([1, 2, 5])
    last = table.append(range(8, 9))
    vectors = [row for row in table.live() if row["content"] == 1]
    assert len({row["location"] for row in vectors}) == 1
    expected = sorted((row["content_offset"], row["record_count"]) for row in vectors)
    assert sorted(count for _, count in expected) == [1, 2]
    by = deleting if is_new else last
    lost = lose(manifest_of(table, by, ManifestContent.DELETES, is_new=is_new))
    found = proven_entries(reader_of(table), lost)
    assert found is not None
    columns = (found.table[name].to_pylist() for name in ("content_offset", "record_count"))
    assert sorted(zip(*columns, strict=True)) == expected


def test_data_files_are_proved_where_a_manifest_of_deletes_is_lost_too(tmp_path):
    table = TableBuilder(tmp_path / "t", merge_manifests_above=1)
    first = table.append(range(4))
    deleting = table.delete_rows([1])
    last = table.append(range(4, 8))
    for content, by in ((ManifestContent.DATA, first), (ManifestContent.DELETES, deleting)):
        lost = lose(manifest_of(table, last, content, is_new=False))
        assert facts(proven_entries(reader_of(table), lost)) == added(table, by)


@pytest.mark.parametrize("file_of", [list_of, own_manifest])
def test_a_store_that_is_ill_is_no_loss(table, file_of):
    ill = Failing("read", file_of(table, 1), StorageError("the network is down"))
    lost = merged(table)
    with pytest.raises(StorageError, match="the network is down"):
        proven_entries(reader_of(table, store=ill), lost)


@pytest.mark.parametrize("file_of", [list_of, own_manifest])
def test_a_file_that_may_not_be_read_proves_nothing(table, file_of):
    denied = StorageError("may not be read", id=ACCESS_DENIED)
    store = Failing("read", file_of(table, 1), denied)
    lost = merged(table)
    assert proven_entries(reader_of(table, store=store), lost) is None


def test_the_time_limit_ends_the_search(table):
    lost = merged(table)
    with pytest.raises(Incomplete):
        proven_entries(reader_of(table, ends_at_seconds=0), lost)


def row_ids(entries: Entries | None) -> list[tuple[int, int]]:
    """Rows of each file and the id of its first one."""
    assert entries is not None
    columns = (entries.table[name].to_pylist() for name in ("record_count", "first_row_id"))
    return sorted(zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("at", "is_new", "first", "expected"),
    [(0, True, 0, [(2, 3), (3, 0)]), (2, False, 10, [(2, 3), (3, 0), (4, 5)])],
)
def test_r103_row_ids_are_those_that_files_have_in_other_manifests(
    tmp_path, at, is_new, first, expected
):
    table = TableBuilder(tmp_path / "t", format_version=3, merge_manifests_above=1)
    table.append(range(5), files=2)
    table.append(range(5, 9))
    table.append(range(9, 10))
    lost = lose(manifest_of(table, ids(table)[at], is_new=is_new))
    assert lost.first_row_id == first
    assert row_ids(proven_entries(reader_of(table), lost)) == expected


def upgraded(tmp_path: Path, files: int) -> tuple[TableBuilder, ManifestFile]:
    """A table of version 3 whose branch knew files of a lost manifest before they had row ids.

    The manifest is as the last snapshot of main lists it: six rows, behind one of its own.
    """
    table = TableBuilder(tmp_path / "t", merge_manifests_above=1)
    wrote = table.append(range(6), files=files)
    table.append([6], branch="b")
    table.append([7], branch="b")
    table.upgrade()
    lost = lose(manifest_of(table, table.append([8]), by=wrote))
    assert (lost.first_row_id, lost.added_rows_count) == (1, 6)
    return table, lost


def test_r103_a_file_without_a_row_id_has_the_first_of_its_manifest(tmp_path):
    table, lost = upgraded(tmp_path, 1)
    assert row_ids(proven_entries(reader_of(table), lost)) == [(6, 1)]


def test_r103_files_without_row_ids_are_not_proved_where_their_order_is_lost(tmp_path):
    table, lost = upgraded(tmp_path, 2)
    assert proven_entries(reader_of(table), lost) is None


@pytest.mark.parametrize(("files", "expected"), [(1, [(6, 1)]), (2, None)])
def test_r103_row_ids_of_another_branch_are_not_those_of_this_one(tmp_path, files, expected):
    table, lost = upgraded(tmp_path, files)
    before = [one for one in table.metadata.snapshots if one.sequence_number in (2, 3)]
    table.append([9], branch="b")
    for one in before:
        Path(str(one.manifest_list)).unlink()
    found = proven_entries(reader_of(table), lost)
    assert (None if found is None else row_ids(found)) == expected
