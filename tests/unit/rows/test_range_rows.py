"""Rows dealt out by ranges of their keys, and the pieces that a shared task is read in."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from icectl.files.parquet.schema import arrow_schema
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from icectl.rows import spark_rewrite
from icectl.rows.compact_job import file_group
from icectl.rows.jobs import job_of
from icectl.rows.partition_rows import partitioner
from icectl.rows.rewrite_data import RowsRead, live_batches
from icectl.rows.sort_rows import Curve, RowKeys, Sorting, sort_keys
from icectl.rows.spark_rewrite import dealt, lows_of, pieces_of, rewriting, sampled_keys
from icectl.rows.write_data import FileOutputs
from icectl.storage.local.store import LocalStore
from icectl.table.rewrite_tasks import RewriteTask
from tests.builders.compactions import planned
from tests.builders.data_files import schema
from tests.builders.file_groups import whole_table
from tests.builders.table_builder import TableBuilder, filled_table

COLUMNS = schema((1, "id", "long"), (2, "category", "string"))
ARROW = arrow_schema(COLUMNS)
IDENTITY = parse_transform("identity")
BY_ID = SortOrder(0, (SortField((1,), IDENTITY, "asc", "nulls-first"),))
BY_CATEGORY = PartitionSpec(1, (PartitionField((2,), 1000, "category", IDENTITY),))


def batch(*rows: tuple[int, str]) -> pa.RecordBatch:
    ids, categories = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(ids), pa.array(categories)], schema=ARROW)


def key(id_: int) -> bytes:
    """The key of an id by the order, of which the words are in test_sort_rows."""
    return sort_keys(BY_ID, COLUMNS, ARROW).of(batch((id_, ""))).to_pylist()[0]


def by_id() -> RowKeys:
    return RowKeys(None, sort_keys(BY_ID, COLUMNS, ARROW))


def test_rows_go_to_the_last_range_that_begins_at_or_below_their_key():
    given = [batch((5, "a"), (1, "b"), (9, "c")), batch((4, "d"), (6, "e"))]
    found = dict(dealt(iter(given), by_id(), [key(2), key(4), key(6)]))
    ids = {number: rows["id"].to_pylist() for number, rows in found.items()}
    assert ids == {0: [1], 1: [5, 4], 2: [9, 6]}
    assert found[2]["category"].to_pylist() == ["c", "e"]


def test_one_range_has_all_rows():
    found = dict(dealt(iter([batch((5, "a"), (1, "b"))]), by_id(), [b""]))
    assert {number: rows["id"].to_pylist() for number, rows in found.items()} == {0: [1, 5]}


def test_rows_do_not_wait_for_more_than_so_many_bytes(monkeypatch):
    monkeypatch.setattr(spark_rewrite, "_WAITING_BYTES", 1)
    given = [batch((5, "a"), (1, "b")), batch((2, "c"))]
    found = [
        (number, rows["id"].to_pylist()) for number, rows in dealt(iter(given), by_id(), [b""])
    ]
    assert found == [(0, [1, 5]), (0, [2])]


def test_rows_of_a_key_that_several_ranges_begin_at_are_shared_among_them():
    """Those below and above it keep to the first and to the last of them."""
    rows = [(4, f"{number}") for number in range(6)]
    given = [batch((1, "low"), *rows, (5, "high"), (7, "higher"))]
    found = dict(dealt(iter(given), by_id(), [key(4), key(4), key(4), key(7)]))
    ids = {number: rows["id"].to_pylist() for number, rows in found.items()}
    assert ids == {0: [1, 4, 4], 1: [4, 4], 2: [4, 4, 5], 3: [7]}
    shared = [one for number in range(3) for one in found[number]["category"].to_pylist()]
    assert sorted(shared) == ["0", "1", "2", "3", "4", "5", "high", "low"]


def test_ranges_get_shared_rows_in_turn_where_few_come_at_a_time():
    given = [batch((4, f"{number}")) for number in range(9)]
    found = dict(dealt(iter(given), by_id(), [key(4)] * 3))
    assert {number: rows.num_rows for number, rows in found.items()} == {0: 3, 1: 3, 2: 3}


def test_what_is_cut_off_of_a_key_tells_no_ranges_apart(monkeypatch):
    monkeypatch.setattr(spark_rewrite, "_COMPARED_BYTES", 4)
    given = [batch((4, "a"), (5, "b"), (6, "c"), (7, "d"))]
    found = dict(dealt(iter(given), by_id(), [key(4)[:4]] * 2))
    assert {number: rows.num_rows for number, rows in found.items()} == {0: 2, 1: 2}


def test_partitions_come_before_the_order_within_them():
    keys = RowKeys(partitioner(BY_CATEGORY, COLUMNS, ARROW), sort_keys(BY_ID, COLUMNS, ARROW))
    rows = [(1, "b"), (3, "a"), (2, "b"), (2, "a"), (9, "a")]
    made = keys.of(batch(*rows)).to_pylist()
    in_order = [row for _, row in sorted(zip(made, rows, strict=True))]
    assert in_order == [(2, "a"), (3, "a"), (9, "a"), (1, "b"), (2, "b")]


def test_ranges_cut_a_sample_into_parts_of_one_size():
    sample = [bytes([number]) for number in (7, 3, 1, 0, 6, 2, 5, 4)]
    assert lows_of(sample, 4) == [b"\x00", b"\x02", b"\x04", b"\x06"]
    assert lows_of(sample, 1) == [b"\x00"]


def test_a_key_that_many_rows_have_begins_as_many_ranges_as_it_fills():
    assert lows_of([b"a"] * 9, 3) == [b"a"] * 3
    assert lows_of([b"b"] * 5 + [b"a"] * 4, 3) == [b"a", b"a", b"b"]
    assert lows_of([b"a", b"c"] + [b"b"] * 98, 4) == [b"a", b"b", b"b", b"b"]
    assert lows_of([], 3) == [b""] * 3


@pytest.mark.parametrize(("step", "sampled"), [(1, range(30)), (4, range(0, 30, 4)), (40, [0])])
def test_a_sample_has_the_key_of_every_so_many_rows_whatever_file_they_are_in(
    tmp_path, step, sampled
):
    table = TableBuilder(tmp_path, format_version=3)
    for start in range(0, 30, 10):
        table.append(range(start, start + 10))
    table.delete_rows([0, 1])
    store = LocalStore()
    group = replace(whole_table(store, table.metadata), sorting=Sorting(BY_ID, 1 << 20))
    in_order = replace(group, files=tuple(sorted(group.files, key=lambda file: file.location)))
    outputs = FileOutputs.without_places(store)
    assert sampled_keys(in_order, outputs, step) == [key(id_) for id_ in sampled]


def test_the_key_of_rows_of_several_partitions_has_their_partition(tmp_path):
    table = filled_table(tmp_path, range(6), partitioning="identity")
    store = LocalStore()
    group = replace(whole_table(store, table.metadata), sorting=Sorting(BY_ID, 1 << 20))
    found = sorted(sampled_keys(group, FileOutputs.without_places(store), 1))
    assert [one[-9:] for one in found] == [key(id_) for id_ in (0, 3, 1, 4, 2, 5)]
    assert len({one[:-9] for one in found}) == 3


def test_a_sampled_key_is_no_longer_than_a_bound_has_to_be(tmp_path):
    table = filled_table(tmp_path, range(6))
    store = LocalStore()
    group = replace(whole_table(store, table.metadata), sorting=Sorting(BY_ID, 1 << 20))
    outputs = FileOutputs.without_places(store)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spark_rewrite, "_COMPARED_BYTES", 2)
        assert {len(one) for one in sampled_keys(group, outputs, 1)} == {2}


ROWS = 1_000
DELETED = [0, 39, 40, 500, 999]


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """A file of 25 row groups, with a deletion vector, and two small files."""
    made = filled_table(tmp_path, range(ROWS), format_version=3, row_group_rows=40)
    made.delete_rows(DELETED)
    for start in (ROWS, ROWS + 10):
        made.append(range(start, start + 10))
    return made


def task_of(table: TableBuilder) -> RewriteTask:
    (group,) = planned(table.directory, order=Curve((1, 4)), every=True).plan.groups
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
        outputs = FileOutputs.without_places(store)
        group = file_group(piece, job_of(table.metadata, Curve((1, 4))))
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
