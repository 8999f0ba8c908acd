"""Updates of the table metadata: what each changes, refuses and requires."""

from dataclasses import replace

import pytest

from icectl.errors import Refused
from icectl.format.layout import Layout
from icectl.format.metadata import TableMetadata
from icectl.format.metadata_json import metadata_json, parse_metadata
from icectl.format.snapshot import MetadataLogEntry, Snapshot, SnapshotLogEntry, SnapshotRef
from icectl.format.updates import (
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
    SetProperties,
    SetSnapshotRef,
    UpgradeFormatVersion,
    apply,
    apply_all,
    check,
    with_log,
)
from tests.builders.metadata_members import UUID, members_v1, members_v2, members_v3


@pytest.fixture
def v1() -> TableMetadata:
    return parse_metadata(members_v1())


@pytest.fixture
def v2() -> TableMetadata:
    return parse_metadata(members_v2())


@pytest.fixture
def v3() -> TableMetadata:
    return parse_metadata(members_v3())


def new_snapshot(sequence_number: int, **members) -> Snapshot:
    return Snapshot(44, 4_000, 33, sequence_number, manifest_list="s3://b/t/l.avro", **members)


def log_ids(metadata: TableMetadata) -> list[int]:
    return [entry.snapshot_id for entry in metadata.snapshot_log]


def test_a_uuid_is_assigned_once(v1):
    assert apply(replace(v1, table_uuid=None), AssignUuid("u")).table_uuid == "u"
    assert apply(v1, AssignUuid(v1.table_uuid)) == v1
    with pytest.raises(Refused, match="it cannot change"):
        apply(v1, AssignUuid("u"))


def test_r170_version_1_becomes_version_2_and_drops_what_version_2_omits(v1):
    members = metadata_json(apply(v1, UpgradeFormatVersion(2)))
    assert members["format-version"] == 2
    assert members["last-sequence-number"] == 0
    assert members["snapshots"][0]["sequence-number"] == 0
    assert members["snapshots"][0]["manifests"] == members_v1()["snapshots"][0]["manifests"]
    assert not members.keys() & {"schema", "partition-spec"}


def test_r170_a_table_without_a_uuid_is_not_upgraded(v1):
    with pytest.raises(Refused, match="no UUID"):
        apply(replace(v1, table_uuid=None), UpgradeFormatVersion(2))


def test_r173_partition_fields_have_written_ids_after_an_upgrade(v1):
    old = members_v1()
    del old["partition-specs"], old["last-partition-id"], old["default-spec-id"]
    del old["schemas"], old["current-schema-id"]
    old["partition-spec"] = [{"source-id": 2, "name": "at_day", "transform": "day"}]
    members = metadata_json(apply(parse_metadata(old), UpgradeFormatVersion(2)))
    assert members["partition-specs"][0]["fields"][0]["field-id"] == 1000


def test_r003_and_r175_an_upgrade_changes_no_file(v1, v2):
    assert replace(apply(v1, UpgradeFormatVersion(2)), format_version=1) == v1
    assert replace(apply(v2, UpgradeFormatVersion(3)), format_version=2, next_row_id=None) == v2


@pytest.mark.parametrize("version", [1, 2])
def test_r174_row_ids_start_at_0_in_version_3(version, v1, v2):
    upgraded = apply({1: v1, 2: v2}[version], UpgradeFormatVersion(3))
    assert (upgraded.format_version, upgraded.next_row_id) == (3, 0)


def test_upgrading_to_the_version_that_a_table_has_changes_nothing(v3):
    assert apply(v3, UpgradeFormatVersion(3)) == v3


def test_r176_a_table_is_not_downgraded(v2):
    with pytest.raises(Refused, match="version 2 cannot become one of version 1"):
        apply(v2, UpgradeFormatVersion(1))


def test_r001_a_table_is_not_upgraded_beyond_what_is_read(v3):
    with pytest.raises(Refused, match="version 5 is not written"):
        apply(v3, UpgradeFormatVersion(5))


def test_r040_a_new_snapshot_raises_the_last_sequence_number(v2):
    snapshot = new_snapshot(4)
    added = apply(v2, AddSnapshot(snapshot))
    assert added.last_sequence_number == 4
    assert added.snapshots == (*v2.snapshots, snapshot)
    assert added.current_snapshot_id == 33
    assert added.refs == v2.refs


@pytest.mark.parametrize("sequence_number", [0, 2, 3])
def test_r040_a_sequence_number_is_not_used_again(v2, sequence_number):
    with pytest.raises(Refused, match=f"{sequence_number} is not above 3"):
        apply(v2, AddSnapshot(new_snapshot(sequence_number)))


def test_r048_version_1_takes_snapshots_without_a_sequence_number(v1):
    assert apply(v1, AddSnapshot(new_snapshot(0))).last_sequence_number == 0


