"""Manifest lists and manifests that are others of the table, and the mistakes of writers."""

import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icectl.checks.identity import (
    DoubtfulLists,
    changed_rows,
    check_own_list,
    doubtful_manifests,
    put_back_id,
)
from icectl.checks.objects import ListedChain
from icectl.checks.rules import RULES, doubts_of_manifest
from icectl.entries.rows import RawEntries
from icectl.errors import OtherFile
from icectl.format.manifest import FieldSummary, ManifestContent, ManifestFile, ManifestHeader
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.single_value import encode
from icectl.format.transforms import parse_transform
from icectl.format.types import PrimitiveType
from tests.builders.checked import FLAT, SPEC, header, manifest, snapshot, stored, table
from tests.builders.entry_rows import key

OWN = {"snapshot-id": "70", "sequence-number": "5"}
TOTALS = {"total-data-files": "1", "total-delete-files": "0", "total-records": "10"}


def is_other_list(
    properties: dict[str, str],
    *listed: ManifestFile,
    summary: dict[str, str] | None = None,
    snapshots: tuple[int, ...] = (60, 70),
    version: int = 2,
) -> bool:
    """Whether a list is taken for that of another snapshot than 70."""
    known = tuple(snapshot(version, snapshot_id=id_) for id_ in snapshots)
    own = snapshot(version, summary=summary)
    metadata = table(version, snapshots=known)
    try:
        check_own_list(metadata, own, properties, listed or (manifest(),))
    except OtherFile as error:
        return error.message.startswith("it is not the list of snapshot 70: ")
    return False


@pytest.mark.parametrize(
    ("properties", "is_other"),
    [
        (OWN, False),
        ({}, False),
        ({"snapshot-id": "70"}, False),
        ({"snapshot-id": "60"}, True),
        (OWN | {"snapshot-id": "60"}, True),
        (OWN | {"snapshot-id": "61"}, False),  # a tool has rounded the ids in the metadata
        ({"snapshot-id": "61", "sequence-number": "4"}, True),
        (OWN | {"sequence-number": "4"}, False),
        ({"sequence-number": "4"}, False),
    ],
)
def test_a_list_is_told_by_its_header(properties, is_other):
    assert is_other_list(properties) is is_other


@pytest.mark.parametrize("name", sorted(TOTALS))
@pytest.mark.parametrize("properties", [{"snapshot-id": "61"}, {"sequence-number": "4"}])
def test_totals_that_differ_too_tell_of_another_list(name, properties):
    assert not is_other_list(properties, summary=TOTALS)
    assert is_other_list(properties, summary=TOTALS | {name: "7"})
    assert not is_other_list(OWN, summary=TOTALS | {name: "7"})
    unknown = manifest(added_files_count=None, added_rows_count=None)
    told = name == "total-delete-files"
    assert is_other_list(properties, unknown, summary=TOTALS | {name: "7"}) is told


@pytest.mark.parametrize(
    ("added", "by", "total", "is_other"),
    [
        ("1", 60, "7", True), ("1", 60, "1", False), ("1", 70, "7", False),
        ("1", None, "7", False), ("0", 60, "7", False),
    ],
)  # fmt: skip
def test_a_list_without_a_header_is_told_by_what_its_snapshot_added(added, by, total, is_other):
    summary = {"added-data-files": added, "total-data-files": total}
    listed = manifest(added_snapshot_id=by)
    assert is_other_list({}, listed, summary=summary) is is_other
    deletes = {"added-delete-files": added, "total-data-files": total}
    assert is_other_list({}, listed, summary=deletes) is is_other
    assert not is_other_list({"snapshot-id": "70"}, listed, summary=summary)
    assert not is_other_list({}, listed, manifest(), summary=summary | {"total-records": "20"})


BACK = {"snapshot-id": "61", "sequence-number": "4"}
LIST_OF_61 = "s3://b/t/metadata/snap-61-0-c0ffee.avro"


@pytest.mark.parametrize(
    ("properties", "changes", "put_back"),
    [
        (BACK, {}, "61"),
        ({}, {"summary": {"icectl.put-back": "61"}}, "61"),
        (None, {"summary": {"icectl.put-back": "61"}}, "61"),
        (None, {}, None),
        ({}, {}, None),
        (BACK, {"parent_snapshot_id": 60}, None),
        (BACK, {"manifest_list": None}, None),
        (BACK, {"manifest_list": "s3://b/61/metadata/snap-161-61a.avro"}, "61"),
        (BACK, {"manifest_list": "s3://b/61/metadata/snap-161-0.avro"}, None),
        (BACK | {"sequence-number": "5"}, {}, None),
        (BACK | {"sequence-number": "many"}, {}, None),
        ({"snapshot-id": "61"}, {}, None),
        (BACK | {"snapshot-id": "60"}, {"manifest_list": "/t/snap-60-1-a.avro"}, None),
        (BACK | {"snapshot-id": "70"}, {"manifest_list": "/t/snap-70-1-a.avro"}, "70"),
    ],
)
def test_a_snapshot_that_was_put_back_is_known_by_its_mark_or_its_list(
    properties, changes, put_back
):
    own = snapshot(**({"manifest_list": LIST_OF_61} | changes))
    metadata = table(snapshots=(snapshot(snapshot_id=60), own))
    assert put_back_id(metadata, own, properties) == put_back


