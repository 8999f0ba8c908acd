"""Names of metadata files."""

import pytest

from icectl.format.file_names import (
    MetadataFileName,
    catalog_metadata_file_name,
    metadata_file_name,
    parse_metadata_file_name,
)

UUID = "0c6f3a3e-9ff1-4d4c-9f21-2a9a2b8b6f5e"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("v7.metadata.json", MetadataFileName("file-system", 7, None, gzip=False)),
        ("v0.metadata.json", MetadataFileName("file-system", 0, None, gzip=False)),
        ("v7.gz.metadata.json", MetadataFileName("file-system", 7, None, gzip=True)),
        ("v7.metadata.json.gz", MetadataFileName("file-system", 7, None, gzip=True)),
        ("v1702557832481.metadata.json",
         MetadataFileName("file-system", 1_702_557_832_481, None, gzip=False)),
        (f"00003-{UUID}.metadata.json", MetadataFileName("catalog", 3, UUID, gzip=False)),
        (f"00003-{UUID}.gz.metadata.json", MetadataFileName("catalog", 3, UUID, gzip=True)),
        (f"00003-{UUID}.metadata.json.gz", MetadataFileName("catalog", 3, UUID, gzip=True)),
        (f"4294967297-{UUID}.metadata.json",
         MetadataFileName("catalog", 4_294_967_297, UUID, gzip=False)),
        ("00003-multi-blob.metadata.json",
         MetadataFileName("catalog", 3, "multi-blob", gzip=False)),
    ],
)  # fmt: skip
def test_a_name_says_kind_version_and_compression(name: str, expected: MetadataFileName) -> None:
    assert parse_metadata_file_name(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "version-hint.text", "metadata.json", "v.metadata.json", "v7.metadata.json.crc",
        ".v7.metadata.json.crc", "v4.1.metadata.json", "v-1.metadata.json", "V7.metadata.json",
        f"{UUID}.avro", "00003-.metadata.json", f"a/00003-{UUID}.metadata.json", "v٣.metadata.json",
        "snap-1-1-x.avro", "", f"v{'7' * 5000}.metadata.json",
    ],
)  # fmt: skip
def test_other_names_are_no_metadata_files(name: str) -> None:
    assert parse_metadata_file_name(name) is None


def test_r162_a_file_system_table_counts_with_a_v() -> None:
    assert metadata_file_name(7, gzip=False) == "v7.metadata.json"
    assert metadata_file_name(7, gzip=True) == "v7.gz.metadata.json"


def test_r160_a_catalog_table_counts_with_five_digits_and_a_uuid() -> None:
    assert catalog_metadata_file_name(3, UUID, gzip=False) == f"00003-{UUID}.metadata.json"
    assert catalog_metadata_file_name(123456, UUID, gzip=True) == (
        f"123456-{UUID}.gz.metadata.json"
    )