def test_r033_a_snapshot_id_is_not_used_again(v2):
    with pytest.raises(Refused, match="22 is already used"):
        apply(v2, AddSnapshot(Snapshot(22, 4_000, sequence_number=4)))


def test_r104_the_next_row_id_grows_by_the_rows_a_snapshot_adds(v3):
    assert apply(v3, AddSnapshot(new_snapshot(2, first_row_id=5, added_rows=7))).next_row_id == 12


@pytest.mark.parametrize("first_row_id", [None, 4, 6])
def test_r101_the_row_ids_of_a_snapshot_start_at_the_next_one(v3, first_row_id):
    with pytest.raises(Refused, match=f"first row id {first_row_id} is not 5"):
        apply(v3, AddSnapshot(new_snapshot(2, first_row_id=first_row_id, added_rows=1)))


def test_r104_a_snapshot_of_version_3_says_how_many_rows_it_adds(v3):
    with pytest.raises(Refused, match="how many rows"):
        apply(v3, AddSnapshot(new_snapshot(2, first_row_id=5)))


def test_removed_snapshots_are_gone_and_the_others_stay_as_they_are(v2):
    removed = apply(v2, RemoveSnapshots((22,)))
    assert removed.snapshots == (v2.snapshots[0], v2.snapshots[2])
    assert removed.snapshots[1].parent_snapshot_id == 22
    assert removed.refs == v2.refs


def test_refs_to_removed_snapshots_go_with_them(v2):
    assert list(apply(v2, RemoveSnapshots((11,))).refs) == ["main"]


def test_r141_statistics_of_removed_snapshots_go_with_them(v2):
    removed = apply(v2, RemoveSnapshots((11, 22)))
    assert [file.snapshot_id for file in removed.statistics] == [33]
    assert [file.snapshot_id for file in removed.partition_statistics] == [33]


@pytest.mark.parametrize(
    ("gone", "log"), [((11,), [22, 33]), ((22,), [33]), ((11, 22), [33]), ((99,), [11, 22, 33])]
)
def test_r026_the_snapshot_log_keeps_what_follows_the_last_removed_snapshot(v2, gone, log):
    assert log_ids(apply(v2, RemoveSnapshots(gone))) == log


def test_r026_a_gap_that_was_in_the_log_before_is_cut_too(v2):
    entries = [SnapshotLogEntry(time, id_) for time, id_ in ((1, 11), (2, 5), (3, 22), (4, 33))]
    gapped = replace(v2, snapshot_log=tuple(entries))
    assert log_ids(apply(gapped, RemoveSnapshots((11,)))) == [22, 33]


def test_r028_the_current_snapshot_is_not_removed(v2):
    with pytest.raises(Refused, match="33 is the current one"):
        apply(v2, RemoveSnapshots((11, 33)))


def test_removing_snapshots_that_are_not_there_changes_nothing(v2):
    assert apply(v2, RemoveSnapshots((99,))) == v2
    assert apply(v2, RemoveSnapshots(())) == v2


def test_r055_a_snapshot_with_embedded_manifests_gets_a_list_instead(v1):
    [snapshot] = apply(v1, SetManifestList(11, "s3://b/t/list.avro")).snapshots
    assert snapshot == replace(v1.snapshots[0], manifest_list="s3://b/t/list.avro", manifests=None)


@pytest.mark.parametrize("snapshot_id", [22, 99])
def test_r055_a_manifest_list_is_not_replaced(v2, snapshot_id):
    with pytest.raises(Refused, match=f"no snapshot {snapshot_id} lacks a manifest list"):
        apply(v2, SetManifestList(snapshot_id, "s3://b/t/list.avro"))


def test_r015_moving_main_moves_the_current_snapshot(v2):
    moved = apply(v2, SetSnapshotRef("main", SnapshotRef(22, "branch")))
    assert (moved.current_snapshot_id, moved.refs["main"].snapshot_id) == (22, 22)


def test_another_ref_leaves_the_current_snapshot(v2):
    audit = SnapshotRef(22, "branch", min_snapshots_to_keep=2)
    added = apply(v2, SetSnapshotRef("audit", audit))
    assert added.current_snapshot_id == 33
    assert added.refs == {**v2.refs, "audit": audit}


def test_r022_a_ref_is_not_set_to_a_snapshot_that_is_not_there(v2):
    with pytest.raises(Refused, match="snapshot 99 is not in the table"):
        apply(v2, SetSnapshotRef("audit", SnapshotRef(99, "branch")))


