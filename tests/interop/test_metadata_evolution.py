"""Our updates give the metadata that the Java library gives for the same operation.

Cases that change schemas or specs are read and printed only: icectl has no updates for them.
"""

import json

import pytest

from icectl.files.metadata_file import read_metadata
from icectl.format.metadata_json import metadata_json, parse_metadata
from icectl.format.snapshot import SnapshotRef
from icectl.format.updates import RemoveSnapshotRef, SetSnapshotRef, Update, apply_all, with_log

FIRST, SECOND = 3051729675574597004, 3055729675574597004
CASES: dict[str, list[Update]] = {
    "manage_snapshots__remove_and_rename": [
        RemoveSnapshotRef("stable"),
        SetSnapshotRef("feature", SnapshotRef(SECOND, "branch")),
        RemoveSnapshotRef("dev"),
    ],
    "manage_snapshots__retention": [
        SetSnapshotRef("dev", SnapshotRef(SECOND, "branch", 5, 86_400_000)),
        SetSnapshotRef("stable", SnapshotRef(FIRST, "tag", max_ref_age_ms=604_800_000)),
    ],
    "manage_snapshots__rollback_to_ancestor": [
        SetSnapshotRef("main", SnapshotRef(FIRST, "branch"))
    ],
    "manage_snapshots__rollback_to_time": [SetSnapshotRef("main", SnapshotRef(FIRST, "branch"))],
}


@pytest.mark.parametrize("case", CASES)
def test_updates_give_the_table_that_java_writes(case, fixtures_dir):
    directory = fixtures_dir / "iceberg-rust-interop" / case
    base = read_metadata((directory / "base.metadata.json").read_bytes())
    by_java = read_metadata((directory / "java_evolved.metadata.json").read_bytes())
    assert by_java != base
    previous = by_java.metadata_log[-1].metadata_file
    evolved, dropped = with_log(
        apply_all(base, CASES[case]), previous, now_ms=by_java.last_updated_ms
    )
    assert evolved == by_java
    assert dropped == ()


@pytest.mark.parametrize("case", CASES)
def test_a_rust_writer_reaches_the_same_refs_and_history(case, fixtures_dir):
    directory = fixtures_dir / "iceberg-rust-interop" / case
    base = read_metadata((directory / "base.metadata.json").read_bytes())
    by_rust = read_metadata((directory / "rust_evolved.metadata.json").read_bytes())
    evolved = apply_all(base, CASES[case])
    assert evolved.refs == by_rust.refs
    assert evolved.current_snapshot_id == by_rust.current_snapshot_id
    assert evolved.snapshots_by_id == by_rust.snapshots_by_id


@pytest.mark.parametrize(
    "name",
    [
        "iceberg-rust-interop/manage_snapshots__retention/java_evolved.metadata.json",
        "iceberg-rust-interop/update_schema__set_identifier_fields/java_evolved.metadata.json",
        "impala/iceberg_v3_deletion_vectors/metadata/v3.metadata.json",
    ],
)
def test_members_are_written_in_the_order_of_the_java_writer(name, fixtures_dir):
    stored = json.loads((fixtures_dir / name).read_text())
    assert ordered(metadata_json(parse_metadata(stored))) == ordered(stored)


def ordered(value: object) -> object:
    """JSON with the order of its members made part of its value; maps by name keep theirs."""
    if isinstance(value, dict):
        members = [(key, ordered(item)) for key, item in value.items()]
        by_name = {"properties", "summary", "refs"}
        return [(key, sorted(item) if key in by_name else item) for key, item in members]
    return [ordered(item) for item in value] if isinstance(value, list) else value
