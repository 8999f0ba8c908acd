"""Everything that a table refers to, and what comes to it later."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.errors import MissingFile, Refused
from icectl.format.snapshot import StatisticsFile
from icectl.storage.identity import SameStore
from icectl.storage.local.store import LocalStore
from icectl.table.reachable import References
from tests.builders.broken import Broken
from tests.builders.expiry import context_of
from tests.builders.folders import files_of
from tests.builders.table_builder import TableBuilder, filled_table
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import CountingStore


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    built = filled_table(tmp_path / "t", range(6), partitioning="identity")
    built.delete_rows([1])
    built.remove_data_files(1)
    return built


def references_of(table: TableBuilder, store: CountingStore) -> References:
    return References(context_of(store=store), [table.location], SameStore())


def add(references: References, table: TableBuilder) -> None:
    references.add(FileSystemCatalog(LocalStore(), table.location, FixedEnv()).load())


def unknown(references: References, table: TableBuilder) -> set[str]:
    names = sorted(files_of(table.directory))
    places = pa.array([f"{table.location}/{name}" for name in names], pa.string())
    flags = references.known.contains(places).to_pylist()
    return {name for name, flag in zip(names, flags, strict=True) if not flag}


def test_every_file_of_the_table_is_known_and_no_other(table):
    (table.directory / "data/stray.parquet").write_bytes(b"")
    references = references_of(table, CountingStore(LocalStore()))
    add(references, table)
    assert unknown(references, table) == {"data/stray.parquet"}
    assert len(references.known) == len(files_of(table.directory)) - 1
    assert references.doubtful == {}


def test_what_comes_later_is_added_without_reading_the_rest_again(table):
    store = CountingStore(LocalStore())
    references = references_of(table, store)
    add(references, table)
    before = [location for _, location in store.calls]
    assert len(before) == len(set(before))
    table.append(range(6, 9))
    assert unknown(references, table) != set()
    add(references, table)
    assert unknown(references, table) == set()
    again = [location for _, location in store.calls[len(before) :]]
    assert len(again) == 2
    assert set(again) & set(before) == set()


def test_what_cannot_be_read_ends_it(table):
    manifest = min((table.directory / "metadata").glob("*-m*.avro"))
    manifest.unlink()
    with pytest.raises(MissingFile, match=manifest.name):
        add(references_of(table, CountingStore(LocalStore())), table)


def test_r031_a_list_that_lost_a_row_hides_files_unless_the_caller_trusts_it(table):
    Broken(table.directory).edit_head_list(lambda rows: rows[:-1])
    references = references_of(table, CountingStore(LocalStore()))
    with pytest.raises(Refused, match="by the summaries there are") as raised:
        add(references, table)
    assert raised.value.error_id == "fewer-files"
    loaded = FileSystemCatalog(LocalStore(), table.location, FixedEnv()).load()
    references.add(loaded, trusted=True)
    assert references.unread(loaded.metadata) == []


def refers_to(table: TableBuilder, *stored: str, places: tuple[str, ...] = ()) -> References:
    """The references of the table with statistics files at these locations too."""
    loaded = FileSystemCatalog(LocalStore(), table.location, FixedEnv()).load()
    (*_, snapshot) = loaded.metadata.snapshots
    statistics = tuple(StatisticsFile(snapshot.snapshot_id, one, 10, 4) for one in stored)
    references = References(context_of(), places or (table.location,), SameStore())
    references.add(replace(loaded, metadata=replace(loaded.metadata, statistics=statistics)))
    return references


def reached(references: References, *locations: str) -> list[bool]:
    flags: list[bool] = references.reach(pa.array(locations, pa.string())).to_pylist()
    return flags


def test_a_relative_location_means_a_file_below_the_table_and_is_in_doubt(table):
    references = refers_to(table, "stats/a")
    assert reached(references, f"{table.location}/stats/a", f"{table.location}/a") == [True, False]
    assert references.doubtful == {".": "stats/a"}


def test_a_location_by_way_of_a_mount_means_the_file_below_the_table(table):
    references = refers_to(table, "dbfs:/mnt/lake/t/stats/a")
    assert reached(references, f"{table.location}/stats/a", f"{table.location}/a") == [True, False]


def test_a_path_of_another_store_is_in_doubt(table):
    references = refers_to(table, f"hdfs://nn{table.location}/stats/a")
    assert references.doubtful == {"hdfs://nn": f"hdfs://nn{table.location}/stats/a"}


@pytest.mark.parametrize("others", [(), ("s3://bucket/u",)])
def test_the_file_that_a_link_elsewhere_leads_to_is_the_tables(table, tmp_path, others):
    (tmp_path / "link").symlink_to(table.directory / "stats")
    references = refers_to(table, f"{tmp_path}/link", places=(table.location, *others))
    assert reached(references, f"{table.location}/stats", f"{table.location}/a") == [True, False]


def test_files_by_way_of_others_are_the_tables(table):
    references = refers_to(table)
    assert reached(references, f"{table.location}/part", f"{table.location}/a") == [False, False]
    references.add_files([f"{table.location}/part"])
    assert reached(references, f"{table.location}/part", f"{table.location}/a") == [True, False]
