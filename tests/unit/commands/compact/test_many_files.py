"""Compactions of more data files than memory holds: the same plan, the same rows."""

from pathlib import Path

import pytest

from icectl.cli.document import clean
from icectl.commands.compact.report import Compaction, compaction_result
from icectl.commands.compact.run import prepare
from icectl.rows.choice import EngineChoice
from icectl.rows.compact_job import TaskCounts
from icectl.table.output_sizes import Sizes
from tests.builders.compactions import compacted, compaction_of, options
from tests.builders.rows import ids_of
from tests.builders.table_builder import START_MS, TableBuilder
from tests.builders.tree_table import upgrade
from tests.stores.fixed_env import FixedEnv

SIZED = {"sizes": Sizes(10_000, 4_000, 100_000)}
"""Files of the first append are of a good size then, the others are small."""


def build(directory: Path, format_version: int, partitioning: str) -> TableBuilder:
    table = TableBuilder(directory, format_version=format_version, partitioning=partitioning)
    table.append(range(1_600), files=2)
    for start in range(1_600, 1_640, 10):
        table.append(range(start, start + 10), files=3)
    return table


def plans(directory: Path, **chosen: object):
    few, many = (
        prepare(compaction_of(directory), "main", options(**chosen), most_whole)
        for most_whole in (1_000_000, 0)
    )
    return few, many


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("partitioning", ["none", "bucket"])
def test_a_compaction_of_many_files_is_that_of_few(tmp_path, version, partitioning):
    table = build(tmp_path / "t", version, partitioning)
    before = ids_of(table.directory)
    few, many = plans(table.directory, **SIZED)
    assert many.files.settled > 0
    assert len(many.files.entries) + many.files.settled == len(few.files.entries)
    assert many.plan.groups
    assert [group.tasks for group in many.plan.groups] == [g.tasks for g in few.plan.groups]
    assert [group.reason for group in many.plan.groups] == [g.reason for g in few.plan.groups]
    assert many.plan.left_alone == few.plan.left_alone
    compacted(table.directory, many)
    assert ids_of(table.directory) == before
    assert prepare(compaction_of(table.directory), "main", options(**SIZED), 0).plan.groups == ()


@pytest.mark.parametrize("chosen", [{"every": True}, {"min_delete_ratio": 0.0}, {}])
def test_files_that_are_asked_for_are_never_settled(tmp_path, chosen):
    build(tmp_path / "t", 2, "none")
    few, many = plans(tmp_path / "t", **SIZED, **chosen)
    assert (many.files.settled == 0) is bool(chosen)
    assert many.plan.left_alone == few.plan.left_alone


def with_deletes(directory: Path, kind: str, partitioning: str) -> TableBuilder:
    """Tables of every layout with deletes; a few of these are left over, or spelt otherwise."""
    table = build(directory, {"equality": 2, "positions": 2}.get(kind, 3), partitioning)
    table.append(range(2_000, 3_600), files=2)
    if kind == "equality":
        table.delete_rows([1, 2_100], kind="equality")
        table.append(range(4_000, 5_600), files=2)
    table.delete_rows([1_605, 2_001, 2_002])
    table.delete_rows([3, 1_615])
    table.append(range(6_000, 7_600), files=2)
    table.remove_data_files(1)
    if kind == "sfc-1":
        upgrade(directory, FixedEnv(START_MS + 10**8), "--eager")
    return table


KINDS = ["equality", "positions", "vectors", "sfc-1"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("partitioning", ["none", "bucket"])
def test_with_deletes_the_files_that_they_apply_to_are_held(tmp_path, kind, partitioning):
    few, many = plans(with_deletes(tmp_path / "t", kind, partitioning).directory, **SIZED)
    assert many.files.settled > 0
    assert len(many.files.data) + many.files.settled == len(few.files.data)
    assert len(many.files.deletes) == len(few.files.deletes) > 0
    assert many.plan.groups
    choice = EngineChoice("local")
    shown = [clean(compaction_result(Compaction(one, choice, TaskCounts()))) for one in (few, many)]
    assert shown[0] == shown[1]
    assert [group.tasks for group in many.plan.groups] == [g.tasks for g in few.plan.groups]


@pytest.mark.parametrize("kind", KINDS)
def test_such_a_compaction_changes_no_row(tmp_path, kind):
    table = with_deletes(tmp_path / "t", kind, "bucket")
    before = ids_of(table.directory)
    _, many = plans(table.directory, **SIZED)
    compacted(table.directory, many)
    assert ids_of(table.directory) == before
    assert prepare(compaction_of(table.directory), "main", options(**SIZED), 0).plan.groups == ()


def test_a_commit_that_comes_meanwhile_is_kept(tmp_path):
    table = build(tmp_path / "t", 2, "none")
    prepared = prepare(compaction_of(table.directory), "main", options(**SIZED), 0)
    table.append(range(2_000, 2_010))
    table.delete_rows([1_600])
    before = ids_of(table.directory)
    compacted(table.directory, prepared)
    assert ids_of(table.directory) == before
