"""Every table of other writers opens, and the metadata file taken is the one that is current.

In the quick tier one of each writer, another in each test.
"""

import json
from pathlib import Path

import pytest

from icectl.catalog.files import FILE_SYSTEM, NAMED_FILE, OF_A_CATALOG, FileSystemCatalog
from icectl.catalog.resolve import resolve
from icectl.env import SystemEnv
from icectl.errors import Refused, TableNotFound
from icectl.storage.local.store import LocalStore
from icectl.storage.open import StorageOptions, open_store
from icectl.table.context import open_table
from tests.interop.conftest import of_each_writer

FIXTURES = Path(__file__).resolve().parents[3] / "shared" / "fixtures"
EXPECTED = FIXTURES / "expected.json"
TABLES = json.loads(EXPECTED.read_text())["tables"] if EXPECTED.exists() else {}

NOT_IN_METADATA = {
    "duckdb-iceberg/struct_filter_issue_s3_backup",  # metadata.backup.…/
    "impala/ice_puffin",  # in the table's directory itself
}
IN_METADATA = TABLES.keys() - NOT_IN_METADATA


def check(loaded, expected):
    metadata = loaded.metadata
    assert metadata.format_version == expected["format_version"]
    assert metadata.table_uuid == expected["table_uuid"]
    assert metadata.location == expected["location"]
    ids = [snapshot.snapshot_id for snapshot in metadata.snapshots]
    if isinstance(expected["snapshot_ids"], dict):  # too many to be spelled out there
        ids = {"first": ids[0], "last": ids[-1], "count": len(ids)}
    assert ids == expected["snapshot_ids"]
    assert metadata.current_snapshot_id == expected["current_snapshot_id"]


@pytest.mark.parametrize("name", of_each_writer(TABLES))
def test_every_table_opens_by_its_metadata_file(name, fixtures_dir):
    directory, expected = fixtures_dir / name, TABLES[name]
    file = f"{directory}/{expected['metadata_file']}"
    loaded = open_table(resolve(file, LocalStore(), SystemEnv(), read_only=True))
    check(loaded, expected)
    assert (loaded.metadata_location, loaded.capabilities) == (file, NAMED_FILE)


@pytest.mark.parametrize("name", of_each_writer(IN_METADATA, 1))
def test_every_table_opens_by_its_directory(name, fixtures_dir):
    directory, expected = fixtures_dir / name, TABLES[name]
    loaded = open_table(resolve(str(directory), LocalStore(), SystemEnv(), read_only=True))
    check(loaded, expected)
    assert loaded.metadata_location == f"{directory}/{expected['metadata_file']}"


@pytest.mark.parametrize("name", of_each_writer(IN_METADATA, 2))
def test_every_table_opens_where_its_metadata_says_it_was(name, fixtures_dir):
    expected = TABLES[name]
    location = expected["location"].rstrip("/")
    below = [entry["from"] for entry in expected["prefix_map"]]
    if not any(f"{location}/".startswith(start) for start in below):
        pytest.skip("the table's location is no directory of the table here")
    path_map = tuple((start, str(fixtures_dir / name)) for start in below)
    store = open_store(StorageOptions(path_map=path_map), SystemEnv())
    check(open_table(FileSystemCatalog(store, location, SystemEnv())), expected)


@pytest.mark.parametrize("name", sorted(NOT_IN_METADATA))
def test_metadata_elsewhere_gives_a_hint(name, fixtures_dir):
    catalog = resolve(str(fixtures_dir / name), LocalStore(), SystemEnv(), read_only=True)
    with pytest.raises(TableNotFound, match="no Iceberg table at") as caught:
        catalog.load()
    assert "one metadata file" in caught.value.hint or "or one of them" in caught.value.hint


def owner(directory):
    """Who keeps a table, by the names of its metadata files: decision 1, with globs alone."""
    every = {file.name for file in directory.glob("metadata/*.metadata.json*")}
    every = {name for name in every if not name.startswith(".")}
    numbered = {name for name in every if name[0] == "v" and name[1:].split(".")[0].isdigit()}
    plain = {
        name for name in numbered if name.split(".", 1)[1] in {"metadata.json", "gz.metadata.json"}
    }
    return FILE_SYSTEM if every == plain else OF_A_CATALOG


@pytest.mark.parametrize("name", of_each_writer(IN_METADATA, 3))
def test_only_file_system_tables_count_as_such_and_copies_are_refused(name, fixtures_dir):
    directory = fixtures_dir / name
    catalog = resolve(str(directory), LocalStore(), SystemEnv(), read_only=False)
    loaded = catalog.load()
    assert loaded.capabilities == owner(directory)
    with pytest.raises(Refused):
        catalog.check_writable(loaded)
