"""Names and places of a table's files, against PyIceberg's where it makes them."""

import pytest

from icectl.format.file_names import (
    MetadataFileName,
    catalog_metadata_file_name,
    data_file_name,
    data_folder,
    data_location,
    delete_file_name,
    metadata_file_name,
    parse_metadata_file_name,
)

UUID = "3f2a6a1e-6c2b-4a58-9f3d-0d3a2f1b7c55"
NAME = f"00003-17-{UUID}-00001.parquet"
SPREAD = {"write.object-storage.enabled": "true"}


def test_files_are_named_as_spark_names_them():
    assert data_file_name(3, 17, UUID, 1) == NAME


def test_a_mark_is_the_end_of_a_name():
    assert data_file_name(3, 17, UUID, 1, "c5558fab3") == f"00003-17-{UUID}-00001-c5558fab3.parquet"


def test_delete_files_are_named_as_spark_names_them():
    stem = f"00003-17-{UUID}-00001-deletes"
    assert delete_file_name(3, 17, UUID, 1, is_vector=False) == f"{stem}.parquet"
    assert delete_file_name(3, 17, UUID, 1, is_vector=True) == f"{stem}.puffin"


@pytest.mark.parametrize(
    ("properties", "partition", "expected"),
    [
        ({}, "", f"s3://b/db/t/data/{NAME}"),
        ({}, "day=2024-01-02", f"s3://b/db/t/data/day=2024-01-02/{NAME}"),
        ({"write.data.path": "s3://other/files/"}, "a=1", f"s3://other/files/a=1/{NAME}"),
        ({"write.data.path": "files/new"}, "", f"s3://b/db/t/files/new/{NAME}"),
        ({"write.data.path": "/files"}, "a=1", f"/files/a=1/{NAME}"),
        ({"write.folder-storage.path": "s3://b/old"}, "", f"s3://b/old/{NAME}"),
        ({"write.object-storage.path": "s3://b/old"}, "", f"s3://b/db/t/data/{NAME}"),
    ],
)
def test_r161_files_lie_below_the_data_path(properties, partition, expected):
    assert data_location("s3://b/db/t/", properties, partition, NAME) == expected


def test_r164_files_of_a_table_with_a_relative_location_lie_below_that():
    assert data_location("wh/t", {}, "a=1", NAME) == f"wh/t/data/a=1/{NAME}"
    assert data_location("wh/t", {"write.data.path": "new"}, "", NAME) == f"wh/t/new/{NAME}"


def test_spread_files_lie_behind_their_hash():
    # Hashes of the reference implementation's own tests, in its TestLocationProvider.
    below = "s3://b/t/data"
    for name, prefixes in (("a", "0101/0110/1001/10110010"), ("b", "1110/0111/1110/00000011")):
        assert data_location("s3://b/t", SPREAD, "", name) == f"{below}/{prefixes}/{name}"


@pytest.mark.parametrize("partitioned", ["true", "false"])
def test_spread_files_lie_where_pyiceberg_puts_them(partitioned):
    locations = pytest.importorskip("pyiceberg.table.locations")
    properties = {**SPREAD, "write.object-storage.partitioned-paths": partitioned}
    peer = locations.load_location_provider("s3://b/t", properties)
    for number in range(50):
        name = data_file_name(number, 1, UUID, 1)
        assert data_location("s3://b/t", properties, "", name) == peer.new_data_location(name)


def test_spread_files_outside_of_the_table_name_it():
    found = data_location("s3://b/db/t", {**SPREAD, "write.data.path": "s3://files"}, "", "a")
    assert found == "s3://files/0101/0110/1001/10110010/db/t/a"
    old = {**SPREAD, "write.object-storage.path": "s3://b/db/t/spread"}
    assert data_location("s3://b/db/t", old, "", "a").startswith("s3://b/db/t/spread/0101/")


@pytest.mark.parametrize(
    ("properties", "partition", "expected"),
    [
        ({}, "", ("s3://b/db/t/data", True)),
        ({}, "a=1/b=2", ("s3://b/db/t/data/a=1/b=2", True)),
        ({}, None, ("s3://b/db/t/data", False)),
        ({"write.data.path": "s3://other/files/"}, "a=1", ("s3://other/files/a=1", True)),
        (SPREAD, "a=1", ("s3://b/db/t/data", False)),
        ({**SPREAD, "write.object-storage.path": "s3://b/old"}, "", ("s3://b/old", False)),
    ],
)
def test_the_folder_of_new_files_is_known_unless_they_are_spread(properties, partition, expected):
    folder, is_exact = data_folder("s3://b/db/t/", properties, partition)
    assert (folder, is_exact) == expected
    file = data_location(
        "s3://b/db/t/", properties, "any" if partition is None else partition, NAME
    )
    assert file.startswith(f"{folder}/")
    assert not is_exact or file == f"{folder}/{NAME}"


WRITE = "0c6f3a3e-9ff1-4d4c-9f21-2a9a2b8b6f5e"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("v7.metadata.json", MetadataFileName("file-system", 7, None, gzip=False)),
        ("v0.metadata.json", MetadataFileName("file-system", 0, None, gzip=False)),
        ("v7.gz.metadata.json", MetadataFileName("file-system", 7, None, gzip=True)),
        ("v7.metadata.json.gz", MetadataFileName("file-system", 7, None, gzip=True)),
        ("v1702557832481.metadata.json",
         MetadataFileName("file-system", 1_702_557_832_481, None, gzip=False)),
        (f"00003-{WRITE}.metadata.json", MetadataFileName("catalog", 3, WRITE, gzip=False)),
        (f"00003-{WRITE}.gz.metadata.json", MetadataFileName("catalog", 3, WRITE, gzip=True)),
        (f"00003-{WRITE}.metadata.json.gz", MetadataFileName("catalog", 3, WRITE, gzip=True)),
        (f"4294967297-{WRITE}.metadata.json",
         MetadataFileName("catalog", 4_294_967_297, WRITE, gzip=False)),
        ("00003-multi-blob.metadata.json",
         MetadataFileName("catalog", 3, "multi-blob", gzip=False)),
    ],
)  # fmt: skip
def test_a_name_says_kind_version_and_compression(name, expected):
    assert parse_metadata_file_name(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "version-hint.text", "metadata.json", "v.metadata.json", "v7.metadata.json.crc",
        ".v7.metadata.json.crc", "v4.1.metadata.json", "v-1.metadata.json", "V7.metadata.json",
        f"{WRITE}.avro", "00003-.metadata.json", f"a/00003-{WRITE}.metadata.json",
        "v٣.metadata.json",
        "snap-1-1-x.avro", "", f"v{'7' * 5000}.metadata.json",
    ],
)  # fmt: skip
def test_other_names_are_no_metadata_files(name):
    assert parse_metadata_file_name(name) is None


def test_r162_a_file_system_table_counts_with_a_v():
    assert metadata_file_name(7, gzip=False) == "v7.metadata.json"
    assert metadata_file_name(7, gzip=True) == "v7.gz.metadata.json"


def test_r160_a_catalog_table_counts_with_five_digits_and_a_uuid():
    assert catalog_metadata_file_name(3, WRITE, gzip=False) == f"00003-{WRITE}.metadata.json"
    assert catalog_metadata_file_name(123456, WRITE, gzip=True) == (
        f"123456-{WRITE}.gz.metadata.json"
    )
