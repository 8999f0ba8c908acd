"""Parquet files as data files are written: row groups, and which columns get a dictionary."""

import gc
import io

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from icectl.files.parquet.write import ParquetOptions, ParquetWriter, columns_with_dictionary

UUIDS = pa.array([b"0123456789abcdef", None], pa.uuid().storage_type)
UUID = pa.ExtensionArray.from_storage(pa.uuid(), UUIDS)


@pytest.mark.parametrize(
    "column",
    [
        UUID,
        pa.StructArray.from_arrays([UUID], fields=[pa.field("u", pa.uuid())]),
        pa.ListArray.from_arrays(pa.array([0, 1, 2]), UUID),
    ],
    ids=["plain", "in a struct", "in a list"],
)
def test_uuids_are_written_wherever_they_are(column):
    file = io.BytesIO()
    batch = pa.record_batch([column], names=["c"])
    writer = ParquetWriter(file, batch.schema, ParquetOptions(), {})
    writer.write_row_group([batch])
    writer.close()
    assert pq.read_table(file)["c"].to_pylist() == column.to_pylist()


def test_a_file_may_have_no_rows():
    file = io.BytesIO()
    schema = pa.schema([pa.field("c", pa.struct([pa.field("u", pa.uuid())]))])
    ParquetWriter(file, schema, ParquetOptions(), {}).close()
    assert pq.read_table(file).num_rows == 0


def test_bounds_of_uuids_are_nowhere_in_a_footer_and_counts_of_nulls_are():
    column = pa.StructArray.from_arrays([UUID], fields=[pa.field("u", pa.uuid())])
    names = ["id", "u", "s", "l"]
    arrays = [pa.array([1, 2]), UUID, column, pa.ListArray.from_arrays([0, 1, 2], UUID)]
    batch = pa.record_batch(arrays, names=names)
    file = io.BytesIO()
    writer = ParquetWriter(file, batch.schema, ParquetOptions(), {})
    for _ in range(2):
        writer.write_row_group([batch])
    writer.close()
    stored = pq.ParquetFile(file)
    for number in range(2):
        chunks = [stored.metadata.row_group(number).column(at) for at in range(4)]
        assert [one.has_column_index for one in chunks] == [True, False, False, False]
        told = [one.statistics for one in chunks]
        assert [one.has_min_max for one in told] == [True, False, False, False]
        assert [one.null_count for one in told] == [0, 1, 1, 1]
    assert stored.read() == pa.Table.from_batches([batch, batch])


