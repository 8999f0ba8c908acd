"""Live files by their hashes: what two files have in common by accident is no finding."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.entries.columns import Hashes
from icectl.entries.rows import RawEntries, live
from icectl.env import SystemEnv
from icectl.errors import CorruptTable
from icectl.format.manifest import FileFormat, ManifestFile
from icectl.storage.identity import SameStore
from icectl.table.known_locations import KnownLocations, location_hashes
from icectl.table.live_file_check import LiveOnce, stated_numbers, with_their_rows
from icectl.table.manifest_lists import manifests_by_snapshot
from icectl.table.manifests import scan_manifests
from icectl.table.reachable import References, all_manifests
from tests.builders.broken import Record, read_records, rewrite_avro
from tests.builders.expiry import context_of
from tests.builders.table_builder import TableBuilder, filled_table

READER = context_of(concurrency=2)


def weak(locations: pa.Array | pa.ChunkedArray) -> Hashes:
    """Hash every location to one of two numbers."""
    return location_hashes(locations) % np.uint64(2)


@pytest.fixture
def table(tmp_path):
    built = filled_table(tmp_path / "t", range(6), files=3)
    built.append(range(6, 12), files=3)
    return built


def check_lists(table: TableBuilder, lists: Mapping[int, Sequence[ManifestFile]]) -> None:
    """Check manifests of snapshots by a weak hash."""
    manifests = [item for listed in lists.values() for item in listed]
    once = LiveOnce(weak)
    for part in scan_manifests(READER, table.metadata, manifests, LiveOnce.columns):
        alive = live(part.rows)
        once.add(manifests, alive, weak(alive.table["location"]))
    once.check(READER, table.metadata, lists)


def check(table: TableBuilder, manifests: Sequence[ManifestFile]) -> None:
    """Check manifests of one snapshot."""
    check_lists(table, {1: manifests})


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


def added_again(table: TableBuilder, change: Callable[[Record], None]) -> list[ManifestFile]:
    """The manifests of a table whose first file is added again, changed, by its last snapshot."""
    first, last = manifests_of(table)
    own = read_records(Path(first.manifest_path))[0]["data_file"]

    def edit(entries: list[Record]) -> None:
        entries[0]["data_file"] = {**own, "partition": entries[0]["data_file"]["partition"]}
        change(entries[0]["data_file"])

    rewrite_avro(Path(last.manifest_path), edit)
    size = Path(last.manifest_path).stat().st_size
    rows = sum(one["data_file"]["record_count"] for one in read_records(Path(last.manifest_path)))
    return [first, replace(last, manifest_length=size, added_rows_count=rows)]


def with_bound(file: Record, *, lower: bytes) -> None:
    file["lower_bounds"][0]["value"] = lower


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda file: file.update(record_count=3), "2 rows, another 3 rows"),
        (lambda file: file.update(file_size_in_bytes=9), " bytes, another 9 bytes"),
        (
            lambda file: file["value_counts"][0].update(value=3),
            "2 values of `id`, another 3 values of `id`",
        ),
        (lambda file: with_bound(file, lower=b"\7" * 8), "another lower bound 0x0707070707070707"),
    ],
)
def test_r063_a_file_that_two_snapshots_describe_in_two_ways_is_found(table, change, said):
    manifests = added_again(table, change)
    with pytest.raises(CorruptTable, match=said) as raised:
        check_lists(table, {1: manifests[:1], 2: manifests[1:]})
    assert raised.value.rule == "R-063"


def test_r063_the_hint_expires_the_snapshot_that_no_branch_is_at(table):
    old, head = table.metadata.snapshots
    manifests = added_again(table, lambda file: file.update(record_count=3))
    with pytest.raises(CorruptTable) as raised:
        check_lists(table, {old.snapshot_id: manifests[:1], head.snapshot_id: manifests[1:]})
    hint = raised.value.hint or ""
    assert f"if snapshot {old.snapshot_id} describes it wrongly" in hint
    assert f"`icectl expire-snapshots TABLE --snapshot-id {old.snapshot_id}`" in hint
    with pytest.raises(CorruptTable) as raised:
        check_lists(table, {head.snapshot_id: manifests})
    assert "expire-snapshots" not in (raised.value.hint or "")


@pytest.mark.parametrize(
    "change",
    [
        lambda file: None,
        lambda file: file.update(value_counts=None, lower_bounds=None),
        lambda file: with_bound(file, lower=b"\7"),
    ],
)
def test_a_file_may_be_added_again_with_fewer_metrics(table, change):
    first, last = added_again(table, change)
    check_lists(table, {1: [first], 2: [last]})


ENTRY = {
    "content": 0, "file_format": 2, "record_count": 3, "file_size_in_bytes": 90, "snapshot_id": 7
}  # fmt: skip
DELETES, OF_VECTOR = {"content": 1}, {"content": 1, "file_format": int(FileFormat.PUFFIN)}


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({}, {"record_count": 4}, False),
        ({}, {"file_size_in_bytes": 91}, False),
        ({}, {"snapshot_id": 8}, False),
        ({}, {"snapshot_id": None}, False),
        ({"snapshot_id": 5}, {"snapshot_id": None}, True),
        (DELETES, {**DELETES, "file_size_in_bytes": 91}, True),
        (DELETES, {**DELETES, "record_count": 4}, False),
        (OF_VECTOR, {**OF_VECTOR, "record_count": 4, "snapshot_id": 8}, True),
        (OF_VECTOR, {}, False),
    ],
)
def test_entries_of_a_file_are_compared_by_rows_size_and_snapshot(one, other, is_same):
    """Sizes of position deletes, and all of vectors but that they are some, do not count."""
    rows = RawEntries(pa.Table.from_pylist([{**ENTRY, **one}, {**ENTRY, **other}]))
    first, second = stated_numbers(rows, np.array([5, 5])).tolist()
    assert (first == second) == is_same


def test_a_file_that_the_table_refers_to_is_reached_whatever_the_hash(table):
    loaded = FileSystemCatalog(READER.store, table.location, SystemEnv()).load()
    references = References(READER, [str(table.directory)], SameStore(), weak)
    listed = KnownLocations(weak)
    files = [str(path) for path in sorted(table.directory.rglob("*")) if path.is_file()]
    listed.add(pa.array(files))
    references.add(loaded, listed)
    named = pa.array([path for path in files if "metadata.json" not in path])
    assert references.reach(named).to_pylist() == [True] * len(named)


def test_position_deletes_are_told_by_their_rows_whatever_their_size(table):
    table.delete_rows([1, 2, 8])
    deletes = next(row["location"] for row in table.live() if row["content"] == 1)
    data = next(row["location"] for row in table.live() if row["content"] == 0)
    path = Path(deletes)
    rows, snapshots = pq.read_table(path), table.metadata.snapshots

    def right() -> frozenset[str]:
        return with_their_rows(READER, table.metadata, snapshots, [deletes, data, f"{deletes}x"])

    pq.write_table(rows, path, compression="none", row_group_size=1)
    assert right() == {deletes}
    for wrong in (rows.slice(1), pa.concat_tables([rows, rows]), rows.rename_columns(["a", "b"])):
        pq.write_table(wrong, path)
        assert right() == ({deletes} if wrong.num_rows == len(rows) else frozenset())
    shutil.copyfile(data, path)
    assert right() == frozenset()
    path.write_bytes(b"no Parquet")
    assert right() == frozenset()
    path.unlink()
    assert right() == frozenset()
