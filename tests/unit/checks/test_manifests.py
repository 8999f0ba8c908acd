from dataclasses import replace

import pytest

from icectl.format.manifest import ManifestContent, Status
from tests.builders.checked import check_manifest, header, manifest, stored, table, told
from tests.builders.entry_rows import data

ONE = stored(data("s3://b/t/a"))
SPEC_FIELD = {"source-id": 2, "field-id": 1000, "name": "old name", "transform": "Identity"}


def check(*described, version=2, of=None, rows=ONE, size_bytes=1234):
    return told(
        check_manifest(
            table(version), described or (manifest(),), of or header(version), size_bytes, rows
        )
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_healthy_manifest_gives_no_findings(version):
    row = manifest() if version > 1 else manifest(sequence_number=0, min_sequence_number=0)
    assert check(row, version=version) == []


def test_r060_the_header_says_what_readers_look_for():
    assert check(of=header(metadata={"schema": "{}"})) == [
        (
            "R-060",
            "warning",
            "its header lacks `partition-spec`, `partition-spec-id`, `format-version`, `content`",
        )
    ]
    row = manifest(sequence_number=0, min_sequence_number=0)
    assert check(row, version=1, of=header(1, metadata={})) == [
        ("R-060", "warning", "its header lacks `schema`, `partition-spec`")
    ]


@pytest.mark.parametrize("version", [-1, 0])
def test_a_version_that_there_is_not_is_read_as_the_first(version):
    said = {"schema": "{}", "partition-spec": "[]"}
    assert check(of=header(1, format_version=version, metadata=said)) == []


def test_r060_r172_no_reader_looks_for_the_schema_id():
    assert "schema-id" not in header().metadata
    assert check() == []


def test_r061_the_header_has_the_content_of_the_list():
    row = manifest(content=ManifestContent.DELETES)
    assert check(row) == [("R-061", "error", "its header says `data`, the manifest list `deletes`")]
    silent = header(metadata={"schema": "{}", "partition-spec": "[]"})
    assert "R-061" not in {rule for rule, _, _ in check(row, of=silent)}


def test_r061_the_header_has_the_spec_of_the_list():
    message = "its header says partition spec 3, the manifest list 1"
    assert check(of=header(spec_id=3)) == [("R-061", "error", message)]


@pytest.mark.parametrize(
    ("fields", "is_right"),
    [
        (None, True), ((SPEC_FIELD,), True), (({**SPEC_FIELD, "source-ids": [2]},), True),
        ((), False), (({**SPEC_FIELD, "transform": "void"},), False),
        (({**SPEC_FIELD, "source-id": 1},), False), (({**SPEC_FIELD, "source-ids": 2},), False),
    ],
)  # fmt: skip
def test_r061_the_header_has_the_fields_of_the_spec_whatever_their_names(fields, is_right):
    of = header(spec_id=0, partition_fields=fields, partition_record=((1000, "string"),))
    row = manifest(partition_spec_id=0, partitions=None)
    rows = stored(data("s3://b/t/a", partition_key=b"\x00"))
    message = "its header has other fields for partition spec 0 than the table"
    assert check(row, of=of, rows=rows) == ([] if is_right else [("R-061", "error", message)])


def test_r061_every_row_of_a_list_is_compared_with_the_header():
    message = "its header says partition spec 1, the manifest list 0"
    assert ("R-061", "error", message) in check(manifest(), manifest(partition_spec_id=0))


def test_r177_a_manifest_is_not_of_a_later_version_than_its_table():
    assert check(of=header(3)) == [("R-177", "error", "it has version 3, the table 2")]
    assert check(version=3, of=header(2)) == []


def test_r063_fields_that_no_version_has_are_worth_knowing():
    message = "its entries have fields of no version up to 3 ({})"
    for ids, text in (
        ((146, 900), "field ids 146, 900"),
        ((-1, 900), "field ids 900, and without ids"),
        ((-1,), "without ids"),
    ):
        assert check(of=header(unknown_field_ids=ids)) == [("R-063", "info", message.format(text))]


def test_r212_lengths_that_the_schema_does_not_tell_are_warned_of():
    message = (
        "lengths stand before its fixed partition values, as Iceberg for Java writes and reads "
        "them; by its Avro schema no other reader can read it"
    )
    assert check(of=header(has_lengths_of_fixed=True)) == [("R-212", "warning", message)]


def test_r050_the_length_is_that_of_the_file():
    message = "its length is 1234 in the list, 99 as stored"
    assert check(size_bytes=99) == [("R-050", "warning", message)]


FILES = stored(
    data("s3://b/t/a"),
    data("s3://b/t/b", status=Status.EXISTING, sequence_number=5, record_count=7),
    data("s3://b/t/c", status=Status.DELETED, sequence_number=4, record_count=3),
)
COUNTED = manifest(
    existing_files_count=1, existing_rows_count=7, deleted_files_count=1, deleted_rows_count=3
)


def test_r051_counts_are_those_of_the_entries_or_unknown():
    assert check(COUNTED, rows=FILES) == []
    unknown = replace(COUNTED, added_files_count=None, deleted_rows_count=None)
    assert check(unknown, rows=FILES) == []


@pytest.mark.parametrize(
    ("name", "version", "severity", "message"),
    [
        ("added_files_count", 2, "error", "0 added files, not 1"),
        ("existing_files_count", 2, "error", "0 existing files, not 1"),
        ("deleted_files_count", 2, "warning", "0 deleted files, not 1"),
        ("added_rows_count", 2, "warning", "0 added rows, not 10"),
        ("existing_rows_count", 3, "error", "0 existing rows, not 7"),  # row ids are counted by it
        ("deleted_rows_count", 3, "warning", "0 deleted rows, not 3"),
    ],
)
def test_r051_counts_that_mislead_a_reader_are_errors(name, version, severity, message):
    found = check(replace(COUNTED, **{name: 0}), rows=FILES, version=version)
    assert found == [("R-051", severity, f"the manifest list counts {message}")]


def test_r047_the_least_sequence_number_is_not_above_a_live_entry_s():
    rows = stored(
        data("s3://b/t/a", status=Status.EXISTING, sequence_number=3),
        data("s3://b/t/b", status=Status.DELETED, sequence_number=1),
    )
    row = replace(COUNTED, added_files_count=None, existing_rows_count=10, deleted_rows_count=10)
    row = replace(row, added_rows_count=None)
    message = "its least sequence number is 5 in the list, but an entry has 3"
    assert check(row, rows=rows) == [("R-047", "error", message)]
    # A smaller one makes readers keep deletes for longer than need be, which is right.
    assert check(replace(row, min_sequence_number=2), rows=rows) == []


def test_r044_no_entry_has_a_sequence_number_above_its_manifest_s():
    rows = stored(data("s3://b/t/a", sequence_number=6))
    message = "an entry has sequence number 6, above its own, 5"
    assert check(rows=rows) == [("R-044", "error", message)]


def test_r044_manifest_lists_agree_on_the_sequence_number():
    later = manifest(sequence_number=8, min_sequence_number=5)
    message = "manifest lists give it different sequence numbers, 5 and 8"
    assert check(manifest(), later) == [("R-044", "error", message)]


def test_entries_that_are_all_deleted_have_no_least_sequence_number():
    rows = stored(data("s3://b/t/a", status=Status.DELETED, sequence_number=1))
    row = manifest(
        added_files_count=0, added_rows_count=0, deleted_files_count=1, deleted_rows_count=10
    )
    assert check(row, rows=rows) == []


def test_partitions_of_a_spec_that_is_lost_are_not_looked_at():
    of = header(spec_id=7, partition_record=((1000, "string"),))
    assert check(manifest(partition_spec_id=7), of=of) == []
