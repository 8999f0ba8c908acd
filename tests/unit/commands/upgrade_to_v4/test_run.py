"""Upgrades of tables that other writers change between the plan and the commit."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow.parquet as pq
import pytest

from icectl.commands.upgrade_to_v4.heads import read_head
from icectl.commands.upgrade_to_v4.plan import BranchHead, UpgradeOptions
from icectl.commands.upgrade_to_v4.run import execute, prepare
from icectl.errors import Refused
from icectl.format.layout import Layout
from icectl.sfc1.commit import clustering, draft, lists, writer
from icectl.sfc1.commit.lists import legacy_statistics
from icectl.sfc1.manifest_file import ListedRow
from icectl.storage import streams
from icectl.storage.local.store import LocalStore
from tests.builders.inline_rows import way_to
from tests.builders.rows import current_metadata, head, ids_of, local, read_metadata
from tests.builders.table_builder import TableBuilder
from tests.fault.writers import MeanwhileStore
from tests.stores.wrapped import WrappedStore


@pytest.mark.parametrize("mode", ["lazy", "default", "eager"])
def test_a_vector_of_a_file_that_goes_meanwhile_forbids_the_upgrade(tmp_path, mode):
    table = TableBuilder(tmp_path / "t", 3)
    table.append(range(6), files=2)
    prepared = prepare(way_to(tmp_path / "t"), UpgradeOptions(mode, layout=Layout.SFC_1))
    table.delete_rows([1])
    table.remove_data_files(1, keeps_vectors=True)
    with pytest.raises(Refused, match="U-10"):
        execute(way_to(tmp_path / "t"), prepared)
    assert read_metadata(current_metadata(tmp_path / "t"))["format-version"] == 3


@pytest.mark.parametrize("mode", ["lazy", "default", "eager"])
def test_rows_that_are_added_meanwhile_are_in_the_upgraded_table(tmp_path, mode):
    table = TableBuilder(tmp_path / "t", 3)
    table.append(range(3))
    prepared = prepare(way_to(tmp_path / "t"), UpgradeOptions(mode, layout=Layout.SFC_1))
    table.append(range(3, 6))
    execute(way_to(tmp_path / "t"), prepared)
    assert ids_of(tmp_path / "t") == list(range(6))


def test_a_conflict_reads_the_statistics_of_new_manifests_alone(tmp_path, monkeypatch):
    table = TableBuilder(tmp_path / "t", 3)
    table.append(range(3))
    asked = []

    def reading(context: Any, facts: Any, leaves: Sequence[ListedRow]) -> Any:
        asked.append([leaf.name for leaf in leaves])
        return legacy_statistics(context, facts, leaves)

    monkeypatch.setattr(lists, "legacy_statistics", reading)
    meanwhile = MeanwhileStore(lambda: table.append(range(3, 6)))
    prepared = prepare(way_to(tmp_path / "t"), UpgradeOptions("default", layout=Layout.SFC_1))
    execute(way_to(tmp_path / "t", meanwhile), prepared)
    assert [len(names) for names in asked] == [1, 1]
    assert not set(asked[0]) & set(asked[1])
    root = pq.read_table(local(head(tmp_path / "t")["root-manifest"]))
    assert root["content_stats"].null_count == 0
    assert ids_of(tmp_path / "t") == list(range(6))


def _small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each table of rows on disk, a row a block, new leaves in the store, files compared."""
    monkeypatch.setattr(clustering, "_SORTED_BYTES", 1)
    monkeypatch.setattr(draft, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(draft, "_WAITING_BYTES", 0)
    monkeypatch.setattr(writer, "_KEPT_ROWS", 0)
    monkeypatch.setattr(writer, "_ROWS_OF_PART", 1)


def _leaves(directory: Path) -> list[list[tuple[str, Any]]]:
    """The files of each leaf of the head, with their statistics, by the order in the leaf."""
    root = pq.read_table(local(head(directory)["root-manifest"])).to_pylist()
    named = [row["location"] for row in root if row["content_type"] in (3, 4)]
    return [
        [
            (Path(row["location"]).name, row["content_stats"])
            for row in pq.read_table(local(leaf)).to_pylist()
        ]
        for leaf in named
    ]


def test_an_eager_upgrade_is_the_same_in_little_memory(tmp_path, monkeypatch):
    upgraded = []
    for name in ("few", "many"):
        table = TableBuilder(tmp_path / name, 3, partitioning="bucket")
        for start in range(0, 40, 8):
            table.append(range(start, start + 8), files=2)
        table.delete_rows([1, 9])
        table.remove_data_files(1)
        before = ids_of(tmp_path / name)
        if name == "many":
            _small_memory(monkeypatch)
        context = way_to(tmp_path / name)
        execute(context, prepare(context, UpgradeOptions("eager", layout=Layout.SFC_1)))
        assert ids_of(tmp_path / name) == before
        upgraded.append(_leaves(tmp_path / name))
    few, many = upgraded
    assert many == few
    assert len(few) == 2


class _Waiting(WrappedStore):
    """A store that counts manifests that are read while another one is."""

    def __init__(self) -> None:
        super().__init__(LocalStore())
        self.running, self.most = 0, 0

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if not method.startswith("read") or "-m" not in location:
            return super().call(method, location, action)
        self.running += 1
        self.most = max(self.most, self.running)
        sleep(0.05)
        self.running -= 1
        return super().call(method, location, action)


def test_an_eager_upgrade_reads_leaves_ahead_of_those_it_writes_again(tmp_path, monkeypatch):
    table = TableBuilder(tmp_path / "t", 3)
    for start in range(4):
        table.append([start])
    monkeypatch.setattr(streams, "is_local", lambda _: False)
    prepared = prepare(way_to(tmp_path / "t"), UpgradeOptions("eager", layout=Layout.SFC_1))
    waiting = _Waiting()
    context = replace(way_to(tmp_path / "t", waiting), concurrency=4)
    execute(context, prepared)
    assert waiting.most == 4
    assert ids_of(tmp_path / "t") == list(range(4))


def test_a_self_check_that_fails_leaves_no_leaf_that_was_stored_before(tmp_path, monkeypatch):
    TableBuilder(tmp_path / "t", 3).append(range(6), files=2)
    _small_memory(monkeypatch)
    context = way_to(tmp_path / "t")
    prepared = prepare(context, UpgradeOptions("eager", layout=Layout.SFC_1))
    monkeypatch.setattr(writer, "_difference", lambda *_: "a column")
    before = {path.name for path in (tmp_path / "t" / "metadata").glob("*.parquet")}
    execute(context, prepared)  # what fails after the first commit is a part of the outcome
    assert {path.name for path in (tmp_path / "t" / "metadata").glob("*.parquet")} == before
    assert ids_of(tmp_path / "t") == list(range(6))


def _head(directory: Path, options: UpgradeOptions, most_whole: int) -> BranchHead:
    context = way_to(directory)
    metadata = context.catalog.load().metadata
    (snapshot,) = (one for one in metadata.snapshots if one is metadata.current_snapshot)
    return read_head(context, metadata, "main", snapshot, options, most_whole)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("damage", ["none", "twice", "lost"])
def test_the_head_of_many_files_is_known_as_that_of_few(tmp_path, version, damage):
    table = TableBuilder(tmp_path / "t", version, partitioning="bucket")
    for start in range(0, 24, 8):
        table.append(range(start, start + 8), files=2)
    table.delete_rows([1, 9])
    table.delete_rows([2], kind="equality")
    if damage == "lost":
        table.remove_data_files(12, keeps_vectors=True)
    again = table.loose_data_files([30]) if damage == "twice" else []
    for _ in again * 2:
        table._commit("main", "append", table.ids(), added=again)
    options = UpgradeOptions("eager", layout=Layout.SFC_1)
    few, many = (_head(tmp_path / "t", options, most) for most in (1_000_000, 0))
    assert many == few
    is_unsound = damage == "twice" or (damage, version) == ("lost", 3)
    assert bool(few.unsound or few.unreadable) == is_unsound
