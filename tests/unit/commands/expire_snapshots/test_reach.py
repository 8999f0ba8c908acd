"""What goes and what stays of an expiry: what stays has to be read, what goes may be lost."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.commands.expire_snapshots import reach
from icectl.commands.expire_snapshots.parts import FileParts
from icectl.commands.expire_snapshots.plan import ManifestCounts
from icectl.commands.expire_snapshots.reach import (
    check_replacements,
    may_copy,
    read_reached,
    read_reached_since,
)
from icectl.entries.files import FileKind, Files, files, rows
from icectl.env import SystemEnv
from icectl.errors import CorruptTable, MissingFile, StorageError
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import StatisticsFile
from icectl.storage.local.store import LocalStore
from icectl.storage.many_files import FilesByKind
from icectl.table.context import TableContext
from icectl.table.manifest_lists import manifests_by_snapshot
from icectl.table.reachable import all_manifests, key_hashes
from icectl.table.retention import AskedRetention, Retention, decide
from tests.builders.broken_tree import TREE_TABLES, BrokenTree, v4_122_a_vector_of_a_lost_file
from tests.builders.expiry import context_of
from tests.builders.table_builder import START_MS, TableBuilder
from tests.builders.tree_table import remove_data_files, upgrade
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import CountingStore, WrappedStore


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Three snapshots: two appends, and the removal of the second's file."""
    built = TableBuilder(tmp_path / "t")
    built.append(range(4))
    built.append(range(4, 8))
    built.remove_data_files(1)
    return built


def expiring(table: TableBuilder, *places: int) -> Retention:
    """The snapshots at some places of the history go."""
    ids = tuple(table.metadata.snapshots[at].snapshot_id for at in places)
    return decide(table.metadata, AskedRetention(expire_ids=ids), 0)


def names(found: Iterable[Files]) -> set[str]:
    return {Path(location).name for part in found for location, _, _ in rows(part)}


def own_manifest(table: TableBuilder, place: int) -> Path:
    snapshot = table.metadata.snapshots[place]
    lists = manifests_by_snapshot(context_of(), table.metadata, [snapshot])
    (found,) = [
        one
        for one in all_manifests(lists, [snapshot])
        if one.added_snapshot_id == snapshot.snapshot_id
    ]
    return Path(found.manifest_path)


def read_manifests(read: Callable[[TableContext], object]) -> list[str]:
    """The names of the manifests that a call reads."""
    store = CountingStore(LocalStore())
    read(context_of(store=store))
    names_read = sorted({Path(place).name for method, place in store.calls if method == "read"})
    return [name for name in names_read if "snap-" not in name]


def test_what_appends_leave_behind_goes_without_a_look_at_what_they_share(tmp_path):
    """Only the manifests that differ are read where these name all data files that go."""
    table = TableBuilder(tmp_path / "t")
    for start in range(0, 12, 4):
        table.append(range(start, start + 4))
    retention = expiring(table, 0, 1)
    last, first = own_manifest(table, 2).name, own_manifest(table, 0).name
    sizes = {str(path): path.stat().st_size for path in (tmp_path / "t" / "metadata").iterdir()}
    read = partial(read_reached, metadata=table.metadata, retention=retention, sizes=sizes)
    assert read_manifests(read) == [last]
    lost = partial(read, sizes=sizes | {str(own_manifest(table, 0)): 1})
    assert read_manifests(lost) == [first, last]
    assert {first, last} < set(read_manifests(partial(read, every=True)))
    found = read(context_of())
    assert found.manifests == ManifestCounts(3, 1)
    lists = {Path(str(one.manifest_list)).name for one in table.metadata.snapshots[:2]}
    assert names(found.only_going()) == lists
    table.remove_data_files(1)  # of a file to delete it is asked where else it lives
    read = partial(read, metadata=table.metadata, retention=expiring(table, 2))
    assert {first, last} < set(read_manifests(read))
    found = read(context_of())
    assert data_files(table)[2] in names(found.only_going())
    every = {path.name for path in (tmp_path / "t" / "metadata").glob("*-m[0-9]*.avro")}
    assert found.manifests == ManifestCounts(len(every), len(read_manifests(read)))


def test_what_a_newer_snapshot_shares_is_not_read_again(table):
    """It only is where a data file is to be deleted."""
    retention = expiring(table, 1)
    found = read_reached(context_of(), table.metadata, retention, {})
    known_ids = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    table.append(range(8, 12))
    newest = FileSystemCatalog(LocalStore(), str(table.directory), SystemEnv()).load()
    since = partial(read_reached_since, newest=newest, read_ids=known_ids, read=found.read)
    assert read_manifests(partial(since, to_delete=FilesByKind(found.only_going()))) == [
        own_manifest(table, 3).name
    ]
    lists_alone = FilesByKind(FilesByKind(found.only_going()).of_kind(FileKind.MANIFEST_LISTS))
    assert read_manifests(partial(since, to_delete=lists_alone)) == []


def data_files(table: TableBuilder) -> list[str]:
    return sorted(path.name for path in (table.directory / "data").iterdir())


