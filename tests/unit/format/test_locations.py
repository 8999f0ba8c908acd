"""Locations of version 4: whole ones, and ones below the table's (sfc-1 2.6)."""

from functools import partial

import pytest

from icectl.errors import Unsupported
from icectl.format.locations import (
    absolute_location,
    relative_location,
    with_locations,
    with_scheme,
)
from icectl.format.metadata_json import metadata_json, parse_metadata

TABLE = "s3://b/wh/t"


@pytest.mark.parametrize(
    ("table", "location", "expected"),
    [
        ("/wh/t", "/wh/t/x", "file:/wh/t/x"),
        ("file:///wh/t", "/wh/t/x", "file:/wh/t/x"),
        ("s3://b/t", "s3a://b/t/x", "s3a://b/t/x"),
        ("hdfs://n:8020/t", "/t/x", "hdfs:/t/x"),
    ],
)
def test_l2_a_location_without_a_scheme_gets_that_of_the_table(table, location, expected):
    assert with_scheme(table, location) == expected


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("metadata/root.parquet", "s3://b/wh/t/metadata/root.parquet"),
        ("../u/x", "s3://b/wh/t/../u/x"),
        ("a//b", "s3://b/wh/t/a//b"),
        ("c:/x", "s3://b/wh/t/c:/x"),  # one letter is no scheme
        ("s3a://b/wh/t/x", "s3a://b/wh/t/x"),
        ("file:/x", "file:/x"),
    ],
)
def test_l1_a_relative_location_lies_below_the_table(location, expected):
    assert absolute_location(TABLE, location) == expected
    assert absolute_location(f"{TABLE}/", location) == expected


def test_l1_a_slash_at_the_start_could_mean_two_things():
    with pytest.raises(Unsupported, match="`/wh/t/x` is neither absolute nor relative"):
        absolute_location(TABLE, "/wh/t/x")


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("s3://b/wh/t/metadata/root.parquet", "metadata/root.parquet"),
        ("s3://b/wh/table/x", "s3://b/wh/table/x"),
        ("s3a://b/wh/t/x", "s3a://b/wh/t/x"),
        # What is left would not be read as what it was.
        ("s3://b/wh/t//x", "s3://b/wh/t//x"),
        ("s3://b/wh/t/s3://x", "s3://b/wh/t/s3://x"),
        ("s3://b/wh/t/", "s3://b/wh/t/"),
    ],
)
def test_l4_a_location_below_the_table_is_shortened(location, expected):
    assert relative_location(TABLE, location) == expected
    assert absolute_location(TABLE, expected) == location


def members(**properties: str) -> dict:
    return {
        "format-version": 4,
        "table-uuid": "0b8c1f0e-6f0e-4b8e-9a53-5b6b0a0d8f11",
        "location": TABLE,
        "last-sequence-number": 1,
        "last-updated-ms": 1,
        "last-column-id": 1,
        "schemas": [
            {
                "type": "struct",
                "schema-id": 0,
                "fields": [{"id": 1, "name": "a", "required": False, "type": "int"}],
            }
        ],
        "current-schema-id": 0,
        "expressions": [],
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": properties,
        "current-snapshot-id": 1,
        "next-row-id": 0,
        "refs": {"main": {"snapshot-id": 1, "type": "branch"}},
        "snapshots": [
            {
                "sequence-number": 1,
                "snapshot-id": 1,
                "timestamp-ms": 1,
                "summary": {"operation": "append"},
                "root-manifest": "metadata/root.parquet",
                "schema-id": 0,
                "first-row-id": 0,
                "added-rows": 0,
            }
        ],
        "statistics": [
            {
                "snapshot-id": 1,
                "statistics-path": "metadata/s.puffin",
                "file-size-in-bytes": 1,
                "file-footer-size-in-bytes": 1,
                "blob-metadata": [],
            }
        ],
        "partition-statistics": [
            {"snapshot-id": 1, "statistics-path": "metadata/p", "file-size-in-bytes": 1}
        ],
        "snapshot-log": [],
        "metadata-log": [{"timestamp-ms": 0, "metadata-file": "metadata/v1.metadata.json"}],
    }


def test_l5_locations_of_the_metadata_are_resolved_and_written_as_the_table_wants():
    metadata = parse_metadata(members())
    assert metadata.snapshots[0].root_manifest == f"{TABLE}/metadata/root.parquet"
    assert metadata.statistics[0].statistics_path == f"{TABLE}/metadata/s.puffin"
    assert metadata.partition_statistics[0].statistics_path == f"{TABLE}/metadata/p"
    assert metadata.metadata_log[0].metadata_file == f"{TABLE}/metadata/v1.metadata.json"
    whole = metadata_json(metadata)
    assert whole["snapshots"][0]["root-manifest"] == f"{TABLE}/metadata/root.parquet"
    assert whole["location"] == TABLE
    wanted = members(**{"icectl.v4.relative-locations": "true"})
    assert metadata_json(parse_metadata(wanted)) == wanted


def test_every_location_of_a_snapshot_is_replaced():
    older = members()["snapshots"][0] | {"manifest-list": "m/l.avro", "manifests": ["m/1.avro"]}
    metadata = parse_metadata(members() | {"snapshots": [older]})
    (snapshot,) = with_locations(metadata, partial(relative_location, TABLE)).snapshots
    assert (snapshot.manifest_list, snapshot.manifests) == ("m/l.avro", ("m/1.avro",))
