"""Rows expire from whatever head the commit finds."""

from pathlib import Path

import pytest

from icectl.commands.expire_rows.run import ExpireRowsOptions, execute, prepare
from icectl.errors import Refused
from tests.builders.compactions import compaction_of
from tests.builders.expiry import NOW_MS
from tests.builders.inline_engine import InlineEngine
from tests.builders.rows import current_metadata, read_metadata, read_rows
from tests.builders.table_builder import filled_table

BEFORE_ROW_4 = "at < '2023-11-15T02:00:00'"


def ids(directory: Path) -> list[int]:
    rows = read_rows(read_metadata(current_metadata(directory)))
    return sorted(dict(row)["id"] for row in rows)


@pytest.mark.parametrize("method", ["deletes", "rewrite"])
@pytest.mark.parametrize("most", [1.0, 0.3])
def test_rows_and_deletes_of_another_writer_count_too(tmp_path, method, most):
    table = filled_table(tmp_path, [1, 2, 10, 11, 12, 13, 14, 15], format_version=3)
    context = compaction_of(tmp_path)
    engine = InlineEngine(context.store, context.progress, context.deadline, context.concurrency)
    options = ExpireRowsOptions("main", BEFORE_ROW_4, False, method, "footers", most, NOW_MS)
    prepared = prepare(context, engine, options)
    assert prepared.plan.deleted_row_count == 2
    table.append([0, 3])
    table.delete_rows([1, 10])
    if most == 1:
        done, _ = execute(context, engine, prepared)
        assert (done.deleted_rows, ids(tmp_path)) == (3, [11, 12, 13, 14, 15])
        return
    with pytest.raises(Refused, match="3 of 8 rows would be deleted"):
        execute(context, engine, prepared)
    assert ids(tmp_path) == [0, 2, 3, 11, 12, 13, 14, 15]
    assert list(Path(tmp_path).rglob("*icectl-*")) == []


def test_nothing_is_committed_where_another_writer_deleted_all_rows(tmp_path):
    table = filled_table(tmp_path, range(10))
    context = compaction_of(tmp_path)
    engine = InlineEngine(context.store, context.progress, context.deadline, context.concurrency)
    options = ExpireRowsOptions("main", BEFORE_ROW_4, False, "deletes", "footers", 1.0, NOW_MS)
    prepared = prepare(context, engine, options)
    table.delete_rows(range(4))
    current = current_metadata(tmp_path)
    done, _ = execute(context, engine, prepared)
    assert (done.deleted_rows, done.snapshot_id, current_metadata(tmp_path)) == (0, None, current)
