"""Checks of manifests: what they say of themselves, and what manifest lists say of them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from icectl.entries import faults
from icectl.entries.partition_key import PartitionValue, decode_key, sort_key
from icectl.entries.rows import RawEntries
from icectl.errors import CorruptTable
from icectl.plan.model import Finding, Severity
from icectl.plan.validate.finding import finding
from icectl.spec import single_value
from icectl.spec.manifest import FieldSummary, ManifestFile, ManifestHeader, Status
from icectl.spec.metadata import TableMetadata
from icectl.spec.partition import PartitionSpec, result_types
from icectl.spec.types import Type

_REQUIRED: Mapping[int, tuple[str, ...]] = {
    1: ("schema", "partition-spec"),
    2: ("schema", "partition-spec", "schema-id", "partition-spec-id", "format-version", "content"),
}


def check_manifest(
    metadata: TableMetadata,
    described: Sequence[ManifestFile],
    header: ManifestHeader,
    size_bytes: int,
    rows: RawEntries,
) -> Iterator[Finding]:
    """A manifest against its header and every row of a manifest list that describes it.

    Spec: R-047, R-050, R-051, R-053, R-060, R-061, R-068.
    """
    yield from _header(metadata, described[0], header)
    counts = faults.counts(rows)
    for row in described:
        if row.manifest_length != size_bytes:
            message = f"its length is {row.manifest_length} in the list, {size_bytes} as stored"
            yield finding("R-050", row.manifest_path, message, severity="warning")
        yield from _counts(row, counts)
        yield from _least_number(row, rows)
    spec = metadata.spec(described[0].partition_spec_id)
    if spec is not None:
        yield from _partitions(metadata, spec, described, rows)


def _header(
    metadata: TableMetadata, row: ManifestFile, header: ManifestHeader
) -> Iterator[Finding]:
    subject = row.manifest_path
    absent = [
        name for name in _REQUIRED[min(header.format_version, 2)] if name not in header.metadata
    ]
    if absent:
        message = f"its header lacks `{'`, `'.join(absent)}`"
        # The reference implementation leaves out `schema-id`, and nothing reads it.
        severity: Severity = "info" if absent == ["schema-id"] else "warning"
        yield finding("R-060", subject, message, severity=severity)
    if "content" in header.metadata and header.content is not row.content:
        message = (
            f"its header says {header.content.name.lower()}, the manifest list "
            f"{row.content.name.lower()}"
        )
        yield finding("R-061", subject, message)
    if header.spec_id is not None and header.spec_id != row.partition_spec_id:
        message = (
            f"its header says partition spec {header.spec_id}, the manifest list "
            f"{row.partition_spec_id}"
        )
        yield finding("R-061", subject, message)
    if header.format_version > metadata.format_version:
        message = f"it is of version {header.format_version}, the table {metadata.format_version}"
        yield finding("R-177", subject, message)
    spec = metadata.spec(row.partition_spec_id)
    if spec is not None and not _same_fields(spec, header.partition_fields):
        message = f"its header describes spec {row.partition_spec_id} in another way than the table"
        yield finding("R-060", subject, message, severity="warning")


def _same_fields(spec: PartitionSpec, stored: Sequence[Mapping[str, Any]] | None) -> bool:
    """Whether a header has the transforms of the spec; names may have changed."""
    if stored is None:
        return True
    found = [str(item.get("transform", "")).lower() for item in stored]
    return found == [field.transform.text.lower() for field in spec.fields]


def _counts(row: ManifestFile, counts: Mapping[Status, tuple[int, int]]) -> Iterator[Finding]:
    differing = []
    for status, name in (
        (Status.ADDED, "added"),
        (Status.EXISTING, "existing"),
        (Status.DELETED, "deleted"),
    ):
        listed = getattr(row, f"{name}_files_count"), getattr(row, f"{name}_rows_count")
        for kind, told, found in zip(("files", "rows"), listed, counts[status], strict=True):
            if told is not None and told != found:
                differing.append(f"{told} {name} {kind}, not {found}")
    if differing:
        message = f"the manifest list counts {'; '.join(differing)}"
        yield finding("R-051", row.manifest_path, message)


def _least_number(row: ManifestFile, rows: RawEntries) -> Iterator[Finding]:
    found = faults.live_numbers(rows, row.sequence_number)
    if found is None:
        return
    least, greatest = found
    if row.min_sequence_number > least:
        message = (
            f"its least sequence number is {row.min_sequence_number} in the list, "
            f"but an entry has {least}"
        )
        yield finding("R-047", row.manifest_path, message)
    if greatest > row.sequence_number and row.sequence_number:
        message = f"an entry has sequence number {greatest}, above its own, {row.sequence_number}"
        yield finding("R-044", row.manifest_path, message)


def _partitions(
    metadata: TableMetadata,
    spec: PartitionSpec,
    described: Sequence[ManifestFile],
    rows: RawEntries,
) -> Iterator[Finding]:
    """Partition tuples decode by their spec, and lie inside the summaries (R-053, R-071)."""
    types = result_types(spec, metadata.schemas)
    keys = faults.partition_keys(rows)
    tuples: list[tuple[PartitionValue, ...]] = []
    for key in keys:
        try:
            tuples.append(decode_key(key, types))
        except CorruptTable:
            found = faults.in_partition(rows, key)
            message = "a partition value is not of the type that its spec gives"
            where = "" if found is None else f"; the first is that of `{found.location}`"
            yield finding("R-071", described[0].manifest_path, message + where)
    for row in described:
        if row.partitions is None or len(row.partitions) != len(spec.fields):
            continue
        for at, (field, type_) in enumerate(zip(spec.fields, types, strict=True)):
            problem = _excluded(row.partitions[at], type_, [values[at] for values in tuples])
            if problem is not None:
                message = f"the summary of `{field.name}` {problem}"
                yield finding("R-053", row.manifest_path, message)


def _excluded(
    summary: FieldSummary, type_: Type | None, values: Sequence[PartitionValue]
) -> str | None:
    """What a summary says that a value belies; wider than needed is no fault."""
    if not summary.contains_null and any(value is None for value in values):
        return "says that there is no null, but there is"
    nans = [value for value in values if isinstance(value, float) and math.isnan(value)]
    if summary.contains_nan is False and nans:
        return "says that there is no NaN, but there is"
    ordered = sorted(
        (value for value in values if value is not None and value not in nans), key=sort_key
    )
    if type_ is None or not ordered:
        return None
    for name, bound, extreme in (
        ("lower", summary.lower_bound, ordered[0]),
        ("upper", summary.upper_bound, ordered[-1]),
    ):
        if bound is None:
            return f"has no {name} bound, but there are values"
        try:
            told = single_value.decode(type_, bound)
        except ValueError:
            return f"has a {name} bound that does not decode"
        below, above = sort_key(told), sort_key(extreme)
        if below > above if name == "lower" else below < above:
            return f"has the {name} bound {told!r}, but there is {extreme!r}"
    return None
