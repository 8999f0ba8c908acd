"""Layouts: how a snapshot lists its manifests, and the format of these manifests.

Only this module recognizes layouts. Each layout has a reader (table/manifest_lists.py), a writer
(commit/snapshot_writer.py), checks (commands/validate/lists.py) and a plan for rewriting manifests
(commands/rewrite_manifests/run.py). The folder sfc1 has all code for sfc-1 alone.
"""

from enum import StrEnum

from icectl.format.manifest import FileFormat, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot

LAYOUT_KEY = "icectl.layout"
"""Where the footers of Parquet manifests say their layout (V4-047)."""


class Layout(StrEnum):
    """The layouts that icectl knows.

    Up to version 3 snapshots have lists of manifests, or embed their locations; in the version 4 of
    Iceberg 1.12 too, whose new manifests are in Parquet. In sfc-1 they have a root manifest, which
    lists leaves, files and delete vectors over leaves.
    """

    MANIFEST_LISTS = "manifest-lists"
    SFC_1 = "sfc-1"


LAYOUTS_OF_VERSION_4 = {Layout.SFC_1.value: Layout.SFC_1, "iceberg-1.12": Layout.MANIFEST_LISTS}
"""How a table of version 4 writes its snapshots, by the name of its layout."""


def layout_of_table(metadata: TableMetadata) -> Layout:
    """Return the layout of the snapshots that commits add; older ones may have another."""
    has_roots = metadata.format_version >= 4 and not metadata.keeps_manifest_lists
    return Layout.SFC_1 if has_roots else Layout.MANIFEST_LISTS


def layout_name(metadata: TableMetadata) -> str | None:
    """Name the layout of a table of version 4, whose versions differ by it; None of older ones."""
    if metadata.format_version < 4:
        return None
    written = layout_of_table(metadata)
    return next(name for name, layout in LAYOUTS_OF_VERSION_4.items() if layout is written)


def layout_of(snapshot: Snapshot) -> Layout:
    """Return the layout of a snapshot (V4-030)."""
    return Layout.MANIFEST_LISTS if snapshot.root_manifest is None else Layout.SFC_1


def layout_of_manifest(manifest: ManifestFile) -> Layout:
    """Return the layout that reads a manifest: Avro ones without dead rows are the same in each."""
    if manifest.file_format is FileFormat.AVRO and not manifest.dead:
        return Layout.MANIFEST_LISTS
    return Layout.SFC_1
