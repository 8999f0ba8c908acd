"""Deletes that came while files were rewritten: where their rows are in the new files."""

import random

import numpy as np
import pytest

from icectl.commit.carried_positions import (
    NotCarried,
    deleted_since,
    joined,
    moved_positions,
    new_count,
    positions_of_rows,
)
from icectl.format.manifest import FileFormat
from icectl.table.rewrite_tasks import InputFile


def file(name: str, rows: int) -> InputFile:
    return InputFile(name, FileFormat.PARQUET, 100, rows, 0, b"", 1)


def positions(*numbers: int):
    return np.array(numbers, np.uint64)


def as_lists(found) -> dict[str, list[int]]:
    return {location: numbers.tolist() for location, numbers in found.items()}


def test_positions_are_those_of_the_kept_rows():
    found = moved_positions(
        [file("a", 4), file("b", 3), file("c", 2)],
        {"a": positions(1)},
        {"a": positions(1, 3), "b": positions(0, 2)},
        [("x", 4), ("y", 4)],
    )
    # kept: a0 a2 a3 b0 | b1 b2 c0 c1
    assert as_lists(found) == {"x": [2, 3], "y": [1]}


def test_positions_behind_the_end_of_a_file_mean_no_row():
    found = moved_positions(
        [file("a", 2), file("b", 2)], {"a": positions(2)}, {"a": positions(1, 9)}, [("x", 4)]
    )
    assert as_lists(found) == {"x": [1]}


def test_nothing_is_carried_to_files_that_there_are_not():
    assert moved_positions([file("a", 1)], {"a": positions(0)}, {"a": positions(0)}, []) == {}


def test_rows_that_are_live_again_are_not_carried():
    with pytest.raises(NotCarried, match="`a` that were deleted are live again"):
        moved_positions([file("a", 4)], {"a": positions(1, 2)}, {"a": positions(1)}, [("x", 2)])


@pytest.mark.parametrize("made", [[("x", 2)], [("x", 4)], []])
def test_rows_that_were_left_out_otherwise_are_not_carried(made):
    with pytest.raises(NotCarried, match="the rows left out are not"):
        moved_positions([file("a", 4)], {"a": positions(1)}, {"a": positions(1, 2)}, made)


def row_ids(*numbers: int):
    return np.array(numbers, np.int64)


def test_sorted_rows_are_where_their_ids_are():
    made = [("x", row_ids(9, 0, 7)), ("y", row_ids(8, 1)), ("z", row_ids(-1, 5, -1))]
    found = positions_of_rows(row_ids(7, 8, 9, 0), made)
    assert as_lists(found) == {"x": [0, 1, 2], "y": [0]}
    assert all(numbers.dtype == np.uint64 for numbers in found.values())


@pytest.mark.parametrize(
    ("wanted", "made"),
    [
        ([3, 4], [[3, 5]]),  # one is nowhere
        ([3], [[3, 3]]),  # one is twice in a file
        ([3], [[3], [3]]),  # and in two
        ([3, 4], [[3, 3]]),  # as many, but not the same
        ([-1], [[-1]]),  # rows without ids are told apart by nothing
        ([], [[-1], []]),
    ],
)
def test_sorted_rows_that_are_not_there_once_are_not_carried(wanted, made):
    files = [(f"f{at}", row_ids(*ids)) for at, ids in enumerate(made)]
    if not wanted:
        assert positions_of_rows(row_ids(), files) == {}
        return
    with pytest.raises(NotCarried, match="can't be found by their `_row_id`"):
        positions_of_rows(row_ids(*wanted), files)


@pytest.mark.parametrize("seed", range(40))
def test_any_rows_are_found_where_a_list_has_them(seed):
    pick = random.Random(seed)
    inputs = [file(f"f{at}", pick.randrange(0, 12)) for at in range(pick.randint(1, 5))]

    def some(rows: int, chance: float) -> set[int]:
        return {at for at in range(rows) if pick.random() < chance}

    before = {one.location: some(one.record_count, 0.3) for one in inputs}
    after = {
        one.location: before[one.location] | some(one.record_count, pick.choice([0.2, 1]))
        for one in inputs
        if pick.random() < 0.7
    }
    kept = [
        (one.location, at)
        for one in inputs
        for at in range(one.record_count)
        if at not in before[one.location]
    ]
    made, left = [], len(kept)
    while left:
        made.append((f"n{len(made)}", pick.randint(1, left)))
        left -= made[-1][1]
    rows = iter(kept)
    new = {name: [next(rows) for _ in range(count)] for name, count in made}
    expected = {
        name: [at for at, (location, row) in enumerate(of) if row in after.get(location, ())]
        for name, of in new.items()
    }
    found = moved_positions(
        inputs,
        {name: positions(*sorted(numbers)) for name, numbers in before.items()},
        {name: positions(*sorted(numbers)) for name, numbers in after.items()},
        made,
    )
    assert as_lists(found) == {name: numbers for name, numbers in expected.items() if numbers}


def test_positions_of_two_sources_are_joined_by_file():
    both = joined(
        {"a": positions(1, 4), "b": positions(0)}, {"a": positions(2, 4), "c": positions(3)}
    )
    assert as_lists(both) == {"a": [1, 2, 4], "b": [0], "c": [3]}


def test_rows_are_counted_that_were_deleted_since():
    inputs = [file("a", 4), file("b", 3), file("c", 2)]
    before = {"a": positions(1), "c": positions(0)}
    after = {"a": positions(1, 3, 9), "b": positions(0, 2), "c": positions(0, 1)}
    assert new_count(inputs[:2], before, after) == 3
    came = deleted_since(inputs, before, {"a": after["a"], "c": after["c"]}, [("x", 7)])
    assert as_lists(came) == {"a": [3], "c": [1]}
