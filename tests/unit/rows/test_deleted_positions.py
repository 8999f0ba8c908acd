"""Rows deleted by position: delete files of every format, vectors, and paths spelled otherwise."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import CorruptTable, Unsupported
from icectl.files.data_file import open_data_file
from icectl.rows.deleted_positions import DeletedPositions, PositionDeletes, named_data_files
from icectl.rows.read_data import SourceFile
from tests.builders.data_files import MemoryFiles, identified, table

PATH, POS = (
    identified("file_path", pa.string(), 2_147_483_546),
    identified("pos", pa.int64(), 2_147_483_545),
)
ONE, OTHER = "s3://b/t/data/1.parquet", "s3://b/t/data/2.parquet"


def deletes(rows, fields=(PATH, POS), file_format="parquet"):
    files = MemoryFiles()
    files.add("d", table(list(fields), rows), file_format)
    return open_data_file(files.open("d"), file_format)


def gone(deleted, location):
    flags = deleted.of(location)
    return None if flags is None else np.flatnonzero(flags).tolist()


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_r121_rows_are_deleted_in_the_files_that_are_named(file_format):
    deleted = DeletedPositions({ONE: 5, OTHER: 5})
    rows = [(ONE, 0), (ONE, 3), (OTHER, 4), ("s3://b/t/data/3.parquet", 1)]
    deleted.add_file(deletes(rows, file_format=file_format), {ONE, OTHER})
    assert gone(deleted, ONE) == [0, 3]
    assert gone(deleted, OTHER) == [4]


def test_r111_only_the_files_that_a_delete_file_applies_to_lose_rows():
    deleted = DeletedPositions({ONE: 5, OTHER: 5})
    deleted.add_file(deletes([(ONE, 0), (OTHER, 4)]), {OTHER})
    assert gone(deleted, ONE) is None
    assert gone(deleted, OTHER) == [4]
    deleted.check_spelling()


def test_rows_may_come_in_any_order_more_than_once_and_from_several_files():
    deleted = DeletedPositions({ONE: 9, OTHER: 9})
    deleted.add_file(deletes([(OTHER, 7), (ONE, 3), (OTHER, 1), (ONE, 3), (ONE, 0)]), {ONE, OTHER})
    deleted.add_file(deletes([(ONE, 8), (ONE, 3)]), {ONE, OTHER})
    deleted.add(ONE, np.array([2, 8], np.uint64))
    assert gone(deleted, ONE) == [0, 2, 3, 8]
    assert gone(deleted, OTHER) == [1, 7]


@pytest.mark.parametrize("batch_rows", [3, 7])
def test_files_together_have_their_own_rows_or_are_refused_in_several_batches(batch_rows):
    rows = [(ONE, 0), (OTHER, 1), (OTHER, 2), (ONE, 3), (OTHER, 4), (ONE, 5), (OTHER, 6)]
    file = io.BytesIO()
    pq.write_table(table([PATH, POS], rows), file, row_group_size=batch_rows)
    parts = [
        PositionDeletes(SourceFile("p", "parquet", count, 0), frozenset(applies_to))
        for count, applies_to in ((2, [ONE]), (3, [OTHER]), (2, [ONE, OTHER]))
    ]
    deleted = DeletedPositions({ONE: 9, OTHER: 9})
    opened = open_data_file(file, "parquet")
    if batch_rows < len(rows):
        with pytest.raises(ValueError, match="too many values"):
            deleted.add_together(opened, parts)
        return
    deleted.add_together(opened, parts)
    assert gone(deleted, ONE) == [0, 5]
    assert gone(deleted, OTHER) == [2, 4, 6]


@pytest.mark.parametrize(
    ("path", "position"),
    [
        (pa.binary(), pa.int32()), (pa.large_string(), pa.int64()),
        (pa.dictionary(pa.int32(), pa.string()), pa.int64()),
    ],
)  # fmt: skip
def test_paths_and_positions_may_be_stored_as_other_types_of_theirs(path, position):
    fields = (PATH.with_type(path), POS.with_type(position))
    file = MemoryFiles()
    rows = pa.table([[ONE, OTHER, ONE], [0, 1, 3]], ["p", "q"])
    columns = [column.cast(one.type) for column, one in zip(rows, fields, strict=True)]
    file.add("d", pa.table(columns, schema=pa.schema(fields)))
    deleted = DeletedPositions({ONE: 5})
    deleted.add_file(open_data_file(file.open("d"), "parquet"), {ONE})
    assert gone(deleted, ONE) == [0, 3]
    assert named_data_files(open_data_file(file.open("d"), "parquet")) == {ONE: 2, OTHER: 1}


@pytest.mark.parametrize(
    ("fields", "row"),
    [
        ((PATH, POS.with_type(pa.float64())), (ONE, 1.0)),
        ((PATH.with_type(pa.int64()), POS), (1, 1)),
        ((PATH.with_type(pa.binary()), POS), (b"\xff", 1)),
    ],
)
def test_r121_paths_that_are_no_text_and_positions_that_are_no_numbers_are_damage(fields, row):
    with pytest.raises(CorruptTable, match="of a position delete file is stored as"):
        DeletedPositions({ONE: 5}).add_file(deletes([row], fields), {ONE})


def test_r099_paths_that_are_no_utf8_are_damage():
    path = pa.array([ONE.encode() + b"\xff"]).view(pa.string())
    rows = pa.table([path, pa.array([0])], schema=pa.schema([PATH, POS]))
    files = MemoryFiles()
    files.add("d", rows)
    opened = open_data_file(files.open("d"), "parquet")
    with pytest.raises(CorruptTable, match="Invalid UTF8"):
        named_data_files(opened)
    with pytest.raises(CorruptTable, match="Invalid UTF8"):
        DeletedPositions({ONE: 5}).add_file(opened, {ONE})


def test_columns_are_found_by_id_beside_copies_of_deleted_rows():
    row = identified("row", pa.struct([identified("id", pa.int64(), 1)]), 2_147_483_544)
    fields = (row, POS.with_name("p"), PATH.with_name("f"))
    deleted = DeletedPositions({ONE: 5})
    deleted.add_file(deletes([({"id": 7}, 2, ONE), (None, 4, ONE)], fields), {ONE})
    assert gone(deleted, ONE) == [2, 4]


def test_positions_outside_of_a_file_delete_nothing():
    deleted = DeletedPositions({ONE: 3})
    deleted.add_file(deletes([(ONE, -1), (ONE, 2), (ONE, 3), (ONE, 2**62)]), {ONE})
    deleted.add(ONE, np.array([3, 2**63 - 1], np.uint64))
    assert gone(deleted, ONE) == [2]


@pytest.mark.parametrize(
    ("stored", "spelled"),
    [
        ("/test-warehouse/t/1.parquet", "hdfs://localhost:20500/test-warehouse/t/1.parquet"),
        ("file:///t/1.parquet", "/t/1.parquet"),
        ("s3://b/t/1.parquet", "s3a://b/t/1.parquet"),
        ("s3://b/t/a=x%3Dy/1.parquet", "s3://b/t/a=x=y/1.parquet"),
    ],
)
def test_deletes_that_spell_a_path_otherwise_are_refused_with_the_rows_at_stake(stored, spelled):
    deleted = DeletedPositions({stored: 5})
    deleted.add_file(deletes([(spelled, 1), (spelled, 2), (spelled, 9)]), {stored})
    assert gone(deleted, stored) is None
    with pytest.raises(Unsupported, match="readers disagree on 2 rows") as raised:
        deleted.check_spelling()
    assert stored in raised.value.message


def test_another_spelling_is_no_matter_where_the_rows_are_deleted_anyway():
    deleted = DeletedPositions({"s3://b/1": 5})
    deleted.add_file(deletes([("s3a://b/1", 1), ("s3a://b/1", 2)]), {"s3://b/1"})
    deleted.add_file(deletes([("s3://b/1", 1), ("s3://b/1", 2)]), {"s3://b/1"})
    deleted.check_spelling()
    assert gone(deleted, "s3://b/1") == [1, 2]


def test_another_spelling_of_a_file_that_is_not_applied_to_is_no_matter():
    deleted = DeletedPositions({"s3://b/1": 5, "s3://b/2": 5})
    deleted.add_file(deletes([("s3a://b/1", 1)]), {"s3://b/2"})
    deleted.check_spelling()


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ((PATH,), [(ONE,)]),
        ((POS,), [(1,)]),
        ((PATH, POS), [(None, 1)]),
        ((PATH, POS), [(ONE, None)]),
    ],
)
def test_r121_a_delete_file_without_path_or_position_is_damage(fields, rows):
    with pytest.raises(CorruptTable) as raised:
        DeletedPositions({ONE: 5}).add_file(deletes(rows, fields), {ONE})
    assert raised.value.rule == "R-121"
