"""What icectl refuses to open."""

import json

import pytest

from icectl.catalog.files import SingleFileCatalog
from icectl.errors import Unsupported
from icectl.storage.local.store import LocalStore
from icectl.table.context import open_table
from tests.builders.plain_metadata import plain_members


def members(**more):
    """A version 3 table with one snapshot, by hand."""
    return (
        plain_members(
            format_version=3,
            location="s3://b/t",
            last_sequence_number=1,
            next_row_id=0,
            current_snapshot_id=7,
            snapshots=[snapshot()],
        )
        | more
    )


def snapshot(**more):
    return {
        "snapshot-id": 7, "sequence-number": 1, "timestamp-ms": 1000,
        "manifest-list": "s3://b/t/metadata/snap-7.avro", "summary": {"operation": "append"},
        "first-row-id": 0, "added-rows": 0, **more,
    }  # fmt: skip


def opened(directory, content):
    file = directory / "v1.metadata.json"
    file.write_text(json.dumps(content))
    return open_table(SingleFileCatalog(LocalStore(), str(file)))


def test_a_table_that_icectl_knows_is_opened(tmp_path):
    loaded = opened(tmp_path, members())
    assert loaded.metadata.current_snapshot_id == 7
    assert loaded.metadata_location == f"{tmp_path}/v1.metadata.json"


@pytest.mark.parametrize(
    "more",
    [{"properties": {"encryption.key-id": "k1"}}, {"snapshots": [snapshot(**{"key-id": "k1"})]}],
)
def test_r196_an_encrypted_table_is_refused(tmp_path, more):
    with pytest.raises(Unsupported, match="the table is encrypted"):
        opened(tmp_path, members(**more))


def test_r195_keys_that_nothing_uses_are_no_obstacle(tmp_path):
    keys = [{"key-id": "k1", "encrypted-key-metadata": "AA=="}]
    loaded = opened(tmp_path, members(**{"encryption-keys": keys}))
    assert [key["key-id"] for key in loaded.metadata.encryption_keys] == ["k1"]


def test_r001_a_higher_version_is_refused(tmp_path):
    with pytest.raises(Unsupported):
        opened(tmp_path, members(**{"format-version": 5}))
