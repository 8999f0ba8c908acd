"""Metadata JSON in and out, by the rules of each version."""

from typing import Any

import pytest

from icectl.errors import CorruptTable, Unsupported
from icectl.format.metadata_json import metadata_json, parse_metadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.snapshot import Snapshot, SnapshotRef
from icectl.format.sort import SortOrder
from icectl.format.transforms import parse_transform
from tests.builders.metadata_members import (
    SCHEMA,
    SPEC_FIELD,
    UUID,
    members_v1,
    members_v2,
    members_v3,
)

VERSIONS = {1: members_v1, 2: members_v2, 3: members_v3}
EVERY_VERSION = pytest.mark.parametrize("version", [1, 2, 3])


def without(members: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in members.items() if name not in names}


def broken_rule(members: dict[str, Any]) -> str:
    with pytest.raises(CorruptTable) as caught:
        parse_metadata(members)
    return caught.value.rule


@EVERY_VERSION
def test_printing_what_was_read_gives_the_same_members_in_the_same_order(version):
    members = VERSIONS[version]()
    printed = metadata_json(parse_metadata(members))
    assert printed == members
    assert list(printed) == list(members)
    assert list(printed["snapshots"][0]) == list(members["snapshots"][0])


@EVERY_VERSION
def test_reading_what_was_printed_gives_an_equal_table(version):
    metadata = parse_metadata(VERSIONS[version]())
    assert parse_metadata(metadata_json(metadata)) == metadata


@EVERY_VERSION
def test_r018_unknown_members_of_every_level_survive(version):
    members = VERSIONS[version]()
    news: dict[str, Any] = {"x-new": {"deep": [1, None]}}
    members |= news | {"x-null": None}
    for name in ("snapshots", "snapshot-log", "schemas", "partition-specs", "sort-orders"):
        members[name] = [item | news for item in members[name]]
    members["metadata-log"] = [{"timestamp-ms": 1, "metadata-file": "f"} | news]
    members["refs"] = {name: ref | news for name, ref in members["refs"].items()}
    for name in ("statistics", "partition-statistics"):
        members[name] = [item | news for item in members_v2()[name]]
    members["partition-specs"] = [members["partition-specs"][0] | {"fields": [SPEC_FIELD | news]}]
    fields = [SCHEMA["fields"][0] | news, SCHEMA["fields"][1]]
    members["schemas"] = [SCHEMA | {"fields": fields} | news]
    if version == 1:
        members["schema"] = members["schemas"][0]
        members["partition-spec"] = [SPEC_FIELD | news]
    assert metadata_json(parse_metadata(members)) == members


def test_r001_a_version_that_is_not_known_is_unsupported():
    with pytest.raises(Unsupported, match="format version 5, which is unknown"):
        parse_metadata({"format-version": 5})


@pytest.mark.parametrize("version", [0, -1, "2", 2.0, True, None])
def test_r011_a_version_that_is_no_version_is_corrupt(version):
    assert broken_rule(members_v2() | {"format-version": version}) == "R-011"


def test_r010_version_1_members_have_defaults():
    old = {
        "format-version": 1,
        "location": "s3://b/t",
        "last-updated-ms": 1,
        "last-column-id": 2,
        "schema": without(SCHEMA, "schema-id"),
        "partition-spec": [
            {"source-id": 2, "name": "at_day", "transform": "day"},
            {"source-id": 1, "name": "id_bucket", "transform": "bucket[4]"},
        ],
    }
    metadata = parse_metadata(old)
    assert metadata.table_uuid is None
    assert metadata.last_sequence_number == 0
    assert [schema.schema_id for schema in metadata.schemas] == [0]
    assert metadata.current_schema_id == 0
    day = PartitionField((2,), 1000, "at_day", parse_transform("day"))
    bucket = PartitionField((1,), 1001, "id_bucket", parse_transform("bucket[4]"))
    assert metadata.partition_specs == (PartitionSpec(0, (day, bucket)),)
    assert metadata.default_spec_id == 0
    assert metadata.last_partition_id == 1001
    assert metadata.sort_orders == (SortOrder(0, ()),)
    assert metadata.default_sort_order_id == 0
    assert (metadata.snapshots, metadata.refs, metadata.current_snapshot_id) == ((), {}, None)
    assert metadata.properties == {}
    assert metadata.next_row_id is None


