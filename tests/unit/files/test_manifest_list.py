"""Manifest lists: what versions write, what old and broken files read as."""

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pytest

from icectl.errors import CorruptTable
from icectl.files.manifest.manifest_list import (
    ManifestListReader,
    read_manifest_list,
    write_manifest_list,
)
from icectl.format.manifest import FieldSummary, ManifestContent, ManifestFile
from tests.builders.avro import SYNC, field, file

COMPLETE = ManifestFile(
    "s3://b/m.avro", 900, 2, ManifestContent.DELETES, 8, 5, 77, 1, 2, 3, 10, 20, 30,
    (
        FieldSummary(contains_null=True, contains_nan=True, lower_bound=b"a", upper_bound=b"z"),
        FieldSummary(contains_null=False),
    ),
    b"key", None,
)  # fmt: skip
DATA = ManifestFile("s3://b/d.avro", 1, 0, ManifestContent.DATA, 8, 8, 77, 1, 0, 0, 5, 0, 0)


def write(*rows: ManifestFile, format_version: int = 2, **values: Any) -> bytes:
    given: dict[str, Any] = {
        "snapshot_id": 77, "parent_snapshot_id": 76, "sequence_number": 8, "sync_marker": SYNC,
    } | values  # fmt: skip
    return write_manifest_list(rows, format_version=format_version, **given)


def header(content: bytes) -> dict[str, str]:
    return dict(fastavro.reader(io.BytesIO(content)).metadata)


def fields(content: bytes) -> list[tuple[str, int]]:
    schema = json.loads(header(content)["avro.schema"])
    return [(one["name"], one["field-id"]) for one in schema["fields"]]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_rows_of_version_2_come_back_as_written(codec):
    assert read_manifest_list(write(COMPLETE, DATA, codec=codec)) == (COMPLETE, DATA)


def test_first_row_ids_are_stored_from_version_3_on():
    numbered = ManifestFile(
        "m", 1, 0, ManifestContent.DATA, 8, 8, 77, 1, 0, 0, 5, 0, 0, first_row_id=9
    )
    assert read_manifest_list(write(numbered, format_version=3, first_row_id=9)) == (numbered,)
    assert read_manifest_list(write(numbered))[0].first_row_id is None


def test_r050_fields_and_ids_are_those_of_the_reference_implementation():
    version_2 = [
        ("manifest_path", 500), ("manifest_length", 501), ("partition_spec_id", 502),
        ("content", 517), ("sequence_number", 515), ("min_sequence_number", 516),
        ("added_snapshot_id", 503), ("added_files_count", 504), ("existing_files_count", 505),
        ("deleted_files_count", 506), ("added_rows_count", 512), ("existing_rows_count", 513),
        ("deleted_rows_count", 514), ("partitions", 507), ("key_metadata", 519),
    ]  # fmt: skip
    assert fields(write(DATA)) == version_2
    assert fields(write(DATA, format_version=3)) == [*version_2, ("first_row_id", 520)]
    assert fields(write(DATA, format_version=1)) == [
        ("manifest_path", 500), ("manifest_length", 501), ("partition_spec_id", 502),
        ("added_snapshot_id", 503), ("added_files_count", 504), ("existing_files_count", 505),
        ("deleted_files_count", 506), ("partitions", 507), ("added_rows_count", 512),
        ("existing_rows_count", 513), ("deleted_rows_count", 514), ("key_metadata", 519),
    ]  # fmt: skip


def test_r054_the_header_names_the_snapshot():
    common = {"snapshot-id": "77", "parent-snapshot-id": "76"}
    for version, more in ((1, {}), (2, {"sequence-number": "8"}),
                          (3, {"sequence-number": "8", "first-row-id": "4"})):  # fmt: skip
        stored = header(write(DATA, format_version=version, first_row_id=4))
        kept = {key: value for key, value in stored.items() if not key.startswith("avro.")}
        assert kept == common | more | {"format-version": str(version)}
    assert header(write(parent_snapshot_id=None))["parent-snapshot-id"] == "null"


def test_r046_version_1_lists_read_as_data_of_sequence_number_0():
    (row,) = read_manifest_list(write(DATA, format_version=1))
    assert (row.content, row.sequence_number, row.min_sequence_number) == (0, 0, 0)


def test_r051_counts_that_a_list_lacks_are_unknown():
    schema = {"type": "record", "name": "manifest_file", "fields": [
        field("manifest_path", "string", 500), field("manifest_length", "long", 501),
        field("partition_spec_id", "int", 502),
        field("added_snapshot_id", "long", 503, optional=True),
    ]}  # fmt: skip
    record = {"manifest_path": "m", "manifest_length": 1, "partition_spec_id": 0}
    (row,) = read_manifest_list(file(schema, [record | {"added_snapshot_id": None}]))
    assert row == ManifestFile("m", 1, 0, ManifestContent.DATA, 0, 0, None)