def test_the_list_of_a_snapshot_that_was_put_back_is_its_own():
    own = snapshot(manifest_list=LIST_OF_61, summary=TOTALS | {"total-records": "7"})
    check_own_list(table(snapshots=(own,)), own, BACK, [manifest()])
    child = snapshot(manifest_list=LIST_OF_61, parent_snapshot_id=60)
    with pytest.raises(OtherFile) as raised:
        check_own_list(table(snapshots=(child,)), child, BACK, [manifest()])
    assert raised.value.message == (
        "it is not the list of snapshot 70: its header says `snapshot-id` 61; "
        "its header says `sequence-number` 4, not 5 (R-054)"
    )


FILE: dict[str, Any] = {"status": 1, "record_count": 10}
PARTITION = FieldSummary(
    False, None, encode(PrimitiveType("string"), "a"), encode(PrimitiveType("string"), "b")
)


def found(
    row: ManifestFile,
    rows: RawEntries,
    said: ManifestHeader | None = None,
    size: int = 1234,
    specs: tuple[PartitionSpec, ...] = (SPEC, FLAT),
) -> str | None:
    """The rule by which a manifest is another one; None where it may be the one."""
    metadata, own = table(partition_specs=specs), said or header()
    try:
        doubts_of_manifest(metadata, row, own, size, rows)
    except OtherFile as error:
        is_doubted = list(doubtful_manifests([row], [own], [size], rows, 0)) == [0]
        return error.rule if is_doubted else "in no doubt"
    return None


def test_a_manifest_that_is_as_its_list_says_is_in_no_doubt():
    rows = stored(FILE)
    assert found(manifest(), rows) is None
    assert list(doubtful_manifests([manifest()], [header()], [1234], rows, 0)) == []
    unknown = manifest(added_files_count=None, added_rows_count=None, added_snapshot_id=None)
    assert list(doubtful_manifests([unknown], [header()], [1234], rows, 0)) == []
    heirs = stored(FILE | {"snapshot_id": None})
    assert list(doubtful_manifests([manifest()], [header()], [1234], heirs, 0)) == []
    older = stored(FILE | {"status": 0, "snapshot_id": 60})
    merged = manifest(added_files_count=0, added_rows_count=0, existing_files_count=1,
                      existing_rows_count=10)  # fmt: skip
    assert list(doubtful_manifests([merged], [header()], [1234], older, 0)) == []
    deletes = manifest(content=ManifestContent.DELETES)
    assert list(doubtful_manifests([deletes], [header(metadata={})], [1234], rows, 0)) == [0]
    rows = stored(FILE | {"content": 1})
    assert list(doubtful_manifests([deletes], [header(metadata={})], [1234], rows, 0)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"manifest_length": 5},
        {"added_files_count": 2, "added_rows_count": 9},
        {"min_sequence_number": 6, "sequence_number": 6},
    ],
)
def test_one_mistake_is_that_of_a_writer(changes):
    assert found(manifest(**changes), stored(FILE)) is None


@pytest.mark.parametrize("name", ["added", "existing", "deleted"])
@pytest.mark.parametrize("kind", ["files", "rows"])
def test_a_length_and_a_count_tell_of_another_manifest(name, kind):
    wrong = manifest(manifest_length=5, **{f"{name}_{kind}_count": 7})
    assert found(wrong, stored(FILE)) == "R-051"


def test_a_header_and_entries_of_the_other_content_tell_of_another_manifest():
    listed = manifest(content=ManifestContent.DELETES)
    assert found(listed, stored(FILE)) == "R-061"
    assert found(listed, stored(FILE | {"content": 1})) is None  # the header alone
    bare = header(metadata={})
    assert found(listed, stored(FILE | {"content": 1}), bare) is None


def test_several_ranges_of_partitions_tell_the_same():
    again = PartitionField((2,), 1001, "again", parse_transform("identity"))
    both = PartitionSpec(2, (*SPEC.fields, again))
    listed = manifest(partition_spec_id=2, partitions=(PARTITION, PARTITION))
    rows = stored(FILE | {"spec_id": 2, "partition_key": key("c") + key("c")})
    said = header(spec_id=2, partition_fields=None)
    assert found(listed, rows, said, specs=(both,)) is None
    assert found(listed, rows, said, 9, specs=(both,)) == "R-053"


def test_what_a_header_lacks_tells_of_no_other_manifest():
    assert found(manifest(), stored(FILE), header(metadata={}), 9) is None


