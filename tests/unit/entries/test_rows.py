from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from icectl.entries import rows
from icectl.entries.partition_key import encode_key
from icectl.entries.rows import ALL_COLUMNS
from icectl.entries.summary import field_summaries
from icectl.format.manifest import Content, FieldSummary, Status
from icectl.format.types import PrimitiveType
from tests.builders.entry_rows import data, entries, equality, key, named, positions, vector

FILES = entries(
    data("a", status=Status.EXISTING, record_count=5, snapshot_id=7),
    data("b", status=Status.DELETED, file_size_in_bytes=10, snapshot_id=8),
    data("c", manifest=1, spec_id=1, partition_key=key("x"), file_size_in_bytes=10),
    positions("d", manifest=2),
    equality("e", manifest=2, spec_id=1, snapshot_id=None),
    vector("f", "a", manifest=2),
)


def test_r110_live_entries_are_added_or_existing():
    assert named(rows.live(FILES)) == ["a", "c", "d", "e", "f"]


def test_of_status_keeps_the_named_statuses_in_order():
    assert named(rows.of_status(FILES, Status.DELETED)) == ["b"]
    assert named(rows.of_status(FILES, Status.DELETED, Status.EXISTING)) == ["a", "b"]


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        (rows.data_files, ["a", "b", "c"]),
        (rows.delete_files, ["d", "e", "f"]),
        (rows.equality_delete_files, ["e"]),
        (rows.position_delete_files, ["d"]),
        (rows.deletion_vectors, ["f"]),
    ],
)
def test_kinds_of_files_are_told_apart(choose, expected):
    assert named(choose(FILES)) == expected


def test_of_counts_vectors_as_position_deletes():
    assert named(rows.of(FILES, Content.POSITION_DELETES)) == ["d", "f"]


def test_entries_of_manifests_and_specs_are_chosen():
    assert named(rows.in_manifests(FILES, {0, 2})) == ["a", "b", "d", "e", "f"]
    assert named(rows.of_specs(FILES, {1})) == ["c", "e"]


def test_nothing_is_chosen_by_an_empty_set():
    assert named(rows.in_manifests(FILES, set())) == []


def test_smaller_than_excludes_the_bound():
    assert named(rows.smaller_than(FILES, 1000)) == ["b", "c"]
    assert named(rows.smaller_than(FILES, 10)) == []


def test_where_takes_null_for_false():
    mask = pa.array([True, None, False, None, True, None])
    assert named(rows.where(FILES, mask)) == ["a", "e"]


def test_where_copies_nothing_when_every_row_stays():
    assert rows.where(FILES, pa.array([True] * len(FILES))) is FILES


def test_where_copies_no_chunk_that_keeps_all_its_rows():
    table = pa.concat_tables([FILES.table, FILES.table])
    kept = rows.where(type(FILES)(table), np.arange(len(table)) != 1).table
    assert kept.equals(
        pa.concat_tables([FILES.table.slice(0, 1), FILES.table.slice(2), FILES.table])
    )
    last = kept["location"].chunks[-1]
    assert last.buffers()[2].address == FILES.table["location"].chunk(0).buffers()[2].address


def test_part_is_a_stretch_of_rows():
    assert named(rows.part(FILES, 1, 3)) == ["b", "c"]
    assert named(rows.part(FILES, 6, 6)) == []


def test_minus_and_only_are_complements():
    wanted = pa.array(["e", "a", "missing"])
    assert named(rows.only(FILES, wanted)) == ["a", "e"]
    assert named(rows.minus(FILES, wanted)) == ["b", "c", "d", "f"]


def test_minus_knows_the_spellings_of_a_local_file():
    local = entries(data("file:/p/a"), data("/p/b"), data("s3://p/a"))
    assert named(rows.minus(local, pa.array(["file:///p/a", "file://localhost/p/b"]))) == [
        "s3://p/a"
    ]


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("file:/p", "/p"), ("file:///p", "/p"), ("FILE:///p", "/p"), ("file://localhost/p", "/p"),
        ("/p", "/p"), ("file:p/q", "p/q"), ("file:///", "/"), ("file://host/p", "file://host/p"),
        ("s3://bucket/file:/p", "s3://bucket/file:/p"), (None, None),
    ],
)  # fmt: skip
def test_location_keys_spell_local_files_one_way(location, expected):
    keys = rows.location_keys(pa.array([location, "file:/other"], pa.string()))
    assert keys.to_pylist() == [expected, "/other"]


def test_locations_are_distinct_and_in_order_of_appearance():
    twice = entries(data("b"), data("a"), data("b"))
    assert rows.locations(twice).to_pylist() == ["b", "a"]


def test_repeats_flags_later_equals_but_no_nulls():
    keys = pa.chunked_array([["a", None, "b"], ["a", None, "b", "c"]])
    assert rows.repeats(keys).tolist() == [False, False, False, True, False, True, False]


def test_concat_puts_parts_one_after_the_other():
    parts = [rows.in_manifests(FILES, [number]) for number in (1, 0)]
    assert named(rows.concat(parts)) == ["c", "a", "b"]


