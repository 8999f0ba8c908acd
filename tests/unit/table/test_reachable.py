"""The files that snapshots reach, and paths elsewhere that end as one of the table."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.entries.files import FileKind, Files, distinct, rows, with_keys
from icectl.entries.rows import RawEntries
from icectl.env import SystemEnv
from icectl.errors import CorruptTable
from icectl.format.manifest import FileFormat, ManifestContent, ManifestFile, Status
from icectl.format.snapshot import MetadataLogEntry, PartitionStatisticsFile, StatisticsFile
from icectl.storage.local.store import LocalStore
from icectl.table import manifests as table_manifests
from icectl.table import reachable
from icectl.table.manifest_lists import manifests_by_snapshot
from icectl.table.reachable import (
    GatheredFiles,
    Live,
    MountAliases,
    VectorTargets,
    all_manifests,
    dropped_files,
    every_statistics_file,
    files_of_live_entries,
    key_hashes,
    log_files,
    metadata_files,
    statistics_files,
)
from tests.builders.broken_tree import TREE_TABLES
from tests.builders.entry_rows import data, entries, vector
from tests.builders.expiry import context_of
from tests.builders.history import history
from tests.builders.table_builder import TableBuilder, filled_table

READER = context_of(concurrency=2)
TABLE = history([(1, None, "2026-01-01T00:00:00Z")], {"main": {"head": 1}})


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    built = filled_table(tmp_path / "t", range(4), files=2, merge_manifests_above=1)
    built.append(range(4, 8), files=2)
    built.delete_rows([1])
    built.remove_data_files(1)
    return built


def names(found: Files) -> list[tuple[str, FileKind]]:
    return [(place.rsplit("/", 1)[1], kind) for place, kind, _ in rows(found)]


def test_r110_live_files_are_those_of_live_entries_whatever_the_manifest(table):
    metadata = table.metadata
    lists = manifests_by_snapshot(READER, metadata, metadata.snapshots)
    found = names(
        distinct(files_of_live_entries(READER, metadata, all_manifests(lists, metadata.snapshots)))
    )
    written = sorted(path.name for path in (table.directory / "data").iterdir())
    assert [name for name, _ in found] == written
    assert [kind for _, kind in found] == [FileKind.DATA_FILES] * 4 + [
        FileKind.POSITION_DELETE_FILES
    ]


def test_repeated_files_are_thinned_out_on_the_way(table, monkeypatch):
    metadata = table.metadata
    manifests = all_manifests(
        manifests_by_snapshot(READER, metadata, metadata.snapshots), metadata.snapshots
    )
    whole = files_of_live_entries(READER, metadata, manifests)
    monkeypatch.setattr(reachable, "_ROWS_TO_THIN_OUT", 1)
    thinned = files_of_live_entries(READER, metadata, manifests)
    assert len(thinned) < len(whole)
    assert rows(distinct(thinned)) == rows(distinct(whole))


def test_only_files_that_are_chosen_are_held(table):
    metadata = table.metadata
    manifests = all_manifests(
        manifests_by_snapshot(READER, metadata, metadata.snapshots), metadata.snapshots
    )
    key, _, _ = rows(files_of_live_entries(READER, metadata, manifests))[1]
    found = files_of_live_entries(READER, metadata, manifests, lambda part: with_keys(part, {key}))
    assert {place for place, _, _ in rows(found)} == {key}


def test_files_that_only_deleted_entries_name_are_not_reached(table):
    metadata = table.metadata
    head = [item for item in metadata.snapshots if item == metadata.current_snapshot]
    manifests = all_manifests(manifests_by_snapshot(READER, metadata, head), head)
    gathered = GatheredFiles()
    found = Live(READER, metadata).read(manifests, gathered.add)
    assert len(gathered.files) == 4
    assert found.schema_ids == {0}


def test_manifests_and_lists_have_the_size_that_is_known_of_them(table):
    metadata = table.metadata
    head = [item for item in metadata.snapshots if item == metadata.current_snapshot]
    manifests = all_manifests(manifests_by_snapshot(READER, metadata, head), head)
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
    table = replace(TABLE, metadata_log=(MetadataLogEntry(1, "/wh/t/metadata/v1.metadata.json"),))
    found = log_files(table, "file:///wh/t/metadata/v2.metadata.json")
    assert found.table["key"].to_pylist() == [
        "/wh/t/metadata/v1.metadata.json",
        "/wh/t/metadata/v2.metadata.json",
    ]
    assert rows(dropped_files(["/m/v1"], {"/m/v1": 3})) == [("/m/v1", FileKind.METADATA_FILES, 3)]


def test_files_stay_found_however_often_repeated_ones_are_dropped(tmp_path, monkeypatch):
    """Each manifest is read by itself, and has more files than all those before it."""
    monkeypatch.setattr(reachable, "_ROWS_TO_THIN_OUT", 0)
    monkeypatch.setattr(table_manifests, "_TOGETHER_BYTES", 1)
    built = TableBuilder(tmp_path / "t")
    for start, count in ((0, 1), (1, 2), (3, 4), (7, 8)):
        built.append(range(start, start + count), files=count)
    metadata = built.metadata
    head = [item for item in metadata.snapshots if item == metadata.current_snapshot]
    manifests = all_manifests(manifests_by_snapshot(READER, metadata, head), head)
    written = sorted(path.name for path in (built.directory / "data").iterdir())
    assert len(written) == 15
    for given in (manifests, manifests[::-1], (*manifests, *manifests)):
        found = files_of_live_entries(READER, metadata, given)
        assert [name for name, _ in names(distinct(found))] == written


def test_repeated_files_are_dropped_once_there_are_more_than_so_many(tmp_path, monkeypatch):
    monkeypatch.setattr(table_manifests, "_TOGETHER_BYTES", 1)
    metadata = filled_table(tmp_path / "t", range(4), files=4).metadata
    (manifest,) = all_manifests(
        manifests_by_snapshot(READER, metadata, metadata.snapshots), metadata.snapshots
    )
    counts = []
    for most in (11, 12, 4, 3):
        monkeypatch.setattr(reachable, "_ROWS_TO_THIN_OUT", most)
        counts.append(len(files_of_live_entries(READER, metadata, [manifest] * 3)))
    assert counts == [4, 12, 8, 4]


def test_r191_files_of_delete_vectors_that_are_not_in_the_root_any_more_are_reached(table):
    metadata = table.metadata
    head = [item for item in metadata.snapshots if item == metadata.current_snapshot]
    manifests = all_manifests(manifests_by_snapshot(READER, metadata, head), head)
    leaf = replace(manifests[0], dead_locations=("/t/metadata/a-mdv.puffin",))
    in_root = replace(leaf, in_root=True, dead_locations=("/t/metadata/b-mdv.puffin",))
    found = rows(metadata_files(metadata, head, [leaf, in_root], {}))
    assert ("/t/metadata/a-mdv.puffin", FileKind.MANIFESTS, None) in found
    assert ("/t/metadata/b-mdv.puffin", FileKind.MANIFESTS, None) in found
    described = [place for place, kind, _ in found if kind is FileKind.MANIFESTS]
    assert described.count(leaf.manifest_path) == 1
    assert len(rows(metadata_files(metadata, head, [in_root], {}))) == 2


def test_the_specs_of_entries_are_told_whatever_their_state(tmp_path):
    built = filled_table(tmp_path / "t", range(3), partitioning="identity")
    built.respec("none")
    built.append(range(3, 6))
    built.remove_data_files(1)
    metadata = built.metadata
    lists = manifests_by_snapshot(READER, metadata, metadata.snapshots)
    manifests = all_manifests(lists, metadata.snapshots)
    assert len({item.partition_spec_id for item in manifests}) == 2
    for given in (manifests, manifests[:1]):
        wanted = {item.partition_spec_id for item in given}
        assert Live(READER, metadata).read(given).spec_ids == wanted


M, N = (ManifestFile(name, 9, 0, ManifestContent.DATA, 5, 5, 77) for name in "mn")
WRONG_M, WRONG_N = (replace(one, min_sequence_number=4) for one in (M, N))
LEAF = replace(M, status=Status.ADDED, min_sequence_number=3)
FOUR = history([(at, at - 1 or None, f"2026-01-0{at}T00:00:00Z") for at in range(1, 5)],
               {"main": {"head": 4}})  # fmt: skip


@pytest.mark.parametrize(
    ("lists", "expired", "is_tie"),
    [
        ([[M], [WRONG_M], [M], []], [2], False),
        ([[M], [WRONG_M], [WRONG_M], []], [1], False),
        ([[WRONG_M, N], [M, N], [M, WRONG_N], []], [1, 2], True),
        ([[M], [WRONG_M], [], [N]], [1], True),
        # Of two lists that contradict each other the one that contradicts others too.
        ([[M], [WRONG_M, N], [M, WRONG_N], [M]], [2], False),
        ([[M], [WRONG_M], [], [LEAF]], [1], True),
        ([[M], [M], [], [WRONG_M]], None, False),
        ([[WRONG_M], [M], [], [M, N]], [1], False),
    ],
)
def test_r051_the_lists_that_most_others_contradict_are_named(lists, expired, is_tie):
    """Snapshots to expire; none where the newest list is the one that is wrong."""
    of_snapshots = dict(enumerate(lists, 1))
    snapshots = sorted(FOUR.snapshots, key=lambda one: -one.snapshot_id % 3)
    with pytest.raises(CorruptTable) as raised:
        all_manifests(of_snapshots, snapshots)
    options = "".join(f" --snapshot-id {id_}" for id_ in expired or ())
    assert f"`icectl expire-snapshots TABLE{options}`" in raised.value.hint or expired is None
    assert ("the list of snapshot 4 can be repaired" in raised.value.hint) == (expired is None)
    assert ("compare them with a copy" in raised.value.hint) == is_tie
    assert raised.value.message.count("that of snapshot") == 1
    for id_ in expired or ():
        of_snapshots[id_] = []
    if expired is not None:
        assert all_manifests(of_snapshots, snapshots)


DESCRIBED = replace(
    TABLE,
    statistics=(StatisticsFile(1, "/s1", 5, 4), StatisticsFile(9, "/s9", 6, 4)),
    partition_statistics=(
        PartitionStatisticsFile(1, "/p1", 8),
        PartitionStatisticsFile(7, "/p7", 7),
    ),
)


def test_r141_metadata_files_of_a_snapshot_are_its_root_or_list_and_its_statistics():
    (snapshot,) = TABLE.snapshots
    root = replace(snapshot, manifest_list=None, root_manifest="/t/root.parquet")
    for given in (replace(snapshot, manifest_list="/t/list.avro"), root):
        found = rows(metadata_files(DESCRIBED, [given], [], {}))
        assert found == [
            (given.root_manifest or given.manifest_list, FileKind.MANIFEST_LISTS, None),
            ("/s1", FileKind.STATISTICS_FILES, 5),
            ("/p1", FileKind.PARTITION_STATISTICS_FILES, 8),
        ]


def test_r141_statistics_of_snapshots_that_are_not_there_are_named_too():
    assert sorted(place for place, _, _ in rows(every_statistics_file(DESCRIBED))) == [
        "/p1", "/p7", "/s1", "/s9",
    ]  # fmt: skip


DELETES = ManifestFile(
    "/t/d.parquet", 1, 0, ManifestContent.DELETES, 1, 1, 1, file_format=FileFormat.PARQUET
)
ONE, TWO = (
    replace(DELETES, manifest_path=f"/t/{name}.parquet", content=ManifestContent.DATA)
    for name in ("one", "two")
)


def same_hashes(keys: pa.ChunkedArray) -> np.ndarray:
    return np.zeros(len(keys), np.uint64)


def add(
    vector_targets: VectorTargets, manifest: ManifestFile, *rows, chunks: int = 1, hashed=key_hashes
) -> None:
    """Let vector_targets take in the live entries of a manifest."""
    found = entries(*(row | {"manifest": 0} for row in rows)).table
    if manifest.content is ManifestContent.DATA:
        found = found.drop_columns("referenced_data_file")
    stored = found["location"].combine_chunks()
    parts = [stored[at::chunks] for at in range(chunks)] if chunks else []
    keys = pa.chunked_array(parts, pa.string())
    vector_targets.add([manifest], RawEntries(found), keys, hashed(keys))


@pytest.mark.parametrize("hashed", [key_hashes, same_hashes])
def test_v4_122_the_files_of_vectors_are_lost_where_no_manifest_of_these_lists_them(hashed):
    vector_targets, add_to = VectorTargets(hashed), partial(add, hashed=hashed)
    vectors = vector("v", "/t/a"), vector("w", "file:///t/z"), vector("x", None)
    add_to(vector_targets, DELETES, *vectors)
    assert vector_targets.lost([DELETES]) == {"/t/a", "/t/z"}
    assert vector_targets.lost([ONE, TWO]) == set()
    add_to(vector_targets, ONE, data("/t/0"), data("/t/a"), data("/t/b"))
    add_to(vector_targets, TWO, data("/t/c"), data("/t/z"), chunks=2)
    add_to(vector_targets, TWO, chunks=0)
    assert vector_targets.lost([DELETES, ONE]) == {"/t/z"}
    assert vector_targets.lost([TWO, DELETES]) == {"/t/a"}
    assert vector_targets.lost([DELETES, ONE, TWO]) == set()
    assert vector_targets.lost([replace(DELETES, dead=b"1"), ONE]) == set()


def test_v4_122_the_homes_of_vectors_are_looked_for_in_what_is_read(tmp_path):
    TREE_TABLES["leaves"](tmp_path / "t")
    metadata = FileSystemCatalog(LocalStore(), str(tmp_path / "t"), SystemEnv()).load().metadata
    head = metadata.current_snapshot
    assert head is not None
    manifests = manifests_by_snapshot(READER, metadata, [head])[head.snapshot_id]
    of_data, deletes = (
        [item for item in manifests if item.content is content]
        for content in (ManifestContent.DATA, ManifestContent.DELETES)
    )
    assert Live(READER, metadata).read(manifests).vector_targets.lost(manifests) == set()
    vector_targets = Live(READER, metadata).read([*of_data, *deletes]).vector_targets
    assert vector_targets.lost(manifests) == set()
    assert vector_targets.lost(of_data) == set()
    lost = vector_targets.lost(deletes)
    assert len(lost) == 2
    of_deletes = Live(READER, metadata).read(deletes)
    assert of_deletes.vector_targets.lost(manifests) == lost
    Live(READER, metadata).read(manifests).check({head.snapshot_id: manifests})
    with pytest.raises(CorruptTable, match="2 data files of delete vectors not live") as raised:
        of_deletes.check({head.snapshot_id: deletes})
    assert raised.value.rule == "V4-122"


def test_vectors_before_version_4_are_not_asked_for_their_homes(tmp_path):
    built = filled_table(tmp_path / "t", range(4), format_version=3)
    built.delete_rows([1])
    head = built.metadata.current_snapshot
    assert head is not None
    manifests = manifests_by_snapshot(READER, built.metadata, [head])[head.snapshot_id]
    deletes = [item for item in manifests if item.content is ManifestContent.DELETES]
    assert len(deletes) == 1
    assert Live(READER, built.metadata).read(deletes).vector_targets.lost(deletes) == set()


def test_files_that_no_manifest_repeats_are_held_once(tmp_path, monkeypatch):
    monkeypatch.setattr(reachable, "_ROWS_TO_THIN_OUT", 0)
    monkeypatch.setattr(table_manifests, "_TOGETHER_BYTES", 1)
    built = TableBuilder(tmp_path / "t")
    for start in (0, 4, 8):
        built.append(range(start, start + 4), files=4)
    metadata = built.metadata
    head = [item for item in metadata.snapshots if item == metadata.current_snapshot]
    manifests = all_manifests(manifests_by_snapshot(READER, metadata, head), head)
    found = files_of_live_entries(READER, metadata, manifests[::-1]).table
    listed = [built._entries[one.manifest_path] for one in manifests[::-1]]
    wanted = [entry["location"] for entries in listed for entry in entries]
    assert found["location"].to_pylist() == wanted  # in no other order: nothing was copied
    for key, location in zip(found["key"].chunks, found["location"].chunks, strict=True):
        assert key.buffers()[2].address == location.buffers()[2].address


def ways(base: str, *stored: str) -> set[str]:
    return set(MountAliases(base).of(pa.array(stored, pa.string())))


@pytest.mark.parametrize("base", ["s3://b/wh/t", "s3://b/wh/t/", "/wh/t", "file:/wh/t"])
def test_what_lies_below_the_place_has_no_other_way(base):
    below = ["s3://b/wh/t/a", "s3a://c//wh/t/t/a", "/wh/t/a.b/..c/d.", "file:///wh/t/x/t/a"]
    assert ways(base, *below) == set()


@pytest.mark.parametrize("stored", ["s3://b/x/a", "s3://b/wh/t2/a", "s3://b/t", "/wh/at/a", "t/a"])
def test_what_has_not_the_name_of_the_place_has_no_other_way(stored):
    assert ways("s3://b/wh/t", stored) == set()


@pytest.mark.parametrize(
    ("base", "stored", "found"),
    [
        ("s3://lake/wh/t", "dbfs:/mnt/lake/wh/t/data/a", {"s3://lake/wh/t/data/a"}),
        ("s3://lake/wh/t", "https://host:9000/lake/wh/t/a", {"s3://lake/wh/t/a"}),
        ("/wh/t", "/mnt/nas/wh/t/data/k=1/a b", {"/wh/t/data/k=1/a b"}),
        ("/wh/t/", "/old/t/x/t/a", {"/wh/t/x/t/a", "/wh/t/a"}),
        ("s3://b/wh/1.1/t(1)", "/mnt/b/wh/1.1/t(1)/a", {"s3://b/wh/1.1/t(1)/a"}),
    ],
)
def test_a_path_that_goes_on_as_one_below_the_place_may_be_it(base, stored, found):
    assert ways(base, stored) == found


def test_a_bucket_is_no_name_that_a_path_can_have():
    assert ways("s3://t", "s3://b/t/a", "/t/a", "b/t/a") == set()
