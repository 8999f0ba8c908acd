"""Metadata JSON objects of each version, written by hand in the order of the reference writer."""

from typing import Any

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "at", "required": False, "type": "timestamptz"},
    ],
}
SPEC_FIELD = {"source-id": 2, "field-id": 1000, "name": "at_day", "transform": "day"}
UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"

SNAPSHOTS = [
    {
        "sequence-number": 1, "snapshot-id": 11, "timestamp-ms": 1_000,
        "summary": {"operation": "append"}, "manifest-list": "s3://b/t/metadata/snap-11.avro",
        "schema-id": 0,
    },
    {
        "sequence-number": 2, "snapshot-id": 22, "parent-snapshot-id": 11, "timestamp-ms": 2_000,
        "summary": {"operation": "append"}, "manifest-list": "s3://b/t/metadata/snap-22.avro",
        "schema-id": 0,
    },
    {
        "sequence-number": 3, "snapshot-id": 33, "parent-snapshot-id": 22, "timestamp-ms": 3_000,
        "summary": {"operation": "overwrite"}, "manifest-list": "s3://b/t/metadata/snap-33.avro",
        "schema-id": 0,
    },
]  # fmt: skip


def members_v1() -> dict[str, Any]:
    """A version 1 table with one snapshot, as a version 1 writer of today leaves it."""
    return {
        "format-version": 1,
        "table-uuid": UUID,
        "location": "s3://b/t",
        "last-updated-ms": 3_000,
        "last-column-id": 2,
        "schema": SCHEMA,
        "current-schema-id": 0,
        "schemas": [SCHEMA],
        "partition-spec": [SPEC_FIELD],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": [SPEC_FIELD]}],
        "last-partition-id": 1000,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"owner": "root"},
        "current-snapshot-id": 11,
        "refs": {"main": {"snapshot-id": 11, "type": "branch"}},
        "snapshots": [
            {
                "snapshot-id": 11,
                "timestamp-ms": 1_000,
                "summary": {"operation": "append"},
                "manifests": ["s3://b/t/metadata/m0.avro", "s3://b/t/metadata/m1.avro"],
                "schema-id": 0,
            }
        ],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [{"timestamp-ms": 1_000, "snapshot-id": 11}],
        "metadata-log": [],
    }


def members_v2() -> dict[str, Any]:
    """A version 2 table with three snapshots, a tag on the first and statistics of two."""
    return {
        "format-version": 2,
        "table-uuid": UUID,
        "location": "s3://b/t",
        "last-sequence-number": 3,
        "last-updated-ms": 3_000,
        "last-column-id": 2,
        "current-schema-id": 0,
        "schemas": [SCHEMA],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": [SPEC_FIELD]}],
        "last-partition-id": 1000,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"owner": "root"},
        "current-snapshot-id": 33,
        "refs": {
            "main": {"snapshot-id": 33, "type": "branch"},
            "first": {"snapshot-id": 11, "type": "tag", "max-ref-age-ms": 600_000},
        },
        "snapshots": [dict(snapshot) for snapshot in SNAPSHOTS],
        "statistics": [
            {
                "snapshot-id": id_,
                "statistics-path": f"s3://b/t/metadata/{id_}.stats",
                "file-size-in-bytes": 413,
                "file-footer-size-in-bytes": 42,
                "blob-metadata": [{"type": "ndv", "snapshot-id": id_, "fields": [1]}],
            }
            for id_ in (11, 33)
        ],
        "partition-statistics": [
            {
                "snapshot-id": id_,
                "statistics-path": f"s3://b/t/metadata/{id_}.parquet",
                "file-size-in-bytes": 99,
            }
            for id_ in (22, 33)
        ],
        "snapshot-log": [
            {"timestamp-ms": 1_000, "snapshot-id": 11},
            {"timestamp-ms": 2_000, "snapshot-id": 22},
            {"timestamp-ms": 3_000, "snapshot-id": 33},
        ],
        "metadata-log": [{"timestamp-ms": 2_000, "metadata-file": "s3://b/t/metadata/v2.json"}],
    }


def members_v3() -> dict[str, Any]:
    """A version 3 table with one snapshot of five rows and an encryption key."""
    members = members_v2() | {"format-version": 3}
    order = list(members)
    snapshot = SNAPSHOTS[0] | {"first-row-id": 0, "added-rows": 5}
    members |= {
        "last-sequence-number": 1,
        "current-snapshot-id": 11,
        "next-row-id": 5,
        "encryption-keys": [{"key-id": "k", "encrypted-key-metadata": "YQ=="}],
        "refs": {"main": {"snapshot-id": 11, "type": "branch"}},
        "snapshots": [snapshot],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [{"timestamp-ms": 1_000, "snapshot-id": 11}],
    }
    position = order.index("current-snapshot-id") + 1
    order[position:position] = ["next-row-id", "encryption-keys"]
    return {name: members[name] for name in order}