def test_pages_of_wide_values_are_not_larger_than_asked_for():
    file = io.BytesIO()
    batch = pa.record_batch([pa.array([f"{at:05}" * 2000 for at in range(1_000)])], names=["c"])
    options = ParquetOptions(page_size_bytes=2**17, compression="none")
    writer = ParquetWriter(file, batch.schema, options, {})
    writer.write_row_group([batch])
    writer.close()
    found = pq.ParquetFile(file)
    column = found.metadata.row_group(0).column(0)
    # 10 MB of text: the footer's index of pages names each, at some 8 bytes or more.
    index_bytes = len(file.getvalue()) - column.total_compressed_size
    assert index_bytes > 8 * (column.total_uncompressed_size // 2**17)
    assert found.read()["c"].to_pylist() == batch["c"].to_pylist()


COUNT = 200_000
CHANCE = np.random.default_rng(1)
TAGS = pa.map_(pa.string(), pa.struct([("x", pa.int64())]))


def rows(count=COUNT):
    numbers = np.arange(count)
    return pa.table(
        {
            "id": numbers,
            "kind": pa.array([f"k{number % 50}" for number in numbers]),
            "key": pa.array([int(number).to_bytes(16) for number in numbers], pa.uuid()),
            "rare": pa.array([None if number % 100 else int(number) for number in numbers]),
            "nothing": pa.nulls(count, pa.int64()),
            "a.b": CHANCE.random(count),
            "tags": pa.array([[("a", {"x": 1})]] * count, TAGS),
        }
    )


def test_columns_of_ever_new_values_get_none():
    found = columns_with_dictionary(rows(), 20_000)
    assert found == [
        "kind", "nothing", "tags.key_value.key", "tags.key_value.value.x",
    ]  # fmt: skip


def test_a_file_where_all_values_come_again_has_one_for_every_column():
    assert (
        columns_with_dictionary(pa.table({"a": [1, 1, 2] * 100, "b": ["x"] * 300}), 20_000) is True
    )
    assert columns_with_dictionary(rows(0), 20_000) is True


def test_sorted_columns_are_judged_by_all_of_their_parts():
    repeated = pa.table({"a": np.arange(COUNT) // 4, "b": np.repeat(np.arange(COUNT // 2), 2)})
    assert columns_with_dictionary(repeated, 20_000) is True


@pytest.mark.parametrize(
    ("different", "kind", "is_worth_it"),
    [
        (16_000, pa.int64(), False),  # 128,000 + 35,000 bytes against 160,000
        (15_000, pa.int64(), True),
        (12_000, pa.int32(), False),  # 48,000 + 35,000 bytes against 80,000
        (11_000, pa.int32(), True),
        (12_000, pa.decimal128(9, 2), False),
        (16_000, pa.decimal128(18, 2), False),
        (16_000, pa.decimal128(19, 2), True),  # 256,000 + 35,000 bytes against 320,000
        (19_000, pa.string(), False),  # 551,000 + 37,500 bytes against 580,000
        (17_000, pa.string(), True),
    ],
)
def test_dictionaries_are_to_be_shorter_than_a_page_of_values(different, kind, is_worth_it):
    numbers = pa.array(np.arange(20_000) % different).cast(pa.int32())
    if pa.types.is_string(kind):
        column = pc.utf8_lpad(numbers.cast(kind), 25)
    else:
        column = numbers.cast(pa.decimal128(10)).cast(kind, safe=False)
    assert columns_with_dictionary(pa.table({"c": column}), 20_000) == (is_worth_it or [])


def test_files_are_written_with_what_was_found():
    file = io.BytesIO()
    given = rows()
    writer = ParquetWriter(file, given.schema, ParquetOptions(), {"a": "b"})
    writer.write_row_group(given.to_batches())
    writer.close()
    stored = pq.ParquetFile(file)
    group = stored.metadata.row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    assert [one.path_in_schema for one in columns if one.has_dictionary_page] == [
        "kind", "nothing", "tags.key_value.key", "tags.key_value.value.x",
    ]  # fmt: skip
    assert stored.metadata.metadata[b"a"] == b"b"
    assert stored.read().equals(given)


class Counting(io.BytesIO):
    """A file that counts what is written to it at a time."""

    writes = 0

    def write(self, content):
        self.writes += 1
        return super().write(content)


def test_a_file_gets_many_pages_at_a_time():
    file, given = Counting(), rows(20_000)
    writer = ParquetWriter(file, given.schema, ParquetOptions(page_row_limit=500), {})
    writer.write_row_group(given.to_batches())
    assert writer.size_bytes == len(file.getvalue())
    writer.close()
    pages = 40 * given.num_columns
    assert file.writes < pages / 10
    assert pq.ParquetFile(file).read().equals(given)


def test_nothing_is_written_to_a_file_that_is_not_wanted():
    file, given = io.BytesIO(), rows()
    writer = ParquetWriter(file, given.schema, ParquetOptions(), {})
    writer.write_row_group(given.to_batches())
    size_bytes = writer.size_bytes
    writer.abandon()
    del writer
    gc.collect()
    assert len(file.getvalue()) == size_bytes


def test_a_file_without_rows_has_a_footer():
    file = io.BytesIO()
    given = rows(0)
    ParquetWriter(file, given.schema, ParquetOptions(), {}).close()
    assert pq.ParquetFile(file).read().equals(given)
