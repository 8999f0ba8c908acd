"""Which files overlap so much that they are sorted together, by hand and over a table's life."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from icectl.commands.compact.clustering import Clustering, Overlap, clustering_of, new_files, within
from icectl.format.schema import Schema
from icectl.format.single_value import encode
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from icectl.rows.sort_rows import Curve, RowOrder
from tests.builders.entry_rows import data, entries, key
from tests.builders.merge_schedules import best_schedule

LONG, TEXT = PrimitiveType("long"), PrimitiveType("string")
SCHEMA = Schema(0, (NestedField(1, "a", LONG, False), NestedField(2, "b", TEXT, False)))
UUID = "0000000{}-0000-0000-0000-000000000000"


def order(*keys: tuple[int, str]) -> SortOrder:
    fields = (SortField((id_,), parse_transform(text), "asc", "nulls-first") for id_, text in keys)
    return SortOrder(1, tuple(fields))


BY_A, BY_BOTH = order((1, "identity")), order((1, "identity"), (2, "identity"))


def file(low: Any, high: Any, size: int = 100, run: int = 0, at: int = 1, **more: Any) -> Any:
    """A file with bounds of `a`, or of both columns; that of a run if it has a number."""
    name = f"d/00000-0-{UUID.format(run)}-{at:05}-c0000000{run}.parquet" if run else "d/new.parquet"
    bounds = {
        name: [
            (id_, encode(type_, value))
            for id_, type_, value in zip(
                (1, 2), (LONG, TEXT), ends if isinstance(ends, tuple) else (ends,), strict=False
            )
            if value is not None
        ]
        for name, ends in (("lower_bounds", low), ("upper_bounds", high))
    }
    return data(name, file_size_in_bytes=size, **bounds, **more)


def layout(
    *files: Any,
    by: RowOrder = BY_A,
    min_depth: int = 2,
    ratio: int = 8,
    limited: bool = False,
) -> Clustering:
    found = entries(*files)
    numbers = found.table["sequence_number"].to_numpy()
    made = np.array(["-c0" in row["location"] for row in files])
    rows, limits = np.arange(len(files)), (min_depth, ratio)
    is_new = new_files(found, rows, made & (not limited), numbers)
    return clustering_of(found, rows, by, SCHEMA, made, is_new, *limits)


def groups(*files: Any, **options: Any) -> list[tuple[int, ...]]:
    return [tuple(sorted(overlap.files)) for overlap in layout(*files, **options).overlaps]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([file(0, 10), file(5, 15)], [(0, 1)]),
        ([file(0, 10), file(10, 20), file(30, 40)], []),  # sorted: ends may touch
        ([file(0, 10), file(5, 15), file(14, 20), file(20, 30)], [(0, 1, 2)]),
        ([file(7, 7), file(7, 7), file(7, 7)], []),  # one value: no order would part them
        ([file(0, 10), file(None, None), file(20, 30)], [(0, 1, 2)]),  # no bounds: anywhere
        ([file(0, 10), file(5, 5, null_value_counts=[(1, 10)])], []),  # nulls alone
        # a small file over much larger ones waits for others, or for as many rows as an eighth
        ([file(0, 40, 10), file(0, 20), file(20, 40)], []),
        ([file(0, 40, 26), file(0, 20), file(20, 40)], [(0, 1, 2)]),
        ([file(0, 40, 5), file(0, 40, 5), file(0, 20), file(20, 40)], [(0, 1)]),
        # only where it lies
        ([file(0, 20, 50), file(0, 20), file(20, 40), file(40, 60)], [(0, 1)]),
        # partitions lie apart
        ([file(0, 10, partition_key=key("x")), file(0, 10, partition_key=key("y"))], []),
    ],
)
def test_files_that_overlap_are_sorted_together(files, expected):
    assert groups(*files) == expected


def test_files_with_one_value_of_a_key_are_told_apart_by_the_next():
    files = [file((7, "a"), (7, "k")), file((7, "c"), (7, "z")), file((8, "a"), (8, "z"))]
    assert groups(*files, by=BY_BOTH) == [(0, 1)]
    assert groups(*files) == []


def test_a_key_without_an_order_of_bounds_says_nothing():
    assert groups(file(0, 10), file(5, 15), by=order((1, "bucket[4]"))) == []
    assert groups(file(0, 19), file(5, 15), by=order((1, "truncate[20]"))) == []


def test_files_of_one_run_lie_side_by_side_whatever_their_bounds():
    run = [file(0, 10, 400, 1, at) for at in range(3)]
    assert groups(*run) == []
    assert groups(*run, file(0, 10, 10, sequence_number=2)) == []
    late = [file(0, 10, 90, sequence_number=2) for _ in range(2)]
    assert groups(*run, *late) == [(0, 1, 2, 3, 4)]
    assert layout(*run).average_depth == 1


@pytest.mark.parametrize("by", [BY_A, Curve((1, 2))])
def test_what_a_run_has_seen_is_no_work_again_but_for_one_that_had_limits(by):
    files = [file(0, 10, 100, 1), file(0, 10, 100, 2), file(0, 10, 100)]
    assert groups(*files, by=by) == []
    assert groups(*files, by=by, limited=True) == [(0, 1, 2)]
    late = file(0, 10, 100, sequence_number=2)
    assert groups(*files[:2], late, by=by) == [(0, 1, 2)]


def test_a_run_has_seen_nothing_where_a_group_of_it_is_lost():
    def made(number: int, of: int, **more: Any) -> Any:
        name = f"d/{number:05}-0-{UUID.format(1)}-00001-g{of}-c00000001.parquet"
        return file(number * 10, number * 10 + 10, run=1, **more) | {"location": name}

    lost = [file(20, 30), file(20, 30)]
    assert groups(made(0, 1), *lost) == []
    assert groups(made(0, 2), *lost) == [(1, 2)]
    assert groups(made(0, 2), made(0, 2), *lost) == [(2, 3)]
    assert groups(made(0, 2), made(1, 2), *lost) == []
    assert groups(made(0, 2), made(1, 1, partition_key=key("x")), *lost) == [(2, 3)]
    assert groups(made(0, 2), made(1, 2, sequence_number=2), *lost) == [(2, 3)]
    assert groups(made(0, 2), made(1, 1, sequence_number=2), *lost) == []


def test_sequence_number_0_does_not_tell_what_a_run_has_seen():
    of_version_1 = {"sequence_number": 0}
    files = [file(0, 10, 100, number, **of_version_1) for number in (1, 2)]
    left = file(0, 10, 100, **of_version_1)
    assert groups(*files) == []
    assert groups(*files, left) == [(0, 1, 2)]
    assert groups(*files, left, file(20, 30, run=3)) == []


def test_a_depth_is_asked_for():
    files = [file(0, 10), file(0, 10), file(0, 10)]
    assert [overlap.depth for overlap in layout(*files).overlaps] == [3]
    assert groups(*files, min_depth=4) == []
    assert layout(*files).average_depth == pytest.approx(3)


def test_a_larger_ratio_sorts_with_larger_files_and_less_is_left_to_overlap():
    files = [file(0, 40, 10), file(0, 20), file(20, 40)]  # a twentieth of the rows there
    assert [groups(*files, ratio=ratio) for ratio in (19, 20)] == [[], [(0, 1, 2)]]
    assert [layout(*files, ratio=ratio).depth_after for ratio in (19, 20)] == pytest.approx([2, 1])


def test_the_depth_after_a_sort_is_that_of_what_stays():
    files = [file(0, 20, 50), file(0, 20), file(20, 40), file(20, 40, 50), file(20, 40, 5_000)]
    found = layout(*files)  # a file of 5,000 bytes stays over the two that are sorted
    assert [sorted(overlap.files) for overlap in found.overlaps] == [[0, 1], [2, 3]]
    assert found.average_depth == pytest.approx((150 * 2 + 5_150 * 3) / 5_300)
    assert found.depth_after == pytest.approx((150 * 1 + 5_150 * 2) / 5_300)


def test_small_files_over_all_values_come_first_then_others_by_their_bounds():
    files = [file(20, 30), file(0, 30, 90), file(0, 10), file(0, 30, 80), file(10, 20)]
    (overlap,) = layout(*files).overlaps
    assert overlap.files == (3, 1, 2, 4, 0)


def test_groups_are_cut_where_they_lie_each_with_two_parts_or_more():
    overlap = Overlap([[0], [1, 2], [3], [4]], 2)
    sizes = np.array([10, 10, 10, 10, 10])
    assert within(overlap, sizes, 30, is_budget=True) == [(0, 1, 2), (3, 4)]
    assert within(overlap, sizes, 40, is_budget=True) == [(0, 1, 2, 3)]
    assert within(overlap, sizes, 40, is_budget=False) == [(0, 1, 2, 3, 4)]
    assert within(overlap, sizes, 1, is_budget=True) == [(0, 1, 2), (3, 4)]


class Table:
    """The keys of a table's files; runs sort what clustering_of says."""

    def __init__(self, ratio: int = 8) -> None:
        self.ratio = ratio
        self.files: list[tuple[str, int, npt.NDArray[np.int64]]] = []
        self.number = 0

    def append(self, *files: npt.NDArray[np.int64]) -> None:
        self.number += 1
        self.files += [("d/new.parquet", self.number, np.sort(keys)) for keys in files]

    @property
    def layout(self) -> Clustering:
        found = entries(
            *(
                file(int(keys[0]), int(keys[-1]), len(keys))
                | {"location": name, "sequence_number": number, "record_count": len(keys)}
                for name, number, keys in self.files
            )
        )
        seen = np.array(["-c0" in name for name, _, _ in self.files])
        numbers = np.array([number for _, number, _ in self.files])
        rows, limits = np.arange(len(seen)), (2, self.ratio)
        is_new = new_files(found, rows, seen, numbers)
        return clustering_of(found, rows, BY_A, SCHEMA, seen, is_new, *limits)

    def run(self) -> int:
        """Sort what is to be sorted; returns the rows that were rewritten."""
        made, gone = [], set[int]()
        for group, overlap in enumerate(self.layout.overlaps):
            gone |= set(overlap.files)
            keys = np.sort(np.concatenate([self.files[row][2] for row in overlap.files]))
            for at in range(0, len(keys), 100):
                run = f"{self.number:08}-0000-0000-0000-000000000000"
                name = f"d/{group:05}-0-{run}-{at:05}-c00000000.parquet"
                made.append((name, self.number, keys[at : at + 100]))
        self.files = [item for at, item in enumerate(self.files) if at not in gone] + made
        return sum(len(keys) for _, _, keys in made)


