"""Reading manifests: order, once each, bounded, what a bad file raises, and shared columns."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from icectl.entries import rows
from icectl.entries.rows import PLANNING_COLUMNS, Entries, concat
from icectl.env import SystemEnv
from icectl.errors import CorruptTable, MissingFile
from icectl.files.metadata_file import read_metadata
from icectl.format.manifest import Content, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.progress import Unit
from icectl.storage.open import StorageOptions, open_store
from icectl.storage.store import Store
from icectl.table.manifest_lists import (
    distinct_manifests,
    manifests_by_snapshot,
    read_snapshot_manifests,
)
from icectl.table.manifests import (
    SharedValues,
    load_entries,
    scan_entries,
    scan_manifests,
    try_manifests,
)
from icectl.table.reading import Problem
from tests.builders.expiry import context_of
from tests.builders.table_builder import TableBuilder, filled_table
from tests.stores.wrapped import CountingStore, WrappedStore

FEW = frozenset({"location", "record_count"})


@pytest.fixture
def store() -> Store:
    return open_store(StorageOptions(concurrency=4), SystemEnv())


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Twelve manifests of one data file each."""
    return filled_table(tmp_path / "t", *([number] for number in range(12)))


def manifests_of(store: Store, metadata: TableMetadata) -> tuple[ManifestFile, ...]:
    assert metadata.current_snapshot is not None
    return read_snapshot_manifests(store, metadata, metadata.current_snapshot)


