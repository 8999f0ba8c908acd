"""Checks of manifest entries as they are stored, one manifest at a time."""

from collections.abc import Iterator, Mapping, Sequence

from icectl.checks.finding import Finding, Severity, finding, is_absolute
from icectl.checks.searches import entries as faults
from icectl.checks.searches import metrics as metric_faults
from icectl.checks.searches.bounds import SIDES, BoundTypes, bound_faults, bound_types
from icectl.checks.searches.entries import Columns
from icectl.entries.rows import RawEntries
from icectl.entries.schema import ALL_COLUMNS
from icectl.format.manifest import ManifestContent, ManifestFile, ManifestHeader, Status
from icectl.format.metadata import TableMetadata
from icectl.format.rule import Fault
from icectl.format.types import PrimitiveType, Type, is_nested

CHECKED_COLUMNS: frozenset[str] = ALL_COLUMNS - {"key_metadata"}
"""What of a manifest the checks look at."""

_OF_POSITION_DELETES: Mapping[int, Sequence[Type]] = {
    2_147_483_546: (PrimitiveType("string"),),  # file_path
    2_147_483_545: (PrimitiveType("long"),),  # pos
}
"""Columns of position delete files (R-019), whose bounds tell which data files they are for."""


def types_of_bounds(metadata: TableMetadata) -> BoundTypes:
    """The types that bounds of the table's columns may have: those of every schema (R-096)."""
    types = {id_: list(known) for id_, known in _OF_POSITION_DELETES.items()}
    for schema in metadata.schemas:
        for id_, field in schema.all_fields.items():
            known = types.setdefault(id_, [])
            if not is_nested(field.type) and field.type not in known:
                known.append(field.type)
    return bound_types({id_: known for id_, known in types.items() if known})


def top_level_ids(metadata: TableMetadata) -> frozenset[int]:
    """Return the columns of any schema that are in no other: they have one value for each row."""
    return frozenset(field.id for schema in metadata.schemas for field in schema.fields)


def check_entries(
    metadata: TableMetadata,
    manifest: ManifestFile,
    header: ManifestHeader,
    rows: RawEntries,
    types: BoundTypes,
) -> Iterator[Finding]:
    """Check the entries of a manifest; `types` are those of types_of_bounds.

    Spec: R-042, R-043, R-048, R-061 to R-064, R-067, R-091, R-092, R-118, R-120, R-122, R-123,
    R-130, R-133, R-134, R-164, R-177.
    """
    report = _Report(manifest.manifest_path)
    columns = Columns(rows)
    found = faults.of_other_content(columns, manifest.content)
    other = "deletes" if manifest.content is ManifestContent.DATA else "data files"
    yield from report(
        "R-061", found, f"{other} in a manifest of {_told(manifest.content)}"
    )
    yield from _numbers(report, manifest, header, columns)
    yield from _files(report, metadata, columns)
    if manifest.content is ManifestContent.DELETES:
        yield from _deletes(report, metadata, header, columns)
    yield from _metrics(report, columns, types)
    found = metric_faults.counts_of_other_rows(columns, top_level_ids(metadata))
    said = "a count of values of a column that is not the count of rows,"
    yield from report("R-134", found, said)


class _Report:
    """A report of one manifest, which turns faults into findings."""

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def __call__(
        self, rule: str, fault: Fault | None, what: str, severity: Severity | None = None
    ) -> Iterator[Finding]:
        if fault is None:
            return
        where = f"in the entry of `{fault.location}`"
        if fault.count > 1:
            where = f"in {fault.count:,} entries; the first is that of `{fault.location}`"
        yield finding(rule, self._subject, f"{what} {where}", severity=severity)


def _told(content: ManifestContent) -> str:
    return "data files" if content is ManifestContent.DATA else "deletes"


def _numbers(
    report: _Report, manifest: ManifestFile, header: ManifestHeader, columns: Columns
) -> Iterator[Finding]:
    """Snapshot ids and sequence numbers as stored (R-042, R-043, R-048, R-062, R-064)."""
    if header.format_version == 1:
        found = faults.with_value(columns, "sequence_number")
        yield from report("R-048", found, "a sequence number of version 2", "warning")
        found = faults.without_value(columns, "snapshot_id")
        yield from report("R-062", found, "no snapshot id", "warning")
    if manifest.added_snapshot_id is None:
        found = faults.without_value(columns, "snapshot_id")
        yield from report("R-042", found, "no snapshot id, and none to inherit,")
    else:
        # Only what a snapshot added or removed is told by it: live files stay the same.
        for status in (Status.ADDED, Status.DELETED):
            found = faults.of_other_snapshot(columns, status, manifest.added_snapshot_id)
            said = f"status {status.name} of another snapshot than the manifest's"
            yield from report("R-064", found, said, "warning")
    if manifest.sequence_number == 0:
        return  # of version 1
    found = faults.without_value(columns, "sequence_number", Status.EXISTING)
    yield from report("R-043", found, "status EXISTING without a data sequence number")
    found = faults.without_value(columns, "sequence_number", Status.DELETED)
    yield from report("R-043", found, "status DELETED without a data sequence number", "warning")
    # Early writers of version 2 left it out; only the detection of changes reads it.
    found = faults.without_value(columns, "file_sequence_number", Status.EXISTING, Status.DELETED)
    yield from report("R-043", found, "no file sequence number", "warning")


