import numpy as np
import pyarrow as pa
import pytest

from icectl.checks.metrics import avro_with_column_sizes, common, impossible_counts, pairs
from icectl.checks.objects import Columns
from icectl.entries.rows import RawEntries
from icectl.format.manifest import FileFormat
from icectl.format.rule import Fault
from tests.builders.entry_rows import data, entries


def columns(*files: dict) -> Columns:
    return Columns(RawEntries(entries(*files).table))


def in_chunks(found: Columns) -> Columns:
    """The same rows, each in a chunk of its own."""
    parts = [found.table.slice(at, 1) for at in range(len(found.table))]
    return Columns(RawEntries(pa.concat_tables(parts)))


COUNTED = columns(
    data("a", value_counts=[(1, 10), (2, 20)]),
    data("b"),
    data("c", value_counts=[]),
    data("d", value_counts=[(2, 5)]),
)


def test_pairs_know_the_rows_that_they_are_of():
    found = pairs(COUNTED, "value_counts")
    assert found.field_ids.tolist() == [1, 2, 2]
    assert found.values.to_pylist() == [10, 20, 5]
    assert found.rows(np.arange(3)).tolist() == [0, 0, 3]
    assert found.keys(width=10).tolist() == [1, 2, 32]


def test_pairs_of_a_slice_are_those_of_its_rows():
    found = pairs(Columns(RawEntries(COUNTED.table.slice(2))), "value_counts")
    assert found.rows(np.arange(1)).tolist() == [1]
    assert found.values.to_pylist() == [5]


def test_pairs_skip_what_a_null_map_hides():
    hidden = pa.MapArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()),
        pa.array([1, 2], pa.int32()),
        pa.array([10, 20], pa.int64()),
        mask=pa.array([True, False]),
    )
    found = pairs(Columns(RawEntries(pa.table({"value_counts": hidden}))), "value_counts")
    assert found.values.to_pylist() == [20]
    assert found.rows(np.arange(1)).tolist() == [1]


def test_pairs_of_a_column_of_nulls_are_none():
    assert len(pairs(COUNTED, "nan_value_counts")) == 0
    assert len(pairs(columns(), "lower_bounds")) == 0


@pytest.mark.parametrize("large", [7, 2147483546, -1])
def test_common_pairs_are_of_the_same_row_and_field_in_any_order(large):
    found = columns(
        data("a", value_counts=[(1, 0), (2, 0)], null_value_counts=[(2, 0), (1, 0)]),
        data("b", value_counts=[(large, 0)], null_value_counts=[(3, 0)]),
        data("c", value_counts=[(4, 0)], null_value_counts=[(3, 0), (4, 0)]),
    )
    left, right = pairs(found, "value_counts"), pairs(found, "null_value_counts")
    pairs_of_both = sorted(zip(*(places.tolist() for places in common(left, right)), strict=True))
    assert pairs_of_both == [(0, 1), (1, 0), (3, 4)]
    assert [places.tolist() for places in common(left, left)] == [[0, 1, 2, 3]] * 2
    assert [places.tolist() for places in common(left, pairs(found, "column_sizes"))] == [[], []]


WRONG = columns(
    data("a", value_counts=[(1, 10)], null_value_counts=[(1, 10)]),
    data("b", value_counts=[(1, 10), (2, 3)], null_value_counts=[(2, 4), (1, 11)]),
    data("c", value_counts=[(1, 10)], null_value_counts=[(1, -1)], nan_value_counts=[(1, 11)]),
    data("d", nan_value_counts=[(3, 5)]),
    data("e", value_counts=[(1, None)], null_value_counts=[(1, 0)]),
)


@pytest.mark.parametrize("found", [WRONG, in_chunks(WRONG)], ids=["whole", "in-chunks"])
def test_r130_an_entry_with_several_wrong_counts_counts_once(found):
    assert impossible_counts(found) == Fault(2, "b")


@pytest.mark.parametrize("chunked", [False, True])
def test_r133_sizes_of_columns_of_avro_files(chunked):
    found = columns(
        data("a", column_sizes=[(1, 5)]),
        data("b", column_sizes=[(1, 5)], file_format=FileFormat.AVRO),
        data("c", column_sizes=[], file_format=FileFormat.AVRO),
        data("d", file_format=FileFormat.AVRO),
    )
    assert avro_with_column_sizes(in_chunks(found) if chunked else found) == Fault(1, "b")
    assert avro_with_column_sizes(columns(data("a", column_sizes=[(1, 5)]))) is None