def test_r191_an_entry_in_another_partition_keeps_a_file(tmp_path):
    """Imported into a wrong partition, again into the right one, and dropped from the wrong one."""
    table = TableBuilder(tmp_path / "t", partitioning="bucket")
    table.append(range(8))
    wrong, other, *_ = table.live()
    inherited = dict.fromkeys(("snapshot_id", "sequence_number", "file_sequence_number"))
    right = {name: other[name] for name in ("partition_key", "partition_values")}
    assert right["partition_key"] != wrong["partition_key"]
    second = table._commit("main", "append", range(8), added=[wrong | inherited | right])
    table._manifests_of[second] = table._manifests_of[second][:1]  # the next has no other
    table.append(range(8, 9))
    found = read_reached(context_of(), table.metadata, expiring(table, 0, 1), {})
    deleted = {*FilesByKind(found.only_going()).locations()}
    assert other["location"] in deleted
    assert wrong["location"] not in deleted


def test_r191_what_both_reach_is_named_in_both_and_the_rest_in_one(table):
    first, second = data_files(table)
    manifests = [own_manifest(table, place).name for place in range(3)]
    found = read_reached(context_of(), table.metadata, expiring(table, 0, 1), {}, every=True)
    assert found.unread == ()
    assert names(found.going) >= {second, manifests[1]}
    assert names(found.going).isdisjoint({first, manifests[0]})
    lists = {Path(str(one.manifest_list)).name for one in table.metadata.snapshots[:2]}
    assert names(found.only_going()) == {second, manifests[1], *lists}
    assert found.spec_ids == found.schema_ids == {0}


def test_nothing_goes_where_no_snapshot_does(table):
    found = read_reached(
        context_of(), table.metadata, decide(table.metadata, AskedRetention(), 0), {}
    )
    assert names(found.going) == names(found.staying) == set()


@pytest.mark.parametrize("of_list", [True, False])
def test_r192_what_stays_has_to_be_read(table, of_list):
    kept = Path(str(table.metadata.snapshots[2].manifest_list))
    (kept if of_list else own_manifest(table, 2)).unlink()
    with pytest.raises(MissingFile):
        read_reached(context_of(), table.metadata, expiring(table, 0), {})


def test_a_lost_manifest_of_what_goes_hides_its_files_and_is_named(table):
    _, second = data_files(table)
    lost = own_manifest(table, 1)
    lost.unlink()
    found = read_reached(context_of(), table.metadata, expiring(table, 1), {})
    assert [one.subject for one in found.unread] == [f"manifest {lost}"]
    assert second not in names(found.going)
    assert lost.name in names(found.going)


def test_a_lost_list_of_what_goes_is_named_and_the_others_are_read(table):
    _, second = data_files(table)
    snapshot = table.metadata.snapshots[0]
    Path(str(snapshot.manifest_list)).unlink()
    found = read_reached(context_of(), table.metadata, expiring(table, 0, 1), {})
    assert [one.subject for one in found.unread] == [f"snapshot {snapshot.snapshot_id}"]
    assert second in names(found.going)


def of_tree(directory: Path) -> TableMetadata:
    return FileSystemCatalog(LocalStore(), str(directory), SystemEnv()).load().metadata


def test_v4_122_vectors_of_files_that_do_not_live_end_it(tmp_path):
    TREE_TABLES["grown"](tmp_path / "t")
    metadata = of_tree(tmp_path / "t")
    read_reached(context_of(), metadata, decide(metadata, AskedRetention(), 0), {})
    v4_122_a_vector_of_a_lost_file(BrokenTree(tmp_path / "t"))
    metadata = of_tree(tmp_path / "t")
    retention = decide(metadata, AskedRetention(), 0)
    with pytest.raises(CorruptTable) as raised:
        read_reached(context_of(), metadata, retention, {}, every=True)
    assert raised.value.rule == "V4-122"


def test_specs_are_those_of_what_stays_and_not_all_of_the_table(tmp_path):
    table = TableBuilder(tmp_path / "t", partitioning="identity")
    table.append(range(3))
    table.respec("none")
    retention = decide(table.metadata, AskedRetention(), 0)
    assert read_reached(context_of(), table.metadata, retention, {}, every=True).spec_ids == {0}


@pytest.mark.parametrize("are_dead", [False, True])
def test_specs_of_a_tree_are_those_of_its_rows_too_dead_ones_as_well(tmp_path, are_dead):
    table = TableBuilder(tmp_path / "t", format_version=3, partitioning="identity")
    table.append(range(3))
    table.respec("none")
    table.append(range(3, 6))
    env = FixedEnv(START_MS + 10**8)
    partitioned = [row["location"] for row in table.live() if row["spec_id"] == 0]
    upgrade(tmp_path / "t", env, "--eager")
    if are_dead:
        remove_data_files(tmp_path / "t", env, partitioned)
    metadata = of_tree(tmp_path / "t")
    ids = [one.snapshot_id for one in metadata.snapshots if one != metadata.current_snapshot]
    retention = decide(metadata, AskedRetention(expire_ids=(*ids,)), 0)
    assert read_reached(context_of(), metadata, retention, {}, every=True).spec_ids == {0, 1}