def test_all_that_tells_of_another_manifest_is_named():
    rows = stored(FILE | {"snapshot_id": 60, "sequence_number": 5})
    with pytest.raises(OtherFile) as raised:
        doubts_of_manifest(table(), manifest(manifest_length=5), header(), 1234, rows)
    assert raised.value.message == (
        "it is not the manifest that the list describes: "
        "its entries were added or removed by snapshot 60, not 70; "
        "its length is 5 in the list, 1234 as stored (R-064)"
    )


def test_a_spec_and_a_length_tell_of_another_manifest():
    said = header(spec_id=0)
    assert found(manifest(), stored(FILE), said) is None
    assert found(manifest(), stored(FILE), said, size=9) == "R-061"
    assert list(doubtful_manifests([manifest()], [said], [1234], stored(FILE), 0)) == [0]


@pytest.mark.parametrize("status", [1, 2])
def test_what_another_snapshot_added_or_removed_tells_of_another_manifest(status):
    counts = {"added_files_count": None, "added_rows_count": None, "deleted_files_count": None,
              "deleted_rows_count": None}  # fmt: skip
    listed = manifest(**counts)
    numbered = FILE | {"status": status, "sequence_number": 5}
    assert found(listed, stored(numbered | {"snapshot_id": 60})) == "R-064"
    assert found(listed, stored(numbered | {"snapshot_id": 60}, numbered)) is None
    assert found(listed, stored(numbered | {"snapshot_id": None})) is None
    old = numbered | {"status": 0, "snapshot_id": 60}
    assert found(manifest(**counts, existing_files_count=None, existing_rows_count=None),
                 stored(old)) is None  # fmt: skip
    assert found(manifest(**counts, added_snapshot_id=None), stored(numbered)) is None


def test_nothing_is_told_of_a_manifest_of_an_unknown_spec():
    wrong = manifest(partition_spec_id=7, manifest_length=5, added_files_count=9)
    assert found(wrong, stored(FILE)) is None


def test_each_of_several_manifests_is_looked_at_by_itself():
    rows = stored(FILE, FILE | {"manifest": 1}, FILE | {"manifest": 2}, FILE | {"manifest": 3})
    right = manifest()
    listed = [right, manifest(added_rows_count=9), right, manifest(added_snapshot_id=60)]
    assert list(doubtful_manifests(listed, [header()] * 4, [1234] * 4, rows, 0)) == [1, 3]
    later = stored(FILE | {"manifest": 5}, FILE | {"manifest": 6})
    assert list(doubtful_manifests([right, right], [header()] * 2, [1234, 9], later, 5)) == [1]


ROWS = [
    manifest(manifest_path=f"/t/m{number}.avro", added_files_count=number, content=content)
    for number, content in enumerate([ManifestContent.DATA, ManifestContent.DELETES] * 4)
]
ODD = [
    manifest(manifest_path="/t/m1.avro"),
    manifest(manifest_path="/t/late.avro", sequence_number=6, added_snapshot_id=None),
    manifest(manifest_path="/t/long.avro", manifest_length=-1),
    manifest(manifest_path="/t/unknown.avro", existing_files_count=None),
]
LISTS = st.lists(st.lists(st.sampled_from(ROWS + ODD), max_size=12), min_size=2, max_size=6)


@given(LISTS, st.booleans())
def test_lists_one_after_another_are_judged_as_each_alone(drawn, grows):
    lists = [tuple(one) for one in drawn]
    if grows:  # each has most rows of the one before
        lists = [(*lists[0], *lists[at], ROWS[at]) for at in range(len(lists))]
    many, metadata = DoubtfulLists(), table(snapshots=(snapshot(),))
    for before, listed in zip([(), *lists], lists, strict=False):
        removed, added = changed_rows(before, listed)
        kept = Counter(one.manifest_path for one in before)
        kept.subtract(one.manifest_path for one in removed)
        kept.update(one.manifest_path for one in added)
        assert +kept == Counter(one.manifest_path for one in listed)
        alone = DoubtfulLists().is_doubtful(metadata, snapshot(), listed)
        assert many.is_doubtful(metadata, snapshot(), listed) is alone


@given(LISTS)
def test_lists_one_after_another_are_counted_as_each_alone(drawn):
    summary = {"operation": "append", "total-data-files": "999", "total-delete-files": "999"}
    lists = dict(enumerate(drawn, 1))
    snapshots = tuple(snapshot(snapshot_id=id_, summary=summary) for id_ in lists)
    wanted = set()
    for id_, listed in lists.items():
        for content, what in ((ManifestContent.DATA, "data"), (ManifestContent.DELETES, "delete")):
            counts = [
                count
                for one in listed
                if one.content is content
                for count in (one.added_files_count, one.existing_files_count)
            ]
            if None not in counts:
                wanted.add((f"snapshot {id_}", f"{sum(counts)} {what}"))
    found = RULES.findings(ListedChain(table(snapshots=snapshots), lists), only=("R-031",))
    counted = [(one.subject, re.search(r"\d+ (data|delete)", one.message)) for one in found]
    assert {(subject, match and match[0]) for subject, match in counted} == wanted