def test_old_names_of_counts_are_known_where_there_are_no_ids():
    schema = {"type": "record", "name": "manifest_file", "fields": [
        field("manifest_path", "string", None), field("manifest_length", "long", None),
        field("partition_spec_id", "int", None), field("added_data_files_count", "int", None),
    ]}  # fmt: skip
    record = {"manifest_path": "m", "manifest_length": 1, "partition_spec_id": 0}
    (row,) = read_manifest_list(file(schema, [record | {"added_data_files_count": 3}]))
    assert row.added_files_count == 3


@pytest.mark.parametrize(
    ("name", "type_", "value", "rule"),
    [
        ("manifest_path", ["null", "string"], None, "R-050"),
        ("manifest_path", "long", 1, "R-050"),
        ("content", "int", 2, "R-050"),
    ],
)
def test_r050_broken_rows_are_corrupt(name, type_, value, rule):
    given = {"manifest_path": ("string", 500), "manifest_length": ("long", 501),
             "partition_spec_id": ("int", 502), "content": ("int", 517)}  # fmt: skip
    record: dict[str, Any] = {
        "manifest_path": "m", "manifest_length": 1, "partition_spec_id": 0, "content": 0,
    }  # fmt: skip
    given[name] = (type_, given[name][1])
    made = [{"name": one, "type": kind, "field-id": id_} for one, (kind, id_) in given.items()]
    schema = {"type": "record", "name": "manifest_file", "fields": made}
    with pytest.raises(CorruptTable) as caught:
        read_manifest_list(file(schema, [record | {name: value}]))
    assert caught.value.rule == rule


def test_r053_summaries_need_contains_null():
    summary = {"type": "record", "name": "r508", "fields": [field("lower_bound", "bytes", 510)]}
    schema = {"type": "record", "name": "manifest_file", "fields": [
        field("manifest_path", "string", 500), field("manifest_length", "long", 501),
        field("partition_spec_id", "int", 502),
        field("partitions", {"type": "array", "items": summary}, 507, optional=True),
    ]}  # fmt: skip
    with pytest.raises(CorruptTable) as caught:
        read_manifest_list(file(schema, []))
    assert caught.value.rule == "R-053"


def partitioned(*fields: dict[str, Any]) -> dict[str, Any]:
    summary = {"type": "record", "name": "r508", "fields": list(fields)}
    made = [
        field("manifest_path", "string", 500),
        field("manifest_length", "long", 501),
        field("partition_spec_id", "int", 502),
        field("partitions", {"type": "array", "items": summary}, 507),
    ]
    return {"type": "record", "name": "manifest_file", "fields": made}


def test_r050_r053_summaries_of_other_types_are_corrupt():
    with pytest.raises(CorruptTable) as caught:
        read_manifest_list(file(partitioned(field("contains_null", "int", 509)), []))
    assert caught.value.rule == "R-050"
    record = {"manifest_path": "m", "manifest_length": 1, "partition_spec_id": 0}
    schema = partitioned(field("contains_null", "boolean", 509, optional=True))
    with pytest.raises(CorruptTable) as caught:
        read_manifest_list(file(schema, [record | {"partitions": [{"contains_null": None}]}]))
    assert caught.value.rule == "R-053"


def test_r050_lists_without_a_required_field_are_corrupt():
    schema = partitioned(field("contains_null", "boolean", 509))
    schema["fields"] = schema["fields"][1:]
    with pytest.raises(CorruptTable, match="manifest_path") as caught:
        read_manifest_list(file(schema, []))
    assert caught.value.rule == "R-050"


def test_r171_version_2_rows_need_counts():
    with pytest.raises(ValueError, match="m"):
        write(ManifestFile("m", 1, 0, ManifestContent.DATA, 8, 8, 77))
    with pytest.raises(ValueError, match="m"):
        write(ManifestFile("m", 1, 0, ManifestContent.DATA, 8, 8, None, 1, 0, 0, 5, 0, 0))


def test_r048_version_1_lists_hold_no_deletes():
    with pytest.raises(ValueError, match=r"s3://b/m\.avro"):
        write(COMPLETE, format_version=1)


def test_equal_arguments_give_equal_bytes():
    assert write(COMPLETE, DATA) == write(COMPLETE, DATA)
    assert write().count(SYNC) == 1


def test_a_reader_of_many_lists_reads_each_as_it_is():
    other = replace(DATA, manifest_path="s3://b/e.avro")
    lists = [
        write(COMPLETE, DATA),
        write(DATA, COMPLETE, DATA),
        write(),
        write(DATA, other, codec="null"),
        write(DATA, other, format_version=1),
        write(replace(DATA, first_row_id=3), other, format_version=3),
    ]
    reader = ManifestListReader()
    for content in (*lists, *reversed(lists)):
        assert reader.read(content) == read_manifest_list(content)


def test_a_row_that_lists_share_is_one_object():
    reader = ManifestListReader()
    assert reader.read(write(COMPLETE, DATA))[1] is reader.read(write(DATA))[0]


def test_a_reader_of_many_lists_tells_of_damage_as_others_do():
    content = write(COMPLETE, DATA, codec="null")
    at = content.index(b"s3://b/m.avro") - 1
    broken = content[:at] + b"\x7f" + content[at + 1 :]
    for read in (read_manifest_list, ManifestListReader().read):
        with pytest.raises(CorruptTable, match="R-008"):
            read(broken)
