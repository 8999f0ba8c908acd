"""Checks of manifests: what they say of themselves, and what manifest lists say of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from icectl.checks.finding import Finding, Severity, finding
from icectl.checks.partitions import check_partitions
from icectl.checks.searches import entries as faults
from icectl.checks.searches.entries import Columns
from icectl.entries.rows import RawEntries
from icectl.format.manifest import ManifestContent, ManifestFile, ManifestHeader, Status
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec

_READ: Mapping[int, Sequence[str]] = {
    1: ("schema", "partition-spec"),
    2: ("schema", "partition-spec", "partition-spec-id", "format-version", "content"),
}
"""What a header has to say, from a version on. `schema-id` is required too, but neither the
reference implementation nor PyIceberg writes it, and no reader looks for it."""

_NAMES: Mapping[Status, str] = {
    Status.ADDED: "added",
    Status.EXISTING: "existing",
    Status.DELETED: "deleted",
}
_CONTENTS: Mapping[ManifestContent, str] = {
    ManifestContent.DATA: "data",
    ManifestContent.DELETES: "deletes",
}


def check_manifest(
    metadata: TableMetadata,
    described: Sequence[ManifestFile],
    header: ManifestHeader,
    size_bytes: int,
    rows: RawEntries,
) -> Iterator[Finding]:
    """Check a manifest against its header and every row of a manifest list that describes it.

    `described` are the distinct rows that name the manifest; there is at least one.
    Spec: R-044, R-047, R-050, R-051, R-053, R-060, R-061, R-063, R-068, R-071, R-073, R-177, R-212.
    """
    columns = Columns(rows)
    subject = described[0].manifest_path
    yield from _header(metadata, subject, header)
    for row in _of_distinct_kinds(described):
        yield from _kind(metadata, row, header)
    counts = faults.counts(columns)
    for row in described:
        if row.manifest_length != size_bytes:
            message = f"its length is {row.manifest_length} in the list, {size_bytes} as stored"
            yield finding("R-050", subject, message, severity="warning")
        yield from _counts(metadata, row, counts)
        yield from _least_number(row, columns)
    numbers = sorted({row.sequence_number for row in described})
    if len(numbers) > 1:
        message = (
            f"manifest lists give it different sequence numbers, {numbers[0]} and {numbers[-1]}"
        )
        yield finding("R-044", subject, message)
    spec = metadata.spec(described[0].partition_spec_id)
    if spec is not None:
        yield from check_partitions(metadata, spec, described, header, columns)


def _header(metadata: TableMetadata, subject: str, header: ManifestHeader) -> Iterator[Finding]:
    absent = [
        name for name in _READ[2 if header.format_version > 1 else 1] if name not in header.metadata
    ]
    if absent:
        # Whoever reads a manifest through its list and the table metadata does without.
        message = f"its header lacks `{'`, `'.join(absent)}`"
        yield finding("R-060", subject, message, severity="warning")
    if header.format_version > metadata.format_version:
        message = f"it is of version {header.format_version}, the table {metadata.format_version}"
        yield finding("R-177", subject, message)
    if header.has_lengths_of_fixed:
        message = (
            "lengths stand before its fixed partition values, as Iceberg for Java writes and reads "
            "them; by its Avro schema nobody else can read it"
        )
        yield finding("R-212", subject, message)
    if header.unknown_field_ids:
        ids = ", ".join(map(str, header.unknown_field_ids))
        message = f"its entries have fields of no version up to 3, with ids {ids}"
        yield finding("R-063", subject, message, severity="info")


def _of_distinct_kinds(described: Sequence[ManifestFile]) -> Sequence[ManifestFile]:
    """Return one row for each content and spec that manifest lists name."""
    return list({(row.content, row.partition_spec_id): row for row in described}.values())


def _kind(metadata: TableMetadata, row: ManifestFile, header: ManifestHeader) -> Iterator[Finding]:
    """Content and spec are the same in the header and in a manifest list (R-061)."""
    if "content" in header.metadata and header.content is not row.content:
        told, listed = _CONTENTS[header.content], _CONTENTS[row.content]
        message = f"its header says `{told}`, the manifest list `{listed}`"
        yield finding("R-061", row.manifest_path, message)
    if header.spec_id is not None and header.spec_id != row.partition_spec_id:
        message = (
            f"its header says partition spec {header.spec_id}, the manifest list "
            f"{row.partition_spec_id}"
        )
        yield finding("R-061", row.manifest_path, message)
    spec = metadata.spec(row.partition_spec_id)
    if spec is not None and not _same_fields(spec, header.partition_fields):
        message = (
            f"its header has other fields for partition spec {row.partition_spec_id} than the table"
        )
        yield finding("R-061", row.manifest_path, message)


def _same_fields(spec: PartitionSpec, stored: Sequence[Mapping[str, Any]] | None) -> bool:
    """Return whether a header has the sources and transforms of the spec.

    Names may have changed.
    """
    if stored is None:
        return True
    found = [(_sources(item), str(item.get("transform", "")).lower()) for item in stored]
    return found == [
        (list(field.source_ids), field.transform.text.lower()) for field in spec.fields
    ]


def _sources(item: Mapping[str, Any]) -> Any:
    return item["source-ids"] if "source-ids" in item else [item.get("source-id")]


def _counts(
    metadata: TableMetadata, row: ManifestFile, counts: Mapping[Status, tuple[int, int]]
) -> Iterator[Finding]:
    """Check that the counts of a list are those of the entries (R-051).

    A wrong number of live files makes readers pass a manifest over, and a wrong number of rows
    assigns row ids twice (R-102); other counts mislead no reader.
    """
    differing = []
    severity: Severity = "warning"
    for status, name in _NAMES.items():
        listed = getattr(row, f"{name}_files_count"), getattr(row, f"{name}_rows_count")
        for kind, told, found in zip(("files", "rows"), listed, counts[status], strict=True):
            if told is None or told == found:
                continue
            differing.append(f"{told} {name} {kind}, not {found}")
            if status is not Status.DELETED and (kind == "files" or metadata.format_version > 2):
                severity = "error"
    if differing:
        message = f"the manifest list counts {'; '.join(differing)}"
        yield finding("R-051", row.manifest_path, message, severity=severity)


def _least_number(row: ManifestFile, columns: Columns) -> Iterator[Finding]:
    """Sequence numbers of live entries: a least one below them all only costs time (R-047)."""
    found = faults.live_numbers(columns, row.sequence_number)
    if found is None:
        return
    least, greatest = found
    if row.min_sequence_number > least:
        message = (
            f"its least sequence number is {row.min_sequence_number} in the list, "
            f"but an entry has {least}"
        )
        yield finding("R-047", row.manifest_path, message)
    if greatest > row.sequence_number > 0:  # R-044; none counts in version 1
        message = f"an entry has sequence number {greatest}, above its own, {row.sequence_number}"
        yield finding("R-044", row.manifest_path, message)
