"""Files and rows between two snapshots."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from icectl.commands.inspect.changes_plan import (
    ComparedSnapshots,
    changes,
    ends,
    kind_of,
    own_manifests,
)
from icectl.entries.rows import PLANNING, Entries
from icectl.errors import UsageError
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from tests.builders.table_builder import filled_table


@pytest.fixture
def metadata(tmp_path: Path) -> TableMetadata:
    """Two snapshots, of one file each."""
    return filled_table(tmp_path / "t", [1], [2]).metadata


def entry(location: str, **more: object) -> dict[str, object]:
    return {
        "content": 0, "status": int(Status.EXISTING), "location": location,
        "file_format": int(FileFormat.PARQUET), "spec_id": 0, "partition_key": b"",
        "record_count": 10, "file_size_in_bytes": 100, "manifest": 0, "manifest_pos": 0,
    } | more  # fmt: skip


def entries(*rows: dict[str, object]) -> Entries:
    return Entries(pa.Table.from_pylist(list(rows), schema=PLANNING))


def vector(offset: int, count: int) -> dict[str, object]:
    return entry(
        "/t/d.puffin", content=int(Content.POSITION_DELETES), record_count=count,
        file_format=int(FileFormat.PUFFIN), content_offset=offset, content_size_in_bytes=40,
    )  # fmt: skip


def test_ends_are_the_current_snapshot_and_its_parent(metadata):
    first, second = metadata.snapshots
    assert ends(metadata, None, None) == ComparedSnapshots(first, second)
    assert ends(metadata, None, first.snapshot_id) == ComparedSnapshots(None, first)
    assert ends(metadata, second.snapshot_id, first.snapshot_id) == ComparedSnapshots(second, first)


def test_a_parent_that_expired_has_to_be_named_otherwise(metadata):
    expired = replace(metadata, snapshots=metadata.snapshots[1:])
    with pytest.raises(UsageError, match="has expired"):
        ends(expired, None, None)


def test_manifests_that_both_list_are_left_out():
    def manifest(path: str) -> ManifestFile:
        return ManifestFile(path, 1, 0, ManifestContent.DATA, 1, 1, 7)

    ours = (manifest("a"), manifest("b"))
    assert own_manifests(ours, (manifest("b"), manifest("c"))) == ours[:1]


def test_a_file_that_only_moved_to_another_manifest_is_no_change(metadata):
    between = ends(metadata, None, None)
    before = entries(entry("/t/a"), entry("/t/b"), entry("/t/gone", status=int(Status.DELETED)))
    after = entries(entry("/t/b", manifest_pos=5), entry("/t/c"))
    found = changes(metadata, between, before, after, None)
    assert (found["added_files"], found["added_rows"], found["added_bytes"]) == (1, 10, 100)
    assert (found["removed_files"], found["removed_rows"]) == (1, 10)
    assert [(file["change"], file["file_path"]) for file in found["files"]] == [
        ("added", "/t/c"),
        ("removed", "/t/a"),
    ]


def test_r194_vectors_of_one_puffin_file_are_told_apart_by_offset(metadata):
    between = ends(metadata, None, None)
    found = changes(
        metadata, between, entries(vector(4, 3)), entries(vector(4, 3), vector(44, 5)), None
    )
    assert (found["added_delete_files"], found["removed_delete_files"]) == (1, 0)
    assert found["added_position_deletes"] == 5
    assert found["added_files"] == 0


def test_a_limit_counts_what_it_leaves_out(metadata):
    between = ends(metadata, None, None)
    found = changes(metadata, between, entries(), entries(entry("/t/a"), entry("/t/b")), 1)
    assert (len(found["files"]), found["files_left_out"]) == (1, 1)


def test_before_the_first_snapshot_there_is_nothing(metadata):
    first = metadata.snapshots[0]
    found = changes(
        metadata, ComparedSnapshots(None, first), entries(), entries(entry("/t/a")), None
    )
    assert (found["from_snapshot_id"], found["from_is_ancestor"]) == (None, True)
    nothing = changes(metadata, ComparedSnapshots(first, None), entries(), entries(), None)
    assert (nothing["to_snapshot_id"], nothing["from_is_ancestor"]) == (None, False)


@pytest.mark.parametrize(
    ("content", "file_format", "kind"),
    [
        (Content.DATA, FileFormat.PUFFIN, "data"),
        (Content.POSITION_DELETES, FileFormat.PARQUET, "position-deletes"),
        (Content.POSITION_DELETES, FileFormat.PUFFIN, "deletion-vector"),
        (Content.EQUALITY_DELETES, FileFormat.PARQUET, "equality-deletes"),
    ],
)
def test_r118_content_1_is_a_vector_in_a_puffin_file(content, file_format, kind):
    assert kind_of(content, file_format) == kind
