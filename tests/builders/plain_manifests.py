"""Manifests and manifest lists by icectl's own writers, with what tests seldom choose."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from icectl.entries.rows import RawEntries
from icectl.files.manifest.manifest_list import write_manifest_list
from icectl.files.manifest.write import write_manifest
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from tests.builders.avro import SYNC


def manifest_of(table: pa.Table, schema: Schema, spec: PartitionSpec, **chosen: Any) -> bytes:
    """A manifest of entries: version 2, data, of no snapshot, unless others are chosen."""
    usual = {"format_version": 2, "content": ManifestContent.DATA, "snapshot_id": None}
    members: dict[str, Any] = usual | {"sync_marker": SYNC} | chosen
    return write_manifest(RawEntries(table), schema=schema, spec=spec, **members)


def list_of(
    manifests: Iterable[ManifestFile], snapshot_id: int, sequence_number: int, **chosen: Any
) -> bytes:
    """A manifest list: of version 2 and of a snapshot without parent, unless others are chosen."""
    members: dict[str, Any] = {"format_version": 2, "parent_snapshot_id": None, "sync_marker": SYNC}
    members |= {"snapshot_id": snapshot_id, "sequence_number": sequence_number} | chosen
    return write_manifest_list(manifests, **members)
