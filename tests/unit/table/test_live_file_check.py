"""Live files by their hashes: what two files have in common by accident is no finding."""

import shutil
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.entries.columns import Hashes
from icectl.entries.rows import live
from icectl.env import SystemEnv
from icectl.errors import CorruptTable
from icectl.format.manifest import ManifestFile
from icectl.storage.identity import SameStore
from icectl.table.known_locations import KnownLocations, location_hashes
from icectl.table.live_file_check import LiveOnce
from icectl.table.manifest_lists import manifests_by_snapshot
from icectl.table.manifests import scan_manifests
from icectl.table.reachable import References, all_manifests
from tests.builders.expiry import context_of
from tests.builders.table_builder import TableBuilder

READER = context_of(concurrency=2)
COLUMNS = frozenset({"location", "status", "file_format"})


def weak(locations: pa.Array | pa.ChunkedArray) -> Hashes:
    """Hash every location to one of two numbers."""
    return location_hashes(locations) % np.uint64(2)


@pytest.fixture
def table(tmp_path):
    built = TableBuilder(tmp_path / "t")
    built.append(range(6), files=3)
    built.append(range(6, 12), files=3)
    return built


def check(table: TableBuilder, manifests: Sequence[ManifestFile]) -> None:
    """Check manifests of one snapshot by a weak hash."""
    once = LiveOnce()
    for part in scan_manifests(READER, table.metadata, manifests, COLUMNS):
        alive = live(part.rows)
        once.add(manifests, alive, weak(alive.table["location"]))
    once.check(READER, table.metadata, {1: manifests})


def manifests_of(table: TableBuilder) -> Sequence[ManifestFile]:
    snapshots = table.metadata.snapshots
    return all_manifests(manifests_by_snapshot(READER, table.metadata, snapshots), snapshots)


def test_r066_files_of_one_hash_are_not_one_file_that_is_live_twice(table):
    check(table, manifests_of(table))


def test_r066_a_file_that_is_live_twice_is_found_by_a_weak_hash_too(table):
    first, *_ = manifests = manifests_of(table)
    again = f"{first.manifest_path}-again"
    shutil.copy(first.manifest_path, again)
    with pytest.raises(CorruptTable, match="a file is live in") as raised:
        check(table, [*manifests, replace(first, manifest_path=again)])
    assert raised.value.rule == "R-066"


def test_a_file_that_the_table_refers_to_is_reached_whatever_the_hash(table):
    loaded = FileSystemCatalog(READER.store, table.location, SystemEnv()).load()
    references = References(READER, [str(table.directory)], SameStore(), weak)
    listed = KnownLocations(weak)
    files = [str(path) for path in sorted(table.directory.rglob("*")) if path.is_file()]
    listed.add(pa.array(files))
    references.add(loaded, listed)
    named = pa.array([path for path in files if "metadata.json" not in path])
    assert references.reach(named).to_pylist() == [True] * len(named)
