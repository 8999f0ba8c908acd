"""Columns of one value: the same rows, in memory that tables share."""

import pyarrow as pa

from icectl.entries.rows import Entries, concat
from icectl.table.manifests import SharedValues

SCHEMA = pa.schema(
    [
        pa.field("location", pa.string()),
        pa.field("snapshot_id", pa.int64()),
        pa.field("content_offset", pa.int64()),
        pa.field("split_offsets", pa.list_(pa.int64())),
    ]
)


def part(first: int, count: int, snapshot_id: int) -> Entries:
    columns = [
        [f"f{first + at}" for at in range(count)],
        [snapshot_id] * count,
        [None] * count,
        [[4]] * count,
    ]
    arrays = [pa.array(one, field.type) for one, field in zip(columns, SCHEMA, strict=True)]
    return Entries(pa.table(arrays, schema=SCHEMA))


def test_rows_stay_what_they_were():
    shared = SharedValues()
    given = [part(0, 3, 7), part(3, 5, 7), part(8, 2, 8), part(10, 1, 8), part(11, 0, 8)]
    made = concat([shared.shared(one) for one in given])
    made.table.validate(full=True)
    assert made.table.equals(concat(given).table)
    assert made.table["snapshot_id"].to_pylist() == [7] * 8 + [8] * 3


def test_null_and_a_value_are_two_values():
    shared = SharedValues()
    columns = {"a": pa.array([None, None], pa.int64())}, {"a": pa.array([0, 0], pa.int64())}
    found = [shared.shared(Entries(pa.table(one))).table["a"].to_pylist() for one in columns]
    assert found == [[None, None], [0, 0]]


def test_columns_of_one_value_take_the_memory_of_one_part():
    shared = SharedValues()
    parts = [shared.shared(part(at * 100, 100, 7)).table for at in range(20)]
    for name in ("snapshot_id", "content_offset", "split_offsets"):
        places = {
            tuple(buffer.address for buffer in table[name].chunk(0).buffers() if buffer is not None)
            for table in parts
        }
        assert len(places) == 1, name
