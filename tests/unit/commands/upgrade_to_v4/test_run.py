"""Upgrades of tables that other writers change between the plan and the commit."""

from collections.abc import Sequence
from typing import Any

import pyarrow.parquet as pq
import pytest

from icectl.commands.upgrade_to_v4.plan import UpgradeOptions
from icectl.commands.upgrade_to_v4.run import execute, prepare
from icectl.errors import Refused
from icectl.format.layout import Layout
from icectl.sfc1.commit import lists
from icectl.sfc1.commit.lists import legacy_statistics
from icectl.sfc1.manifest_file import ListedRow
from tests.builders.inline_rows import way_to
from tests.builders.rows import current_metadata, head, ids_of, local, read_metadata
from tests.builders.table_builder import TableBuilder
from tests.fault.writers import MeanwhileStore


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
