"""Columns that get a dictionary, by what they hold, and what a file of them then is."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icectl.files.parquet.write import ParquetOptions, ParquetWriter, columns_with_dictionary

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
    found = columns_with_dictionary(rows())
    assert found == [
        "kind", "nothing", "tags.key_value.key", "tags.key_value.value.x",
    ]  # fmt: skip


def test_a_file_where_all_values_come_again_has_one_for_every_column():
    assert columns_with_dictionary(pa.table({"a": [1, 1, 2] * 100, "b": ["x"] * 300})) is True
    assert columns_with_dictionary(rows(0)) is True


def test_sorted_columns_are_judged_by_all_of_their_parts():
    repeated = pa.table({"a": np.arange(COUNT) // 4, "b": np.repeat(np.arange(COUNT // 2), 2)})
    assert columns_with_dictionary(repeated) is True


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


def test_a_file_without_rows_has_a_footer():
    file = io.BytesIO()
    given = rows(0)
    ParquetWriter(file, given.schema, ParquetOptions(), {}).close()
    assert pq.ParquetFile(file).read().equals(given)
