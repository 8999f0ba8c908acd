"""Inheritance of snapshot ids, sequence numbers and row ids."""

from typing import Any

import pyarrow as pa
import pytest

from icectl.entries.inherit import inherit
from icectl.entries.rows import PLANNING, RawEntries
from icectl.errors import CorruptTable
from icectl.format.manifest import Content, ManifestContent, ManifestFile, Status

ADDED, EXISTING, DELETED = Status.ADDED, Status.EXISTING, Status.DELETED


def listed(
    sequence_number: int = 8,
    first_row_id: int | None = None,
    content: ManifestContent = ManifestContent.DATA,
    snapshot_id: int | None = 70,
) -> ManifestFile:
    return ManifestFile(
        "m", 1, 0, content, sequence_number, 0, snapshot_id, first_row_id=first_row_id
    )


def stored(*entries: dict[str, Any], columns: list[str] | None = None) -> RawEntries:
    required = {
        "content": Content.DATA, "status": ADDED, "location": "f", "file_format": 3, "spec_id": 0,
        "partition_key": b"", "record_count": 10, "file_size_in_bytes": 1, "manifest": 0,
    }  # fmt: skip
    found = [required | {"manifest_pos": at} | entry for at, entry in enumerate(entries)]
    table = pa.Table.from_pylist(found, schema=PLANNING)
    return RawEntries(table if columns is None else table.select(columns))


def column(entries: Any, name: str) -> list[int | None]:
    return entries.table[name].to_pylist()


def test_r042_added_entries_inherit_every_number():
    entries = inherit(stored({}, {"manifest": 1}), [listed(8), listed(9, snapshot_id=71)])
    assert column(entries, "snapshot_id") == [70, 71]
    assert column(entries, "sequence_number") == [8, 9]
    assert column(entries, "file_sequence_number") == [8, 9]


def test_r045_an_added_entry_keeps_an_older_data_sequence_number():
    entries = inherit(stored({"sequence_number": 3}), [listed(8)])
    assert column(entries, "sequence_number") == [3]
    assert column(entries, "file_sequence_number") == [8]


def test_r042_snapshot_ids_are_inherited_by_every_status():
    numbers = {"sequence_number": 1, "file_sequence_number": 1}
    raw = stored(
        {"status": EXISTING, **numbers}, {"status": DELETED, **numbers}, {"snapshot_id": 5}
    )
    assert column(inherit(raw, [listed()]), "snapshot_id") == [70, 70, 5]


def test_r042_an_entry_without_any_snapshot_id_is_corrupt():
    with pytest.raises(CorruptTable) as caught:
        inherit(stored({}), [listed(snapshot_id=None)])
    assert caught.value.rule == "R-042"


@pytest.mark.parametrize("sequence_number", [1, 8])
def test_r043_an_existing_entry_without_a_sequence_number_is_corrupt(sequence_number):
    with pytest.raises(CorruptTable) as caught:
        inherit(stored({"status": EXISTING}), [listed(sequence_number)])
    assert caught.value.rule == "R-043"


def test_deleted_entries_without_a_sequence_number_are_read():
    assert column(inherit(stored({"status": DELETED}), [listed(8)]), "sequence_number") == [8]


def test_r046_entries_of_version_1_have_sequence_number_0():
    entries = inherit(stored({}, {"status": EXISTING}, {"status": DELETED}), [listed(0)])
    assert column(entries, "sequence_number") == [0, 0, 0]
    assert column(entries, "file_sequence_number") == [0, 0, 0]


def test_file_sequence_numbers_of_early_version_2_writers_are_those_of_the_data():
    entries = inherit(stored({"status": EXISTING, "sequence_number": 3}, {}), [listed(8)])
    assert column(entries, "file_sequence_number") == [3, 8]


def test_r103_row_ids_count_on_over_files_without_one():
    known = {"status": EXISTING, "sequence_number": 1, "file_sequence_number": 1}
    raw = stored(
        {"record_count": 5},
        {"first_row_id": 7, "record_count": 100, **known},
        {"record_count": 6, **known, "status": DELETED},
        {"record_count": 2},
        {"record_count": 3, "manifest": 1},
        {"manifest": 1},
        {"manifest": 2},
    )
    entries = inherit(raw, [listed(first_row_id=1000), listed(first_row_id=50), listed()])
    assert column(entries, "first_row_id") == [1000, 7, None, 1005, 50, 53, None]


@pytest.mark.parametrize("first_row_id", [0, 7])
def test_r103_a_file_alone_has_the_first_row_id_of_its_manifest(first_row_id):
    entries = inherit(stored({}), [listed(first_row_id=first_row_id)])
    assert column(entries, "first_row_id") == [first_row_id]


def test_r103_manifests_of_deletes_give_no_row_ids():
    manifests = [listed(first_row_id=5, content=ManifestContent.DELETES)]
    assert column(inherit(stored({}), manifests), "first_row_id") == [None]


def test_r103_record_counts_that_no_long_holds_are_corrupt():
    raw = stored({"record_count": 2**63 - 10}, {"record_count": 20, "manifest": 1}, {"manifest": 1})
    with pytest.raises(CorruptTable, match="add up to more than any long") as caught:
        inherit(raw, [listed(first_row_id=0), listed(first_row_id=0)])
    assert caught.value.rule == "R-103"


def test_r103_delete_files_have_no_row_ids():
    raw = stored({"content": Content.POSITION_DELETES})
    manifests = [listed(first_row_id=5, content=ManifestContent.DELETES)]
    assert column(inherit(raw, manifests), "first_row_id") == [None]


@pytest.mark.parametrize("first_row_id", [2**63 - 5, 10])
def test_r103_row_ids_beyond_a_long_are_corrupt(first_row_id):
    raw = stored({"record_count": 2**63 - 10}, {"record_count": 20}, {})
    with pytest.raises(CorruptTable) as caught:
        inherit(raw, [listed(first_row_id=first_row_id)])
    assert caught.value.rule == "R-103"


def test_r103_row_ids_that_start_too_high_are_corrupt():
    with pytest.raises(CorruptTable) as caught:
        inherit(stored({}, {}), [listed(first_row_id=2**63 - 5)])
    assert caught.value.rule == "R-103"


def test_r063_negative_record_counts_make_no_row_ids():
    with pytest.raises(CorruptTable) as caught:
        inherit(stored({"record_count": -1}), [listed(first_row_id=0)])
    assert caught.value.rule == "R-063"


def test_columns_that_were_not_read_are_not_made():
    raw = stored({}, columns=["content", "status", "manifest", "location"])
    assert inherit(raw, [listed()]).table.column_names == raw.table.column_names


def test_no_entries_inherit_nothing():
    assert len(inherit(stored(), [listed(first_row_id=0)])) == 0
