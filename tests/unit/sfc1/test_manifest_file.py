"""Reading parts of version 4 manifests: some columns, statistics of some columns."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import CorruptTable
from icectl.sfc1.manifest_file import (
    STATS,
    TREE_ROWS,
    TreeContent,
    read_locations,
    read_tree,
    write_tree,
)
from icectl.sfc1.manifests import NAMES
from tests.builders.scenarios import Scenario, table


@pytest.fixture(scope="module")
def leaf() -> bytes:
    """Two data files with statistics of column 1; the table has a column 2 too."""
    scenario = Scenario("SC-05")
    return write_tree(table(scenario.file_row("D1"), scenario.file_row("D2")), TreeContent.DATA)


def test_everything_is_read_where_nothing_is_chosen(leaf):
    rows = read_tree(leaf).rows
    assert rows.column_names == [*TREE_ROWS.names, STATS]
    assert [one.name for one in rows.schema.field(STATS).type] == ["s1", "s2"]


def test_chosen_columns_are_those_of_the_whole(leaf):
    assert NAMES.columns is not None
    rows = read_tree(leaf, columns=NAMES.columns, stats=()).rows
    assert set(rows.column_names) == NAMES.columns
    assert rows == read_tree(leaf).rows.select(rows.column_names)


@pytest.mark.parametrize(("stats", "groups"), [((), None), ((2,), ["s2"]), ((7,), None)])
def test_statistics_of_chosen_columns_are_read_alone(leaf, stats, groups):
    rows = read_tree(leaf, stats=stats).rows
    found = (
        [one.name for one in rows.schema.field(STATS).type] if STATS in rows.column_names else None
    )
    assert found == groups


def test_locations_are_those_of_the_whole(leaf):
    scenario = Scenario("SC-05")
    expected = [scenario.file_row(name)["location"] for name in ("D1", "D2")]
    assert read_locations(leaf).to_pylist() == expected


def test_a_file_without_locations_is_no_manifest():
    buffer = io.BytesIO()
    pq.write_table(pa.table({"location": ["file:///t/data/a"]}), buffer)
    with pytest.raises(CorruptTable, match="no column 100") as raised:
        read_locations(buffer.getvalue())
    assert raised.value.rule == "V4-041"


def test_a_name_with_a_dot_does_not_hide_a_column(leaf):
    whole = pq.read_table(io.BytesIO(leaf))
    at = whole.schema.get_field_index("location")
    renamed = whole.rename_columns([*whole.column_names[:at], "a.b", *whole.column_names[at + 1 :]])
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, renamed.schema, store_schema=False) as writer:
        writer.write_table(renamed)
        writer.add_key_value_metadata({"format-version": "4", "content": "data"})
    rows = read_tree(buffer.getvalue(), columns={"content", "location", "status"}, stats=()).rows
    assert rows["location"] == pa.chunked_array([read_tree(leaf).rows["location"].combine_chunks()])
    assert read_locations(buffer.getvalue()) == rows["location"].combine_chunks()


@pytest.mark.parametrize(("name", "number"), [("deletion_vector", 147), ("content_stats", 10_000)])
def test_v4_041_a_struct_that_is_a_number_is_refused(leaf, name, number):
    whole = pq.read_table(io.BytesIO(leaf))
    at = whole.schema.get_field_index(name)
    field = whole.schema.field(at).with_type(pa.int64())
    changed = whole.set_column(at, field, pa.array([7] * len(whole), pa.int64()))
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, changed.schema, store_schema=False) as writer:
        writer.write_table(changed)
        writer.add_key_value_metadata({"format-version": "4", "content": "data"})
    with pytest.raises(CorruptTable, match=rf"column {number} .* is int64, not a struct") as caught:
        read_tree(buffer.getvalue())
    assert caught.value.rule == "V4-041"


def test_equal_columns_with_other_ids_are_other_columns(leaf):
    whole = pq.read_table(io.BytesIO(leaf))
    places = [whole.schema.get_field_index(name) for name in ("record_count", "file_size_in_bytes")]
    fields = list(whole.schema)
    for at, other in (places, places[::-1]):
        fields[at] = whole.schema.field(at).with_metadata(whole.schema.field(other).metadata)
    swapped = whole.cast(pa.schema(fields))
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, swapped.schema, store_schema=False) as writer:
        writer.write_table(swapped)
        writer.add_key_value_metadata({"format-version": "4", "content": "data"})
    before, after = read_tree(leaf).rows, read_tree(buffer.getvalue()).rows
    assert after["record_count"] == before["file_size_in_bytes"]
    assert after["file_size_in_bytes"] == before["record_count"]