def test_concat_of_nothing_has_every_column():
    empty = rows.concat([])
    assert len(empty) == 0
    assert frozenset(empty.table.column_names) == ALL_COLUMNS


def test_take_follows_the_given_order():
    assert named(rows.take(FILES, [4, 0])) == ["e", "a"]
    assert named(rows.take(FILES, [])) == []
    assert named(rows.take(FILES, [5, 4, 3, 2, 1, 0])) == ["f", "e", "d", "c", "b", "a"]


@pytest.mark.parametrize("chosen", [[3, 1], [1, 3], [5, 5], [0], [5], []])
def test_take_finds_rows_in_whichever_chunk_they_are(chosen):
    parts = [FILES.table.slice(0, 2), FILES.table.slice(2, 0), FILES.table.slice(2)]
    found = rows.take(rows.Entries(pa.concat_tables(parts)), chosen)
    assert named(found) == [named(FILES)[at] for at in chosen]
    assert found.table.schema == FILES.table.schema


@pytest.mark.parametrize("chosen", [[6], [-1], [0, 6], [0, 1, 2, 3, 6]])
def test_take_of_a_row_that_is_not_there_is_an_error(chosen):
    with pytest.raises(IndexError):
        rows.take(FILES, chosen)


def test_take_copies_little_of_large_columns():
    texts = pa.chunked_array([pa.array(["x" * 1000] * 10_000) for _ in range(8)])
    before, pool = pa.total_allocated_bytes(), pa.default_memory_pool()
    large = rows.Entries(pa.table({"location": texts}))
    highest = pool.max_memory()
    assert len(rows.take(large, [70_000, 5, 40_000])) == 3
    assert before > 80_000_000
    assert pool.max_memory() <= highest + 1_000_000
    assert named(rows.take(FILES, np.array([1], dtype=np.int64))) == ["b"]


def test_by_row_gives_the_named_columns():
    assert list(rows.by_row(rows.take(FILES, [0, 5]), "location", "referenced_data_file")) == [
        ("a", None),
        ("f", "a"),
    ]


def test_total_counts_null_as_nothing():
    assert rows.total(FILES, "content_size_in_bytes") == 40
    assert rows.total(rows.data_files(FILES), "content_size_in_bytes") == 0
    assert rows.total(FILES, "record_count") == 55


def test_count_by_manifest_counts_manifests_without_rows():
    assert rows.count_by_manifest(FILES, 4) == [2, 1, 3, 0]


def test_count_by_value_counts_null_too():
    assert rows.count_by_value(FILES, "snapshot_id") == {7: 1, 8: 1, 1: 3, None: 1}


def test_index_in_finds_no_null():
    found = rows.index_in(pa.chunked_array([["b", None], ["x"]]), pa.array(["a", "b", None]))
    assert found.tolist() == [1, -1, -1]


def test_entries_are_as_long_as_their_tables():
    assert len(FILES) == 6
    assert len(rows.RawEntries(FILES.table.slice(2))) == 4


UUID_TYPE, TEXT = PrimitiveType("uuid"), PrimitiveType("string")
LOW, LOWER_HALF = UUID(int=1), UUID("00000000-0000-0000-8000-000000000000")
MIDDLE, HIGH = UUID("7" + "f" * 31), UUID("8" + "0" * 31)
HIGHEST = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


def of(*values: UUID | None) -> tuple[FieldSummary, ...] | None:
    """The summaries of files with these partitions, of a UUID and a text."""
    types = (UUID_TYPE, TEXT)
    keys = [encode_key(types, (value, "t")) for value in values]
    files = (data(str(at), partition_key=key) for at, key in enumerate(keys))
    return field_summaries(entries(*files), types)


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([MIDDLE], (MIDDLE, MIDDLE)),
        ([HIGH, None, HIGH], (HIGH, HIGH)),
        ([MIDDLE, LOW], (LOW, MIDDLE)),
        ([HIGHEST, HIGH], (HIGH, HIGHEST)),
    ],
)
def test_r053_uuids_that_all_readers_order_alike_have_a_range(values, bounds):
    text = FieldSummary(contains_null=False, contains_nan=False, lower_bound=b"t", upper_bound=b"t")
    lower, upper = (value.bytes for value in bounds)
    assert of(*values) == (FieldSummary(None in values, False, lower, upper), text)


@pytest.mark.parametrize(
    "values", [[LOW, HIGH], [HIGHEST, MIDDLE, None], [LOW, LOWER_HALF], [LOWER_HALF, LOW, HIGH]]
)
def test_r053_a_manifest_tells_no_ranges_where_java_orders_its_uuids_otherwise(values):
    """Java's UUID.compareTo compares halves as signed numbers: 8… comes before 0…."""
    assert of(*values) is None


def test_r053_fields_that_have_nulls_alone_have_a_summary_without_bounds():
    summaries = of(None, None)
    assert summaries is not None
    assert summaries[0] == FieldSummary(contains_null=True, contains_nan=False)
