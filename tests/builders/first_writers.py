"""Version 1 metadata as its first writers left it."""

import json
from pathlib import Path

from tests.builders.rows import current_metadata, read_avro, read_metadata


def as_first_writers_did(directory: Path, *, embedding: int = 2) -> None:
    """Take out of the metadata what early writers left out, and embed manifests (R-010, R-030)."""
    path = current_metadata(directory)
    members = read_metadata(path)
    for name in ("table-uuid", "schemas", "current-schema-id", "partition-specs"):
        del members[name]
    for name in ("default-spec-id", "last-partition-id", "sort-orders", "default-sort-order-id"):
        del members[name]
    for field in members["partition-spec"]:
        del field["field-id"]
    for snapshot in members["snapshots"]:
        del snapshot["schema-id"]
    for snapshot in members["snapshots"][:embedding]:
        listed = read_avro(snapshot.pop("manifest-list"))
        snapshot["manifests"] = [manifest["manifest_path"] for manifest in listed]
    path.write_text(json.dumps(members))
    for older in path.parent.glob("*.metadata.json"):
        text = json.loads(older.read_text())
        text.pop("table-uuid", None)
        older.write_text(json.dumps(text))
