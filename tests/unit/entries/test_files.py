"""Files by location, kind and size: set algebra over their keys."""

import pyarrow as pa

from icectl.entries.files import (
    NO_FILES,
    FileKind,
    Files,
    ListedFiles,
    beginning_with,
    below,
    containing,
    content_files,
    count_by_kind,
    distinct,
    excluding,
    files,
    in_order,
    including,
    of_kind,
    rows,
    slices,
    together,
    total_bytes,
    where,
    without,
)
from icectl.entries.rows import RawEntries
from icectl.format.manifest import Content, FileFormat
from icectl.storage.listing import LISTING_SCHEMA


def named(kind: FileKind, *keys: str, size: int | None = 1) -> Files:
    """Files whose location is their key in another spelling."""
    return files([f"file:{key}" for key in keys], keys, kind, [size] * len(keys))


MIXED = together(
    [
        named(FileKind.MANIFESTS, "/m2", "/m1", size=None),
        named(FileKind.DATA_FILES, "/d2", "/d1", "/d2", size=10),
    ]
)


def keys(found: Files) -> list[str]:
    return found.table["key"].to_pylist()


def test_content_files_are_told_apart_by_content_and_format():
    stored = RawEntries(
        pa.table(
            {
                "content": pa.array(
                    [
                        Content.DATA,
                        Content.POSITION_DELETES,
                        Content.POSITION_DELETES,
                        Content.EQUALITY_DELETES,
                    ],
                    pa.int8(),
                ),
                "file_format": pa.array(
                    [FileFormat.PARQUET, FileFormat.AVRO, FileFormat.PUFFIN, FileFormat.ORC],
                    pa.int8(),
                ),
                "location": ["a", "b", "c", "d"],
                "file_size_in_bytes": [1, 2, 3, 4],
            }
        )
    )
    found = content_files(stored, pa.chunked_array([["/a", "/b", "/c", "/d"]]))
    assert rows(found) == [
        ("a", FileKind.DATA_FILES, 1),
        ("b", FileKind.POSITION_DELETE_FILES, 2),
        ("c", FileKind.DELETION_VECTOR_FILES, 3),
        ("d", FileKind.EQUALITY_DELETE_FILES, 4),
    ]
    assert keys(found) == ["/a", "/b", "/c", "/d"]


def test_distinct_files_come_once_in_the_order_of_deletion():
    assert keys(distinct(MIXED)) == ["/d1", "/d2", "/m1", "/m2"]
    assert keys(distinct(NO_FILES)) == []


def test_files_in_the_order_of_deletion_are_not_copied():
    """Millions may be deleted: a copy of them is 200 bytes each."""
    ordered = distinct(MIXED)
    assert distinct(ordered) is ordered
    assert in_order(ordered) is ordered
    data = files(["/b", "/a"], ["/b", "/a"], FileKind.DATA_FILES, [1, 2])
    lists = files(["/a"], ["/a"], FileKind.MANIFEST_LISTS, [1])
    assert keys(in_order(data)) == keys(distinct(data)) == ["/a", "/b"]
    assert keys(in_order(together([lists, data]))) == ["/a", "/b", "/a"]
    assert keys(distinct(together([data, in_order(data)]))) == ["/a", "/b"]


def test_of_one_file_in_two_spellings_the_first_stays():
    twice = files(["/a", "file:/a"], ["/a", "/a"], FileKind.DATA_FILES, [1, 2])
    assert rows(distinct(twice)) == [("/a", FileKind.DATA_FILES, 1)]


def test_files_are_left_out_by_key_whatever_their_spelling():
    assert keys(without(MIXED, pa.array(["/d2", "/m1"]))) == ["/m2", "/d1"]
    assert keys(without(MIXED, pa.chunked_array([["/d2"], ["/m1"]]))) == ["/m2", "/d1"]
    assert keys(without(MIXED, pa.chunked_array([], pa.string()))) == keys(MIXED)
    assert keys(without(NO_FILES, pa.array(["/d2"]))) == []


def test_files_are_left_out_by_location():
    assert keys(excluding(MIXED, ["file:/d2", "/m1"])) == ["/m2", "/m1", "/d1"]
    assert keys(excluding(MIXED, [])) == keys(MIXED)


def test_files_are_chosen_by_location():
    assert keys(including(MIXED, ["file:/d2", "/m1"])) == ["/d2", "/d2"]
    assert keys(including(MIXED, [])) == []


class Looked(frozenset[str]):
    """Locations that are too many to go through."""

    def __iter__(self):
        raise AssertionError("they are copied")


def test_of_many_locations_only_those_of_the_listed_files_are_copied():
    many = Looked({"file:/d2", "/m1", *map(str, range(10))})
    assert keys(including(MIXED, many)) == ["/d2", "/d2"]
    assert keys(excluding(MIXED, many)) == ["/m2", "/m1", "/d1"]
    assert keys(including(MIXED, ["file:/d2", *map(str, range(10))])) == ["/d2", "/d2"]


def test_files_are_parted_by_how_their_location_begins():
    inside, others = beginning_with(MIXED, "file:/d")
    assert (keys(inside), keys(others)) == (["/d2", "/d1", "/d2"], ["/m2", "/m1"])


def test_files_are_chosen_by_a_part_of_their_location():
    assert keys(containing(MIXED, "/m")) == ["/m2", "/m1"]
    assert keys(containing(MIXED, "/.")) == []


def test_files_are_chosen_by_kind():
    assert keys(of_kind(MIXED, FileKind.MANIFESTS)) == ["/m2", "/m1"]
    assert keys(of_kind(MIXED, FileKind.STATISTICS_FILES)) == []


def test_slices_are_as_long_as_asked_but_the_last():
    assert [keys(part) for part in slices(MIXED, 2)] == [["/m2", "/m1"], ["/d2", "/d1"], ["/d2"]]
    assert list(slices(NO_FILES, 2)) == []


def test_counts_name_every_kind_and_bytes_are_of_known_sizes():
    counts = count_by_kind(MIXED)
    assert list(counts) == list(FileKind)
    assert {kind: count for kind, count in counts.items() if count} == {
        FileKind.DATA_FILES: 3,
        FileKind.MANIFESTS: 2,
    }
    assert total_bytes(MIXED) == 30
    assert total_bytes(NO_FILES) == 0


def test_files_that_all_stay_are_not_copied():
    places = pa.array([f"/t/{number:040}" for number in range(10_000)])
    numbers = pa.array(range(10_000), pa.int64())
    columns = [places, places, pa.nulls(10_000, pa.int8()).fill_null(0), numbers]
    many = Files(pa.Table.from_arrays(columns, schema=MIXED.table.schema))
    listed = ListedFiles(pa.Table.from_arrays([places, numbers, numbers], schema=LISTING_SCHEMA))
    every = pa.array([True] * 10_000)
    allocated = pa.total_allocated_bytes()
    kept = [
        excluding(many, ["/m1"]), including(many, places), without(many, pa.array(["/m1"])),
        beginning_with(many, "/t/")[0], below(listed, ["/t"])[0], where(listed, every),
    ]  # fmt: skip
    assert [len(files) for files in kept] == [10_000] * 6
    assert pa.total_allocated_bytes() - allocated < many.table["location"].nbytes / 2


def test_a_flag_that_is_null_keeps_no_file():
    places, numbers = pa.array(["/t/a", "/t/b"]), pa.array([1, 2])
    listed = ListedFiles(pa.Table.from_arrays([places, numbers, numbers], schema=LISTING_SCHEMA))
    assert where(listed, pa.array([True, None])).table["location"].to_pylist() == ["/t/a"]
