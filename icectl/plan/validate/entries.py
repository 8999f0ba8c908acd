"""Checks of manifest entries as they are stored, one manifest at a time."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from icectl.entries import bound_faults, faults
from icectl.entries.bound_faults import BoundTypes
from icectl.entries.faults import Fault
from icectl.entries.rows import RawEntries
from icectl.entries.schema import ALL_COLUMNS
from icectl.plan.model import Finding, Severity
from icectl.plan.validate.finding import finding, is_absolute
from icectl.spec.manifest import ManifestContent, ManifestFile, ManifestHeader, Status
from icectl.spec.metadata import TableMetadata
from icectl.spec.types import PrimitiveType, Type, is_nested

CHECKED_COLUMNS: frozenset[str] = ALL_COLUMNS - {"key_metadata"}
"""What of a manifest the checks look at."""

_DELETED_FILE_PATH, _DELETED_POS = 2_147_483_546, 2_147_483_545
_RESERVED: Mapping[int, Sequence[Type]] = {
    _DELETED_FILE_PATH: (PrimitiveType("string"),),
    _DELETED_POS: (PrimitiveType("long"),),
}


def types_of_bounds(metadata: TableMetadata) -> BoundTypes:
    """The types that bounds of the table's columns may have: those of every schema (R-096)."""
    types: dict[int, list[Type]] = {}
    for schema in metadata.schemas:
        for id_, field in schema.all_fields.items():
            known = types.setdefault(id_, [])
            if not is_nested(field.type) and field.type not in known:
                known.append(field.type)
    return bound_faults.bound_types({id_: found for id_, found in types.items() if found})


def check_entries(
    metadata: TableMetadata,
    manifest: ManifestFile,
    header: ManifestHeader,
    rows: RawEntries,
    types: BoundTypes,
) -> Iterator[Finding]:
    """What the entries of a manifest have wrong; `types` are those of types_of_bounds.

    Spec: R-043, R-048, R-061 to R-064, R-067, R-091, R-092, R-118, R-120, R-122, R-123, R-130,
    R-133, R-164.
    """
    report = _Report(manifest.manifest_path)
    found = faults.of_other_content(rows, manifest.content)
    yield from report("R-061", found, f"other files than of {manifest.content.name.lower()}")
    yield from _numbers(report, manifest, header, rows)
    yield from _files(report, metadata, rows)
    if manifest.content is ManifestContent.DELETES:
        yield from _deletes(report, metadata, header, rows)
    yield from _metrics(report, rows, types)


class _Report:
    """Turns faults of one manifest into findings."""

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def __call__(
        self, rule: str, fault: Fault | None, what: str, severity: Severity | None = None
    ) -> Iterator[Finding]:
        if fault is not None:
            entries = "entry" if fault.count == 1 else "entries"
            said = f"{what} in {fault.count:,} {entries}; the first is `{fault.location}`"
            yield finding(rule, self._subject, said, severity=severity)

    def of_all(self, rule: str, what: str, severity: Severity | None = None) -> Finding:
        """A finding on the manifest as a whole."""
        return finding(rule, self._subject, what, severity=severity)


def _numbers(
    report: _Report, manifest: ManifestFile, header: ManifestHeader, rows: RawEntries
) -> Iterator[Finding]:
    """Snapshot ids and sequence numbers as stored (R-042, R-043, R-048, R-062)."""
    if header.format_version == 1:
        found = faults.with_value(rows, "sequence_number")
        yield from report("R-048", found, "a sequence number of version 2", "warning")
        found = faults.without_value(rows, "snapshot_id")
        yield from report("R-062", found, "no snapshot id, which version 1 requires,", "warning")
    if manifest.added_snapshot_id is None:
        found = faults.without_value(rows, "snapshot_id")
        yield from report("R-042", found, "no snapshot id, and none to inherit,")
    if not manifest.sequence_number:
        return
    found = faults.without_sequence_number(rows, "sequence_number", Status.EXISTING)
    yield from report("R-043", found, "status EXISTING without a data sequence number")
    found = faults.without_sequence_number(rows, "sequence_number", Status.DELETED)
    yield from report("R-043", found, "status DELETED without a data sequence number", "warning")
    # Early writers of version 2 left it out; nothing but change detection reads it.
    found = faults.without_sequence_number(
        rows, "file_sequence_number", Status.EXISTING, Status.DELETED
    )
    yield from report("R-043", found, "no file sequence number", "warning")


