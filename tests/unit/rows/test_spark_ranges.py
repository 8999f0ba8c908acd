"""The pieces that a task is read in where many workers share it: every row in one of them."""

from pathlib import Path

import pytest

from icectl.commands.compact.run import job_of
from icectl.rows import spark_rewrite
from icectl.rows.compact_job import file_group
from icectl.rows.rewrite_data import RowsRead, live_batches
from icectl.rows.sort_rows import ZOrder
from icectl.rows.spark_rewrite import pieces_of, rewriting
from icectl.rows.write_data import FileOutputs
from icectl.storage.local.store import LocalStore
from icectl.table.rewrite_tasks import RewriteTask
from tests.builders.compactions import planned
from tests.builders.table_builder import TableBuilder

ROWS = 1_000
DELETED = [0, 39, 40, 500, 999]


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """A file of 25 row groups, with a deletion vector, and two small files."""
    made = TableBuilder(tmp_path, format_version=3, row_group_rows=40)
    made.append(range(ROWS))
    made.delete_rows(DELETED)
    for start in (ROWS, ROWS + 10):
        made.append(range(start, start + 10))
    return made


def task_of(table: TableBuilder) -> RewriteTask:
    (group,) = planned(table.directory, order=ZOrder((1, 4))).plan.groups
    (task,) = group.tasks
    assert isinstance(task, RewriteTask)
    return task


def test_a_large_file_is_read_in_pieces_that_have_each_row_once(table, monkeypatch):
    task, store = task_of(table), LocalStore()
    large = max(task.inputs, key=lambda file: file.size_bytes)
    monkeypatch.setattr(spark_rewrite, "_PIECE_BYTES", large.size_bytes // 8)
    pieces = list(pieces_of(task))
    of_large = [file.split for piece in pieces for file in piece.inputs if file.split is not None]
    assert len(of_large) == 8
    counts, ids, row_ids = [], [], []
    for piece in pieces:
        read = RowsRead()
        outputs = FileOutputs(lambda _: "", store.open_new, store.open)
        group = file_group(piece, job_of(table.metadata, ZOrder((1, 4))))
        for batch in live_batches(group, outputs, read):
            ids += batch["id"].to_pylist()
            row_ids += batch["_row_id"].to_pylist()
        counts.append(read.row_count)
    assert sum(counts) == ROWS + 20
    assert max(counts) <= 2 * ROWS / 8
    assert sorted(ids) == sorted(set(range(ROWS + 20)) - set(DELETED))
    assert row_ids == ids


def test_small_files_are_read_together_and_large_ones_as_they_are_where_they_cannot_be_cut(
    table, monkeypatch
):
    task = task_of(table)
    whole = [file.location for file in task.inputs]
    assert [[file.location for file in piece.inputs] for piece in pieces_of(task)] == [whole]
    monkeypatch.setattr(spark_rewrite, "_PIECE_BYTES", max(f.size_bytes for f in task.inputs))
    assert [file.split for piece in pieces_of(task) for file in piece.inputs] == [None] * 3


def test_the_phase_tells_the_rows_of_its_files_once(table):
    """Two tasks that share a file read its rows but once between them."""
    task = task_of(table)
    assert rewriting([task]) == "rewriting data files of 1,020 rows on Spark"
    assert rewriting([task, task]) == "rewriting data files of 1,020 rows on Spark"