def life(table: Table, *, is_local: bool = False) -> tuple[float, float, float]:
    """60 files in no order, and 12 times 3 more over all values, or over a tenth of them.

    Returns the part of the rows of full sorts that was rewritten, with the first sort and without,
    and the mean depth after the runs.
    """
    random = np.random.default_rng(5)
    table.append(*random.integers(0, 10**9, (60, 100)))
    first = table.run()
    rewritten = full = 0
    depths = []
    for _ in range(12):
        low, width = (int(random.integers(9 * 10**8)), 10**8) if is_local else (0, 10**9)
        table.append(*random.integers(low, low + width, (3, 100)))
        rewritten += table.run()
        full += sum(len(keys) for _, _, keys in table.files)
        found = table.layout
        assert found.overlaps == []  # a second run has nothing to do
        depths.append(found.average_depth)
    return (first + rewritten) / (first + full), rewritten / full, float(np.mean(depths))


@pytest.mark.parametrize(("is_local", "ratio", "depth"), [(False, 0.38, 1.9), (True, 0.25, 1.1)])
def test_a_tables_life_takes_a_part_of_what_full_sorts_would(is_local, ratio, depth):
    found, _, depths = life(Table(), is_local=is_local)
    assert found < ratio
    assert depths < depth


@pytest.mark.parametrize("ratio", [4, 8, 16, 30])
def test_no_schedule_rewrites_much_less_for_the_depth(ratio):
    _, rewritten, depth = life(Table(ratio))
    prices = [0.15 * 1.3**at for at in range(10)]
    best = [(price, *best_schedule(20, 12, price)) for price in prices]
    least = max(part + price * (mean - depth) for price, part, mean in best)
    assert least - 0.01 < rewritten < least + 0.08
