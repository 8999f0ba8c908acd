"""A table, a snapshot, a manifest and its header that nothing is wrong with, to be changed."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from icectl.checks.bound_types import types_of_bounds
from icectl.checks.objects import Columns, ManifestEntries, StoredManifest
from icectl.checks.rule import Finding
from icectl.checks.rules import RULES
from icectl.entries.rows import RawEntries
from icectl.format.manifest import ManifestContent, ManifestFile, ManifestHeader
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.snapshot import Snapshot
from icectl.format.sort import SortOrder
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from tests.builders.entry_rows import entries

MANIFEST = "s3://b/t/metadata/m0.avro"
LIST = "s3://b/t/metadata/snap-70.avro"
SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", PrimitiveType("long"), required=True),
        NestedField(2, "name", PrimitiveType("string"), required=False),
        NestedField(3, "price", PrimitiveType("double"), required=False),
    ),
)
SPEC = PartitionSpec(0, (PartitionField((2,), 1000, "name", parse_transform("identity")),))
FLAT = PartitionSpec(1, ())


def table(version: int = 2, **changes: Any) -> TableMetadata:
    """Spec 0 is by name, spec 1 unpartitioned."""
    healthy = TableMetadata(
        version,
        "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "s3://b/t",
        0 if version == 1 else 9,
        1_750_000_000_000,
        3,
        (SCHEMA,),
        0,
        (SPEC, FLAT),
        1,
        1000,
        (SortOrder(0, ()),),
        0,
        next_row_id=1000 if version > 2 else None,
    )
    return replace(healthy, **changes)


def snapshot(version: int = 2, **changes: Any) -> Snapshot:
    """Snapshot 70 with sequence number 5."""
    healthy = Snapshot(
        70,
        1_750_000_000_000,
        sequence_number=0 if version == 1 else 5,
        manifest_list=LIST,
        first_row_id=100 if version > 2 else None,
    )
    return replace(healthy, **changes)


def manifest(**changes: Any) -> ManifestFile:
    """Of snapshot 70 and spec 1, with one added file of ten rows."""
    healthy = ManifestFile(
        MANIFEST, 1234, 1, ManifestContent.DATA, 5, 5, 70, 1, 0, 0, 10, 0, 0, partitions=()
    )
    return replace(healthy, **changes)


def header(version: int = 2, **changes: Any) -> ManifestHeader:
    """Of the unpartitioned spec 1."""
    said = {"schema": "{}", "partition-spec": "[]"}
    if version > 1:
        said |= {"partition-spec-id": "1", "format-version": str(version), "content": "data"}
    healthy = ManifestHeader(
        version, ManifestContent.DATA, 1, 0, (), {}, said, "deflate", (), (), False
    )
    return replace(healthy, **changes)


def stored(*files: dict[str, Any]) -> RawEntries:
    """Rows as a manifest of snapshot 70 stores them; added ones inherit their numbers."""
    unset = {"snapshot_id": 70, "sequence_number": None, "file_sequence_number": None, "spec_id": 1}
    return RawEntries(entries(*(unset | file for file in files)).table)


def check_entries(
    metadata: TableMetadata, row: ManifestFile, of: ManifestHeader, rows: RawEntries
) -> Iterator[Finding]:
    """Check the entries of a manifest."""
    return RULES.findings(ManifestEntries(metadata, row, of, rows, types_of_bounds(metadata)))


def check_manifest(
    metadata: TableMetadata,
    described: Sequence[ManifestFile],
    of: ManifestHeader,
    size_bytes: int,
    rows: RawEntries,
    only: Collection[str] | None = None,
) -> Iterator[Finding]:
    """Check a manifest against its rows in lists."""
    manifest = StoredManifest(metadata, described, of, size_bytes, Columns(rows))
    return RULES.findings(manifest, only)


def told(findings: Any) -> list[tuple[str, str, str]]:
    """Rule, severity and message of each finding."""
    return [(found.rule, found.severity, found.message) for found in checked(findings)]


def checked(findings: Any) -> list[Finding]:
    """The findings, each about a file of the table and with a next step."""
    found = list(findings)
    assert all(one.subject in (MANIFEST, LIST) and one.hint for one in found)
    return found