ILL = StorageError("the network is down")


@pytest.mark.parametrize("of_list", [True, False])
@pytest.mark.parametrize("answers", [[ILL], [FileNotFoundError(), ILL]])
def test_a_store_that_is_ill_even_for_once_is_no_loss(table, answers, of_list):
    lost = str(table.metadata.snapshots[1].manifest_list if of_list else own_manifest(table, 1))
    left = list(answers)

    class Ill(WrappedStore):
        def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
            if method == "read" and location == lost and left:
                raise left.pop(0)
            return action()

    with pytest.raises(StorageError, match="the network is down"):
        read_reached(context_of(store=Ill(LocalStore())), table.metadata, expiring(table, 1), {})


def test_r141_statistics_of_snapshots_that_are_not_there_go_with_others(table):
    lost = StatisticsFile(99, "/t/s99", 5, 4, ({"snapshot-id": 99},))
    metadata = replace(table.metadata, statistics=(lost,))
    ids = (table.metadata.snapshots[0].snapshot_id,)
    found = read_reached(
        context_of(), metadata, decide(metadata, AskedRetention(expire_ids=ids), 0), {}
    )
    assert "s99" in names(found.going)
    nothing = read_reached(context_of(), metadata, decide(metadata, AskedRetention(), 0), {})
    assert names(nothing.going) == set()


def test_what_came_meanwhile_is_reached_beside_what_was_read(table):
    newest = FileSystemCatalog(LocalStore(), str(table.directory), SystemEnv()).load()
    newest = replace(
        newest, metadata=replace(newest.metadata, statistics=(StatisticsFile(99, "/t/s99", 5, 4),))
    )
    read = [one.snapshot_id for one in table.metadata.snapshots[:2]]
    metadata_folder = table.directory / "metadata"
    wanted = {
        str(table.directory / "data" / data_files(table)[0]): FileKind.DATA_FILES,
        str(own_manifest(table, 2)): FileKind.MANIFESTS,
        **{str(one.manifest_list): FileKind.MANIFEST_LISTS for one in table.metadata.snapshots},
        "/t/s99": FileKind.STATISTICS_FILES,
        **{
            str(metadata_folder / f"v{version}.metadata.json"): FileKind.METADATA_FILES
            for version in range(1, 5)
        },
    }
    others = [str(table.directory / "data" / data_files(table)[1]), str(own_manifest(table, 1))]
    paths = [*wanted, *others]
    planned = FilesByKind([files(paths, paths, FileKind.DATA_FILES, [None] * len(paths))])
    found = read_reached_since(context_of(), newest, read, planned)
    assert {place: kind for part in found for place, kind, _ in rows(part)} == wanted


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ({"operation": "append", "added-data-files": "1"}, False),
        ({"operation": "replace", "added-data-files": "1", "deleted-data-files": "2"}, True),
        ({"operation": "overwrite", "added-data-files": "1"}, False),
        ({"operation": "overwrite", "added-data-files": "1", "deleted-data-files": "2"}, True),
        ({"operation": "overwrite"}, True),  # it counts nothing
        ({"operation": "overwrite", "total-data-files": "3"}, True),
        ({"operation": "delete", "added-dvs": "1", "removed-dvs": "1"}, True),
        ({"operation": "delete", "added-delete-files": "1", "removed-delete-files": "2"}, True),
        ({"operation": "delete", "deleted-data-files": "0", "added-dvs": "1"}, False),
        ({"operation": "overwrite", "deleted-data-files": "many", "added-data-files": "1"}, True),
    ],
)
def test_rows_and_deletes_may_be_copied_where_a_summary_does_not_rule_it_out(
    table, summary, expected
):
    """An overwrite can put the vector of an older one into its own."""
    assert may_copy(replace(table.metadata.snapshots[-1], summary=summary)) is expected


@pytest.mark.parametrize("damage", [None, "lost", "short"])
def test_r034_a_table_is_listed_once_for_however_many_copies(tmp_path, monkeypatch, damage):
    table = TableBuilder(tmp_path / "t", partitioning="none")
    table.append(range(20), files=20)
    sizes = {str(row["location"]): row["file_size_in_bytes"] for row in table.live()}
    copies = files([*sizes], [*sizes], FileKind.DATA_FILES, [*sizes.values()])
    parts = FileParts()
    for _ in range(2):  # manifests repeat files
        parts.add(copies, key_hashes(copies.table["key"]))
    place = Path([*sizes][7])
    if damage == "lost":
        place.unlink()
    elif damage == "short":
        place.write_bytes(b"x")
    monkeypatch.setattr(reach, "_AT_ONCE", 5)
    store = CountingStore(LocalStore())
    context = context_of(table.directory, store)
    if damage is None:
        check_replacements(context, table.metadata, FilesByKind([copies]), parts)
    else:
        with pytest.raises(CorruptTable, match=str(place)) as caught:
            check_replacements(context, table.metadata, FilesByKind([copies]), parts)
        assert caught.value.rule == ("R-034" if damage == "lost" else "R-063")
    assert (store.counts["list"], store.counts["stat"]) == (1, 1 if damage == "lost" else 0)