def _files(report: _Report, metadata: TableMetadata, rows: RawEntries) -> Iterator[Finding]:
    """What every file has: format, counts, size, place (R-063, R-067, R-164)."""
    yield from report("R-063", faults.of_unknown_format(rows), "an unknown file format")
    for column in ("record_count", "file_size_in_bytes"):
        yield from report("R-063", faults.with_negative(rows, column), f"a negative {column}")
    found = faults.others_with_equality_ids(rows)
    yield from report("R-063", found, "equality ids of what is no equality delete", "warning")
    found = faults.ranges_of_whole_files(rows)
    yield from report("R-063", found, "a content offset of what is no deletion vector", "warning")
    yield from report(
        "R-067",
        faults.unordered_split_offsets(rows),
        "split offsets that do not ascend, or lie outside of the file,",
    )
    if is_absolute(metadata.location):
        found = faults.relative_locations(rows)
        yield from report("R-164", found, "a location that is neither a URI nor an absolute path")
    if metadata.format_version < 3:
        found = faults.with_value(rows, "first_row_id")
        yield from report("R-177", found, "a first row id before version 3", "warning")


def _deletes(
    report: _Report, metadata: TableMetadata, header: ManifestHeader, rows: RawEntries
) -> Iterator[Finding]:
    if header.format_version == 1:
        found = faults.of_other_content(rows, ManifestContent.DATA)
        yield from report("R-120", found, "deletes of version 2")
    if metadata.format_version < 3:
        yield from report("R-177", faults.vectors(rows), "deletion vectors before version 3")
    if header.format_version >= 3:
        found = faults.new_position_deletes(rows)
        yield from report("R-122", found, "position delete files that were added in version 3")
    yield from report(
        "R-118", faults.incomplete_vectors(rows), "a deletion vector without its place or data file"
    )
    yield from report(
        "R-118", faults.misplaced_vectors(rows), "a deletion vector that lies outside of its file"
    )
    found = faults.equality_deletes_without_ids(rows)
    yield from report("R-123", found, "equality deletes without columns to compare")
    yield from _equality_ids(metadata, report, faults.equality_ids(rows))


def _equality_ids(
    metadata: TableMetadata, report: _Report, ids: Collection[int]
) -> Iterator[Finding]:
    """Columns to compare are in a schema, dropped ones in an old one, and are no floats (R-123)."""
    for id_ in ids:
        found = [schema.field(id_) for schema in metadata.schemas]
        types = [field.type for field in found if field is not None]
        if not types:
            yield report.of_all(
                "R-123", f"equality deletes compare column {id_}, which no schema has"
            )
        elif any(isinstance(t, PrimitiveType) and t.name in ("float", "double") for t in types):
            said = f"equality deletes compare column {id_}, which is floating-point"
            yield report.of_all("R-123", said, "warning")
        elif any(is_nested(t) for t in types):
            yield report.of_all("R-123", f"equality deletes compare column {id_}, which is nested")


def _metrics(report: _Report, rows: RawEntries, types: BoundTypes) -> Iterator[Finding]:
    """Counts and bounds of columns (R-091, R-092, R-130, R-133)."""
    yield from report(
        "R-130",
        faults.impossible_counts(rows),
        "counts of nulls or NaN above those of values, or below zero,",
    )
    found = faults.avro_with_column_sizes(rows)
    yield from report("R-133", found, "sizes of columns of Avro files")
    lower = bound_faults.read_bounds(rows, "lower_bounds")
    upper = bound_faults.read_bounds(rows, "upper_bounds")
    for side, bounds in (("lower", lower), ("upper", upper)):
        undecodable = bound_faults.undecodable(rows, bounds, types)
        yield from report("R-091", undecodable, f"a {side} bound that does not decode")
        nan = bound_faults.not_a_number(rows, bounds, types)
        yield from report("R-092", nan, f"NaN as a {side} bound")
    crossed = bound_faults.crossed(rows, lower, upper, types)
    yield from report("R-092", crossed, "a lower bound above the upper one")
