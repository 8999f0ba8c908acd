import pyarrow as pa

from icectl.entries import rows, stats
from icectl.entries.rows import Entries
from tests.builders.entry_rows import data, entries, equality, positions

FILES = entries(
    data("a", value_counts={1: 10, 2: 20}, lower_bounds={1: b"\x01"}, upper_bounds={1: b"\x09"}),
    data("b"),
    data("c", value_counts={}, lower_bounds={2: b""}),
    data("d", value_counts={2: 5}, lower_bounds={1: b"\x03"}),
)


def in_chunks(part: Entries) -> Entries:
    """The same rows, each in a chunk of its own, the second half sliced out of a larger one."""
    single = [part.table.slice(number, 1) for number in range(2)]
    return Entries(pa.concat_tables([*single, part.table.slice(2)]))


def test_flat_has_one_row_per_key_with_the_entry_it_is_from():
    expected = {"row": [0, 0, 3], "field_id": [1, 2, 2], "value": [10, 20, 5]}
    assert stats.flat(FILES, "value_counts").to_pydict() == expected
    assert stats.flat(in_chunks(FILES), "value_counts").to_pydict() == expected


def test_flat_of_chosen_rows_counts_from_their_first():
    last = rows.take(FILES, [3, 0])
    assert stats.flat(last, "value_counts").to_pydict() == {
        "row": [0, 1, 1],
        "field_id": [2, 1, 2],
        "value": [5, 10, 20],
    }
    sliced = Entries(FILES.table.slice(2))
    assert stats.flat(sliced, "value_counts").to_pydict() == {
        "row": [1],
        "field_id": [2],
        "value": [5],
    }


def test_flat_skips_what_a_null_map_hides():
    kind = pa.map_(pa.int32(), pa.int64())
    hidden = pa.MapArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()),
        pa.array([1, 2], pa.int32()),
        pa.array([10, 20], pa.int64()),
        mask=pa.array([True, False]),
    )
    table = Entries(pa.table({"value_counts": hidden.cast(kind)}))
    assert stats.flat(table, "value_counts").to_pydict() == {
        "row": [1],
        "field_id": [2],
        "value": [20],
    }


def test_flat_of_no_entries_is_empty_and_typed():
    empty = stats.flat(rows.concat([]), "lower_bounds")
    assert empty.num_rows == 0
    assert empty.schema.types == [pa.int64(), pa.int32(), pa.binary()]


def test_r130_a_missing_map_or_key_is_null():
    assert stats.metric(FILES, "value_counts", 2).to_pylist() == [20, None, None, 5]
    assert stats.metric(in_chunks(FILES), "value_counts", 2).to_pylist() == [20, None, None, 5]
    assert stats.metric(FILES, "value_counts", 3).to_pylist() == [None] * 4
    assert stats.metric(FILES, "nan_value_counts", 1).to_pylist() == [None] * 4


def test_of_field_reads_from_a_flat_table():
    flattened = stats.flat(FILES, "lower_bounds")
    assert stats.of_field(flattened, 1, 4).to_pylist() == [b"\x01", None, None, b"\x03"]
    assert stats.of_field(flattened, 2, 4).to_pylist() == [None, None, b"", None]


def test_bounds_are_the_stored_bytes():
    assert stats.bounds(FILES, 1, "lower").to_pylist() == [b"\x01", None, None, b"\x03"]
    assert stats.bounds(FILES, 1, "upper").to_pylist() == [b"\x09", None, None, None]


def test_field_ids_ascend_and_come_once():
    assert stats.field_ids(FILES, "value_counts") == [1, 2]
    assert stats.field_ids(FILES, "column_sizes") == []


def test_a_position_delete_file_with_equal_path_bounds_names_its_data_file():
    path = stats.DELETE_FILE_PATH_ID

    def range_(lower: bytes, upper: bytes) -> dict[str, object]:
        return {"lower_bounds": {path: lower}, "upper_bounds": {path: upper}}

    files = stats.with_referenced_data_files(
        entries(
            positions("one file", **range_(b"s3://b/a", b"s3://b/a")),
            positions("two files", **range_(b"s3://b/a", b"s3://b/c")),
            positions("no bounds"),
            positions("named", referenced_data_file="s3://b/z"),
            positions(
                "agreed", referenced_data_file="s3://b/a", **range_(b"s3://b/a", b"s3://b/a")
            ),
            positions(
                "denied", referenced_data_file="s3://b/z", **range_(b"s3://b/a", b"s3://b/a")
            ),
            equality("equality", **range_(b"s3://b/a", b"s3://b/a")),
            data("data", **range_(b"s3://b/a", b"s3://b/a")),
        )
    )
    assert files.table["referenced_data_file"].to_pylist() == [
        "s3://b/a", None, None, "s3://b/z", "s3://b/a", None, None, None,
    ]  # fmt: skip
    assert files.table.schema == FILES.table.schema