def test_r010_an_unpartitioned_version_1_table_has_used_partition_ids_up_to_999():
    members = without(members_v1(), "partition-specs", "last-partition-id", "default-spec-id")
    assert parse_metadata(members | {"partition-spec": []}).last_partition_id == 999


def test_r010_without_a_default_the_spec_with_the_highest_id_counts():
    specs = [{"spec-id": id_, "fields": []} for id_ in (2, 1)]
    members = without(members_v1(), "default-spec-id") | {"partition-specs": specs}
    assert parse_metadata(members).default_spec_id == 2


def test_r010_a_single_schema_of_version_1_has_id_0_whatever_it_says():
    members = without(members_v1(), "schemas", "current-schema-id")
    metadata = parse_metadata(members | {"schema": SCHEMA | {"schema-id": 7}})
    assert (metadata.current_schema_id, metadata.schemas[0].schema_id) == (0, 0)


@pytest.mark.parametrize(
    "name",
    [
        "format-version", "table-uuid", "location", "last-sequence-number", "last-updated-ms",
        "last-column-id", "schemas", "current-schema-id", "partition-specs", "default-spec-id",
        "sort-orders",
    ],
)  # fmt: skip
@pytest.mark.parametrize("version", [2, 3])
def test_r011_a_required_member_that_is_absent_or_null_is_corrupt(version, name):
    members = VERSIONS[version]()
    assert broken_rule(without(members, name)) == "R-011"
    assert broken_rule(members | {name: None}) == "R-011"


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("location", "R-011"), ("last-updated-ms", "R-011"), ("last-column-id", "R-011"),
        ("schema", "R-012"), ("partition-spec", "R-012"),
    ],
)  # fmt: skip
def test_r012_version_1_has_required_members_too(name, rule):
    members = without(members_v1(), "schemas", "current-schema-id", "partition-specs")
    assert broken_rule(without(members, name)) == rule


def test_r012_the_schema_of_version_1_is_a_struct():
    members = without(members_v1(), "schemas", "current-schema-id")
    assert broken_rule(members | {"schema": without(SCHEMA, "type")}) == "R-012"


@pytest.mark.parametrize("version", [2, 3])
def test_r011_later_versions_do_not_write_the_members_of_version_1(version):
    members = VERSIONS[version]() | {"schema": SCHEMA, "partition-spec": [SPEC_FIELD]}
    assert metadata_json(parse_metadata(members)) == VERSIONS[version]()


def test_r011_current_schema_and_default_spec_exist():
    assert broken_rule(members_v2() | {"current-schema-id": 2}) == "R-011"
    assert broken_rule(members_v2() | {"default-spec-id": 2}) == "R-011"


def test_r013_version_3_has_a_next_row_id():
    assert broken_rule(without(members_v3(), "next-row-id")) == "R-013"
    assert parse_metadata(members_v3()).next_row_id == 5


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, str(2**63), 10**30])
def test_r206_a_number_of_more_than_64_bits_is_corrupt(number):
    file = {"snapshot-id": 11, "statistics-path": "p", "file-size-in-bytes": number}
    assert broken_rule(members_v2() | {"partition-statistics": [file]}) == "R-142"
    assert broken_rule(members_v2() | {"last-updated-ms": number}) == "R-011"


@pytest.mark.parametrize("kind", [1.5, None, ["tag"]])
def test_r027_the_type_of_a_ref_is_a_text(kind):
    refs = {"first": {"snapshot-id": 11, "type": kind}}
    assert broken_rule(members_v2() | {"refs": refs}) == "R-027"


def test_r195_encryption_keys_are_written_where_there_are_some():
    members = without(members_v3(), "encryption-keys")
    assert metadata_json(parse_metadata(members)) == members
    assert metadata_json(parse_metadata(members_v3()))["encryption-keys"] == [
        {"key-id": "k", "encrypted-key-metadata": "YQ=="}
    ]


