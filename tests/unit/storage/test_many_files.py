"""Millions of files of a listing: the same as few, with a part of them in memory."""

import random

import pyarrow as pa

from icectl.entries.files import ListedFiles
from icectl.storage import many_files
from icectl.storage.listing import LISTING_SCHEMA
from icectl.storage.many_files import ManyFiles, by_location, each_file, first_of_sizes


def listed(names: list[str]) -> ListedFiles:
    sizes = pa.array([len(name) for name in names], pa.int64())
    columns = [pa.array(names, pa.string()), sizes, sizes]
    return ListedFiles(pa.Table.from_arrays(columns, schema=LISTING_SCHEMA))


def test_files_in_many_ranges_are_sorted_as_few_are(monkeypatch):
    chosen = random.Random(7)
    folders = "a\N{LATIN SMALL LETTER E WITH ACUTE}\N{GRINNING FACE}z"
    names = [f"s3://b/{chosen.choice(folders)}/{at:x}" for at in range(5_000)]
    chosen.shuffle(names)
    added = ManyFiles(listed(names[start : start + 700]) for start in range(0, 5_000, 700))
    monkeypatch.setattr(many_files, "_SORTED_ROWS", 100)
    monkeypatch.setattr(many_files, "_SAMPLED", 1_000)
    ordered = by_location(added)
    assert [file.location for file in each_file(ordered)] == sorted(names)
    assert (len(ordered), ordered.total_bytes) == (5_000, sum(map(len, names)))
    assert all(file.size_bytes == len(file.location) for file in each_file(ordered))
    assert [*by_location(ManyFiles())] == []


def test_the_first_file_of_a_size_is_found():
    parts = [listed(["/t/a", "/t/bbb"]), listed(["/t/c", "/t/dd"])]
    assert first_of_sizes(parts, {4, 5, 9}) == {4: "/t/a", 5: "/t/dd"}