def _files(report: _Report, metadata: TableMetadata, columns: Columns) -> Iterator[Finding]:
    """Check what every file has: format, counts, size, place (R-063, R-067, R-164, R-177)."""
    yield from report("R-063", faults.of_unknown_format(columns), "an unknown file format")
    found = faults.rows_in_puffin_files(columns)
    yield from report("R-063", found, "rows in a Puffin file")
    yield from report("R-063", faults.below(columns, "record_count", 0), "a negative record count")
    found = faults.below(columns, "file_size_in_bytes", 1)
    yield from report("R-063", found, "a file size that no file has")
    found = faults.others_with_equality_ids(columns)
    yield from report("R-063", found, "equality ids of what is no equality delete", "warning")
    found = faults.ranges_of_whole_files(columns)
    yield from report("R-063", found, "a content offset of what is no deletion vector", "warning")
    found = faults.unordered_split_offsets(columns)
    said = "split offsets that do not ascend, or lie outside of the file,"
    yield from report("R-067", found, said)
    found = faults.sorted_position_deletes(columns)
    yield from report("R-067", found, "a sort order of position deletes", "info")
    known = [order.order_id for order in metadata.sort_orders]
    found = faults.of_other_sort_orders(columns, known)
    yield from report("R-067", found, "a sort order that the table does not have", "info")
    if is_absolute(metadata.location):
        found = faults.relative_locations(columns)
        said = "a location that is neither a URI nor an absolute path"
        yield from report("R-164", found, said)
    if metadata.format_version < 3:
        found = faults.with_value(columns, "first_row_id")
        yield from report("R-177", found, "a first row id before version 3", "warning")


def _deletes(
    report: _Report, metadata: TableMetadata, header: ManifestHeader, columns: Columns
) -> Iterator[Finding]:
    """Deletes that the version has, and that say what they delete (R-118, R-120, R-122, R-123)."""
    if metadata.format_version == 1:
        found = faults.of_other_content(columns, ManifestContent.DATA)
        yield from report("R-120", found, "deletes before version 2")
    if metadata.format_version < 3:
        found = faults.vectors(columns)
        yield from report("R-177", found, "deletion vectors before version 3")
    if header.format_version >= 3:
        found = faults.new_position_deletes(columns)
        yield from report("R-122", found, "position delete files added in version 3")
    found = faults.incomplete_vectors(columns)
    yield from report("R-118", found, "a deletion vector without its place or data file")
    found = faults.misplaced_vectors(columns)
    yield from report("R-118", found, "a deletion vector that lies outside of its file")
    found = faults.equality_deletes_without_ids(columns)
    yield from report("R-123", found, "equality deletes without columns to compare")
    yield from _equality_ids(report, metadata, columns)


def _equality_ids(report: _Report, metadata: TableMetadata, columns: Columns) -> Iterator[Finding]:
    """Columns to compare are in a schema, dropped ones in an old one, and are no floats (R-123)."""
    for id_ in faults.equality_ids(columns):
        fields = [schema.field(id_) for schema in metadata.schemas]
        types = [field.type for field in fields if field is not None]
        found = faults.with_equality_id(columns, id_)
        said = f"column {id_} to compare"
        if not types:
            yield from report("R-123", found, f"{said}, which no schema has,")
        elif any(is_nested(type_) for type_ in types):
            yield from report("R-123", found, f"{said}, which is nested,")
        elif any(isinstance(t, PrimitiveType) and t.name in ("float", "double") for t in types):
            yield from report("R-123", found, f"{said}, which is floating-point,", "warning")


def _metrics(report: _Report, columns: Columns, types: BoundTypes) -> Iterator[Finding]:
    """Counts and bounds of columns (R-091, R-092, R-096, R-130, R-133)."""
    found = metric_faults.impossible_counts(columns)
    said = "more nulls or NaN than values in a column, or less than none,"
    yield from report("R-130", found, said)
    found = metric_faults.avro_with_column_sizes(columns)
    yield from report("R-133", found, "sizes of columns of an Avro file")
    bounds = bound_faults(columns, types)
    for side in SIDES:
        said = f"a {side} bound that does not decode"
        yield from report("R-091", bounds.undecodable[side], said)
        yield from report("R-092", bounds.not_a_number[side], f"NaN as a {side} bound")
    yield from report("R-092", bounds.crossed, "a lower bound above the upper one")
