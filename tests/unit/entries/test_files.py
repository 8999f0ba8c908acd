"""Files by location, kind and size: set algebra over their keys."""

import pyarrow as pa

from icectl.entries.files import (
    NO_FILES,
    FileKind,
    Files,
    beginning_with,
    containing,
    content_files,
    count_by_kind,
    distinct,
    excluding,
    files,
    including,
    of_kind,
    rows,
    slices,
    together,
    total_bytes,
    without,
)
from icectl.entries.rows import RawEntries
from icectl.format.manifest import Content, FileFormat


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