@pytest.mark.parametrize(
    ("name", "ref"),
    [
        ("main", SnapshotRef(33, "tag")),
        ("x", SnapshotRef(33, "bookmark")),
        ("x", SnapshotRef(33, "tag", min_snapshots_to_keep=1)),
        ("x", SnapshotRef(33, "tag", max_snapshot_age_ms=1)),
        ("x", SnapshotRef(33, "branch", min_snapshots_to_keep=0)),
        ("x", SnapshotRef(33, "branch", max_snapshot_age_ms=-1)),
        ("x", SnapshotRef(33, "tag", max_ref_age_ms=0)),
    ],
)
def test_r027_retention_settings_are_positive_and_fit_the_kind_of_ref(v2, name, ref):
    with pytest.raises(Refused):
        apply(v2, SetSnapshotRef(name, ref))


def test_a_ref_is_removed_and_its_snapshot_stays(v2):
    removed = apply(v2, RemoveSnapshotRef("first"))
    assert removed.refs.keys() == {"main"}
    assert removed.snapshots == v2.snapshots
    assert apply(removed, RemoveSnapshotRef("first")) == removed


def test_r020_main_is_not_removed_while_there_is_a_snapshot(v2):
    with pytest.raises(Refused, match="main cannot be removed"):
        apply(v2, RemoveSnapshotRef("main"))


def test_properties_are_set_and_removed(v2):
    updates = [SetProperties({"owner": "you", "a": "1"}), RemoveProperties(("a", "absent"))]
    assert apply_all(v2, updates).properties == {"owner": "you"}
    assert v2.properties == {"owner": "root"}


def test_statistics_of_one_snapshot_are_removed(v2):
    removed = apply_all(v2, [RemoveStatistics(11), RemovePartitionStatistics(33)])
    assert [file.snapshot_id for file in removed.statistics] == [33]
    assert [file.snapshot_id for file in removed.partition_statistics] == [22]


def test_r185_schemas_stay_while_they_are_current_or_a_snapshot_names_them(v2):
    newer = tuple(replace(v2.current_schema, schema_id=id_) for id_ in (0, 1, 2))
    evolved = replace(v2, schemas=newer, current_schema_id=2)
    assert apply(evolved, RemoveSchemas((1,))).schemas == (newer[0], newer[2])
    with pytest.raises(Refused, match="schema 2 is the current one"):
        apply(evolved, RemoveSchemas((1, 2)))
    with pytest.raises(Refused, match="schema 0 is that of a snapshot"):
        apply(evolved, RemoveSchemas((0, 1)))


def test_r079_the_default_spec_stays(v2):
    other = replace(v2.default_spec, spec_id=1)
    evolved = replace(v2, partition_specs=(v2.default_spec, other), default_spec_id=1)
    assert apply(evolved, RemovePartitionSpecs((0,))).partition_specs == (other,)
    with pytest.raises(Refused, match="partition spec 1 is the default one"):
        apply(evolved, RemovePartitionSpecs((0, 1)))


def test_updates_apply_in_their_order(v2):
    updates = [AddSnapshot(new_snapshot(4)), SetSnapshotRef("main", SnapshotRef(44, "branch"))]
    assert apply_all(v2, updates).current_snapshot_id == 44
    with pytest.raises(Refused):
        apply_all(v2, reversed(updates))


def test_r014_no_update_lowers_a_counter(v2):
    removed = apply_all(v2, [RemoveSnapshots((11, 22)), RemoveSnapshotRef("first")])
    assert removed.last_sequence_number == 3
    assert (removed.last_column_id, removed.last_partition_id) == (2, 1000)


def test_r017_and_r024_the_replaced_file_enters_the_log_with_its_time(v2):
    written, dropped = with_log(v2, "s3://b/t/metadata/v3.json", 9_000)
    assert written.last_updated_ms == 9_000
    assert written.metadata_log == (
        MetadataLogEntry(2_000, "s3://b/t/metadata/v2.json"),
        MetadataLogEntry(3_000, "s3://b/t/metadata/v3.json"),
    )
    assert dropped == ()


@pytest.mark.parametrize(
    ("keep", "kept", "dropped"),
    [("3", ["b", "c", "d"], ("a",)), ("1", ["d"], ("a", "b", "c")), ("0", ["d"], ("a", "b", "c"))],
)
def test_r024_the_metadata_log_is_bounded_and_what_falls_off_is_named(v2, keep, kept, dropped):
    table = replace(
        v2,
        metadata_log=tuple(MetadataLogEntry(1, name) for name in "abc"),
        properties={"write.metadata.previous-versions-max": keep},
    )
    written, fallen = with_log(table, "d", 9_000)
    assert [entry.metadata_file for entry in written.metadata_log] == kept
    assert fallen == dropped


def test_r024_a_hundred_files_are_kept_without_the_property(v2):
    table = replace(v2, metadata_log=tuple(MetadataLogEntry(1, f"{n}") for n in range(100)))
    written, dropped = with_log(table, "new", 9_000)
    assert len(written.metadata_log) == 100
    assert dropped == ("0",)


