from dataclasses import replace

import pytest

from icectl.checks.objects import ManifestList
from icectl.checks.rules import RULES
from icectl.format.manifest import FieldSummary, ManifestContent
from tests.builders.checked import LIST, MANIFEST, checked, manifest, snapshot, table, told

HEADER = {"snapshot-id": "70", "sequence-number": "5", "format-version": "2"}


def check(*manifests, version=2, properties=HEADER, of=None):
    return RULES.findings(
        ManifestList(
            table(version), of or snapshot(version), properties, manifests or (manifest(),)
        )
    )


V1 = {"sequence_number": 0, "min_sequence_number": 0}


@pytest.mark.parametrize(
    ("version", "row"),
    [
        (1, manifest(**V1)),
        (1, manifest(**V1, added_files_count=None, partitions=None)),
        (2, manifest()),
        (2, manifest(**V1, added_snapshot_id=3, added_files_count=None)),  # written by version 1
        (2, manifest(content=ManifestContent.DELETES)),
        (3, manifest(first_row_id=100)),
        (3, manifest(content=ManifestContent.DELETES)),
    ],
)
def test_healthy_rows_give_no_findings(version, row):
    properties = HEADER | {"sequence-number": "5" if version > 1 else "0"}
    assert told(check(row, version=version, properties=properties)) == []


@pytest.mark.parametrize("properties", [None, {}])
def test_r054_a_list_need_not_name_its_snapshot(properties):
    assert told(check(properties=properties)) == []


def test_r054_a_list_of_another_snapshot_is_worth_knowing():
    found = checked(check(properties={"snapshot-id": "71", "sequence-number": "6"}))
    assert [(one.rule, one.severity, one.subject, one.message) for one in found] == [
        ("R-054", "info", LIST, "its header says `snapshot-id` 71, the snapshot 70"),
        ("R-054", "info", LIST, "its header says `sequence-number` 6, the snapshot 5"),
    ]


def test_r050_a_manifest_is_listed_once():
    assert told(check(manifest(), manifest())) == [
        ("R-050", "error", f"it lists `{MANIFEST}` 2 times")
    ]


@pytest.mark.parametrize(
    ("changes", "severity", "message"),
    [
        ({"manifest_length": -1}, "error", "its length is -1"),
        (
            {"added_snapshot_id": None},
            "warning",
            "its row in the manifest list does not say which snapshot added it",
        ),
    ],
)
def test_r050_rows_have_a_length_and_a_snapshot(changes, severity, message):
    assert told(check(manifest(**changes))) == [("R-050", severity, message)]


def test_r050_embedded_manifests_have_no_row_that_could_name_a_snapshot():
    assert told(check(manifest(**V1, added_snapshot_id=None), version=1, properties=None)) == []


def test_r051_counts_are_not_negative():
    found = told(check(manifest(existing_files_count=-1)))
    assert found == [("R-051", "error", "one of its counts is negative")]


def test_r171_rows_of_version_2_have_counts():
    message = "its row in the manifest list lacks counts, which version 2 requires"
    assert told(check(manifest(deleted_rows_count=None))) == [("R-171", "warning", message)]


def test_r052_the_spec_of_a_manifest_is_in_the_table():
    message = "its partition spec 7 is not in `partition-specs`"
    assert told(check(manifest(partition_spec_id=7))) == [("R-052", "error", message)]


def test_r053_there_is_a_summary_for_each_field_of_the_spec():
    row = manifest(partition_spec_id=0, partitions=(FieldSummary(contains_null=False),) * 2)
    message = "it has summaries of 2 partition fields, its spec 0 has 1"
    assert told(check(row)) == [("R-053", "error", message)]


def test_r041_no_sequence_number_is_above_the_snapshot_s():
    message = "its sequence number 6 is above that of snapshot 70, 5"
    assert told(check(manifest(sequence_number=6))) == [("R-041", "error", message)]


def test_r041_manifests_that_a_snapshot_added_have_its_sequence_number():
    message = "snapshot 70 added it, but its sequence number is 4, not 5"
    row = manifest(sequence_number=4, min_sequence_number=4)
    assert told(check(row)) == [("R-041", "error", message)]
    older = manifest(sequence_number=4, min_sequence_number=4, added_snapshot_id=69)
    assert told(check(older)) == []


def test_r041_a_snapshot_that_was_put_back_has_manifests_of_its_first_time():
    row = manifest(sequence_number=4, min_sequence_number=4)
    again = replace(snapshot(2), summary={"operation": "append", "icectl.put-back": "true"})
    message = "snapshot 70 added it, but its sequence number is 4, not 5"
    assert told(check(row, of=again)) == [("R-041", "info", message)]
    newer = manifest(sequence_number=6)
    assert [one[:2] for one in told(check(newer, of=again))] == [("R-041", "error")]


def test_r041_a_snapshot_that_older_icectl_put_back_is_known_by_its_list():
    row = manifest(sequence_number=4, min_sequence_number=4)
    said = {"snapshot-id": "70", "sequence-number": "4"}
    assert [one[:2] for one in told(check(row, properties=said)) if one[0] == "R-041"] == [
        ("R-041", "info")
    ]
    found = told(check(row, of=snapshot(2, parent_snapshot_id=60), properties=said))
    assert [one[:2] for one in found if one[0] == "R-041"] == [("R-041", "error")]


def test_r047_the_least_sequence_number_is_not_above_the_manifest_s():
    row = manifest(sequence_number=3, min_sequence_number=4, added_snapshot_id=69)
    message = "its least sequence number 4 is above its own, 3"
    assert told(check(row)) == [("R-047", "error", message)]


def test_r048_version_1_has_no_sequence_numbers():
    row = manifest(sequence_number=5, min_sequence_number=5)
    message = "it has the sequence number 5 in a table of version 1"
    assert told(check(row, version=1, properties={})) == [("R-048", "warning", message)]


def test_r120_version_1_has_no_delete_manifests():
    row = manifest(**V1, content=ManifestContent.DELETES)
    message = "it holds deletes in a table of version 1"
    assert told(check(row, version=1, properties={})) == [("R-120", "error", message)]


def test_r056_manifests_without_live_entries_need_not_stay():
    old = manifest(
        manifest_path="s3://b/t/metadata/old.avro", added_files_count=0, added_snapshot_id=69
    )
    message = (
        "1 of its 2 manifests hold nothing but deleted entries of older snapshots; "
        "the first is `s3://b/t/metadata/old.avro`"
    )
    assert told(check(manifest(), old)) == [("R-056", "info", message)]


def test_r056_a_snapshot_tells_what_it_deleted_itself():
    assert told(check(manifest(added_files_count=0, deleted_files_count=1))) == []


def test_r102_data_manifests_of_version_3_have_first_row_ids():
    message = f"1 data manifests have no first row id; the first is `{MANIFEST}`"
    assert told(check(version=3)) == [("R-102", "error", message)]


def test_r102_r106_snapshots_from_before_version_3_have_no_row_ids():
    assert told(check(version=3, of=snapshot(first_row_id=None))) == []


def test_r102_delete_manifests_have_no_first_row_id():
    row = manifest(content=ManifestContent.DELETES, first_row_id=7)
    message = "it holds deletes, but has a first row id"
    assert told(check(row, version=3)) == [("R-102", "warning", message)]


def test_r102_first_row_ids_are_below_the_next_one():
    message = "its first row id 1001 is above `next-row-id`, 1000"
    assert told(check(manifest(first_row_id=1001), version=3)) == [("R-102", "error", message)]
    assert told(check(manifest(first_row_id=1000), version=3)) == []