def test_r015_the_current_snapshot_is_one_of_the_snapshots():
    assert broken_rule(members_v2() | {"current-snapshot-id": 44}) == "R-015"


@pytest.mark.parametrize("refs", [None, {}, {"first": {"snapshot-id": 11, "type": "tag"}}])
def test_r015_branch_main_exists_even_where_refs_do_not_name_it(refs):
    metadata = parse_metadata(members_v2() | {"refs": refs})
    assert metadata.refs["main"] == SnapshotRef(33, "branch")
    assert len(metadata.refs) == len(refs or {}) + 1


@pytest.mark.parametrize("current", [-1, None])
def test_r016_versions_1_and_2_write_minus_one_for_no_snapshot(current):
    metadata = parse_metadata(members_v2() | {"current-snapshot-id": current, "refs": {}})
    assert (metadata.current_snapshot_id, metadata.refs) == (None, {})
    assert metadata_json(metadata)["current-snapshot-id"] == -1


def test_r016_version_3_writes_nothing_for_no_snapshot():
    members = members_v3() | {"current-snapshot-id": -1, "refs": {}}
    assert "current-snapshot-id" not in metadata_json(parse_metadata(members))


def test_r030_a_snapshot_has_a_manifest_list_or_manifests():
    listed = parse_metadata(members_v2()).snapshots[0]
    assert listed == Snapshot(
        11,
        1_000,
        sequence_number=1,
        manifest_list="s3://b/t/metadata/snap-11.avro",
        summary={"operation": "append"},
        schema_id=0,
    )
    embedded = parse_metadata(members_v1()).snapshots[0]
    assert embedded.manifest_list is None
    assert embedded.manifests == ("s3://b/t/metadata/m0.avro", "s3://b/t/metadata/m1.avro")


def test_r035_version_1_writes_no_sequence_number_of_0():
    [snapshot] = metadata_json(parse_metadata(members_v1()))["snapshots"]
    assert "sequence-number" not in snapshot


def test_r010_a_snapshot_without_a_sequence_number_has_0_and_version_2_writes_it():
    members = members_v2()
    members["snapshots"] = [without(members["snapshots"][0], "sequence-number")]
    members |= {"current-snapshot-id": 11, "refs": {}}
    metadata = parse_metadata(members)
    assert metadata.snapshots[0].sequence_number == 0
    assert metadata_json(metadata)["snapshots"][0]["sequence-number"] == 0


def test_r206_the_snapshot_id_of_statistics_may_be_text_and_is_written_as_a_number():
    members = members_v2()
    members["statistics"][0]["snapshot-id"] = "11"
    metadata = parse_metadata(members)
    assert metadata.statistics[0].snapshot_id == 11
    assert metadata_json(metadata)["statistics"][0]["snapshot-id"] == 11


def test_r027_ref_kinds_are_read_in_any_case():
    members = members_v2() | {"refs": {"main": {"snapshot-id": 33, "type": "BRANCH"}}}
    assert parse_metadata(members).refs["main"].type == "branch"


def test_properties_and_summaries_that_are_no_text_are_spelled_as_json():
    members = members_v2() | {"properties": {"a": True, "b": 7, "c": None, "d": "x"}}
    members["snapshots"][0]["summary"] = {"operation": "append", "added-records": 5}
    metadata = parse_metadata(members)
    assert metadata.properties == {"a": "true", "b": "7", "d": "x"}
    assert metadata.snapshots[0].summary == {"operation": "append", "added-records": "5"}


@pytest.mark.parametrize(
    ("stored", "location"),
    [("s3://b/t/", "s3://b/t"), ("/wh/t//", "/wh/t"), ("s3://", "s3://"), ("s3://b/t", "s3://b/t")],
)
def test_the_location_loses_its_trailing_slashes(stored, location):
    assert parse_metadata(members_v2() | {"location": stored}).location == location


