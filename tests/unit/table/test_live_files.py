"""What entries state of files, read for some of the live ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from icectl.entries.rows import Entries, by_row, data_files, delete_files, live, take
from icectl.files.metadata_file import read_metadata
from icectl.format.manifest import Content, FileFormat, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.storage.local.store import LocalStore
from icectl.table.live_files import LiveFiles, load_live_files, load_stated, with_stated
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries
from icectl.table.rewrite_tasks import DeleteFile, InputFile, MergeDeletesTask
from tests.builders.expiry import context_of
from tests.builders.table_builder import SCHEMA, TableBuilder
from tests.stores.wrapped import CountingStore

POSITION_OF_ROW = 2_147_483_545


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Three data files and two delete files, in a manifest each; a fourth file is removed."""
    table = TableBuilder(tmp_path / "t", partitioning="none")
    for start in (0, 10, 20, 30):
        table.append(range(start, start + 10))
    table.delete_rows([11])
    table.delete_rows([22], kind="equality")
    table.remove_data_files(1)
    return table


def loaded(table: TableBuilder) -> tuple[TableMetadata, tuple[ManifestFile, ...], Entries]:
    metadata = read_metadata(Path(table.metadata_location).read_bytes())
    assert metadata.current_snapshot is not None
    store = LocalStore()
    manifests = read_snapshot_manifests(store, metadata, metadata.current_snapshot)
    columns = frozenset({"location", "content", "status", "manifest"})
    entries = load_entries(context_of(store=store), metadata, manifests, columns)
    return metadata, manifests, live(entries)


def test_what_entries_state_is_read_of_files_that_are_wanted(table):
    metadata, manifests, entries = loaded(table)
    store = CountingStore(LocalStore())
    wanted = [take(data_files(entries), [0, 2]), delete_files(entries)]
    stated = load_stated(context_of(store=store), metadata, manifests, wanted)
    rows = {row["location"]: row for row in table.live()}
    locations = [place for one in wanted for place in one.table["location"].to_pylist()]
    assert sorted(stated) == sorted(locations)
    assert sum(store.counts.values()) == len(locations)  # a manifest each
    for location, one in stated.items():
        row = rows[location]
        assert one.size_bytes == row["file_size_in_bytes"]
        assert one.metrics.record_count == row["record_count"]
        assert one.has_deletes is (row["content"] != Content.DATA)
        columns = [column.id for column in one.columns]
        by_position = row["content"] == Content.POSITION_DELETES
        expected = [POSITION_OF_ROW] if by_position else [field.id for field in SCHEMA.fields]
        assert columns == expected
        for name in ("lower_bounds", "value_counts", "column_sizes"):
            own = {id_: value for id_, value in dict(row[name] or {}).items() if id_ in columns}
            assert getattr(one.metrics, name) == own


def test_tasks_know_what_is_stated_of_their_files(table):
    metadata, manifests, entries = loaded(table)
    stated = load_stated(context_of(), metadata, manifests, [entries])
    data, deletes = (
        part.table["location"].to_pylist() for part in (data_files(entries), delete_files(entries))
    )
    inputs = [InputFile(at, FileFormat.PARQUET, 1, 1, 0, b"", 1) for at in (data[0], "other")]
    file = DeleteFile(deletes[0], FileFormat.PARQUET, 1, 1, 1, 0, b"")
    task = MergeDeletesTask("0", 0, tuple(inputs), (file,), "positions")
    (told,) = with_stated([task], stated)
    assert told == task
    assert [one.stated for one in told.inputs] == [stated[data[0]], None]
    assert [one.stated for one in told.delete_files] == [stated[deletes[0]]]


def live_files(
    table: TableBuilder, store: CountingStore, earlier: LiveFiles | None = None
) -> LiveFiles:
    metadata = read_metadata(Path(table.metadata_location).read_bytes())
    return load_live_files(
        context_of(store=store),
        metadata,
        metadata.current_snapshot,
        {} if earlier is None else earlier.named_files,
        lambda deletes, _: {place: {} for (place,) in by_row(deletes, "location")},
        earlier=earlier,
    )


def told(files: LiveFiles) -> set[tuple[object, ...]]:
    """What entries say, with the manifest that each is of."""
    names = sorted(set(files.entries.table.column_names) - {"manifest", "split_offsets"})
    return {
        (files.manifests[manifest].manifest_path, *map(str, row))
        for manifest, *row in by_row(files.entries, "manifest", *names)
    }


def places(files: LiveFiles) -> list[tuple[int, int]]:
    return list(by_row(files.entries, "manifest", "manifest_pos"))


def test_of_a_later_snapshot_only_other_manifests_are_read(table):
    earlier = live_files(table, CountingStore(LocalStore()))
    table.append(range(40, 50))
    table.delete_rows([31])
    table.remove_data_files(1)
    store = CountingStore(LocalStore())
    later, anew = live_files(table, store, earlier), live_files(table, CountingStore(LocalStore()))

    assert told(later) == told(anew)
    assert places(later) == sorted(places(later))
    known = {one.manifest_path for one in earlier.manifests}
    listed = {one.manifest_path for one in later.manifests}
    assert listed == {one.manifest_path for one in anew.manifests}
    read = {location for _, location in store.calls}
    assert known & listed
    assert listed - known
    assert listed & read == listed - known

    table.append(range(50, 60))
    again = live_files(table, CountingStore(LocalStore()), later)
    assert told(again) == told(live_files(table, CountingStore(LocalStore())))
    kept = [one for one in later.manifests if one in again.manifests]
    assert list(again.manifests) == [*kept, again.manifests[-1]]


def test_of_the_same_snapshot_no_manifest_is_read(table):
    earlier = live_files(table, CountingStore(LocalStore()))
    store = CountingStore(LocalStore())
    same = live_files(table, store, earlier)
    assert told(same) == told(earlier)
    assert not {one.manifest_path for one in same.manifests} & {place for _, place in store.calls}


def test_a_manifest_that_is_listed_in_another_way_is_read_again(table):
    earlier = live_files(table, CountingStore(LocalStore()))
    first, *others = earlier.manifests
    other = replace(earlier, manifests=(replace(first, first_row_id=7), *others))
    store = CountingStore(LocalStore())
    found = live_files(table, store, other)
    assert told(found) == told(earlier)
    read = {location for _, location in store.calls}
    assert {one.manifest_path for one in found.manifests} & read == {first.manifest_path}
