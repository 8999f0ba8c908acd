"""What can be read of the head of a branch, and the changes that repairs make of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from icectl.commands.repair.head import ManifestChange, ReadHead, counted_manifest, read_head
from icectl.entries.rows import EMPTY
from icectl.errors import CorruptTable, Incomplete, MissingFile, StorageError
from icectl.storage.failures import ACCESS_DENIED
from tests.builders.broken import Broken, in_first
from tests.builders.lost_manifests import Failing, listed, lose, reader_of, relist, snapshot_of
from tests.builders.table_builder import TableBuilder, filled_table


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Appends of 4 and 3 rows, in a manifest each, the newer one first in the list."""
    return filled_table(tmp_path / "t", [1, 4, 7, 10], [2, 5, 8], partitioning="identity")


def head_of(table: TableBuilder) -> ReadHead:
    return read_head(reader_of(table), snapshot_of(table, last(table)))


def last(table: TableBuilder) -> int:
    return table.metadata.snapshots[-1].snapshot_id


def test_changes_of_a_manifest_come_together():
    first = ManifestChange(
        3, dropped=frozenset({1}), restated={4: {"record_count": 1}, 5: {"record_count": 2}}
    )
    second = ManifestChange(
        3, described=True, dropped=frozenset({2}), restated={5: {"record_count": 3}}
    )
    assert first | second == ManifestChange(
        3,
        described=True,
        dropped=frozenset({1, 2}),
        restated={4: {"record_count": 1}, 5: {"record_count": 3}},
    )
    assert second | first == ManifestChange(
        3,
        described=True,
        dropped=frozenset({1, 2}),
        restated={4: {"record_count": 1}, 5: {"record_count": 2}},
    )


@pytest.mark.parametrize("name", ["gone", "described"])
def test_a_manifest_goes_or_is_counted_where_one_of_its_changes_says_so(name):
    plain, told = ManifestChange(0), replace(ManifestChange(0), **{name: True})
    for found, is_so in ((plain | plain, False), (plain | told, True), (told | plain, True)):
        assert getattr(found, name) is is_so
        assert not getattr(found, {"gone": "described", "described": "gone"}[name])


def test_what_stands_in_for_a_manifest_stays():
    plain, rebuilt = ManifestChange(0), ManifestChange(0, rebuilt=EMPTY)
    assert (plain | rebuilt).rebuilt is EMPTY
    assert (rebuilt | plain).rebuilt is EMPTY
    assert (plain | plain).rebuilt is None


def test_a_head_is_read_with_its_list_and_every_manifest(table):
    found = head_of(table)
    assert [one.index for one in found.read] == [0, 1]
    assert found.snapshot == snapshot_of(table, last(table))
    assert list(found.listed.manifests) == listed(table, last(table))
    entries = [one for one in found.entries if one is not None]
    assert [one.table["record_count"].to_pylist() for one in entries] == [[3], [4]]
    assert [one.table["sequence_number"].to_pylist() for one in entries] == [[2], [1]]
    assert [one.table["manifest"].to_pylist() for one in entries] == [[0], [0]]
    assert (found.is_whole, found.is_proven, found.changes) == (True, False, ())


@pytest.mark.parametrize("at", [0, 1])
def test_a_manifest_that_is_gone_leaves_the_others(table, at):
    lose(listed(table, last(table))[at])
    found = head_of(table)
    assert [one is None for one in found.entries] == [at == 0, at == 1]
    assert [type(one.problem) for one in found.read] == [
        MissingFile if place == at else type(None) for place in (0, 1)
    ]
    assert not found.is_whole


def test_r043_a_manifest_whose_entries_have_no_number_is_broken_too(table):
    """An EXISTING entry inherits none."""
    broken = Broken(table.directory)
    broken.edit_manifest(in_first(lambda entry: entry.update(status=0, sequence_number=None)))
    found = head_of(table)
    assert [one.problem for one in found.read] == [None, None]
    assert found.entries.count(None) == 1
    assert not found.is_whole


def test_a_list_that_is_gone_leaves_nothing(table):
    path = Path(str(snapshot_of(table, last(table)).manifest_list))
    path.unlink()
    found = head_of(table)
    assert [location for location, _ in found.listed.problems] == [str(path)]
    assert (found.read, found.entries, found.is_whole) == ((), (), False)


def test_a_store_that_is_ill_is_no_loss(table):
    path = listed(table, last(table))[0].manifest_path
    snapshot = snapshot_of(table, last(table))
    ill = Failing("read", path, StorageError("the network is down"))
    with pytest.raises(StorageError, match="the network is down"):
        read_head(reader_of(table, store=ill), snapshot)
    denied = Failing("read", path, StorageError("may not be read", id=ACCESS_DENIED))
    found = read_head(reader_of(table, store=denied), snapshot)
    assert [isinstance(one.problem, CorruptTable) for one in found.read] == [False, False]
    assert not found.is_whole


def test_the_time_limit_ends_the_reading(table):
    with pytest.raises(Incomplete):
        read_head(reader_of(table, ends_at_seconds=0), snapshot_of(table, last(table)))


@pytest.mark.parametrize(
    "mistake", [{"manifest_length": 5}, {"added_files_count": 9, "existing_rows_count": 9}]
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_row_that_is_counted_anew_is_the_one_that_was_right(tmp_path, version, mistake):
    table = filled_table(tmp_path / "t", range(7), format_version=version, partitioning="two")
    if version > 1:
        table.delete_rows([2, 3])
    table.remove_data_files(1)
    right = listed(table, last(table))
    wrong = [
        replace(one, **mistake, min_sequence_number=0, partitions=None, key_metadata=b"key")
        for one in right
    ]
    relist(table, last(table), wrong)
    head = head_of(table)
    found = [counted_manifest(reader_of(table), head, place) for place in range(len(right))]
    assert [replace(one, key_metadata=None) for one in found] == right
    assert {one.key_metadata for one in found} == {b"key"}


def test_r052_the_row_of_a_manifest_of_an_unknown_spec_is_not_counted(table):
    first, second = listed(table, last(table))
    relist(table, last(table), [replace(first, partition_spec_id=9), second])
    head = head_of(table)
    assert head.is_whole
    with pytest.raises(CorruptTable, match="spec 9 is not in the table") as raised:
        counted_manifest(reader_of(table), head, 0)
    assert raised.value.rule == "R-052"
    assert counted_manifest(reader_of(table), head, 1) == second
