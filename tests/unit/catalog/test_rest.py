"""Changes and conditions in the words of the REST protocol, as its specification spells them."""

from typing import Any

import pytest

from icectl.catalog.rest.commits import has_landed, not_shown
from icectl.catalog.rest.wire import check_updates, requirement_json, update_json
from icectl.errors import Unsupported
from icectl.format.layout import Layout
from icectl.format.metadata_json import parse_metadata
from icectl.format.snapshot import PartitionStatisticsFile, Snapshot, SnapshotRef, StatisticsFile
from icectl.format.updates import (
    ALL_UPDATES,
    AddSnapshot,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUuid,
    AssignUuid,
    RemovePartitionSpecs,
    RemovePartitionStatistics,
    RemoveProperties,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    SetLayout,
    SetManifestList,
    SetPartitionStatistics,
    SetProperties,
    SetSnapshotRef,
    SetStatistics,
    Update,
    UpgradeFormatVersion,
)

NEW = Snapshot(
    5, 99, 4, 3, manifest_list="s3://b/l.avro", summary={"operation": "replace"}, schema_id=1,
    first_row_id=7, added_rows=2, unknown={"x": 1},
)  # fmt: skip
BLOB = {
    "type": "apache-datasketches-theta-v1", "snapshot-id": 5, "sequence-number": 3, "fields": [1],
    "properties": {"ndv": "7"},
}  # fmt: skip
SPELLED: list[tuple[Update, dict[str, Any]]] = [
    (AssignUuid("u"), {"action": "assign-uuid", "uuid": "u"}),
    (UpgradeFormatVersion(2), {"action": "upgrade-format-version", "format-version": 2}),
    (
        AddSnapshot(NEW),
        {
            "action": "add-snapshot",
            "snapshot": {
                "snapshot-id": 5, "parent-snapshot-id": 4, "sequence-number": 3,
                "timestamp-ms": 99, "manifest-list": "s3://b/l.avro", "schema-id": 1,
                "summary": {"operation": "replace"}, "first-row-id": 7, "added-rows": 2, "x": 1,
            },
        },
    ),
    (RemoveSnapshots((1, 2)), {"action": "remove-snapshots", "snapshot-ids": [1, 2]}),
    (
        SetSnapshotRef("b", SnapshotRef(5, "branch", 2, 1000, 9000)),
        {
            "action": "set-snapshot-ref", "ref-name": "b", "type": "branch", "snapshot-id": 5,
            "min-snapshots-to-keep": 2, "max-snapshot-age-ms": 1000, "max-ref-age-ms": 9000,
        },
    ),
    (RemoveSnapshotRef("b"), {"action": "remove-snapshot-ref", "ref-name": "b"}),
    (SetProperties({"a": "b"}), {"action": "set-properties", "updates": {"a": "b"}}),
    (RemoveProperties(("a",)), {"action": "remove-properties", "removals": ["a"]}),
    (
        SetStatistics(StatisticsFile(5, "s3://b/s.stats", 120, 80, (BLOB,))),
        {
            "action": "set-statistics", "snapshot-id": 5,
            "statistics": {
                "snapshot-id": 5, "statistics-path": "s3://b/s.stats", "file-size-in-bytes": 120,
                "file-footer-size-in-bytes": 80, "blob-metadata": [BLOB],
            },
        },
    ),
    (
        SetPartitionStatistics(PartitionStatisticsFile(5, "s3://b/p.parquet", 90)),
        {
            "action": "set-partition-statistics",
            "partition-statistics": {
                "snapshot-id": 5, "statistics-path": "s3://b/p.parquet", "file-size-in-bytes": 90,
            },
        },
    ),
    (RemoveStatistics(5), {"action": "remove-statistics", "snapshot-id": 5}),
    (RemovePartitionStatistics(5), {"action": "remove-partition-statistics", "snapshot-id": 5}),
    (RemoveSchemas((1,)), {"action": "remove-schemas", "schema-ids": [1]}),
    (RemovePartitionSpecs((1,)), {"action": "remove-partition-specs", "spec-ids": [1]}),
]  # fmt: skip


