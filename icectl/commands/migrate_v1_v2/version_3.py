"""What keeps a table from version 3, and which of its writers may not follow: pure (R-174)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from shlex import join

import numpy as np
import pyarrow.compute as pc

from icectl.checks.objects import MetadataFile
from icectl.checks.rule import Finding
from icectl.checks.rules import RULES, finding
from icectl.checks.schemas import SCHEMA_RULES
from icectl.entries.rows import Entries, live, numbers, where
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.table.retention import expiry_of
from icectl.units import print_count, print_instant

VERSION = 3
_OF_SCHEMAS = frozenset(rule.id for rule in SCHEMA_RULES)
_ROW_LINEAGE = ("_row_id", "_last_updated_sequence_number")
"""Names of the columns that writers of version 3 add to data files."""

_FIRST_ICEBERG = (1, 10)
"""The first release of Iceberg for Java that reads and writes all of version 3 (for Spark)."""
_FIRST_TRINO = 480
"""The first release of Trino with deletion vectors."""
_ICEBERG = re.compile(r"Apache Iceberg (\d+)\.(\d+)\b")


def findings_of_metadata(metadata: TableMetadata) -> Iterator[Finding]:
    """Return what the metadata of an older version has that version 3 would take otherwise."""
    upgraded = replace(metadata, format_version=VERSION, next_row_id=0)
    yield from RULES.findings(MetadataFile(metadata, {}), only=("R-182",))
    for item in RULES.findings(MetadataFile(upgraded, {}), only=_OF_SCHEMAS - {"R-007", "R-182"}):
        if item.severity == "error":
            yield item
    schema = metadata.current_schema
    for column in schema.fields:
        if column.name.lower() in _ROW_LINEAGE:
            message = f"column `{column.name}` has a name that version 3 has for its row ids"
            hint = "rename the column with the engine before"
            subject = f"schema {schema.schema_id}"
            yield finding("R-019", subject, message, severity="error", hint=hint)
    numbered = [one.snapshot_id for one in metadata.snapshots if one.first_row_id is not None]
    if numbered:
        message = f"it has a first row id in version {metadata.format_version}"
        hint = _without_snapshots(metadata, numbered)
        yield finding("R-177", f"snapshot {numbered[0]}", message, severity="error", hint=hint)
    yield from _old_writers(metadata)


def _without_snapshots(metadata: TableMetadata, snapshot_ids: Sequence[int]) -> str:
    """Return the hint for snapshots that have to go before an upgrade."""
    expiry = expiry_of(metadata, snapshot_ids, "TABLE")
    heads = {"main": metadata.current_snapshot_id}
    heads |= {name: ref.snapshot_id for name, ref in metadata.refs.items() if ref.type == "branch"}
    rewrites = [
        join(["icectl", "rewrite-manifests", "TABLE", *of_branch, "--rewrite-all"])
        for name, snapshot_id in heads.items()
        for of_branch in [() if name == "main" else ("--branch", name)]
        if snapshot_id in snapshot_ids
    ]
    return ", then ".join([*(f"`{rewrite}`" for rewrite in rewrites), expiry])


def findings_of_head(
    subject: str, version: int, manifests: Sequence[ManifestFile], entries: Entries
) -> Iterator[Finding]:
    """Return what the files of a head have that version 3 would take otherwise."""
    data = [item for item in manifests if item.content is ManifestContent.DATA]
    rewrite = "`icectl rewrite-manifests TABLE --rewrite-all` writes them again, before"
    files = live(entries)
    numbered = sum(item.first_row_id is not None for item in data)
    numbered += len(files) - files.table["first_row_id"].null_count
    if numbered:
        message = f"manifests or files have first row ids in version {version}: {numbered:,}"
        yield finding("R-177", subject, message, severity="error", hint=rewrite)
    short = [
        item.manifest_path
        for item, rows in zip(manifests, _rows_of(manifests, files), strict=True)
        if item.content is ManifestContent.DATA and (item.live_rows or rows) < rows
    ]
    if short:
        message = f"its list counts fewer rows of {print_count(len(short), 'manifest')} than live"
        yield finding("R-051", subject, f"{message}; one is `{short[0]}`", severity="error")
    is_vector = pc.and_(
        pc.equal(files.table["content"], Content.POSITION_DELETES),
        pc.equal(files.table["file_format"], FileFormat.PUFFIN),
    )
    vectors = len(where(files, is_vector))
    if vectors:
        message = f"it has {print_count(vectors, 'deletion vector')} in version {version}"
        yield finding("R-177", subject, message, severity="error")


def is_uncounted(manifest: ManifestFile) -> bool:
    """Return whether its list lacks the counts that row ids go by, as early ones do (R-102)."""
    return manifest.content is ManifestContent.DATA and manifest.live_rows is None


def _rows_of(manifests: Sequence[ManifestFile], files: Entries) -> list[int]:
    totals = np.zeros(len(manifests), np.int64)
    np.add.at(totals, numbers(files, "manifest"), numbers(files, "record_count"))
    rows: list[int] = totals.tolist()
    return rows


def _old_writers(metadata: TableMetadata) -> Iterator[Finding]:
    """Name each engine whose newest snapshot was written by a release without version 3."""
    newest: dict[str, Snapshot] = {}
    in_order = sorted(metadata.snapshots, key=lambda one: (one.sequence_number, one.timestamp_ms))
    for snapshot in in_order:
        newest[(snapshot.summary or {}).get("engine-name", "")] = snapshot
    for engine, snapshot in newest.items():
        release = _old_release(snapshot.summary or {})
        if release is not None:
            at = print_instant(snapshot.timestamp_ms)
            message = f"{release} wrote its snapshot of {at}, and does not know all of version 3"
            hint = "update it before: a table never goes back to an older version"
            subject = f"engine {engine}" if engine else "engine without a name"
            yield finding("R-176", subject, message, severity="warning", hint=hint)


def _old_release(summary: Mapping[str, str]) -> str | None:
    """Return the release that wrote a snapshot if it is too old for version 3, else None."""
    version = summary.get("engine-version", "")
    number = re.match(r"\d+", version)
    if summary.get("engine-name") == "trino" and number and int(number[0]) < _FIRST_TRINO:
        return f"release {version}"
    library = _ICEBERG.search(summary.get("iceberg-version") or summary.get("created-by") or "")
    if library is None or tuple(map(int, library.groups())) >= _FIRST_ICEBERG:
        return None
    of_engine = f"release {version} with " if version else ""
    return f"{of_engine}{library[0]}"
