"""What a lost manifest list named, as the rest of the table proves it: just that, or nothing."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.commands.repair.head import ReadHead, read_head
from icectl.commands.repair.lost_list import with_proven_list
from icectl.entries.rows import Entries, live
from icectl.errors import Incomplete, MissingFile, StorageError
from icectl.files.metadata_file import read_metadata
from icectl.format.metadata import TableMetadata
from icectl.storage.failures import ACCESS_DENIED
from icectl.table.reader import Reader
from tests.builders.broken import Broken, in_first, read_records, rewrite_avro
from tests.builders.lost_lists import CHANGES, EVERY, SPOILT, grown, lose_list, new_manifest, tell
from tests.builders.lost_manifests import Failing, listed, reader_of, with_snapshot
from tests.builders.rows import current_metadata
from tests.builders.table_builder import TableBuilder, filled_table

FACTS = (
    "location", "content_offset", "record_count", "snapshot_id", "sequence_number",
    "file_sequence_number", "first_row_id", "spec_id", "partition_key",
)  # fmt: skip


def stored(table: TableBuilder) -> TableMetadata:
    """The metadata as they are stored, which `tell` has changed."""
    return read_metadata(current_metadata(table.directory).read_bytes())


def reader(table: TableBuilder, **given: Any) -> Reader:
    return reader_of(table, metadata=stored(table), **given)


def head_of(table: TableBuilder) -> ReadHead:
    snapshot = stored(table).current_snapshot
    assert snapshot is not None
    return read_head(reader(table), snapshot)


def proven(table: TableBuilder) -> ReadHead:
    return with_proven_list(reader(table), head_of(table))


def facts(head: ReadHead) -> list[str]:
    """What there is to know of each live file."""
    found = []
    for entries in head.entries:
        assert entries is not None
        rows = Entries(live(entries).table.select([*FACTS])).table.to_pylist()
        found += [repr(row) for row in rows]
    return sorted(found)


def built(tmp_path: Path, version: int, change: str, **options: Any) -> TableBuilder:
    table = grown(tmp_path / "t", version, **options)
    CHANGES[change](table)
    tell(table.directory)
    return table


@pytest.mark.parametrize(("version", "change", "options"), EVERY)
def test_a_list_named_the_files_before_without_those_that_went_and_those_that_came(
    tmp_path, version, change, options
):
    table = built(tmp_path, version, change, **options)
    expected = facts(head_of(table))
    lose_list(table.directory)
    head = proven(table)
    assert head.is_proven
    assert facts(head) == expected
    assert len(head.entries) == len(head.read) == len(head.listed.manifests)
    check_changes(table, head)


def check_changes(table: TableBuilder, head: ReadHead) -> None:
    """The changes make of manifests as they are stored what lives."""
    by_place = {one.place: one for one in head.changes}
    assert len(by_place) == len(head.changes)
    parent = listed(table, head.snapshot.parent_snapshot_id or 0)
    for place, entries in enumerate(head.entries):
        assert entries is not None
        change = by_place.get(place)
        if place < len(parent):
            assert head.listed.manifests[place].manifest_path == parent[place].manifest_path
            written = live_positions(parent[place].manifest_path)
            dropped = frozenset[int]() if change is None else change.dropped
            assert dropped <= written
            assert set(entries.table["manifest_pos"].to_pylist()) == written - dropped
            assert change is None or (change.dropped and not change.gone)
            assert change is None or change.rebuilt is None
        else:
            assert change is not None
            assert change.rebuilt is not None
            assert change.gone is (len(entries) == 0)
            told = [
                table["location"].to_pylist() for table in (change.rebuilt.table, entries.table)
            ]
            assert told[0] == told[1]
            assert set(change.rebuilt.table["status"].to_pylist()) <= {0}
            assert "value_counts" in change.rebuilt.table.column_names
            assert not change.dropped


def live_positions(path: str) -> set[int]:
    return {at for at, entry in enumerate(read_records(Path(path))) if entry["status"] != 2}


@pytest.mark.parametrize(("version", "change", "spoil"), SPOILT)
def test_nothing_is_proved_where_something_is_missing_of_the_proof(
    tmp_path, version, change, spoil
):
    table = built(tmp_path, version, change)
    spoil(table.directory)
    lose_list(table.directory)
    head = head_of(table)
    assert with_proven_list(reader(table), head) is head


def test_the_first_snapshot_has_what_it_added(tmp_path):
    table = filled_table(tmp_path / "t", range(4), files=2)
    tell(table.directory)
    expected = facts(head_of(table))
    lose_list(table.directory)
    assert facts(proven(table)) == expected


def lost(table: TableBuilder, **told: Any) -> ReadHead:
    """A head whose list is lost."""
    lose_list(table.directory)
    head = head_of(table)
    return replace(head, listed=replace(head.listed, **told))


def test_a_list_that_may_be_there_is_not_lost(tmp_path):
    table = built(tmp_path, 2, "append")
    lose_list(table.directory)
    head = head_of(table)
    denied = StorageError("may not be read", id=ACCESS_DENIED)
    ((location, _),) = head.listed.problems
    for problems, is_odd in (
        (((location, denied),), False),
        (((location, MissingFile(location)), ("b", denied)), False),
        (head.listed.problems, True),
    ):
        other = replace(head, listed=replace(head.listed, problems=problems, is_odd=is_odd))
        assert with_proven_list(reader(table), other) is other
    assert with_proven_list(reader(table), head).is_proven


@pytest.mark.parametrize("method", ["read", "list"])
def test_a_store_that_is_ill_is_no_loss(tmp_path, method):
    table = built(tmp_path, 2, "append")
    own = str(new_manifest(table.directory))
    head = lost(table)
    location = own if method == "read" else str(Path(own).parent)
    ill = Failing(method, location, StorageError("the network is down"))
    with pytest.raises(StorageError, match="the network is down"):
        with_proven_list(reader(table, store=ill), head)


def test_the_time_limit_ends_the_search(tmp_path):
    table = built(tmp_path, 2, "append")
    head = lost(table)
    with pytest.raises(Incomplete):
        with_proven_list(reader(table, ends_at_seconds=0), head)


def test_files_beside_the_manifests_are_not_looked_at(tmp_path):
    """Hidden ones may be half written, and others are no manifests."""
    table = built(tmp_path, 2, "append")
    own = new_manifest(table.directory)
    for name in ("_copy.avro", ".copy.avro", "copy.parquet", "copy.avro.tmp"):
        shutil.copyfile(own, own.with_name(name))
    (own.parent / "broken.avro").write_bytes(b"Obj\x01")
    lose_list(table.directory)
    assert proven(table).is_proven


def test_manifests_of_other_snapshots_are_none_of_its_own(tmp_path):
    """One that another snapshot wrote and no list names any more."""
    table = built(tmp_path, 2, "append")
    other = Path(listed(table, table.metadata.snapshots[0].snapshot_id)[0].manifest_path)
    shutil.copyfile(other, other.with_name("left-over.avro"))
    lose_list(table.directory)
    assert proven(table).is_proven


@pytest.mark.parametrize("is_own", [True, False])
def test_fields_that_a_rewrite_would_lose_prove_nothing(tmp_path, is_own):
    """In a manifest of its own, or in one of before from which a file went."""
    table = grown(tmp_path / "t", 2)
    table.append(range(20, 24), files=2)
    CHANGES["append" if is_own else "removed files"](table)
    tell(table.directory)
    if is_own:
        with_unknown_field(new_manifest(table.directory))
    else:
        for one in listed(table, table.metadata.snapshots[-2].snapshot_id):
            with_unknown_field(Path(one.manifest_path))
    lose_list(table.directory)
    head = head_of(table)
    assert with_proven_list(reader(table), head) is head


def with_unknown_field(path: Path) -> None:
    """Give entries of a manifest a field that icectl doesn't know."""

    def add(schema: Any) -> None:
        field = {"name": "new", "type": ["null", "int"], "default": None, "field-id": 999}
        schema["fields"].append(field)

    rewrite_avro(path, in_first(lambda entry: entry.update(new=1)), schema=add)


def test_r103_row_ids_are_those_that_the_list_gave_to_one_manifest(tmp_path):
    table = built(tmp_path, 3, "append of two files")
    expected = facts(head_of(table))
    snapshot = stored(table).current_snapshot
    assert snapshot is not None
    assert snapshot.added_rows == 6
    lose_list(table.directory)
    head = head_of(table)
    assert facts(with_proven_list(reader(table), head)) == expected
    for rows in (5, 7):
        metadata = with_snapshot(stored(table), snapshot.snapshot_id, added_rows=rows)
        found = with_proven_list(reader_of(table, metadata=metadata), other(head, rows))
        assert not found.is_proven


def other(head: ReadHead, added_rows: int) -> ReadHead:
    return replace(head, snapshot=replace(head.snapshot, added_rows=added_rows))


def test_r103_row_ids_that_files_before_it_got_too_are_not_guessed(tmp_path):
    """The first commit after an upgrade gives ids to older manifests as well."""
    table = grown(tmp_path / "t", 2)
    table.upgrade()
    table.append(range(20, 24))
    tell(table.directory)
    head = lost(table)
    assert with_proven_list(reader(table), head) is head
    assert Broken(table.directory).head()["added-rows"] == 16