@pytest.mark.parametrize(("update", "spelled"), SPELLED)
def test_changes_are_spelled_as_the_protocol_has_them(update, spelled):
    assert update_json(update, 3) == spelled


def test_every_change_is_spelled_or_refused():
    assert {type(update) for update, _ in SPELLED} == ALL_UPDATES - {SetLayout, SetManifestList}


@pytest.mark.parametrize(
    "update", [SetManifestList(1, "l"), SetLayout(Layout.SFC_1), UpgradeFormatVersion(4)]
)
def test_what_has_no_form_is_refused(update):
    with pytest.raises(Unsupported):
        check_updates([update])


@pytest.mark.parametrize(
    ("requirement", "spelled"),
    [
        (AssertTableUuid("u"), {"type": "assert-table-uuid", "uuid": "u"}),
        (
            AssertRefSnapshotId("main", None),
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
        ),
        (AssertCurrentSchemaId(1), {"type": "assert-current-schema-id", "current-schema-id": 1}),
        (AssertDefaultSpecId(2), {"type": "assert-default-spec-id", "default-spec-id": 2}),
    ],
)
def test_conditions_are_spelled_as_the_protocol_has_them(requirement, spelled):
    assert requirement_json(requirement) == spelled


def metadata(**changed: Any) -> dict[str, Any]:
    """A small table with two schemas and two snapshots."""

    def schema(schema_id: int) -> dict[str, Any]:
        field = {"id": 1, "name": "a", "required": False, "type": "long"}
        return {"type": "struct", "schema-id": schema_id, "fields": [field]}

    def snapshot(snapshot_id: int) -> dict[str, Any]:
        return {
            "snapshot-id": snapshot_id, "sequence-number": snapshot_id, "timestamp-ms": 9,
            "manifest-list": "l", "summary": {"operation": "append"},
        }  # fmt: skip

    return {
        "format-version": 2, "table-uuid": "u", "location": "/t", "last-sequence-number": 2,
        "last-updated-ms": 9, "last-column-id": 1, "schemas": [schema(0), schema(1)],
        "current-schema-id": 1, "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0, "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0,
        "properties": {"a": "b"}, "current-snapshot-id": 2,
        "snapshots": [snapshot(1), snapshot(2)],
        "refs": {"main": {"snapshot-id": 2, "type": "branch"}}, **changed,
    }  # fmt: skip


def test_members_that_an_answer_lacks_are_named():
    """By what they belong to, whatever order a server has lists in."""
    plain = metadata()
    stored = metadata(**{"x-top": 1})
    stored["schemas"][0]["fields"][0]["x-field"] = True
    stored["snapshots"][0]["parent-snapshot-id"] = 7
    stored["refs"]["main"]["x-ref"] = 2

    def lacks(shown: dict[str, Any]) -> list[str]:
        return list(not_shown(parse_metadata(stored), parse_metadata(shown)))

    assert lacks(plain) == [
        "schemas.fields.x-field", "refs.main.x-ref", "snapshots.parent-snapshot-id", "x-top"
    ]  # fmt: skip
    turned = {**stored, "schemas": stored["schemas"][::-1], "snapshots": stored["snapshots"][::-1]}
    assert lacks({**turned, "properties": {}, "x-more": 1}) == []
    assert lacks({**turned, "snapshots": stored["snapshots"][1:]}) == ["snapshots"]


def test_changes_have_landed_where_their_snapshot_is_or_all_of_them_show():
    now = parse_metadata(metadata())
    gone, there = RemoveSnapshots((7,)), RemoveSnapshots((1, 7))
    assert has_landed([gone, SetProperties({"a": "b"}), RemoveProperties(("c",))], now)
    assert not has_landed([there], now)
    assert not has_landed([gone, SetProperties({"a": "c"})], now)
    moved = SetSnapshotRef("main", SnapshotRef(1, "branch"))
    assert not has_landed([moved], now)
    assert has_landed([AddSnapshot(Snapshot(1, 9)), moved], now)  # main has moved on since
    assert not has_landed([AddSnapshot(Snapshot(3, 9))], now)
