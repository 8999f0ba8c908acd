"""The metadata tree of a snapshot."""

from dataclasses import replace

import pyarrow as pa

from icectl.commands.inspect.tree_plan import LeftOut, Node, TreeSource, tree, tree_json
from icectl.entries.rows import PLANNING, Entries
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile, Status
from icectl.format.snapshot import Snapshot, SnapshotRef
from tests.builders.plain_metadata import plain_metadata

SNAPSHOT = Snapshot(7, 1_750_000_000_000, 5, 3, "/t/metadata/snap.avro", schema_id=0)
METADATA = plain_metadata(
    last_sequence_number=3,
    last_updated_ms=1_750_000_000_000,
    current_snapshot_id=7,
    snapshots=(SNAPSHOT,),
    refs={"main": SnapshotRef(7, "branch"), "tagged": SnapshotRef(7, "tag")},
)


def manifest(path: str, content: ManifestContent) -> ManifestFile:
    return ManifestFile(path, 100, 0, content, 3, 1, 7, deleted_files_count=0)


def row(manifest_: int, at: int, location: str, sequence: int, **more: object) -> dict[str, object]:
    return {
        "content": int(Content.DATA), "status": int(Status.EXISTING), "location": location,
        "file_format": int(FileFormat.PARQUET), "spec_id": 0, "partition_key": b"",
        "record_count": 10, "file_size_in_bytes": 100 + at, "snapshot_id": 7,
        "sequence_number": sequence, "file_sequence_number": sequence, "manifest": manifest_,
        "manifest_pos": at,
    } | more  # fmt: skip


# Deletes are listed first, as engines do that write them into the newest manifest.
MANIFESTS = (
    manifest("/t/metadata/deletes.avro", ManifestContent.DELETES),
    manifest("/t/metadata/data.avro", ManifestContent.DATA),
)
EQUALITY = {"content": int(Content.EQUALITY_DELETES), "record_count": 1}
ENTRIES = Entries(
    pa.Table.from_pylist(
        [
            row(0, 0, "/t/data/eq", 2, **EQUALITY),
            row(1, 0, "/t/data/gone", 1, status=int(Status.DELETED)),
            row(1, 1, "/t/data/a", 1),
            row(1, 2, "/t/data/b", 1),
            row(1, 3, "/t/data/young", 2),
        ],
        schema=PLANNING,
    )
)


def drawn(limit: int, snapshot: Snapshot | None = SNAPSHOT) -> Node:
    source = TreeSource(METADATA, "/t/metadata/v3.metadata.json", snapshot, MANIFESTS, ENTRIES)
    return tree(source, limit)


def listed(root: Node) -> tuple[Node, ...]:
    (snapshot,) = root.children
    (manifest_list,) = snapshot.children
    return manifest_list.children


def test_data_manifests_come_first_and_deleted_entries_not_at_all():
    data, deletes = listed(drawn(20))
    assert (data.location, deletes.location) == (
        "/t/metadata/data.avro",
        "/t/metadata/deletes.avro",
    )
    assert [file.location for file in data.children] == ["/t/data/a", "/t/data/b", "/t/data/young"]
    assert data.facts["live_file_count"] == 3


def test_r112_an_equality_delete_points_at_the_older_files_only():
    data, deletes = listed(drawn(20))
    (delete,) = deletes.children
    older = tuple(file.id for file in data.children[:2])
    assert (delete.kind, delete.applies_to) == ("equality-deletes", older)
    assert delete.facts["applies_to_count"] == 2


def test_a_limit_hides_targets_but_not_their_number():
    assert listed(drawn(1))[0].left_out == LeftOut(2, 102 + 103)
    (snapshot,) = drawn(1).children
    assert snapshot.children[0].left_out == LeftOut(1, 100)
    (delete,) = listed(drawn(2))[1].children
    assert len(delete.applies_to) == 2


def test_a_snapshot_shows_its_refs_and_a_table_without_one_nothing():
    (snapshot,) = drawn(20).children
    assert snapshot.facts["refs"] == ["main", "tagged"]
    assert drawn(20, None).children == ()


def test_r030_embedded_manifests_hang_on_the_snapshot_itself():
    embedded = replace(SNAPSHOT, manifest_list=None, manifests=("/t/metadata/data.avro",))
    (snapshot,) = drawn(20, embedded).children
    assert [child.kind for child in snapshot.children] == ["manifest", "manifest"]


def test_json_nests_nodes_and_tells_what_was_left_out():
    data, deletes = tree_json(drawn(2))["children"][0]["children"][0]["children"]
    assert (data["kind"], data["children_left_out"]) == ("manifest", 1)
    assert deletes["children"][0]["applies_to"] == [file["id"] for file in data["children"]]
    assert "applies_to" not in data["children"][0]
