"""What entries state of files, read for some of the live ones."""

from pathlib import Path

import pytest

from icectl.entries.rows import Entries, data_files, delete_files, live, take
from icectl.files.metadata_file import read_metadata
from icectl.format.manifest import Content, FileFormat, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.storage.local.store import LocalStore
from icectl.table.live_files import load_stated, with_stated
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries
from icectl.table.rewrite_task import DeleteFile, InputFile, MergeDeletesTask
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


def test_what_entries_state_is_read_of_files_that_are_wanted(table: TableBuilder) -> None:
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


def test_tasks_know_what_is_stated_of_their_files(table: TableBuilder) -> None:
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