class Phases:
    """Counts what is told."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, int | None]] = []
        self.advanced = 0
        self._lock = threading.Lock()

    def phase(self, name: str, *, total: int | None = None, unit: Unit = "count") -> None:
        self.phases.append((name, total))

    def advance(self, amount: int) -> None:
        with self._lock:
            self.advanced += amount

    def warn(self, message: str) -> None:
        raise AssertionError(message)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_entries_come_in_the_order_of_the_manifests(store, table, concurrency):
    manifests = manifests_of(store, table.metadata)
    progress = Phases()
    entries = load_entries(
        context_of(store=store, progress=progress, concurrency=concurrency),
        table.metadata,
        manifests,
        FEW,
    )
    assert list(rows.by_row(entries, "manifest", "manifest_pos")) == [(at, 0) for at in range(12)]
    assert [location for (location,) in rows.by_row(entries, "location")] == [
        table._entries[each.manifest_path][0]["location"] for each in manifests
    ]
    assert progress.phases == [("reading manifests", 12)]
    assert progress.advanced == 12


def test_each_manifest_is_read_once(store, table):
    counting = CountingStore(store)
    lists = manifests_by_snapshot(
        context_of(store=counting, concurrency=4), table.metadata, table.metadata.snapshots
    )
    manifests = distinct_manifests(lists.values())
    assert sum(map(len, lists.values())) == 78
    assert len(manifests) == 12
    load_entries(context_of(store=counting, concurrency=4), table.metadata, manifests, FEW)
    read = [location for method, location in counting.calls if method == "read"]
    assert len(read) == len(set(read)) == 24


def test_scan_numbers_each_manifest_and_inherits_from_it(store, table):
    manifests = manifests_of(store, table.metadata)
    scanned = list(
        scan_entries(
            context_of(store=store, concurrency=3), table.metadata, manifests, PLANNING_COLUMNS
        )
    )
    found = [row for part in scanned for row in rows.by_row(part, "manifest", "sequence_number")]
    assert found == [(at, manifest.sequence_number) for at, manifest in enumerate(manifests)]
    assert len(scanned) == 1


def test_a_scan_of_small_manifests_leaves_out_only_those_that_have_a_problem(store, table):
    manifests = manifests_of(store, table.metadata)
    Path(manifests[3].manifest_path).unlink()
    Path(manifests[7].manifest_path).write_bytes(b"not avro")
    told: list[Problem] = []
    scanned = scan_entries(
        context_of(store=store, concurrency=3),
        table.metadata,
        manifests,
        PLANNING_COLUMNS,
        leave_out=told.append,
    )
    found = [row for part in scanned for row in rows.by_row(part, "manifest", "sequence_number")]
    whole = [at for at in range(12) if at not in (3, 7)]
    assert found == [(at, manifests[at].sequence_number) for at in whole]
    assert [type(one) for one in told] == [MissingFile, CorruptTable]
    for at, one in zip((3, 7), told, strict=True):
        assert manifests[at].manifest_path in one.message


def test_manifests_read_together_are_told_apart(store, table):
    manifests = manifests_of(store, table.metadata)
    Path(manifests[5].manifest_path).write_bytes(b"not avro")
    found = list(
        try_manifests(context_of(store=store, concurrency=2), table.metadata, manifests, FEW)
    )
    assert [one.index for one in found] == list(range(12))
    for one, manifest in zip(found, manifests, strict=True):
        assert one.size_bytes == Path(manifest.manifest_path).stat().st_size
        if one.index == 5:
            assert isinstance(one.problem, CorruptTable)
            continue
        _, stored = one.content
        wanted = [entry["location"] for entry in table._entries[manifest.manifest_path]]
        assert stored.table["location"].to_pylist() == wanted
        assert stored.table["manifest"].to_pylist() == [one.index] * len(wanted)


def test_reading_ahead_stops_at_the_byte_budget(store, table):
    manifests = manifests_of(store, table.metadata)
    huge = [
        ManifestFile(each.manifest_path, 60 << 20, 0, each.content, each.sequence_number, 0, None)
        for each in manifests
    ]
    counting = CountingStore(store)
    scanned: Iterator[object] = scan_manifests(
        context_of(store=counting, concurrency=8), table.metadata, huge, FEW
    )
    next(scanned)
    scanned.close()  # type: ignore[attr-defined]
    assert counting.counts["read"] <= 2


def test_closing_a_scan_ends_its_threads(store, table):
    manifests = manifests_of(store, table.metadata)
    before = threading.active_count()
    scanned = scan_entries(context_of(store=store, concurrency=4), table.metadata, manifests, FEW)
    next(scanned)
    scanned.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_position_deletes_without_a_data_file_are_named_by_their_bounds(store, table):
    table.delete_rows([5])
    manifests = manifests_of(store, table.metadata)
    entries = load_entries(
        context_of(store=store, concurrency=2),
        table.metadata,
        manifests,
        FEW | {"referenced_data_file"},
        to_match=True,
    )
    (deleted_from,) = rows.by_row(
        rows.of(entries, Content.POSITION_DELETES), "referenced_data_file"
    )
    assert table._row_of_id[deleted_from[0]] == [5]
    assert "lower_bounds" not in entries.table.column_names


def test_r030_manifests_embedded_in_a_version_1_snapshot(store, tmp_path):
    table = filled_table(tmp_path / "t", range(3), format_version=1, partitioning="identity")
    listed = manifests_of(store, table.metadata)
    document = json.loads(Path(table.metadata_location).read_text())
    (snapshot,) = document["snapshots"]
    del snapshot["manifest-list"]
    snapshot["manifests"] = [each.manifest_path for each in listed]
    metadata = read_metadata(json.dumps(document).encode())
    (embedded,) = manifests_of(store, metadata)
    assert embedded == ManifestFile(
        manifest_path=listed[0].manifest_path,
        manifest_length=listed[0].manifest_length,
        partition_spec_id=0,
        content=ManifestContent.DATA,
        sequence_number=0,
        min_sequence_number=0,
        added_snapshot_id=None,
    )
    entries = load_entries(context_of(store=store), metadata, [embedded], FEW)
    assert rows.total(entries, "record_count") == 3


def test_r034_a_missing_manifest_is_named(store, table):
    manifests = manifests_of(store, table.metadata)
    lost = manifests[7].manifest_path
    Path(lost).unlink()
    with pytest.raises(MissingFile, match=f"`{lost}` is missing"):
        load_entries(context_of(store=store, concurrency=4), table.metadata, manifests, FEW)


def test_the_first_manifest_with_a_problem_is_named(store, table):
    manifests = manifests_of(store, table.metadata)
    Path(manifests[9].manifest_path).unlink()
    damaged = Path(manifests[4].manifest_path)
    damaged.write_bytes(damaged.read_bytes()[:-5])
    found: list[int] = []
    parts = scan_manifests(
        context_of(store=store, concurrency=4), table.metadata, manifests, [FEW] * 12
    )
    with pytest.raises(CorruptTable) as raised:
        found.extend(part.first for part in parts)
    assert raised.value.message.startswith(f"`{damaged}`: ")
    assert found == [0, 1, 2, 3]


def test_manifests_are_read_together_where_the_same_is_wanted_of_them(store, table):
    manifests = manifests_of(store, table.metadata)
    wanted = [FEW] * 5 + [frozenset({"location"})] * 7
    parts = scan_manifests(
        context_of(store=store, concurrency=2), table.metadata, manifests, wanted
    )
    assert [(part.first, part.rows.table["manifest"].to_pylist()) for part in parts] == [
        (0, [0, 1, 2, 3, 4]),
        (5, [5, 6, 7, 8, 9, 10, 11]),
    ]


def test_small_manifests_of_data_and_deletes_in_turn_are_read_together(store, table):
    for number in range(12):
        table.delete_rows([number])
        table.append([number + 20])
    manifests = manifests_of(store, table.metadata)
    assert len({item.content for item in manifests[:2]}) == 2
    entries = load_entries(
        context_of(store=store),
        table.metadata,
        manifests,
        FEW | {"referenced_data_file"},
        to_match=True,
    )
    assert entries.table["content"].num_chunks == 1
    assert sorted(entries.table.column_names) == sorted(
        [*FEW, "referenced_data_file", "content", "status", "spec_id", "manifest", "manifest_pos"]
    )
    assert entries.table["manifest"].to_pylist() == list(range(36))
    contents = [int(item.content) for item in manifests]
    assert entries.table["content"].to_pylist() == contents


def test_a_damaged_manifest_list_names_the_file_and_the_rule(store, table):
    snapshot = table.metadata.current_snapshot
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    Path(snapshot.manifest_list).write_bytes(b"Obj\x01 and then nothing")
    with pytest.raises(CorruptTable) as raised:
        manifests_of(store, table.metadata)
    assert raised.value.message.startswith(f"`{snapshot.manifest_list}`: ")
    assert raised.value.message.count(f"({raised.value.rule})") == 1


def test_no_manifests_are_no_entries(store, table):
    assert len(load_entries(context_of(store=store, concurrency=4), table.metadata, [], FEW)) == 0


def test_reads_overlap_within_the_given_concurrency(store, table):
    meeting = threading.Barrier(3, timeout=10)

    class Meeting(WrappedStore):
        """Each read waits until two others are under way."""

        def read(self, location: str) -> bytes:
            meeting.wait()
            return super().read(location)

    manifests = manifests_of(store, table.metadata)
    entries = load_entries(
        context_of(store=Meeting(store), concurrency=3), table.metadata, manifests, FEW
    )
    assert len(entries) == 12


SCHEMA = pa.schema(
    [
        pa.field("location", pa.string()),
        pa.field("snapshot_id", pa.int64()),
        pa.field("content_offset", pa.int64()),
        pa.field("split_offsets", pa.list_(pa.int64())),
    ]
)


def part(first: int, count: int, snapshot_id: int) -> Entries:
    columns = [
        [f"f{first + at}" for at in range(count)],
        [snapshot_id] * count,
        [None] * count,
        [[4]] * count,
    ]
    arrays = [pa.array(one, field.type) for one, field in zip(columns, SCHEMA, strict=True)]
    return Entries(pa.table(arrays, schema=SCHEMA))


def test_rows_stay_what_they_were():
    shared = SharedValues()
    given = [part(0, 3, 7), part(3, 5, 7), part(8, 2, 8), part(10, 1, 8), part(11, 0, 8)]
    made = concat([shared.shared(one) for one in given])
    made.table.validate(full=True)
    assert made.table.equals(concat(given).table)
    assert made.table["snapshot_id"].to_pylist() == [7] * 8 + [8] * 3


def test_null_and_a_value_are_two_values():
    shared = SharedValues()
    columns = {"a": pa.array([None, None], pa.int64())}, {"a": pa.array([0, 0], pa.int64())}
    found = [shared.shared(Entries(pa.table(one))).table["a"].to_pylist() for one in columns]
    assert found == [[None, None], [0, 0]]


def test_columns_of_one_value_take_the_memory_of_one_part():
    shared = SharedValues()
    parts = [shared.shared(part(at * 100, 100, 7)).table for at in range(20)]
    for name in ("snapshot_id", "content_offset", "split_offsets"):
        places = {
            tuple(buffer.address for buffer in table[name].chunk(0).buffers() if buffer is not None)
            for table in parts
        }
        assert len(places) == 1, name
