"""Rows of input files as runs of positions: there and back again."""

import numpy as np
import pytest

from icectl.rows.row_runs import no_rows, rows_of, runs_of

FLAGS = {
    "none": ([False, False], []),
    "first": ([True, False, False], [0]),
    "last": ([False, False, True], [2]),
    "all": ([True, True, True], [0, 1, 2]),
    "runs": ([True, True, False, True, False, False, True], [0, 1, 3, 6]),
    "empty": ([], []),
}


@pytest.mark.parametrize("name", FLAGS)
def test_rows_are_those_that_are_flagged(name):
    flags, rows = FLAGS[name]
    found = rows_of(runs_of([None, np.array(flags, bool), None]), ["a", "b", "c"])
    assert {key: value.tolist() for key, value in found.items()} == ({"b": rows} if rows else {})


def test_each_file_has_its_own_rows():
    runs = runs_of([np.array(flags, bool) for flags, _ in FLAGS.values()])
    assert runs.num_rows == 6
    found = rows_of(runs, list(FLAGS))
    expected = {name: rows for name, (_, rows) in FLAGS.items() if rows}
    assert {name: rows.tolist() for name, rows in found.items()} == expected
    assert {rows.dtype for rows in found.values()} == {np.dtype(np.uint64)}


def test_nothing_is_a_table_without_runs():
    assert rows_of(no_rows(), []) == {}
    assert runs_of([]).schema == no_rows().schema
