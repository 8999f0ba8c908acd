"""Millions of files: the same as few, with a part of them in memory."""

import random
from collections import Counter

import pyarrow as pa

from icectl.entries.files import FileKind, ListedFiles, files
from icectl.storage import many_files, spill
from icectl.storage.listing import LISTING_SCHEMA
from icectl.storage.many_files import FilesByKind, ManyFiles, by_location, each_file, first_of_sizes


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


def test_r191_files_of_a_table_are_in_the_order_of_deletion(monkeypatch):
    chosen = random.Random(7)
    kinds = [*FileKind]
    named = [(f"/t/{chosen.randrange(9)}/{at:x}", chosen.choice(kinds)) for at in range(3_000)]
    for waiting_bytes in (1, 1 << 20):
        monkeypatch.setattr(spill, "_WAITING_BYTES", waiting_bytes)
        added = FilesByKind(
            files([name], [name], kind, [at]) for at, (name, kind) in enumerate(named)
        )
        monkeypatch.setattr(many_files, "_SORTED_ROWS", 100)
        ordered = by_location(added)
        assert [*ordered.rows()] == sorted(
            ((name, kind, at) for at, (name, kind) in enumerate(named)),
            key=lambda row: (row[1], row[0]),
        )
        assert all(len({*part.table["kind"].to_pylist()}) == 1 for part in ordered)
        counts = Counter(kind for _, kind in named)
        assert ordered.counts == counts
        assert ordered.content_count == sum(counts[kind] for kind in kinds[:4])
        assert ordered.total_bytes == sum(range(3_000))
    assert [*by_location(FilesByKind())] == []


def test_the_first_file_of_a_size_is_found():
    parts = [listed(["/t/a", "/t/bbb"]), listed(["/t/c", "/t/dd"])]
    assert first_of_sizes(parts, {4, 5, 9}) == {4: "/t/a", 5: "/t/dd"}
