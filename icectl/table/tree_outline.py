"""What views show of a version 4 root beyond what manifests of every version have."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from icectl.codec.dv import read_bitmap, write_bitmap
from icectl.spec.manifest import ManifestFile, ManifestVector, RootManifest, Status
from icectl.spec.metadata import TableMetadata
from icectl.spec.snapshot import Snapshot
from icectl.storage.location import comparison_key
from icectl.storage.store import Store
from icectl.table.reading import decode_file, read_file
from icectl.table.tree import (
    NONE,
    TreeFacts,
    leaf_rows,
    root_rows,
    vector_positions,
    vector_rows,
)


def root_manifest(store: Store, metadata: TableMetadata, snapshot: Snapshot) -> RootManifest | None:
    """What the root of a snapshot says beside what it lists; None of older versions.

    Order: vectors as in the root.
    Raises: StorageError; CorruptTable; Unsupported.
    """
    location = snapshot.root_manifest
    if location is None:
        return None
    facts = TreeFacts(metadata)
    content = read_file(store, location)
    root = decode_file(location, lambda: root_rows(facts, content, snapshot))
    return RootManifest(location, len(content), len(root), tuple(_vectors(store, root)))


def _vectors(store: Store, root: pa.Table) -> Iterator[ManifestVector]:
    leaves = [str(leaf["location"]) for leaf in leaf_rows(root)]
    listed = {comparison_key(location): location for location in leaves}
    rows = [(row, vector_positions(store, row)) for row in vector_rows(root)]
    gone = {
        comparison_key(row["referenced_file"]): positions
        for row, positions in rows
        if row["status"] == Status.DELETED
    }
    for row, positions in rows:
        key, inline = comparison_key(row["referenced_file"]), row["inline_content"]
        fresh = np.setdiff1d(positions, gone.get(key, NONE))
        yield ManifestVector(
            manifest_path=listed.get(key, row["referenced_file"]),
            status=Status(row["status"]),
            position_count=len(positions),
            fresh_count=len(fresh) if row["status"] == Status.ADDED else 0,
            size_bytes=row["content_size_in_bytes"] if inline is None else len(inline),
            location=row["location"],
        )


def killed_of(manifest: ManifestFile) -> ManifestFile:
    """The same leaf with what is dead in it alive, and the other way round."""
    counts = (
        manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count
    )  # fmt: skip
    places = np.arange(sum(count or 0 for count in counts), dtype=np.uint64)
    alive = np.setdiff1d(places, read_bitmap(manifest.dead))
    return replace(manifest, dead=write_bitmap(alive) if len(alive) else b"")