@pytest.mark.parametrize(
    "name",
    [
        "properties", "snapshots", "refs", "snapshot-log", "metadata-log", "statistics",
        "partition-statistics", "encryption-keys", "last-partition-id", "default-sort-order-id",
    ],
)  # fmt: skip
def test_optional_members_may_be_null(name):
    members = members_v2() | {"current-snapshot-id": None, name: None}
    assert parse_metadata(members).table_uuid == UUID


SNAPSHOT = {"snapshot-id": 11, "timestamp-ms": 1_000}


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        ({"last-updated-ms": "soon"}, "R-011"),
        ({"last-column-id": 2.5}, "R-011"),
        ({"last-sequence-number": True}, "R-011"),
        ({"last-partition-id": []}, "R-014"),
        ({"current-snapshot-id": {}}, "R-015"),
        ({"properties": ["a"]}, "R-018"),
        ({"partition-specs": [{"spec-id": float("inf"), "fields": []}]}, "R-077"),
        ({"metadata-log": [{"timestamp-ms": 1}]}, "R-024"),
        ({"snapshot-log": [{"snapshot-id": 11}]}, "R-025"),
        ({"refs": ["main"]}, "R-027"),
        ({"refs": {"main": {"type": "branch"}}}, "R-027"),
        ({"snapshots": {"11": SNAPSHOT}}, "R-030"),
        ({"snapshots": [SNAPSHOT | {"timestamp-ms": None}]}, "R-030"),
        ({"snapshots": ["11"]}, "R-030"),
        ({"snapshots": [SNAPSHOT | {"manifest-list": 5}]}, "R-030"),
        ({"snapshots": [SNAPSHOT | {"manifests": "m0.avro"}]}, "R-030"),
        ({"snapshots": [SNAPSHOT | {"manifests": [5]}]}, "R-030"),
        ({"snapshots": [SNAPSHOT | {"summary": ["append"]}]}, "R-030"),
        ({"partition-specs": [{"spec-id": 0}]}, "R-077"),
        ({"sort-orders": [{"order-id": 0, "fields": [{}]}]}, "R-084"),
        ({"default-sort-order-id": "none"}, "R-084"),
        ({"statistics": [{"snapshot-id": 11}]}, "R-140"),
        ({"partition-statistics": [{"snapshot-id": 11}]}, "R-142"),
        ({"schemas": [{"type": "struct", "fields": [{"id": 1}]}]}, "R-184"),
        ({"encryption-keys": ["k"]}, "R-195"),
    ],
)  # fmt: skip
def test_members_that_make_no_sense_are_corrupt_and_name_their_rule(damage, rule):
    assert broken_rule(members_v2() | damage) == rule


def test_r184_a_type_nested_without_end_is_corrupt():
    deep: Any = "int"
    for level in range(5_000):
        deep = {"type": "list", "element-id": level, "element": deep, "element-required": True}
    field = {"id": 1, "name": "a", "required": True, "type": deep}
    schema = {"type": "struct", "schema-id": 0, "fields": [field]}
    assert broken_rule(members_v2() | {"schemas": [schema]}) == "R-184"


def test_messages_name_the_entry_and_what_it_lacks():
    with pytest.raises(CorruptTable) as caught:
        parse_metadata(members_v2() | {"snapshots": [SNAPSHOT, {"snapshot-id": 22}]})
    assert caught.value.message == (
        "`snapshots` entry 1 is unusable: `timestamp-ms` is absent (R-030)"
    )


@pytest.mark.parametrize(("levels", "is_read"), [(64, True), (65, False)])
def test_r184_types_nest_as_deep_as_all_readers_of_files_can_follow(levels, is_read):
    deep: Any = "int"
    for level in range(levels):
        member = {"id": level + 2, "name": "a", "required": False, "type": deep}
        deep = {"type": "struct", "fields": [member]}
    field = {"id": 1, "name": "a", "required": True, "type": deep}
    schema = {"type": "struct", "schema-id": 0, "fields": [field]}
    changed = members_v2() | {"schemas": [schema], "last-column-id": levels + 1}
    if is_read:
        assert len(parse_metadata(changed).current_schema.all_fields) == levels + 1
    else:
        assert broken_rule(changed) == "R-184"
