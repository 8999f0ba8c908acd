"""Sets of locations: members in every spelling, and no others."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from icectl.storage import spill
from icectl.table.known_locations import KnownLocations, file_hashes, location_hashes

TABLE = "s3://bucket/wh/t"


def known(*parts: list[str]) -> KnownLocations:
    found = KnownLocations()
    for part in parts:
        found.add(pa.array(part, pa.string()))
    return found


@pytest.mark.parametrize(
    "spelling",
    [
        "s3://bucket/wh/t/data/a b.parquet", "s3a://other/wh/t/data/a b.parquet",
        "/wh/t/data/a b.parquet", "wh/t/data/a b.parquet", "file:/wh/t/data/a b.parquet",
        "s3://bucket//wh/t/data//a b.parquet", "s3://bucket/wh/t/data/a%20b.parquet",
        "s3://bucket/wh/t/data%2Fa%20b.parquet", "s3://bucket/wh/t/data/a%2520b.parquet",
        "s3://bucket/wh/t/./data/x/../a b.parquet",
    ],
)  # fmt: skip
def test_a_location_is_known_in_every_spelling(spelling):
    files = known([f"{TABLE}/data/x.parquet", f"{TABLE}/data/a b.parquet"])
    assert files.contains(pa.array([spelling])).to_pylist() == [True]
    assert known([spelling]).contains(pa.array([f"{TABLE}/data/a b.parquet"])).to_pylist() == [True]


@pytest.mark.parametrize(
    "other", ["data/a", "data/b.parquet", "metadata/a.parquet", "data/A.parquet", "data/a.parquet/"]
)
def test_a_name_that_differs_is_not_known(other):
    files = known([f"{TABLE}/data/a.parquet"])
    assert files.contains(pa.array([f"{TABLE}/{other}"])).to_pylist() == [False]


def test_rows_are_told_apart_in_one_batch_and_keep_their_order():
    files = known([f"{TABLE}/a", f"{TABLE}/b%20c"], [f"{TABLE}//d", "/wh/t/e"])
    sought = ["f", "e", "/d", "b c", "x", "a", "d"]
    found = files.contains(pa.chunked_array([[f"{TABLE}/{name}" for name in sought], []]))
    assert found.to_pylist() == [False, True, True, True, False, True, True]


def test_part_of_a_longer_column_is_looked_up():
    column = pa.array([f"{TABLE}/%61", f"{TABLE}/b", f"{TABLE}/c", f"{TABLE}//d"])
    assert known([f"{TABLE}/c"]).contains(column[1:3]).to_pylist() == [False, True]


def test_an_empty_set_knows_nothing():
    files = KnownLocations()
    assert files.contains(pa.array([f"{TABLE}/a"])).to_pylist() == [False]
    assert files.contains(pa.array([], pa.string())).to_pylist() == []
    assert len(files) == 0


@pytest.mark.parametrize("names", [[], ["a", "c", "b"]])
def test_a_saved_set_knows_what_was_saved(tmp_path, names):
    with (tmp_path / "known.npy").open("wb") as file:
        known([f"{TABLE}/{name}" for name in names]).save(file)
    opened = KnownLocations.opened(str(tmp_path / "known.npy"))
    assert len(opened) == len(names)
    sought = ["b", "x", "a"]
    found = opened.contains(pa.array([f"{TABLE}/{name}" for name in sought]))
    assert found.to_pylist() == [name in names for name in sought]
    opened.add(pa.array([f"{TABLE}/x"]))
    assert opened.contains(pa.array([f"{TABLE}/x"])).to_pylist() == [True]


@pytest.mark.parametrize("sought", [[], ["a", "x"]])
def test_the_known_ones_of_some_locations_are_a_set_of_their_own(sought):
    names = pa.chunked_array([[f"{TABLE}/{name}" for name in sought]], pa.string())
    found = known([f"{TABLE}/a", f"{TABLE}/b"]).among(location_hashes(names))
    named = pa.array([f"{TABLE}/{name}" for name in ("a", "b", "x")])
    assert found.contains(named).to_pylist() == ["a" in sought, False, False]


def test_files_of_other_sizes_are_other_files_and_spellings_are_not():
    spelled = pa.array([f"{TABLE}/a", f"{TABLE}//a", f"{TABLE}/a", f"{TABLE}/a"])
    one, same, larger, unknown = file_hashes(spelled, pa.array([7, 7, 8, None])).tolist()
    assert one == same
    assert len({one, larger, unknown}) == 3


def test_every_location_counts_once(monkeypatch):
    monkeypatch.setattr(spill, "_WAITING_BYTES", 100)  # so that they go by way of the disk
    files = KnownLocations()
    names = [f"{TABLE}/{number:05d}" for number in range(1000)]
    for start in range(0, 1000, 30):
        files.add(pa.array(names[start : start + 60]))
    assert len(files) == 1000
    assert files.contains(pa.array(names)).to_pylist() == [True] * 1000
    assert files.contains(pa.array([f"{TABLE}/01000"])).to_pylist() == [False]


def test_locations_in_many_roots_have_the_hashes_that_they_have_alone():
    column = [f"s3://b{number % 3}/t/{number % 5}" for number in range(30)]
    alone = [location_hashes(pa.array([each]))[0] for each in column]
    together = location_hashes(pa.array(column))
    assert together.tolist() == alone
    assert len(np.unique(together)) == 5


def test_a_set_takes_eight_bytes_a_location_and_nothing_while_it_grows(monkeypatch):
    monkeypatch.setattr(spill, "_WAITING_BYTES", 100_000)
    rng, files, count = np.random.default_rng(1), KnownLocations(), 500_000
    tracemalloc.start()
    try:
        arrow = pa.total_allocated_bytes()
        for _ in range(10):
            files.add_hashes(rng.integers(0, 2**63, count // 10, np.uint64) * np.uint64(2))
        added_peak = tracemalloc.get_traced_memory()[1]
        assert pa.total_allocated_bytes() - arrow < 2 * count
        assert len(files) == count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert added_peak < 6 * count  # of one batch
    assert peak < 10 * count
