"""Rewrites of more live files than memory holds: the same plan and the same manifests."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from icectl.commands.rewrite_manifests.run import every_manifest, execute, prepare
from icectl.errors import CorruptTable
from icectl.files.manifest.manifest_list import read_manifest_list
from icectl.format.metadata import TableMetadata
from icectl.table.context import TableContext
from icectl.table.manifest_groups import RewriteOptions
from tests.builders.broken_tree import TREE_TABLES, BrokenTree, v4_122_a_vector_of_a_lost_file
from tests.builders.expiry import context_of
from tests.builders.plain_manifests import list_of
from tests.builders.rows import Row, current_metadata, read_metadata, read_rows
from tests.builders.table_builder import START_MS, TableBuilder
from tests.builders.tree_table import upgrade
from tests.stores.fixed_env import FixedEnv


@pytest.fixture
def table(tmp_path):
    built = TableBuilder(tmp_path / "t", partitioning="bucket")
    for start in range(0, 40, 8):
        built.append(range(start, start + 8), files=2)
    built.delete_rows([1, 9])
    built.remove_data_files(1)
    return built


def context(table: TableBuilder) -> TableContext:
    return context_of(table.location, concurrency=2)


def table_rows(table: TableBuilder) -> list[Row]:
    """Rows of the table as the last commit has left it, read by another reader."""
    return read_rows(read_metadata(current_metadata(table.directory)))


def merged(metadata: TableMetadata) -> RewriteOptions:
    return replace(every_manifest(metadata), every=False)


@pytest.mark.parametrize("options", [merged, every_manifest])
@pytest.mark.parametrize("most_whole", [0, 5])
def test_a_plan_of_many_files_is_that_of_few(table, options, most_whole):
    few = prepare(context(table), "main", options).rewrite
    many = prepare(context(table), "main", options, most_whole).rewrite
    assert many.plan == few.plan
    assert many.plan.chosen
    assert many.listed.live_counts == few.listed.live_counts
    assert (few.listed.counts, many.listed.counts is None) == (None, False)
    assert len(many.listed.entries) < len(few.listed.entries)


@pytest.mark.parametrize("options", [merged, every_manifest])
def test_a_plan_of_many_leaves_is_that_of_few(tmp_path, options):
    table = TableBuilder(tmp_path / "t", format_version=3, partitioning="bucket")
    for start in range(0, 40, 8):
        table.append(range(start, start + 8), files=2)
        table.delete_rows([start])
    upgrade(table.directory, FixedEnv(START_MS + 10**8))
    before = table_rows(table)
    few, many = (prepare(context(table), "main", options, most) for most in (1_000_000, 0))
    assert many.rewrite.plan == few.rewrite.plan
    assert many.rewrite.plan.chosen
    assert many.rewrite.listed.live_counts == few.rewrite.listed.live_counts
    assert len(many.rewrite.listed.entries) < len(few.rewrite.listed.entries)
    execute(context(table), many)
    assert table_rows(table) == before


def test_v4_122_a_vector_of_a_lost_file_is_found_among_many(tmp_path):
    TREE_TABLES["grown"](tmp_path / "t")
    v4_122_a_vector_of_a_lost_file(BrokenTree(tmp_path / "t"))
    for most_whole in (0, 1_000_000):
        with pytest.raises(CorruptTable) as raised:
            prepare(context_of(tmp_path / "t"), "main", every_manifest, most_whole)
        assert raised.value.rule == "V4-122"


def test_a_run_on_many_files_leaves_the_same_rows(table):
    before = table_rows(table)
    done = execute(context(table), prepare(context(table), "main", every_manifest, 0))
    assert len(done.written) > 1  # of data and of deletes
    assert table_rows(table) == before


def test_r066_a_file_that_is_live_twice_is_found_among_many(table):
    snapshot = table.metadata.current_snapshot
    list_file = Path(snapshot.manifest_list)
    listed = read_manifest_list(list_file.read_bytes())
    again = f"{listed[0].manifest_path}-again"
    shutil.copy(listed[0].manifest_path, again)
    content = list_of(
        [*listed, replace(listed[0], manifest_path=again)],
        snapshot.snapshot_id,
        snapshot.sequence_number,
        parent_snapshot_id=snapshot.parent_snapshot_id,
    )
    list_file.write_bytes(content)
    for most_whole in (0, 1_000_000):
        with pytest.raises(CorruptTable) as raised:
            prepare(context(table), "main", every_manifest, most_whole)
        assert raised.value.rule == "R-066"
