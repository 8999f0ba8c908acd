"""The summary view."""

from icectl.commands.inspect.metadata_rows import ALL_MANIFEST_COLUMNS, all_manifest_rows
from icectl.commands.inspect.summary import summary
from icectl.entries.summary import Totals
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.table.reader import SnapshotChoice, chosen_snapshot
from tests.builders.table_builder import TableBuilder

MANIFESTS = (
    ManifestFile("/t/a.avro", 100, 0, ManifestContent.DATA, 1, 1, 5, key_metadata=b"\x01"),
    ManifestFile("/t/b.avro", 50, 0, ManifestContent.DELETES, 2, 1, 6),
)


def test_vectors_and_delete_files_are_told_apart_and_together(tmp_path):
    table = TableBuilder(tmp_path / "t", format_version=3)
    snapshot_id = table.append([1, 2])
    totals = Totals(
        data_file_count=2, data_file_bytes=300, record_count=20,
        position_delete_file_count=1, position_delete_file_bytes=30, position_delete_record_count=3,
        equality_delete_file_count=1, equality_delete_file_bytes=5, equality_delete_record_count=2,
        deletion_vector_count=4, deletion_vector_bytes=7, deletion_vector_record_count=6,
    )  # fmt: skip
    found = summary(
        table.metadata, table.metadata_location, table.metadata.current_snapshot, MANIFESTS, totals
    )
    assert found["snapshot_id"] == found["current_snapshot_id"] == str(snapshot_id)
    assert (found["delete_file_count"], found["delete_file_bytes"]) == (6, 42)
    assert (found["deletion_vector_count"], found["position_delete_record_count"]) == (4, 9)
    assert (found["manifest_count"], found["manifest_bytes"]) == (2, 150)
    assert found["refs"] == {"main": {"snapshot_id": str(snapshot_id), "type": "branch"}}


def test_r015_main_is_the_current_snapshot_even_where_there_is_none(tmp_path):
    empty = TableBuilder(tmp_path / "t").metadata
    assert chosen_snapshot(empty, SnapshotChoice(ref="main")) is None
    found = summary(empty, "/t/v1.metadata.json", None, (), Totals())
    assert (found["snapshot_id"], found["committed_at"], found["operation"]) == (None, None, None)
    assert (found["data_file_count"], found["refs"]) == (0, {})


def test_manifests_of_all_snapshots_come_once_for_each_that_lists_them(tmp_path):
    metadata = TableBuilder(tmp_path / "t").metadata
    rows = list(all_manifest_rows(metadata, {5: MANIFESTS[:1], 6: MANIFESTS}))
    assert [(row["reference_snapshot_id"], row["path"]) for row in rows] == [
        ("5", "/t/a.avro"),
        ("6", "/t/a.avro"),
        ("6", "/t/b.avro"),
    ]
    assert [row["key_metadata"] for row in rows] == ["01", "01", None]
    assert set(rows[0]) == set(ALL_MANIFEST_COLUMNS)
