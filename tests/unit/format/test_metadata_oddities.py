"""What is read of metadata that breaks a rule, and how each break is named."""

import copy
from typing import Any

import pytest

from icectl.errors import CorruptTable
from icectl.format.metadata import Oddity
from icectl.format.metadata_json import parse_metadata
from icectl.format.metadata_oddities import parse_generously

LOCATION = "file:/lost/and/found"


def members(version: int = 3) -> dict[str, Any]:
    """A table with two snapshots, by hand."""
    fields = [{"id": 1, "name": "a", "required": False, "type": "long"}]
    made: dict[str, Any] = {
        "format-version": version,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "file:/t",
        "last-sequence-number": 2,
        "last-updated-ms": 2_000,
        "last-column-id": 1,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {"owner": "me"},
        "current-snapshot-id": 22,
        "snapshots": [
            {
                "snapshot-id": 11 * number,
                "sequence-number": number,
                "timestamp-ms": 1_000 * number,
                "manifest-list": f"file:/t/metadata/snap-{number}.avro",
                "summary": {"operation": "append"},
            }
            for number in (1, 2)
        ],
        "refs": {"main": {"snapshot-id": 22, "type": "branch"}},
        "snapshot-log": [{"snapshot-id": 11 * n, "timestamp-ms": 1_000 * n} for n in (1, 2)],
        "next-row-id": 7,
    }
    return made


def told(found: Any) -> list[tuple[str, str, bool]]:
    return [(oddity.rule, oddity.member, oddity.lost) for oddity in found.oddities]


def test_sound_metadata_is_read_as_ever():
    assert parse_generously(members(), LOCATION) == parse_metadata(members())


def test_r013_a_table_without_next_row_id_is_shown_whole():
    odd = members()
    del odd["next-row-id"]
    found = parse_generously(odd, LOCATION)
    assert found.oddities == (
        Oddity("R-013", "`next-row-id` is absent from the table metadata", "next-row-id", False),
    )
    assert found.next_row_id is None
    assert [one.snapshot_id for one in found.snapshots] == [11, 22]
    assert (found.current_snapshot_id, found.properties) == (22, {"owner": "me"})


def test_r030_one_old_snapshot_with_too_large_an_id_is_left_out():
    odd = members()
    odd["snapshots"].insert(0, {**odd["snapshots"][0], "snapshot-id": 2**63})
    found = parse_generously(odd, LOCATION)
    assert told(found) == [("R-030", "snapshots", True)]
    assert found.oddities[0].message == (
        "`snapshots` entry 0 is unusable: 9223372036854775808 does not fit 64 bits"
    )
    assert [one.snapshot_id for one in found.snapshots] == [11, 22]
    assert found.last_sequence_number == 2


def test_each_of_several_snapshots_is_named_by_its_place():
    odd = members()
    sound = odd["snapshots"]
    odd["snapshots"] = [sound[0], {"snapshot-id": "x"}, sound[1], 5]
    found = parse_generously(odd, LOCATION)
    assert [one.message.split(" is ")[0] for one in found.oddities] == [
        "`snapshots` entry 1",
        "`snapshots` entry 3",
    ]
    assert [one.snapshot_id for one in found.snapshots] == [11, 22]


@pytest.mark.parametrize("name", ["summary", "parent-snapshot-id", "schema-id", "key-id"])
def test_a_snapshot_lacks_the_one_member_that_cannot_be_read(name):
    odd = members()
    odd["snapshots"][1][name] = [5]
    found = parse_generously(odd, LOCATION)
    assert told(found) == [("R-030", "snapshots", True)]
    current = found.current_snapshot
    assert current is not None
    assert current.manifest_list == "file:/t/metadata/snap-2.avro"
    assert getattr(current, name.replace("-", "_")) is None


def test_r015_the_head_of_main_stands_for_a_current_snapshot_that_is_not_there():
    odd = members()
    odd["current-snapshot-id"] = 33
    found = parse_generously(odd, LOCATION)
    assert told(found) == [("R-015", "current-snapshot-id", False)]
    assert found.current_snapshot_id == 22
    odd["refs"]["main"]["snapshot-id"] = 33
    found = parse_generously(odd, LOCATION)
    assert told(found) == [("R-015", "current-snapshot-id", True)]
    assert found.current_snapshot_id is None


def test_without_a_location_that_of_the_file_is_shown():
    odd = members()
    del odd["location"]
    found = parse_generously(odd, LOCATION)
    assert (found.location, told(found)) == (LOCATION, [("R-011", "location", False)])


def test_a_table_of_version_1_without_schemas_has_its_old_schema():
    odd = members(1)
    odd["schema"] = {**odd.pop("schemas")[0]}
    odd["last-updated-ms"] = "soon"
    found = parse_generously(odd, LOCATION)
    assert told(found) == [("R-011", "last-updated-ms", True)]
    assert [field.name for field in found.current_schema.fields] == ["a"]
    assert found.last_updated_ms == 2_000


@pytest.mark.parametrize("version", [None, "2", True, 0])
def test_r011_without_a_format_version_nothing_is_read(version):
    odd = {**members(), "format-version": version}
    with pytest.raises(CorruptTable, match="format-version"):
        parse_generously(odd, LOCATION)


WRONG = (None, "x", 5, [], {}, [5], 10**30, {"a": {"b": 1}})


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_any_other_member_may_be_wrong_and_the_rest_is_read(version, wrong):
    for name in members(version):
        if name == "format-version":
            continue
        odd = copy.deepcopy(members(version))
        odd[name] = wrong
        found = parse_generously(odd, LOCATION)
        if name != "snapshots":
            assert [one.snapshot_id for one in found.snapshots] == [11, 22], name
        if name not in ("schemas", "current-schema-id"):
            assert [field.name for field in found.current_schema.fields] == ["a"], name