def test_r025_a_new_current_snapshot_is_logged_with_its_own_time(v2):
    updates = [AddSnapshot(new_snapshot(4)), SetSnapshotRef("main", SnapshotRef(44, "branch"))]
    written, _ = with_log(apply_all(v2, updates), "old", 9_000)
    assert written.snapshot_log[-1] == SnapshotLogEntry(4_000, 44)
    assert log_ids(written) == [11, 22, 33, 44]


def test_r025_a_snapshot_that_was_there_before_is_current_from_now_on(v2):
    rolled_back = apply(v2, SetSnapshotRef("main", SnapshotRef(11, "branch")))
    written, _ = with_log(rolled_back, "old", 9_000)
    assert written.snapshot_log[-1] == SnapshotLogEntry(9_000, 11)


def test_r025_an_unchanged_current_snapshot_is_not_logged_again(v2):
    written, _ = with_log(apply(v2, SetProperties({"a": "1"})), "old", 9_000)
    assert written.snapshot_log == v2.snapshot_log


def test_r025_the_first_entry_of_a_log_has_the_time_of_its_snapshot(v2):
    written, _ = with_log(replace(v2, snapshot_log=()), "old", 9_000)
    assert written.snapshot_log == (SnapshotLogEntry(3_000, 33),)


def test_r025_a_table_without_a_snapshot_has_no_log(v2):
    empty = replace(v2, current_snapshot_id=None, snapshots=(), refs={}, snapshot_log=())
    assert with_log(empty, "old", 9_000)[0].snapshot_log == ()


@pytest.fixture
def tree(v3) -> TableMetadata:
    """A table of layout sfc-1 whose newest snapshot has a root."""
    upgraded = apply(v3, UpgradeFormatVersion(4))
    rooted = [
        replace(one, manifest_list=None, root_manifest="s3://b/t/root.parquet")
        if one.snapshot_id == upgraded.current_snapshot_id
        else one
        for one in upgraded.snapshots
    ]
    return replace(upgraded, snapshots=tuple(rooted))


def test_v4_030_a_table_keeps_manifest_lists_once_no_snapshot_has_a_root(tree):
    with pytest.raises(Refused, match="has a root"):
        apply(tree, SetLayout(Layout.MANIFEST_LISTS))
    listed = apply(tree, SetManifestList(tree.current_snapshot_id, "s3://b/t/list.avro"))
    left = apply(listed, SetLayout(Layout.MANIFEST_LISTS))
    assert (left.current_snapshot.manifest_list, left.current_snapshot.root_manifest) == (
        "s3://b/t/list.avro",
        None,
    )
    members = metadata_json(left)
    assert "expressions" not in members
    assert not any(
        "expr-id" in field for spec in members["partition-specs"] for field in spec["fields"]
    )
    assert parse_metadata(members) == left


def test_a_table_that_enters_a_layout_again_links_its_specs_anew(tree):
    listed = apply(tree, SetManifestList(tree.current_snapshot_id, "s3://b/t/list.avro"))
    back = apply(apply(listed, SetLayout(Layout.MANIFEST_LISTS)), SetLayout(Layout.SFC_1))
    assert [one.name for one in back.expressions] == [one.name for one in tree.expressions]
    assert back.last_column_id == back.expressions[-1].expr_id > tree.last_column_id


@pytest.mark.parametrize("layout", Layout)
def test_a_table_of_an_older_version_has_no_layout_to_change(v3, layout):
    with pytest.raises(Refused, match="does not become"):
        apply(v3, SetLayout(layout))


@pytest.mark.parametrize(
    "requirement",
    [
        AssertTableUuid(UUID), AssertRefSnapshotId("main", 33), AssertRefSnapshotId("first", 11),
        AssertRefSnapshotId("audit", None), AssertCurrentSchemaId(0), AssertDefaultSpecId(0),
    ],
)  # fmt: skip
def test_requirements_hold_on_the_table_they_were_taken_from(v2, requirement):
    assert check(v2, requirement) is None


@pytest.mark.parametrize(
    ("requirement", "reason"),
    [
        (AssertTableUuid("u"), f"the table's UUID is {UUID}, not u"),
        (AssertRefSnapshotId("main", 22), "ref `main` is at 33, not 22"),
        (AssertRefSnapshotId("main", None), "ref `main` is at 33, not absent"),
        (AssertRefSnapshotId("audit", 11), "ref `audit` is at no snapshot, not 11"),
        (AssertCurrentSchemaId(1), "the current schema is 0, not 1"),
        (AssertDefaultSpecId(1), "the default partition spec is 0, not 1"),
    ],
)
def test_r002_and_r155_a_table_that_changed_is_told_with_the_reason(v2, requirement, reason):
    assert check(v2, requirement) == reason
