"""The files that snapshots reach, on tables of the builder."""

from dataclasses import replace
from pathlib import Path

import pytest

from icectl.entries.files import FileKind, Files, distinct, rows
from icectl.progress import SilentProgress
from icectl.spec.snapshot import MetadataLogEntry, PartitionStatisticsFile, StatisticsFile
from icectl.storage.local import LocalStore
from icectl.table import reachable
from icectl.table.reachable import (
    ReachReader,
    all_manifests,
    dropped_files,
    live_files,
    log_files,
    manifest_lists,
    metadata_files,
    read_live,
    statistics_files,
)
from tests.builders.history import history
from tests.builders.table_builder import TableBuilder

READER = ReachReader(LocalStore(), 2, SilentProgress())
TABLE = history([(1, None, "2026-01-01T00:00:00Z")], {"main": {"head": 1}})


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    built = TableBuilder(tmp_path / "t", merge_manifests_above=1)
    built.append(range(4), files=2)
    built.append(range(4, 8), files=2)
    built.delete_rows([1])
    built.remove_data_files(1)
    return built


def names(found: Files) -> list[tuple[str, FileKind]]:
    return [(place.rsplit("/", 1)[1], kind) for place, kind, _ in rows(found)]


def every_live_file(table: TableBuilder) -> list[tuple[str, FileKind]]:
    metadata = table.metadata
    lists = manifest_lists(READER, metadata, metadata.snapshots)
    return names(distinct(live_files(READER, metadata, all_manifests(lists, metadata.snapshots))))


def test_r110_live_files_are_those_of_live_entries_whatever_the_manifest(table):
    found = every_live_file(table)
    written = sorted(path.name for path in (table.directory / "data").iterdir())
    assert [name for name, _ in found] == written
    assert [kind for _, kind in found] == [FileKind.DATA_FILES] * 4 + [
        FileKind.POSITION_DELETE_FILES
    ]


def test_repeated_files_are_thinned_out_on_the_way(table, monkeypatch):
    metadata = table.metadata
    manifests = all_manifests(
        manifest_lists(READER, metadata, metadata.snapshots), metadata.snapshots
    )
    whole = live_files(READER, metadata, manifests)
    monkeypatch.setattr(reachable, "_ROWS_TO_THIN_OUT", 1)
    thinned = live_files(READER, metadata, manifests)
    assert len(thinned) < len(whole)
    assert rows(distinct(thinned)) == rows(distinct(whole))


def test_files_that_only_deleted_entries_name_are_not_reached(table):
    metadata = table.metadata
    head = [item for item in metadata.snapshots if item == metadata.current_snapshot]
    manifests = all_manifests(manifest_lists(READER, metadata, head), head)
    found = read_live(READER, metadata, manifests)
    assert len(found.files) == 4
    assert found.schema_ids == {0}


def test_manifests_and_lists_have_the_size_that_is_known_of_them(table):
    metadata = table.metadata
    head = [item for item in metadata.snapshots if item == metadata.current_snapshot]
    manifests = all_manifests(manifest_lists(READER, metadata, head), head)
    path = head[0].manifest_list
    assert path is not None
    found = rows(metadata_files(metadata, head, manifests, {path: 7}))
    assert found[-1] == (path, FileKind.MANIFEST_LISTS, 7)
    assert {size == Path(place).stat().st_size for place, _, size in found[:-1]} == {True}
    assert rows(metadata_files(metadata, head, manifests, {}))[-1][2] is None


def test_r141_statistics_are_those_of_the_snapshots_named():
    table = replace(
        TABLE,
        statistics=(StatisticsFile(1, "/s1", 5, 4), StatisticsFile(9, "/s9", 6, 4)),
        partition_statistics=(PartitionStatisticsFile(9, "/p9", 7),),
    )
    assert rows(statistics_files(table, {9})) == [
        ("/s9", FileKind.STATISTICS_FILES, 6),
        ("/p9", FileKind.PARTITION_STATISTICS_FILES, 7),
    ]
    assert len(statistics_files(table, set())) == 0


def test_r024_the_log_and_the_current_file_are_named():
    log = (MetadataLogEntry(1, "/wh/t/metadata/v1.metadata.json"),)
    table = replace(TABLE, metadata_log=log)
    found = log_files(table, "file:///wh/t/metadata/v2.metadata.json")
    assert found.table["key"].to_pylist() == [
        "/wh/t/metadata/v1.metadata.json",
        "/wh/t/metadata/v2.metadata.json",
    ]
    assert rows(dropped_files(["/m/v1"], {"/m/v1": 3})) == [("/m/v1", FileKind.METADATA_FILES, 3)]
