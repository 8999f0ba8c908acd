"""What reads cost in other layouts: simulated, where it can be reckoned by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from icectl.commands.inspect.advice_plan import Advice, RowGroups, Simulation, simulate
from icectl.commands.inspect.clustering_plan import read_clustering
from icectl.commands.query_logs import EQUALITY, RANGE, Filter
from icectl.entries.clustering import ClusteringKey
from icectl.format.single_value import encode
from icectl.format.transforms import parse_transform
from icectl.format.types import PrimitiveType
from tests.builders.entry_rows import data, entries, key

LONG, TEXT, TIME = PrimitiveType("long"), PrimitiveType("string"), PrimitiveType("timestamp")
COLUMNS = {"a": (1, LONG), "b": (2, LONG), "name": (3, TEXT), "at": (4, TIME)}
MIB = 1 << 20
TARGET = 760_000
"""Sorted files may have 1.4 times as much: a little more than a MiB."""

DAY = 86_400_000_000


def file(size: int = MIB, rows: int = 1000, **bounds: Any) -> Any:
    """A data file with bounds by column; its name is no matter."""
    ends = [(COLUMNS[name], low, high) for name, (low, high) in bounds.items()]
    return data(
        "f",
        file_size_in_bytes=size,
        record_count=rows,
        lower_bounds=[(id_, encode(type_, low)) for (id_, type_), low, _ in ends],
        upper_bounds=[(id_, encode(type_, high)) for (id_, type_), _, high in ends],
    )


def simulated(
    files: Sequence[Any],
    filters: Mapping[Filter, int],
    distinct: Mapping[int, int] | None = None,
    target: int = TARGET,
    partitioned_by: Sequence[str] = (),
) -> Simulation:
    identity = parse_transform("identity")
    keys = [ClusteringKey(name, id_, type_, identity) for name, (id_, type_) in COLUMNS.items()]
    found = read_clustering([entries(*files)], keys, None)
    return simulate(found, filters, distinct or {}, target, partitioned_by, ())


def equal(*names: str) -> Filter:
    return frozenset((name, EQUALITY) for name in names)


def of(found: Simulation, kind: str, *terms: str) -> Advice:
    (layout,) = [one for one in found.layouts if (one.kind, one.terms) == (kind, terms)]
    return layout


def test_a_sort_of_files_that_all_overlap_opens_one_of_them():
    found = simulated([file(a=(0, 10**9))] * 64, {equal("a"): 1})
    assert (found.now.files, found.now.bytes) == (64, 64 * MIB)
    layout = of(found, "sort", "a")
    assert layout.file_count == 64
    assert layout.reading.files == pytest.approx(1, rel=0.02)
    assert layout.reading.bytes == pytest.approx(MIB, rel=0.05)


def test_files_that_lie_apart_have_nothing_to_gain():
    found = simulated([file(a=(1000 * at, 1000 * at + 999)) for at in range(64)], {equal("a"): 1})
    assert found.now.files == 1
    assert of(found, "sort", "a").reading.files == pytest.approx(1, rel=0.05)


def test_a_range_opens_a_hundredth_of_the_rows_and_what_they_begin_in():
    found = simulated([file(a=(0, 10**9))] * 100, {frozenset({("a", RANGE)}): 1})
    assert of(found, "sort", "a").reading.files == pytest.approx(2, rel=0.05)


def test_few_values_are_in_as_many_files_as_their_rows():
    # Of four values each has a quarter of the 64 files.
    found = simulated([file(a=(0, 3))] * 64, {equal("a"): 1})
    assert of(found, "sort", "a").reading.files == pytest.approx(16, rel=0.1)
    # Statistics say so of text, whose bounds don't.
    text = simulated([file(name=("a", "z"))] * 64, {equal("name"): 1}, distinct={3: 4})
    assert of(text, "sort", "name").reading.files == pytest.approx(16, rel=0.1)


def test_a_curve_through_two_columns_serves_reads_of_each():
    found = simulated([file(a=(0, 10**9), b=(0, 10**9))] * 64, {equal("a"): 1, equal("b"): 1})
    # 8 by 8 files: a value of one column is in 8 of them, and in some that reach into the next
    # place of the curve; a sort serves half of the reads.
    assert 8 <= of(found, "hilbert", "a", "b").reading.files <= 12
    assert of(found, "sort", "a").reading.files == pytest.approx((1 + 64) / 2, rel=0.02)
    assert found.layouts[0].kind == "hilbert"


def test_partitions_by_day_hold_the_reads_of_a_day():
    files = [file(at=(0, 32 * DAY - 1))] * 64
    found = simulated(files, {equal("at"): 1})
    assert 2 <= of(found, "partition", "day(at)").reading.files <= 3
    assert [one for one in found.layouts if one.terms == ("hour(at)",)] == []  # too small
    january = simulated([file(at=(0, 31 * DAY - 1))], {equal("at"): 1})
    assert of(january, "partition", "month(at)").file_count == 1
    again = simulated(files, {equal("at"): 1}, partitioned_by=["day(at)"])
    assert [one for one in again.layouts if one.terms == ("day(at)",)] == []


def test_buckets_serve_equality_alone():
    files = [file(a=(0, 10**9))] * 64
    found = simulated(files, {equal("a"): 1})
    # Some buckets are a little larger than a file.
    assert 1 <= of(found, "partition", "bucket[64](a)").reading.files <= 1.5
    ranged = simulated(files, {frozenset({("a", RANGE)}): 1})
    assert [one for one in ranged.layouts if one.kind == "partition"] == []


def test_a_bloom_filter_saves_bytes_of_files_without_the_value():
    found = simulated([file(a=(0, 10**9))] * 50, {equal("a"): 1}, distinct={1: 50_000})
    layout = of(found, "bloom", "a")
    assert layout.reading.files == 50
    assert layout.reading.bytes == pytest.approx((1 + 0.01 * 49) * MIB)


def test_small_files_are_fewer_once_they_are_compacted_by_partition():
    fields = {"partition_key": key("x")}
    files = [file(MIB // 8, a=(0, 10**9)) for _ in range(32)]
    files += [{**file(MIB // 8, a=(0, 10**9)), **fields} for _ in range(8)]
    layout = of(simulated(files, {frozenset(): 1}, target=MIB), "compact")
    assert layout.file_count == 5
    assert layout.reading.files == 5


def test_files_without_bounds_are_always_opened_and_those_of_nulls_never():
    nulls = {**file(), "null_value_counts": [(1, 1000)], "lower_bounds": [], "upper_bounds": []}
    files = [file(a=(0, 9)), file(a=(10, 19)), {**file(), "lower_bounds": []}, nulls]
    assert simulated(files, {equal("a"): 1}).now.files == pytest.approx(2, abs=0.2)


def test_columns_without_bounds_are_left_out_of_filters():
    found = simulated([file(a=(0, 9))] * 2, {equal("a", "b"): 3, equal("zip"): 1})
    assert found.left_out == ["b", "zip"]
    assert {one.filter: one.share for one in found.filters} == {equal("a"): 0.75, equal(): 0.25}


def test_smaller_files_and_row_groups_are_told_of_where_look_ups_read_less_of_them():
    target = 16 * MIB
    files = [file(target, a=(0, 10**9))] * 8
    keys = [ClusteringKey("a", 1, LONG, parse_transform("identity"))]
    found = read_clustering([entries(*files)], keys, None)
    groups = RowGroups(8 * MIB, 2 * target / 1000)  # rows are twice as large in memory
    layouts = simulate(found, {equal("a"): 1}, {}, target, (), (), groups).layouts
    by_size = {one.kind: one for one in layouts[-2:]}
    small, inner = by_size["file-size"], by_size["row-group"]
    # A look-up opens one file of 1 MiB (1.4 times that as bins are filled), or one of 16 MiB and a
    # row group of 1 MiB in memory of it.
    assert (small.size_bytes, small.file_count) == (MIB, 92)
    assert small.reading.bytes == pytest.approx(128 / 92 * MIB, rel=0.1)
    assert (inner.size_bytes, inner.file_count) == (MIB, 6)
    assert inner.reading.bytes == pytest.approx(MIB / 2, rel=0.1)
    assert inner.reading.files == pytest.approx(1, rel=0.02)
    full = simulate(found, {frozenset(): 1}, {}, target, (), (), groups).layouts
    # A scan reads all of it: larger files are fewer to open.
    assert [one.size_bytes for one in full if one.kind == "file-size"] == [128 * MIB]
    assert [one for one in full if one.kind == "row-group"] == []
