"""Every metadata file of other writers is read as it is meant, and loses nothing when printed.

In the quick tier one of each writer, another in each test.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from icectl.errors import CorruptTable
from icectl.files.metadata_file import is_gzip, read_metadata, read_metadata_json, write_metadata
from icectl.format.metadata import TableMetadata
from icectl.format.metadata_json import metadata_json
from tests.interop.conftest import of_each_writer

FIXTURES = Path(__file__).resolve().parents[3] / "shared" / "fixtures"
EXPECTED = FIXTURES / "expected.json"
FACTS: dict[str, Any] = (
    json.loads(EXPECTED.read_text())
    if EXPECTED.exists()
    else {"tables": {}, "files": {}, "metadata_evolution": {}}
)
SINGLE = {
    name: item["facts"] for name, item in FACTS["files"].items() if item["kind"] == "metadata-json"
}
REFUSED = {
    "iceberg-java/metadata-json/TableMetadataV1MissingSchemaType.json": "R-012",
    "iceberg-java/metadata-json/TableMetadataV2CurrentSchemaNotFound.json": "R-011",
    "iceberg-java/metadata-json/TableMetadataV2MissingPartitionSpecs.json": "R-011",
    "iceberg-java/metadata-json/TableMetadataV2MissingSchemas.json": "R-011",
    "iceberg-java/metadata-json/TableMetadataV2MissingSortOrder.json": "R-011",
    "iceberg-rust/metadata-json/TableMetadataV2CurrentSchemaNotFound.json": "R-011",
}
"""What the reference implementation rejects, and the rule that it breaks."""

LISTS = ("metadata-log", "partition-statistics", "snapshot-log", "snapshots", "statistics")
VERSION_1_DEFAULTS: dict[str, Any] = {
    "current-schema-id": 0,
    "default-sort-order-id": 0,
    "sort-orders": [{"order-id": 0, "fields": []}],
}
EVOLVED = [
    f"{case}/{file}" for case, files in FACTS["metadata_evolution"].items() for file in files
]
VERSIONS = {
    f"{name}/{file}": facts
    for name, table in FACTS["tables"].items()
    for file, facts in table["metadata_versions"].items()
}
METADATA_FILES = {*VERSIONS, *SINGLE, *EVOLVED} - REFUSED.keys()


def load(directory: Path, name: str) -> tuple[dict[str, Any], TableMetadata]:
    content = (directory / name).read_bytes()
    return dict(read_metadata_json(content)), read_metadata(content)


def normal(value: Any) -> Any:
    """JSON with what two writers may spell differently spelled in one way, nulls left out."""
    if isinstance(value, dict):
        members = {key: normal(item) for key, item in value.items() if item is not None}
        if members.get("identifier-field-ids") == []:
            del members["identifier-field-ids"]
        if isinstance(members.get("type"), str) and members["type"].startswith("decimal"):
            members["type"] = members["type"].replace(" ", "")
        return members
    return [normal(item) for item in value] if isinstance(value, list) else value


def completed(members: dict[str, Any]) -> dict[str, Any]:
    """What the members mean together with the defaults of their version (R-010, R-015, R-016)."""
    version = members["format-version"]
    full = {"properties": {}} | {name: [] for name in LISTS} | normal(members)
    if full.get("current-snapshot-id", -1) == -1:
        full |= {"current-snapshot-id": -1} if version < 3 else {}
        full.setdefault("refs", {})
    else:
        main = {"snapshot-id": full["current-snapshot-id"], "type": "branch"}
        full["refs"] = {"main": main} | full.get("refs", {})
    if version == 2:
        full["snapshots"] = [{"sequence-number": 0} | item for item in full["snapshots"]]
    if version == 1:
        full = VERSION_1_DEFAULTS | full
        full["schema"] = {"schema-id": 0} | full["schema"]
        full.setdefault("schemas", [full["schema"]])
        fields = full.get("partition-spec")
        specs = full.setdefault("partition-specs", [{"spec-id": 0, "fields": fields}])
        highest = max(specs, key=lambda spec: spec["spec-id"])
        full.setdefault("default-spec-id", highest["spec-id"])
        full.setdefault("partition-spec", highest["fields"])
        ids = [field["field-id"] for spec in specs for field in spec["fields"]]
        full.setdefault("last-partition-id", max(ids, default=999))
    return full


@pytest.mark.parametrize("name", of_each_writer(METADATA_FILES, 3))
def test_r018_printing_a_metadata_file_loses_and_invents_nothing(name, fixtures_dir):
    members, metadata = load(fixtures_dir, name)
    if members["format-version"] == 1 and not members.get("partition-specs"):
        for position, field in enumerate(members["partition-spec"]):
            field.setdefault("field-id", 1000 + position)
    assert normal(metadata_json(metadata)) == completed(members)


@pytest.mark.parametrize("name", of_each_writer(METADATA_FILES, 7))
def test_reading_what_was_printed_gives_an_equal_table(name, fixtures_dir):
    content = (fixtures_dir / name).read_bytes()
    metadata = read_metadata(content)
    assert read_metadata(write_metadata(metadata, compressed=is_gzip(content))) == metadata


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_the_reference_implementation_rejects_is_corrupt_for_the_same_reason(
    name, fixtures_dir
):
    with pytest.raises(CorruptTable) as caught:
        load(fixtures_dir, name)
    assert caught.value.rule == REFUSED[name]


def check(metadata: TableMetadata, facts: dict[str, Any]) -> None:
    assert metadata.format_version == facts["format_version"]
    assert metadata.table_uuid == facts["table_uuid"]
    assert metadata.location == facts["location"]
    assert metadata.current_snapshot_id == facts["current_snapshot_id"]
    assert metadata.next_row_id == facts["next_row_id"]
    assert len(metadata.snapshots) == facts["snapshot_count"]
    assert metadata.last_sequence_number == (facts["last_sequence_number"] or 0)
    refs = metadata_json(metadata)["refs"]
    main = refs.get("main")
    assert refs == {**({"main": main} if main else {}), **facts["refs"]}


@pytest.mark.parametrize("name", of_each_writer(SINGLE.keys() - REFUSED.keys()))
def test_single_files_have_the_facts_that_other_readers_found(name, fixtures_dir):
    facts, (_, metadata) = SINGLE[name], load(fixtures_dir, name)
    check(metadata, facts)
    assert [snapshot.snapshot_id for snapshot in metadata.snapshots] == facts["snapshot_ids"]
    assert len(metadata.schemas) == facts["schemas"]
    assert len(metadata.partition_specs) == facts["specs"]
    assert len(metadata.sort_orders) == (facts["sort_orders"] or 1)
    assert len(metadata.statistics) == facts["statistics"]
    assert len(metadata.partition_statistics) == facts["partition_statistics"]
    assert len(metadata.encryption_keys) == facts["encryption_keys"]


@pytest.mark.parametrize("name", of_each_writer(FACTS["tables"]))
def test_tables_have_the_facts_that_other_readers_found(name, fixtures_dir):
    facts = FACTS["tables"][name]
    _, metadata = load(fixtures_dir, f"{name}/{facts['metadata_file']}")
    check(metadata, facts)
    columns = [
        {"id": field.id, "name": field.name, "required": field.required}
        for field in metadata.current_schema.fields
    ]
    keys = ("id", "name", "required")
    assert columns == [{key: column[key] for key in keys} for column in facts["current_schema"]]
    features = facts["features"]
    assert len(metadata.schemas) == features["n_schemas"]
    assert len(metadata.partition_specs) == features["n_specs"]
    assert metadata.default_spec.is_unpartitioned != features["default_spec_partitioned"]
    assert len(metadata.statistics) == features["statistics"]
    assert len(metadata.metadata_log) == facts["metadata_log"]["count"]
    inline = any(snapshot.manifests is not None for snapshot in metadata.snapshots)
    assert inline == features["v1_inline_manifests"]
    if len(facts["snapshots"]) == len(metadata.snapshots):
        assert [
            (item.snapshot_id, item.parent_snapshot_id, item.sequence_number, item.operation)
            for item in metadata.snapshots
        ] == [
            (
                item["snapshot_id"],
                item["parent_snapshot_id"],
                item["sequence_number"] or 0,
                item["operation"],
            )
            for item in facts["snapshots"]
        ]


@pytest.mark.parametrize("name", of_each_writer(VERSIONS, 1))
def test_every_version_of_a_table_has_the_snapshots_that_other_readers_found(name, fixtures_dir):
    facts, (_, metadata) = VERSIONS[name], load(fixtures_dir, name)
    current = facts["current_snapshot_id"]
    assert metadata.format_version == facts["format_version"]
    assert len(metadata.snapshots) == facts["snapshots"]
    assert metadata.current_snapshot_id == (None if current == -1 else current)
